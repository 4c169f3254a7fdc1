//! Quantities of network namespaces joined by veth pairs.

use std::collections::BTreeMap;

use crate::cores::Purpose;
use crate::fabric::port::Tally;
use crate::linux::veth::{Counted, Dropped, End};
use crate::plan::{Plan, VethNetworkPlan};
use crate::record::quantity::{counters, quantities, recorded, Table};
use crate::record::recording::Entity;
use crate::record::recording::{Counter, Pings, Queue, Sender, Teardown, Veth, VethEnd};
use crate::record::signals::Signal;
use crate::world::World;

/// Declares what is recorded of a place where packets wait.
macro_rules! occupancy {
    ($name:ident of $kind:literal: $place:ident) => {
        quantities! {
            $name of [$kind], |bin, end| {
                "queue_mean_packets": Mean, "packets", "packets waiting, weighted by time"
                    = bin.world.linux.veths.ends[end].$place.packets.take_mean(bin.now, bin.span);
                "queue_max_packets": Max, "packets", "most packets waiting"
                    = bin.world.linux.veths.ends[end].$place.packets.take_max() as f64;
                "queue_mean_bytes": Mean, "bytes", "bytes waiting, weighted by time"
                    = bin.world.linux.veths.ends[end].$place.bytes.take_mean(bin.now, bin.span);
                "queue_max_bytes": Max, "bytes", "most bytes waiting"
                    = bin.world.linux.veths.ends[end].$place.bytes.take_max() as f64;
            }
        }
    };
}

recorded! {
    occupancy {
        LIST of "veth-napi": in_list
    }

    occupancy {
        RING of "veth-ring": in_ring
    }

    occupancy {
        WAITING of "veth-qdisc": waiting
    }

    quantities {
        /// The thread that polls an end.
        THREAD of ["veth-napi"], |bin, end| {
            "core_share": Share, "share", "time for which the core of the NAPI thread that polls it was busy" = {
                let core = &bin.world.linux.cores[bin.world.linux.veths.ends[end].poll_core as usize];
                [Purpose::Irq, Purpose::Soft, Purpose::Sys].map(|purpose| core.core.spent(purpose, bin.now).0).iter().sum()
            };
        }
    }

    quantities {
        /// Byte queue limits, and what found the ring full.
        LIMITS of ["veth-ring"] always, |bin, end| {
            "bql_limit": Now, "bytes", "limit of the byte queue limits" = bin.world.linux.veths.ends[end].queue.limit() as f64;
            "bql_inflight": Now, "bytes", "charged and not yet completed" = bin.world.linux.veths.ends[end].queue.in_flight() as f64;
            "dropped": Count [Drop], "packets", "packets that found it full" = {
                let counted = &bin.world.linux.veths.ends[end].counted;
                counted.dropped(Dropped::ByRing) + counted.dropped(Dropped::Frame)
            };
        }
    }

    quantities {
        /// Drops of its qdisc.
        QDISC_DROPS of ["veth-qdisc"], |bin, end| {
            "dropped": Count [Drop], "packets", "packets that it dropped"
                = bin.world.linux.veths.ends[end].counted.dropped(Dropped::ByQdisc);
        }
    }

    quantities {
        /// A namespace.
        NAMESPACE of ["namespace"] always, |bin, namespace| {
            "goodput_rx_bps": Rate, "bit/s", "payload that its receivers took"
                = bin.world.linux.veths.namespaces[namespace].delivered_bytes;
        }
    }

    quantities {
        /// A ping.
        PING of ["ping"] always, |bin, ping| {
            "rtt_ps": Last, "ps", "round trip of the latest request that was answered"
                = bin.world.linux.veths.pings[ping].rtt.0 as f64;
        }
    }

    counters {
        /// Of an end: of its transmit queue, and of the peer that polls its ring.
        END_COUNTS of ["veth end"], |end: End, _| {
            "offered_packets": "packets", "packets that came to it" = end.counted.offered.packets;
            "delivered_packets": "packets", "packets that reached the peer's stack or program" = end.counted.delivered.packets;
            "qdisc_drops": "packets", "packets that its qdisc dropped" = end.counted.dropped(Dropped::ByQdisc);
            "tx_dropped": "packets", "packets of the stack that found the ring full" = end.counted.dropped(Dropped::ByRing);
            "xdp_tx_dropped": "packets", "XDP frames that found the ring full" = end.counted.dropped(Dropped::Frame);
            "napi_polls": "polls", "polls of the peer's NAPI instance" = end.counted.polls;
            "napi_polls_of_64": "polls", "of these, those that took 64 packets, all they may" = end.counted.full_polls;
            "drv_xoff": "stops", "how often the ring was full and stopped the queue" = end.queue.drv_stops;
            "stack_xoff": "stops", "how often byte queue limits stopped the queue" = end.queue.stack_stops;
            "tx_timeout": "timeouts", "how often the transmit watchdog found the queue stopped for too long" = end.queue.timeouts;
            "bql_limit": "bytes", "limit of the byte queue limits at the end" = end.queue.limit() as u64;
        }
    }
}

