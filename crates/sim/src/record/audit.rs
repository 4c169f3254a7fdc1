//! The books: what went in must have come out, be on its way, or have been dropped with a reason.

use crate::fabric::port::RECLASSIFIES;
use crate::fabric::port::{DropReason, Drops, Tally};
use crate::fabric::{lane, port_and_class, CLASSES};
use crate::nic::queue_pair::GONE;
use crate::plan::Plan;
use crate::world::World;
use tailback_proto::nic::Messages;

use super::recording::{Conservation, DataPackets};

/// Checks every queue, every shared buffer and the run as a whole. Returns the sums and a line for each error.
pub(super) fn audit(plan: &Plan, world: &World) -> (Conservation, Vec<(String, String)>) {
    let mut errors = Vec::new();
    let mut in_flight = 0u64;
    let mut checked = 0;
    let mut buffered = vec![[0u64; 2]; world.fabric.switches.len()];
    let mut charged = vec![0u64; world.fabric.groups.len()];
    let (mut sent, mut there) = (Tally::default(), Tally::default());
    // Of the port that is looked at, by class.
    let mut on_link = [Tally::default(); CLASSES];
    let used = world.fabric.classes_in_use();
    for (at, queue) in world.fabric.queues.iter().enumerate() {
        let (port, class) = port_and_class(at);
        if class == 0 {
            on_link = [Tally::default(); CLASSES];
            for packet in world.fabric.ports[port].in_flight.iter(&world.fabric.packets) {
                on_link[packet.class as usize].count(packet.frame_bytes());
                in_flight += packet.kind.is_data() as u64;
            }
        }
        let on_link = &on_link[class as usize];
        // What nothing is counted of adds up; at the last class all classes of a port are compared.
        if !used[class as usize] && on_link.packets == 0 && (class as usize) + 1 < CLASSES {
            continue;
        }
        let name = || format!("{}/tc{class}", world.fabric.links[port].name);
        let switch = world.fabric.switch_of(port);
        let (mut packets, mut bytes) = (0u64, 0u64);
        for packet in queue.fifo.iter(&world.fabric.packets) {
            packets += 1;
            bytes += packet.frame_bytes() as u64;
            in_flight += packet.kind.is_data() as u64;
            if let Some(switch) = switch {
                let in_port = world.fabric.switches[switch].first_port as usize + packet.ingress as usize;
                charged[lane(in_port, class)] += packet.frame_bytes() as u64;
            }
        }
        if let Some(switch) = switch {
            buffered[switch][world.fabric.switches[switch].buffer.pool(class)] += bytes;
        }
        checked += (queue.rx_packets > 0) as u64;
        if bytes != queue.bytes as u64 {
            errors.push((name(), format!("counts {} B but holds {bytes} B", queue.bytes)));
        }
        let drops = world.fabric.drops.get(at);
        let dropped =
            |counts: fn(DropReason) -> bool| drops.map_or_else(Tally::default, |drops| sum_of(drops, counts));
        let gone = Tally { packets: queue.tx_packets, bytes: queue.tx_bytes };
        let left = Tally { packets, bytes };
        let out: Tally = [gone, left, dropped(DropReason::was_queued)].into_iter().sum();
        if (Tally { packets: queue.rx_packets, bytes: queue.rx_bytes }) != out {
            errors.push((
                name(),
                format!(
                    "{} packets of {} B came in, {} of {} B went out and {packets} of {bytes} B are left",
                    queue.rx_packets, queue.rx_bytes, queue.tx_packets, queue.tx_bytes
                ),
            ));
        }
        // What a port sent arrived at its peer, is on the link, or was lost there; perhaps in another class.
        let lost = dropped(DropReason::was_on_link);
        let arrived = &world.fabric.groups[(world.fabric.ports[port].peer as usize, class)];
        sent += gone;
        for part in [Tally { packets: arrived.rx_packets, bytes: arrived.rx_bytes }, *on_link, lost] {
            there += part;
        }
        if world.fabric.ports[port].flags & RECLASSIFIES != 0 && (class as usize) + 1 < CLASSES {
            continue;
        }
        let (sent, there) = (std::mem::take(&mut sent), std::mem::take(&mut there));
        if sent != there {
            errors.push((
                name(),
                format!(
                    "sent {} packets of {} B, of which {} of {} B arrived, are on the link or were lost",
                    sent.packets, sent.bytes, there.packets, there.bytes
                ),
            ));
        }
    }
    for (at, group) in world.fabric.groups.iter().enumerate() {
        let (port, class) = port_and_class(at);
        if !used[class as usize] {
            continue;
        }
        if charged[at] != group.held.bytes() as u64 {
            errors.push((
                format!("{}/pg{class}", world.fabric.links[port].name),
                format!(
                    "is charged {} B but {} B of its packets are queued",
                    group.held.bytes(),
                    charged[at]
                ),
            ));
        }
    }
    for (index, switch) in world.fabric.switches.iter().enumerate() {
        let own = world.fabric.ports_of(index);
        let mut headroom = [0u64; 2];
        let (mut came, mut went) = (Tally::default(), Tally::default());
        for at in lane(own.start, 0)..lane(own.end, 0) {
            let class = port_and_class(at).1;
            if !used[class as usize] {
                continue;
            }
            headroom[switch.buffer.pool(class)] += world.fabric.groups[at].held.headroom as u64;
            let (group, queue) = (&world.fabric.groups[at], &world.fabric.queues[at]);
            came += Tally { packets: group.rx_packets, bytes: group.rx_bytes };
            went += Tally { packets: queue.rx_packets, bytes: queue.rx_bytes };
            if let Some(drops) = world.fabric.drops.get(at) {
                went += sum_of(drops, |reason| !reason.was_on_link() && !reason.was_queued());
                // Whose payload was dropped went on, too.
                let trimmed = sum_of(drops, |reason| reason == DropReason::Trimmed).packets;
                let cut_to = switch.cold.trimming.as_ref().map_or(0, |trimming| trimming.size.0);
                came += Tally { packets: trimmed, bytes: trimmed * cut_to };
            }
        }
        if came != went {
            errors.push((
                format!("switch {index}"),
                format!(
                    "got {} packets of {} B and queued or dropped {} of {} B",
                    came.packets, came.bytes, went.packets, went.bytes
                ),
            ));
        }
        for (pool, headroom) in headroom.into_iter().enumerate() {
            let (used, queued) = (switch.buffer.used_bytes(pool), buffered[index][pool]);
            if queued != used + headroom {
                errors.push((
                    format!("buffer of switch {index}"),
                    format!(
                        "pool {pool}: {used} B shared and {headroom} B headroom in use, {queued} B queued"
                    ),
                ));
            }
        }
    }
    let (on_bridges, found) = crate::linux::record::bridges::audit(plan, world);
    in_flight += on_bridges;
    errors.extend(found);
    for host_path in &world.nics.host_paths {
        let (held, found) =
            crate::record::hosts::audit(world, &plan.hosts[host_path.host as usize].name, host_path);
        in_flight += held;
        errors.extend(found);
    }
    let (in_rings, tcp_bytes) = super::tcp::audit(world, &mut errors);
    in_flight += in_rings;
    let (ends, found) = crate::linux::record::veth::audit(plan, world);
    checked += ends;
    errors.extend(found);
    #[cfg(debug_assertions)]
    errors.extend(super::littles_law::audit(plan, world));
    let data = &world.fabric.data;
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
    let there = || world.nics.send_qps.iter().zip(&world.nics.recv_qps).filter(|(s, _)| s.number != GONE);
    let delivered_bytes: u64 =
        there().map(|(_, r)| r.bytes_delivered).sum::<u64>() + world.nics.gone_bytes + tcp_bytes;
    let received_bytes: u64 = world.nics.nics.iter().map(|nic| nic.goodput_rx_bytes).sum();
    if delivered_bytes != received_bytes {
        errors.push((
            "the run".into(),
            format!("connections delivered {delivered_bytes} B, hosts received {received_bytes} B"),
        ));
    }
    for (s, r) in there() {
        let qp = s.number;
        let writer = &world.nics.writers[s.writer as usize];
        let full = r.half.responder.received() / writer.writes.packets_per_message;
        let rest = r.half.responder.received() % writer.writes.packets_per_message;
        let ahead = r.half.responder.placed().map(|at| writer.writes.segment(at).payload_bytes as u64);
        let expected =
            full * writer.writes.message_bytes + rest * writer.writes.mtu as u64 + ahead.sum::<u64>();
        if r.bytes_delivered != expected {
            errors.push((
                format!("queue pair {qp}"),
                format!("delivered {} B where its packets carry {expected} B", r.bytes_delivered),
            ));
        }
        if s.half.requester.acknowledged() > r.half.responder.received() {
            errors.push((format!("queue pair {qp}"), "has packets acknowledged that never arrived".into()));
        }
    }
    (Conservation { checked_queues: checked, data_packets: packets, ok: errors.is_empty() }, errors)
}

