//! What will happen, in the order in which it happens: by time, and of one instant in the order of scheduling.
//!
//! Time is cut into slices of a nanosecond, and each of the next ones has a list of its events in order. What is scheduled mostly
//! comes last in its slice, since that simulator's clock counts whole nanoseconds: so it is appended, and nothing is ever sorted.
//! Later events wait in lists by blocks of 4,096 slices, which become lists by slice when their block begins, and those beyond
//! the last of these in a heap. (Varghese and Lauck, "Hashed and hierarchical timing wheels", SOSP 1987, scheme 7.)
//!
//! A list is known by its last event, behind which comes the first: so both appending and taking touch that one and another, and
//! neither asks whether the list is empty, which could not be predicted.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::packet::{Packet, NONE};

/// log2 of a slice in picoseconds.
const SLICE_BITS: u32 = 10;
/// log2 of the slices of a block.
const BLOCK_BITS: u32 = 12;
const SLICES: usize = 1 << BLOCK_BITS;
/// Slices that share a word.
const BITS_PER_WORD: usize = 64;
/// Slices from the current one on that have lists: a word of the block before may still be in use.
const REACH_SLICES: u64 = (SLICES - BITS_PER_WORD) as u64;
/// Blocks that have lists, the current one among them.
const BLOCKS: usize = 256;
/// Bits of the order among simultaneous events.
const SEQUENCE_BITS: u32 = 40;
/// The packet that stands for none: the end of an empty list, and first in any order.
const EMPTY: u32 = 0;

/// A place in the order of events: when, and which of that instant.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct EventKey {
    /// In ps.
    pub time: u64,
    sequence: u64,
}

impl EventKey {
    /// After all that happens.
    pub const LAST: EventKey = EventKey { time: u64::MAX, sequence: u64::MAX };

    /// The low bits of the time, and the order: events of one list compare by it.
    #[inline]
    fn key(self) -> u64 {
        self.time << SEQUENCE_BITS | self.sequence
    }
}

/// Lists of packets and other events, which the caller holds.
#[derive(Debug)]
#[repr(C)] // what is counted up at once does not lie side by side: both as one would wait for what was written of either
pub(super) struct Calendar {
    len: usize,
    /// By slice: the last of its list.
    lists: Box<[u32; SLICES]>,
    /// A bit for each list that is not empty.
    occupied: [u64; SLICES / BITS_PER_WORD],
    /// The slice of the event taken last.
    slice: u64,
    /// By block: the first of its list, in no order.
    blocks: Box<[u32; BLOCKS]>,
    far: BinaryHeap<Reverse<(EventKey, u32)>>,
    sequence: u64,
    /// The place of the event taken last.
    last: EventKey,
}

impl Default for Calendar {
    fn default() -> Self {
        Calendar {
            len: 0,
            lists: Box::new([EMPTY; SLICES]),
            occupied: [0; SLICES / BITS_PER_WORD],
            slice: 0,
            blocks: Box::new([NONE; BLOCKS]),
            far: BinaryHeap::new(),
            sequence: 0,
            last: EventKey::default(),
        }
    }
}

impl Calendar {
    /// Schedules at a time (ps) that does not lie before the event taken last, after all that is scheduled for then.
    #[inline]
    pub fn push(&mut self, packets: &mut [Packet], time: u64, at: u32) {
        let place = self.reserve(time);
        self.push_at(packets, place, at);
    }

    /// Reserves the next place in the order of events at `time`: for an event that only matters if something else
    /// happens before it.
    #[inline]
    pub fn reserve(&mut self, time: u64) -> EventKey {
        self.sequence += 1;
        EventKey { time, sequence: self.sequence }
    }

    /// True if the event taken last comes after `place` in the order.
    #[inline]
    pub fn is_past(&self, place: EventKey) -> bool {
        place < self.last
    }

    /// Schedules at a reserved place that has not passed.
    #[inline(always)]
    pub fn push_at(&mut self, packets: &mut [Packet], place: EventKey, at: u32) {
        debug_assert!(!self.is_past(place));
        self.len += 1;
        let slice = place.time >> SLICE_BITS;
        if slice - self.slice < REACH_SLICES {
            self.insert(packets, slice as usize, place.key(), at);
        } else {
            self.push_later(packets, place, at);
        }
    }

