//! The books: what went in must have come out, be on its way, or have been dropped with a reason.

use crate::fabric::packet::Kind;
use crate::fabric::{lane, port_and_class, CLASSES};
use crate::world::World;

use super::meta::{Conservation, DataPackets};

/// Checks every queue, every shared buffer and the run as a whole. Returns the sums and a line for each error.
pub(super) fn audit(world: &World) -> (Conservation, Vec<(String, String)>) {
    let mut errors = Vec::new();
    let mut in_flight = 0u64;
    let mut checked = 0;
    let mut buffered = vec![0u64; world.switches.len()];
    let mut charged = vec![0u64; world.groups.len()];
    for (at, queue) in world.queues.iter().enumerate() {
        let (port, class) = port_and_class(at);
        let name = || format!("{}/tc{class}", world.links[port].name);
        let switch = (world.ports[port].owner as usize).checked_sub(world.nics.len());
        let (mut packets, mut bytes) = (0u64, 0u64);
        for packet in queue.fifo.iter(&world.packets) {
            packets += 1;
            bytes += packet.frame_bytes() as u64;
            in_flight += (packet.kind == Kind::Data) as u64;
            if let Some(switch) = switch {
                let in_port = world.switches[switch].first_port as usize + packet.ingress as usize;
                charged[lane(in_port, class)] += packet.frame_bytes() as u64;
            }
        }
        if let Some(switch) = switch {
            buffered[switch] += bytes;
        }
        checked += (queue.enqueued > 0) as u64;
        if bytes != queue.bytes as u64 {
            errors.push((name(), format!("counts {} B but holds {bytes} B", queue.bytes)));
        }
        if queue.enqueued != queue.tx_packets + packets {
            errors.push((
                name(),
                format!(
                    "{} packets came in, {} went out and {packets} are left",
                    queue.enqueued, queue.tx_packets
                ),
            ));
        }
    }
    for (at, group) in world.groups.iter().enumerate() {
        let (port, class) = port_and_class(at);
        if charged[at] != group.bytes() as u64 {
            errors.push((
                format!("{}/pg{class}", world.links[port].name),
                format!("is charged {} B but {} B of its packets are queued", group.bytes(), charged[at]),
            ));
        }
    }
    for (index, switch) in world.switches.iter().enumerate() {
        let groups = world.groups[switch.first_port as usize * CLASSES..].iter();
        let own = world.ports.iter().filter(|port| port.owner as usize == world.nics.len() + index).count();
        let headroom: u64 = groups.take(own * CLASSES).map(|group| group.headroom as u64).sum();
        if buffered[index] != switch.shared_used + headroom {
            errors.push((
                format!("buffer of switch {index}"),
                format!(
                    "{} B shared and {headroom} B headroom in use, {} B queued",
                    switch.shared_used, buffered[index]
                ),
            ));
        }
    }
    for port in &world.ports {
        in_flight += port.in_flight.iter(&world.packets).filter(|p| p.kind == Kind::Data).count() as u64;
    }
    let data = &world.data;
    let discarded = data.out_of_sequence + data.duplicate;
    let packets = DataPackets {
        sent: data.sent,
        delivered: data.delivered,
        dropped: data.dropped,
        discarded_out_of_order: data.out_of_sequence,
        discarded_duplicate: data.duplicate,
        in_flight,
    };
    if data.sent != data.delivered + discarded + data.dropped + in_flight {
        errors.push(("the run".into(), format!("data packets do not add up: {packets:?}")));
    }
    let delivered_bytes: u64 = world.recv_qps.iter().map(|r| r.bytes_delivered).sum();
    let received_bytes: u64 = world.nics.iter().map(|nic| nic.counters.goodput_rx_bytes).sum();
    if delivered_bytes != received_bytes {
        errors.push((
            "the run".into(),
            format!("queue pairs delivered {delivered_bytes} B, hosts received {received_bytes} B"),
        ));
    }
    for (qp, (s, r)) in world.send_qps.iter().zip(&world.recv_qps).enumerate() {
        let writer = &world.writers[s.writer as usize];
        let full = r.responder.received() / writer.packets_per_message;
        let rest = r.responder.received() % writer.packets_per_message;
        let expected = full * writer.message_bytes + rest * writer.mtu as u64;
        if r.bytes_delivered != expected {
            errors.push((
                format!("queue pair {qp}"),
                format!("delivered {} B where its packets carry {expected} B", r.bytes_delivered),
            ));
        }
        if s.requester.acknowledged() > r.responder.received() {
            errors.push((format!("queue pair {qp}"), "has packets acknowledged that never arrived".into()));
        }
    }
    (Conservation { checked_queues: checked, data_packets: packets, ok: errors.is_empty() }, errors)
}