/// Packets and bytes dropped for some of the reasons.
fn sum_of(drops: &Drops, counts: fn(DropReason) -> bool) -> Tally {
    drops.iter().zip(DropReason::ALL).filter(|&(_, reason)| counts(reason)).map(|(tally, _)| *tally).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Simulation;
    use tailback_proto::flow_control::shared_buffer::{Group, PoolSizes, SharedBuffer};
    use tailback_proto::transport::rc::Responder;

    const PLAN: &str = include_str!("../../tests/data/two_to_one.json");

    /// A run stopped in the middle, its books changed by `cook`.
    fn cooked(cook: impl Fn(&mut World)) -> Vec<(String, String)> {
        let mut simulation = Simulation::new(Plan::from_json(PLAN).unwrap()).unwrap();
        simulation.advance(3_000);
        let plan = Plan::from_json(PLAN).unwrap();
        let world = simulation.world_mut();
        cook(world);
        audit(&plan, world).1
    }

    #[test]
    fn honest_books_add_up() {
        assert_eq!(cooked(|_| {}), []);
    }

    #[test]
    fn queues_that_had_packets_count_as_checked() {
        let mut simulation = Simulation::new(Plan::from_json(PLAN).unwrap()).unwrap();
        simulation.advance(3_000);
        let (books, errors) = audit(&Plan::from_json(PLAN).unwrap(), simulation.world_mut());
        // Data and ACKs on three links both ways, and CNPs from h2 to both.
        assert_eq!((books.checked_queues, books.ok, errors), (9, true, vec![]));
    }

    /// Lanes of class 3 at the switch's port to h2, at that to h0, and at h2: ports are numbered h0, h1, h2, then the switch's
    /// three.
    const AT: usize = 5 * CLASSES + 3;
    const CAME: usize = 3 * CLASSES + 3;
    const GOT: usize = 2 * CLASSES + 3;

    /// Each counter, off by one, is noticed and the place is named.
    #[test]
    fn every_cooked_book_is_noticed() {
        cooked(|world| assert_eq!(world.fabric.links[5].name, "sw0:h2"));
        type Cook<'a> = &'a dyn Fn(&mut World);
        cooked(|world| assert_eq!(world.fabric.links[3].name, "sw0:h0"));
        let drop = |world: &mut World, at: usize, reason: DropReason, packets: u64, bytes: u64| {
            world.fabric.drops[at][reason as usize] += Tally { packets, bytes };
        };
        let cooks: &[(&str, Cook)] = &[
            ("sw0:h2/tc3", &|w| w.fabric.queues[AT].rx_packets += 1),
            ("sw0:h2/tc3", &|w| w.fabric.queues[AT].rx_bytes += 1),
            ("sw0:h2/tc3", &|w| w.fabric.queues[AT].tx_packets += 1),
            ("sw0:h2/tc3", &|w| w.fabric.queues[AT].tx_bytes += 1),
            ("sw0:h2/tc3", &|w| w.fabric.queues[AT].bytes += 1),
            // Between the port and its peer.
            ("sw0:h2/tc3", &|w| w.fabric.groups[GOT].rx_packets += 1),
            ("sw0:h2/tc3", &|w| w.fabric.groups[GOT].rx_bytes += 1),
            ("sw0:h2/tc3", &|w| drop(w, AT, DropReason::LinkLoss, 1, 0)),
            ("sw0:h2/tc3", &|w| drop(w, AT, DropReason::LinkLoss, 0, 1)),
            ("sw0:h2/tc3", &|w| drop(w, AT, DropReason::PortDown, 1, 0)),
            ("sw0:h2/tc3", &|w| drop(w, AT, DropReason::PortDown, 0, 1)),
            // What a group is charged, and what its switch has in use.
            ("sw0:h0/pg3", &|w| w.fabric.groups[CAME].held.shared += 1),
            ("sw0:h0/pg3", &|w| w.fabric.groups[CAME].held.headroom += 1),
            ("buffer of switch 0", &|w| w.fabric.groups[CAME].held.headroom += 1),
            ("buffer of switch 0", &|w| charge_to_nobody(&mut w.fabric.switches[0].buffer, 3, 1)),
            ("buffer of switch 0", &|w| charge_to_a_second_pool(&mut w.fabric.switches[0].buffer)),
            // Into a switch and on.
            ("switch 0", &|w| w.fabric.groups[CAME].rx_packets += 1),
            ("switch 0", &|w| w.fabric.groups[CAME].rx_bytes += 1),
            ("switch 0", &|w| drop(w, AT, DropReason::BufferFull, 1, 0)),
            ("switch 0", &|w| drop(w, AT, DropReason::BufferFull, 0, 1)),
            ("the run", &|w| w.fabric.data.sent += 1),
            ("the run", &|w| w.fabric.data.delivered += 1),
            ("the run", &|w| w.fabric.data.dropped += 1),
            ("the run", &|w| w.fabric.data.out_of_sequence += 1),
            ("the run", &|w| w.fabric.data.duplicate += 1),
            ("the run", &|w| w.nics[2].goodput_rx_bytes += 1),
            ("queue pair 0", &|w| w.nics.recv_qps[0].bytes_delivered += 1),
            ("queue pair 0", &|w| w.nics.recv_qps[0].half.responder = Responder::new(0)),
        ];
        for (number, (place, cook)) in cooks.iter().enumerate() {
            let errors = cooked(|world| cook(world));
            assert!(errors.iter().any(|(found, _)| found == place), "{number}: {errors:?}");
        }
    }

    fn charge_to_nobody(buffer: &mut SharedBuffer, class: u8, bytes: u32) {
        // A group each for pieces that fit below every threshold.
        for bytes in std::iter::repeat_n(1000, bytes as usize / 1000).chain([bytes % 1000]) {
            let admission = buffer.admit(&Group::EMPTY, class, bytes, || 0, || 0).expect("it has room");
            buffer.charge(&mut Group::EMPTY.clone(), bytes, admission);
        }
    }

    /// The buffer has as much in use as before, and a byte more in a pool of lossy classes.
    fn charge_to_a_second_pool(buffer: &mut SharedBuffer) {
        let used = buffer.used_bytes(0) as u32;
        let mut settings = Plan::from_json(PLAN).unwrap().switch_models[0].buffer_settings();
        let size = settings.shared_bytes;
        settings.pools = Some(PoolSizes { lossless_bytes: size, lossy_bytes: size });
        *buffer = SharedBuffer::new(&settings);
        charge_to_nobody(buffer, 3, used);
        charge_to_nobody(buffer, 0, 1);
    }

    #[test]
    fn what_was_acknowledged_has_arrived() {
        let errors = cooked(|world| world.nics.recv_qps[0].half.responder = Responder::new(0));
        let text = "has packets acknowledged that never arrived";
        assert!(errors.contains(&("queue pair 0".into(), text.into())), "{errors:?}");
    }

    /// A packet that arrives in another class is an error in both, unless the node behind the link may have it there.
    #[test]
    fn no_class_makes_up_for_another() {
        let moved = |world: &mut World| {
            world.fabric.groups[GOT].rx_packets -= 1;
            world.fabric.groups[GOT + 1].rx_packets += 1;
        };
        let places = |errors: Vec<(String, String)>| errors.into_iter().map(|(place, _)| place);
        assert!(places(cooked(moved)).eq(["sw0:h2/tc3", "sw0:h2/tc4"]));
        let errors = cooked(|world| {
            moved(world);
            world.fabric.ports[5].flags |= RECLASSIFIES;
        });
        assert_eq!(errors, []);
        // All classes together they still have to agree.
        let lost = cooked(|world| {
            world.fabric.groups[GOT].rx_packets -= 1;
            world.fabric.ports[5].flags |= RECLASSIFIES;
        });
        assert!(places(lost).eq(["sw0:h2/tc7"]));
    }
}
