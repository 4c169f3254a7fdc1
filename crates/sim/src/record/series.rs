//! Time series: which there are, and what is read for them at the end of each bin.
//!
//! Bins start at 1 us, or 10 us where there are thousands of series. Nothing is done per packet but what the counters and the
//! queues' integrals over time cost anyway.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use tailback_proto::units::Time;

use super::bins::{Bins, FEW_BINS, FIRST_BIN, MAX_VALUES};
use super::entity::{at_port, peer_name, Entity};
use super::hosts::{hears_delay, AGENT, DELAY, NIC};
use super::items::{self, Items};
use super::ports::{EGRESS, INGRESS, MARKS, PAUSED, PAUSING, REFUSED, SEND};
use super::quantity::{Bin, Kind, Table};
use super::queue_pairs::{self, Signal};
use super::recording::Series;
use super::signals::{Signal as Tells, Signals, Who};
use super::tcp::{self, CONNECTION, CPU, RINGS};
use super::told::{counted, PairLog};
use super::{bridges, host_paths, veth};
use crate::fabric::lane;
use crate::plan::Plan;
use crate::world::World;

/// Length of a bin at the start of a run where there are more than [`MANY_COLUMNS`], so that reading them all takes a small
/// part of the run.
const FIRST_BIN_OF_MANY: Time = Time::from_us(10);
const MANY_COLUMNS: usize = 2_000;
/// In place of a node: what is added up over all of them.
pub(super) const NOWHERE: usize = usize::MAX;

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
    /// Whether queues of a kind are listed.
    pub fn lists(self, kind: &str) -> bool {
        match self {
            Detail::Full => true,
            Detail::EgressQueues => matches!(kind, "receive" | "send" | "egress"),
            Detail::Hosts => matches!(kind, "receive" | "send"),
        }
    }

    /// In words, for people.
    pub fn text(self, chosen: bool) -> &'static str {
        match self {
            Detail::Full | Detail::EgressQueues if chosen => {
                "hosts, queue pairs and those egress queues that record.queues chooses"
            }
            Detail::Full => "everything",
            Detail::EgressQueues => "hosts, queue pairs and egress queues",
            Detail::Hosts => "hosts and queue pairs",
        }
    }
}

/// The ports of switches whose queues are recorded.
pub(crate) struct Chosen<'a>(Option<HashSet<&'a str>>);

impl<'a> Chosen<'a> {
    pub fn of(plan: &'a Plan) -> Self {
        Chosen(plan.record.queues.as_ref().map(|ports| ports.iter().map(String::as_str).collect()))
    }

    pub fn has(&self, world: &World, port: usize) -> bool {
        self.0.as_ref().is_none_or(|ports| ports.contains(world.fabric.links[port].name.as_str()))
    }
}

/// A series.
pub(super) struct Column {
    entity: u32,
    metric: Cow<'static, str>,
    pub(super) kind: Kind,
    /// Whether a value above 0 is a reason to keep the entity.
    keeps: bool,
    /// The signal whose bins these are in the log of signals.
    signal: Option<Tells>,
}

/// Columns that are read together, at one place.
pub(super) struct Reader {
    read: fn(&mut Bin, usize, &mut [u64], &mut [f64]),
    at: usize,
    pub(super) columns: usize,
    /// The first of them.
    pub(super) first: usize,
    /// The node that it reads the counters of.
    pub(super) node: usize,
}

