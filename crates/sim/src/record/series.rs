//! Time series with a bounded number of bins.
//!
//! Bins start at 1 us (10 us where there are thousands of series). When the most that a series may have are full, bins are merged, by 5 and by 2 in turn (1, 5,
//! 10, 50, 100 us, ...), so that a recording holds between a fifth and all of its bins however long the run. Counts
//! add up, means are averaged, maxima stay maxima. Counters are read at the end of a bin; nothing is done per packet
//! but what the counters and the queues' integrals over time cost anyway.

use std::borrow::Cow;
use std::collections::HashMap;
use tailback_proto::congestion::rhcc::sender::Sender;
use tailback_proto::congestion::{shown, Merged, SignalInfo};
use tailback_proto::units::Time;

use super::bridges::{self, BridgeSource};
use super::entity::{at_port, Entity};
use super::items::Items;
use super::paths;
use super::quantity::Kind;
use super::recording::Series;
use super::settings::MIN_BINS;
use super::source::{Column, QpSignal, Source};
use super::veth;
use crate::fabric::lane;
use crate::plan::Plan;
use crate::world::World;

/// Length of a bin at the start of a run.
pub(crate) const FIRST_BIN: Time = Time::from_us(1);
/// The same where there are more than [`MANY_COLUMNS`], so that reading them all takes a small part of the run.
const FIRST_BIN_OF_MANY: Time = Time::from_us(10);
const MANY_COLUMNS: usize = 2_000;
/// Most values that a recording holds (32 MB): many series have fewer bins each.
pub(crate) const MAX_VALUES: usize = 4 << 20;
/// Fewer bins than this show little: then less is recorded of each port.
pub(crate) const FEW_BINS: usize = 100;

/// Values in [`Recorder::latest`]: 512 KB, which the second-level cache holds.
const LATEST_VALUES: usize = 1 << 16;

/// How much of the fabric is recorded: the most that fits [`MAX_VALUES`] with [`FEW_BINS`] each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Detail {
    /// Hosts and queue pairs, egress queues and ingress groups.
    Full,
    /// Hosts and queue pairs, and of each egress queue its length and pauses.
    EgressQueues,
    /// Hosts and queue pairs.
    Hosts,
}

impl Detail {
    /// In words, for people.
    pub fn text(self) -> &'static str {
        match self {
            Detail::Full => "everything",
            Detail::EgressQueues => "hosts, queue pairs and egress queues",
            Detail::Hosts => "hosts and queue pairs",
        }
    }
}

/// Reads the counters at the end of each bin.
pub(crate) struct Recorder {
    detail: Detail,
    columns: Vec<Column>,
    /// By column: the bins.
    values: Vec<Vec<f64>>,
    /// The latest bins, one after the other, each with the values of all columns. Added to the columns at once, because
    /// each of them lies in a line of memory of its own that no cache holds.
    latest: Vec<f64>,
    entities: Vec<Entity>,
    /// Names of the series that controllers show.
    signals: Vec<Cow<'static, str>>,
    items: Option<Items>,
    bin: Time,
    bin_start: Time,
    bins: usize,
    max_bins: usize,
    merge_by_five: bool,
}

impl Recorder {
    pub fn new(plan: &Plan, world: &World) -> Self {
        let details = [Detail::Full, Detail::EgressQueues, Detail::Hosts];
        let most = plan.record.max_bins as usize;
        let few = FEW_BINS.min(most);
        let mut recorders = details.into_iter().map(|detail| Recorder::of_detail(plan, world, detail));
        let fits = |recorder: &Recorder| recorder.columns.len() * few <= MAX_VALUES;
        let mut recorder =
            recorders.by_ref().find(fits).unwrap_or_else(|| Recorder::of_detail(plan, world, Detail::Hosts));
        recorder.items = Items::new(plan, world);
        recorder.add_items(plan);
        // Merging by 5 and by 2 needs a multiple of 10.
        let bins = most.min(MAX_VALUES / recorder.columns.len().max(1)).max(MIN_BINS as usize);
        recorder.max_bins = bins / 10 * 10;
        recorder.values = vec![Vec::new(); recorder.columns.len()];
        if recorder.columns.len() > MANY_COLUMNS {
            recorder.bin = FIRST_BIN_OF_MANY;
        }
        recorder
    }

