//! How long each queue that is recorded was in a period that repeats. From its changes follows its integral over any number of
//! repeats, which counts the ticks in whole ones, as a [gauge](crate::gauge) does: a period seldom lasts a whole number of them.
//!
//! A length `L` from `a` to `b` counts as `L (b / TICK - a / TICK)`, in whole numbers. Summed by parts over all that a queue did
//! between two instants, that is the last length times the ticks at the last instant, minus the first length times those at the
//! first, minus each change times those at its own. Over `n` periods of a length `P` a change at `a` counts `n` times: at
//! `a + k P` for each `k < n`. All changes of a period together are 0, so that what all have in common falls away, and what is
//! left depends on `k P` modulo a tick alone.

use tailback_proto::units::Time;

use super::quantity::Kind;
use super::readings::Readings;
use crate::fabric::{port_and_class, Fabric};
use crate::gauge::TICK;
use crate::world::World;

const TICKS: usize = TICK as usize;

/// An instant in time that repeats: how many periods are over, how much of the next one, and the instant itself.
#[derive(Clone, Copy, Debug)]
pub(super) struct Phase {
    pub periods: u64,
    pub into: Time,
    pub at: Time,
}

impl Phase {
    /// That of an instant in time that repeats since `start` with a period of a `length`.
    pub fn of(at: Time, start: Time, length: Time) -> Phase {
        let since = (at - start).0;
        Phase { periods: since / length.0, into: Time(since % length.0), at }
    }
}

/// All queues that are recorded.
#[derive(Debug)]
pub(crate) struct Lengths {
    /// When the period began, in simulated time.
    start: Time,
    /// By node.
    queues: Vec<Vec<Queue>>,
}

/// A queue. It is looked at in each event of its node, so it is small.
#[derive(Debug)]
struct Queue {
    /// Its port and class.
    at: (usize, u8),
    is_egress: bool,
    column: u32,
    /// Bytes when the period began, and now.
    begun: u32,
    now: u32,
    /// Since the start of the period: when, and by how many bytes (modulo 2^64).
    changes: Vec<(Time, u64)>,
}

impl Queue {
    #[inline]
    fn bytes(&self, fabric: &Fabric) -> u32 {
        match self.is_egress {
            true => fabric.queues[self.at].bytes,
            false => fabric.groups[self.at].bytes(),
        }
    }
}

impl Lengths {
    /// From now on.
    pub(super) fn new(read: &Readings<World>, fabric: &Fabric) -> Lengths {
        let mut queues: Vec<Vec<Queue>> = Vec::new();
        let mut readers = read.readers.iter().peekable();
        for (column, (of, _, kind)) in read.each().enumerate() {
            while readers.next_if(|reader| reader.first + reader.columns <= column).is_some() {}
            if kind != Kind::Mean {
                continue;
            }
            let (Some(reader), "egress" | "ingress") = (readers.peek(), of) else {
                unreachable!("{of} is not skipped");
            };
            if queues.len() <= reader.node {
                queues.resize_with(reader.node + 1, Vec::new);
            }
            let mut queue = Queue {
                column: column as u32,
                at: port_and_class(reader.at),
                is_egress: of == "egress",
                begun: 0,
                now: 0,
                changes: Vec::new(),
            };
            queue.now = queue.bytes(fabric);
            queue.begun = queue.now;
            queues[reader.node].push(queue);
        }
        Lengths { start: fabric.run.simulated(), queues }
    }

    /// Notes what an event of a node has changed. None: of all nodes.
    pub fn look(&mut self, fabric: &Fabric, node: Option<usize>) {
        let at = fabric.run.simulated() - self.start;
        let all = node.map_or(0..self.queues.len(), |node| node..node + 1);
        let queues = self.queues.get_mut(all).into_iter().flatten().flatten();
        queues.for_each(|queue| queue.look(fabric, at));
    }

    /// The integrals of all queues, in bytes times ticks, from the start to instants in order, by the column that they are for.
    /// The period has a `length`.
    pub(super) fn integrals(&self, length: Time, instants: &[Phase]) -> Vec<(usize, Vec<u64>)> {
        let mut in_order: Vec<(usize, Phase)> = instants.iter().copied().enumerate().collect();
        in_order.sort_by_key(|(_, phase)| phase.into);
        let ticks = Ticks::of(length);
        let queues = self.queues.iter().flatten();
        queues.map(|queue| (queue.column as usize, queue.integrals(self.start, &ticks, &in_order))).collect()
    }
}

impl Queue {
    #[inline]
    fn look(&mut self, fabric: &Fabric, at: Time) {
        let bytes = self.bytes(fabric);
        if bytes != self.now {
            self.changes.push((at, (bytes as u64).wrapping_sub(self.now as u64)));
            self.now = bytes;
        }
    }

    /// `instants` are in order of what they are into a period; the integrals in the order of their numbers.
    fn integrals(&self, start: Time, ticks: &Ticks, instants: &[(usize, Phase)]) -> Vec<u64> {
        let mut whole = Changes::new(start);
        self.changes.iter().for_each(|change| whole.add(*change));
        let by_periods = whole.by_periods(ticks);
        let (mut part, mut next) = (Changes::new(start), self.changes.iter().peekable());
        let mut integrals = vec![0; instants.len()];
        for &(number, Phase { periods, into, at }) in instants {
            while let Some(change) = next.next_if(|(when, _)| *when <= into) {
                part.add(*change);
            }
            let length = (self.begun as u64).wrapping_add(part.bytes);
            let [last, first] =
                [(length, at), (self.begun as u64, start)].map(|(bytes, at)| times(bytes, at.0 / TICK));
            let [cycles, rest] = [periods / ticks.cycle(), periods % ticks.cycle()];
            let over = [
                part.in_ticks,
                times(whole.in_ticks, periods),
                times(by_periods[by_periods.len() - 1], cycles),
                by_periods[rest as usize],
                part.after(ticks.length, periods),
            ];
            integrals[number] = over.into_iter().fold(last.wrapping_sub(first), u64::wrapping_sub);
        }
        integrals
    }
}

