//! The event queue: a hierarchical timing wheel in front of a heap.
//!
//! An entry is one `u128`: 56 bits of time, 40 bits of sequence, 32 bits of payload. Order is one comparison, and ties
//! in time run in the order in which they were scheduled. 2^56 ps are 20 hours of simulated time; 2^40 events are a
//! day of computing.
//!
//! Time is cut into slices of 65.5 ns. Three wheels of 256 slots each hold what lies within the same 2^8, 2^16 and
//! 2^24 slices as the current one (16.8 us, 4.3 ms, 1.1 s), unsorted; a slot's events move down a wheel when its turn
//! comes, and those of the current slice are sorted. What is scheduled into the current slice goes to a small heap
//! beside it, and what is later than the last wheel waits in another. So an event costs two or three moves whatever
//! their number, where a heap costs one for each level.
//! (Varghese and Lauck, "Hashed and hierarchical timing wheels", SOSP 1987, scheme 7.)

use tailback_proto::units::Time;

const TIME_BITS: u32 = 56;
const SEQUENCE_BITS: u32 = 40;
const PAYLOAD_BITS: u32 = 32;
/// log2 of a slice in picoseconds: about one packet time at 100 Gbit/s, so that a slice holds few events.
const SLICE_BITS: u32 = 16;
const WHEEL_BITS: u32 = 8;
const WHEELS: usize = 3;
const SLOTS: usize = 1 << WHEEL_BITS;

/// A priority queue of `u32` payloads by (time, order of scheduling).
#[derive(Debug)]
pub struct EventQueue {
    /// Events of the current slice that were there when it began, the last one first.
    run: Vec<u128>,
    /// Events of the current slice that came later.
    near: Heap,
    wheels: [Wheel; WHEELS],
    /// Events beyond the last wheel.
    far: Heap,
    /// The current slice.
    slice: u64,
    sequence: u64,
    len: usize,
}

#[derive(Debug)]
struct Wheel {
    slots: Vec<Vec<u128>>,
    occupied: [u64; SLOTS / 64],
}

impl Wheel {
    /// The first occupied slot after `slot`.
    fn after(&self, slot: usize) -> Option<usize> {
        let mut word = (slot + 1) / 64;
        let mut bits = *self.occupied.get(word)? & (u64::MAX << ((slot + 1) % 64));
        while bits == 0 {
            word += 1;
            bits = *self.occupied.get(word)?;
        }
        Some(word * 64 + bits.trailing_zeros() as usize)
    }
}

impl Default for EventQueue {
    fn default() -> Self {
        EventQueue {
            run: Vec::new(),
            near: Heap::default(),
            wheels: std::array::from_fn(|_| Wheel {
                slots: vec![Vec::new(); SLOTS],
                occupied: [0; SLOTS / 64],
            }),
            far: Heap::default(),
            slice: 0,
            sequence: 0,
            len: 0,
        }
    }
}

fn time_of(entry: u128) -> Time {
    Time((entry >> (SEQUENCE_BITS + PAYLOAD_BITS)) as u64)
}

fn slice_of(entry: u128) -> u64 {
    time_of(entry).0 >> SLICE_BITS
}

impl EventQueue {
    /// The latest time that can be scheduled.
    pub const HORIZON: Time = Time((1 << TIME_BITS) - 1);

    /// Schedules `payload` at `time`, which must not lie before the event last taken.
    ///
    /// # Panics
    /// Past 2^40 events, and in debug builds past [`Self::HORIZON`].
    #[inline]
    pub fn push(&mut self, time: Time, payload: u32) {
        debug_assert!(time <= Self::HORIZON);
        let sequence = self.sequence;
        assert!(sequence < 1 << SEQUENCE_BITS, "more events than one run can number");
        self.sequence += 1;
        self.len += 1;
        self.place(
            ((time.0 as u128) << (SEQUENCE_BITS + PAYLOAD_BITS))
                | ((sequence as u128) << PAYLOAD_BITS)
                | payload as u128,
        );
    }

    /// Takes the first event.
    #[inline]
    pub fn pop(&mut self) -> Option<(Time, u32)> {
        loop {
            let entry = match (self.run.last(), self.near.first()) {
                (Some(&run), Some(near)) if near < run => self.near.pop()?,
                (Some(_), _) => self.run.pop()?,
                (None, Some(_)) => self.near.pop()?,
                (None, None) => {
                    self.advance()?;
                    continue;
                }
            };
            self.len -= 1;
            return Some((time_of(entry), entry as u32));
        }
    }

