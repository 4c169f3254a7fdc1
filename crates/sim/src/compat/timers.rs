//! What a rank is to be told at which instant. All of one instant is one event of the network, at the place of what was
//! noted first.

use std::collections::BTreeMap;
use tailback_proto::units::Time;

use crate::work::Network;

/// By instant, what a rank is to be told, in order.
#[derive(Debug)]
pub(super) struct Timers<T>(BTreeMap<Time, Vec<T>>);

impl<T> Default for Timers<T> {
    fn default() -> Self {
        Timers(BTreeMap::new())
    }
}

impl<T: Copy> Timers<T> {
    /// Notes a timer; the first one of an instant is an event of the network.
    pub fn add(&mut self, rank: u32, delay: Time, timer: T, network: &mut dyn Network) {
        let list = self.0.entry(Time(network.now().0.saturating_add(delay.0))).or_default();
        list.push(timer);
        if list.len() == 1 {
            network.call_after(delay, rank);
        }
    }

    /// The timer in this place of an instant. The list may grow while it is read.
    pub fn get(&self, now: Time, place: usize) -> Option<T> {
        self.0.get(&now)?.get(place).copied()
    }

    pub fn remove(&mut self, now: Time) {
        self.0.remove(&now);
    }
}
