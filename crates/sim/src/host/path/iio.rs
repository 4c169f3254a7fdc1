//! The integrated I/O controller: the buffer between PCIe and the mesh.
//!
//! What is in it came over PCIe and is not yet written. Its size is the data credits that it grants (93 cache lines on the
//! servers of Agarwal et al., "Host congestion control", SIGCOMM 2023, section 3), its service time what follows takes.

use std::collections::VecDeque;
use tailback_proto::units::Time;

/// Bytes that come in evenly over one span and leave evenly over another.
#[derive(Clone, Copy, Debug)]
struct Burst {
    bytes: u64,
    arrival: (Time, Time),
    end: (Time, Time),
}

/// Bytes that stay somewhere for a while: those in the IIO; those whose credits are away.
#[derive(Debug)]
pub(crate) struct Residence {
    /// Those that may still be there, oldest first.
    bursts: VecDeque<Burst>,
    /// Occupancy over time of all bursts, byte-ps, each counted to its end.
    booked: u128,
    /// Bytes that came.
    pub passed_bytes: u64,
    /// Largest occupancy from the last sample to `seen_to`.
    max_bytes: u64,
    seen_to: Time,
    /// What was there over time until `seen_to`, byte-ps, and how many bursts have come: for the books.
    #[cfg(debug_assertions)]
    held: f64,
    #[cfg(debug_assertions)]
    came: u64,
}

impl Default for Residence {
    fn default() -> Self {
        Residence {
            bursts: VecDeque::with_capacity(64),
            booked: 0,
            passed_bytes: 0,
            max_bytes: 0,
            seen_to: Time::ZERO,
            #[cfg(debug_assertions)]
            held: 0.0,
            #[cfg(debug_assertions)]
            came: 0,
        }
    }
}

/// Mean of `max(x, at)` over x from one instant to another, doubled.
fn twice_mean_after(span: (Time, Time), at: Time) -> u128 {
    let (from, to, at) = (span.0 .0 as u128, span.1 .0 as u128, at.0 as u128);
    if at <= from {
        from + to
    } else if at >= to {
        2 * at
    } else {
        (2 * at * (at - from) + (to * to - at * at)) / (to - from)
    }
}

/// What of `bytes` that pass evenly over a span has passed; all at once, at its end, if the span is no time.
fn passed(bytes: u64, span: (Time, Time), at: Time) -> u64 {
    if at >= span.1 {
        bytes
    } else if at <= span.0 {
        0
    } else {
        // Bursts are at most a packet and spans below a second: 64 bits are enough.
        bytes.saturating_mul((at - span.0).0) / (span.1 - span.0).0
    }
}

impl Residence {
    /// A burst passes: it begins to come at `now` or later, and not before those that passed have come.
    pub fn pass(&mut self, now: Time, bytes: u64, arrival: (Time, Time), end: (Time, Time)) {
        self.see_to(now);
        while self.bursts.front().is_some_and(|burst| burst.end.1 <= now) {
            self.bursts.pop_front();
        }
        let residence = end.0 .0 + end.1 .0 - arrival.0 .0 - arrival.1 .0;
        self.booked += bytes as u128 * residence as u128 / 2;
        self.passed_bytes += bytes;
        self.bursts.push_back(Burst { bytes, arrival, end });
        #[cfg(debug_assertions)]
        {
            self.came += 1;
        }
    }

    /// Largest occupancy since the last sample. What is to come counts when it has come: a burst may be booked long before.
    pub fn take_max(&mut self, now: Time) -> u64 {
        self.see_to(now);
        let held = self.occupancy(now);
        std::mem::replace(&mut self.max_bytes, held).max(held)
    }

    /// Looks for the largest occupancy up to an instant. It grows and falls evenly, and is largest where a burst has come or
    /// begins to leave; what leaves at once there is still counted.
    fn see_to(&mut self, now: Time) {
        let mut most = self.max_bytes;
        for burst in &self.bursts {
            for at in [burst.arrival.1, burst.end.0] {
                if self.seen_to < at && at <= now {
                    let leaves = self.bursts.iter().filter(|burst| burst.end == (at, at));
                    most = most.max(self.occupancy(at) + leaves.map(|burst| burst.bytes).sum::<u64>());
                }
            }
        }
        #[cfg(debug_assertions)]
        {
            self.held += self.integral(self.seen_to, now);
        }
        (self.max_bytes, self.seen_to) = (most, now);
    }

