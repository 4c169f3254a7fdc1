//! `flow.txt`: the number of flows, then `src dst pg dport bytes start` for each, sorted by start.
//!
//! Read as C++ streams read it: tokens between white space, line breaks or not; what follows the last token that is
//! needed is never looked at. A start is in seconds and becomes whole nanoseconds, rounded down from the exact binary
//! number: a flow at 2.000000577 may start at ...576 ns.

use super::plan::Flow;

const TOKENS_A_FLOW: usize = 6;
/// No number that means something is longer.
const LONGEST_NUMBER: usize = 400;
/// What 63 bits of nanoseconds hold, as seconds.
const LAST_START_S: f64 = i64::MAX as f64 / 1e9;

/// What is not as it should be.
#[derive(Debug, PartialEq, Eq)]
pub struct Refused {
    /// Line of the token, from 1; that of the last token where the file ends too early.
    pub line: usize,
    /// The token; none at the end of the file.
    pub token: Option<Vec<u8>>,
    /// What belongs there.
    pub expected: String,
}

/// The hosts of a network, by node id.
pub struct Hosts<'a> {
    /// Whether a node is one.
    pub is_host: &'a [bool],
    /// Groups of switches that each node is linked to, in order: two hosts have a route if they share one.
    pub zones: &'a [Vec<u32>],
}

impl Hosts<'_> {
    fn are_connected(&self, a: u32, b: u32) -> bool {
        let (a, b) = (&self.zones[a as usize], &self.zones[b as usize]);
        a.iter().any(|zone| b.contains(zone))
    }
}

/// Reads a list of flows between the hosts of a network.
///
/// # Errors
/// The first token that is not what belongs there.
pub fn read(data: &[u8], hosts: &Hosts<'_>) -> Result<Vec<Flow>, Refused> {
    let mut tokens = Tokens { data, at: 0, line: 1 };
    let what = "the number of flows";
    let (first, count) = tokens.integer(what, 0, u32::MAX as u64)?;
    // The count is checked against the file before anything is made of it.
    let there = tokens.clone().count() / TOKENS_A_FLOW;
    if (there as u64) < count {
        // traffic_gen.py writes an estimate first and goes back to put the count over it; a shorter count leaves
        // the estimate's last digit behind.
        let stray = if count / 10 == there as u64 && count >= 10 {
            format!(" ({there} and a stray digit?)")
        } else {
            String::new()
        };
        return Err(first.refuse(format!("{what}: {there} of {TOKENS_A_FLOW} tokens each follow{stray}")));
    }
    let mut flows = Vec::with_capacity(count as usize);
    let mut last = 0;
    for _ in 0..count {
        let flow = tokens.flow(hosts, last)?;
        last = flow.5;
        flows.push(flow);
    }
    Ok(flows)
}

#[derive(Clone, Copy)]
struct Token<'a> {
    line: usize,
    word: &'a [u8],
}

impl Token<'_> {
    fn refuse(&self, expected: String) -> Refused {
        Refused { line: self.line, token: Some(self.word.to_vec()), expected }
    }

    /// Decimal digits, a plus before them or not.
    fn integer(&self) -> Option<u64> {
        let digits = self.word.strip_prefix(b"+").unwrap_or(self.word);
        let digit = |byte: u8| byte.is_ascii_digit().then_some(u64::from(byte & 0xf));
        let add = |value: u64, &byte: &u8| value.checked_mul(10)?.checked_add(digit(byte)?);
        (1..=20).contains(&digits.len()).then(|| digits.iter().try_fold(0, add))?
    }

    /// A decimal number, with or without an exponent.
    fn real(&self) -> Option<f64> {
        let known = |byte: &u8| byte.is_ascii_digit() || b"+-.eE".contains(byte);
        let plain = self.word.len() <= LONGEST_NUMBER && self.word.iter().all(known);
        // What is left of what Rust reads is what C's streams read: no names of infinity, and no NaN.
        plain.then(|| std::str::from_utf8(self.word).ok()?.parse().ok())?
    }
}

#[derive(Clone)]
struct Tokens<'a> {
    data: &'a [u8],
    at: usize,
    /// That of the last token.
    line: usize,
}

/// The white space of the C locale.
fn is_space(byte: u8) -> bool {
    byte == b' ' || (b'\t'..=b'\r').contains(&byte)
}

impl<'a> Iterator for Tokens<'a> {
    type Item = Token<'a>;

    fn next(&mut self) -> Option<Token<'a>> {
        let blank = self.data[self.at..].iter().take_while(|&&byte| is_space(byte)).count();
        let begin = self.at + blank;
        let end = begin + self.data[begin..].iter().take_while(|&&byte| !is_space(byte)).count();
        if begin == end {
            return None;
        }
        self.line += self.data[self.at..begin].iter().filter(|&&byte| byte == b'\n').count();
        self.at = end;
        Some(Token { line: self.line, word: &self.data[begin..end] })
    }
}

