//! glibc's `rand()`, never seeded: the additive feedback generator x[n] = x[n-3] + x[n-31] (mod 2^32) without its lowest bit.
//!
//! The first 31 numbers follow from the seed by Park and Miller's generator, x[n] = 16807 x[n-1] mod (2^31 - 1); ten times
//! as many are thrown away (glibc's manual, "ISO Random", and `random(3)`).

const LENGTH: usize = 31;
const LAG: usize = 3;
const SEED: u32 = 1;
/// How often as many numbers are thrown away.
const DISCARDED: usize = 10;

/// The stream of a process that never calls `srand`.
#[derive(Clone, Debug)]
pub(in super::super) struct Rand {
    /// As many numbers as the next ones follow from. They are worked out all at once, which needs no look at each for where the
    /// ring ends.
    last: [u32; LENGTH],
    /// The one that is drawn next.
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
        // There, the first sum is that of the first seed and of the one so far behind it.
        last.rotate_left(LAG);
        let mut rand = Rand { last, at: 0, drawn: 0 };
        for _ in 0..DISCARDED {
            rand.work_out();
        }
        rand.at = LENGTH;
        rand
    }
}

impl Rand {
    /// The next number, of 31 bits.
    #[inline]
    pub fn draw(&mut self) -> u32 {
        let number = match self.last.get(self.at) {
            Some(&number) => number,
            None => self.work_out(),
        };
        self.at += 1;
        self.drawn += 1;
        number >> 1
    }

    /// The next numbers, as many as are kept. The first of them.
    #[inline(never)]
    fn work_out(&mut self) -> u32 {
        for at in 0..LENGTH {
            self.last[at] = self.last[at].wrapping_add(self.last[(at + LENGTH - LAG) % LENGTH]);
        }
        self.at = 0;
        self.last[0]
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
