//! One wheel of the event queue: lists by slot, and which of them are not empty.

use super::lists::NONE;

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