    /// Takes an event out that was scheduled at a time and has not come.
    pub fn cancel(&mut self, packets: &mut [Packet], time: u64, at: u32) {
        self.len -= 1;
        let slice = time >> SLICE_BITS;
        let slot = slice as usize % SLICES;
        let last = self.lists[slot];
        let behind = |packets: &[Packet], before: u32| packets[before as usize].next;
        let in_list = std::iter::successors(Some(last), |&before| {
            let next = behind(packets, before);
            (next != last).then_some(next)
        });
        let found = in_list.take_while(|_| last != EMPTY).find(|&before| behind(packets, before) == at);
        if let Some(before) = found {
            packets[before as usize].next = behind(packets, at);
            if before == at {
                self.lists[slot] = EMPTY;
                self.occupied[slot / BITS_PER_WORD] &= !(1 << (slot % BITS_PER_WORD));
            } else if last == at {
                self.lists[slot] = before;
            }
            return;
        }
        let first = &mut self.blocks[(slice >> BLOCK_BITS) as usize % BLOCKS];
        if *first == at {
            *first = packets[at as usize].next;
            return;
        }
        let mut before = *first;
        while let Some(&Packet { next, .. }) = packets.get(before as usize) {
            if next == at {
                packets[before as usize].next = packets[at as usize].next;
                return;
            }
            before = next;
        }
        self.far.retain(|Reverse((_, other))| *other != at);
    }

    /// Takes the first event: its time (ps), and its place among the packets.
    #[inline(always)] // its one caller is an event loop
    pub fn pop(&mut self, packets: &mut [Packet]) -> Option<(u64, u32)> {
        let (word, bits) = loop {
            let word = self.slice as usize / BITS_PER_WORD % (SLICES / BITS_PER_WORD);
            match self.occupied[word] {
                0 => self.find_word(packets)?,
                bits => break (word, bits),
            }
        };
        let bit = bits.trailing_zeros();
        let slice = self.slice / BITS_PER_WORD as u64 * BITS_PER_WORD as u64 + bit as u64;
        self.slice = slice;
        let list = &mut self.lists[slice as usize % SLICES];
        let last = *list;
        let first = packets[last as usize].next;
        let Packet { key, next, .. } = packets[first as usize];
        packets[last as usize].next = next;
        let is_last = first == last;
        *list = if is_last { EMPTY } else { last };
        self.occupied[word] = bits & !((is_last as u64) << bit);
        self.len -= 1;
        let within = key >> SEQUENCE_BITS & ((1 << SLICE_BITS) - 1);
        let time = slice << SLICE_BITS | within;
        self.last = EventKey { time, sequence: key & ((1 << SEQUENCE_BITS) - 1) };
        Some((time, first))
    }

    /// What comes after the event taken last, and what after that, if they are of its slice; else anything: for prefetching.
    #[inline]
    pub fn upcoming(&self, packets: &[Packet]) -> [u32; 2] {
        let last = self.lists[self.slice as usize % SLICES];
        let next = packets[last as usize].next;
        [next, packets[next as usize].next]
    }

    /// Number of events to come.
    pub fn len(&self) -> usize {
        self.len
    }

    /// The places of all events to come, in no order.
    pub fn pending<'a>(&'a self, packets: &'a [Packet]) -> impl Iterator<Item = u32> + 'a {
        let in_lists = self.lists.iter().filter(|&&last| last != EMPTY).flat_map(move |&last| {
            let behind = move |&at: &u32| (at != last).then(|| packets[at as usize].next);
            std::iter::successors(Some(packets[last as usize].next), behind)
        });
        let in_blocks = self.blocks.iter().flat_map(move |&first| {
            let some = |at: u32| (at != NONE).then_some(at);
            std::iter::successors(some(first), move |&at| some(packets[at as usize].next))
        });
        in_lists.chain(in_blocks).chain(self.far.iter().map(|Reverse((_, at))| *at))
    }

    /// Puts an event into the list of its slice.
    #[inline(always)]
    fn insert(&mut self, packets: &mut [Packet], slice: usize, key: u64, at: u32) {
        let slot = slice % SLICES;
        let last = self.lists[slot];
        let Packet { key: before, next: first, .. } = packets[last as usize];
        if before > key {
            return insert_between(packets, last, key, at);
        }
        let event = &mut packets[at as usize];
        event.key = key;
        event.next = if last == EMPTY { at } else { first };
        packets[last as usize].next = at;
        self.lists[slot] = at;
        self.occupied[slot / BITS_PER_WORD] |= 1 << (slot % BITS_PER_WORD);
    }

