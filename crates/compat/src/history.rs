//! What ranks did, and what the last rank to finish waited for, in runs of another simulator's inputs.

use std::collections::{BTreeMap, HashMap};
use tailback_proto::units::Time;

use tailback_sim::engine::NumberMap;
use tailback_sim::work::{
    ChainRecord, ChainStep, Finished, InputsRecord, JobRecord, LateRecord, Network, Passage, SpanRecord,
    StepRecord, MOST_RECORDED,
};

/// The history of a run so far.
#[derive(Debug, Default)]
pub struct History {
    pub chains: Chains,
    steps: Vec<StepRecord>,
    numbers: HashMap<StepRecord, u32>,
    /// How many steps have begun and ended, and the first spans.
    record: JobRecord,
}

impl History {
    /// A rank begins a step.
    pub fn begins(&mut self) {
        self.record.operations += 1;
    }

    /// A rank has done a step since `begin`, or will have done it at `end`.
    pub fn does(&mut self, rank: u32, step: StepRecord, begin: Time, end: Time) {
        self.record.ended += 1;
        if self.record.has_room() {
            let number = *self.numbers.entry(step).or_insert_with_key(|step| {
                self.steps.push(step.clone());
                self.steps.len() as u32 - 1
            });
            self.record.add(SpanRecord(rank, 0, number, begin.0, Some(end.0)));
        }
    }

    /// The job: its name, its ranks, and those that have finished.
    pub fn job(&self, name: &str, ranks: usize, finished: &[Finished]) -> JobRecord {
        let (mut finished_ps, mut computed_ps) = (vec![None; ranks], vec![None; ranks]);
        for one in finished {
            finished_ps[one.rank as usize] = Some(one.at.0);
            computed_ps[one.rank as usize] = Some(one.computed.0);
        }
        let all = finished.len() == ranks;
        let chain = all.then(|| self.chains.record()).flatten();
        let inputs = InputsRecord { steps: self.steps.clone(), computed_ps, chain };
        let iterations_ps = finished.last().filter(|_| all).map(|last| last.at.0).into_iter().collect();
        let name = name.to_owned();
        JobRecord { name, finished_ps, iterations_ps, inputs: Some(inputs), ..self.record.clone() }
    }
}

// What everything in a run waited for: the event that asked for it.
//
// Whatever a rank does, it does in an event: a time has come, or a message has arrived. What the rank then
// asks for, a message or a time, begins at that instant and later is an event of its own. So each event has
// one before it, back to the beginning of the run, and the times between them add up to the time of the last
// one: nothing is left out, and nothing counts twice. An event is kept as long as something under way leads
// back to it. When there are very many, those that nothing waits for directly are added up and forgotten.

/// Most events that are kept, 80 B each.
const MOST_KEPT: usize = 1 << 18;

/// What waits for the beginning of the run, or for an event that is not kept.
const NONE: Cause = Cause(u32::MAX);

/// An event that something under way waits for. Whoever holds a cause keeps its event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub struct Cause(u32);

/// What the time up to an event was spent on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimeSpent {
    /// A rank computed.
    Compute,
    /// A fixed time: an end point's delay, or a collective's that is only its recorded time.
    Delay,
    /// A reduction in a rank's memory.
    Reduce,
    /// A message inside a server, which the network does not carry: its receiver and size.
    Inside(u32, u64),
    /// A message: its receiver, its size, and how it came through.
    Message(u32, u64, Passage),
}

#[derive(Clone, Copy, Debug)]
struct Event {
    before: Cause,
    /// How many causes and events lead back to it.
    held: u32,
    /// The rank whose time it was.
    rank: u32,
    at: Time,
    took: TimeSpent,
}

/// The events of a run that something leads back to.
#[derive(Debug)]
pub struct Chains {
    events: Vec<Event>,
    free: Vec<u32>,
    /// For each event whose predecessors are forgotten: what they took.
    forgotten: HashMap<u32, Sums>,
    /// The event under way.
    current: Cause,
    /// The event with which the last rank finished.
    last: Cause,
    too_long: bool,
}

