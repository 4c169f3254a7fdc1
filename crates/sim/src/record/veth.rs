//! What is recorded of network namespaces joined by veth pairs.

use std::collections::BTreeMap;
use tailback_proto::units::Time;

use super::entity::Entity;
use super::quantity::Kind;
use super::recording::{Counter, Pings, Queue, Sender, Teardown, Veth, VethEnd};
use crate::linux::core::Purpose;
use crate::linux::veth::{End, Occupancy};
use crate::plan::{Plan, VethNetworkPlan};
use crate::world::World;

/// Where a value of an end, a ping or a namespace comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum VethSource {
    MeanPackets(Row),
    MaxPackets(Row),
    MeanBytes(Row),
    MaxBytes(Row),
    Dropped(Row),
    Limit,
    InFlight,
    /// The core of the NAPI thread that polls an end.
    CpuShare,
    Rtt,
    Delivered,
}

/// Places of a packet on its way, the receiver's first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub(super) enum Row {
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

    fn of(self, end: &mut End) -> &mut Occupancy {
        match self {
            Row::Core => &mut end.in_list,
            Row::Ring => &mut end.in_ring,
            Row::Qdisc => &mut end.waiting,
        }
    }
}

impl VethSource {
    pub fn kind(self) -> Kind {
        use VethSource::*;
        match self {
            MeanPackets(_) | MeanBytes(_) | Limit | InFlight => Kind::Mean,
            MaxPackets(_) | MaxBytes(_) => Kind::Max,
            Dropped(_) => Kind::Count,
            CpuShare => Kind::Share,
            Rtt => Kind::Last,
            Delivered => Kind::Rate,
        }
    }

    pub fn metric(self) -> &'static str {
        use VethSource::*;
        match self {
            MeanPackets(_) => "queue_mean_packets",
            MaxPackets(_) => "queue_max_packets",
            MeanBytes(_) => "queue_mean_bytes",
            MaxBytes(_) => "queue_max_bytes",
            Dropped(_) => "dropped",
            Limit => "bql_limit",
            InFlight => "bql_inflight",
            CpuShare => "core_share",
            Rtt => "rtt_ps",
            Delivered => "goodput_rx_bps",
        }
    }

    /// Whether the entity is recorded even where nothing ever waited.
    pub fn always(self) -> bool {
        matches!(self, VethSource::Rtt | VethSource::Delivered | VethSource::Limit)
    }
}

/// `from-to`: an end by the namespaces that it sends from and to.
fn end_name(plan: &VethNetworkPlan, world: &World, end: usize) -> String {
    let name = |end: usize| &plan.namespaces[world.linux.veths.ends[end].namespace as usize].name;
    format!("{}-{}", name(end), name(end ^ 1))
}

fn row_name(plan: &VethNetworkPlan, world: &World, end: usize, row: Row) -> String {
    format!("{}/{}", end_name(plan, world, end), row.name())
}

/// Entities with the sources of their series; an index is of an end, a ping or a namespace.
pub(super) fn entities(plan: &Plan, world: &World) -> Vec<(Entity, usize, Vec<VethSource>)> {
    use VethSource::*;
    let Some(plan) = &plan.veth else { return Vec::new() };
    let mut found = Vec::new();
    for (index, namespace) in plan.namespaces.iter().enumerate() {
        found.push((Entity::new(&namespace.name, "namespace", &namespace.name), index, vec![Delivered]));
    }
    for end in 0..world.linux.veths.ends.len() {
        for row in ROWS {
            let mut sources = vec![MeanPackets(row), MaxPackets(row), MeanBytes(row), MaxBytes(row)];
            match row {
                Row::Core if world.linux.veths.ends[end].has_thread() => sources.push(CpuShare),
                Row::Core => {}
                Row::Ring => sources.extend([Limit, InFlight, Dropped(row)]),
                Row::Qdisc => sources.push(Dropped(row)),
            }
            let name = |end: usize| &plan.namespaces[world.linux.veths.ends[end].namespace as usize].name;
            let queue = Entity::new(row_name(plan, world, end, row), row.kind(), name(end));
            found.push((queue.towards(name(end ^ 1)), end, sources));
        }
    }
    for (index, ping) in plan.pings.iter().enumerate() {
        let entity = Entity::new(&ping.item, "ping", &ping.src).towards(&ping.dst).of_item(&ping.item);
        found.push((entity, index, vec![Rtt]));
    }
    found
}