    fn of_detail(plan: &Plan, world: &World, detail: Detail) -> Self {
        let mut recorder = Recorder {
            detail,
            columns: Vec::new(),
            values: Vec::new(),
            latest: Vec::new(),
            entities: Vec::new(),
            signals: Vec::new(),
            items: None,
            bin: FIRST_BIN,
            bin_start: Time::ZERO,
            bins: 0,
            max_bins: 0,
            merge_by_five: true,
        };
        let classes = used_classes(plan);
        let agent_of: HashMap<u32, usize> =
            world.agents.iter().enumerate().map(|(index, agent)| (agent.host, index)).collect();
        // The class of the first queue pair to each host, where hosts have paths.
        let mut class_to: HashMap<u16, u8> = HashMap::new();
        if !world.nics.paths.is_empty() {
            for s in &world.nics.send_qps {
                class_to.entry(s.dst).or_insert(s.class);
            }
        }
        for (host, host_plan) in plan.hosts.iter().enumerate() {
            use Source::*;
            let port = world.nics[host].port as usize;
            let has_cpu = !world.tcp.cpus.cores_of(host).is_empty();
            let mut sources = vec![
                GoodputTx(host),
                GoodputRx(host),
                WireTx(port),
                WireRx(world.fabric.ports[port].peer as usize),
                PacketSeqErr(host),
                OutOfSequence(host),
                LocalAckTimeoutErr(host),
                CnpSent(host),
                CnpHandled(host),
                CnpDelay(host),
            ];
            if has_cpu {
                sources.push(CpuShare(host));
            }
            if let Some(&agent) = agent_of.get(&(host as u32)) {
                sources.extend([IioOccupancy(agent), MbaLevel(agent)]);
            }
            recorder.add(Entity::new(&host_plan.name, "host", &host_plan.name), &sources);
            if has_cpu {
                let rings = Entity::new(receive_name(plan, host), "receive", &host_plan.name);
                recorder.add(rings, &[RxMean(host), RxMax(host), RxDropped(host)]);
            }
        }
        for (number, path) in world.nics.paths.iter().enumerate() {
            let class = class_to.get(&(path.host as u16)).copied();
            for row in paths::ROWS {
                let pausing = class.filter(|_| row == "nic-rx").map(|c| lane(path.port as usize, c));
                let sources = paths::sources(path, row, class).into_iter();
                let sources = sources.map(|source| Source::Path(number, source));
                let sources: Vec<Source> = sources.chain(pausing.map(Source::PausingShare)).collect();
                recorder.add(paths::entity(plan, path, row), &sources);
            }
        }
        for (entity, sources) in bridges::columns(plan, world) {
            let sources: Vec<Source> = sources.into_iter().map(Source::Bridge).collect();
            recorder.add(entity, &sources);
        }
        for port in (0..world.fabric.ports.len()).filter(|&port| !world.fabric.is_bridge(port)) {
            let host = world.fabric.ports[port].owner as usize;
            for &class in &classes {
                let at = lane(port, class);
                use Source::*;
                if detail == Detail::Hosts && host >= world.nics.nics.len() {
                    continue;
                }
                if host < world.nics.nics.len() {
                    let name = send_queue_name(plan, host, class);
                    recorder.add(
                        at_port(plan, world, name, "send", port),
                        &[BacklogMean(host, class), BacklogMax(host, class), PausedShare(at)],
                    );
                    continue;
                }
                let egress = at_port(plan, world, egress_name(world, port, class), "egress", port);
                if detail == Detail::EgressQueues {
                    let sources = [QueueMean(at), QueueMax(at), PausedShare(at)];
                    recorder.add(egress, &sources);
                    continue;
                }
                recorder
                    .add(egress, &[QueueMean(at), QueueMax(at), EcnMarked(at), Dropped(at), PausedShare(at)]);
                recorder.add(
                    at_port(plan, world, ingress_name(world, port, class), "ingress", port),
                    &[GroupMean(at), GroupMax(at), Xoff(at), PausingShare(at), IngressDropped(at)],
                );
            }
        }
        for qp in tracked(world.nics.send_qps.len(), plan.record.qps as usize) {
            let sources = recorder.qp_sources(world, qp);
            recorder.add(queue_pair(plan, world, qp), &sources);
        }
        for connection in tracked(world.tcp.sockets.connections.len(), plan.record.qps as usize) {
            let sources = [Source::Cwnd(connection), Source::ConnectionGoodput(connection)];
            recorder.add(super::tcp::entity(plan, world, connection), &sources);
        }
        for (entity, index, sources) in veth::entities(plan, world) {
            let sources: Vec<Source> =
                sources.into_iter().map(|source| Source::Veth(index, source)).collect();
            recorder.add(entity, &sources);
        }
        recorder
    }