impl Default for Chains {
    fn default() -> Self {
        Chains {
            events: Vec::new(),
            free: Vec::new(),
            forgotten: HashMap::new(),
            current: NONE,
            last: NONE,
            too_long: false,
        }
    }
}

impl Chains {
    /// The cause of what is asked for now: the event under way.
    #[inline]
    pub fn cause(&mut self) -> Cause {
        self.again(self.current)
    }

    /// The same cause once more, for something else.
    #[inline]
    pub fn again(&mut self, cause: Cause) -> Cause {
        if let Some(event) = self.events.get_mut(cause.0 as usize) {
            event.held += 1;
        }
        cause
    }

    /// What waited for `before` happens. It is the event under way until [`Self::over`].
    #[inline]
    pub fn happens(&mut self, before: Cause, rank: u32, at: Time, took: TimeSpent) {
        if self.too_long {
            return;
        }
        let event = Event { before, held: 1, rank, at, took };
        self.current = match self.free.pop() {
            Some(place) => {
                self.events[place as usize] = event;
                Cause(place)
            }
            None if self.events.len() == MOST_KEPT => {
                self.forget();
                if self.free.len() < MOST_KEPT / 2 {
                    *self = Chains { too_long: true, ..Chains::default() };
                    return;
                }
                return self.happens(before, rank, at, took);
            }
            None => {
                self.events.push(event);
                Cause(self.events.len() as u32 - 1)
            }
        };
    }

    /// Ends the event under way.
    #[inline]
    pub fn over(&mut self) {
        let current = std::mem::replace(&mut self.current, NONE);
        self.release(current);
    }

    /// A rank finishes, in the event under way.
    pub fn finish(&mut self) {
        let before = std::mem::replace(&mut self.last, self.current);
        let _ = self.again(self.last);
        self.release(before);
    }

    fn release(&mut self, mut cause: Cause) {
        while let Some(event) = self.events.get_mut(cause.0 as usize) {
            event.held -= 1;
            if event.held > 0 {
                return;
            }
            self.free.push(cause.0);
            if event.before == NONE {
                self.forgotten.remove(&cause.0);
            }
            cause = event.before;
        }
    }

    /// Adds up and forgets all events but those that something waits for directly.
    #[cold]
    fn forget(&mut self) {
        let mut followers = vec![0; self.events.len()];
        for event in self.events.iter().filter(|event| event.held > 0) {
            if let Some(followers) = followers.get_mut(event.before.0 as usize) {
                *followers += 1;
            }
        }
        let mut sums: Vec<Option<Sums>> = vec![None; self.events.len()];
        let mut unknown = Vec::new();
        // Events that are not held may name places that others have taken by now.
        for place in (0..self.events.len() as u32).filter(|&place| self.events[place as usize].held > 0) {
            let mut at = place;
            while sums.get(at as usize).is_some_and(Option::is_none) {
                unknown.push(at);
                at = self.events[at as usize].before.0;
            }
            let known = sums.get(at as usize).copied().flatten();
            let root = unknown.last().and_then(|root| self.forgotten.get(root)).copied();
            let mut sum = known.or(root).unwrap_or_default();
            while let Some(at) = unknown.pop() {
                sum.add(&self.events[at as usize]);
                sums[at as usize] = Some(sum);
            }
        }
        let before = std::mem::take(&mut self.forgotten);
        for (place, (event, followers)) in (0..).zip(self.events.iter_mut().zip(followers)) {
            if event.held == 0 {
                continue;
            }
            event.held -= followers;
            let earlier = sums.get(event.before.0 as usize).copied().flatten();
            event.before = NONE;
            if event.held == 0 {
                self.free.push(place);
            } else if let Some(sum) = earlier.or(before.get(&place).copied()) {
                self.forgotten.insert(place, sum);
            }
        }
    }

