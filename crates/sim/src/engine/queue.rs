//! The event queue: a hierarchical timing wheel in front of a heap.
//!
//! An entry is one `u128`: 56 bits of time, 40 bits that order simultaneous events, 32 bits of payload. One comparison
//! orders two entries. The caller decides ties: by its payloads ([`EventQueue::push`]), or by 40 bits of its own
//! ([`Place::of`]). 2^56 ps are 20 hours of simulated time.
//!
//! Time is cut into slices. The first wheel turns with time: it has a slot for each of the next 4,096 slices. Two more, for
//! later events, have 256 slots each, for blocks of 4,096 slices and for blocks of these. Slots are unsorted lists: a
//! block's events move down a wheel when it begins, and those of the current slice are sorted. Events scheduled into
//! the current slice go to a small heap beside it, and events beyond the last wheel wait in another. An event therefore
//! costs two moves, however many events there are, where a heap costs one for each level.
//! (Varghese and Lauck, "Hashed and hierarchical timing wheels", SOSP 1987, scheme 7.)
//!
//! The more ports a fabric has, the more happens at once, and the shorter its slices are: a slice should hold a few
//! events. All lists share one pool of nodes, which uses the last one freed first: it is no larger than the number of
//! pending events, and mostly in the cache.

use tailback_proto::units::Time;

use super::beside::Beside;
use super::heap::Heap;
use super::lists::{Lists, NONE};
use super::place::{time_of, Place, TIME_BITS};
use super::wheel::Wheel;

/// log2 of the longest slice in picoseconds, 16.4 ns: a fifth of a packet's time at 100 Gbit/s.
const LONGEST_SLICE_BITS: u32 = 14;
/// log2 of the shortest slice in picoseconds, 1 ns: the first wheel then holds 4.2 us, which is more than a hop takes.
const SHORTEST_SLICE_BITS: u32 = 10;
/// Fabrics with up to this many ports have the longest slices.
const FEW_PORTS: usize = 8;
/// With this many, slices hold many events, however short they are.
const MANY_PORTS: usize = 1024;
const FIRST_WHEEL_BITS: u32 = 12;
const WHEEL_BITS: u32 = 8;
const FIRST_SLOTS: usize = 1 << FIRST_WHEEL_BITS;
const SLOTS: usize = 1 << WHEEL_BITS;

/// A priority queue of `u32` payloads by time and, at the same time, by an order.
#[derive(Debug)]
pub struct EventQueue {
    /// Events of the current slice that were there when it began, in reverse order.
    run: Vec<u128>,
    /// Events of the current slice that were added later.
    pub(super) near: Heap,
    slice_bits: u32,
    /// Whether slices hold many events.
    dense: bool,
    /// Slices behind the next one within reach of the first wheel; 0 where they are dense: their events go a longer way.
    near_slices: u64,
    /// The current slice.
    slice: u64,
    /// Events scheduled so far.
    pub(super) pushed: u64,
    /// The wheels, one slot array after the other: the first has 2^12 slots, the others 2^8.
    first: Box<Wheel<FIRST_SLOTS, 64>>,
    rest: [Box<Wheel<SLOTS, 4>>; 2],
    lists: Lists,
    /// Events beyond the last wheel.
    far: Heap,
    pub(super) beside: Beside,
}

impl Default for EventQueue {
    fn default() -> Self {
        EventQueue::for_ports(0)
    }
}

impl EventQueue {
    /// The latest time that can be scheduled.
    pub const HORIZON: Time = Time((1 << TIME_BITS) - 1);

    /// A queue for a fabric with this number of ports, which sets the length of a slice: the speed, not the order.
    pub fn for_ports(ports: usize) -> Self {
        let shorter = (ports / FEW_PORTS).max(1).ilog2();
        let dense = ports >= MANY_PORTS;
        EventQueue {
            run: Vec::new(),
            near: Heap::default(),
            slice_bits: LONGEST_SLICE_BITS.saturating_sub(shorter).max(SHORTEST_SLICE_BITS),
            dense,
            near_slices: if dense { 0 } else { FIRST_SLOTS as u64 - 1 },
            slice: 0,
            pushed: 0,
            first: Wheel::new(),
            rest: [Wheel::new(), Wheel::new()],
            lists: Lists::default(),
            far: Heap::default(),
            beside: Beside::NOTHING,
        }
    }

