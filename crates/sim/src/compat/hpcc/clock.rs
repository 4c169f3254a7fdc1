//! Serialization times. The engine counts picoseconds; that simulator's clock counts nanoseconds.

const PS_PER_S: u128 = 1_000_000_000_000;

/// What becomes of the part of a nanosecond.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rounding {
    Down,
    Nearest,
    /// A departure: it stays.
    Exact,
}

/// Time that `bytes` take at `rate` bit/s, in ps.
///
/// Unless exact, as ns-3 has it: seconds as a double, cut to a multiple of 2^-64 s, rounded to whole nanoseconds. Rounded
/// down, 1000 B at 100 Gbit/s take 79 ns.
pub(super) fn serialization(bytes: u32, rate: u64, rounding: Rounding) -> u64 {
    let half = match rounding {
        Rounding::Exact => return (bytes as u128 * 8 * PS_PER_S / rate as u128) as u64,
        Rounding::Down => 0,
        Rounding::Nearest => 1 << 63,
    };
    let seconds = bytes as f64 * 8.0 / rate as f64;
    let fixed = seconds * 18_446_744_073_709_551_616.0;
    // Below a second, as all but the slowest are, a conversion to 64 bits is the same and no call.
    let fixed = if seconds < 1.0 { fixed as u64 as u128 } else { fixed as u128 };
    ((fixed * 1_000_000_000 + half) >> 64) as u64 * 1000
}

#[cfg(test)]
mod tests {
    use super::{serialization, Rounding};

    #[test]
    fn times_are_cut_as_in_ns3() {
        let g100 = 100_000_000_000;
        for (bytes, rate, ns) in [
            (1000, g100, 79),
            (1250, g100, 99),
            (1500, g100, 119),
            (4096, g100, 327),
            (1048, g100, 83),
            (60, g100, 4),
            (43, g100, 3),
            (1048, 4 * g100, 20),
        ] {
            assert_eq!(serialization(bytes, rate, Rounding::Down), ns * 1000, "{bytes} B");
        }
        assert_eq!(serialization(1048, g100, Rounding::Exact), 83_840);
        assert_eq!(serialization(1000, g100, Rounding::Nearest), 80_000);
        assert_eq!(serialization(1036, 4 * g100, Rounding::Nearest), 21_000);
    }
}
