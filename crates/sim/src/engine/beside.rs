//! An event beside the queue, which saves the way through its wheels.
//!
//! The first event of the queue is taken as if there were none beside. Where the one beside comes before, it is acted on first, and
//! the one that was taken waits. Only if something was scheduled meanwhile, which may come before it, too, it goes back. So this
//! pays for events that seldom schedule any but another of their kind.

use tailback_proto::units::Time;

use super::place::{time_of, Place};
use super::queue::EventQueue;

/// No event.
const NOTHING: u128 = u128::MAX;

/// What is not in the queue's lists.
#[derive(Debug)]
pub(super) struct Beside {
    event: u128,
    /// The event that was taken, and waits for the one that was beside; there is one if `pending` is a number.
    waiting: u128,
    /// How many were in the lists when it was taken.
    pending: usize,
}

impl Beside {
    pub const NOTHING: Beside = Beside { event: NOTHING, waiting: NOTHING, pending: usize::MAX };
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

    /// Takes the first event, beside the queue or in it.
    #[inline(always)] // as `pop`
    pub fn pop_first(&mut self) -> Option<(Time, u32)> {
        let taken = if self.beside.pending == self.len {
            self.beside.pending = usize::MAX;
            self.beside.waiting
        } else {
            self.leave_waiting();
            self.pop().map_or(NOTHING, |_| self.last)
        };
        let event = self.beside.event;
        if event < taken {
            self.beside.event = NOTHING;
            if taken != NOTHING {
                (self.beside.waiting, self.beside.pending) = (taken, self.len);
            }
            return Some((time_of(event), event as u32));
        }
        (taken != NOTHING).then(|| (time_of(taken), taken as u32))
    }

    /// The event that waits, if one does, goes back.
    #[inline(always)]
    fn leave_waiting(&mut self) {
        if self.beside.pending != usize::MAX {
            self.beside.pending = usize::MAX;
            self.len += 1;
            self.near.push(self.beside.waiting);
        }
    }

    /// What is beside the queue goes to its place in it.
    pub fn leave_beside(&mut self) {
        self.leave_waiting();
        if !self.is_free_beside() {
            let event = std::mem::replace(&mut self.beside.event, NOTHING);
            self.push_own(Place::split(event).0, event as u32);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Events of which some are kept beside the queue are acted on in the order of those that are all in it. Each schedules the
        /// next of `spans`, some several.
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
                        } else {
                            queue.push_own(place, payload);
                        }
                        scheduled += 1;
                    }
                };
                schedule(&mut queue, Time::ZERO, 5);
                while let Some((time, payload)) = queue.pop_first() {
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
