//! Time series: which there are, and what is read for them at the end of each bin.
//!
//! Bins start at 1 us, or 10 us where there are thousands of series. Nothing is done per packet but what the counters and the
//! queues' integrals over time cost anyway.

use std::collections::{HashMap, HashSet};
use tailback_proto::units::Time;

use super::bins::{FEW_BINS, FIRST_BIN, MAX_VALUES};
use super::entity::{at_port, peer_name, Entity};
use super::hosts::{hears_delay, AGENT, DELAY, NIC};
use super::items::{self, Items};
use super::ports::{EGRESS, INGRESS, MARKS, PAUSED, PAUSING, REFUSED, SEND};
use super::queue_pairs;
use super::readings::Readings;
use super::recording::Series;
use super::signals::{Signal, Signals, Who};
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
pub(crate) struct Chosen(Option<HashSet<String>>);

impl Chosen {
    pub fn of(plan: &Plan) -> Self {
        Chosen(plan.record.queues.as_ref().map(|ports| ports.iter().cloned().collect()))
    }

    pub fn has(&self, world: &World, port: usize) -> bool {
        self.0.as_ref().is_none_or(|ports| ports.contains(world.fabric.links[port].name.as_str()))
    }
}

/// Reads the counters at the end of each bin.
pub(crate) struct Recorder {
    pub detail: Detail,
    /// Whether only some queues were to be recorded.
    chosen: bool,
    pub(super) read: Readings<World>,
    pub(super) items: Option<Items>,
    /// CNPs, NAKs and delay probes, where each pair of hosts has its own.
    pub(super) pairs: PairLog,
}

impl Recorder {
    pub fn new(plan: &Plan, world: &World) -> Self {
        let details = [Detail::Full, Detail::EgressQueues, Detail::Hosts];
        let most = plan.record.max_bins as usize;
        let few = FEW_BINS.min(most);
        let mut all = details.into_iter().map(|detail| (detail, of_detail(plan, world, detail)));
        let fits = |(_, read): &(Detail, Readings<World>)| read.len() * few <= MAX_VALUES;
        let hosts = || (Detail::Hosts, of_detail(plan, world, Detail::Hosts));
        let (detail, mut read) = all.by_ref().find(fits).unwrap_or_else(hosts);
        let items = Items::new(plan, world);
        add_items(&mut read, plan, items.as_ref());
        let first_bin = if read.len() > MANY_COLUMNS { FIRST_BIN_OF_MANY } else { FIRST_BIN };
        read.begin(Time::ZERO, first_bin, most);
        let chosen = plan.record.queues.is_some();
        Recorder { detail, chosen, read, items, pairs: PairLog::default() }
    }

    /// Another one that has yet to be given what it reads.
    pub(super) fn beside(&self) -> Self {
        let (read, pairs) = (Readings::default(), PairLog::default());
        Recorder { detail: self.detail, chosen: self.chosen, read, items: None, pairs }
    }

    /// When the open bin ends, by a clock that has not counted `skipped`.
    pub fn next_sample(&self, skipped: Time) -> Time {
        self.read.bins.next() - skipped
    }

    /// Closes the bin that ends now.
    pub fn sample(&mut self, world: &mut World) {
        self.close_bin(world, world.fabric.run.simulated());
        self.merge_if_full();
    }

    /// Makes room for another bin, if none is left.
    pub(crate) fn merge_if_full(&mut self) {
        if let Some(factor) = self.read.bins.merge_if_full() {
            self.pairs.merge(factor);
        }
    }

    /// Closes the last bin, which may be shorter and so is never merged.
    pub fn close(&mut self, world: &mut World) {
        let end = world.fabric.run.simulated();
        if self.read.bins.span(end) > Time::ZERO {
            self.close_bin(world, end);
        }
    }

    /// Closes the bin that is open at a simulated time. How long it was.
    pub(crate) fn close_bin(&mut self, world: &mut World, end: Time) -> Time {
        let (now, span) = (world.fabric.run.now, self.read.bins.span(end));
        if let Some(items) = &mut self.items {
            items.update(world);
        }
        self.pairs.close_bin(self.read.bins.count(), &mut world.nics.pair_counts);
        self.read.close_bin(world, (now, end), self.items.as_ref());
        span
    }

    /// Gives out what was recorded. Queues that stayed empty are left out of the series.
    pub fn into_series(self, plan: &Plan, world: &World) -> (Series, Signals) {
        let now = world.fabric.run.simulated();
        let by_pair = world.nics.pair_counts.is_kept();
        let mut signals = Signals::default();
        let detail = self.detail.text(self.chosen);
        let series = self.read.into_series(detail, |signal, entity, kind, values, bin| {
            if !(by_pair && signal.is_between_hosts()) {
                signals.add_column(|| who(plan, world, signal, entity), kind, values, (bin, now));
            }
        });
        self.pairs.add_to(&mut signals, plan, &world.nics.pair_counts, (series.bin, now));
        signals.add_rest(now, counted(plan, world).into_iter());
        (series, signals)
    }
}

