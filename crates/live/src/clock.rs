//! The clock of a live run: the machine's, slowed down, and standing still while the program is behind.
//!
//! A program may stop for ten milliseconds because another one computes; a NIC does not. If its clock went on meanwhile, timers would
//! fire while the answers that they wait for lie in a socket. So in a turn, in which each interface is looked at once, no more than
//! [`LONGEST_TURN`] passes: what happens in a run happens as on a machine that is quick enough, and takes longer. How long it stood still is
//! told.
//!
//! It may also go by the [turns](crate::turns) of another program.

use std::io;
use std::time::{Duration, Instant};

use tailback_proto::units::Time;

use crate::turns::Follow;

/// Longest time of the run in a turn of the program. A turn in which nothing happens takes a quarter of it.
pub const LONGEST_TURN: Duration = Duration::from_micros(20);

/// A clock.
#[derive(Debug)]
pub struct Clock {
    slowdown: f64,
    last: Instant,
    /// Time that may pass in this turn.
    allowed_ns: u64,
    /// Nanoseconds of the machine that count.
    counted_ns: u64,
    /// Those that do not.
    stood_ns: u64,
    /// Whose turns it goes by; none: the machine's time.
    follow: Option<Follow>,
    /// The time that it has told.
    told: Option<Time>,
}

impl Clock {
    /// At 0. `slowdown`: seconds of the machine for each of the clock's.
    pub fn new(slowdown: f64) -> Clock {
        let last = Instant::now();
        Clock { slowdown, last, allowed_ns: 0, counted_ns: 0, stood_ns: 0, follow: None, told: None }
    }

    /// Goes by the turns of another program, from 0 on.
    pub fn follow(&mut self, leader: Follow) {
        (self.follow, self.told) = (Some(leader), Some(Time::ZERO));
    }

    /// True if it does.
    pub fn follows(&self) -> bool {
        self.follow.is_some()
    }

    /// Nobody waits for this program any longer, and its time is over.
    pub fn leave(&mut self) {
        self.follow = None;
    }

    /// The time.
    pub fn now(&mut self) -> Time {
        let now = Instant::now();
        let passed = (now - self.last).as_nanos() as u64;
        let counted = passed.min(self.allowed_ns);
        self.last = now;
        self.allowed_ns -= counted;
        self.counted_ns += counted;
        self.stood_ns += passed - counted;
        self.told.unwrap_or(Time((self.counted_ns as f64 * 1000.0 / self.slowdown) as u64))
    }

    /// A turn begins. False: not yet, as others are not so far.
    ///
    /// # Errors
    /// Who leads has ended.
    pub fn turn(&mut self) -> io::Result<bool> {
        let Some(follow) = &mut self.follow else {
            self.allowed_ns = LONGEST_TURN.as_nanos() as u64;
            return Ok(true);
        };
        let next = follow.next_turn()?;
        self.told = next.or(self.told);
        Ok(next.is_some())
    }

    /// Time by the machine's clock from `now` to `until`.
    pub fn span(&self, now: Time, until: Time) -> Duration {
        Duration::from_nanos((until.saturating_sub(now).ps() as f64 * self.slowdown / 1000.0) as u64)
    }

    /// The program has nothing to do for `span`, which counts.
    pub fn sleeps(&mut self, span: Duration) {
        self.allowed_ns += span.as_nanos() as u64;
    }

    /// Goes on from now: what passed since the last look does not count.
    pub fn go_on(&mut self) {
        self.last = Instant::now();
    }

    /// How long it stood still.
    pub fn stood(&self) -> Duration {
        Duration::from_nanos(self.stood_ns).saturating_sub(self.by_turns())
    }

    /// How long it ran, by the machine's.
    pub fn ran(&self) -> Duration {
        Duration::from_nanos(self.counted_ns) + self.by_turns()
    }

    /// Time that the turns of another program would take by the machine's.
    fn by_turns(&self) -> Duration {
        self.told.map_or(Duration::ZERO, |told| self.span(Time::ZERO, told))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_passes_in_a_turn_than_may() {
        let mut clock = Clock::new(100.0);
        assert_eq!(clock.now(), Time::ZERO, "before the first turn it stands");
        assert!(clock.turn().unwrap());
        std::thread::sleep(Duration::from_millis(1));
        assert_eq!(clock.now(), Time::from_ns(200));
        assert_eq!(clock.now(), Time::from_ns(200));
        assert!(clock.turn().unwrap());
        clock.sleeps(Duration::from_micros(50));
        std::thread::sleep(Duration::from_millis(1));
        assert_eq!(clock.now(), Time::from_ns(900));
        assert!(clock.stood() > Duration::from_millis(1));
        assert_eq!(clock.span(Time::ZERO, Time::from_ns(10)), Duration::from_micros(1));
    }
}
