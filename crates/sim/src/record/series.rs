//! Time series: which there are, and what is read for them at the end of each bin.
//!
//! Bins start at 1 us, or 10 us where there are thousands of series. Nothing is done per packet but what the counters and the
//! queues' integrals over time cost anyway.

use std::borrow::Cow;
use std::cell::Cell;
use std::collections::{HashMap, HashSet};
use std::ops::Range;
use tailback_proto::units::Time;

use super::hosts::{hears_delay, AGENT, DELAY, NIC};
use super::ports::{EGRESS, INGRESS, MARKS, PAUSED, PAUSING, REFUSED, SEND};
use super::quantity::{Bin, Table, ValueKind};
use super::queue_pairs::Items;
use super::recording::{at_port, peer_name, Entity, Series};
use super::settings::MIN_BINS;
use super::signals::{counted, PairLog, Signal, SignalEnds, Signals};
use super::tcp::{CONNECTION, CPU, RINGS};
use super::{hosts, queue_pairs, tcp};
use crate::fabric::cut::Mail;
use crate::fabric::lane;
use crate::linux::record::{bridges, veth};
use crate::plan::Plan;
use crate::world::World;

/// Length of a bin at the start of a run where there are more than [`MANY_COLUMNS`], so that reading them all takes a small
/// part of the run.
const FIRST_BIN_OF_MANY: Time = Time::from_us(10);

const MANY_COLUMNS: usize = 2_000;

/// In place of a node: what is added up over all of them.
pub(crate) const NOWHERE: usize = usize::MAX;

/// How much of the fabric is recorded: the most that fits [`MAX_VALUES`] with [`FEW_BINS`] each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Detail {
    /// Hosts and queue pairs, egress queues and ingress groups.
    Full,
    /// Hosts and queue pairs, and of each egress queue its length and pauses.
    EgressQueues,
    /// Hosts and queue pairs.
    Hosts,
}

impl Detail {
    /// True if queues of a kind are listed.
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
    /// True if only some queues were to be recorded.
    chosen: bool,
    pub(crate) read: Readings<World>,
    pub(crate) items: Option<Items>,
    /// CNPs, NAKs and delay probes, where each pair of hosts has its own.
    pub(crate) pairs: PairLog,
}

impl Recorder {
    pub fn new(plan: &Plan, world: &World) -> Self {
        let details = [Detail::Full, Detail::EgressQueues, Detail::Hosts];
        let most = plan.record.max_bins as usize;
        let few = FEW_BINS.min(most);
        let mut all = details.into_iter().map(|detail| (detail, of_detail(plan, world, detail)));
        let fits = |(_, read): &(Detail, Readings<World>)| read.column_count() * few <= MAX_VALUES;
        let hosts = || (Detail::Hosts, of_detail(plan, world, Detail::Hosts));
        let (detail, mut read) = all.by_ref().find(fits).unwrap_or_else(hosts);
        let items = Items::new(plan, world);
        add_items(&mut read, plan, items.as_ref());
        let first_bin = if read.column_count() > MANY_COLUMNS { FIRST_BIN_OF_MANY } else { FIRST_BIN };
        read.begin(Time::ZERO, first_bin, most);
        let chosen = plan.record.queues.is_some();
        Recorder { detail, chosen, read, items, pairs: PairLog::default() }
    }

