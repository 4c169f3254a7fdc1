//! The log of signals: which node made which other wait, by which signal, because of which queue, and when.
//!
//! There is a row for each bin in which a signal passed between two nodes, or for the whole run where bins are not known.

use std::collections::HashSet;
use tailback_proto::units::Time;
use Signal::{BqlStop, CeMark, Cnp, DelayProbe, Drop, Nak, PcieCreditStall, PfcPause, PfcXoff, RingStop};

use super::quantity::ValueKind;
use super::recording::{at_port, Entity};
use super::series::{egress_name, ingress_name, send_queue_name};
use crate::fabric::{port_and_class, CLASSES};
use crate::linux::record::{bridges, veth};
use crate::nic::{EndSignal, Pair, PairCounts};
use crate::plan::Plan;
use crate::world::World;

/// A signal that makes a sender wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Signal {
    /// A packet was marked CE.
    CeMark,
    /// A packet was dropped.
    Drop,
    /// A pause is in effect.
    PfcPause,
    /// A pause is asked for.
    PfcXoff,
    /// PCIe has no credits for a write.
    PcieCreditStall,
    /// A congestion notification packet.
    Cnp,
    /// A negative acknowledgement.
    Nak,
    /// A delay that an answer brings back.
    DelayProbe,
    /// Byte queue limits stopped a transmit queue.
    BqlStop,
    /// A full ring stopped a transmit queue.
    RingStop,
}

impl Signal {
    /// All of them.
    pub const ALL: [Signal; 10] =
        [CeMark, Drop, PfcPause, PfcXoff, PcieCreditStall, Cnp, Nak, DelayProbe, BqlStop, RingStop];

    /// Its name in the table.
    pub fn name(self) -> &'static str {
        match self {
            CeMark => "ce-mark",
            Drop => "drop",
            PfcPause => "pfc-pause",
            PfcXoff => "pfc-xoff",
            PcieCreditStall => "pcie-credit-stall",
            Cnp => "cnp",
            Nak => "nak",
            DelayProbe => "delay-probe",
            BqlStop => "bql-stop",
            RingStop => "ring-stop",
        }
    }

    /// True if it has a duration, which the log then has in place of a number.
    pub fn lasts(self) -> bool {
        matches!(self, PfcPause | PfcXoff | PcieCreditStall)
    }

    /// True if end points tell each other.
    pub(crate) fn is_between_hosts(self) -> bool {
        matches!(self, Cnp | Nak | DelayProbe)
    }

    /// Its line in the reference.
    pub fn help(self) -> &'static str {
        match self {
            CeMark => "packets marked CE at a queue, and sent on: their receivers are told",
            Drop => "packets dropped at a queue: nobody is told, senders find out; or trimmed, of which the receiver is told",
            PfcPause => "a pause in effect: the queue waits, by order of the node that its port leads to",
            PfcXoff => "a pause asked for: the ingress group or receive buffer is above xoff, and its node tells the peer, whose queues have `pfc-pause` as soon as that arrives",
            PcieCreditStall => "a write that waits for PCIe credits, inside of a host",
            Cnp => "CNPs sent, by the receiver to the sender; of more than 24 hosts and of the HPCC simulator's runs without the latter",
            Nak => "NAKs for a packet out of sequence, by the receiver to the sender; of the same without the former",
            DelayProbe => "answers that brought the sender a delay which its controller acts on, long or short: ACKs of TIMELY and Swift, answers to probes of RHCC; by the receiver to the sender; of the same without the former",
            BqlStop => "byte queue limits stopped the transmit queue before a ring, inside of a node",
            RingStop => "a full ring stopped the transmit queue before it, inside of a node",
        }
    }

    /// Sender and receiver of it at an entity; empty: unknown, or nobody.
    fn ends(self, entity: &Entity) -> (String, String) {
        let (node, peer) = (entity.node.clone(), entity.peer.clone());
        match self {
            CeMark | PfcXoff => (node, peer),
            PfcPause => (peer, node),
            Drop | Cnp => (node, String::new()),
            Nak | DelayProbe => (String::new(), node),
            PcieCreditStall | BqlStop | RingStop => (node.clone(), node),
        }
    }
}

