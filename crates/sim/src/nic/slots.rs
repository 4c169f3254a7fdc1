//! Where queue pairs are kept. Packets, events and routes know a queue pair by its number, which no other ever has. A message
//! that is done gives its slot, with all that hangs on it, to a later one. What is still on its way to it then finds nothing.

/// Slots of queue pairs, by their numbers.
#[derive(Debug, Default)]
pub(crate) struct Slots {
    /// By number. Empty before the work begins, and where there is none: each queue pair has the slot of its number.
    of: Vec<u32>,
    /// The number of the work's first queue pair.
    first_of_work: Option<u32>,
    free: Vec<u32>,
    /// Those of the work's messages that are done and still in theirs.
    pub done: Vec<u32>,
}

/// The slot of a queue pair that has none any more, and the number of a slot that is free.
pub(crate) const GONE: u32 = u32::MAX;

impl Slots {
    /// The slot of a queue pair; out of all bounds if it is gone.
    #[inline(always)] // packets and events ask
    pub fn of(&self, number: u32) -> u32 {
        self.of.get(number as usize).copied().unwrap_or(number)
    }

    /// From now on queue pairs are added, `planned` of which there are.
    pub fn begin_work(&mut self, planned: usize) {
        self.of = (0..planned as u32).collect();
        self.first_of_work = Some(planned as u32);
    }

    /// Whether a queue pair was added during the run.
    pub fn is_of_work(&self, number: u32) -> bool {
        self.first_of_work.is_some_and(|first| number >= first)
    }

    /// Queue pairs so far, where so many slots are used or free.
    pub fn numbers(&self, slots: usize) -> u32 {
        if self.first_of_work.is_some() {
            self.of.len() as u32
        } else {
            slots as u32
        }
    }

    /// The slot of the next queue pair, where so many are used or free.
    pub fn next(&self, slots: usize) -> u32 {
        self.free.last().copied().unwrap_or(slots as u32)
    }

    /// The next queue pair is in this slot.
    pub fn take(&mut self, slot: u32) {
        if self.first_of_work.is_some() {
            self.of.push(slot);
            self.free.pop_if(|free| *free == slot);
        }
    }

    /// A queue pair is gone.
    pub fn give_back(&mut self, number: u32) {
        self.free.push(std::mem::replace(&mut self.of[number as usize], GONE));
    }
}

/// Puts what belongs to a slot in its place of a list, or at the end of that.
pub(crate) fn put<T>(list: &mut Vec<T>, at: u32, value: T) {
    match list.get_mut(at as usize) {
        Some(place) => *place = value,
        None => list.push(value),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_work_a_number_is_a_slot() {
        let mut slots = Slots::default();
        slots.take(slots.next(0));
        assert_eq!((slots.of(0), slots.numbers(1), slots.next(1)), (0, 1, 1));
        assert!(!slots.is_of_work(0));
    }

    /// Two of the plan, then three messages: the fourth has the slot of the third, and what is left of the third finds nothing.
    #[test]
    fn a_slot_is_used_again_and_a_number_is_not() {
        let mut slots = Slots::default();
        slots.begin_work(2);
        for slot in 2..5 {
            assert_eq!((slots.numbers(slot), slots.next(slot)), (slot as u32, slot as u32));
            slots.take(slot as u32);
        }
        slots.give_back(4);
        assert_eq!((slots.of(4), slots.numbers(5), slots.next(5)), (GONE, 5, 4));
        slots.take(4);
        assert_eq!((slots.of(5), slots.of(4), slots.numbers(5), slots.next(5)), (4, GONE, 6, 5));
        assert!(slots.is_of_work(2) && !slots.is_of_work(1));
    }
}
