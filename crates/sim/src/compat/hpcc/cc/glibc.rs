//! glibc's `rand()`, never seeded: the additive feedback generator x[n] = x[n-3] + x[n-31] (mod 2^32) without its lowest bit.
//!
//! The first 31 numbers follow from the seed by Park and Miller's generator, x[n] = 16807 x[n-1] mod (2^31 - 1); ten times
//! as many are thrown away (glibc's manual, "ISO Random", and `random(3)`).

const LENGTH: usize = 31;
const LAG: usize = 3;
const SEED: u32 = 1;
const DISCARDED: usize = 10 * LENGTH;

/// The stream of a process that never calls `srand`.
#[derive(Clone, Debug)]
pub(in super::super) struct Rand {
    last: [u32; LENGTH],
    at: usize,
    /// Numbers drawn.
    pub drawn: u64,
}

impl Default for Rand {
    fn default() -> Self {
        let mut last = [SEED; LENGTH];
        for i in 1..LENGTH {
            last[i] = (last[i - 1] as u64 * 16_807 % 0x7fff_ffff) as u32;
        }
        let mut rand = Rand { last, at: LAG, drawn: 0 };
        for _ in 0..DISCARDED {
            rand.draw();
        }
        rand.drawn = 0;
        rand
    }
}

impl Rand {
    /// The next number, of 31 bits.
    #[inline]
    pub fn draw(&mut self) -> u32 {
        let front = if self.at < LAG { self.at + LENGTH - LAG } else { self.at - LAG };
        let sum = self.last[self.at].wrapping_add(self.last[front]);
        self.last[self.at] = sum;
        self.at = if self.at + 1 == LENGTH { 0 } else { self.at + 1 };
        self.drawn += 1;
        sum >> 1
    }
}

#[cfg(test)]
mod tests {
    use super::Rand;

    /// What a C program prints that calls `rand()` and nothing else; the 1000th, too.
    #[test]
    fn the_numbers_are_those_of_the_library() {
        let mut rand = Rand::default();
        let first: Vec<u32> = (0..5).map(|_| rand.draw()).collect();
        assert_eq!(first, [1_804_289_383, 846_930_886, 1_681_692_777, 1_714_636_915, 1_957_747_793]);
        let thousandth = (5..1000).map(|_| rand.draw()).last();
        assert_eq!((thousandth, rand.drawn), (Some(1_143_565_421), 1000));
    }
}