/// All that is recorded in this detail but traffic items.
fn of_detail(plan: &Plan, world: &World, detail: Detail) -> Readings<World> {
    let mut found = Readings::default();
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
        found.node = host;
        found.add(Entity::new(&host_plan.name, "host", &host_plan.name));
        found.read(&NIC, host);
        if hears_delay(world, host) {
            found.read(&DELAY, host);
        }
        if has_cpu {
            found.read(&CPU, host);
        }
        if let Some(&agent) = agent_of.get(&(host as u32)) {
            found.read(&AGENT, agent);
        }
        if has_cpu {
            found.add(Entity::new(receive_name(plan, host), "receive", &host_plan.name));
            found.read(&RINGS, host);
        }
    }
    for (number, host_path) in world.nics.host_paths.iter().enumerate() {
        let class = class_to.get(&(host_path.host as u16)).copied();
        for row in host_paths::ROWS {
            found.add(host_paths::entity(plan, host_path, row));
            for (table, at) in host_paths::tables(host_path, number, row, class) {
                found.read(table, at);
            }
        }
    }
    for (entity, table, at) in bridges::entities(plan, world) {
        found.add(entity);
        found.read(table, at);
    }
    let chosen = Chosen::of(plan);
    for port in (0..world.fabric.ports.len()).filter(|&port| !world.fabric.is_bridge(port)) {
        let host = world.fabric.ports[port].owner as usize;
        found.node = host;
        for &class in &classes {
            let at = lane(port, class);
            if host < world.nics.nics.len() {
                found.add(at_port(plan, world, send_queue_name(plan, host, class), "send", port));
                found.read(&SEND, at);
                found.read(&PAUSED, at);
            } else if detail != Detail::Hosts && chosen.has(world, port) {
                found.add(at_port(plan, world, egress_name(world, port, class), "egress", port));
                found.read(&EGRESS, at);
                if detail == Detail::Full {
                    found.read(&MARKS, at);
                }
                found.read(&PAUSED, at);
                if detail == Detail::Full {
                    found.add(at_port(plan, world, ingress_name(world, port, class), "ingress", port));
                    found.read(&INGRESS, at);
                    found.read(&PAUSING, at);
                    found.read(&REFUSED, at);
                }
            }
        }
    }
    for qp in tracked(world.nics.send_qps.len(), plan.record.qps as usize) {
        let (own, beside) = queue_pairs::signals(world, qp);
        let s = &world.nics.send_qps[qp];
        found.add(queue_pairs::entity(plan, world, qp));
        found.node = s.src as usize;
        found.read(&queue_pairs::RATE, qp);
        own.into_iter().for_each(|signal| found.read_shown(signal));
        found.node = s.dst as usize;
        found.read(&queue_pairs::DELIVERED, qp);
        found.node = s.src as usize;
        beside.into_iter().for_each(|signal| found.read_shown(signal));
    }
    for connection in tracked(world.tcp.sockets.connections.len(), plan.record.qps as usize) {
        found.add(tcp::entity(plan, world, connection));
        found.read(&CONNECTION, connection);
    }
    for (entity, tables, at) in veth::entities(plan, world) {
        found.add(entity);
        tables.into_iter().for_each(|table| found.read(table, at));
    }
    found
}

/// Traffic items, and each at each of its senders.
fn add_items(found: &mut Readings<World>, plan: &Plan, items: Option<&Items>) {
    let Some(items) = items else { return };
    found.node = NOWHERE;
    for (item, name) in items.names.iter().enumerate() {
        found.add(Entity::new(format!("item:{name}"), "item", "").of_item(name));
        found.read(&items::ITEM, item);
    }
    for (index, of) in items.at_senders.iter().enumerate() {
        let (host, item) = (&plan.hosts[of.host as usize].name, &items.names[of.item as usize]);
        found.add(Entity::new(format!("{host}/{item}"), "item-at-sender", host).of_item(item));
        found.read(&items::ITEM_AT_SENDER, index);
    }
}

/// Who tells whom at an entity.
fn who(plan: &Plan, world: &World, signal: Signal, entity: &Entity) -> Who {
    match Who::at(signal, entity) {
        // A receive buffer is at no port of its own.
        who if signal == Signal::PfcXoff && who.to.is_empty() => {
            let host = plan.hosts.iter().position(|host| host.name == entity.node);
            let port = host.map(|host| world.nics[host].port as usize);
            Who { to: port.map_or_else(String::new, |port| peer_name(plan, world, port)), ..who }
        }
        who => who,
    }
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