    /// Schedules an event that no list by slice has room for, but perhaps one of the current block.
    #[inline(never)]
    fn push_later(&mut self, packets: &mut [Packet], place: EventKey, at: u32) {
        let slice = place.time >> SLICE_BITS;
        let (block, current) = (slice >> BLOCK_BITS, self.slice >> BLOCK_BITS);
        if block == current {
            self.insert(packets, slice as usize, place.key(), at);
        } else if block - current < BLOCKS as u64 {
            let first = &mut self.blocks[block as usize % BLOCKS];
            (packets[at as usize].key, packets[at as usize].next) = (place.key(), *first);
            *first = at;
        } else {
            self.far.push(Reverse((place, at)));
        }
    }

    /// The word of the current slice is empty: goes to the next one that is not.
    #[inline(never)]
    fn find_word(&mut self, packets: &mut [Packet]) -> Option<()> {
        let word = self.slice as usize / BITS_PER_WORD % (SLICES / BITS_PER_WORD);
        match self.occupied[word..].iter().position(|&bits| bits != 0) {
            Some(words) => {
                self.slice = (self.slice / BITS_PER_WORD as u64 + words as u64) * BITS_PER_WORD as u64;
                Some(())
            }
            None => self.begin_block(packets),
        }
    }

    /// The current block is over: begins the next one that has something.
    #[inline(never)]
    fn begin_block(&mut self, packets: &mut [Packet]) -> Option<()> {
        assert!(self.sequence >> (SEQUENCE_BITS - 1) == 0, "more events than one run can number");
        let current = self.slice >> BLOCK_BITS;
        let has_list = |block: &u64| self.blocks[*block as usize % BLOCKS] != NONE;
        let block = match self.occupied.iter().any(|&word| word != 0) {
            true => current + 1,
            false => (current + 1..current + BLOCKS as u64).find(has_list).or_else(|| {
                let Reverse((place, _)) = self.far.peek()?;
                Some(place.time >> (SLICE_BITS + BLOCK_BITS))
            })?,
        };
        self.slice = block << BLOCK_BITS;
        while let Some(&Reverse((place, at))) = self.far.peek() {
            if (place.time >> (SLICE_BITS + BLOCK_BITS)) - block >= BLOCKS as u64 {
                break;
            }
            self.far.pop();
            self.push_later(packets, place, at);
        }
        let mut at = std::mem::replace(&mut self.blocks[block as usize % BLOCKS], NONE);
        while let Some(&Packet { key, next, .. }) = packets.get(at as usize) {
            self.insert(packets, (key >> (SEQUENCE_BITS + SLICE_BITS)) as usize, key, at);
            at = next;
        }
        Some(())
    }
}

/// Puts an event into a list whose last one it comes before: its place was reserved, or its slice has two nanoseconds.
#[inline(never)]
fn insert_between(packets: &mut [Packet], last: u32, key: u64, at: u32) {
    let mut before = last;
    let mut behind = packets[last as usize].next;
    while packets[behind as usize].key < key {
        before = behind;
        behind = packets[behind as usize].next;
    }
    (packets[at as usize].key, packets[at as usize].next) = (key, behind);
    packets[before as usize].next = at;
}

#[cfg(test)]
mod tests {
    use super::super::packet::EntryKind;
    use super::*;
    use proptest::prelude::*;
    use tailback_sim::engine::Arena;

    /// A calendar, and packets with one to begin with: the one that is none.
    fn empty() -> (Calendar, Arena<Packet>) {
        let mut packets = Arena::default();
        packets.add(Packet::new(EntryKind::Event, 0));
        (Calendar::default(), packets)
    }

    fn event(packets: &mut Arena<Packet>, payload: u32) -> u32 {
        packets.add(Packet { flow: payload, ..Packet::new(EntryKind::Event, 0) })
    }

    fn pop(calendar: &mut Calendar, packets: &mut Arena<Packet>) -> Option<(u64, u32)> {
        let (time, at) = calendar.pop(packets)?;
        packets.remove(at);
        Some((time, packets[at].flow))
    }

