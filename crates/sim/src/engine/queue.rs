//! The event queue: a hierarchical timing wheel in front of a heap.
//!
//! An entry is one `u128`: 56 bits of time, 40 bits that order simultaneous events, 32 bits of payload. One comparison
//! orders two entries. The caller decides ties: by its payloads ([`EventQueue::push`]), or by 40 bits of its own
//! ([`EventKey::of`]). 2^56 ps are 20 hours of simulated time.
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
    /// True if slices hold many events.
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
    pub(super) beside: SideEvent,
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
            beside: SideEvent::NOTHING,
        }
    }

    /// Schedules `payload` at `time`, which must not lie before the event last taken; past the horizon, for the horizon.
    /// Simultaneous events come in the order of their payloads.
    #[inline]
    pub fn push(&mut self, time: Time, payload: u32) {
        self.pushed += 1;
        let slice = time.0 >> self.slice_bits;
        // Most events are within reach of the first wheel, which no horizon is, and not of the current slice, nor of an earlier one:
        // see [`SideEvent`].
        if slice.wrapping_sub(self.slice).wrapping_sub(1) < self.near_slices {
            let slot = slice as usize % FIRST_SLOTS;
            if let Some(at) = self.lists.take_free() {
                self.lists.put(at, EventKey::of(time, payload, 0).0 | payload as u128);
                self.lists.put_before(at, self.first.replace(slot, at));
                return;
            }
        }
        self.place_by_payload(time, payload);
    }

    #[inline(never)]
    fn place_by_payload(&mut self, time: Time, payload: u32) {
        self.place(EventKey::of(time.min(Self::HORIZON), payload, 0).0 | payload as u128);
    }

    /// Schedules `payload` at a place that the caller chose, which must not lie before the event last taken.
    pub fn push_at(&mut self, place: EventKey, payload: u32) {
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
    pub fn take(&mut self) -> Option<(EventKey, u32)> {
        self.pop_entry().map(EventKey::split)
    }

    /// The event that will be taken `ahead` events after the next one, if that is known yet: for prefetching.
    #[inline]
    pub fn upcoming(&self, ahead: usize) -> Option<u32> {
        self.run.len().checked_sub(ahead + 1).map(|at| self.run[at] as u32)
    }

    /// All pending events, in no particular order.
    pub fn pending(&self) -> impl Iterator<Item = (EventKey, u32)> + '_ {
        let first = (0..FIRST_SLOTS).map(|slot| self.first.head(slot));
        let rest = self.rest.iter().flat_map(|wheel| (0..SLOTS).map(|slot| wheel.head(slot)));
        let in_wheels = first.chain(rest).flat_map(|head| self.lists.entries(head));
        let all = self.run.iter().chain(self.near.iter()).chain(in_wheels).chain(self.far.iter());
        all.map(|entry| EventKey::split(*entry))
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

// Where an event stands in the order of all events.

pub(super) const TIME_BITS: u32 = 56;

/// Bits of the order among simultaneous events.
pub(super) const SEQUENCE_BITS: u32 = 40;

pub(super) const PAYLOAD_BITS: u32 = 32;

/// A place in the order of events.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EventKey(pub(super) u128);

impl EventKey {
    /// The place at `time` that `source` and `own` give it: simultaneous events run by their sources, and those of one
    /// source by their `own` numbers.
    #[inline]
    pub fn of(time: Time, source: u32, own: u8) -> EventKey {
        debug_assert!(time <= crate::engine::EventQueue::HORIZON);
        let order = (source as u128) << 8 | own as u128;
        EventKey((time.0 as u128) << (SEQUENCE_BITS + PAYLOAD_BITS) | order << PAYLOAD_BITS)
    }

    /// When that is.
    pub fn time(self) -> Time {
        time_of(self.0)
    }

    /// An entry's place, and its payload.
    pub(super) fn split(entry: u128) -> (EventKey, u32) {
        (EventKey(entry >> PAYLOAD_BITS << PAYLOAD_BITS), entry as u32)
    }
}

pub(super) fn time_of(entry: u128) -> Time {
    Time((entry >> (SEQUENCE_BITS + PAYLOAD_BITS)) as u64)
}

// One wheel of the event queue: lists by slot, and which of them are not empty.

/// A wheel of `SLOTS` slots, which are 64 times `WORDS`. Arrays of a power of two need no test of a masked index.
#[derive(Debug)]
pub(super) struct Wheel<const SLOTS: usize, const WORDS: usize> {
    /// First node of each slot's list.
    slots: [u32; SLOTS],
    /// A bit for each slot that is not empty, and one for each word of them.
    occupied: [u64; WORDS],
    words: u64,
}

impl<const SLOTS: usize, const WORDS: usize> Wheel<SLOTS, WORDS> {
    pub fn new() -> Box<Self> {
        Box::new(Wheel { slots: [NONE; SLOTS], occupied: [0; WORDS], words: 0 })
    }

    /// The first occupied slot from `slot` on, and where its list begins; it is empty then.
    #[inline(always)] // an event loop has it
    pub fn take_from(&mut self, slot: usize) -> Option<(usize, u32)> {
        let mut word = slot / 64 % WORDS;
        let mut bits = self.occupied[word] & (u64::MAX << (slot % 64));
        if bits == 0 {
            let words = self.words & (u64::MAX << 1 << word);
            if words == 0 {
                return None;
            }
            word = words.trailing_zeros() as usize % WORDS;
            bits = self.occupied[word];
        }
        self.occupied[word] ^= bits & bits.wrapping_neg();
        if self.occupied[word] == 0 {
            self.words &= !(1 << word);
        }
        let slot = word * 64 + bits.trailing_zeros() as usize;
        Some((slot, std::mem::replace(&mut self.slots[slot % SLOTS], NONE)))
    }

    /// The first occupied slot from `slot` on.
    #[inline]
    pub fn from(&self, slot: usize) -> Option<usize> {
        let word = slot / 64;
        let bits = self.occupied[word] & (u64::MAX << (slot % 64));
        if bits != 0 {
            return Some(word * 64 + bits.trailing_zeros() as usize);
        }
        let words = self.words & (u64::MAX << 1 << word);
        if words == 0 {
            return None;
        }
        let word = words.trailing_zeros() as usize;
        Some(word * 64 + self.occupied[word].trailing_zeros() as usize)
    }

    pub fn is_empty(&self) -> bool {
        self.words == 0
    }

    #[inline]
    pub fn head(&self, slot: usize) -> u32 {
        self.slots[slot % SLOTS]
    }

    #[inline]
    pub fn fill(&mut self, slot: usize, node: u32) {
        self.replace(slot, node);
    }

    /// The list of a slot begins with `node`. What it began with.
    #[inline(always)]
    pub fn replace(&mut self, slot: usize, node: u32) -> u32 {
        let word = slot / 64 % WORDS;
        self.occupied[word] |= 1 << (slot % 64);
        self.words |= 1 << word;
        std::mem::replace(&mut self.slots[slot % SLOTS], node)
    }

    #[inline]
    pub fn empty(&mut self, slot: usize) -> u32 {
        let word = slot / 64 % WORDS;
        self.occupied[word] &= !(1 << (slot % 64));
        if self.occupied[word] == 0 {
            self.words &= !(1 << word);
        }
        std::mem::replace(&mut self.slots[slot % SLOTS], NONE)
    }
}

// The lists of the event queue's slots: one pool of nodes, of which the last one freed is used first.

/// No node.
pub(super) const NONE: u32 = u32::MAX;

/// A cache line of entries that lie in one slot.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
pub(super) struct Node {
    entries: [u128; ENTRIES],
    /// The node behind it, and above that how many entries it has besides the first: one store says both.
    link: u64,
}

const ENTRIES: usize = 3;

impl Node {
    pub fn entries(&self) -> &[u128] {
        &self.entries[..=(self.link >> 32) as usize]
    }

    #[inline(always)]
    fn next(&self) -> u32 {
        self.link as u32
    }
}

/// All lists.
#[derive(Debug)]
pub(super) struct Lists {
    nodes: Vec<Node>,
    /// First of the free nodes.
    free: u32,
}

impl Default for Lists {
    fn default() -> Self {
        Lists { nodes: Vec::new(), free: NONE }
    }
}

impl Lists {
    /// Takes a node that is free, if any is.
    #[inline(always)]
    pub fn take_free(&mut self) -> Option<u32> {
        let at = self.free;
        self.free = self.nodes.get(at as usize)?.next();
        Some(at)
    }

    /// Puts an entry into that node.
    #[inline(always)]
    pub fn put(&mut self, at: u32, entry: u128) {
        self.nodes[at as usize].entries[0] = entry;
    }

    /// Puts a node with one entry before the list that begins with `head`. What was behind it.
    #[inline(always)]
    pub fn put_before(&mut self, at: u32, head: u32) -> u32 {
        std::mem::replace(&mut self.nodes[at as usize].link, head as u64) as u32
    }

    /// Puts an entry, in a node of its own, before the list that begins with `next`. Where the list begins now.
    #[inline(always)]
    pub fn begin(&mut self, next: u32, entry: u128) -> u32 {
        let Some(at) = self.take_free() else { return self.new_node(next, entry) };
        self.put(at, entry);
        self.put_before(at, next);
        at
    }

    #[cold]
    fn new_node(&mut self, next: u32, entry: u128) -> u32 {
        self.nodes.push(Node { entries: [entry, 0, 0], link: next as u64 });
        self.nodes.len() as u32 - 1
    }

    /// Puts an entry into the first node of a list, or before that. Where the list begins now.
    #[inline]
    pub fn fill_up(&mut self, head: u32, entry: u128) -> u32 {
        if let Some(node) = self.nodes.get_mut(head as usize) {
            if let Some(place) = node.entries.get_mut((node.link >> 32) as usize + 1) {
                *place = entry;
                node.link += 1 << 32;
                return head;
            }
        }
        self.begin(head, entry)
    }

    /// Takes the entry of a list that has no other.
    #[inline(always)]
    pub fn take_alone(&mut self, head: u32) -> Option<u128> {
        let node = &mut self.nodes[head as usize];
        (node.link == NONE as u64).then(|| {
            node.link = self.free as u64;
            self.free = head;
            node.entries[0]
        })
    }

    /// Takes the entries of a list that has two, each in a node of its own.
    #[inline]
    pub fn take_pair(&mut self, head: u32) -> Option<(u128, u128)> {
        let &Node { entries: [one, ..], link } = &self.nodes[head as usize];
        let second = self.nodes.get_mut(link as usize).filter(|node| node.link == NONE as u64)?;
        second.link = self.free as u64;
        self.free = head;
        Some((one, second.entries[0]))
    }

    /// Takes all entries of a list.
    pub fn take_all(&mut self, mut at: u32, into: &mut Vec<u128>) {
        while at != NONE {
            let node = &mut self.nodes[at as usize];
            into.push(node.entries[0]);
            if node.link >> 32 != 0 {
                into.extend_from_slice(&node.entries()[1..]);
            }
            let next = node.next();
            node.link = self.free as u64;
            self.free = at;
            at = next;
        }
    }

    /// Takes a list's first node. Where the rest begins.
    #[inline]
    pub fn take(&mut self, head: u32) -> (Node, u32) {
        let node = self.nodes[head as usize];
        self.nodes[head as usize].link = self.free as u64;
        self.free = head;
        (node, node.next())
    }

    /// The entries of a node.
    #[inline]
    pub fn entries_of(&self, at: u32) -> &[u128] {
        self.nodes[at as usize].entries()
    }

    /// All entries of a list.
    pub fn entries(&self, head: u32) -> impl Iterator<Item = &u128> {
        let nodes =
            std::iter::successors(self.nodes.get(head as usize), |node| self.nodes.get(node.next() as usize));
        nodes.flat_map(Node::entries)
    }
}

// A heap of event queue entries, for the few that no wheel holds.

/// A 4-ary heap of entries: four children share a cache line.
#[derive(Debug, Default)]
pub(super) struct Heap(Vec<u128>);

const ARITY: usize = 4;

impl Heap {
    pub fn first(&self) -> Option<u128> {
        self.0.first().copied()
    }

    /// In no order.
    pub fn iter(&self) -> std::slice::Iter<'_, u128> {
        self.0.iter()
    }

    #[inline]
    pub fn push(&mut self, entry: u128) {
        push(&mut self.0, entry);
    }

    #[inline]
    pub fn pop(&mut self) -> Option<u128> {
        let first = self.first()?;
        let last = self.0.pop()?;
        if !self.0.is_empty() {
            sift_down(&mut self.0, last);
        }
        Some(first)
    }
}