/// The signal, its sender and its receiver.
#[derive(Clone, Debug)]
pub struct SignalEnds {
    /// The queue that is full, or that waits; empty if there is none.
    pub queue: String,
    /// By which signal.
    pub signal: Signal,
    /// The node that tells; empty where it may be several.
    pub from: String,
    /// The receiving node; empty if there may be several.
    pub to: String,
}

impl SignalEnds {
    /// At a queue, or at a host.
    pub fn at(signal: Signal, entity: &Entity) -> Self {
        let (from, to) = signal.ends(entity);
        let queue = if signal.is_between_hosts() { String::new() } else { entity.name.clone() };
        SignalEnds { queue, signal, from, to }
    }
}

/// One signal between two nodes in the time from `start` to `end`.
#[derive(Clone, Copy, Debug)]
pub struct SignalRow {
    /// Index into [`Signals::who`].
    pub who: u32,
    /// When the bin began.
    pub start: Time,
    /// When it ended.
    pub end: Time,
    /// How often; for a signal that lasts, how long, in picoseconds.
    pub amount: u64,
}

/// All signals of a run.
#[derive(Debug, Default)]
pub struct Signals {
    /// The signal, its sender and its receiver.
    pub who: Vec<SignalEnds>,
    /// When, and how often or how long.
    pub rows: Vec<SignalRow>,
}

impl Signals {
    /// Adds the bins of a column, which have equal lengths; the last ends with the run.
    pub fn add_column(
        &mut self,
        who: impl FnOnce() -> SignalEnds,
        kind: ValueKind,
        values: &[f64],
        (bin, end): (Time, Time),
    ) {
        let intervals = values.iter().enumerate().filter(|(_, &value)| value > 0.0).map(|(at, &value)| {
            let start = Time(bin.0 * at as u64);
            let end = Time(start.0 + bin.0).min(end);
            let amount = if kind == ValueKind::Share { value * (end - start).0 as f64 } else { value };
            (start, end, amount.round() as u64)
        });
        self.add(who, intervals);
    }

    pub(crate) fn add(
        &mut self,
        who: impl FnOnce() -> SignalEnds,
        intervals: impl IntoIterator<Item = (Time, Time, u64)>,
    ) {
        let number = self.who.len() as u32;
        let some = intervals.into_iter().filter(|&(_, _, amount)| amount > 0);
        let before = self.rows.len();
        self.rows.extend(some.map(|(start, end, amount)| SignalRow { who: number, start, end, amount }));
        if self.rows.len() > before {
            self.who.push(who());
        }
    }

    /// Adds what only counters of the whole run know. What has rows already is left out.
    pub fn add_rest(&mut self, end: Time, rest: impl Iterator<Item = (Signal, Entity, u64)>) {
        let known: HashSet<(Signal, String)> =
            self.who.iter().map(|who| (who.signal, who.queue.clone())).collect();
        for (signal, queue, amount) in rest {
            if !known.contains(&(signal, queue.name.clone())) {
                self.add(|| SignalEnds::at(signal, &queue), [(Time::ZERO, end, amount)]);
            }
        }
    }
}

// What the log of signals is made of besides the recorder's columns: CNPs, NAKs and delay probes by pair of hosts, where these are
// few, and what only counters know, as of queues that a large fabric does not record.

/// Signals of switches' queues, which may have no column, and of transmit queues, which have none.
pub(crate) fn counted(plan: &Plan, world: &World) -> Vec<(Signal, Entity, u64)> {
    let (fabric, end) = (&world.fabric, world.fabric.run.now);
    let mut found = Vec::new();
    for at in 0..fabric.ports.len() * CLASSES {
        let (port, class) = port_and_class(at);
        let owner = fabric.ports[port].owner as usize;
        if fabric.is_bridge(port) {
            continue;
        }
        if owner < world.nics.nics.len() {
            // What its link lost of what it sent; what it had no room for has a column.
            let lost = fabric.dropped[at][0];
            if lost > 0 {
                let name = send_queue_name(plan, owner, class);
                found.push((Signal::Drop, at_port(plan, world, name, "send", port), lost));
            }
            continue;
        }
        let egress: fn(&World, usize, u8) -> String = egress_name;
        for (signal, name, amount) in [
            (Signal::CeMark, egress, fabric.marked[at]),
            (Signal::Drop, egress_name, fabric.dropped[at][0]),
            (Signal::PfcPause, egress_name, fabric.pauses[at].paused_until(end).0),
            (Signal::Drop, ingress_name, fabric.dropped[at][1]),
            (Signal::PfcXoff, ingress_name, fabric.pausing[at].held_until(end).0),
        ] {
            if amount > 0 {
                found.push((signal, at_port(plan, world, name(world, port, class), "", port), amount));
            }
        }
    }
    found.extend(bridges::stops(plan, world));
    found.extend(veth::stops(plan, world));
    found
}