/// A value of the bin that ends now.
pub(super) fn read(world: &mut World, index: usize, source: VethSource, before: &mut u64, span: Time) -> f64 {
    use VethSource::*;
    let now = world.fabric.run.now;
    let veths = &mut world.linux.veths;
    let counter = match source {
        MeanPackets(row) => return row.of(&mut veths.ends[index]).packets.take_mean(now, span),
        MaxPackets(row) => return row.of(&mut veths.ends[index]).packets.take_max() as f64,
        MeanBytes(row) => return row.of(&mut veths.ends[index]).bytes.take_mean(now, span),
        MaxBytes(row) => return row.of(&mut veths.ends[index]).bytes.take_max() as f64,
        Limit => return veths.ends[index].queue.limit() as f64,
        InFlight => return veths.ends[index].queue.in_flight() as f64,
        Rtt => return veths.pings[index].rtt.0 as f64,
        Dropped(Row::Qdisc) => veths.ends[index].tally.qdisc_drops,
        Dropped(_) => veths.ends[index].tally.ring_drops + veths.ends[index].tally.frame_drops,
        Delivered => veths.namespaces[index].delivered_bytes,
        CpuShare => {
            let core = &world.linux.cores[veths.ends[index].poll_core as usize];
            [Purpose::Irq, Purpose::Soft, Purpose::Sys].map(|purpose| core.spent(purpose, now).0).iter().sum()
        }
    };
    let difference = counter - std::mem::replace(before, counter);
    source.kind().of_difference(difference, span)
}

pub(super) fn meta(plan: &Plan, world: &World) -> Option<Veth> {
    let plan = plan.veth.as_ref()?;
    let veths = &world.linux.veths;
    let ends = (0..veths.ends.len()).map(|end| {
        let e = &veths.ends[end];
        let t = &e.tally;
        let mut of_qdisc = Vec::new();
        if !e.qdisc.is_noqueue() {
            super::qdisc::add_counters(&mut of_qdisc, &e.qdisc, world.fabric.run.now);
        }
        let mut queue = e.queue.clone();
        let (inflight_before, stopped_before) = (queue.in_flight(), queue.is_stopped());
        let mut freed_packets = 0;
        queue.tear_down(world.fabric.run.now, |_| freed_packets += 1);
        VethEnd {
            name: end_name(plan, world, end),
            counters: BTreeMap::from_iter(of_qdisc.into_iter().chain([
                ("offered_packets", t.offered),
                ("delivered_packets", t.delivered),
                ("qdisc_drops", t.qdisc_drops),
                ("tx_dropped", t.ring_drops),
                ("xdp_tx_dropped", t.frame_drops),
                ("napi_polls", t.polls),
                ("napi_polls_of_64", t.full_polls),
                ("drv_xoff", e.queue.drv_stops),
                ("stack_xoff", e.queue.stack_stops),
                ("tx_timeout", e.queue.timeouts),
                ("bql_limit", e.queue.limit() as u64),
            ])),
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
        name: item.item.clone(),
        src: item.src.clone(),
        dst: item.dst.clone(),
        sent: ping.samples.len() as u64,
        lost: ping.samples.iter().filter(|sample| sample.lost).count() as u64,
        samples: ping.samples.iter().map(|s| (s.sent_at.0, s.rtt.map(|rtt| rtt.0))).collect(),
    });
    let floods = veths.floods.iter().zip(&plan.datagrams).map(|(flood, item)| Sender {
        name: item.item.clone(),
        kind: "udp",
        src: item.src.clone(),
        dst: item.dst.clone(),
        sent: flood.sent,
        delivered: flood.delivered,
        dropped: flood.dropped,
        waits: flood.waits,
    });
    let frames = veths.frames.iter().zip(&plan.frames).map(|(frames, item)| Sender {
        name: item.item.clone(),
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
pub(super) fn counters(plan: &Plan, world: &World, rows: &mut Vec<Counter>) {
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
pub(super) fn queues(plan: &Plan, world: &World) -> Vec<Queue> {
    let Some(network) = &plan.veth else { return Vec::new() };
    let ends = &world.linux.veths.ends;
    let rows = (0..ends.len()).filter(|&end| ends[end].tally.offered > 0).flat_map(|end| {
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
pub(super) fn audit(plan: &Plan, world: &World) -> (u64, Vec<(String, String)>) {
    let mut errors = Vec::new();
    let Some(network) = &plan.veth else { return (0, errors) };
    let veths = &world.linux.veths;
    let mut checked = 0;
    for (end, e) in veths.ends.iter().enumerate() {
        let t = &e.tally;
        checked += (t.offered > 0) as u64;
        let (held, held_bytes) = veths.held(end);
        let ring_bytes = veths.bytes_of(e.queue.packets());
        let waiting = (e.qdisc.qlen() as u64, e.qdisc.backlog_bytes());
        let dropped = t.qdisc_drops + t.ring_drops + t.frame_drops;
        let out = t.delivered + dropped + waiting.0 + e.queue.len() as u64 + held;
        let out_bytes = t.delivered_bytes + t.dropped_bytes + waiting.1 + ring_bytes + held_bytes;
        let name = || end_name(network, world, end);
        if (t.offered, t.offered_bytes) != (out, out_bytes) {
            errors.push((
                name(),
                format!(
                    "got {} packets of {} B; {out} of {out_bytes} B were delivered, dropped or are left",
                    t.offered, t.offered_bytes
                ),
            ));
        }
        let recorded = (e.in_ring.bytes.value, e.in_list.bytes.value, e.waiting.bytes.value);
        if recorded != (ring_bytes, held_bytes, waiting.1) {
            let real = (ring_bytes, held_bytes, waiting.1);
            errors.push((name(), format!("recorded {recorded:?} B in its queues but holds {real:?} B")));
        }
        // What is charged lies in the ring, or was taken and is not told yet: never more than a limit of it.
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
