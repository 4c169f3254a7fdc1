//! Which class of a port goes next.

// Strict priority and enhanced transmission selection (ETS) for the eight classes of a port.
//
// Sources: IEEE 802.1Q-2018, 8.6.8.1 (strict priority) and 8.6.8.3 with clause 37 (ETS: what strict classes leave is
// shared by bandwidth, and what one class does not use goes to the others); Shreedhar and Varghese, "Efficient Fair
// Queuing Using Deficit Round Robin", SIGCOMM 1995. A packet is charged after it was sent and may overdraw its class,
// as in Adiseshu, Parulkar and Varghese, "A Reliable and Scalable Striping Protocol", SIGCOMM 1996 (surplus round
// robin): a NIC knows the size of a packet only when it makes it. A class that is not strict and has a weight of 0 is
// served when no other class has anything (Linux mlx5 en_dcbnl.c, `mlx5e_build_tc_group`).
//
// Leaves out: rate limits of classes, and several classes in one ETS group.

/// Classes of a port.
const CLASSES: usize = 8;

/// Bytes that a class may send in a round, for each unit of its weight. With weights in per cent a round is 6,400 B:
/// about as short as rounds of whole packets can be, so that no class waits long.
const BYTES_PER_WEIGHT: i64 = 64;

/// Weights of classes that have none: equal among each other.
const EQUAL: i64 = 100 / CLASSES as i64;

/// The next class where classes take turns packet by packet: the highest strict class, else the next after `last`.
/// `eligible` must not be 0.
#[inline]
pub fn pick_round_robin(eligible: u8, strict: u8, last: u8) -> u8 {
    debug_assert_ne!(eligible, 0);
    let first = eligible & strict;
    if first != 0 {
        return highest(first);
    }
    next_after(eligible, last)
}

fn highest(classes: u8) -> u8 {
    7 - classes.leading_zeros() as u8
}

/// The lowest class above `last`, else the lowest of all.
#[inline]
fn next_after(classes: u8, last: u8) -> u8 {
    let after = classes & !((2u16 << last) - 1) as u8;
    (if after != 0 { after } else { classes }).trailing_zeros() as u8
}

/// A port's scheduler: strict classes, then shares of the bandwidth, then the classes without a share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ets {
    strict: u8,
    /// Classes with a share.
    weighted: u8,
    /// Class whose turn it is among those that are not strict.
    turn: u8,
    /// Bytes of a round.
    quantum: [i64; CLASSES],
    /// Bytes that may still be sent in this round; below 0: overdrawn.
    credit: [i64; CLASSES],
}

impl Ets {
    /// `strict`: a bit for each strict class. `weights`: shares of the bandwidth, in any unit; those of strict classes
    /// do not matter.
    pub fn new(strict: u8, weights: [u32; CLASSES]) -> Self {
        let mut weighted = 0;
        let mut quantum = [EQUAL * BYTES_PER_WEIGHT; CLASSES];
        for (class, &weight) in weights.iter().enumerate().filter(|&(_, &weight)| weight > 0) {
            weighted |= 1 << class;
            quantum[class] = weight as i64 * BYTES_PER_WEIGHT;
        }
        Ets { strict, weighted: weighted & !strict, turn: 0, quantum, credit: [0; CLASSES] }
    }

    /// Class that sends next, of those with a bit in `eligible`, which must not be 0.
    pub fn pick(&mut self, eligible: u8) -> u8 {
        debug_assert_ne!(eligible, 0);
        let strict = eligible & self.strict;
        if strict != 0 {
            return highest(strict);
        }
        let group = if eligible & self.weighted != 0 { eligible & self.weighted } else { eligible };
        let has_turn = |ets: &Ets, class: u8| group & (1 << class) != 0 && ets.credit[class as usize] > 0;
        if has_turn(self, self.turn) {
            return self.turn;
        }
        if !(0..CLASSES as u8).any(|class| has_turn(self, class)) {
            self.begin_round(group);
        }
        while !has_turn(self, self.turn) {
            self.turn = next_after(group, self.turn);
        }
        self.turn
    }