    /// The chain from the event with which the last rank finished back to the beginning. None: too many
    /// events were waited for at the same time.
    pub fn record(&self) -> Option<ChainRecord> {
        if self.too_long {
            return None;
        }
        let mut places = Vec::new();
        let mut at = self.last;
        while let Some(event) = self.events.get(at.0 as usize) {
            places.push(at.0);
            at = event.before;
        }
        let mut sums = places.last().and_then(|root| self.forgotten.get(root)).copied().unwrap_or_default();
        let mut steps = Vec::new();
        for (left, &place) in (0..places.len()).rev().zip(places.iter().rev()) {
            let event = &self.events[place as usize];
            if left < MOST_RECORDED {
                let (what, to) = event.took.in_words();
                steps.push(ChainStep(what, event.rank, to, sums.at.0, event.at.0));
            }
            sums.add(event);
        }
        let rank = places.first().map_or(0, |&last| self.events[last as usize].rank);
        Some(ChainRecord { rank, steps, ..sums.record() })
    }
}

impl TimeSpent {
    /// The kind of event, and the receiver of a message.
    fn in_words(self) -> (&'static str, Option<u32>) {
        match self {
            TimeSpent::Compute => ("compute", None),
            TimeSpent::Delay => ("delay", None),
            TimeSpent::Reduce => ("reduce", None),
            TimeSpent::Inside(to, _) => ("message inside a server", Some(to)),
            TimeSpent::Message(to, ..) => ("message", Some(to)),
        }
    }
}

/// What the events of a chain took, up to the last of them.
#[derive(Clone, Copy, Debug, Default)]
struct Sums {
    at: Time,
    events: u64,
    compute: u64,
    delay: u64,
    reduce: u64,
    inside: u64,
    ideal: u64,
    behind: u64,
    paused: u64,
    queued: u64,
    resent: u64,
    worst: Option<LateRecord>,
}

impl Sums {
    /// Adds the next event.
    fn add(&mut self, event: &Event) {
        let since = std::mem::replace(&mut self.at, event.at);
        let took = (event.at - since).0;
        self.events += 1;
        match event.took {
            TimeSpent::Compute => self.compute += took,
            TimeSpent::Delay => self.delay += took,
            TimeSpent::Reduce => self.reduce += took,
            TimeSpent::Inside(..) => self.inside += took,
            TimeSpent::Message(to, bytes, Passage { ideal, behind, paused, resent, .. }) => {
                let beyond = took.saturating_sub(ideal.0);
                let behind = beyond.min(behind.0);
                let paused = (beyond - behind).min(paused.0);
                self.ideal += took - beyond;
                self.behind += behind;
                self.paused += paused;
                self.queued += beyond - behind - paused;
                self.resent += resent;
                let late = LateRecord {
                    from: event.rank,
                    to,
                    bytes,
                    start_ps: since.0,
                    end_ps: event.at.0,
                    ideal_ps: ideal.0,
                    behind_ps: behind,
                    resent,
                };
                if late.excess() > self.worst.map_or(0, |worst| worst.excess()) {
                    self.worst = Some(late);
                }
            }
        }
    }

    fn record(self) -> ChainRecord {
        ChainRecord {
            end_ps: self.at.0,
            events: self.events,
            compute_ps: self.compute,
            delay_ps: self.delay,
            reduce_ps: self.reduce,
            domain_ps: self.inside,
            ideal_ps: self.ideal,
            behind_ps: self.behind,
            paused_ps: self.paused,
            queued_ps: self.queued,
            resent: self.resent,
            worst: self.worst.into_iter().collect(),
            ..ChainRecord::default()
        }
    }
}

// Messages and their receivers. They are matched by tag and ranks, and then by bytes alone. Bytes that come early are
// added up, and so are bytes that are expected twice, of which only the last receiver is notified.

/// Tag, sender and receiver.
pub type Key = (i32, u32, u32);

/// Bytes that are expected, with the receiver to tell, and bytes that came early.
#[derive(Debug)]
pub struct Matching<R> {
    expected: NumberMap<Key, (u64, R)>,
    early: NumberMap<Key, u64>,
}

