//! Records time that repeats exactly. One period is read at each phase at which a bin will end, and bins are
//! put together from these readings, and from the changes of queues. Sums are of whole numbers, so each bin
//! is what it would be if it had been read itself.

use std::collections::BTreeMap;
use tailback_proto::units::Time;

use super::lengths::{Lengths, Phase};
use super::quantity::{Bin, Kind};
use super::series::Recorder;
use crate::gauge::mean;
use crate::nic::pair_counts::Pair;
use crate::world::World;

/// Readings whose maxima are kept together.
const BLOCK: usize = 32;

/// How a column of a bin is made from readings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    /// The difference of a counter.
    Count,
    /// Bytes times ticks, which add up: those of a period that repeats are in [`Lengths`].
    Sum,
    /// The largest value.
    Most,
    /// The value at the end. If it grows from period to period, it grows evenly.
    Level,
}

impl Way {
    fn of(entity: &str, kind: Kind) -> Way {
        match kind {
            Kind::Count | Kind::Rate | Kind::Share | Kind::Integral => Way::Count,
            Kind::Mean => Way::Sum,
            // What a host has to send is looked at only when a bin ends.
            Kind::Max if entity != "send" => Way::Most,
            Kind::Now | Kind::Last | Kind::Max => Way::Level,
        }
    }
}

/// All columns at an instant.
#[derive(Debug)]
pub(crate) struct Reading {
    /// Simulated time.
    pub at: Time,
    /// Counters as they are; sums and maxima since the reading before. All but counters and sums are the bits
    /// of a floating-point number.
    words: Vec<u64>,
    pairs: Vec<(Pair, u32)>,
}

/// A period, read when it began, at phases within it, and when it ended.
#[derive(Debug)]
pub(crate) struct Period {
    pub start: Reading,
    /// In order; the last one is at the end of the period.
    pub readings: Vec<Reading>,
    pub lengths: Lengths,
}

/// What an open bin has so far, except for counters.
#[derive(Debug)]
pub(super) struct Open {
    ways: Vec<Way>,
    /// Sums, and bits of maxima.
    words: Vec<u64>,
    pairs: BTreeMap<Pair, u32>,
}

/// Makes each of a row at least what it is in another. The bits of numbers that are not negative are in their order.
fn raise(row: &mut [u64], other: &[u64]) {
    row.iter_mut().zip(other).for_each(|(one, other)| *one = (*one).max(*other));
}

impl Open {
    fn new(ways: Vec<Way>) -> Open {
        Open { words: vec![0; ways.len()], ways, pairs: BTreeMap::new() }
    }

    /// What was measured up to a reading, since the one before.
    fn add(&mut self, reading: &Reading) {
        for ((word, more), way) in self.words.iter_mut().zip(&reading.words).zip(&self.ways) {
            match way {
                Way::Sum => *word += more,
                Way::Most => *word = (*word).max(*more),
                Way::Count | Way::Level => {}
            }
        }
        self.add_pairs(reading);
    }

    fn add_pairs(&mut self, reading: &Reading) {
        for (pair, count) in &reading.pairs {
            *self.pairs.entry(*pair).or_default() += count;
        }
    }
}

/// A period's readings as maxima over its parts.
struct Parts {
    readings: Vec<Reading>,
    ways: Vec<Way>,
    /// Columns with maxima.
    of_most: Vec<usize>,
    /// For each reading and each of those columns: maxima, maxima up to it, and maxima from it on.
    most: Vec<Vec<u64>>,
    until: Vec<Vec<u64>>,
    from: Vec<Vec<u64>>,
    /// For each [`BLOCK`] of readings and each of those columns: maxima.
    blocks: Vec<Vec<u64>>,
    has_pairs: bool,
}

