//! One random stream for each entity, so that adding a flow never changes another's draws.

use rand_core::Rng;
use rand_pcg::Pcg32;

/// A random stream of one entity.
pub type Stream = Pcg32;

/// The stream of entity number `index` of a `kind`, for a seed.
///
/// State and stream selector are both mixed (splitmix64), because PCG streams that differ only in the selector are
/// correlated.
pub fn stream(seed: u64, kind: &str, index: u64) -> Stream {
    let kind = kind.bytes().fold(0xcbf2_9ce4_8422_2325u64, |hash, byte| {
        (hash ^ byte as u64).wrapping_mul(0x0000_0100_0000_01b3) // FNV-1a
    });
    let entity = splitmix64(kind ^ splitmix64(index));
    Pcg32::new(splitmix64(seed ^ entity), entity)
}

/// A number in [0, 1) with 32 random bits.
pub fn uniform(stream: &mut Stream) -> f64 {
    stream.next_u32() as f64 / 4_294_967_296.0
}

/// A hash of a number that may be small: the state's step of splitmix64, then its finalizer.
pub fn splitmix64(n: u64) -> u64 {
    mix(n.wrapping_add(0x9e37_79b9_7f4a_7c15))
}

/// A 64-bit finalizer (splitmix64's): every input bit changes every output bit with probability near one half.
pub fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_differ_by_seed_kind_and_index_and_repeat() {
        let first = |seed, kind, index| {
            let mut stream = stream(seed, kind, index);
            [stream.next_u32(), stream.next_u32()]
        };
        let base = first(1, "ecn", 0);
        assert_eq!(base, first(1, "ecn", 0));
        for other in [first(2, "ecn", 0), first(1, "loss", 0), first(1, "ecn", 1)] {
            assert_ne!(base, other);
        }
    }

    #[test]
    fn uniform_has_the_right_mean() {
        let mut stream = stream(7, "test", 0);
        let mean = (0..100_000).map(|_| uniform(&mut stream)).sum::<f64>() / 1e5;
        // Standard error 0.0009.
        assert!((mean - 0.5).abs() < 0.005, "{mean}");
    }
}
