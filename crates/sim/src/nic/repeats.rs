//! Compares NICs and their queue pairs with their state some time ago: see `tailback_proto::repeats`.

use tailback_proto::repeats::Walk;

use super::qp::{RecvQp, SendQp};
use super::{Nic, NicCounters, Nics};
use crate::workload::Writer;

/// Messages of at least this many packets repeat within one message, since from one message to the next takes
/// too long. Assumption: from this size on, 64 MB at an MTU of 4,096 B, a repeat takes a small part of a
/// message.
const LONG_MESSAGE: u64 = 16_384;

impl Writer {
    /// Where a queue pair is in its messages. None: in the middle of a long one. Otherwise the position
    /// within the messages that share a completion. What comes next is the same at the same position.
    fn place(&self, s: &SendQp) -> Option<u64> {
        let (una, next) = (s.half.requester.acknowledged(), s.half.requester.next_sequence());
        let packets = self.writes.packets_per_message;
        let within = packets >= LONG_MESSAGE && una % packets > 0 && next / packets == una / packets;
        (!within).then(|| una % (packets * self.completion_every))
    }
}

impl Nic {
    fn walk(&mut self, by: &mut impl Walk) {
        let Nic {
            port: _,
            model: _,
            marks_ce,
            arbiter,
            backlog_bytes,
            counters,
            goodput_tx_bytes,
            goodput_rx_bytes,
            host_path: _,
            data_ready,
        } = self;
        by.state(*marks_ce as u64);
        by.until(data_ready);
        arbiter.walk(by);
        for bytes in backlog_bytes {
            let mut counter = *bytes as u64;
            by.counter(&mut counter);
            *bytes = counter as i64;
        }
        let NicCounters { rdma, cnp_delay_ns } = &mut **counters;
        // The time that a CNP was on its way is counted in whole nanoseconds of the clock.
        by.states([rdma.np_cnp_sent, rdma.rp_cnp_handled]);
        rdma.walk(by);
        by.counters([cnp_delay_ns, goodput_tx_bytes, goodput_rx_bytes]);
    }
}

impl SendQp {
    fn walk(&mut self, within: bool, by: &mut impl Walk) {
        let SendQp {
            number: _,
            half,
            congestion: _,
            telemetry_bytes: _,
            controller_event_at,
            prober,
            scheduled,
            state,
            class: _,
            code_point: _,
            src: _,
            dst: _,
            writer: _,
            timer_event_at: _, // an event that finds nothing to do: see `simulation::skipping::exact`
            messages_posted,
            start: _,
            end: _,
            packets_sent,
            packets_retransmitted,
            packet_seq_err,
            local_ack_timeout_err,
            rp_cnp_handled,
            at_min_rate,
        } = self;
        by.state((*state as u64) << 1 | *scheduled as u64);
        by.at(controller_event_at);
        half.walk(by, within);
        if prober.is_some() {
            by.unlike();
        }
        // The time of the latest wait would have to move on, too.
        by.state(at_min_rate.as_ref().map_or(0, |waits| waits.waited.0));
        by.states([*packets_retransmitted, *packet_seq_err, *local_ack_timeout_err, *rp_cnp_handled]);
        by.counters([messages_posted, packets_sent]);
    }
}

impl RecvQp {
    fn walk(&mut self, una: u64, by: &mut impl Walk) {
        let RecvQp {
            half,
            bytes_delivered,
            np_ecn_marked_roce_packets,
            np_cnp_sent,
            notification_point: _,
            src: _,
            telemetry_bytes: _,
            congestion: _,
            sends_cnps: _,
            echoes: _,
            is_awaited,
            message_end: _,
            answered_by,
            probes,
            own_cnps,
            out_of_sequence,
            duplicate_request,
        } = self;
        half.walk(by, una);
        own_cnps.walk(by);
        by.state(*probes as u64);
        if *is_awaited || answered_by.is_some() {
            by.unlike();
        }
        by.states([*np_cnp_sent, *out_of_sequence, *duplicate_request]);
        by.counters([bytes_delivered, np_ecn_marked_roce_packets]);
    }
}

impl Nics {
    /// See `tailback_proto::repeats`.
    pub fn walk(&mut self, by: &mut impl Walk) {
        let Nics {
            nics,
            models: _,
            host_paths,
            memory_loads: _,
            slots: _,
            send_qps,
            recv_qps,
            notification_points,
            free_points: _,
            writers,
            latency_tests,
            ideal_fct: _,
            first_flow_qp: _,
            messages: _,
            gone_bytes: _,
            tells_ends: _,
            shared_points: _,
            pair_counts: _, // what is told is counted elsewhere, too
        } = self;
        if !host_paths.is_empty() || !latency_tests.is_empty() {
            by.unlike();
        }
        for (s, r) in send_qps.iter_mut().zip(recv_qps) {
            if by.is_over() {
                return;
            }
            let writer = &writers[s.writer as usize];
            let place = writer.place(s);
            by.state(place.unwrap_or(u64::MAX));
            by.state(writer.stopped as u64);
            s.walk(place.is_none(), by);
            r.walk(s.half.requester.acknowledged(), by);
        }
        notification_points.iter_mut().for_each(|point| point.walk(by));
        nics.iter_mut().for_each(|nic| nic.walk(by));
    }

    /// Where a queue pair is in its messages: see [`Writer::place`].
    pub fn place(&self, qp: usize) -> Option<u64> {
        let s = &self.send_qps[qp];
        self.writers[s.writer as usize].place(s)
    }

    /// Packets of one of its messages.
    pub fn packets_per_message(&self, qp: usize) -> u64 {
        self.writers[self.send_qps[qp].writer as usize].writes.packets_per_message
    }

    /// Packets of all messages that share a completion.
    pub fn packets_to_a_completion(&self, qp: usize) -> u64 {
        self.packets_per_message(qp) * self.writers[self.send_qps[qp].writer as usize].completion_every
    }

    /// How many times a queue pair may go on by `packets`, with `messages` posted meanwhile, before something
    /// happens that did not happen among these. None: any number of times.
    pub fn repeats(&self, qp: usize, packets: u64, messages: u64) -> Option<u64> {
        let s = &self.send_qps[qp];
        let writer = &self.writers[s.writer as usize];
        if writer.place(s).is_none() {
            // The last packet of the message is left for later.
            let size = writer.writes.packets_per_message;
            let next = s.half.requester.next_sequence();
            return ((next / size + 1) * size - 1 - next).checked_div(packets);
        }
        // One message is left for later.
        writer.messages.and_then(|all| (all - s.messages_posted).saturating_sub(1).checked_div(messages))
    }
}