/// Places of a packet on its way, the receiver's first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Row {
    Core,
    Ring,
    Qdisc,
}

const ROWS: [Row; 3] = [Row::Core, Row::Ring, Row::Qdisc];

impl Row {
    fn name(self) -> &'static str {
        match self {
            Row::Core => "napi",
            Row::Ring => "ring",
            Row::Qdisc => "qdisc",
        }
    }

    fn kind(self) -> &'static str {
        match self {
            Row::Core => "veth-napi",
            Row::Ring => "veth-ring",
            Row::Qdisc => "veth-qdisc",
        }
    }
}

/// `from-to`: an end by the namespaces that it sends from and to.
fn end_name(plan: &VethNetworkPlan, world: &World, end: usize) -> String {
    let name = |end: usize| &plan.namespaces[world.linux.veths.ends[end].namespace as usize].name;
    format!("{}-{}", name(end), name(end ^ 1))
}

pub(crate) fn row_name(plan: &VethNetworkPlan, world: &World, end: usize, row: Row) -> String {
    format!("{}/{}", end_name(plan, world, end), row.name())
}

/// A place of an end's packets.
fn queue_of(plan: &VethNetworkPlan, world: &World, end: usize, row: Row) -> Entity {
    let name = |end: usize| &plan.namespaces[world.linux.veths.ends[end].namespace as usize].name;
    Entity::new(row_name(plan, world, end, row), row.kind(), name(end)).towards(name(end ^ 1))
}

/// Transmit queues that were stopped: why, the ring, and how often.
pub(crate) fn stops(plan: &Plan, world: &World) -> Vec<(Signal, Entity, u64)> {
    let Some(plan) = &plan.veth else { return Vec::new() };
    let ends = world.linux.veths.ends.iter().enumerate();
    ends.flat_map(|(number, end)| {
        let ring = queue_of(plan, world, number, Row::Ring);
        [
            (Signal::BqlStop, ring.clone(), end.queue.stack_stops),
            (Signal::RingStop, ring, end.queue.drv_stops),
        ]
    })
    .collect()
}

/// Entities, and what is recorded of each; an index is of an end, a ping or a namespace.
pub(crate) fn entities(plan: &Plan, world: &World) -> Vec<(Entity, Vec<&'static Table<World>>, usize)> {
    let Some(plan) = &plan.veth else { return Vec::new() };
    let mut found: Vec<(Entity, Vec<&'static Table<World>>, usize)> = Vec::new();
    for (index, namespace) in plan.namespaces.iter().enumerate() {
        let entity = Entity::new(&namespace.name, "namespace", &namespace.name);
        found.push((entity, vec![&NAMESPACE], index));
    }
    for end in 0..world.linux.veths.ends.len() {
        for row in ROWS {
            let tables: Vec<&'static Table<World>> = match row {
                Row::Core if world.linux.veths.ends[end].has_thread() => vec![&LIST, &THREAD],
                Row::Core => vec![&LIST],
                Row::Ring => vec![&RING, &LIMITS],
                Row::Qdisc => vec![&WAITING, &QDISC_DROPS],
            };
            found.push((queue_of(plan, world, end, row), tables, end));
        }
    }
    for (index, ping) in plan.pings.iter().enumerate() {
        let entity = Entity::new(&ping.item, "ping", &ping.src).towards(&ping.dst).of_item(&ping.item);
        found.push((entity, vec![&PING], index));
    }
    found
}

pub(crate) fn meta(plan: &Plan, world: &World) -> Option<Veth> {
    let plan = plan.veth.as_ref()?;
    let veths = &world.linux.veths;
    let ends = (0..veths.ends.len()).map(|end| {
        let e = &veths.ends[end];
        let mut counters = BTreeMap::new();
        let mut add = |name, value| *counters.entry(name).or_insert(0) += value;
        if !e.qdisc.is_noqueue() {
            super::qdisc::count(&e.qdisc, world.fabric.run.now, &mut add);
        }
        (END_COUNTS.count)(e, 0, &mut add);
        let mut queue = e.queue.clone();
        let (inflight_before, stopped_before) = (queue.in_flight(), queue.is_stopped());
        let mut freed_packets = 0;
        queue.tear_down(world.fabric.run.now, |_| freed_packets += 1);
        VethEnd {
            name: end_name(plan, world, end),
            counters,
            teardown: Teardown {
                freed_packets,
                inflight_before,
                inflight_after: queue.in_flight(),
                stopped_before,
                stopped_after: queue.is_stopped(),
            },
        }
    });
    let pings = veths.pings.iter().zip(&plan.pings).map(|(ping, item)| Pings {
        item: item.item.clone(),
        src: item.src.clone(),
        dst: item.dst.clone(),
        sent: ping.samples.len() as u64,
        lost: ping.samples.iter().filter(|sample| sample.lost).count() as u64,
        samples: ping.samples.iter().map(|s| (s.sent_at.0, s.rtt.map(|rtt| rtt.0))).collect(),
    });
    let floods = veths.floods.iter().zip(&plan.datagrams).map(|(flood, item)| Sender {
        item: item.item.clone(),
        kind: "udp",
        src: item.src.clone(),
        dst: item.dst.clone(),
        sent: flood.sent,
        delivered: flood.delivered,
        dropped: flood.dropped,
        waits: flood.waits,
    });
    let frames = veths.frames.iter().zip(&plan.frames).map(|(frames, item)| Sender {
        item: item.item.clone(),
        kind: "xdp",
        src: item.src.clone(),
        dst: item.dst.clone(),
        sent: frames.sent,
        delivered: frames.delivered,
        dropped: frames.dropped,
        waits: 0,
    });
    Some(Veth { ends: ends.collect(), pings: pings.collect(), senders: floods.chain(frames).collect() })
}

