//! What everything that happens waited for: the event that asked for it.
//!
//! Whatever a rank does, it does in an event: a time has come, or a message is there. What it asks for then, a message or
//! a time, begins at that instant and is an event of its own later. So each event has one before it, back to the
//! beginning of the run, and the times between them add up to the time of the last one: nothing is left out and nothing
//! counts twice. An event is kept as long as something that is under way goes back to it.

use tailback_proto::units::Time;

use crate::work::{ChainRecord, ChainStep, LateRecord, Passage, MOST_RECORDED};

/// Most events that are kept, 80 B each. A run that needs more has no chain.
const MOST_KEPT: usize = 1 << 19;
/// What waits for the beginning of the run, or for what is not kept.
const NONE: Cause = Cause(u32::MAX);

/// An event that something under way waits for: whoever has it keeps it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub struct Cause(u32);

/// What took the time until an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Took {
    /// A rank computed.
    Compute,
    /// A fixed time: an end point's delay, or a collective's that is only its recorded time.
    Delay,
    /// A reduction in a rank's memory.
    Reduce,
    /// A message inside of a server that the network does not carry: to whom, and its size.
    Inside(u32, u64),
    /// A message: to whom, its size, and how it came through.
    Message(u32, u64, Passage),
}

#[derive(Clone, Copy, Debug)]
struct Event {
    before: Cause,
    /// How many go back to it.
    held: u32,
    /// Whose time it was.
    rank: u32,
    at: Time,
    took: Took,
}

/// The events of a run that something goes back to.
#[derive(Debug)]
pub struct Chains {
    events: Vec<Event>,
    free: Vec<u32>,
    /// The event under way.
    current: Cause,
    /// The event with which the last rank finished.
    last: Cause,
    too_long: bool,
}

impl Default for Chains {
    fn default() -> Self {
        Chains { events: Vec::new(), free: Vec::new(), current: NONE, last: NONE, too_long: false }
    }
}

impl Chains {
    /// What is asked for now waits for the event under way.
    #[inline]
    pub fn cause(&mut self) -> Cause {
        self.again(self.current)
    }

    /// The same cause for something else.
    #[inline]
    pub fn again(&mut self, cause: Cause) -> Cause {
        if let Some(event) = self.events.get_mut(cause.0 as usize) {
            event.held += 1;
        }
        cause
    }

    /// What waited for `before` happens. Until [`Self::over`] it is the event under way.
    #[inline]
    pub fn happens(&mut self, before: Cause, rank: u32, at: Time, took: Took) {
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
                *self = Chains { too_long: true, ..Chains::default() };
                return;
            }
            None => {
                self.events.push(event);
                Cause(self.events.len() as u32 - 1)
            }
        };
    }

    /// The event under way is over.
    #[inline]
    pub fn over(&mut self) {
        let current = std::mem::replace(&mut self.current, NONE);
        self.release(current);
    }

    /// A rank finishes.
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
            cause = event.before;
        }
    }

    /// From the event with which the last rank finished back to the beginning. None: it was too long to be kept.
    pub fn record(&self) -> Option<ChainRecord> {
        if self.too_long {
            return None;
        }
        let mut chain = ChainRecord::default();
        let mut at = self.last;
        while let Some(event) = self.events.get(at.0 as usize) {
            let before = self.events.get(event.before.0 as usize);
            let since = before.map_or(Time::ZERO, |before| before.at);
            if chain.events == 0 {
                (chain.rank, chain.end_ps) = (event.rank, event.at.0);
            }
            chain.events += 1;
            let to = chain.add(event, since);
            if chain.steps.len() < MOST_RECORDED {
                chain.steps.push(ChainStep(event.took.name(), event.rank, to, since.0, event.at.0));
            }
            at = event.before;
        }
        chain.steps.reverse();
        Some(chain)
    }
}

impl Took {
    fn name(self) -> &'static str {
        match self {
            Took::Compute => "compute",
            Took::Delay => "delay",
            Took::Reduce => "reduce",
            Took::Inside(..) => "message inside a server",
            Took::Message(..) => "message",
        }
    }
}

impl ChainRecord {
    /// Adds what an event took; of a message, to whom it went.
    fn add(&mut self, event: &Event, since: Time) -> Option<u32> {
        let took = (event.at - since).0;
        match event.took {
            Took::Compute => self.compute_ps += took,
            Took::Delay => self.delay_ps += took,
            Took::Reduce => self.reduce_ps += took,
            Took::Inside(to, _) => {
                self.domain_ps += took;
                return Some(to);
            }
            Took::Message(to, bytes, Passage { ideal, behind, paused, resent, .. }) => {
                let beyond = took.saturating_sub(ideal.0);
                let behind = beyond.min(behind.0);
                let paused = (beyond - behind).min(paused.0);
                self.ideal_ps += took - beyond;
                self.behind_ps += behind;
                self.paused_ps += paused;
                self.queued_ps += beyond - behind - paused;
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
                late.keep(&mut self.worst);
                return Some(to);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PASSAGE: Passage =
        Passage { ideal: Time(30), link: Time(10), behind: Time(5), paused: Time(7), resent: 2 };

    /// Computing, a message and a reduction; what waits for nothing that is under way is forgotten.
    #[test]
    fn times_add_up_and_what_nobody_goes_back_to_is_forgotten() {
        let mut chains = Chains::default();
        let (own, other) = (chains.cause(), chains.cause());
        chains.happens(own, 3, Time(100), Took::Compute);
        let sent = chains.cause();
        chains.over();
        chains.happens(other, 4, Time(110), Took::Compute);
        chains.over();
        assert_eq!((chains.events.len(), chains.free.len()), (2, 1));
        chains.happens(sent, 3, Time(140), Took::Message(4, 1000, PASSAGE));
        let reduced = chains.cause();
        chains.over();
        chains.happens(reduced, 4, Time(143), Took::Reduce);
        chains.finish();
        chains.over();
        let found = chains.record().expect("it is short");
        assert_eq!((found.rank, found.end_ps, found.events), (4, 143, 3));
        assert_eq!((found.compute_ps, found.reduce_ps, found.ideal_ps), (100, 3, 30));
        // Ten beyond the empty network: five behind others, five of the seven in which the link was paused.
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

    #[test]
    fn what_would_be_too_long_is_given_up() {
        let mut chains = Chains::default();
        let mut cause = chains.cause();
        for step in 0..=MOST_KEPT as u64 {
            chains.happens(cause, 0, Time(step), Took::Delay);
            cause = chains.cause();
            chains.finish();
            chains.over();
        }
        assert_eq!(chains.record(), None);
        assert_eq!(chains.events.capacity(), 0);
    }
}
