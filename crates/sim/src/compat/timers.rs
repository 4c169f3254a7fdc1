//! What a rank is to be told at which instant. All of one instant is one event of the network, at the place of what was
//! noted first.

use std::collections::BTreeMap;
use tailback_proto::units::Time;

use crate::work::Network;

/// By instant, what a rank is to be told, in order.
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
