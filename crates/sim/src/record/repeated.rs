//! Records time that repeats exactly. One period is read at each phase at which a bin will end, and bins are
//! put together from these readings. Sums are of whole numbers, so each bin is what it would be if it had
//! been read itself.

use std::collections::BTreeMap;
use tailback_proto::units::Time;

use super::quantity::{Bin, Kind};
use super::series::Recorder;
use crate::gauge::mean;
use crate::nic::pair_counts::Pair;
use crate::world::World;

/// How a column of a bin is made from readings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    /// The difference of a counter.
    Count,
    /// Bytes times ticks, which add up.
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
}

/// What an open bin has so far, except for counters.
#[derive(Debug)]
pub(super) struct Open {
    ways: Vec<Way>,
    /// Sums, and bits of maxima.
    words: Vec<u64>,
    pairs: BTreeMap<Pair, u32>,
}

/// The bits of the larger of two numbers, neither of which is negative.
fn larger(one: u64, other: u64) -> u64 {
    f64::from_bits(one).max(f64::from_bits(other)).to_bits()
}

impl Open {
    fn add(&mut self, reading: &Reading) {
        for ((word, more), way) in self.words.iter_mut().zip(&reading.words).zip(&self.ways) {
            match way {
                Way::Sum => *word += more,
                Way::Most => *word = larger(*word, *more),
                Way::Count | Way::Level => {}
            }
        }
        for (pair, count) in &reading.pairs {
            *self.pairs.entry(*pair).or_default() += count;
        }
    }
}

/// A period's readings as sums and maxima over its parts.
struct Parts {
    readings: Vec<Reading>,
    ways: Vec<Way>,
    /// Columns with sums and with maxima.
    of_sums: Vec<usize>,
    of_most: Vec<usize>,
    /// For each reading and each of those columns: sums from the period's start up to it, maxima up to it,
    /// and maxima from it on.
    sums: Vec<Vec<u64>>,
    until: Vec<Vec<u64>>,
    from: Vec<Vec<u64>>,
}

impl Parts {
    fn new(readings: Vec<Reading>, ways: Vec<Way>) -> Parts {
        let of = |wanted| ways.iter().enumerate().filter(move |(_, way)| **way == wanted).map(|(at, _)| at);
        let (of_sums, of_most): (Vec<usize>, Vec<usize>) = (of(Way::Sum).collect(), of(Way::Most).collect());
        let pick = |columns: &[usize]| -> Vec<Vec<u64>> {
            let row = |reading: &Reading| columns.iter().map(|column| reading.words[*column]).collect();
            readings.iter().map(row).collect()
        };
        let (mut sums, mut until) = (pick(&of_sums), pick(&of_most));
        let mut from = until.clone();
        for at in 1..readings.len() {
            let (before, row) = sums.split_at_mut(at);
            row[0].iter_mut().zip(&before[at - 1]).for_each(|(sum, before)| *sum += before);
            let (before, row) = until.split_at_mut(at);
            row[0].iter_mut().zip(&before[at - 1]).for_each(|(most, before)| *most = larger(*most, *before));
            let (row, after) = from.split_at_mut(readings.len() - at);
            let row = &mut row[readings.len() - at - 1];
            row.iter_mut().zip(&after[0]).for_each(|(most, after)| *most = larger(*most, *after));
        }
        Parts { readings, ways, of_sums, of_most, sums, until, from }
    }

    /// Adds all readings from one to another, both included. Each is given by its period and its number in
    /// the period.
    fn add(&self, open: &mut Open, (period, first): (u64, usize), (last_period, last): (u64, usize)) {
        if period == last_period {
            self.readings[first..=last].iter().for_each(|reading| open.add(reading));
            return;
        }
        let end = self.readings.len() - 1;
        for (at, column) in self.of_sums.iter().enumerate() {
            let before = first.checked_sub(1).map_or(0, |before| self.sums[before][at]);
            let whole = self.sums[end][at] * (last_period - period);
            open.words[*column] += whole - before + self.sums[last][at];
        }
        for (at, column) in self.of_most.iter().enumerate() {
            let mut most = larger(self.from[first][at], self.until[last][at]);
            if last_period > period + 1 {
                most = larger(most, self.until[end][at]);
            }
            open.words[*column] = larger(open.words[*column], most);
        }
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
        let Period { start, readings } = period;
        let length = readings[readings.len() - 1].at - start.at;
        let to = Time(start.at.0 + (times + 1) * length.0);
        let mut open = self.open.take().unwrap_or_else(|| self.nothing());
        open.add(&start);
        let parts = Parts::new(readings, self.ways());
        let mut next = (0, 0);
        while self.read.bins.next() < to {
            let end = self.read.bins.next();
            let (period, phase) = ((end - start.at).0 / length.0, (end - start.at).0 % length.0);
            let found = parts.readings.binary_search_by_key(&Time(start.at.0 + phase), |reading| reading.at);
            let at = (period, found.expect("it was read at all phases at which bins end"));
            parts.add(&mut open, next, at);
            self.close_as(open, end, parts.words(&start, at));
            self.merge_if_full();
            closed(end);
            open = self.nothing();
            next = if at.1 + 1 == parts.readings.len() { (period + 1, 0) } else { (period, at.1 + 1) };
        }
        parts.add(&mut open, next, (times, parts.readings.len() - 1));
        self.open = Some(open);
    }

    fn nothing(&self) -> Open {
        let ways = self.ways();
        Open { words: vec![0; ways.len()], ways, pairs: BTreeMap::new() }
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
