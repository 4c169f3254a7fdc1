//! An event beside the queue, which saves the way through its wheels.
//!
//! The first event of the queue is taken as if there were none beside. Where the one beside comes before, it is acted on first, and
//! the one that was taken waits. Only if something was scheduled meanwhile, which may come before it, too, it goes back. So this
//! pays for events that seldom schedule any but another of their kind.

use tailback_proto::units::Time;

use super::place::{time_of, Place};
use super::queue::EventQueue;

/// No event. It comes after all others.
const NOTHING: u128 = u128::MAX;

/// In place of a number of events: none waits.
const NONE_WAITS: u64 = u64::MAX;

/// What is not in the queue's lists.
#[derive(Debug)]
pub(super) struct Beside {
    event: u128,
    /// The event that was taken, and waits for the one that was beside; there is one if `pushed` is not [`NONE_WAITS`].
    waiting: u128,
    /// How many had been scheduled when it was taken.
    pushed: u64,
}

impl Beside {
    pub const NOTHING: Beside = Beside { event: NOTHING, waiting: NOTHING, pushed: NONE_WAITS };
}

impl EventQueue {
    /// Keeps an event beside the queue, where there is none. Such events come out of [`Self::pop_first`].
    #[inline]
    pub fn keep_beside(&mut self, place: Place, payload: u32) {
        debug_assert!(self.is_free_beside());
        self.beside.event = place.0 | payload as u128;
    }

    /// Whether no event is beside the queue.
    #[inline]
    pub fn is_free_beside(&self) -> bool {
        self.beside.event == NOTHING
    }

    /// Takes the first event, beside the queue or in it. Where there is none it is due at the horizon.
    #[inline(always)] // as `pop`
    pub fn pop_first(&mut self) -> (Time, u32) {
        let taken = 'taken: {
            if self.beside.pushed != NONE_WAITS {
                if std::mem::replace(&mut self.beside.pushed, NONE_WAITS) == self.pushed {
                    break 'taken self.beside.waiting;
                }
                self.pushed += 1;
                self.near.push(self.beside.waiting);
            }
            self.pop_entry().unwrap_or(NOTHING)
        };
        let event = self.beside.event;
        // Their halves are compared first: mostly times differ.
        if (event >> 64) as u64 <= (taken >> 64) as u64 && event < taken {
            self.beside.event = NOTHING;
            if taken != NOTHING {
                (self.beside.waiting, self.beside.pushed) = (taken, self.pushed);
            }
            return (time_of(event), event as u32);
        }
        (time_of(taken), taken as u32)
    }

    /// What is beside the queue goes to its place in it.
    pub fn leave_beside(&mut self) {
        if std::mem::replace(&mut self.beside.pushed, NONE_WAITS) != NONE_WAITS {
            self.pushed += 1;
            self.near.push(self.beside.waiting);
        }
        if !self.is_free_beside() {
            let event = std::mem::replace(&mut self.beside.event, NOTHING);
            self.push_at(Place::split(event).0, event as u32);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Events of which some are kept beside the queue are acted on in the order of those that are all in it, at places that
        /// the caller made. Each schedules the next of `spans`, some several.
        #[test]
        fn what_is_kept_beside_has_its_turn(
            ports in prop_oneof![Just(0usize), Just(5000)],
            spans in prop::collection::vec((0u32..24, 0u64..4, 0usize..3, any::<bool>()), 1..200),
        ) {
            let order = |keeps: bool| {
                let (mut queue, mut scheduled, mut found) = (EventQueue::for_ports(ports), 0, Vec::new());
                let mut schedule = |queue: &mut EventQueue, now: Time, count: usize| {
                    for &(bits, offset, _, quiet) in spans.iter().skip(scheduled).take(count) {
                        let time = now + Time((1 << bits) - 1 + offset);
                        let (place, payload) = (Place::of(time, scheduled as u32, 0), scheduled as u32);
                        if keeps && quiet && queue.is_free_beside() {
                            queue.keep_beside(place, payload);
                        } else if keeps {
                            queue.push(time, payload);
                        } else {
                            queue.push_at(place, payload);
                        }
                        scheduled += 1;
                    }
                };
                schedule(&mut queue, Time::ZERO, 5);
                loop {
                    let (time, payload) = queue.pop_first();
                    if time == EventQueue::HORIZON {
                        break;
                    }
                    found.push((time, payload));
                    schedule(&mut queue, time, spans[payload as usize].2);
                    if found.len() % 16 == 0 {
                        queue.leave_beside();
                    }
                }
                found
            };
            prop_assert_eq!(order(true), order(false));
        }
    }
}