    /// Events pending.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether nothing is pending.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Puts an entry where it belongs, seen from the current slice.
    #[inline]
    fn place(&mut self, entry: u128) {
        let slice = slice_of(entry);
        if slice <= self.slice {
            self.near.push(entry);
            return;
        }
        // The wheel is the highest digit in which the two slices differ.
        let digit = (63 - (slice ^ self.slice).leading_zeros()) / WHEEL_BITS;
        if digit as usize >= WHEELS {
            self.far.push(entry);
            return;
        }
        let slot = (slice >> (digit * WHEEL_BITS)) as usize % SLOTS;
        let wheel = &mut self.wheels[digit as usize];
        wheel.slots[slot].push(entry);
        wheel.occupied[slot / 64] |= 1 << (slot % 64);
    }

    /// Makes the next slice with events current, or moves a slot's events one wheel down.
    fn advance(&mut self) -> Option<()> {
        for digit in 0..WHEELS {
            let shift = digit as u32 * WHEEL_BITS;
            let current = (self.slice >> shift) as usize % SLOTS;
            if let Some(slot) = self.wheels[digit].after(current) {
                let above = self.slice >> (shift + WHEEL_BITS) << (shift + WHEEL_BITS);
                self.slice = above | (slot as u64) << shift;
                self.empty_slot(digit, slot);
                return Some(());
            }
        }
        let first = self.far.pop()?;
        self.slice = slice_of(first);
        self.near.push(first);
        while let Some(entry) = self.far.first() {
            if (slice_of(entry) ^ self.slice) >> (WHEEL_BITS * WHEELS as u32) != 0 {
                break;
            }
            self.far.pop();
            self.place(entry);
        }
        Some(())
    }

    fn empty_slot(&mut self, digit: usize, slot: usize) {
        let wheel = &mut self.wheels[digit];
        wheel.occupied[slot / 64] &= !(1 << (slot % 64));
        if digit == 0 {
            // All of one slice, which is now the current one; `run` is empty and gives its memory to the slot.
            std::mem::swap(&mut self.run, &mut wheel.slots[slot]);
            self.run.sort_unstable_by(|a, b| b.cmp(a));
            return;
        }
        let mut entries = std::mem::take(&mut wheel.slots[slot]);
        for entry in entries.drain(..) {
            self.place(entry);
        }
        self.wheels[digit].slots[slot] = entries;
    }
}

/// A 4-ary heap of entries: four children share a cache line.
#[derive(Debug, Default)]
struct Heap(Vec<u128>);

const ARITY: usize = 4;

impl Heap {
    fn first(&self) -> Option<u128> {
        self.0.first().copied()
    }

    #[inline]
    fn push(&mut self, entry: u128) {
        let mut hole = self.0.len();
        self.0.push(entry);
        while hole > 0 {
            let parent = (hole - 1) / ARITY;
            if self.0[parent] <= entry {
                break;
            }
            self.0[hole] = self.0[parent];
            hole = parent;
        }
        self.0[hole] = entry;
    }

    #[inline]
    fn pop(&mut self) -> Option<u128> {
        let first = self.first()?;
        let last = self.0.pop()?;
        if !self.0.is_empty() {
            self.sift_down(last);
        }
        Some(first)
    }

    fn sift_down(&mut self, entry: u128) {
        let heap = &mut self.0[..];
        let mut hole = 0;
        loop {
            let first = hole * ARITY + 1;
            let smallest = if let Some(children) = heap.get(first..first + ARITY) {
                let left = first + (children[1] < children[0]) as usize;
                let right = first + 2 + (children[3] < children[2]) as usize;
                if heap[right] < heap[left] {
                    right
                } else {
                    left
                }
            } else if first < heap.len() {
                (first + 1..heap.len()).fold(first, |best, i| if heap[i] < heap[best] { i } else { best })
            } else {
                break;
            };
            if heap[smallest] >= entry {
                break;
            }
            heap[hole] = heap[smallest];
            hole = smallest;
        }
        heap[hole] = entry;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Against a sorted list. Spans cover a slice, every wheel and what lies beyond the last.
        #[test]
        fn events_come_out_by_time_then_by_order_of_scheduling(
            steps in prop::collection::vec(
                (prop::option::weighted(0.6, (0u32..50, 0u64..4)), 0u32..1000), 0..400)
        ) {
            let mut queue = EventQueue::default();
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
            for (time, _, payload) in model {
                prop_assert_eq!(queue.pop(), Some((Time(time), payload)));
            }
            prop_assert_eq!(queue.pop(), None);
        }
    }
}
