//! Little's law: what waits in a queue on average is what comes in a second times how long it waits.
//!
//! Over a run that is an equation of two sums that know nothing of each other: the integral of the length that is recorded
//! of a queue, and each packet's bytes times its own wait. They are the same to the last picosecond, whatever happened in the run.
//!
//! Builds with assertions keep both sums at every queue of packets, and the [audit](crate::record) compares them. In other
//! builds both types here are empty, and nothing is counted.

use tailback_proto::units::Time;

/// When a packet came to the queue that it waits in.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Came {
    #[cfg(debug_assertions)]
    at: Time,
}

impl Came {
    #[inline(always)]
    pub fn at(_now: Time) -> Came {
        Came {
            #[cfg(debug_assertions)]
            at: _now,
        }
    }
}

/// Both sums of a queue, in bytes, or packets, times picoseconds, modulo 2^64.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct LittlesLaw {
    #[cfg(debug_assertions)]
    held: u64,
    #[cfg(debug_assertions)]
    waited: u64,
}

impl LittlesLaw {
    pub const NEW: LittlesLaw = LittlesLaw {
        #[cfg(debug_assertions)]
        held: 0,
        #[cfg(debug_assertions)]
        waited: 0,
    };

    /// The queue had this length from one instant to another.
    #[inline(always)]
    pub fn held(&mut self, _length: u64, _from: Time, _to: Time) {
        #[cfg(debug_assertions)]
        {
            self.held = self.held.wrapping_add(_length.wrapping_mul(_to.0.wrapping_sub(_from.0)));
        }
    }

    /// A packet of that length leaves, for whatever reason.
    #[inline(always)]
    pub fn left(&mut self, _length: u64, _came: Came, _now: Time) {
        #[cfg(debug_assertions)]
        {
            self.waited = self.waited.wrapping_add(_length.wrapping_mul(_now.0.wrapping_sub(_came.at.0)));
        }
    }

    /// At the end of a run, where the queue is so `long` since an instant, and these packets wait in it: what is wrong.
    pub fn judge(
        self,
        _now: Time,
        (_long, _since): (u64, Time),
        _waiting: impl IntoIterator<Item = (u64, Came)>,
    ) -> Option<String> {
        #[cfg(debug_assertions)]
        {
            let mut law = self;
            law.held(_long, _since, _now);
            _waiting.into_iter().for_each(|(length, came)| law.left(length, came, _now));
            let LittlesLaw { held, waited } = law;
            if held != waited {
                return Some(format!(
                    "was {held} long, times picoseconds, and its packets waited for {waited}"
                ));
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::super::TICK;
    use super::*;

    const fn tick(ticks: u64) -> Time {
        Time(ticks * TICK)
    }

    /// 100 B wait for 10 ticks and 60 B for 7, of which 3 are to come.
    #[test]
    fn both_sums_are_the_same_and_a_wait_that_is_a_tick_off_is_told() {
        let judged = |second_came: Time| {
            let mut law = LittlesLaw::NEW;
            law.held(100, tick(0), tick(6));
            law.held(160, tick(6), tick(10));
            law.left(100, Came::at(tick(0)), tick(10));
            law.judge(tick(13), (60, tick(10)), [(60, Came::at(second_came))])
        };
        assert_eq!(judged(tick(6)), None);
        assert_eq!(judged(tick(7)).is_some(), cfg!(debug_assertions));
    }

    /// Spans that follow each other add up, however short each is.
    #[test]
    fn nothing_is_lost_in_spans_shorter_than_a_tick() {
        let mut law = LittlesLaw::NEW;
        for at in 0..10_000 {
            law.held(1, Time(at), Time(at + 1));
        }
        assert_eq!(law.judge(Time(10_000), (1, Time(10_000)), [(1, Came::at(Time::ZERO))]), None);
    }

    #[test]
    #[cfg(not(debug_assertions))]
    fn it_is_nothing_without_assertions() {
        assert_eq!((size_of::<LittlesLaw>(), size_of::<Came>()), (0, 0));
    }
}
