//! The books: every queue and every switch holds what it says, and every data packet is somewhere.

use tailback_proto::units::Time;

use super::packet::Kind;
use super::port::LANES;
use super::world::World;
use crate::engine::Fifo;
use crate::record::{Conservation, DataPackets};

/// The result, and what did not add up: place and text.
pub(super) fn audit(world: &World) -> (Conservation, Vec<(String, String)>) {
    let mut errors = Vec::new();
    let bytes = |list: &Fifo| list.iter(&world.packets).map(|packet| packet.wire as u64).sum::<u64>();
    let data =
        |list: &Fifo| list.iter(&world.packets).filter(|packet| packet.kind == Kind::Data).count() as u64;
    let mut checked_queues = 0;
    let mut held = vec![(0u64, 0u64); world.switches.len()];
    for (at, lane) in world.lanes.iter().enumerate() {
        let port = &world.ports[at / LANES];
        let priority = (at % LANES) as u8;
        checked_queues += (lane.tx_packets > 0) as u64;
        // What a link took down with it is not given back to the buffer.
        if !port.is_switch || priority == 0 || world.rerouted {
            continue;
        }
        if bytes(&lane.queue) != lane.egress as u64 {
            let text = format!("counts {} B but holds {} B", lane.egress, bytes(&lane.queue));
            errors.push((world.egress_name(at / LANES, priority), text));
        }
        let waiting = lane.queue.iter(&world.packets).map(|packet| (packet.wire as u64, packet.came));
        // The integral is in whole nanoseconds.
        let now = Time(world.now / 1000 * 1000);
        if let Some(text) = lane.law.judge(now, (lane.egress as u64, Time(lane.since)), waiting) {
            errors.push((world.egress_name(at / LANES, priority), text));
        }
        let (ingress, egress) = &mut held[port.owner as usize];
        *ingress += lane.ingress as u64 + lane.headroom as u64;
        *egress += lane.egress as u64;
    }
    for (switch, (ingress, egress)) in held.into_iter().enumerate().filter(|(_, (i, e))| i != e) {
        let text = format!("accounts for {ingress} B that came in and {egress} B that wait to go out");
        errors.push((world.node_name(world.plan.switches[switch]), text));
    }
    let in_flight = world.lanes.iter().map(|lane| data(&lane.queue)).sum::<u64>()
        + world.on_links().filter(|packet| packet.kind == Kind::Data).count() as u64;
    let packets = DataPackets {
        sent: world.over.packets_sent + world.send.iter().map(|qp| qp.packets_sent).sum::<u64>(),
        delivered: world.delivered,
        dropped: world.data_lost,
        discarded_out_of_order: world.recv.iter().map(|qp| qp.out_of_sequence).sum(),
        discarded_duplicate: world.recv.iter().map(|qp| qp.duplicate).sum(),
        in_flight,
    };
    let found = packets.delivered
        + packets.dropped
        + packets.discarded_out_of_order
        + packets.discarded_duplicate
        + packets.in_flight;
    if found != packets.sent {
        errors.push(("the run".into(), format!("sent {} data packets and knows of {found}", packets.sent)));
    }
    (Conservation { checked_queues, data_packets: packets, ok: errors.is_empty() }, errors)
}

#[cfg(test)]
#[cfg(debug_assertions)]
mod tests {
    use super::super::plan::{Flow, Link};
    use super::super::routing::tests::network;
    use super::super::HpccSimulation;
    use super::*;
    use crate::gauge::Came;

    /// Two hosts send to a third through a switch. In the middle of it a wait of a byte that is a nanosecond longer is noticed.
    #[test]
    fn queues_obey_littles_law() {
        let links = [0, 1, 2].map(|host| Link(host, 3, 100_000_000_000, 1000, 0.0));
        let mut plan = network(4, vec![3], links.to_vec());
        plan.flows = vec![Flow(0, 2, 3, 100, 1_000_000, 0), Flow(1, 2, 3, 101, 1_000_000, 0)];
        plan.stop_ns = 1_000_000;
        let mut simulation = HpccSimulation::new(&plan).expect("it is possible");
        simulation.advance(3_000);
        let world = &mut simulation.world;
        assert_eq!(audit(world).1, []);
        let at = world.lanes.iter().rposition(|lane| lane.egress > 0).expect("a queue stands");
        let now = Time(world.now);
        world.lanes[at].law.left(1, Came::at(now - Time(1000)), now);
        let name = world.egress_name(at / LANES, (at % LANES) as u8);
        let found: Vec<String> = audit(world).1.into_iter().map(|(place, _)| place).collect();
        assert_eq!(found, [name]);
    }
}
