//! Events by node: each node has a queue of its own, and acts on all that happens to it in a window of time before the next
//! node has its turn. What a node needs stays in the nearest cache meanwhile.
//!
//! No packet and no pause crosses a link within a window, so a node's turn needs nothing of the other nodes' turns. Order
//! within a node is that of [`EventQueue`](super::EventQueue); between nodes it is not seen.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use tailback_proto::units::Time;

use super::prefetch;
use super::queue::{sift_down, time_of, EventKey};

/// Nodes that share one earliest time: a window skips those of a block where nothing happens.
const BLOCK: usize = if cfg!(test) { 2 } else { 64 };

/// Events that are looked at ahead: as many as the processor can ask the memory for at once, and some more.
const MOST_AHEAD: usize = 128;

/// The events of one node, the first one on top.
#[derive(Debug, Default)]
struct NodeQueue {
    entries: Vec<u128>,
    /// The first entry was taken. Most events schedule another one, which takes its place in one go.
    taken: bool,
}

impl NodeQueue {
    fn push(&mut self, entry: u128) {
        if std::mem::take(&mut self.taken) {
            sift_down(&mut self.entries, entry);
        } else {
            crate::engine::queue::push(&mut self.entries, entry);
        }
    }

    fn first(&mut self) -> Option<u128> {
        if std::mem::take(&mut self.taken) {
            let last = self.entries.pop()?;
            if !self.entries.is_empty() {
                sift_down(&mut self.entries, last);
            }
        }
        self.entries.first().copied()
    }
}

/// The queues of all nodes, and whose turn it is.
#[derive(Debug, Default)]
pub struct Turns {
    /// Events of the node whose turn it is. Between turns: events whose nodes are yet to be found.
    own: NodeQueue,
    /// By node; empty where it has its turn.
    waiting: Vec<NodeQueue>,
    /// By node: when its first event is due; `NEVER` of the one whose turn it is.
    due: Vec<Time>,
    /// The earliest of each block of them.
    block_due: Vec<Time>,
}

impl Turns {
    /// For this number of nodes, to which nothing happens yet.
    pub fn new(nodes: usize) -> Turns {
        let waiting = (0..nodes).map(|_| NodeQueue::default()).collect();
        let (due, block_due) = (vec![Time::NEVER; nodes], vec![Time::NEVER; nodes.div_ceil(BLOCK)]);
        Turns { own: NodeQueue::default(), waiting, due, block_due }
    }

    /// True if there are any nodes.
    #[inline]
    pub fn are_taken(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Forgets what happens to nodes that are not to be kept.
    pub fn keep(&mut self, keep: impl Fn(usize) -> bool) {
        for node in (0..self.waiting.len()).filter(|&node| !keep(node)) {
            self.waiting[node] = NodeQueue::default();
            self.due[node] = Time::NEVER;
        }
        for (block, due) in self.due.chunks(BLOCK).enumerate() {
            self.block_due[block] = due.iter().copied().min().unwrap_or(Time::NEVER);
        }
    }

    /// Schedules for the node whose turn it is.
    #[inline]
    pub fn push(&mut self, place: EventKey, payload: u32) {
        self.own.push(place.0 | payload as u128);
    }

    /// Schedules for a node whose turn it is not.
    pub fn push_to(&mut self, node: usize, place: EventKey, payload: u32) {
        let time = time_of(place.0);
        self.waiting[node].push(place.0 | payload as u128);
        self.due[node] = self.due[node].min(time);
        let block = &mut self.block_due[node / BLOCK];
        *block = (*block).min(time);
    }

    /// When something happens to any node next.
    pub fn next(&self) -> Time {
        self.block_due.iter().copied().min().unwrap_or(Time::NEVER)
    }

    /// The next node, from `node` on, to which something happens up to `last`: in a window the first one is asked for from 0
    /// on, and each other from the one before on, whose turn has begun.
    pub fn next_node(&mut self, mut node: usize, last: Time) -> Option<usize> {
        while node < self.due.len() {
            let end = self.due.len().min((node / BLOCK + 1) * BLOCK);
            if self.block_due[node / BLOCK] <= last {
                if let Some(at) = self.due[node..end].iter().position(|&due| due <= last) {
                    return Some(node + at);
                }
                let block = node / BLOCK * BLOCK..end;
                self.block_due[node / BLOCK] = self.due[block].iter().copied().min().unwrap_or(Time::NEVER);
            }
            node = end;
        }
        None
    }

    /// A node has its turn.
    pub fn begin(&mut self, node: usize) {
        std::mem::swap(&mut self.own, &mut self.waiting[node]);
        self.due[node] = Time::NEVER;
    }

    /// Events of this turn up to `last`, as far as they are known, in no order: for looking ahead.
    pub fn coming(&self, last: Time) -> impl Iterator<Item = u32> + '_ {
        let known = self.own.entries.iter().take(MOST_AHEAD);
        known.filter(move |entry| time_of(**entry) <= last).map(|entry| *entry as u32)
    }

