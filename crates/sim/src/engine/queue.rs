//! The event queue: a hierarchical timing wheel in front of a heap.
//!
//! An entry is one `u128`: 56 bits of time, 40 bits that order simultaneous events, 32 bits of payload. One comparison
//! orders two entries. The caller decides ties: by 40 bits of its own ([`Place::of`]), or by the order of scheduling
//! ([`EventQueue::push`]). 2^56 ps are 20 hours of simulated time; 2^40 events take a day to compute.
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
use super::place::{time_of, Place, PAYLOAD_BITS, SEQUENCE_BITS, TIME_BITS};
use super::wheel::{Wheel, NONE};

/// log2 of the longest slice in picoseconds, 65.5 ns: about one packet time at 100 Gbit/s.
const LONGEST_SLICE_BITS: u32 = 16;
/// log2 of the shortest slice in picoseconds, 1 ns: the first wheel then holds 4.2 us, which is more than a hop takes.
const SHORTEST_SLICE_BITS: u32 = 10;
/// Fabrics with up to this many ports have the longest slices.
const FEW_PORTS: usize = 8;
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
    /// Whether slices have their shortest length and still hold many events.
    dense: bool,
    /// The current slice.
    slice: u64,
    sequence: u64,
    pub(super) len: usize,
    /// The event last taken.
    pub(super) last: u128,
    /// The wheels, one slot array after the other: the first has 2^12 slots, the others 2^8.
    first: Box<Wheel<FIRST_SLOTS, 64>>,
    rest: [Box<Wheel<SLOTS, 4>>; 2],
    nodes: Vec<Node>,
    /// First of the free nodes.
    free: u32,
    /// Events beyond the last wheel.
    far: Heap,
    pub(super) beside: Beside,
}

/// A cache line of entries that lie in one slot.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
struct Node {
    entries: [u128; ENTRIES],
    len: u32,
    next: u32,
}

