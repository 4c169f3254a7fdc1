//! Arbitration: whose turn it is to send.
//!
//! A sender is a queue pair, or whatever else a driver lets send. While its next packet may leave, it is in the ring of its
//! class, once; the first of a ring has its turn, sends a packet, and joins the end again if it may. A sender with nothing to
//! send, or with a closed window, is idle; one that is held up by its rate or by a NAK waits. Both are in no ring, and the
//! driver, which has the clock, brings them back. Which class is next is for [`crate::scheduling`].

use std::collections::VecDeque;

use crate::units::Time;

/// Where a sender stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// It has nothing to send, or its window is closed.
    Idle,
    /// It takes turns.
    Ready,
    /// Its next packet may leave then.
    Waits(Time),
}

impl Standing {
    /// Of a sender whose next packet may leave at `at`, if it has one, by the instant `by`: now, or the end of what is being sent.
    #[inline]
    pub fn new(at: Option<Time>, by: Time) -> Self {
        match at {
            None => Standing::Idle,
            Some(at) if at <= by => Standing::Ready,
            Some(at) => Standing::Waits(at),
        }
    }
}

/// The rings of a port, one for each of at most eight classes.
#[derive(Debug)]
pub struct Arbiter<const CLASSES: usize> {
    /// Boxed: they are most of a NIC, and mostly empty.
    rings: Box<[VecDeque<u32>; CLASSES]>,
    ready_classes: u8,
}

impl<const CLASSES: usize> Default for Arbiter<CLASSES> {
    fn default() -> Self {
        Arbiter { rings: Box::new(std::array::from_fn(|_| VecDeque::new())), ready_classes: 0 }
    }
}

impl<const CLASSES: usize> Arbiter<CLASSES> {
    /// Classes with a sender that takes turns, a bit each.
    #[inline]
    pub fn ready_classes(&self) -> u8 {
        self.ready_classes
    }

    /// A sender that is in no ring of the class joins the end of it.
    #[inline]
    pub fn join(&mut self, class: u8, sender: u32) {
        self.rings[class as usize].push_back(sender);
        self.ready_classes |= 1 << class;
    }

    /// Takes the sender out of its ring whose turn it is in a class that has one.
    #[inline]
    pub fn take(&mut self, class: u8) -> u32 {
        let ring = &mut self.rings[class as usize];
        let sender = ring.pop_front().expect("a ready class has a sender");
        if ring.is_empty() {
            self.ready_classes &= !(1 << class);
        }
        sender
    }

    /// Takes all senders of a class out of its ring that are `leaving`.
    pub fn take_all(&mut self, class: u8, leaving: impl Fn(u32) -> bool) -> Vec<u32> {
        let ring = &mut self.rings[class as usize];
        let taken = ring.iter().copied().filter(|&sender| leaving(sender)).collect();
        ring.retain(|&sender| !leaving(sender));
        if ring.is_empty() {
            self.ready_classes &= !(1 << class);
        }
        taken
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn senders_of_a_class_take_turns() {
        let mut arbiter: Arbiter<8> = Arbiter::default();
        for sender in [1, 2, 3] {
            arbiter.join(4, sender);
        }
        arbiter.join(6, 9);
        assert_eq!(arbiter.ready_classes(), 0b101_0000);
        let turns = [0; 5].map(|_| {
            let sender = arbiter.take(4);
            arbiter.join(4, sender);
            sender
        });
        assert_eq!(turns, [1, 2, 3, 1, 2]);
        assert_eq!(arbiter.take(6), 9);
        assert_eq!(arbiter.ready_classes(), 0b1_0000);
    }

    #[test]
    fn those_that_stay_keep_their_order() {
        let mut arbiter: Arbiter<2> = Arbiter::default();
        (1..=5).for_each(|sender| arbiter.join(1, sender));
        assert_eq!(arbiter.take_all(1, |sender| sender % 2 == 0), [2, 4]);
        assert_eq!([0; 3].map(|_| arbiter.take(1)), [1, 3, 5]);
        assert_eq!(arbiter.ready_classes(), 0);
    }

    #[test]
    fn a_sender_is_ready_when_its_packet_may_leave() {
        assert_eq!(Standing::new(None, Time(5)), Standing::Idle);
        assert_eq!(Standing::new(Some(Time(5)), Time(5)), Standing::Ready);
        assert_eq!(Standing::new(Some(Time(6)), Time(5)), Standing::Waits(Time(6)));
    }
}