fn times(one: u64, other: u64) -> u64 {
    one.wrapping_mul(other)
}

/// Changes of a queue, modulo 2^64.
struct Changes {
    start: Time,
    /// All together, and each times the ticks at its instant.
    bytes: u64,
    in_ticks: u64,
    /// Together by what their instants are past a tick.
    by_rest: [u64; TICKS],
}

impl Changes {
    fn new(start: Time) -> Changes {
        Changes { start, bytes: 0, in_ticks: 0, by_rest: [0; TICKS] }
    }

    fn add(&mut self, (at, bytes): (Time, u64)) {
        let at = self.start.0 + at.0;
        self.bytes = self.bytes.wrapping_add(bytes);
        self.in_ticks = self.in_ticks.wrapping_add(times(bytes, at / TICK));
        let rest = &mut self.by_rest[(at % TICK) as usize];
        *rest = rest.wrapping_add(bytes);
    }

    /// Each times the ticks that it is later by after so many periods of a length.
    fn after(&self, length: Time, periods: u64) -> u64 {
        let later = length.0 * periods;
        let carry = self.by_rest[TICKS - (later % TICK) as usize..].iter();
        carry.fold(times(self.bytes, later / TICK), |sum, bytes| sum.wrapping_add(*bytes))
    }

    /// Each times the ticks that it is later by, added up over 0, 1, 2, ... periods up to a cycle, but for what all have in common.
    fn by_periods(&self, ticks: &Ticks) -> Vec<u64> {
        let of = |later: &[u32; TICKS]| {
            let pairs = self.by_rest.iter().zip(later);
            pairs.fold(0u64, |sum, (bytes, ticks)| sum.wrapping_add(times(*bytes, *ticks as u64)))
        };
        match self.by_rest.iter().any(|bytes| *bytes != 0) {
            true => ticks.later.iter().map(of).collect(),
            false => vec![0; ticks.later.len()],
        }
    }
}

/// By how many ticks instants are later in later periods.
struct Ticks {
    length: Time,
    /// For 0, 1, 2, ... periods, up to as many as last a whole number of ticks, and by what an instant is past a tick: the ticks
    /// by which it is later in each of them, but for whole ones that all are later by.
    later: Vec<[u32; TICKS]>,
}

impl Ticks {
    fn of(length: Time) -> Ticks {
        let mut later = vec![[0; TICKS]];
        let mut rest = 0;
        loop {
            let mut row = later[later.len() - 1];
            row[TICKS - rest..].iter_mut().for_each(|ticks| *ticks += 1);
            later.push(row);
            rest = (rest + (length.0 % TICK) as usize) % TICKS;
            if rest == 0 {
                return Ticks { length, later };
            }
        }
    }

    /// Periods that last a whole number of ticks.
    fn cycle(&self) -> u64 {
        self.later.len() as u64 - 1
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::gauge::OverTime;

    proptest! {
        /// As the gauge of a queue that lives through all the periods has it.
        #[test]
        fn integrals_over_periods_are_those_of_a_gauge(
            (start, length) in (0u64..1_000, 1u64..3_000),
            mut changes in prop::collection::vec((0u64..1_000_000, 0u64..5_000), 0..30),
            ends in prop::collection::vec(0u64..2_000_000, 1..20),
            begun in 0u32..5_000,
        ) {
            // Lengths at instants of a period, the last of which is that at its beginning.
            changes.iter_mut().for_each(|(at, _)| *at %= length + 1);
            changes.sort_unstable();
            changes.push((length, begun as u64));
            let mut now = begun as u64;
            let steps = changes.iter().map(|(at, bytes)| {
                (Time(*at), bytes.wrapping_sub(std::mem::replace(&mut now, *bytes)))
            });
            let queue = Queue { column: 0, at: (0, 0), is_egress: true, begun, now: begun, changes: steps.collect() };
            let mut instants: Vec<u64> = ends.iter().map(|end| end % (700 * length)).collect();
            instants.sort_unstable();
            let phases: Vec<(usize, Phase)> = {
                let phase = |at: &u64| Phase::of(Time(start + at), Time(start), Time(length));
                let mut all: Vec<_> = instants.iter().map(phase).enumerate().collect();
                all.sort_by_key(|(_, phase)| phase.into);
                all
            };
            let found = queue.integrals(Time(start), &Ticks::of(Time(length)), &phases);

            let mut gauge = OverTime::NEW;
            gauge.take_mean((Time(start), Time::ZERO), 0);
            let (mut bytes, mut sum) = (begun as u64, 0);
            let mut next = (0..).flat_map(|period| {
                changes.iter().map(move |(at, bytes)| (start + period * length + at, *bytes))
            }).peekable();
            for (end, found) in instants.iter().zip(found) {
                while let Some((at, after)) = next.next_if(|(at, _)| *at <= start + end) {
                    gauge.held(Time(at), bytes);
                    bytes = after;
                }
                sum += gauge.take_mean((Time(start + end), Time::ZERO), bytes) as u64;
                prop_assert_eq!(found, sum);
            }
        }
    }
}