    /// Bytes in the buffer, integrated from one instant to another, byte-ps, worked out anew: between the instants at which a
    /// burst begins or ends to come or to leave, they grow and fall evenly.
    #[cfg(debug_assertions)]
    fn integral(&self, from: Time, to: Time) -> f64 {
        let share = |span: (Time, Time), at: f64| {
            let (begin, end) = (span.0 .0 as f64, span.1 .0 as f64);
            if at >= end {
                1.0
            } else {
                ((at - begin) / (end - begin)).max(0.0)
            }
        };
        let found = |at: f64| -> f64 {
            let held = |burst: &Burst| burst.bytes as f64 * (share(burst.arrival, at) - share(burst.end, at));
            self.bursts.iter().map(held).sum()
        };
        let ends = self.bursts.iter().flat_map(|b| [b.arrival.0, b.arrival.1, b.end.0, b.end.1]);
        let mut at: Vec<Time> = ends.filter(|&at| from < at && at < to).chain([from, to]).collect();
        at.sort_unstable();
        at.windows(2)
            .map(|at| (at[1] - at[0]).0 as f64 * found((at[0].0 as f64 + at[1].0 as f64) / 2.0))
            .sum()
    }

    /// Little's law: what was found there over time is each burst's bytes times its own stay, of which whole byte-ps are
    /// booked. What is wrong, if they differ.
    #[cfg(debug_assertions)]
    pub fn judge(&self, now: Time) -> Option<String> {
        let (held, waited) = (self.held + self.integral(self.seen_to, now), self.byte_time(now) as f64);
        // Of bursts that stay, the mean until now is in whole picoseconds.
        let stay = self.bursts.iter().map(|burst| burst.bytes as f64).sum::<f64>();
        let differ = (held - waited).abs() > waited * 1e-9 + 2.0 * self.came as f64 + stay;
        differ.then(|| format!("held {held:e} byte-ps, and its bursts stayed for {waited:e}"))
    }

    /// Bytes in the buffer at an instant that is not before the last packet's beginning.
    pub fn occupancy(&self, at: Time) -> u64 {
        let held = |burst: &Burst| {
            passed(burst.bytes, burst.arrival, at).saturating_sub(passed(burst.bytes, burst.end, at))
        };
        self.bursts.iter().map(held).sum()
    }

    /// Occupancy added up over time until `now`, byte-ps.
    pub fn byte_time(&self, now: Time) -> u128 {
        let rest = |burst: &Burst| {
            let wait = twice_mean_after(burst.end, now) - twice_mean_after(burst.arrival, now);
            burst.bytes as u128 * wait / 2
        };
        self.booked - self.bursts.iter().map(rest).sum::<u128>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_most_may_be_there_before_the_last_byte_has_come() {
        let mut iio = Residence::default();
        let ns = Time::from_ns;
        iio.pass(Time::ZERO, 1000, (ns(0), ns(10)), (ns(100), ns(110)));
        iio.pass(Time::ZERO, 1000, (ns(50), ns(150)), (ns(200), ns(210)));
        // 1,500 B are there when the first burst begins to leave, ten times as fast as the second comes.
        assert_eq!(iio.take_max(ns(99)), 1490);
        assert_eq!(iio.take_max(ns(160)), 1500);
        assert_eq!(iio.take_max(ns(300)), 1000);
        assert_eq!(iio.take_max(ns(400)), 0);
    }

    #[test]
    fn what_leaves_at_once_has_been_there() {
        let mut iio = Residence::default();
        let ns = Time::from_ns;
        iio.pass(Time::ZERO, 1000, (ns(0), ns(10)), (ns(100), ns(100)));
        iio.pass(Time::ZERO, 1000, (ns(50), ns(150)), (ns(200), ns(210)));
        assert_eq!(iio.take_max(ns(90)), 1400);
        assert_eq!(iio.take_max(ns(120)), 1500);
        assert_eq!(iio.take_max(ns(130)), 800);
    }

    /// Bursts that stay are judged, too, and a stay that is booked a picosecond longer for each byte is noticed.
    #[test]
    #[cfg(debug_assertions)]
    fn what_was_found_there_is_what_stayed() {
        let mut iio = Residence::default();
        let ns = Time::from_ns;
        for at in 0..100 {
            let to = 10 * at + 7 * (at % 3);
            iio.pass(ns(10 * at), 1000 + at, (ns(10 * at), ns(to)), (ns(to + 90), ns(to + 90 + at % 5)));
            assert_eq!(iio.judge(ns(10 * at + 5)), None);
        }
        iio.take_max(ns(1050));
        assert_eq!(iio.judge(ns(1060)), None);
        iio.booked += 100 * 1050;
        assert!(iio.judge(ns(1060)).is_some());
    }

    #[test]
    fn the_counter_grows_by_what_is_there() {
        let mut iio = Residence::default();
        let ns = Time::from_ns;
        iio.pass(Time::ZERO, 1000, (ns(10), ns(20)), (ns(110), ns(120)));
        assert_eq!(iio.occupancy(ns(15)), 500);
        assert_eq!(iio.occupancy(ns(60)), 1000);
        assert_eq!(iio.byte_time(ns(10)), 0);
        // A triangle, then a rectangle.
        assert_eq!(iio.byte_time(ns(20)), 1000 * 10_000 / 2);
        assert_eq!(iio.byte_time(ns(30)), 1000 * 10_000 / 2 + 1000 * 10_000);
        assert_eq!(iio.byte_time(ns(500)), 1000 * 100_000);
    }
}