    /// Schedules `payload` at `time`, which must not lie before the event last taken; past the horizon, for the horizon.
    /// Simultaneous events come in the order of their payloads.
    #[inline]
    pub fn push(&mut self, time: Time, payload: u32) {
        self.pushed += 1;
        let slice = time.0 >> self.slice_bits;
        // Most events are within reach of the first wheel, which no horizon is, and not of the current slice, nor of an earlier one:
        // see `beside.rs`.
        if slice.wrapping_sub(self.slice).wrapping_sub(1) < self.near_slices {
            let slot = slice as usize % FIRST_SLOTS;
            if let Some(at) = self.lists.take_free() {
                self.lists.put(at, Place::of(time, payload, 0).0 | payload as u128);
                self.lists.put_before(at, self.first.replace(slot, at));
                return;
            }
        }
        self.place_by_payload(time, payload);
    }

    #[inline(never)]
    fn place_by_payload(&mut self, time: Time, payload: u32) {
        self.place(Place::of(time.min(Self::HORIZON), payload, 0).0 | payload as u128);
    }

    /// Schedules `payload` at a place that the caller chose, which must not lie before the event last taken.
    pub fn push_at(&mut self, place: Place, payload: u32) {
        self.pushed += 1;
        self.place(place.0 | payload as u128);
    }

    /// Takes the first event.
    #[inline(always)] // its one caller is an event loop; a result in memory would be waited for
    pub fn pop(&mut self) -> Option<(Time, u32)> {
        let entry = self.pop_entry()?;
        Some((time_of(entry), entry as u32))
    }

    #[inline(always)] // as above
    pub(super) fn pop_entry(&mut self) -> Option<u128> {
        loop {
            let entry = match (self.run.last(), self.near.first()) {
                (Some(&run), Some(near)) if near < run => self.near.pop()?,
                (Some(_), _) => self.run.pop()?,
                (None, Some(_)) => self.near.pop()?,
                (None, None) => match self.first.take_from(self.slice as usize % FIRST_SLOTS) {
                    Some((slot, at)) => {
                        self.slice = self.slice >> FIRST_WHEEL_BITS << FIRST_WHEEL_BITS | slot as u64;
                        // Most are alone in their slice in a small fabric.
                        match self.lists.take_alone(at) {
                            Some(entry) => entry,
                            None => self.begin_slice(at),
                        }
                    }
                    None => {
                        self.advance()?;
                        continue;
                    }
                },
            };
            return Some(entry);
        }
    }

    /// Takes the first event, and gives its place, too.
    pub fn take(&mut self) -> Option<(Place, u32)> {
        self.pop_entry().map(Place::split)
    }

    /// The event that will be taken `ahead` events after the next one, if that is known yet: for prefetching.
    #[inline]
    pub fn upcoming(&self, ahead: usize) -> Option<u32> {
        self.run.len().checked_sub(ahead + 1).map(|at| self.run[at] as u32)
    }

