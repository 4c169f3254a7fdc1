//! That simulator's file of finished messages.

use std::fmt::Write;

use super::routing::address;
use super::world::Fct;

/// Bytes of a line, about.
const LINE_BYTES: usize = 56;

/// `fct.txt`: a line a finished message. Addresses in hexadecimal, ports, bytes, start, completion time and its ideal, ns.
pub fn fct_text(rows: &[Fct]) -> String {
    let mut text = String::with_capacity(rows.len() * LINE_BYTES);
    for &Fct { src, dst, sport, dport, bytes, start_ns, fct_ns, standalone_ns } in rows {
        let (src, dst) = (address(src), address(dst));
        let line =
            format_args!("{src:08x} {dst:08x} {sport} {dport} {bytes} {start_ns} {fct_ns} {standalone_ns}\n");
        text.write_fmt(line).expect("a text takes all");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Addresses are 11.(id / 256).(id % 256).1.
    #[test]
    fn a_line_a_message() {
        let row = |src, dst| Fct {
            src,
            dst,
            sport: 10_000,
            dport: 100,
            bytes: 1,
            start_ns: 2,
            fct_ns: 3,
            standalone_ns: 4,
        };
        let text = fct_text(&[row(0, 1), row(255, 256), row(65_535, 0)]);
        let ends: Vec<&str> =
            text.lines().filter_map(|line| line.strip_suffix(" 10000 100 1 2 3 4")).collect();
        assert_eq!(ends, ["0b000001 0b000101", "0b00ff01 0b010001", "0bffff01 0b000001"]);
    }
}