impl<R> Default for Matching<R> {
    fn default() -> Self {
        Matching { expected: NumberMap::default(), early: NumberMap::default() }
    }
}

impl<R> Matching<R> {
    /// A receiver expects bytes. Returns true if they are there already.
    pub fn expect(&mut self, key: Key, bytes: u64, receiver: R) -> bool {
        if let Some(there) = self.early.remove(&key) {
            if there > bytes {
                self.early.insert(key, there - bytes);
            } else if there < bytes {
                self.expected.insert(key, (bytes - there, receiver));
            }
            return there >= bytes;
        }
        let before = self.expected.get(&key).map_or(0, |known| known.0);
        self.expected.insert(key, (before + bytes, receiver));
        false
    }

    /// A message has arrived. Returns the receiver, if it now has everything that it expected.
    pub fn arrived(&mut self, key: Key, bytes: u64) -> Option<R> {
        let Some((expected, receiver)) = self.expected.remove(&key) else {
            *self.early.entry(key).or_default() += bytes;
            return None;
        };
        if bytes < expected {
            self.expected.insert(key, (expected - bytes, receiver));
            return None;
        }
        if bytes > expected {
            self.early.insert(key, bytes - expected);
        }
        Some(receiver)
    }
}

// What a rank is to be notified of at which instant. All of one instant is one event of the network, at the place of
// what was noted first.

/// By instant, what a rank is to be notified of, in order.
#[derive(Debug)]
pub(super) struct Timers<T> {
    later: BTreeMap<Time, Vec<T>>,
    /// The list of the instant whose turn it is.
    now: Option<(Time, Vec<T>)>,
    /// A list whose room is used again.
    spare: Vec<T>,
}

impl<T> Default for Timers<T> {
    fn default() -> Self {
        Timers { later: BTreeMap::new(), now: None, spare: Vec::new() }
    }
}

impl<T: Copy> Timers<T> {
    /// Notes a timer; the first one of an instant is an event of the network.
    pub fn add(&mut self, rank: u32, delay: Time, timer: T, network: &mut dyn Network) {
        let at = Time(network.now().0.saturating_add(delay.0));
        if let Some((_, list)) = self.now.as_mut().filter(|(now, _)| *now == at) {
            list.push(timer);
            return;
        }
        let list = self.later.entry(at).or_insert_with(|| std::mem::take(&mut self.spare));
        list.push(timer);
        if list.len() == 1 {
            network.call_after(delay, rank);
        }
    }

    /// The timer in this place of an instant, whose turn it is until it is removed. The list may grow while it is read.
    pub fn get(&mut self, now: Time, place: usize) -> Option<T> {
        if self.now.is_none() {
            self.now = Some((now, self.later.remove(&now)?));
        }
        self.now.as_ref()?.1.get(place).copied()
    }

    /// The turn of an instant is over.
    pub fn end(&mut self) {
        if let Some((_, mut list)) = self.now.take() {
            list.clear();
            self.spare = list;
        }
    }
}

#[cfg(test)]
mod chain_tests {
    use super::*;

    const PASSAGE: Passage =
        Passage { ideal: Time(30), link: Time(10), behind: Time(5), paused: Time(7), resent: 2 };

