//! State that may come back: what to compare in a state machine to tell whether it is in the same state as
//! some time ago.
//!
//! Each state machine hands out what decides its future, with times relative to now and positions relative to
//! each other, and separately its counters. Where the former is the same twice, the machine does the same
//! from then on, and its counters grow by as much again. A struct is destructured by the names of all its
//! fields, so that code with a new field does not compile until the field is handled.

use crate::units::Time;

/// What a state machine hands its state to.
pub trait Walk {
    /// A word that decides the future.
    fn state(&mut self, word: u64);

    /// An instant that decides the future, by its distance from now.
    fn at(&mut self, time: &mut Time);

    /// An instant that decides the future only while it is still to come.
    fn until(&mut self, time: &mut Time);

    /// An instant that is only recorded.
    fn noted(&mut self, time: &mut Time);

    /// A counter, which grows and decides nothing.
    fn counter(&mut self, counter: &mut u64);

    /// Several words of state.
    fn states<const N: usize>(&mut self, words: [u64; N]) {
        words.into_iter().for_each(|word| self.state(word));
    }

    /// Several counters.
    fn counters<const N: usize>(&mut self, counters: [&mut u64; N]) {
        counters.into_iter().for_each(|counter| self.counter(counter));
    }

    /// There is something that is not handed out, so that no state is the same as this one.
    fn unlike(&mut self);

    /// Whether this is already known to be another state, so that the rest may be left out.
    fn is_over(&self) -> bool {
        false
    }
}
