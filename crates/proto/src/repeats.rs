//! State that may come back: what a state machine is made of, for who looks whether all is as it was some time ago.
//!
//! Each state machine hands out what decides its future, with times relative to now and positions relative to each other, and
//! apart from that its counters. What is the same in both does the same from then on, and its counters grow by as much again. A
//! struct is taken apart by the names of all its fields, so that a new one does not compile until it is treated.

use crate::units::Time;

/// What state is handed to.
pub trait Walk {
    /// Decides the future.
    fn state(&mut self, word: u64);

    /// The same of an instant, as far from now as it is.
    fn at(&mut self, time: Time);

    /// The same of an instant that matters only while it is to come.
    fn until(&mut self, time: Time);

    /// Grows, and decides nothing.
    fn counter(&mut self, counter: &mut u64);

    /// Several words of state.
    fn states<const N: usize>(&mut self, words: [u64; N]) {
        words.into_iter().for_each(|word| self.state(word));
    }

    /// Several counters.
    fn counters<const N: usize>(&mut self, counters: [&mut u64; N]) {
        counters.into_iter().for_each(|counter| self.counter(counter));
    }

    /// There is something that is not looked into: nothing is the same as this.
    fn unlike(&mut self);

    /// Whether it is known already that this is another state: what follows may be left out.
    fn is_over(&self) -> bool {
        false
    }
}