    /// Computing, a message and a reduction. What nothing under way waits for is forgotten.
    #[test]
    fn times_add_up_and_what_nobody_goes_back_to_is_forgotten() {
        let mut chains = Chains::default();
        let (own, other) = (chains.cause(), chains.cause());
        chains.happens(own, 3, Time(100), TimeSpent::Compute);
        let sent = chains.cause();
        chains.over();
        chains.happens(other, 4, Time(110), TimeSpent::Compute);
        chains.over();
        assert_eq!((chains.events.len(), chains.free.len()), (2, 1));
        chains.happens(sent, 3, Time(140), TimeSpent::Message(4, 1000, PASSAGE));
        let reduced = chains.cause();
        chains.over();
        chains.happens(reduced, 4, Time(143), TimeSpent::Reduce);
        chains.finish();
        chains.over();
        let found = chains.record().expect("it is short");
        assert_eq!((found.rank, found.end_ps, found.events), (4, 143, 3));
        assert_eq!((found.compute_ps, found.reduce_ps, found.ideal_ps), (100, 3, 30));
        // Ten more than in the empty network: five behind others, and five of the seven in which the link was
        // paused.
        assert_eq!((found.behind_ps, found.paused_ps, found.queued_ps, found.resent), (5, 5, 0, 2));
        assert_eq!(
            found.steps,
            [
                ChainStep("compute", 3, None, 0, 100),
                ChainStep("message", 3, Some(4), 100, 140),
                ChainStep("reduce", 4, None, 140, 143)
            ]
        );
        assert_eq!(chains.free.len() + 3, chains.events.len());
    }

    /// Many chains side by side, longer than what is kept: sums are complete, and steps are the last ones.
    #[test]
    fn what_is_forgotten_still_counts() {
        const RANKS: u32 = 16;
        let mut chains = Chains::default();
        let mut causes: Vec<Cause> = (0..RANKS).map(|_| chains.cause()).collect();
        let steps = 7 * MOST_KEPT as u64 / 2 / RANKS as u64;
        for step in 1..=steps {
            for rank in 0..RANKS {
                let took = if step % 2 == 0 { TimeSpent::Delay } else { TimeSpent::Message(0, 9, PASSAGE) };
                chains.happens(causes[rank as usize], rank, Time(40 * step), took);
                causes[rank as usize] = chains.cause();
                if step == steps {
                    chains.finish();
                }
                chains.over();
            }
        }
        assert_eq!(chains.events.len(), MOST_KEPT);
        let found = chains.record().expect("few are waited for at once");
        assert_eq!((found.rank, found.events, found.end_ps), (RANKS - 1, steps, 40 * steps));
        // Each message takes ten more than in the empty network: five behind others, five paused.
        let messages = steps.div_ceil(2);
        assert_eq!((found.ideal_ps, found.delay_ps), (30 * messages, 40 * (steps / 2)));
        assert_eq!((found.behind_ps, found.paused_ps, found.queued_ps), (5 * messages, 5 * messages, 0));
        assert_eq!(found.worst.len(), 1);
        assert!(found.steps.len() > 1000);
        assert!(found.steps.windows(2).all(|pair| pair[0].4 == pair[1].3));
        assert_eq!(found.steps.last().expect("there are some").4, found.end_ps);
    }

    #[test]
    fn too_many_that_are_waited_for_at_once_are_given_up() {
        let mut chains = Chains::default();
        for step in 0..=MOST_KEPT as u64 {
            chains.happens(NONE, 0, Time(step), TimeSpent::Delay);
            let _waits = chains.cause();
            chains.over();
        }
        assert_eq!(chains.record(), None);
        assert_eq!(chains.events.capacity(), 0);
    }
}

#[cfg(test)]
mod matching_tests {
    use super::*;

    const KEY: Key = (7, 0, 1);

    #[test]
    fn early_bytes_are_kept() {
        let mut matching = Matching::default();
        assert_eq!(matching.arrived(KEY, 30), None);
        assert!(matching.expect(KEY, 10, 1));
        assert!(!matching.expect(KEY, 50, 2));
        assert_eq!(matching.arrived(KEY, 20), None);
        assert_eq!(matching.arrived(KEY, 15), Some(2));
        assert!(matching.expect(KEY, 5, 3));
    }

    #[test]
    fn of_two_that_expect_the_last_is_told() {
        let mut matching = Matching::default();
        assert!(!matching.expect(KEY, 10, 1));
        assert!(!matching.expect(KEY, 10, 4));
        assert_eq!(matching.arrived(KEY, 10), None);
        assert_eq!(matching.arrived(KEY, 10), Some(4));
    }
}