    /// What is recorded of a queue pair.
    fn qp_sources(&mut self, world: &World, qp: usize) -> Vec<Source> {
        let s = &world.nics.send_qps[qp];
        let model = &world.nics.models[world.nics[s.src as usize].model as usize];
        let signals = &mut self.signals;
        let mut signal = |(number, shown): (usize, SignalInfo)| QpSignal {
            qp: qp as u32,
            number: number as u8,
            kind: match shown.merged {
                Merged::Mean => Kind::Mean,
                Merged::Last => Kind::Last,
            },
            name: signals.iter().position(|known| *known == shown.name).unwrap_or_else(|| {
                signals.push(shown.name);
                signals.len() - 1
            }) as u16,
        };
        let mut sources = vec![Source::QpRate(qp)];
        let own = model.congestion[s.congestion as usize].signals();
        sources.extend(own.into_iter().enumerate().map(&mut signal).map(Source::QpSignal));
        sources.push(Source::QpGoodput(qp));
        if s.prober.is_some() {
            sources
                .extend(shown::<Sender>().into_iter().enumerate().map(&mut signal).map(Source::BesideSignal));
        }
        sources
    }

    fn add(&mut self, entity: Entity, sources: &[Source]) {
        self.entities.push(entity);
        self.extend(sources);
    }

    /// More of the latest entity.
    fn extend(&mut self, sources: &[Source]) {
        for &source in sources {
            let entity = self.entities.len() as u32 - 1;
            self.columns.push(Column { source, before: 0, entity, kind: source.kind() });
        }
    }

    /// Traffic items, and each at each of its senders.
    fn add_items(&mut self, plan: &Plan) {
        let Some(items) = &self.items else { return };
        let (names, at_senders) = (items.names.clone(), items.at_senders.clone());
        for (item, name) in names.iter().enumerate() {
            let entity = Entity::new(format!("item:{name}"), "item", "").of_item(name);
            self.add(entity, &[Source::ItemGoodput(item as u32)]);
        }
        for (index, of) in at_senders.iter().enumerate() {
            let (host, item) = (&plan.hosts[of.host as usize].name, &names[of.item as usize]);
            let entity = Entity::new(format!("{host}/{item}"), "item-at-sender", host).of_item(item);
            self.add(entity, &[Source::ItemAtSenderGoodput(index)]);
        }
    }

    /// When the bin that is open ends.
    pub fn next_sample(&self) -> Time {
        self.bin_start + self.bin
    }

    /// Closes the bin that ends now.
    pub fn sample(&mut self, world: &mut World) {
        self.close_bin(world);
        if self.bins == self.max_bins {
            self.merge();
        }
    }

    /// Closes the last bin, which may be shorter and so is never merged.
    pub fn close(&mut self, world: &mut World) {
        if world.fabric.run.now > self.bin_start {
            self.close_bin(world);
        }
    }

    fn close_bin(&mut self, world: &mut World) {
        let span = world.fabric.run.now - self.bin_start;
        if let Some(items) = &mut self.items {
            items.update(world);
        }
        let items = self.items.as_ref();
        self.latest.extend(self.columns.iter_mut().map(|column| column.read(world, items, span)));
        self.bins += 1;
        self.bin_start = world.fabric.run.now;
        if self.latest.len() + self.columns.len() > LATEST_VALUES {
            self.store_latest();
        }
    }

    /// Adds the latest bins to their columns.
    fn store_latest(&mut self) {
        for (at, values) in self.values.iter_mut().enumerate() {
            values.extend(self.latest.chunks_exact(self.columns.len()).map(|bin| bin[at]));
        }
        self.latest.clear();
    }

