//! ns-3's random numbers as far as that simulator draws them.
//!
//! The generator is MRG32k3a with streams (L'Ecuyer, Simard, Chen and Kelton, "An object-oriented random-number
//! package with many long streams and substreams", Operations Research 50(6), 2002): stream `k` starts `k * 2^127`
//! steps after the seed, substream `r` another `r * 2^76` steps on; ns-3's run number is the substream. A variable
//! without a stream of its own takes the next one. A marking decision makes a new variable, and so does every PFC
//! frame for its IPv4 identification: each uses up one stream for its first number.

const M1: u64 = 4_294_967_087;
const M2: u64 = 4_294_944_443;
const A12: u64 = 1_403_580;
const A13N: u64 = 810_728;
const A21: u64 = 527_612;
const A23N: u64 = 1_370_589;
type Matrix = [[u64; 3]; 3];
const A1: Matrix = [[0, 1, 0], [0, 0, 1], [M1 - A13N, A12, 0]];
const A2: Matrix = [[0, 1, 0], [0, 0, 1], [M2 - A23N, 0, A21]];
const STREAM_BITS: u32 = 127;
const SUBSTREAM_BITS: u32 = 76;

/// Streams that building a network takes before the first packet: those of its nodes, and two for each error model, of
/// which there is one for all links and one for each link with an error rate of its own.
pub(super) fn streams_before_start(of_nodes: u64, links_with_errors: u64) -> u64 {
    of_nodes + 2 * (1 + links_with_errors)
}

fn multiply(a: &Matrix, b: &Matrix, m: u64) -> Matrix {
    std::array::from_fn(|i| {
        std::array::from_fn(|j| (0..3).fold(0, |sum, k| (sum + a[i][k] * b[k][j] % m) % m))
    })
}

fn apply(a: &Matrix, s: &[u64; 3], m: u64) -> [u64; 3] {
    // 2^32 = rest (mod m), so that three products fit a word before the division.
    let rest = (1u64 << 32) - m;
    let fold = |x: u64| (x >> 32) * rest + (x & 0xffff_ffff);
    std::array::from_fn(|i| (fold(a[i][0] * s[0]) + fold(a[i][1] * s[1]) + fold(a[i][2] * s[2])) % m)
}

/// `a^(2^exponent)`.
fn power_of_two(a: &Matrix, exponent: u32, m: u64) -> Matrix {
    (0..exponent).fold(*a, |power, _| multiply(&power, &power, m))
}

/// State of both components.
#[derive(Clone, Copy, Debug)]
struct State([u64; 3], [u64; 3]);

impl State {
    fn seeded(seed: u32) -> Self {
        State([seed as u64; 3], [seed as u64; 3])
    }

    /// Goes `times * 2^bits` steps on.
    fn skip(&mut self, mut times: u64, bits: u32) {
        let mut first = power_of_two(&A1, bits, M1);
        let mut second = power_of_two(&A2, bits, M2);
        while times > 0 {
            if times & 1 == 1 {
                self.0 = apply(&first, &self.0, M1);
                self.1 = apply(&second, &self.1, M2);
            }
            first = multiply(&first, &first, M1);
            second = multiply(&second, &second, M2);
            times >>= 1;
        }
    }

    /// The next number in (0, 1), and the state after it.
    #[inline]
    fn next(&mut self) -> f64 {
        let State(a, b) = self;
        let p1 = (A12 * a[1] + A13N * (M1 - a[0])) % M1;
        *a = [a[1], a[2], p1];
        let p2 = (A21 * b[2] + A23N * (M2 - b[0])) % M2;
        *b = [b[1], b[2], p2];
        let norm = 1.0 / (M1 as f64 + 1.0);
        let difference = if p1 > p2 { p1 - p2 } else { p1 + M1 - p2 };
        difference as f64 * norm
    }
}

/// First numbers of one stream after the other.
#[derive(Debug)]
pub(super) struct FirstNumbers {
    state: State,
    stride: (Matrix, Matrix),
    /// Streams used so far.
    pub drawn: u64,
}

impl FirstNumbers {
    /// From stream `first` on, in substream `run`.
    pub fn new(seed: u32, run: u32, first: u64) -> Self {
        let mut state = State::seeded(seed);
        state.skip(first, STREAM_BITS);
        state.skip(run as u64, SUBSTREAM_BITS);
        let stride = (power_of_two(&A1, STREAM_BITS, M1), power_of_two(&A2, STREAM_BITS, M2));
        FirstNumbers { state, stride, drawn: 0 }
    }

    /// The first number of the next stream.
    #[inline]
    pub fn draw(&mut self) -> f64 {
        let value = { self.state }.next();
        self.skip();
        value
    }

    /// Passes over a stream whose number has no effect.
    #[inline]
    pub fn skip(&mut self) {
        self.state.0 = apply(&self.stride.0, &self.state.0, M1);
        self.state.1 = apply(&self.stride.1, &self.state.1, M2);
        self.drawn += 1;
    }
}

/// One explicit stream, number after number.
#[derive(Debug)]
pub(super) struct Stream(State);

impl Stream {
    /// ns-3 keeps the upper half of all streams for explicit numbers.
    pub fn explicit(seed: u32, run: u32, number: u64) -> Self {
        let mut state = State::seeded(seed);
        state.skip((1 << 63) + number, STREAM_BITS);
        state.skip(run as u64, SUBSTREAM_BITS);
        Stream(state)
    }

    #[inline]
    pub fn draw(&mut self) -> f64 {
        self.0.next()
    }
}

// glibc's `rand()`, never seeded: the additive feedback generator x[n] = x[n-3] + x[n-31] (mod 2^32) without its lowest bit.
//
// The first 31 numbers follow from the seed by Park and Miller's generator, x[n] = 16807 x[n-1] mod (2^31 - 1); ten times
// as many are thrown away (glibc's manual, "ISO Random", and `random(3)`).

const RING_LENGTH: usize = 31;
const RING_LAG: usize = 3;
const SEED: u32 = 1;

/// How often as many numbers are thrown away.
const DISCARDED_ROUNDS: usize = 10;

/// The stream of a process that never calls `srand`.
#[derive(Clone, Debug)]
pub(in crate::hpcc) struct Rand {
    /// As many numbers as the next ones follow from. They are worked out all at once, which needs no look at each for where the
    /// ring ends.
    last: [u32; RING_LENGTH],
    /// The one that is drawn next.
    at: usize,
    /// Numbers drawn.
    pub drawn: u64,
}

impl Default for Rand {
    fn default() -> Self {
        let mut last = [SEED; RING_LENGTH];
        for i in 1..RING_LENGTH {
            last[i] = (last[i - 1] as u64 * 16_807 % 0x7fff_ffff) as u32;
        }
        // There, the first sum is that of the first seed and of the one so far behind it.
        last.rotate_left(RING_LAG);
        let mut rand = Rand { last, at: 0, drawn: 0 };
        for _ in 0..DISCARDED_ROUNDS {
            rand.work_out();
        }
        rand.at = RING_LENGTH;
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
        for at in 0..RING_LENGTH {
            self.last[at] =
                self.last[at].wrapping_add(self.last[(at + RING_LENGTH - RING_LAG) % RING_LENGTH]);
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
