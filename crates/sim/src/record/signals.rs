//! The log of signals: who told whom to wait, how, because of which queue, and when.
//!
//! There is a row for each bin in which a signal passed between two nodes, or for the whole run where bins are not known.

use std::collections::HashSet;
use tailback_proto::units::Time;

use super::entity::Entity;
use super::quantity::Kind;

/// A way to be told to wait.
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

use Signal::{BqlStop, CeMark, Cnp, DelayProbe, Drop, Nak, PcieCreditStall, PfcPause, PfcXoff, RingStop};

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

    /// Whether it lasts: the log then has its duration, and otherwise its number.
    pub fn lasts(self) -> bool {
        matches!(self, PfcPause | PfcXoff | PcieCreditStall)
    }

    /// Whether end points tell each other.
    pub(super) fn is_between_hosts(self) -> bool {
        matches!(self, Cnp | Nak | DelayProbe)
    }

    /// What it is, in one line.
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

    /// Who sends it and who receives it at an entity; empty: unknown, or nobody.
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

/// Who told whom.
#[derive(Clone, Debug)]
pub struct Who {
    /// The queue that is full, or that waits; empty if there is none.
    pub queue: String,
    /// By which signal.
    pub signal: Signal,
    /// The node that tells; empty where it may be several.
    pub from: String,
    /// The node that is told; empty where it may be several.
    pub to: String,
}

impl Who {
    /// At a queue, or at a host.
    pub(crate) fn at(signal: Signal, entity: &Entity) -> Self {
        let (from, to) = signal.ends(entity);
        let queue = if signal.is_between_hosts() { String::new() } else { entity.name.clone() };
        Who { queue, signal, from, to }
    }
}

/// What was told from `start` to `end`.
#[derive(Clone, Copy, Debug)]
pub struct Told {
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
    /// Who told whom.
    pub who: Vec<Who>,
    /// When, and how often or how long.
    pub rows: Vec<Told>,
}

impl Signals {
    /// Adds the bins of a column, which have equal lengths; the last ends with the run.
    pub(crate) fn add_column(
        &mut self,
        who: impl FnOnce() -> Who,
        kind: Kind,
        values: &[f64],
        (bin, end): (Time, Time),
    ) {
        let told = values.iter().enumerate().filter(|(_, &value)| value > 0.0).map(|(at, &value)| {
            let start = Time(bin.0 * at as u64);
            let end = Time(start.0 + bin.0).min(end);
            let amount = if kind == Kind::Share { value * (end - start).0 as f64 } else { value };
            (start, end, amount.round() as u64)
        });
        self.add(who, told);
    }

    pub(super) fn add(
        &mut self,
        who: impl FnOnce() -> Who,
        told: impl IntoIterator<Item = (Time, Time, u64)>,
    ) {
        let number = self.who.len() as u32;
        let some = told.into_iter().filter(|&(_, _, amount)| amount > 0);
        let before = self.rows.len();
        self.rows.extend(some.map(|(start, end, amount)| Told { who: number, start, end, amount }));
        if self.rows.len() > before {
            self.who.push(who());
        }
    }

    /// Adds what only counters of the whole run know. What has rows already is left out.
    pub(crate) fn add_rest(&mut self, end: Time, rest: impl Iterator<Item = (Signal, Entity, u64)>) {
        let known: HashSet<(Signal, String)> =
            self.who.iter().map(|who| (who.signal, who.queue.clone())).collect();
        for (signal, queue, amount) in rest {
            if !known.contains(&(signal, queue.name.clone())) {
                self.add(|| Who::at(signal, &queue), [(Time::ZERO, end, amount)]);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_of_a_merged_bin_is_the_time_that_it_was() {
        let mut signals = Signals::default();
        let queue = Entity::new("sw0:h1/tc3", "egress", "sw0").towards("h1");
        let (bin, end) = (Time(50_000_000), Time(120_000_000));
        // The mean of five bins of 10 us, of which two were paused in part; and the last bin, which is shorter.
        let shares = [(1.0 + 123_457.0 / 10_000_000.0) / 5.0, 0.0, 1.0];
        signals.add_column(|| Who::at(PfcPause, &queue), Kind::Share, &shares, (bin, end));
        let rows: Vec<_> = signals.rows.iter().map(|row| (row.start.0, row.end.0, row.amount)).collect();
        assert_eq!(rows, [(0, 50_000_000, 10_123_457), (100_000_000, 120_000_000, 20_000_000)]);
        let who = &signals.who[0];
        assert_eq!((who.queue.as_str(), who.from.as_str(), who.to.as_str()), ("sw0:h1/tc3", "h1", "sw0"));
        signals.add_column(|| unreachable!(), Kind::Count, &[0.0], (bin, end));
    }
}