    fn merge(&mut self) {
        let factor = if self.merge_by_five { 5 } else { 2 };
        self.merge_by_five = !self.merge_by_five;
        self.store_latest();
        for (column, values) in self.columns.iter().zip(&mut self.values) {
            column.kind.merge(values, factor);
        }
        self.bins /= factor;
        self.bin = Time(self.bin.0 * factor as u64);
    }

    /// Gives out what was recorded. Queues that stayed empty are left out.
    pub fn into_series(mut self, now: Time) -> Series {
        self.store_latest();
        let mut used = vec![false; self.entities.len()];
        for (column, values) in self.columns.iter().zip(&self.values) {
            used[column.entity as usize] |= match column.source {
                Source::GoodputTx(_)
                | Source::QpRate(_)
                | Source::ItemGoodput(_)
                | Source::ItemAtSenderGoodput(_)
                | Source::Cwnd(_) => true,
                Source::Veth(_, source) if source.always() => true,
                Source::Bridge(BridgeSource::Core(..)) => true,
                _ if column.kind == Kind::Max => values.iter().any(|&value| value > 0.0),
                Source::Dropped(_) | Source::IngressDropped(_) | Source::PausedShare(_) => {
                    values.iter().any(|&value| value > 0.0)
                }
                _ => false,
            };
        }
        // A run that ends on a merge has a bin length that no bin has yet.
        let bin = if self.bins == 0 { now } else { self.bin };
        let columns = self
            .columns
            .into_iter()
            .zip(self.values)
            .filter(|(column, _)| used[column.entity as usize])
            .map(|(column, values)| (column.entity as usize, column.source.metric(&self.signals), values))
            .collect();
        Series { entities: self.entities, columns, bin, bins: self.bins, detail: self.detail.text() }
    }
}

/// Classes that any packet of the plan can be in.
pub(super) fn used_classes(plan: &Plan) -> Vec<u8> {
    let mut marks: Vec<u8> = plan.writers.iter().map(|writer| writer.code_point).collect();
    marks.extend(plan.flows.list.iter().map(|flow| flow.code_point()));
    marks.extend(plan.tcp_connections.iter().map(|item| item.code_point));
    marks.extend(plan.nics.iter().filter_map(|nic| nic.cnp_code_point));
    marks.sort_unstable();
    marks.dedup();
    let tables = plan.nics.iter().map(|nic| &nic.class_of);
    let tables = tables.chain(plan.switch_models.iter().map(|model| &model.class_of));
    let mut classes: Vec<u8> =
        tables.flat_map(|table| marks.iter().map(|&mark| table[mark as usize])).collect();
    classes.sort_unstable();
    classes.dedup();
    classes
}

/// Spreads `wanted` picks over `count` queue pairs.
fn tracked(count: usize, wanted: usize) -> impl Iterator<Item = usize> {
    let picks = wanted.min(count);
    (0..picks).map(move |pick| pick * count / picks)
}

pub(super) fn egress_name(world: &World, port: usize, class: u8) -> String {
    format!("{}/tc{class}", world.fabric.links[port].name)
}

pub(super) fn ingress_name(world: &World, port: usize, class: u8) -> String {
    format!("{}/pg{class}", world.fabric.links[port].name)
}

pub(super) fn receive_name(plan: &Plan, host: usize) -> String {
    format!("{}/rx", plan.hosts[host].name)
}

pub(super) fn send_queue_name(plan: &Plan, host: usize, class: u8) -> String {
    format!("{}/sq{class}", plan.hosts[host].name)
}

fn queue_pair(plan: &Plan, world: &World, qp: usize) -> Entity {
    let s = &world.nics.send_qps[qp];
    let (kind, short, number, item) = match qp.checked_sub(world.nics.first_flow_qp as usize) {
        Some(message) => {
            let flow = &plan.flows.list[message];
            ("message", "flow", message, &plan.flows.items[flow.item()])
        }
        None => {
            let number = world.nics.writers[s.writer as usize].number_of(qp as u32) as usize;
            ("queue-pair", "qp", number, &plan.writers[s.writer as usize].item)
        }
    };
    let (src, dst) = (&plan.hosts[s.src as usize].name, &plan.hosts[s.dst as usize].name);
    Entity::new(format!("{src}-{dst}/{short}{number}"), kind, src).towards(dst).of_item(item)
}