    /// Begins new rounds until one class of `group` may send. Classes with nothing to send keep no credit.
    fn begin_round(&mut self, group: u8) {
        let in_group = |class: &usize| group & (1 << class) != 0;
        let rounds = |class: usize| (self.quantum[class] - self.credit[class]) / self.quantum[class];
        let rounds = (0..CLASSES).filter(in_group).map(rounds).min().expect("a group has a class");
        for class in 0..CLASSES {
            self.credit[class] = match in_group(&class) {
                true => self.credit[class] + rounds * self.quantum[class],
                false => self.credit[class].min(0),
            };
        }
    }

    /// A packet of `class` was sent; `bytes` on the wire.
    #[inline]
    pub fn on_sent(&mut self, class: u8, bytes: u32) {
        self.credit[class as usize] -= bytes as i64;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn strict_classes_go_first_and_the_rest_take_turns() {
        assert_eq!(pick_round_robin(0b0100_1001, 0b0100_0000, 6), 6);
        assert_eq!(pick_round_robin(0b0100_1001, 0b0100_1000, 7), 6);
        assert_eq!(pick_round_robin(0b0000_1001, 0b0100_0000, 3), 0);
        assert_eq!(pick_round_robin(0b0000_1001, 0b0100_0000, 0), 3);
        assert_eq!(pick_round_robin(0b1000_0000, 0, 7), 7);
        let mut last = 0;
        let round: Vec<u8> = (0..6)
            .map(|_| {
                last = pick_round_robin(0b1001_0010, 0, last);
                last
            })
            .collect();
        assert_eq!(round, [1, 4, 7, 1, 4, 7]);
    }

    /// Bytes of each class after `packets` packets, of `sizes`, with `eligible` always waiting.
    fn sent(ets: &mut Ets, eligible: u8, sizes: [u32; 8], packets: usize) -> [u64; 8] {
        let mut bytes = [0; 8];
        for _ in 0..packets {
            let class = ets.pick(eligible);
            ets.on_sent(class, sizes[class as usize]);
            bytes[class as usize] += sizes[class as usize] as u64;
        }
        bytes
    }

    #[test]
    fn a_class_without_a_share_waits_for_all_others() {
        let mut ets = Ets::new(0b1000_0000, [0, 60, 0, 40, 0, 0, 0, 0]);
        assert_eq!(ets.pick(0b1000_1111), 7);
        assert_eq!(sent(&mut ets, 0b1111, [1000; 8], 100)[0], 0);
        let equal = sent(&mut ets, 0b0101, [1000, 0, 500, 0, 0, 0, 0, 0], 3000);
        assert!(equal[0].abs_diff(equal[2]) < 3000, "{equal:?}");
    }

    #[test]
    fn what_a_class_does_not_use_is_not_saved_up() {
        let mut ets = Ets::new(0, [50, 50, 0, 0, 0, 0, 0, 0]);
        sent(&mut ets, 0b01, [1000; 8], 1000);
        let both = sent(&mut ets, 0b11, [1000; 8], 100);
        assert!(both[0].abs_diff(both[1]) <= 8000, "{both:?}");
    }

    proptest! {
        /// Classes that always have something to send get their shares, whatever their packets' sizes are.
        #[test]
        fn shares_hold(
            weights in prop::array::uniform8(0u32..=100),
            sizes in prop::array::uniform8(84u32..=9236),
            strict: u8,
            eligible: u8,
        ) {
            let group: Vec<usize> = (0..8)
                .filter(|&class| (eligible & !strict) & (1 << class) != 0 && weights[class] > 0)
                .collect();
            prop_assume!(!group.is_empty());
            let mut ets = Ets::new(strict, weights);
            let eligible = group.iter().fold(0, |mask, class| mask | 1 << class);
            let bytes = sent(&mut ets, eligible, sizes, 100_000);
            let all: u64 = bytes.iter().sum();
            let sum: u32 = group.iter().map(|&class| weights[class]).sum();
            for class in group {
                let (share, due) = (bytes[class] as f64 / all as f64, weights[class] as f64 / sum as f64);
                prop_assert!((share - due).abs() < 0.01 * due.max(0.1), "class {class}: {share}, not {due}");
            }
        }
    }
}
