//! Bins of time, with a value of each column: no more than so many, however long the run.
//!
//! When the most that there may be are full, bins are merged, by 5 and by 2 in turn (1, 5, 10, 50, 100 us, ...), so that a
//! recording holds between a fifth and all of its bins. Counts add up, means are averaged, maxima stay maxima.

use tailback_proto::units::Time;

use super::quantity::Kind;
use super::settings::MIN_BINS;

/// Length of a bin at the start of a run.
pub(crate) const FIRST_BIN: Time = Time::from_us(1);
/// Most values that a recording holds (32 MB): many columns have fewer bins each.
pub(crate) const MAX_VALUES: usize = 4 << 20;
/// Fewer bins than this show little: then less is recorded of each port.
pub(crate) const FEW_BINS: usize = 100;

/// Values in [`Bins::latest`]: 512 KB, which the second-level cache holds.
const LATEST_VALUES: usize = 1 << 16;

/// The bins of all columns.
#[derive(Default)]
pub(crate) struct Bins {
    /// By column: how bins are merged.
    kinds: Vec<Kind>,
    /// By column: the bins.
    values: Vec<Vec<f64>>,
    /// The latest bins, one after the other, each with the values of all columns. Added to the columns at once, because
    /// each of them lies in a line of memory of its own that no cache holds.
    latest: Vec<f64>,
    /// How many of them are not added yet; what is behind them is from before.
    latest_count: usize,
    length: Time,
    /// Of the bin that is open.
    start: Time,
    count: usize,
    most: usize,
    merge_by_two: bool,
}

impl Bins {
    /// Of columns of these kinds, from `start` on; `most`: bins that there may be, if so many values fit.
    pub fn new(kinds: Vec<Kind>, start: Time, length: Time, most: usize) -> Self {
        // Merging by 5 and by 2 needs a multiple of 10.
        let most = most.min(MAX_VALUES / kinds.len().max(1)).max(MIN_BINS as usize) / 10 * 10;
        Bins { values: vec![Vec::new(); kinds.len()], kinds, length, start, most, ..Bins::default() }
    }

    /// When the bin that is open ends.
    pub fn next(&self) -> Time {
        self.start + self.length
    }

    /// How long it has been open.
    pub fn span(&self, now: Time) -> Time {
        now.saturating_sub(self.start)
    }

    /// Closes the bin that ends now: its values, by column, to be filled in.
    pub fn close(&mut self, now: Time) -> &mut [f64] {
        let columns = self.kinds.len();
        if (self.latest_count + 1) * columns > LATEST_VALUES {
            self.store_latest();
        }
        let first = self.latest_count * columns;
        if self.latest.len() == first {
            self.latest.resize(first + columns, 0.0);
        }
        self.latest_count += 1;
        self.count += 1;
        self.start = now;
        &mut self.latest[first..first + columns]
    }

    /// Adds the latest bins to their columns. A column grows twice: to what it has after each merge, and to all.
    fn store_latest(&mut self) {
        let stored = self.count - self.latest_count;
        let room = if self.count <= self.most / 5 { self.most / 5 } else { self.most };
        for (at, values) in self.values.iter_mut().enumerate() {
            if values.capacity() < self.count {
                values.reserve_exact(room.max(self.count) - stored);
            }
            let bins = self.latest.chunks_exact(self.kinds.len()).take(self.latest_count);
            values.extend(bins.map(|bin| bin[at]));
        }
        self.latest_count = 0;
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
            false => 5,
            true => 2,
        };
        self.merge_by_two = !self.merge_by_two;
        self.store_latest();
        for (kind, values) in self.kinds.iter().zip(&mut self.values) {
            kind.merge(values, factor);
        }
        self.count /= factor;
        self.length = Time(self.length.0 * factor as u64);
        Some(factor)
    }

    /// The same bins of other columns, before the first one ends.
    pub fn of(&self, kinds: Vec<Kind>) -> Self {
        let Bins { length, start, count, most, merge_by_two, .. } = *self;
        let values = vec![Vec::new(); kinds.len()];
        Bins { kinds, values, length, start, count, most, merge_by_two, ..Bins::default() }
    }

    /// The values, by column, for [`Self::join`].
    pub fn take_columns(&mut self) -> Vec<Vec<f64>> {
        self.store_latest();
        std::mem::take(&mut self.values)
    }

    /// Has columns of these kinds and values from now on.
    pub fn join(&mut self, kinds: Vec<Kind>, values: Vec<Vec<f64>>) {
        (self.kinds, self.values, self.latest) = (kinds, values, Vec::new());
    }

    /// The length of a bin, of which the last may be shorter; how many there are; and the values, by column.
    pub fn into_columns(mut self) -> (Time, usize, Vec<Vec<f64>>) {
        self.store_latest();
        (if self.count == 0 { Time::ZERO } else { self.length }, self.count, self.values)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Columns of three kinds, after so many bins with the values 0, 1, 2, ...
    fn filled(bins: usize, most: usize) -> (Time, usize, Vec<Vec<f64>>) {
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
        assert_eq!(columns, [[10.0, 35.0], [4.0, 9.0], [2.0, 7.0]]);
        // Of the eight that follow, each is as long as those two.
        let (length, count, columns) = filled(18, 10);
        assert_eq!((length, count), (Time::from_us(10), 5));
        assert_eq!(columns[0], [45.0, 21.0, 25.0, 29.0, 33.0]);
    }

    #[test]
    fn a_column_takes_no_more_room_than_it_needs() {
        for bins in [1, 150, 399, 400, 1999, 2000, 5000] {
            let (_, count, columns) = filled(bins, 2000);
            let room = columns[0].capacity();
            assert!(
                columns[0].len() == count && room <= 2000 && (bins > 400 || room <= 400),
                "{bins}: {room}"
            );
        }
    }
}
