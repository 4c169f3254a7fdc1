//! What is recorded of time that was skipped.

use tailback_proto::units::Time;

use super::quantity::Kind;
use super::series::Recorder;
use crate::world::World;

impl Kind {
    /// Whether a bin's value is no difference of counters.
    fn is_gauge(self) -> bool {
        matches!(self, Kind::Mean | Kind::Now | Kind::Integral | Kind::Last | Kind::Max)
    }
}

impl Recorder {
    /// By column: whether it has the largest value of a bin.
    pub fn largest(&self) -> Vec<bool> {
        self.read.each().map(|(_, _, kind)| kind == Kind::Max).collect()
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