/// Adds an entry to a heap.
#[inline]
pub(super) fn push(heap: &mut Vec<u128>, entry: u128) {
    let mut hole = heap.len();
    heap.push(entry);
    while hole > 0 {
        let parent = (hole - 1) / ARITY;
        if heap[parent] <= entry {
            break;
        }
        heap[hole] = heap[parent];
        hole = parent;
    }
    heap[hole] = entry;
}

/// Puts an entry in the place of a heap's first one.
pub(super) fn sift_down(heap: &mut [u128], entry: u128) {
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

// An event beside the queue, which saves the way through its wheels.
//
// The first event of the queue is taken as if there were none beside. Where the one beside comes before, it is acted on first, and
// the one that was taken waits. Only if something was scheduled meanwhile, which may come before it, too, it goes back. So this
// pays for events that seldom schedule any but another of their kind.

/// No event. It comes after all others.
const NOTHING: u128 = u128::MAX;

/// In place of a number of events: none waits.
const NONE_WAITS: u64 = u64::MAX;

/// The one event that is kept beside the queue's lists.
#[derive(Debug)]
pub(super) struct SideEvent {
    event: u128,
    /// The event that was taken, and waits for the one that was beside; there is one if `pushed` is not [`NONE_WAITS`].
    waiting: u128,
    /// How many had been scheduled when it was taken.
    pushed: u64,
}

impl SideEvent {
    pub const NOTHING: SideEvent = SideEvent { event: NOTHING, waiting: NOTHING, pushed: NONE_WAITS };
}

impl EventQueue {
    /// Keeps an event beside the queue, where there is none. Such events come out of [`Self::pop_first`].
    #[inline]
    pub fn keep_beside(&mut self, place: EventKey, payload: u32) {
        debug_assert!(self.is_free_beside());
        self.beside.event = place.0 | payload as u128;
    }

    /// True if no event is kept beside the queue.
    #[inline]
    pub fn is_free_beside(&self) -> bool {
        self.beside.event == NOTHING
    }

    /// Takes the first event, beside the queue or in it. Where there is none it is due at the horizon.
    #[inline(always)] // as `pop`
    pub fn pop_first(&mut self) -> (Time, u32) {
        let taken = 'taken: {
            if self.beside.pushed != NONE_WAITS {
                if std::mem::replace(&mut self.beside.pushed, NONE_WAITS) == self.pushed {
                    break 'taken self.beside.waiting;
                }
                self.pushed += 1;
                self.near.push(self.beside.waiting);
            }
            self.pop_entry().unwrap_or(NOTHING)
        };
        let event = self.beside.event;
        // Their halves are compared first: mostly times differ.
        if (event >> 64) as u64 <= (taken >> 64) as u64 && event < taken {
            self.beside.event = NOTHING;
            if taken != NOTHING {
                (self.beside.waiting, self.beside.pushed) = (taken, self.pushed);
            }
            return (time_of(event), event as u32);
        }
        (time_of(taken), taken as u32)
    }

    /// Puts the event that is kept beside the queue into the queue.
    pub fn leave_beside(&mut self) {
        if std::mem::replace(&mut self.beside.pushed, NONE_WAITS) != NONE_WAITS {
            self.pushed += 1;
            self.near.push(self.beside.waiting);
        }
        if !self.is_free_beside() {
            let event = std::mem::replace(&mut self.beside.event, NOTHING);
            self.push_at(EventKey::split(event).0, event as u32);
        }
    }
}

