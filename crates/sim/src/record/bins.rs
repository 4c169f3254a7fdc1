//! Bins of time with a value of each column. Their number is limited, however long the run.
//!
//! When the most that there may be are full, bins are merged, by 5 and by 2 in turn (1, 5, 10, 50, 100 us, ...), so that a
//! recording holds between a fifth and all of its bins. Counts add up, means are averaged, maxima stay maxima.

use std::cell::Cell;
use std::ops::Range;
use tailback_proto::units::Time;

use super::quantity::Kind;
use super::settings::MIN_BINS;

/// Length of a bin at the start of a run.
pub(crate) const FIRST_BIN: Time = Time::from_us(1);
/// Most values that a recording holds (32 MB): many columns have fewer bins each.
pub(crate) const MAX_VALUES: usize = 4 << 20;
/// Fewer bins than this show little: then less is recorded of each port.
pub(crate) const FEW_BINS: usize = 100;

/// The bins of all columns.
#[derive(Default)]
pub(crate) struct Bins {
    /// By column: how bins are merged.
    kinds: Vec<Kind>,
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
    pub fn new(kinds: Vec<Kind>, start: Time, length: Time, most: usize) -> Self {
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

    /// The same.
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

    /// The same bins of other columns, whose values are not those that there are.
    pub fn of(&self, kinds: Vec<Kind>) -> Self {
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Columns of three kinds, after `bins` bins with the values 0, 1, 2, ...
    fn filled(bins: usize, most: usize) -> (Time, usize, Vec<f64>) {
        let mut filled = Bins::new(vec![Kind::Count, Kind::Max, Kind::Mean], Time::ZERO, FIRST_BIN, most);
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
        let kinds = [Kind::Count, Kind::Max, Kind::Mean];
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
        let kinds = [Kind::Count, Kind::Max, Kind::Mean];
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