/// CNPs, NAKs and delay probes by bin and pair of hosts.
#[derive(Debug, Default)]
pub(crate) struct PairLog {
    /// Bin, pair, and how many.
    rows: Vec<(u32, Pair, u32)>,
}

impl PairLog {
    /// A bin ends.
    pub fn close_bin(&mut self, bin: usize, counts: &mut PairCounts) {
        counts.take(|pair, count| self.rows.push((bin as u32, pair, count)));
    }

    /// Bins were merged.
    pub fn merge(&mut self, factor: usize) {
        self.rows.iter_mut().for_each(|(bin, ..)| *bin /= factor as u32);
        self.rows.sort_unstable();
        self.rows.dedup_by(|next, row| {
            let same = (next.0, next.1) == (row.0, row.1);
            row.2 += if same { next.2 } else { 0 };
            same
        });
    }

    /// Takes over what another part logged.
    pub fn join(&mut self, other: PairLog) {
        self.rows.extend(other.rows);
    }

    pub fn add_to(
        mut self,
        signals: &mut Signals,
        plan: &Plan,
        counts: &PairCounts,
        (bin, end): (Time, Time),
    ) {
        self.rows.sort_unstable_by_key(|&(bin, pair, _)| (pair, bin));
        for of_pair in self.rows.chunk_by(|one, other| one.1 == other.1) {
            let (signal, from, to) = counts.ends(of_pair[0].1);
            let signal = match signal {
                EndSignal::Cnp => Signal::Cnp,
                EndSignal::Nak => Signal::Nak,
                EndSignal::DelayProbe => Signal::DelayProbe,
            };
            let name = |host: usize| plan.hosts[host].name.clone();
            let who = SignalEnds { queue: String::new(), signal, from: name(from), to: name(to) };
            let intervals = of_pair.iter().map(|&(at, _, count)| {
                let start = Time(bin.0 * at as u64);
                (start, Time(start.0 + bin.0).min(end), count as u64)
            });
            signals.add(|| who, intervals);
        }
    }
}

#[cfg(test)]
mod signals_tests {
    use super::*;

    #[test]
    fn a_share_of_a_merged_bin_is_the_time_that_it_was() {
        let mut signals = Signals::default();
        let queue = Entity::new("sw0:h1/tc3", "egress", "sw0").towards("h1");
        let (bin, end) = (Time(50_000_000), Time(120_000_000));
        // The mean of five bins of 10 us, of which two were paused in part; and the last bin, which is shorter.
        let shares = [(1.0 + 123_457.0 / 10_000_000.0) / 5.0, 0.0, 1.0];
        signals.add_column(|| SignalEnds::at(PfcPause, &queue), ValueKind::Share, &shares, (bin, end));
        let rows: Vec<_> = signals.rows.iter().map(|row| (row.start.0, row.end.0, row.amount)).collect();
        assert_eq!(rows, [(0, 50_000_000, 10_123_457), (100_000_000, 120_000_000, 20_000_000)]);
        let who = &signals.who[0];
        assert_eq!((who.queue.as_str(), who.from.as_str(), who.to.as_str()), ("sw0:h1/tc3", "h1", "sw0"));
        signals.add_column(|| unreachable!(), ValueKind::Count, &[0.0], (bin, end));
    }
}

#[cfg(test)]
mod pair_log_tests {
    use super::*;

    #[test]
    fn merged_bins_of_a_pair_add_up() {
        let mut log = PairLog { rows: vec![(0, 7, 1), (1, 3, 2), (4, 7, 3), (5, 7, 4)] };
        log.merge(5);
        assert_eq!(log.rows, [(0, 3, 2), (0, 7, 4), (1, 7, 4)]);
    }
}