impl Parts {
    fn new(readings: Vec<Reading>, ways: Vec<Way>) -> Parts {
        let of_most = ways.iter().enumerate().filter(|(_, way)| **way == Way::Most);
        let of_most: Vec<usize> = of_most.map(|(at, _)| at).collect();
        let row = |reading: &Reading| of_most.iter().map(|column| reading.words[*column]).collect();
        let most: Vec<Vec<u64>> = readings.iter().map(row).collect();
        let (mut until, mut from) = (most.clone(), most.clone());
        let of_block = |rows: &[Vec<u64>]| {
            let mut block = rows[0].clone();
            rows[1..].iter().for_each(|row| raise(&mut block, row));
            block
        };
        let blocks = most.chunks(BLOCK).map(of_block).collect();
        let has_pairs = readings.iter().any(|reading| !reading.pairs.is_empty());
        for at in 1..readings.len() {
            let (before, row) = until.split_at_mut(at);
            raise(&mut row[0], &before[at - 1]);
            let (row, after) = from.split_at_mut(readings.len() - at);
            raise(&mut row[readings.len() - at - 1], &after[0]);
        }
        Parts { readings, ways, of_most, most, until, from, blocks, has_pairs }
    }

    /// Adds all readings from one to another, both included. Each is given by its period and its number in
    /// the period.
    fn add(&self, open: &mut Open, (period, first): (u64, usize), (last_period, last): (u64, usize)) {
        let end = self.readings.len() - 1;
        let most = match period == last_period {
            true => self.most_of(first, last),
            false => {
                let mut most = self.from[first].clone();
                raise(&mut most, &self.until[last]);
                if last_period > period + 1 {
                    raise(&mut most, &self.until[end]);
                }
                most
            }
        };
        for (column, most) in self.of_most.iter().zip(most) {
            open.words[*column] = open.words[*column].max(most);
        }
        if self.has_pairs {
            // Signals between hosts do not repeat: this was no period.
            self.readings[first..=last].iter().for_each(|reading| open.add_pairs(reading));
        }
    }

    /// Maxima over the readings from one to another, both included.
    fn most_of(&self, first: usize, last: usize) -> Vec<u64> {
        let (mut most, mut at) = (self.most[first].clone(), first + 1);
        while at <= last {
            let is_block = at.is_multiple_of(BLOCK) && at + BLOCK <= last + 1;
            raise(&mut most, if is_block { &self.blocks[at / BLOCK] } else { &self.most[at] });
            at += if is_block { BLOCK } else { 1 };
        }
        most
    }

    /// Counters and levels at a reading of a later period, given their values when the first period began.
    fn words(&self, start: &Reading, (period, at): (u64, usize)) -> Vec<u64> {
        let end = &self.readings[self.readings.len() - 1];
        let pairs = self.readings[at].words.iter().zip(start.words.iter().zip(&end.words));
        let grown = pairs.zip(&self.ways).map(|((word, (start, end)), way)| match way {
            Way::Count => word + period * end.wrapping_sub(*start),
            Way::Level => {
                let [level, start, end] = [*word, *start, *end].map(f64::from_bits);
                (level + period as f64 * (end - start)).to_bits()
            }
            Way::Sum | Way::Most => *word,
        });
        grown.collect()
    }
}

impl Recorder {
    /// Number of columns that are read.
    pub fn columns(&self) -> usize {
        self.read.len()
    }

    /// When the bins up to `limit` end, each as it will be merged by then; at most `most` of them.
    pub fn ends_of_bins(&self, limit: Time, most: usize) -> Vec<Time> {
        self.read.bins.ends(limit).take(most).collect()
    }

    /// Follows the lengths of queues from now on.
    pub fn lengths(&self, world: &World) -> Lengths {
        Lengths::new(&self.read, &world.fabric)
    }