const ENTRIES: usize = 3;

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
        let slice_bits = LONGEST_SLICE_BITS.saturating_sub(shorter);
        EventQueue {
            run: Vec::new(),
            near: Heap::default(),
            slice_bits: slice_bits.max(SHORTEST_SLICE_BITS),
            dense: slice_bits < SHORTEST_SLICE_BITS,
            slice: 0,
            sequence: 0,
            len: 0,
            last: 0,
            first: Wheel::new(),
            rest: [Wheel::new(), Wheel::new()],
            nodes: Vec::new(),
            free: NONE,
            far: Heap::default(),
            beside: Beside::NOTHING,
        }
    }

    /// Schedules `payload` at `time`, after all that is scheduled for then. `time` must not lie before the event last taken.
    /// A queue is filled by this and by reserved places, or by [`Self::push_own`].
    ///
    /// # Panics
    /// Past 2^40 events, and in debug builds past [`Self::HORIZON`].
    #[inline(never)] // there are many callers, and what they do leaves the registers no room for it
    pub fn push(&mut self, time: Time, payload: u32) {
        let place = self.reserve(time);
        self.insert(time, place.0 | payload as u128);
    }

    /// Reserves the next place in the order of events at `time`: for an event that only matters if something else
    /// happens before it.
    ///
    /// # Panics
    /// As [`Self::push`].
    #[inline]
    pub fn reserve(&mut self, time: Time) -> Place {
        debug_assert!(time <= Self::HORIZON);
        let sequence = self.sequence;
        assert!(sequence < 1 << SEQUENCE_BITS, "more events than one run can number");
        self.sequence += 1;
        Place(((time.0 as u128) << (SEQUENCE_BITS + PAYLOAD_BITS)) | ((sequence as u128) << PAYLOAD_BITS))
    }

    /// Whether the event last taken comes after `place` in the order.
    #[inline]
    pub fn is_past(&self, place: Place) -> bool {
        place.0 < self.last
    }

    /// Schedules `payload` at a place that the caller chose. Its time must not lie before the event last taken.
    #[inline]
    pub fn push_own(&mut self, place: Place, payload: u32) {
        self.insert(time_of(place.0), place.0 | payload as u128);
    }

    /// Schedules `payload` at a reserved place that has not passed.
    #[inline]
    pub fn push_at(&mut self, place: Place, payload: u32) {
        debug_assert!(!self.is_past(place));
        self.insert(time_of(place.0), place.0 | payload as u128);
    }

    #[inline(always)]
    fn insert(&mut self, time: Time, entry: u128) {
        self.len += 1;
        let slice = time.0 >> self.slice_bits;
        // Most events are within reach of the first wheel, and not of the current slice, nor of an earlier one: see `beside.rs`.
        if slice.wrapping_sub(self.slice).wrapping_sub(1) < FIRST_SLOTS as u64 - 1 {
            let slot = slice as usize % FIRST_SLOTS;
            if self.dense {
                return self.insert_dense(slot, entry);
            }
            let at = self.free;
            if let Some(node) = self.nodes.get_mut(at as usize) {
                self.free = node.next;
                node.entries[0] = entry;
                (node.len, node.next) = (1, self.first.head(slot));
                self.first.fill(slot, at);
                return;
            }
        }
        self.place(entry);
    }

    /// Takes the first event.
    #[inline(always)] // its one caller is an event loop; a result in memory would be waited for
    pub fn pop(&mut self) -> Option<(Time, u32)> {
        loop {
            let entry = match (self.run.last(), self.near.first()) {
                (Some(&run), Some(near)) if near < run => self.near.pop()?,
                (Some(_), _) => self.run.pop()?,
                (None, Some(_)) => self.near.pop()?,
                (None, None) => match self.first.from(self.slice as usize % FIRST_SLOTS) {
                    Some(slot) => {
                        self.slice = self.slice >> FIRST_WHEEL_BITS << FIRST_WHEEL_BITS | slot as u64;
                        let at = self.first.empty(slot);
                        let node = &mut self.nodes[at as usize];
                        if node.next != NONE || node.len != 1 {
                            self.begin_slice(at)
                        } else {
                            // Alone in its slice, as most are in a small fabric.
                            node.next = self.free;
                            self.free = at;
                            node.entries[0]
                        }
                    }
                    None => {
                        self.advance()?;
                        continue;
                    }
                },
            };
            self.len -= 1;
            self.last = entry;
            return Some((time_of(entry), entry as u32));
        }
    }

    /// Takes the first event, and gives its place, too.
    pub fn take(&mut self) -> Option<(Place, u32)> {
        self.pop()?;
        Some(Place::split(self.last))
    }

    /// The event that will be taken `ahead` events after the next one, if that is known yet: for prefetching.
    #[inline]
    pub fn upcoming(&self, ahead: usize) -> Option<u32> {
        self.run.len().checked_sub(ahead + 1).map(|at| self.run[at] as u32)
    }

    /// Number of pending events.
    pub fn len(&self) -> usize {
        self.len
    }

    /// All pending events, in no particular order.
    pub fn pending(&self) -> impl Iterator<Item = (Place, u32)> + '_ {
        let first = (0..FIRST_SLOTS).map(|slot| self.first.head(slot));
        let rest = self.rest.iter().flat_map(|wheel| (0..SLOTS).map(|slot| wheel.head(slot)));
        let nodes = first.chain(rest).flat_map(|head| {
            std::iter::successors(self.nodes.get(head as usize), |node| self.nodes.get(node.next as usize))
        });
        let in_wheels = nodes.flat_map(|node| &node.entries[..node.len as usize]);
        let all = self.run.iter().chain(self.near.iter()).chain(in_wheels).chain(self.far.iter());
        all.map(|entry| Place::split(*entry))
    }

    /// Whether no event is pending.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    fn slice_of(&self, entry: u128) -> u64 {
        time_of(entry).0 >> self.slice_bits
    }

    /// Adds an entry to the list that begins with `head`. Returns where the list begins now.
    #[inline(always)]
    fn add(&mut self, head: u32, entry: u128) -> u32 {
        // A branch on whether a list is empty would be mispredicted where about half of them are.
        if self.dense {
            self.fill_up(head, entry)
        } else {
            self.begin_node(head, entry)
        }
    }

    /// Puts an entry into a later slot of the current block, where slices hold many events.
    #[inline(never)]
    fn insert_dense(&mut self, slot: usize, entry: u128) {
        let head = self.fill_up(self.first.head(slot), entry);
        self.first.fill(slot, head);
    }

    #[inline]
    fn fill_up(&mut self, head: u32, entry: u128) -> u32 {
        if let Some(node) = self.nodes.get_mut(head as usize) {
            if let Some(place) = node.entries.get_mut(node.len as usize) {
                *place = entry;
                node.len += 1;
                return head;
            }
        }
        self.begin_node(head, entry)
    }

    #[inline(always)]
    fn begin_node(&mut self, next: u32, entry: u128) -> u32 {
        let free = self.free;
        match self.nodes.get_mut(free as usize) {
            Some(node) => {
                self.free = node.next;
                node.entries[0] = entry;
                (node.len, node.next) = (1, next);
                free
            }
            None => self.new_node(next, entry),
        }
    }

    #[cold]
    fn new_node(&mut self, next: u32, entry: u128) -> u32 {
        self.nodes.push(Node { entries: [entry, 0, 0], len: 1, next });
        self.nodes.len() as u32 - 1
    }

    #[inline(always)]
    fn link(&mut self, wheel: usize, slot: usize, entry: u128) {
        let head = match wheel {
            0 => self.first.head(slot),
            _ => self.rest[wheel - 1].head(slot),
        };
        let head = self.add(head, entry);
        match wheel {
            0 => self.first.fill(slot, head),
            _ => self.rest[wheel - 1].fill(slot, head),
        }
    }

    /// Takes a list's first node and frees it.
    #[inline]
    fn take_node(&mut self, at: u32) -> Node {
        let node = self.nodes[at as usize];
        self.nodes[at as usize].next = self.free;
        self.free = at;
        node
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
    fn begin_slice(&mut self, mut at: u32) -> u128 {
        let second = self.nodes[at as usize].next;
        if let (false, Some(&Node { entries: [other, ..], next: NONE, .. })) =
            (self.dense, self.nodes.get(second as usize))
        {
            // There are two in most cases. Which is first cannot be predicted, so no branch depends on it.
            let one = self.nodes[at as usize].entries[0];
            self.nodes[second as usize].next = self.free;
            self.free = at;
            self.run.push(one.max(other));
            return one.min(other);
        }
        loop {
            let node = &mut self.nodes[at as usize];
            let next = std::mem::replace(&mut node.next, self.free);
            self.run.push(node.entries[0]);
            if self.dense {
                self.run.extend_from_slice(&node.entries[1..node.len as usize]);
            }
            self.free = at;
            if next == NONE {
                break;
            }
            at = next;
        }
        self.run.sort_unstable_by(|a, b| b.cmp(a));
        self.run.pop().expect("no list is empty")
    }

    /// A block begins: its events move a wheel down.
    fn move_down(&mut self, wheel: usize, slot: usize) {
        let mut at = self.rest[wheel - 1].empty(slot);
        while at != NONE {
            let node = self.take_node(at);
            for &entry in &node.entries[..node.len as usize] {
                let (wheel, slot) = self.slot_of(self.slice_of(entry)).expect("it was in a wheel above");
                self.link(wheel, slot, entry);
            }
            at = node.next;
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

    #[test]
    fn three_events_share_a_cache_line() {
        assert_eq!((size_of::<Node>(), align_of::<Node>()), (64, 64));
    }

    proptest! {
        /// The queue against a sorted list. Spans cover a slice, every wheel, and times beyond the last.
        #[test]
        fn events_come_out_by_time_then_by_order_of_scheduling(
            ports in 0usize..5000,
            steps in prop::collection::vec(
                (prop::option::weighted(0.6, (0u32..50, 0u64..4)), 0u32..1000), 0..400)
        ) {
            let mut queue = EventQueue::for_ports(ports);
            let mut model: Vec<(u64, usize, u32)> = Vec::new();
            let mut now = 0;
            for (number, (span, payload)) in steps.into_iter().enumerate() {
                match span {
                    Some((bits, offset)) => {
                        let time = now + (1u64 << bits) - 1 + offset;
                        queue.push(Time(time), payload);
                        model.push((time, number, payload));
                    }
                    None => {
                        model.sort_unstable();
                        let expected = (!model.is_empty()).then(|| model.remove(0));
                        now = expected.map_or(now, |(time, ..)| time);
                        prop_assert_eq!(queue.pop(), expected.map(|(time, _, payload)| (Time(time), payload)));
                    }
                }
                prop_assert_eq!(queue.len(), model.len());
            }
            model.sort_unstable();
            let mut pending: Vec<u32> = queue.pending().map(|(_, payload)| payload).collect();
            let mut expected: Vec<u32> = model.iter().map(|(.., payload)| *payload).collect();
            pending.sort_unstable();
            expected.sort_unstable();
            prop_assert_eq!(pending, expected);
            for (time, _, payload) in model {
                prop_assert_eq!(queue.pop(), Some((Time(time), payload)));
            }
            prop_assert_eq!(queue.pop(), None);
        }

        /// Places that are filled late give the same order as events that were scheduled from the beginning.
        #[test]
        fn a_place_keeps_its_turn(spans in prop::collection::vec((0u64..200_000, 0u64..3), 2..100)) {
            let (mut early, mut late) = (EventQueue::default(), EventQueue::default());
            let mut places = Vec::new();
            for (number, &(span, _)) in spans.iter().enumerate() {
                early.push(Time(span), number as u32);
                places.push(late.reserve(Time(span)));
            }
            // Each event fills the places of the next ones; all others are filled before the first event.
            let first = spans.iter().enumerate().min_by_key(|(_, span)| span.0).map_or(0, |(number, _)| number);
            late.push_at(places[first], first as u32);
            let mut filled = vec![false; spans.len()];
            filled[first] = true;
            while let Some(event) = late.pop() {
                prop_assert_eq!(early.pop(), Some(event));
                for (number, &place) in places.iter().enumerate() {
                    if !filled[number] {
                        prop_assert!(!late.is_past(place));
                        // Some are filled at once, the others at the last moment at the latest.
                        let next_is_it = spans.iter().enumerate().all(|(other, span)| {
                            filled[other] || (span.0, other) >= (spans[number].0, number)
                        });
                        if spans[number].1 == 0 || next_is_it {
                            late.push_at(place, number as u32);
                            filled[number] = true;
                        }
                    }
                }
            }
            prop_assert_eq!(early.pop(), None);
        }
    }
}