/// Counters of each end, at the namespace that it is in.
pub(crate) fn counters(plan: &Plan, world: &World, rows: &mut Vec<Counter>) {
    let Some(network) = &plan.veth else { return };
    let found = meta(plan, world).into_iter().flat_map(|meta| meta.ends);
    for (end, of) in found.enumerate() {
        let node = &network.namespaces[world.linux.veths.ends[end].namespace as usize].name;
        rows.extend(of.counters.into_iter().map(|(counter, value)| Counter {
            node: node.clone(),
            port: of.name.clone(),
            counter: counter.into(),
            value,
        }));
    }
}

/// Rows of the tailback chart: the queues of ends that carried anything, the receiver's first.
pub(crate) fn queues(plan: &Plan, world: &World) -> Vec<Queue> {
    let Some(network) = &plan.veth else { return Vec::new() };
    let ends = &world.linux.veths.ends;
    let rows = (0..ends.len()).filter(|&end| ends[end].counted.offered.packets > 0).flat_map(|end| {
        ROWS.into_iter().enumerate().map(move |(order, row)| Queue {
            queue: row_name(network, world, end, row),
            kind: row.kind(),
            node: match row {
                Row::Core => network.namespaces[ends[end ^ 1].namespace as usize].name.clone(),
                _ => network.namespaces[ends[end].namespace as usize].name.clone(),
            },
            port: end_name(network, world, end),
            peer: network.namespaces[ends[end ^ 1].namespace as usize].name.clone(),
            priority: 0,
            order: order as u32,
            k_min_bytes: None,
            k_max_bytes: None,
            limit_bytes: None,
        })
    });
    rows.collect()
}

/// Checks the books of each end. Returns how many carried a packet, and what is wrong.
pub(crate) fn audit(plan: &Plan, world: &World) -> (u64, Vec<(String, String)>) {
    let mut errors = Vec::new();
    let Some(network) = &plan.veth else { return (0, errors) };
    let veths = &world.linux.veths;
    let mut checked = 0;
    for (end, e) in veths.ends.iter().enumerate() {
        let Counted { offered, delivered, dropped, .. } = e.counted;
        checked += (offered.packets > 0) as u64;
        let (held, held_bytes) = veths.held(end);
        let ring_bytes = veths.bytes_of(e.queue.packets());
        let waiting = (e.qdisc.qlen() as u64, e.qdisc.backlog_bytes());
        let left = Tally {
            packets: waiting.0 + e.queue.len() as u64 + held,
            bytes: waiting.1 + ring_bytes + held_bytes,
        };
        let out: Tally = dropped.into_iter().chain([delivered, left]).sum();
        let name = || end_name(network, world, end);
        if offered != out {
            errors.push((
                name(),
                format!(
                    "got {} packets of {} B; {} of {} B were delivered, dropped or are left",
                    offered.packets, offered.bytes, out.packets, out.bytes
                ),
            ));
        }
        let recorded = (e.in_ring.bytes.value, e.in_list.bytes.value, e.waiting.bytes.value);
        if recorded != (ring_bytes, held_bytes, waiting.1) {
            let real = (ring_bytes, held_bytes, waiting.1);
            errors.push((name(), format!("recorded {recorded:?} B in its queues but holds {real:?} B")));
        }
        // What is charged lies in the ring, or was taken and is not reported yet: never more than a limit of it.
        let charged = e.queue.charged();
        if e.queue.in_flight() != charged {
            errors.push((name(), format!("has {} in flight but {charged} charged", e.queue.in_flight())));
        }
    }
    for (index, (flood, item)) in veths.floods.iter().zip(&network.datagrams).enumerate() {
        let charged = veths.charged_bytes(index as u32);
        if flood.charged_bytes != charged {
            errors.push((
                item.item.clone(),
                format!("its socket counts {} B but its packets take {charged} B", flood.charged_bytes),
            ));
        }
    }
    (checked, errors)
}