    proptest! {
        /// Against a sorted list: events of whole nanoseconds and of others, near, in every kind of list and beyond; some at
        /// places that were reserved, and filled later.
        #[test]
        fn events_come_out_by_time_then_by_order_of_scheduling(
            unit in prop_oneof![Just(1000u64), Just(1)],
            steps in prop::collection::vec(
                (prop::option::weighted(0.6, (0u32..42, 0u64..4, any::<bool>())), 0u32..1000), 0..400)
        ) {
            let (mut calendar, mut packets) = empty();
            let mut model: Vec<(u64, usize, u32)> = Vec::new();
            let mut reserved: Vec<(EventKey, (u64, usize, u32))> = Vec::new();
            let mut now = 0;
            for (number, (step, payload)) in steps.into_iter().enumerate() {
                match step {
                    Some((bits, offset, later)) => {
                        let time = now + ((1u64 << bits) - 1 + offset) / unit * unit;
                        if later {
                            reserved.push((calendar.reserve(time), (time, number, payload)));
                        } else {
                            let at = event(&mut packets, payload);
                            calendar.push(&mut packets, time, at);
                            model.push((time, number, payload));
                        }
                    }
                    None => {
                        model.sort_unstable();
                        let next = model.first().map_or((u64::MAX, 0, 0), |entry| *entry);
                        for one in reserved.extract_if(.., |one| one.1 < next || one.1.2 % 2 == 0) {
                            prop_assert!(!calendar.is_past(one.0));
                            let at = event(&mut packets, one.1.2);
                            calendar.push_at(&mut packets, one.0, at);
                            model.push(one.1);
                        }
                        model.sort_unstable();
                        let expected = (!model.is_empty()).then(|| model.remove(0));
                        now = expected.map_or(now, |(time, ..)| time);
                        prop_assert_eq!(pop(&mut calendar, &mut packets), expected.map(|(time, _, payload)| (time, payload)));
                    }
                }
                prop_assert_eq!(calendar.len(), model.len());
            }
            let mut pending: Vec<u32> = calendar.pending(&packets).map(|at| packets[at].flow).collect();
            let mut expected: Vec<u32> = model.iter().map(|entry| entry.2).collect();
            pending.sort_unstable();
            expected.sort_unstable();
            prop_assert_eq!(pending, expected);
            model.sort_unstable();
            for (time, _, payload) in model {
                prop_assert_eq!(pop(&mut calendar, &mut packets), Some((time, payload)));
            }
            prop_assert_eq!(pop(&mut calendar, &mut packets), None);
        }
    }

    proptest! {
        /// Of events near, in lists by block and beyond, some are taken out before and after others came.
        #[test]
        fn what_is_cancelled_does_not_come(
            spans in prop::collection::vec((0u32..42, 0u64..4, 0usize..3), 1..60)
        ) {
            let (mut calendar, mut packets) = empty();
            let mut there: Vec<(u64, usize, u32)> = Vec::new();
            for (number, &(bits, offset, _)) in spans.iter().enumerate() {
                let (time, at) = ((1u64 << bits) - 1 + offset, event(&mut packets, number as u32));
                calendar.push(&mut packets, time, at);
                there.push((time, number, at));
            }
            there.sort_unstable();
            for round in 0..2 {
                let cancelled = there.extract_if(.., |event| spans[event.1].2 == round);
                cancelled.for_each(|(time, _, at)| calendar.cancel(&mut packets, time, at));
                prop_assert_eq!(calendar.len(), there.len());
                for (time, number, _) in there.drain(..there.len() / 2) {
                    prop_assert_eq!(pop(&mut calendar, &mut packets), Some((time, number as u32)));
                }
            }
            for (time, number, _) in there {
                prop_assert_eq!(pop(&mut calendar, &mut packets), Some((time, number as u32)));
            }
            prop_assert_eq!(pop(&mut calendar, &mut packets), None);
        }
    }

    /// What stands before it has passed, what stands behind it has not.
    #[test]
    fn a_place_is_past_once_something_behind_it_was_taken() {
        let (mut calendar, mut packets) = empty();
        let first = calendar.reserve(5000);
        let at = event(&mut packets, 1);
        calendar.push(&mut packets, 5000, at);
        let last = calendar.reserve(5000);
        assert!(!calendar.is_past(first));
        assert_eq!(pop(&mut calendar, &mut packets), Some((5000, 1)));
        assert!(calendar.is_past(first) && !calendar.is_past(last));
    }
}