/// Reads the counters at the end of each bin.
pub(crate) struct Recorder {
    pub detail: Detail,
    /// Whether only some queues were to be recorded.
    chosen: bool,
    pub(super) readers: Vec<Reader>,
    pub(super) columns: Vec<Column>,
    /// By column: the counter's value at the start of the bin.
    pub(super) before: Vec<u64>,
    pub(super) entities: Vec<Entity>,
    /// By entity: whether it is kept even where nothing ever happened.
    pub(super) always: Vec<bool>,
    pub(super) items: Option<Items>,
    /// CNPs, NAKs and delay probes, where each pair of hosts has its own.
    pub(super) pairs: PairLog,
    /// The node that is read next.
    node: usize,
    pub(super) bins: Bins,
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
        let kinds: Vec<Kind> = recorder.columns.iter().map(|column| column.kind).collect();
        let first_bin = if kinds.len() > MANY_COLUMNS { FIRST_BIN_OF_MANY } else { FIRST_BIN };
        recorder.before = vec![0; kinds.len()];
        recorder.bins = Bins::new(kinds, Time::ZERO, first_bin, most);
        recorder
    }

    fn empty(detail: Detail, chosen: bool) -> Self {
        Recorder {
            detail,
            chosen,
            readers: Vec::new(),
            columns: Vec::new(),
            before: Vec::new(),
            entities: Vec::new(),
            always: Vec::new(),
            items: None,
            pairs: PairLog::default(),
            node: 0,
            bins: Bins::default(),
        }
    }

    /// Another one that has yet to be given what it reads.
    pub(super) fn beside(&self) -> Self {
        Recorder::empty(self.detail, self.chosen)
    }

    fn of_detail(plan: &Plan, world: &World, detail: Detail) -> Self {
        let mut recorder = Recorder::empty(detail, plan.record.queues.is_some());
        let classes = used_classes(plan);
        let agent_of: HashMap<u32, usize> =
            world.agents.iter().enumerate().map(|(index, agent)| (agent.host, index)).collect();
        // The class of the first queue pair to each host, where hosts have paths.
        let mut class_to: HashMap<u16, u8> = HashMap::new();
        if !world.nics.host_paths.is_empty() {
            for s in &world.nics.send_qps {
                class_to.entry(s.dst).or_insert(s.class);
            }
        }
        for (host, host_plan) in plan.hosts.iter().enumerate() {
            let has_cpu = !world.tcp.cpus.cores_of(host).is_empty();
            recorder.node = host;
            recorder.add(Entity::new(&host_plan.name, "host", &host_plan.name));
            recorder.read(&NIC, host);
            if hears_delay(world, host) {
                recorder.read(&DELAY, host);
            }
            if has_cpu {
                recorder.read(&CPU, host);
            }
            if let Some(&agent) = agent_of.get(&(host as u32)) {
                recorder.read(&AGENT, agent);
            }
            if has_cpu {
                recorder.add(Entity::new(receive_name(plan, host), "receive", &host_plan.name));
                recorder.read(&RINGS, host);
            }
        }
        for (number, path) in world.nics.host_paths.iter().enumerate() {
            let class = class_to.get(&(path.host as u16)).copied();
            for row in host_paths::ROWS {
                recorder.add(host_paths::entity(plan, path, row));
                for (table, at) in host_paths::tables(path, number, row, class) {
                    recorder.read(table, at);
                }
            }
        }
        for (entity, table, at) in bridges::entities(plan, world) {
            recorder.add(entity);
            recorder.read(table, at);
        }
        let chosen = Chosen::of(plan);
        for port in (0..world.fabric.ports.len()).filter(|&port| !world.fabric.is_bridge(port)) {
            let host = world.fabric.ports[port].owner as usize;
            recorder.node = host;
            for &class in &classes {
                let at = lane(port, class);
                if host < world.nics.nics.len() {
                    recorder.add(at_port(plan, world, send_queue_name(plan, host, class), "send", port));
                    recorder.read(&SEND, at);
                    recorder.read(&PAUSED, at);
                } else if detail != Detail::Hosts && chosen.has(world, port) {
                    recorder.add(at_port(plan, world, egress_name(world, port, class), "egress", port));
                    recorder.read(&EGRESS, at);
                    if detail == Detail::Full {
                        recorder.read(&MARKS, at);
                    }
                    recorder.read(&PAUSED, at);
                    if detail == Detail::Full {
                        recorder.add(at_port(plan, world, ingress_name(world, port, class), "ingress", port));
                        recorder.read(&INGRESS, at);
                        recorder.read(&PAUSING, at);
                        recorder.read(&REFUSED, at);
                    }
                }
            }
        }
        for qp in tracked(world.nics.send_qps.len(), plan.record.qps as usize) {
            let (own, beside) = queue_pairs::signals(world, qp);
            let s = &world.nics.send_qps[qp];
            recorder.add(queue_pairs::entity(plan, world, qp));
            recorder.node = s.src as usize;
            recorder.read(&queue_pairs::RATE, qp);
            own.into_iter().for_each(|signal| recorder.read_signal(signal));
            recorder.node = s.dst as usize;
            recorder.read(&queue_pairs::DELIVERED, qp);
            recorder.node = s.src as usize;
            beside.into_iter().for_each(|signal| recorder.read_signal(signal));
        }
        for connection in tracked(world.tcp.sockets.connections.len(), plan.record.qps as usize) {
            recorder.add(tcp::entity(plan, world, connection));
            recorder.read(&CONNECTION, connection);
        }
        for (entity, tables, at) in veth::entities(plan, world) {
            recorder.add(entity);
            tables.into_iter().for_each(|table| recorder.read(table, at));
        }
        recorder
    }

    fn add(&mut self, entity: Entity) {
        self.entities.push(entity);
        self.always.push(false);
    }

    /// More of the latest entity.
    fn read(&mut self, table: &'static Table, at: usize) {
        let entity = self.entities.len() - 1;
        debug_assert!(table.of.contains(&self.entities[entity].kind));
        self.always[entity] |= table.always;
        let (first, node) = (self.columns.len(), self.node);
        self.readers.push(Reader { read: table.read, at, columns: table.rows.len(), first, node });
        self.columns.extend(table.rows.iter().filter_map(|row| {
            let (entity, metric) = (entity as u32, Cow::Borrowed(row.metric));
            Some(Column { entity, metric, kind: row.kind?, keeps: row.keeps, signal: row.signal })
        }));
    }

    fn read_signal(&mut self, signal: Signal) {
        let entity = self.entities.len() as u32 - 1;
        let (first, node) = (self.columns.len(), self.node);
        self.readers.push(Reader { read: signal.read, at: signal.at, columns: 1, first, node });
        let (metric, kind) = (signal.name, signal.kind);
        self.columns.push(Column { entity, metric, kind, keeps: false, signal: None });
    }

    /// Traffic items, and each at each of its senders.
    fn add_items(&mut self, plan: &Plan) {
        let Some(items) = &self.items else { return };
        self.node = NOWHERE;
        let (names, at_senders) = (items.names.clone(), items.at_senders.clone());
        for (item, name) in names.iter().enumerate() {
            self.add(Entity::new(format!("item:{name}"), "item", "").of_item(name));
            self.read(&items::ITEM, item);
        }
        for (index, of) in at_senders.iter().enumerate() {
            let (host, item) = (&plan.hosts[of.host as usize].name, &names[of.item as usize]);
            self.add(Entity::new(format!("{host}/{item}"), "item-at-sender", host).of_item(item));
            self.read(&items::ITEM_AT_SENDER, index);
        }
    }

    /// When the bin that is open ends.
    pub fn next_sample(&self) -> Time {
        self.bins.next()
    }

    /// Closes the bin that ends now.
    pub fn sample(&mut self, world: &mut World) {
        self.close_bin(world);
        if let Some(factor) = self.bins.merge_if_full() {
            self.pairs.merge(factor);
        }
    }

    /// Closes the last bin, which may be shorter and so is never merged.
    pub fn close(&mut self, world: &mut World) {
        if self.bins.span(world.fabric.run.now) > Time::ZERO {
            self.close_bin(world);
        }
    }

    fn close_bin(&mut self, world: &mut World) {
        let now = world.fabric.run.now;
        let span = self.bins.span(now);
        if let Some(items) = &mut self.items {
            items.update(world);
        }
        self.pairs.close_bin(self.bins.count(), &mut world.nics.pair_counts);
        let mut bin = Bin { now, span, items: self.items.as_ref(), world };
        let (mut before, mut values) = (&mut self.before[..], self.bins.close(now));
        for reader in &self.readers {
            (reader.read)(&mut bin, reader.at, before, values);
            (before, values) = (&mut before[reader.columns..], &mut values[reader.columns..]);
        }
    }

    /// Gives out what was recorded. Queues that stayed empty are left out of the series.
    pub fn into_series(self, plan: &Plan, world: &World) -> (Series, Signals) {
        let (bin, bins, mut values) = self.bins.into_columns();
        let read = || self.columns.iter().zip(values.chunks_exact(bins.max(1)));
        let signals = signals(plan, world, read(), &self.entities, (self.pairs, bin));
        let mut used = self.always;
        for (column, values) in read().filter(|(column, _)| column.keeps) {
            used[column.entity as usize] |= values.iter().any(|&value| value > 0.0);
        }
        let kept = Series::keep(self.columns.into_iter(), |one| used[one.entity as usize], bins, &mut values);
        let names = kept.into_iter().map(|column| (column.entity as usize, column.metric)).collect();
        let detail = self.detail.text(self.chosen);
        (Series { entities: self.entities, names, values, bin, bins, detail }, signals)
    }
}

