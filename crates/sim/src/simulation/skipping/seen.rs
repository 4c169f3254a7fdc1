//! The state of a world at an instant. It can be compared with the state at another instant, and counters can
//! grow by their difference.

use tailback_proto::repeats::Walk;
use tailback_proto::units::Time;

use crate::engine::Stream;
use crate::fabric::CLASSES;
use crate::world::World;

/// A world's state.
#[derive(Debug)]
pub(super) struct Seen {
    /// Time on the clock.
    pub now: Time,
    words: Vec<u64>,
    pub counters: Vec<u64>,
    streams: Vec<Stream>,
    /// Whether the world has something that is not compared.
    is_unlike: bool,
    /// For each queue pair: the next packet, and the messages posted.
    pub positions: Vec<(u64, u64)>,
}

impl Walk for Seen {
    fn state(&mut self, word: u64) {
        self.words.push(word);
    }

    fn at(&mut self, time: &mut Time) {
        self.words.push(from(self.now, *time));
    }

    fn until(&mut self, time: &mut Time) {
        self.words.push(time.saturating_sub(self.now).0);
    }

    fn noted(&mut self, _: &mut Time) {}

    fn counter(&mut self, counter: &mut u64) {
        self.counters.push(*counter);
    }

    fn unlike(&mut self) {
        self.is_unlike = true;
    }
}

fn from(now: Time, time: Time) -> u64 {
    if time == Time::NEVER {
        u64::MAX
    } else {
        time.0.wrapping_sub(now.0)
    }
}

impl Seen {
    /// The state of the world now.
    pub fn now(world: &mut World, used: &[bool; CLASSES]) -> Seen {
        let positions = world.nics.send_qps.iter();
        let positions = positions.map(|s| (s.half.requester.next_sequence(), s.messages_posted)).collect();
        let (now, streams) = (world.fabric.run.now, world.fabric.ecn_streams.clone());
        let (words, counters) = (Vec::new(), Vec::new());
        let mut seen = Seen { now, words, counters, streams, is_unlike: false, positions };
        world.walk(used, &mut seen);
        seen
    }

    /// What a look costs, in words.
    pub fn len(&self) -> u64 {
        (self.words.len() + self.counters.len()) as u64
    }

    /// Whether the world is in this state again, and how many words were compared to find out.
    pub fn is_again(&self, world: &mut World, used: &[bool; CLASSES]) -> (bool, u64) {
        if self.is_unlike {
            return (false, 0);
        }
        let mut comparison =
            Comparison { now: world.fabric.run.now, words: &self.words, looked: 0, differs: false };
        world.walk(used, &mut comparison);
        let Comparison { words, looked, differs, .. } = comparison;
        (!differs && words.is_empty() && self.streams == world.fabric.ecn_streams, looked)
    }
}

/// Compares a world with an earlier state, up to the first difference.
struct Comparison<'a> {
    now: Time,
    /// Words that are left to compare.
    words: &'a [u64],
    looked: u64,
    differs: bool,
}

impl Walk for Comparison<'_> {
    #[inline]
    fn state(&mut self, word: u64) {
        self.looked += 1;
        match self.words.split_first() {
            Some((first, rest)) if *first == word => self.words = rest,
            _ => self.differs = true,
        }
    }

    fn at(&mut self, time: &mut Time) {
        self.state(from(self.now, *time));
    }

    fn until(&mut self, time: &mut Time) {
        self.state(time.saturating_sub(self.now).0);
    }

    fn noted(&mut self, _: &mut Time) {}

    fn counter(&mut self, _: &mut u64) {}

    fn unlike(&mut self) {
        self.differs = true;
    }

    fn is_over(&self) -> bool {
        self.differs
    }
}

/// Makes counters grow by as much as they did before, several times, and sets the clock.
pub(super) struct Growth {
    by: std::vec::IntoIter<u64>,
    times: u64,
    /// How much later it is by the clock.
    later: Time,
}

impl Growth {
    /// The growth from one state to another that is the same except for its counters.
    pub fn between(before: &Seen, after: &Seen, times: u64, later: Time) -> Growth {
        let pairs = after.counters.iter().zip(&before.counters);
        let by: Vec<u64> = pairs.map(|(after, before)| after.wrapping_sub(*before)).collect();
        Growth { by: by.into_iter(), times, later }
    }
}

impl Walk for Growth {
    fn state(&mut self, _: u64) {}

    fn at(&mut self, time: &mut Time) {
        if *time != Time::NEVER {
            *time += self.later;
        }
    }

    fn until(&mut self, time: &mut Time) {
        self.at(time);
    }

    fn noted(&mut self, time: &mut Time) {
        self.at(time);
    }

    fn counter(&mut self, counter: &mut u64) {
        let by = self.by.next().expect("the same state has the same counters");
        *counter = counter.wrapping_add(by.wrapping_mul(self.times));
    }

    fn unlike(&mut self) {}
}
