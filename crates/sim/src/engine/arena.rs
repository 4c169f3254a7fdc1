//! Packets by number, and the lists they stand in.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use super::prefetch;
use super::random::mix;

/// No packet.
pub const NONE: u32 = u32::MAX;

/// An element of a linked list: it holds the index of the next one, or [`NONE`].
pub trait Linked: Copy {
    fn next(&self) -> u32;
    fn set_next(&mut self, next: u32);
}

/// All packets that exist. Freed places are used again, so nothing is allocated once the run is warm.
#[derive(Debug)]
pub struct Arena<Packet> {
    packets: Vec<Packet>,
    free: u32,
}

impl<Packet> Default for Arena<Packet> {
    fn default() -> Self {
        Arena { packets: Vec::new(), free: NONE }
    }
}

impl<Packet: Linked> Arena<Packet> {
    #[inline(always)] // it is less than a call, but for the first time
    pub fn add(&mut self, packet: Packet) -> u32 {
        if self.free == NONE {
            self.packets.push(packet);
            return self.packets.len() as u32 - 1;
        }
        let index = self.free;
        self.free = self[index].next();
        self[index] = packet;
        index
    }

    /// Asks for a packet's memory.
    #[inline]
    pub fn prefetch(&self, index: Option<u32>) {
        if let Some(index) = index {
            prefetch(&self.packets, index as usize);
        }
    }

    #[inline]
    pub fn remove(&mut self, index: u32) {
        let free = self.free;
        self[index].set_next(free);
        self.free = index;
    }
}

/// All places, free ones too. A slice of its own, in a function that looks a packet up again and again, has one check of the index
/// for all.
impl<Packet> std::ops::Deref for Arena<Packet> {
    type Target = [Packet];
    #[inline]
    fn deref(&self) -> &[Packet] {
        &self.packets
    }
}

impl<Packet> std::ops::DerefMut for Arena<Packet> {
    #[inline]
    fn deref_mut(&mut self) -> &mut [Packet] {
        &mut self.packets
    }
}

impl<Packet> std::ops::Index<u32> for Arena<Packet> {
    type Output = Packet;
    #[inline]
    fn index(&self, index: u32) -> &Packet {
        &self.packets[index as usize]
    }
}

impl<Packet> std::ops::IndexMut<u32> for Arena<Packet> {
    #[inline]
    fn index_mut(&mut self, index: u32) -> &mut Packet {
        &mut self.packets[index as usize]
    }
}

/// A first-in first-out list of packets.
#[derive(Clone, Copy, Debug)]
pub struct Fifo {
    head: u32,
    tail: u32,
}

impl Default for Fifo {
    fn default() -> Self {
        Fifo::EMPTY
    }
}

impl Fifo {
    pub const EMPTY: Fifo = Fifo { head: NONE, tail: NONE };

    #[inline]
    pub fn is_empty(&self) -> bool {
        self.head == NONE
    }

    #[inline]
    pub fn head(&self) -> Option<u32> {
        (self.head != NONE).then_some(self.head)
    }

    /// Appends a packet. Returns whether it is the first.
    #[inline(always)] // it is less than a call
    pub fn push<Packet: Linked>(&mut self, packets: &mut [Packet], index: u32) -> bool {
        packets[index as usize].set_next(NONE);
        let first = self.head == NONE;
        if first {
            self.head = index;
        } else {
            packets[self.tail as usize].set_next(index);
        }
        self.tail = index;
        first
    }

    #[inline]
    pub fn pop<Packet: Linked>(&mut self, packets: &[Packet]) -> Option<u32> {
        Some(self.drop_first(self.first(packets)?))
    }

    /// The first packet. Past all packets lies [`NONE`], too.
    #[inline]
    pub fn first<'a, Packet: Linked>(&self, packets: &'a [Packet]) -> Option<&'a Packet> {
        packets.get(self.head as usize)
    }

    /// The first packet, which was looked at, is no longer in it.
    #[inline]
    pub fn drop_first<Packet: Linked>(&mut self, first: &Packet) -> u32 {
        std::mem::replace(&mut self.head, first.next())
    }

    /// The packet behind one that stands in it.
    pub fn after<Packet: Linked>(&self, packets: &[Packet], index: u32) -> Option<u32> {
        let next = packets[index as usize].next();
        (index != self.tail && next != NONE).then_some(next)
    }

    /// Its packets, first to last.
    pub fn iter<'a, Packet: Linked>(&self, packets: &'a [Packet]) -> impl Iterator<Item = &'a Packet> {
        let mut next = self.head;
        std::iter::from_fn(move || {
            let packet = (next != NONE).then(|| &packets[next as usize])?;
            next = packet.next();
            Some(packet)
        })
    }
}

// Maps by small numbers that the simulation itself gives, which need no hash that withstands an attacker. Nobody iterates
// over them.

/// A map by numbers, or by a few of them.
pub type NumberMap<K, V> = HashMap<K, V, BuildHasherDefault<NumberHasher>>;

/// A hash of numbers: a multiplication for each, and splitmix64's finalizer at the end.
#[derive(Clone, Copy, Debug, Default)]
pub struct NumberHasher(u64);

impl Hasher for NumberHasher {
    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|&byte| self.write_u64(byte as u64));
    }
    fn write_u8(&mut self, number: u8) {
        self.write_u64(number as u64);
    }
    fn write_u32(&mut self, number: u32) {
        self.write_u64(number as u64);
    }
    fn write_i32(&mut self, number: i32) {
        self.write_u64(number as u32 as u64);
    }
    fn write_u64(&mut self, number: u64) {
        // The golden ratio, as in splitmix64.
        self.0 = (self.0.rotate_left(5) ^ number).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
    fn write_isize(&mut self, number: isize) {
        self.write_u64(number as u64);
    }
    fn finish(&self) -> u64 {
        mix(self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;
    use std::hash::BuildHasher;

    /// Tags, senders and receivers as they are: no two of them have one hash, and no place of a table has many.
    #[test]
    fn small_numbers_are_spread() {
        let hasher = BuildHasherDefault::<NumberHasher>::default();
        let keys = (0..40i32)
            .flat_map(|tag| (0..40u32).flat_map(move |from| (0..40u32).map(move |to| (tag, from, to))));
        let hashes: Vec<u64> = keys.map(|key| hasher.hash_one(key)).collect();
        assert_eq!(hashes.iter().collect::<HashSet<_>>().len(), hashes.len());
        let mut places = [0u32; 64];
        hashes.iter().for_each(|hash| places[(hash >> 58) as usize] += 1);
        assert!(places.iter().all(|&count| (800..1200).contains(&count)), "{places:?}");
    }
}
