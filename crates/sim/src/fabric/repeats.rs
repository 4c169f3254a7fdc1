//! Whether a fabric is as it was some time ago: see `tailback_proto::repeats`.
//!
//! What is only recorded, and what nothing but a failure changes, is left out. Where packets are lost, or pauses are or were asked
//! for, nothing is the same.

use tailback_proto::repeats::Walk;

use super::packet::{DataTally, Kind, Packet};
use super::pause::Pausing;
use super::port::{ClassQueue, Port, LOSSY};
use super::switch::IngressGroup;
use super::{Fabric, CLASSES};
use crate::engine::{Arena, Fifo};

/// Of a list of packets, as they stand from the first unacknowledged ones of their queue pairs.
fn walk_list(list: Fifo, packets: &mut Arena<Packet>, una: &[u64], on_link: bool, by: &mut impl Walk) {
    let (mut count, mut next) = (0, list.head());
    while let Some(index) = next {
        let packet = &mut packets[index];
        let Packet { arrival: _, qp, detail: _, next: _, wire_bytes, amount: _, .. } = *packet;
        let Packet { dst, ingress, kind, class, flags, code_point, .. } = *packet;
        // The first of these bytes differs by kind.
        by.state(u64::from_be_bytes([kind as u8 + 1, class, flags, code_point, 0, 0, 0, 0]) | qp as u64);
        by.state((wire_bytes as u64) << 32 | (dst as u64) << 16 | ingress as u64);
        match kind {
            Kind::Data => {
                by.state(packet.position_from(una[qp as usize]) << 32 | packet.payload_bytes() as u64)
            }
            Kind::Ack => by.state(packet.position_from(una[qp as usize])),
            _ => by.unlike(),
        }
        match on_link {
            true => by.at(&mut packet.arrival),
            // Of one that waits Little's law alone wants to know when it came.
            false => by.noted(&mut packet.arrival),
        }
        count += 1;
        next = list.after(packets, index);
    }
    by.state(count);
}

impl Port {
    fn walk(&mut self, by: &mut impl Walk) {
        let Port {
            busy_until,
            wake_at,
            arrival_delay: _,
            in_flight: _,
            wire_bytes,
            peer: _,
            owner: _,
            peer_owner: _,
            ps_per_byte: _,
            backlogged,
            paused,
            strict: _,
            last_class,
            pfc_pending,
            flags,
            up,
            byte_shift: _,
        } = self;
        by.state(u64::from_le_bytes([*backlogged, *paused, *last_class, *pfc_pending, *up as u8, 0, 0, 0]));
        if *flags & LOSSY != 0 {
            by.unlike(); // each packet draws a number
        }
        by.until(busy_until);
        by.at(wake_at);
        by.counter(wire_bytes);
    }
}

impl ClassQueue {
    fn walk(&mut self, by: &mut impl Walk) {
        let ClassQueue {
            fifo: _,
            bytes,
            max_bytes: _,
            over_time,
            rx_packets,
            rx_bytes,
            tx_packets,
            tx_bytes,
        } = self;
        by.state(*bytes as u64);
        over_time.walk(by);
        by.counters([rx_packets, rx_bytes, tx_packets, tx_bytes]);
    }
}

impl IngressGroup {
    fn walk(&mut self, by: &mut impl Walk) {
        let IngressGroup {
            shared,
            headroom,
            max_bytes: _,
            max_shared: _,
            max_headroom: _,
            asserted,
            over_time,
            rx_packets,
            rx_bytes,
        } = self;
        by.state((*shared as u64) << 32 | *headroom as u64);
        if *asserted {
            by.unlike();
        }
        over_time.walk(by);
        by.counters([rx_packets, rx_bytes]);
    }
}

impl Pausing {
    fn walk(&self, by: &mut impl Walk) {
        let Pausing { source, held: _, frames: _ } = self;
        if source.asserted() {
            by.unlike();
        }
    }
}

impl Fabric {
    /// See `tailback_proto::repeats`. `una`: by queue pair the first packet that is not acknowledged. Streams of random numbers and
    /// what is to happen are apart.
    pub fn walk(&mut self, una: &[u64], used: &[bool; CLASSES], by: &mut impl Walk) {
        let Fabric {
            run: _,
            packets,
            telemetry: _, // for controllers whose state never comes back
            cut: _,
            taps: _,
            hosts: _,
            nodes: _,
            classes: _,
            ports,
            links: _, // a port says whether packets are lost behind it
            pfc_response_delay: _,
            pfc_quanta: _,
            ecn_streams: _,
            marking: _,
            ets,
            queues,
            marked,
            groups,
            pausing,
            pauses,
            drops: _,
            dropped,
            pause_logs: _,
            pause_frames,
            watchdogs,
            switches,
            routes: _,
            link_epochs: _,
            transmissions,
            data,
            lossless_drops: _,
        } = self;
        let DataTally { sent, delivered, duplicate, out_of_sequence, dropped: lost } = data;
        by.states([*duplicate, *out_of_sequence, *lost, pause_frames.sent]);
        by.counters([sent, delivered]);
        transmissions.iter_mut().for_each(|counter| by.counter(counter));
        if !watchdogs.is_empty() {
            by.unlike();
        }
        switches.iter().for_each(|switch| switch.walk(by));
        ets.iter().for_each(|ets| ets.walk(by));
        for (port, p) in ports.iter_mut().enumerate() {
            if by.is_over() {
                return;
            }
            let in_flight = p.in_flight;
            p.walk(by);
            walk_list(in_flight, packets, una, true, by);
            for class in (0..CLASSES as u8).filter(|class| used[*class as usize]) {
                let at = (port, class);
                queues[at].walk(by);
                walk_list(queues[at].fifo, packets, una, false, by);
                groups[at].walk(by);
                pausing[at].walk(by);
                if pauses[at].is_paused() {
                    by.unlike();
                }
                by.states(dropped[at]);
                by.counter(&mut marked[at]);
            }
        }
    }
}
