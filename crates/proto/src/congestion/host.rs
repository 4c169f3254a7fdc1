//! What controllers inside a host share: how they read the IIO's counter, and how they hold back the CPUs' memory traffic.

use crate::units::{Rate, Time};

/// Size of a cache line, which occupancies are counted in.
pub const CACHE_LINE_BYTES: u64 = 64;
/// Most levels of memory bandwidth.
pub const MAX_LEVELS: usize = 16;

/// A cumulative counter, read now and then.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counter {
    last: Option<(Time, u64)>,
}

impl Counter {
    /// A reading: what the counter grew by in a second, on average since the reading before. None: the first one, or no
    /// time has passed.
    pub fn sample(&mut self, now: Time, value: u64) -> Option<f64> {
        if self.last.is_some_and(|(at, _)| now <= at) {
            return None;
        }
        let (at, before) = self.last.replace((now, value))?;
        Some(value.wrapping_sub(before) as f64 * 1e12 / (now - at).0 as f64)
    }
}

/// The occupancy of the IIO's buffer. The counter grows at each cycle of its clock by the cache lines in the buffer, so
/// that the difference of two readings over the cycles between them is the mean occupancy.
#[derive(Clone, Copy, Debug, Default)]
pub struct OccupancyMeter {
    counter: Counter,
}

impl OccupancyMeter {
    /// A reading: the mean occupancy since the one before, in cache lines.
    pub fn sample(&mut self, now: Time, counter: u64, clock_hz: u64) -> Option<f64> {
        Some(self.counter.sample(now, counter)? / clock_hz as f64)
    }
}

/// Whether an occupancy can be measured and compared so.
pub(super) fn check_occupancy(clock_hz: u64, threshold: f64) -> Result<(), String> {
    if clock_hz == 0 {
        return Err("clock_hz must be above 0".into());
    }
    if !(threshold >= 0.0 && threshold.is_finite()) {
        return Err("threshold is below 0".into());
    }
    Ok(())
}

/// Levels of the memory bandwidth that is left to CPUs, as Intel's Memory Bandwidth Allocation sets them.
#[derive(Clone, Debug, PartialEq)]
pub struct LadderParameters {
    /// Bandwidth of each level, falling.
    pub levels: Vec<Rate>,
    /// What writing a level's register takes. It has its effect then, and no other is written meanwhile.
    pub write_time: Time,
    /// Least time between the effect of a level and the next one up.
    pub raise_interval: Time,
}

impl LadderParameters {
    /// # Errors
    /// One line naming the parameter that makes no sense.
    pub fn check(&self) -> Result<(), String> {
        if self.levels.is_empty() || self.levels.len() > MAX_LEVELS {
            return Err(format!("levels: {} are not 1 to {MAX_LEVELS}", self.levels.len()));
        }
        if self.levels.contains(&Rate(0)) {
            return Err("levels: a level of 0 would never end what a core waits for".into());
        }
        if self.levels.windows(2).any(|pair| pair[0] <= pair[1]) {
            return Err("levels do not fall".into());
        }
        Ok(())
    }
}

/// A host's place on its ladder of levels.
#[derive(Clone, Copy, Debug, Default)]
pub struct Ladder {
    /// In effect.
    level: usize,
    /// Level that is being written, and when that is done.
    writing: Option<(usize, Time)>,
    /// No level up before.
    raise_from: Time,
}

impl Ladder {
    /// The level in effect, 0 being the highest bandwidth.
    pub fn level(&self) -> usize {
        self.level
    }

    /// Ends a write whose time has come. `Some`: the bandwidth from now on.
    pub fn on_time(&mut self, p: &LadderParameters, now: Time) -> Option<Rate> {
        let (level, done) = self.writing?;
        if now < done {
            return None;
        }
        self.writing = None;
        if level < self.level {
            self.raise_from = self.raise_from.max(now + p.raise_interval);
        }
        self.level = level;
        Some(p.levels[level])
    }

    /// No level up before this time.
    pub fn hold(&mut self, until: Time) {
        self.raise_from = self.raise_from.max(until);
    }

    /// Less bandwidth, unless a write is under way or there is no level below.
    pub fn lower(&mut self, p: &LadderParameters, now: Time) -> Option<Rate> {
        let below = self.level + 1;
        (self.writing.is_none() && below < p.levels.len()).then(|| self.write(p, now, below)).flatten()
    }

    /// More bandwidth, unless a write is under way, it is too early, or there is no level above.
    pub fn raise(&mut self, p: &LadderParameters, now: Time) -> Option<Rate> {
        let may = self.writing.is_none() && self.level > 0 && now >= self.raise_from;
        may.then(|| self.write(p, now, self.level - 1)).flatten()
    }

    fn write(&mut self, p: &LadderParameters, now: Time, level: usize) -> Option<Rate> {
        self.writing = Some((level, now + p.write_time));
        self.on_time(p, now)
    }
}