#[cfg(test)]
mod queue_tests {
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

#[cfg(test)]
mod lists_tests {
    use super::*;

    #[test]
    fn three_events_share_a_cache_line() {
        assert_eq!((size_of::<Node>(), align_of::<Node>()), (64, 64));
    }
}

#[cfg(test)]
mod beside_tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Events of which some are kept beside the queue are acted on in the order of those that are all in it, at places that
        /// the caller made. Each schedules the next of `spans`, some several.
        #[test]
        fn what_is_kept_beside_has_its_turn(
            ports in prop_oneof![Just(0usize), Just(5000)],
            spans in prop::collection::vec((0u32..24, 0u64..4, 0usize..3, any::<bool>()), 1..200),
        ) {
            let order = |keeps: bool| {
                let (mut queue, mut scheduled, mut found) = (EventQueue::for_ports(ports), 0, Vec::new());
                let mut schedule = |queue: &mut EventQueue, now: Time, count: usize| {
                    for &(bits, offset, _, quiet) in spans.iter().skip(scheduled).take(count) {
                        let time = now + Time((1 << bits) - 1 + offset);
                        let (place, payload) = (EventKey::of(time, scheduled as u32, 0), scheduled as u32);
                        if keeps && quiet && queue.is_free_beside() {
                            queue.keep_beside(place, payload);
                        } else if keeps {
                            queue.push(time, payload);
                        } else {
                            queue.push_at(place, payload);
                        }
                        scheduled += 1;
                    }
                };
                schedule(&mut queue, Time::ZERO, 5);
                loop {
                    let (time, payload) = queue.pop_first();
                    if time == EventQueue::HORIZON {
                        break;
                    }
                    found.push((time, payload));
                    schedule(&mut queue, time, spans[payload as usize].2);
                    if found.len() % 16 == 0 {
                        queue.leave_beside();
                    }
                }
                found
            };
            prop_assert_eq!(order(true), order(false));
        }
    }
}