    /// Asks for the memory that the turn of a node begins with.
    pub fn prefetch(&self, node: usize) {
        prefetch(&self.waiting[node].entries, 0);
        prefetch(&self.waiting[node].entries, 4);
        prefetch(&self.waiting, node + 1);
    }

    /// Takes the first event of the node whose turn it is, if that is due up to `last`.
    #[inline(always)] // its one caller is an event loop
    pub fn pop(&mut self, last: Time) -> Option<(Time, u32)> {
        let first = self.own.first()?;
        let time = time_of(first);
        if time > last {
            return None;
        }
        self.own.taken = true;
        Some((time, first as u32))
    }

    /// The node's turn is over: nothing more happens to it in this window.
    pub fn end(&mut self, node: usize) {
        self.due[node] = self.own.first().map_or(Time::NEVER, time_of);
        let block = &mut self.block_due[node / BLOCK];
        *block = (*block).min(self.due[node]);
        std::mem::swap(&mut self.own, &mut self.waiting[node]);
    }

    /// Takes an event that was scheduled between turns. Call until none is left, before the next turn.
    pub fn take_homeless(&mut self) -> Option<(EventKey, u32)> {
        self.own.entries.pop().map(EventKey::split)
    }

    /// All events, in no particular order. Call between turns.
    pub fn into_events(self) -> impl Iterator<Item = (EventKey, u32)> {
        self.waiting.into_iter().flat_map(|queue| queue.entries).map(EventKey::split)
    }
}

// Where threads wait for each other.

/// Looks before a thread that waits lets others have its core.
const LOOKS: u32 = 1_000;

/// A barrier at which threads spin: what they wait for is mostly less than the system takes to wake them.
#[derive(Debug)]
pub struct Barrier {
    threads: usize,
    arrived: AtomicUsize,
    round: AtomicUsize,
    broken: AtomicBool,
}

impl Barrier {
    /// A barrier that `threads` threads wait at.
    pub fn new(threads: usize) -> Barrier {
        let (arrived, round) = (AtomicUsize::new(0), AtomicUsize::new(0));
        Barrier { threads, arrived, round, broken: AtomicBool::new(false) }
    }

    /// Waits until all are here. What each did before, all others see then. False: one of them panicked and never comes.
    #[must_use]
    pub fn wait(&self) -> bool {
        let round = self.round.load(Ordering::Acquire);
        if self.arrived.fetch_add(1, Ordering::AcqRel) + 1 == self.threads {
            self.arrived.store(0, Ordering::Relaxed);
            self.round.store(round + 1, Ordering::Release);
            return true;
        }
        let mut looks = 0;
        while self.round.load(Ordering::Acquire) == round {
            if self.broken.load(Ordering::Relaxed) {
                return false;
            }
            looks += 1;
            if looks < LOOKS {
                std::hint::spin_loop();
            } else {
                std::thread::yield_now();
            }
        }
        true
    }

    /// Lets the others go on if this thread panics while what it gives lives.
    pub fn guard(&self) -> Guard<'_> {
        Guard(self)
    }
}

/// See [`Barrier::guard`].
#[derive(Debug)]
pub struct Guard<'a>(&'a Barrier);

impl Drop for Guard<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.broken.store(true, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicU64;

    #[test]
    fn nobody_is_a_round_ahead() {
        const THREADS: usize = 3;
        let (barrier, sums) = (Barrier::new(THREADS), [const { AtomicU64::new(0) }; 200]);
        std::thread::scope(|scope| {
            for _ in 0..THREADS {
                scope.spawn(|| {
                    for sum in &sums {
                        sum.fetch_add(1, Ordering::Relaxed);
                        assert!(barrier.wait());
                        assert_eq!(sum.load(Ordering::Relaxed), THREADS as u64);
                    }
                });
            }
        });
    }

    #[test]
    fn who_waits_for_one_that_panicked_is_told() {
        let barrier = Barrier::new(2);
        std::thread::scope(|scope| {
            let other = scope.spawn(|| {
                let _guard = barrier.guard();
                panic!("as it should");
            });
            assert!(!barrier.wait());
            assert!(other.join().is_err());
        });
    }
}