    /// Another one that has yet to be given what it reads.
    pub(crate) fn beside(&self) -> Self {
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
        self.read.close_bin_of_items(world, (now, end), self.items.as_ref());
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
        for row in hosts::ROWS {
            found.add(hosts::entity(plan, host_path, row));
            for (table, at) in hosts::tables(host_path, number, row, class) {
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
        found.read(&queue_pairs::ITEM, item);
    }
    for (index, of) in items.at_senders.iter().enumerate() {
        let (host, item) = (&plan.hosts[of.host as usize].name, &items.names[of.item as usize]);
        found.add(Entity::new(format!("{host}/{item}"), "item-at-sender", host).of_item(item));
        found.read(&queue_pairs::ITEM_AT_SENDER, index);
    }
}

/// Who tells whom at an entity.
fn who(plan: &Plan, world: &World, signal: Signal, entity: &Entity) -> SignalEnds {
    match SignalEnds::at(signal, entity) {
        // A receive buffer is at no port of its own.
        who if signal == Signal::PfcXoff && who.to.is_empty() => {
            let host = plan.hosts.iter().position(|host| host.name == entity.node);
            let port = host.map(|host| world.nics[host].port as usize);
            SignalEnds { to: port.map_or_else(String::new, |port| peer_name(plan, world, port)), ..who }
        }
        who => who,
    }
}

/// Classes that any packet of the plan can be in.
pub(crate) fn used_classes(plan: &Plan) -> Vec<u8> {
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

pub(crate) fn egress_name(world: &World, port: usize, class: u8) -> String {
    format!("{}/tc{class}", world.fabric.links[port].name)
}

pub(crate) fn ingress_name(world: &World, port: usize, class: u8) -> String {
    format!("{}/pg{class}", world.fabric.links[port].name)
}

pub(crate) fn receive_name(plan: &Plan, host: usize) -> String {
    format!("{}/rx", plan.hosts[host].name)
}

pub(crate) fn send_queue_name(plan: &Plan, host: usize, class: u8) -> String {
    format!("{}/sq{class}", plan.hosts[host].name)
}

// What is read at the end of each bin, of the world of either engine: the columns of the series, and the tables that give their values.

/// A series.
pub(crate) struct Column {
    entity: u32,
    metric: Cow<'static, str>,
    pub kind: ValueKind,
    /// True if a value above 0 is a reason to keep the entity.
    keeps: bool,
    /// The signal whose bins these are in the log of signals.
    signal: Option<Signal>,
}

/// Columns that are read together, at one place.
pub(crate) struct Reader<W> {
    read: fn(&mut Bin<W>, usize, &mut [u64], &mut [f64]),
    pub at: usize,
    pub columns: usize,
    /// The first of them.
    pub first: usize,
    /// The node that it reads the counters of.
    pub node: usize,
}

/// Something that is no row of a table: what a controller shows.
pub struct ShownSignal<W> {
    pub name: Cow<'static, str>,
    pub kind: ValueKind,
    pub read: fn(&mut Bin<W>, usize, &mut [u64], &mut [f64]),
    pub at: usize,
}

/// All that is read of a world.
pub struct Readings<W> {
    pub(crate) readers: Vec<Reader<W>>,
    pub(crate) columns: Vec<Column>,
    /// By column: the counter's value at the start of the bin.
    pub(crate) before: Vec<u64>,
    entities: Vec<Entity>,
    /// By entity: whether it is kept even where nothing ever happened.
    always: Vec<bool>,
    /// The node that is read next.
    pub node: usize,
    pub bins: Bins,
}

impl<W> Default for Readings<W> {
    fn default() -> Self {
        Readings {
            readers: Vec::new(),
            columns: Vec::new(),
            before: Vec::new(),
            entities: Vec::new(),
            always: Vec::new(),
            node: 0,
            bins: Bins::default(),
        }
    }
}

impl<W> Readings<W> {
    /// Readings that are added next belong to this entity.
    pub fn add(&mut self, entity: Entity) {
        self.entities.push(entity);
        self.always.push(false);
    }

    /// More of the latest entity.
    pub fn read(&mut self, table: &'static Table<W>, at: usize) {
        let entity = self.entities.len() - 1;
        debug_assert!(table.quantities.of.contains(&self.entities[entity].kind));
        self.always[entity] |= table.quantities.always;
        let (first, node) = (self.columns.len(), self.node);
        self.readers.push(Reader { read: table.read, at, columns: table.quantities.rows.len(), first, node });
        self.columns.extend(table.quantities.rows.iter().filter_map(|row| {
            let (entity, metric) = (entity as u32, Cow::Borrowed(row.metric));
            Some(Column { entity, metric, kind: row.kind?, keeps: row.keeps, signal: row.signal })
        }));
    }

    /// More of the latest entity, which no table has.
    pub fn read_shown(&mut self, shown: ShownSignal<W>) {
        let entity = self.entities.len() as u32 - 1;
        let (first, node) = (self.columns.len(), self.node);
        self.readers.push(Reader { read: shown.read, at: shown.at, columns: 1, first, node });
        let (metric, kind) = (shown.name, shown.kind);
        self.columns.push(Column { entity, metric, kind, keeps: false, signal: None });
    }

    /// Columns so far.
    pub fn column_count(&self) -> usize {
        self.columns.len()
    }

    /// Of each column: the kind of its entity, its metric, and how it is read.
    pub(crate) fn each(&self) -> impl Iterator<Item = (&'static str, &str, ValueKind)> {
        self.columns.iter().map(|one| (self.entities[one.entity as usize].kind, &*one.metric, one.kind))
    }

    /// All is added: bins begin at `start`, the first of this length; `most`: bins that there may be.
    pub fn begin(&mut self, start: Time, first_bin: Time, most: usize) {
        self.before = vec![0; self.columns.len()];
        self.bins = Bins::new(self.kinds(), start, first_bin, most);
    }

    /// How bins of the columns are merged.
    pub(crate) fn kinds(&self) -> Vec<ValueKind> {
        self.columns.iter().map(|column| column.kind).collect()
    }

    /// Closes the bin that ends now, by the clock of the world, and by that of the bins: they differ by what was skipped.
    pub fn close_bin(&mut self, world: &mut W, now_and_end: (Time, Time)) {
        self.close_bin_of_items(world, now_and_end, None);
    }

    /// The same, where there are traffic items.
    fn close_bin_of_items(&mut self, world: &mut W, (now, end): (Time, Time), items: Option<&Items>) {
        let mut bin = Bin { now, span: self.bins.span(end), items, world };
        read(&self.readers, &mut bin, &mut self.before, self.bins.close(end));
    }

    /// Gives out what was read, and hands the columns of signals on, with the length of a bin. Entities of which nothing is
    /// a reason to keep them are left out of the series.
    pub fn into_series(
        self,
        detail: &'static str,
        mut tell: impl FnMut(Signal, &Entity, ValueKind, &[f64], Time),
    ) -> Series {
        let (bin, bins, mut values) = self.bins.into_columns();
        let read = || self.columns.iter().zip(values.chunks_exact(bins.max(1)));
        let mut used = self.always;
        for (column, values) in read() {
            let entity = column.entity as usize;
            if let Some(signal) = column.signal {
                tell(signal, &self.entities[entity], column.kind, values, bin);
            }
            used[entity] |= column.keeps && values.iter().any(|&value| value > 0.0);
        }
        let kept = Series::keep(self.columns.into_iter(), |one| used[one.entity as usize], bins, &mut values);
        let names = kept.into_iter().map(|column| (column.entity as usize, column.metric)).collect();
        Series { entities: self.entities, names, values, bin, bins, detail }
    }
}

fn read<W>(readers: &[Reader<W>], bin: &mut Bin<W>, mut before: &mut [u64], mut values: &mut [f64]) {
    for reader in readers {
        (reader.read)(bin, reader.at, before, values);
        (before, values) = (&mut before[reader.columns..], &mut values[reader.columns..]);
    }
}

// Bins of time with a value of each column. Their number is limited, however long the run.
//
// When the most that there may be are full, bins are merged, by 5 and by 2 in turn (1, 5, 10, 50, 100 us, ...), so that a
// recording holds between a fifth and all of its bins. Counts add up, means are averaged, maxima stay maxima.

/// Length of a bin at the start of a run.
pub const FIRST_BIN: Time = Time::from_us(1);

/// Most values that a recording holds (32 MB): many columns have fewer bins each.
pub const MAX_VALUES: usize = 4 << 20;

/// Fewer bins than this show little: then less is recorded of each port.
pub const FEW_BINS: usize = 100;

/// The bins of all columns.
#[derive(Default)]
pub struct Bins {
    /// By column: how bins are merged.
    kinds: Vec<ValueKind>,
    /// Bin by bin, each with the values of all columns: the ends of columns would each lie in a line of memory of its own,
    /// which no cache holds. One piece of memory, which is given back as a whole. Behind the bins that are closed lies what bins
    /// held before they were merged.
    values: Vec<f64>,
    length: Time,
    /// Of the bin that is open.
    start: Time,
    count: usize,
    /// Of these, the last ones, in which nothing happened: their values are 0, and not in `values`.
    still: usize,
    most: usize,
    merge_by_two: bool,
}

impl Bins {
    /// Columns of these kinds, from `start` on, with at most `most` bins; fewer where there are very many columns.
    pub fn new(kinds: Vec<ValueKind>, start: Time, length: Time, most: usize) -> Self {
        // Merging by 5 and by 2 needs a multiple of 10.
        let most = most.min(MAX_VALUES / kinds.len().max(1)).max(MIN_BINS as usize) / 10 * 10;
        Bins { kinds, length, start, most, ..Bins::default() }
    }

    /// When the bin that is open ends.
    pub fn next(&self) -> Time {
        self.start + self.length
    }

    /// How long it has been open.
    pub fn span(&self, now: Time) -> Time {
        now.saturating_sub(self.start)
    }

    /// Closes the bin that ends now, in which nothing happened. So it will be until the end.
    pub fn close_still(&mut self, now: Time) {
        self.count += 1;
        self.still += 1;
        self.start = now;
    }

    /// Gives bins in which nothing happened their values, up to this one.
    fn fill(&mut self, bin: usize) {
        let filled = self.count - self.still;
        if bin > filled {
            let values = filled * self.kinds.len()..bin * self.kinds.len();
            self.values.truncate(values.start);
            self.values.resize(values.end, 0.0);
            self.still = self.count.saturating_sub(bin);
        }
    }

    /// Closes the bin that ends now: its values, by column, each to be filled in.
    pub fn close(&mut self, now: Time) -> &mut [f64] {
        self.fill(self.count);
        let values = self.count * self.kinds.len()..(self.count + 1) * self.kinds.len();
        if self.values.len() < values.end {
            self.values.resize(values.end, 0.0);
        }
        self.count += 1;
        self.start = now;
        &mut self.values[values]
    }

    /// The values of the bin that was closed last.
    pub fn last(&self) -> &[f64] {
        &self.values[(self.count - 1) * self.kinds.len()..self.count * self.kinds.len()]
    }

    pub fn last_mut(&mut self) -> &mut [f64] {
        &mut self.values[(self.count - 1) * self.kinds.len()..self.count * self.kinds.len()]
    }

    /// The last time up to `limit` at which a bin will end.
    pub fn last_end(&self, limit: Time) -> Time {
        let mut bins = self.of(Vec::new());
        while bins.next() <= limit {
            bins.close(bins.next());
            bins.merge_if_full();
        }
        bins.start
    }

    /// Bins that are closed.
    pub fn count(&self) -> usize {
        self.count
    }

    /// Makes room for another bin, if none is left: how many became one.
    pub fn merge_if_full(&mut self) -> Option<usize> {
        if self.count < self.most {
            return None;
        }
        let factor = match self.merge_by_two {
            false => self.merge::<5>(),
            true => self.merge::<2>(),
        };
        self.merge_by_two = !self.merge_by_two;
        self.length = Time(self.length.0 * factor as u64);
        Some(factor)
    }

    fn merge<const FACTOR: usize>(&mut self) -> usize {
        let columns = self.kinds.len();
        let bins = (self.count - self.still).div_ceil(FACTOR);
        self.fill(bins * FACTOR);
        // In place: the first bin that is merged is the first of those that become it.
        let values = Cell::from_mut(&mut self.values[..]).as_slice_of_cells();
        let of_bin = |bin: usize| &values[bin * columns..][..columns];
        for bin in 0..bins {
            let (merged, parts) =
                (of_bin(bin), std::array::from_fn::<_, FACTOR, _>(|at| of_bin(bin * FACTOR + at)));
            for (column, kind) in self.kinds.iter().enumerate() {
                merged[column].set(kind.merged(parts.map(|part| part[column].get())));
            }
        }
        self.count /= FACTOR;
        self.still = self.count - bins;
        FACTOR
    }

    /// Bins of other columns at the same times, without values.
    pub fn of(&self, kinds: Vec<ValueKind>) -> Self {
        let Bins { length, start, count, still, most, merge_by_two, .. } = *self;
        Bins { kinds, length, start, count, still, most, merge_by_two, ..Bins::default() }
    }

    /// Takes in the columns of other bins that began and ended with these: `order` has each piece of the new order, by
    /// the bins that it is of and its columns there. `parts` are all bins, these first.
    pub fn join(&mut self, parts: Vec<Bins>, order: &[(usize, Range<usize>)]) {
        self.kinds =
            order.iter().flat_map(|(part, own)| parts[*part].kinds[own.clone()].iter().copied()).collect();
        self.values = Vec::with_capacity(self.count * self.kinds.len());
        for bin in 0..self.count {
            for (part, own) in order {
                let Bins { kinds, values, .. } = &parts[*part];
                self.values.extend_from_slice(&values[bin * kinds.len()..][own.clone()]);
            }
        }
    }

    /// The length of a bin, of which the last may be shorter; how many there are; and the values, column by column.
    pub fn into_columns(self) -> (Time, usize, Vec<f64>) {
        let (bins, columns) = (self.count, self.kinds.len());
        let mut values = Vec::with_capacity(bins * columns);
        for column in 0..columns {
            values.extend((0..bins - self.still).map(|bin| self.values[bin * columns + column]));
            values.resize((column + 1) * bins, 0.0);
        }
        (if bins == 0 { Time::ZERO } else { self.length }, bins, values)
    }
}

// What is recorded of time that was skipped.

impl ValueKind {
    /// True if a bin's value is not the difference of a counter.
    fn is_gauge(self) -> bool {
        matches!(
            self,
            ValueKind::Mean | ValueKind::Now | ValueKind::Integral | ValueKind::Last | ValueKind::Max
        )
    }
}

impl Recorder {
    /// By column: whether it has the largest value of a bin.
    pub fn largest(&self) -> Vec<bool> {
        self.read.each().map(|(_, _, kind)| kind == ValueKind::Max).collect()
    }

    /// The columns with the mean lengths of egress queues.
    pub fn mean_lengths(&self) -> Vec<usize> {
        let columns = self.read.each().enumerate();
        let lengths = columns.filter(|(_, (of, metric, _))| *of == "egress" && *metric == "queue_mean_bytes");
        lengths.map(|(at, _)| at).collect()
    }

    /// The values of the bin that was closed last, before bins are merged.
    pub fn last_bin(&self) -> &[f64] {
        self.read.bins.last()
    }

    /// The last time up to `limit` at which a bin will end.
    pub fn end_of_bins(&self, limit: Time) -> Time {
        self.read.bins.last_end(limit)
    }

    /// Closes all bins up to `to`, where one ends, without anything happening in them but what `bring` does: it brings the world to
    /// a time. What is no counter has the value of `gauges`, except for what hosts have to send.
    pub fn skip_to(
        &mut self,
        world: &mut World,
        to: Time,
        gauges: &[f64],
        mut bring: impl FnMut(&mut World, Time),
    ) {
        let goes_on: Vec<bool> =
            self.read.each().map(|(of, _, kind)| kind.is_gauge() && of != "send").collect();
        while self.read.bins.next() <= to {
            let at = self.read.bins.next();
            bring(world, at);
            self.close_bin(world, at);
            let values = self.read.bins.last_mut().iter_mut().zip(gauges).zip(&goes_on);
            values.filter(|(_, goes_on)| **goes_on).for_each(|((value, gauge), _)| *value = *gauge);
            self.merge_if_full();
        }
    }
}

// Recorders of a network that is cut in parts: each reads what its part counts, and at the end they are one again.

/// A reader, and its columns: each with its counter at the start of the bin.
struct Read {
    reader: Reader<World>,
    /// The recorder that has it, and its first column there.
    part: usize,
    first: usize,
    columns: Vec<(Column, u64)>,
}

impl Recorder {
    /// Before the run: keeps what is read at nodes of part 0, and gives the recorders of the others.
    pub fn cut(&mut self, parts: usize, part_of: impl Fn(usize) -> usize, world: &World) -> Vec<Recorder> {
        let mut cut: Vec<Recorder> = (0..parts).map(|_| self.beside()).collect();
        let mut columns = std::mem::take(&mut self.read.columns).into_iter();
        for reader in std::mem::take(&mut self.read.readers) {
            let part = &mut cut[if reader.node == NOWHERE { 0 } else { part_of(reader.node) }];
            part.read.columns.extend(columns.by_ref().take(reader.columns));
            part.read.readers.push(reader);
        }
        for (number, part) in cut.iter_mut().enumerate() {
            part.items = self.items.clone();
            let to = |qp: usize| part_of(world.nics.send_qps[qp].dst as usize);
            part.items.iter_mut().for_each(|items| items.keep(|qp| to(qp) == number));
            part.read.before = vec![0; part.read.columns.len()];
            part.read.bins = self.read.bins.of(part.read.kinds());
        }
        let mut cut = cut.into_iter();
        if let Some(first) = cut.next() {
            (self.read.readers, self.read.columns, self.read.before, self.read.bins, self.items) =
                (first.read.readers, first.read.columns, first.read.before, first.read.bins, first.items);
        }
        cut.collect()
    }

    /// Tells part 0 what items delivered here.
    pub fn send_mail(&mut self, world: &World, mail: &mut [Mail]) {
        if let Some(items) = &mut self.items {
            mail[0].items.extend(items.tell(world));
        }
    }

    /// Bytes that other parts delivered.
    pub fn take_mail(&mut self, mail: &mut Mail) {
        if let Some(items) = &mut self.items {
            mail.items.drain(..).for_each(|delivered| items.hear(delivered));
        }
    }

    /// Takes in what the others read. `world`: that of all of them.
    pub fn join(&mut self, others: Vec<Recorder>, plan: &Plan, world: &World) {
        self.items = self.items.as_ref().and_then(|_| Items::new(plan, world));
        let mut read: Vec<Read> = Vec::new();
        let all = self.read.bins.of(Vec::new());
        let mut bins = vec![self.take_out(0, &mut read)];
        for mut other in others {
            bins.push(other.take_out(bins.len(), &mut read));
            self.pairs.join(other.pairs);
        }
        read.sort_by_key(|one| one.reader.first);
        let mut order = Vec::with_capacity(read.len());
        for Read { reader, part, first, columns } in read {
            order.push((part, first..first + reader.columns));
            self.read.readers.push(reader);
            for (column, before) in columns {
                self.read.columns.push(column);
                self.read.before.push(before);
            }
        }
        self.read.bins = all;
        self.read.bins.join(bins, &order);
    }

    fn take_out(&mut self, part: usize, read: &mut Vec<Read>) -> Bins {
        let columns = std::mem::take(&mut self.read.columns).into_iter();
        let mut columns = columns.zip(std::mem::take(&mut self.read.before));
        let mut first = 0;
        for reader in std::mem::take(&mut self.read.readers) {
            let own = columns.by_ref().take(reader.columns).collect();
            let next = first + reader.columns;
            read.push(Read { reader, part, first, columns: own });
            first = next;
        }
        std::mem::take(&mut self.read.bins)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Columns of three kinds, after `bins` bins with the values 0, 1, 2, ...
    fn filled(bins: usize, most: usize) -> (Time, usize, Vec<f64>) {
        let mut filled =
            Bins::new(vec![ValueKind::Count, ValueKind::Max, ValueKind::Mean], Time::ZERO, FIRST_BIN, most);
        for value in 0..bins {
            let now = filled.next();
            filled.close(now).fill(value as f64);
            filled.merge_if_full();
        }
        filled.into_columns()
    }

    #[test]
    fn full_bins_are_merged_by_five_and_by_two() {
        assert_eq!(filled(9, 10).1, 9);
        let (length, count, columns) = filled(10, 10);
        assert_eq!((length, count), (Time::from_us(5), 2));
        assert_eq!(columns, [10.0, 35.0, 4.0, 9.0, 2.0, 7.0]);
        // Of the eight that follow, each is as long as those two.
        let (length, count, columns) = filled(18, 10);
        assert_eq!((length, count), (Time::from_us(10), 5));
        assert_eq!(columns[..5], [45.0, 21.0, 25.0, 29.0, 33.0]);
    }

    /// Bins in which nothing happened are as if they had been given zeros, wherever they begin and the recording ends.
    #[test]
    fn bins_in_which_nothing_happens_need_no_values() {
        let kinds = [ValueKind::Count, ValueKind::Max, ValueKind::Mean];
        for (until, end, part) in
            (0..25).flat_map(|until| [(until, 25, false), (until, 60, true), (until, 137, true)])
        {
            let [mut given, mut still] =
                [(); 2].map(|()| Bins::new(kinds.to_vec(), Time::ZERO, FIRST_BIN, 20));
            for bin in 0..end {
                let now = given.next();
                let value = if bin < until { bin as f64 + 1.0 } else { 0.0 };
                given.close(now).fill(value);
                if bin < until {
                    still.close(now).fill(value);
                } else {
                    still.close_still(now);
                }
                assert_eq!(given.merge_if_full(), still.merge_if_full());
            }
            if part {
                let now = given.next();
                given.close(now).fill(7.0);
                still.close(now).fill(7.0);
            }
            assert_eq!(given.into_columns(), still.into_columns());
        }
    }

    #[test]
    fn columns_of_parts_are_one_again() {
        let kinds = [ValueKind::Count, ValueKind::Max, ValueKind::Mean];
        let mut whole = Bins::new(kinds.to_vec(), Time::ZERO, FIRST_BIN, 10);
        let mut parts = vec![whole.of(vec![kinds[1]]), whole.of(vec![kinds[2], kinds[0]])];
        for value in 0..13 {
            let (now, value) = (whole.next(), value as f64);
            whole.close(now).copy_from_slice(&[value, value + 0.5, -value]);
            parts[0].close(now).copy_from_slice(&[value + 0.5]);
            parts[1].close(now).copy_from_slice(&[-value, value]);
            whole.merge_if_full();
            for part in &mut parts {
                part.merge_if_full();
            }
        }
        let mut joined = std::mem::take(&mut parts[0]);
        let shell = joined.of(Vec::new());
        parts[0] = std::mem::replace(&mut joined, shell);
        joined.join(parts, &[(1, 1..2), (0, 0..1), (1, 0..1)]);
        assert_eq!(joined.into_columns(), whole.into_columns());
    }
}
