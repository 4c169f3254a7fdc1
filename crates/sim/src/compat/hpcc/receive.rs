//! Receivers: in order, early or late, and what is answered.

use super::packet::{Kind, Packet, CE, CNP, NONE};
use super::world::World;

/// Time in which a receiver repeats no NACK for the same byte.
const NACK_INTERVAL: u64 = 500_000_000;

impl World {
    /// A data packet has come in at its receiver.
    #[inline]
    pub fn on_data(&mut self, packet: u32) {
        let Packet { flow, seq, wire, flags, .. } = self.packets[packet];
        let payload = wire as u32 - self.data_overhead;
        let plan = &self.plan;
        let recv = &mut self.recv[flow as usize];
        let host = &mut self.host_counters[recv.host as usize];
        let marked = flags & CE != 0;
        host.marked += marked as u64;
        recv.marked += marked as u64;
        let kind = if seq == recv.expected {
            recv.expected = recv.expected.wrapping_add(payload);
            recv.delivered += payload as u64;
            self.delivered += 1;
            host.goodput_rx += payload as u64;
            let due = recv.expected >= plan.l2_ack_interval_bytes
                || plan.l2_chunk_bytes > 0 && recv.expected.is_multiple_of(plan.l2_chunk_bytes);
            due.then_some(Kind::Ack)
        } else if seq > recv.expected {
            recv.out_of_sequence += 1;
            host.out_of_sequence += 1;
            let due = self.now >= recv.nack_timer || recv.last_nack != recv.expected;
            if due {
                recv.nack_timer = self.now + NACK_INTERVAL;
                recv.last_nack = recv.expected;
                if plan.back_to_zero {
                    recv.expected = recv.expected / plan.l2_chunk_bytes * plan.l2_chunk_bytes;
                }
            }
            due.then_some(Kind::Nack)
        } else {
            recv.duplicate += 1;
            host.duplicate += 1;
            // Not there; but without it a timer's repetitions after a lost ACK would never be answered.
            (plan.departures.retransmission_timeout_ns > 0).then_some(Kind::Ack)
        };
        let (Some(kind), true) = (kind, recv.port != NONE) else {
            self.packets.remove(packet);
            return;
        };
        let mut flag = marked;
        if flag && plan.departures.cnp_interval_ns > 0 {
            let interval = plan.departures.cnp_interval_ns * 1000;
            flag = recv.flagged.is_none_or(|last| self.now - last >= interval);
            if flag {
                recv.flagged = Some(self.now);
            }
        }
        recv.cnp_sent += flag as u64;
        host.cnp_sent += flag as u64;
        // The packet becomes its own ACK.
        let (expected, port, route) = (recv.expected, recv.port, recv.ack_route);
        let ack = &mut self.packets[packet];
        ack.kind = kind;
        ack.seq = expected;
        ack.wire = self.ack_bytes as u16;
        ack.route = route;
        ack.flag(if flag { CNP } else { 0 });
        let owner = self.ports[port as usize].owner as usize;
        self.nics[owner].acks.push(&mut self.packets, packet);
        self.transmit(port);
    }
}