    /// Reads all columns now.
    pub fn read_all(&mut self, world: &mut World) -> Reading {
        if let Some(items) = &mut self.items {
            items.update(world);
        }
        let at = world.fabric.run.simulated();
        let (mut words, mut values) = (vec![0; self.read.len()], vec![0.0; self.read.len()]);
        let mut pairs = Vec::new();
        world.nics.pair_counts.take(|pair, count| pairs.push((pair, count)));
        // Over no time at all, a mean is its sum, which is a whole number.
        let now = world.fabric.run.now;
        let mut bin = Bin { now, span: Time::ZERO, items: self.items.as_ref(), world };
        self.read.read_all(&mut bin, &mut words, &mut values);
        for ((word, value), way) in words.iter_mut().zip(values).zip(self.ways()) {
            match way {
                Way::Count => {}
                Way::Sum => {
                    debug_assert!(value < (1u64 << f64::MANTISSA_DIGITS) as f64);
                    *word = value as u64;
                }
                Way::Most | Way::Level => *word = value.to_bits(),
            }
        }
        Reading { at, words, pairs }
    }

    fn ways(&self) -> Vec<Way> {
        self.read.each().map(|(of, _, kind)| Way::of(of, kind)).collect()
    }

    /// Records a period that was read, and `times` more that are the same. Calls `closed` for each bin that
    /// ends.
    pub fn repeat(&mut self, period: Period, times: u64, mut closed: impl FnMut(Time)) {
        let Period { start, readings, lengths } = period;
        let length = readings[readings.len() - 1].at - start.at;
        let to = Time(start.at.0 + (times + 1) * length.0);
        let ends: Vec<Time> = self.read.bins.ends(to).filter(|end| *end < to).collect();
        let mut phases: Vec<Phase> = ends.into_iter().map(|at| Phase::of(at, start.at, length)).collect();
        phases.push(Phase { periods: times, into: length, at: to });
        let integrals = lengths.integrals(length, &phases);
        let add_integrals = |open: &mut Open, number: usize| {
            for (column, of_column) in &integrals {
                let before = number.checked_sub(1).map_or(0, |before| of_column[before]);
                open.words[*column] += of_column[number] - before;
            }
        };
        let mut open = self.open.take().unwrap_or_else(|| Open::new(self.ways()));
        open.add(&start);
        let parts = Parts::new(readings, self.ways());
        let mut next = (0, 0);
        for (number, phase) in phases[..phases.len() - 1].iter().enumerate() {
            let at = Time(start.at.0 + phase.into.0);
            let found = parts.readings.binary_search_by_key(&at, |reading| reading.at);
            let at = (phase.periods, found.expect("it was read at all phases at which bins end"));
            parts.add(&mut open, next, at);
            add_integrals(&mut open, number);
            self.close_as(open, phase.at, parts.words(&start, at));
            self.merge_if_full();
            closed(phase.at);
            open = Open::new(parts.ways.clone());
            next = if at.1 + 1 == parts.readings.len() { (at.0 + 1, 0) } else { (at.0, at.1 + 1) };
        }
        parts.add(&mut open, next, (times, parts.readings.len() - 1));
        add_integrals(&mut open, phases.len() - 1);
        self.open = Some(open);
    }

    /// Closes the bin that ends now, part of which was put together.
    pub(super) fn close_open(&mut self, mut open: Open, world: &mut World, end: Time) {
        let reading = self.read_all(world);
        open.add(&reading);
        self.close_as(open, end, reading.words);
    }

    /// Closes a bin. `words` are the counters and levels at its end.
    fn close_as(&mut self, open: Open, end: Time, words: Vec<u64>) {
        let Open { ways, words: sums, pairs } = open;
        self.pairs.add_bin(self.read.bins.count(), pairs);
        let span = self.read.bins.span(end);
        let kinds = self.read.kinds();
        let values = self.read.bins.close(end).iter_mut().zip(&mut self.read.before);
        for (column, ((value, before), word)) in values.zip(words).enumerate() {
            *value = match ways[column] {
                Way::Count => kinds[column].of_difference(word - std::mem::replace(before, word), span),
                Way::Sum => mean(sums[column], (end, span)),
                Way::Most => f64::from_bits(sums[column]),
                Way::Level => f64::from_bits(word),
            };
        }
    }
}