/// The log of signals, from columns and their bins.
fn signals<'a>(
    plan: &Plan,
    world: &World,
    columns: impl Iterator<Item = (&'a Column, &'a [f64])>,
    entities: &[Entity],
    (pairs, bin): (PairLog, Time),
) -> Signals {
    let span = (bin, world.fabric.run.now);
    let by_pair = world.nics.pair_counts.is_kept();
    let mut found = Signals::default();
    for (column, values) in columns {
        let Some(signal) = column.signal.filter(|signal| !(by_pair && signal.is_between_hosts())) else {
            continue;
        };
        let entity = &entities[column.entity as usize];
        let who = || match Who::at(signal, entity) {
            // A receive buffer is at no port of its own.
            who if signal == Tells::PfcXoff && who.to.is_empty() => {
                let host = plan.hosts.iter().position(|host| host.name == entity.node);
                let port = host.map(|host| world.nics[host].port as usize);
                Who { to: port.map_or_else(String::new, |port| peer_name(plan, world, port)), ..who }
            }
            who => who,
        };
        found.add_column(who, column.kind, values, span);
    }
    pairs.add_to(&mut found, plan, &world.nics.pair_counts, span);
    found.add_rest(world.fabric.run.now, counted(plan, world).into_iter());
    found
}

/// Classes that any packet of the plan can be in.
pub(super) fn used_classes(plan: &Plan) -> Vec<u8> {
    let mut code_points: Vec<u8> = plan.writers.iter().map(|writer| writer.code_point).collect();
    code_points.extend(plan.flows.list.iter().map(|flow| flow.code_point()));
    code_points.extend(plan.flows.of_work.then_some(0));
    code_points.extend(plan.jobs.iter().map(|job| job.code_point));
    code_points.extend(plan.tcp_connections.iter().map(|item| item.code_point));
    code_points.extend(plan.nics.iter().filter_map(|nic| nic.cnp_code_point));
    code_points.sort_unstable();
    code_points.dedup();
    let tables = plan.nics.iter().map(|nic| &nic.class_of);
    let tables = tables.chain(plan.switch_models.iter().map(|model| &model.class_of));
    let mut classes: Vec<u8> =
        tables.flat_map(|table| code_points.iter().map(|&number| table[number as usize])).collect();
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