impl<'a> Tokens<'a> {
    fn take(&mut self, expected: &str) -> Result<Token<'a>, Refused> {
        let line = self.line;
        self.next().ok_or_else(|| Refused { line, token: None, expected: expected.to_owned() })
    }

    /// The next token as a whole number of `low` to `high`.
    fn integer(&mut self, what: &str, low: u64, high: u64) -> Result<(Token<'a>, u64), Refused> {
        let token = self.take(what)?;
        match token.integer().filter(|value| (low..=high).contains(value)) {
            Some(value) => Ok((token, value)),
            None => Err(token.refuse(format!("{what}, a whole number from {low} to {high}"))),
        }
    }

    /// The next flow; the one above it starts at `last` ns.
    fn flow(&mut self, hosts: &Hosts<'_>, last: u64) -> Result<Flow, Refused> {
        let most = hosts.is_host.len().saturating_sub(1) as u64;
        let (from, src) = self.integer("the id of the sending host", 0, most)?;
        let (to, dst) = self.integer("the id of the receiving host", 0, most)?;
        for (token, node) in [(from, src), (to, dst)] {
            if !hosts.is_host[node as usize] {
                return Err(token.refuse(format!("a host, found switch {node}")));
            }
        }
        if src == dst {
            return Err(to.refuse("another host than the sender".into()));
        }
        let (_, priority) = self.integer("a priority", 0, 7)?;
        let (_, port) = self.integer("a destination port", 0, u16::MAX as u64)?;
        let (_, bytes) = self.integer("bytes to send", 1, u32::MAX as u64)?;
        let what = "the start in seconds";
        let at = self.take(what)?;
        let Some(seconds) = at.real().filter(|value| (0.0..=LAST_START_S).contains(value)) else {
            return Err(at.refuse(format!("{what}, a number from 0 to 9223372036.85478")));
        };
        let start = nanoseconds(seconds);
        if start < last {
            let rule = "flows are sorted by start";
            return Err(at.refuse(format!("a start not before that of the flow above, {last} ns ({rule})")));
        }
        let (src, dst) = (src as u32, dst as u32);
        if !hosts.are_connected(src, dst) {
            return Err(to.refuse(format!("a host that host {src} has a route to")));
        }
        Ok(Flow(src, dst, priority as u32, port as u32, bytes, start))
    }
}

/// Seconds as ns-3 holds them: whole nanoseconds, rounded down from its fixed-point number with 64 bits behind the
/// point (`int64x64_t`).
fn nanoseconds(seconds: f64) -> u64 {
    let whole = seconds.floor();
    let behind = ((seconds - whole) * 2f64.powi(64)) as u64;
    whole as u64 * 1_000_000_000 + ((u128::from(behind) * 1_000_000_000) >> 64) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(text: &str) -> (usize, Option<String>, String) {
        let zones = [vec![0], vec![0, 1], vec![], vec![1]];
        let hosts = Hosts { is_host: &[true, true, false, true], zones: &zones };
        match read(text.as_bytes(), &hosts) {
            Ok(flows) => panic!("{flows:?}"),
            Err(one) => {
                (one.line, one.token.map(|word| String::from_utf8(word).expect("text")), one.expected)
            }
        }
    }

    #[test]
    fn starts_are_rounded_down_from_the_exact_binary_number() {
        assert_eq!(nanoseconds(2.000000577), 2_000_000_576);
        assert_eq!(nanoseconds(0.0), 0);
        assert_eq!(nanoseconds(1e-300), 0);
        assert_eq!(nanoseconds(9223372036.0), 9_223_372_036_000_000_000);
        // 0.3 is 5404319552844595 / 2^54, a little below; 0.1 is above.
        assert_eq!((nanoseconds(0.3), nanoseconds(0.1)), (299_999_999, 100_000_000));
    }

    #[test]
    fn tokens_are_read_with_or_without_lines() {
        let hosts = Hosts { is_host: &[true, true], zones: &[vec![0], vec![0]] };
        let flows = read(b"2 0 1\x0b3 +100 7\t.5\r\n1 0 3 100 8 1e0 and more", &hosts).expect("a list");
        let rows: Vec<_> = flows.iter().map(|f| (f.0, f.1, f.2, f.3, f.4, f.5)).collect();
        assert_eq!(rows, [(0, 1, 3, 100, 7, 500_000_000), (1, 0, 3, 100, 8, 1_000_000_000)]);
    }

    #[test]
    fn what_is_wrong_is_named_with_its_line() {
        let start = "the start in seconds, a number from 0 to 9223372036.85478";
        for word in ["inf", "nan", "1e999", "-1", "0x1", "1_0", "e5", "."] {
            assert_eq!(refused(&format!("1\n0 1 3 100 5 {word}")), (2, Some(word.into()), start.into()));
        }
        assert_eq!(refused(" \n"), (1, None, "the number of flows".into()));
        assert_eq!(refused("1\n\n0 2 3 100 5 1").1, Some("2".into()));
        assert_eq!(refused("1\n\n0 3 3 100 5 1").2, "a host that host 0 has a route to");
        assert_eq!(refused("2\n0 1 3 100 5 1\n\n0 1 3 100 5 0.9").0, 4);
        assert_eq!(
            refused("12 0 1 3 100 5 1").2,
            "the number of flows: 1 of 6 tokens each follow (1 and a stray digit?)"
        );
        assert_eq!(refused("5 0 1 3 100 5").2, "the number of flows: 0 of 6 tokens each follow");
        assert_eq!(refused("1 0 1 3 100 99999999999999999999 1").1, Some("99999999999999999999".into()));
    }
}