    /// All pending events, in no particular order.
    pub fn pending(&self) -> impl Iterator<Item = (Place, u32)> + '_ {
        let first = (0..FIRST_SLOTS).map(|slot| self.first.head(slot));
        let rest = self.rest.iter().flat_map(|wheel| (0..SLOTS).map(|slot| wheel.head(slot)));
        let in_wheels = first.chain(rest).flat_map(|head| self.lists.entries(head));
        let all = self.run.iter().chain(self.near.iter()).chain(in_wheels).chain(self.far.iter());
        all.map(|entry| Place::split(*entry))
    }

    fn slice_of(&self, entry: u128) -> u64 {
        time_of(entry).0 >> self.slice_bits
    }

    #[inline(always)]
    fn link(&mut self, wheel: usize, slot: usize, entry: u128) {
        let head = self.head(wheel, slot);
        // A branch on whether a list is empty would be mispredicted where about half of them are.
        let head = match self.dense {
            true => self.lists.fill_up(head, entry),
            false => self.lists.begin(head, entry),
        };
        self.fill(wheel, slot, head);
    }

    /// Where the list of a slot begins.
    #[inline(always)]
    fn head(&self, wheel: usize, slot: usize) -> u32 {
        match wheel {
            0 => self.first.head(slot),
            _ => self.rest[wheel - 1].head(slot),
        }
    }

    /// The list of a slot begins there.
    #[inline(always)]
    fn fill(&mut self, wheel: usize, slot: usize, head: u32) {
        match wheel {
            0 => self.first.fill(slot, head),
            _ => self.rest[wheel - 1].fill(slot, head),
        }
    }

    /// The wheel and slot of the current slice or a later one. `None`: it is beyond the last wheel.
    #[inline]
    fn slot_of(&self, slice: u64) -> Option<(usize, usize)> {
        if slice - self.slice < FIRST_SLOTS as u64 {
            return Some((0, slice as usize % FIRST_SLOTS));
        }
        (1..3).find_map(|wheel| {
            let (at, now) = (slice >> shift(wheel), self.slice >> shift(wheel));
            (at ^ now < SLOTS as u64).then_some((wheel, at as usize % SLOTS))
        })
    }

    /// Puts an entry where it belongs, whatever its time.
    #[inline(never)]
    fn place(&mut self, entry: u128) {
        let slice = self.slice_of(entry);
        if slice <= self.slice {
            self.near.push(entry);
        } else if let Some((wheel, slot)) = self.slot_of(slice) {
            self.link(wheel, slot, entry);
        } else {
            self.far.push(entry);
        }
    }

    /// The first wheel has no more in the current block: begins the next one that has something.
    #[inline(never)]
    fn advance(&mut self) -> Option<()> {
        let later = |wheel: usize| {
            let now = self.slice >> shift(wheel);
            let slot = self.rest[wheel - 1].from(now as usize % SLOTS)?;
            Some((now / SLOTS as u64 * SLOTS as u64 + slot as u64) << shift(wheel))
        };
        let first = || self.far.first().map(|entry| self.slice_of(entry));
        let before = self.slice;
        self.slice = match self.first.is_empty() {
            false => ((before >> FIRST_WHEEL_BITS) + 1) << FIRST_WHEEL_BITS,
            true => later(1).or_else(|| later(2)).or_else(first)?,
        };
        while let Some((wheel, slot)) = self.far.first().and_then(|entry| self.slot_of(self.slice_of(entry)))
        {
            let entry = self.far.pop()?;
            self.link(wheel, slot, entry);
        }
        for wheel in [2, 1] {
            let block = self.slice >> shift(wheel);
            if block != before >> shift(wheel) {
                self.move_down(wheel, block as usize % SLOTS);
            }
        }
        Some(())
    }

    /// Makes the events of the list at `at` the current ones, of which there were none, and takes the first.
    #[inline(never)]
    fn begin_slice(&mut self, at: u32) -> u128 {
        if let Some((one, other)) = self.lists.take_pair(at) {
            // There are two in most cases. Which is first cannot be predicted, so no branch depends on it.
            self.run.push(one.max(other));
            return one.min(other);
        }
        self.begin_long_slice(at)
    }

    /// The same where there are more than two.
    #[inline(never)]
    fn begin_long_slice(&mut self, at: u32) -> u128 {
        self.lists.take_all(at, &mut self.run);
        self.run.sort_unstable_by(|a, b| b.cmp(a));
        self.run.pop().expect("no list is empty")
    }

    /// A block begins: its events move a wheel down.
    fn move_down(&mut self, wheel: usize, slot: usize) {
        let mut at = self.rest[wheel - 1].empty(slot);
        while at != NONE {
            if let (false, &[entry]) = (self.dense, self.lists.entries_of(at)) {
                // The node goes as it is.
                let (wheel, slot) = self.slot_of(self.slice_of(entry)).expect("it was in a wheel above");
                let head = self.head(wheel, slot);
                self.fill(wheel, slot, at);
                at = self.lists.put_before(at, head);
                continue;
            }
            let (node, next) = self.lists.take(at);
            for &entry in node.entries() {
                let (wheel, slot) = self.slot_of(self.slice_of(entry)).expect("it was in a wheel above");
                self.link(wheel, slot, entry);
            }
            at = next;
        }
    }
}

/// log2 of the slices of a slot of a wheel after the first.
fn shift(wheel: usize) -> u32 {
    FIRST_WHEEL_BITS + (wheel as u32 - 1) * WHEEL_BITS
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// The queue against a sorted list. Spans cover a slice, every wheel, and times beyond the last.
        #[test]
        fn events_come_out_by_time_then_by_payload(
            ports in 0usize..5000,
            steps in prop::collection::vec(
                (prop::option::weighted(0.6, (0u32..50, 0u64..4)), 0u32..1000), 0..400)
        ) {
            let mut queue = EventQueue::for_ports(ports);
            let mut model: Vec<(u64, u32)> = Vec::new();
            let mut now = 0;
            for (span, payload) in steps {
                match span {
                    Some((bits, offset)) => {
                        let time = now + (1u64 << bits) - 1 + offset;
                        queue.push(Time(time), payload);
                        model.push((time, payload));
                    }
                    None => {
                        model.sort_unstable();
                        let expected = (!model.is_empty()).then(|| model.remove(0));
                        now = expected.map_or(now, |(time, _)| time);
                        prop_assert_eq!(queue.pop(), expected.map(|(time, payload)| (Time(time), payload)));
                    }
                }
            }
            model.sort_unstable();
            let mut pending: Vec<u32> = queue.pending().map(|(_, payload)| payload).collect();
            let mut expected: Vec<u32> = model.iter().map(|(_, payload)| *payload).collect();
            pending.sort_unstable();
            expected.sort_unstable();
            prop_assert_eq!(pending, expected);
            for (time, payload) in model {
                prop_assert_eq!(queue.pop(), Some((Time(time), payload)));
            }
            prop_assert_eq!(queue.pop(), None);
        }
    }
}
