//! PCIe flow control of posted writes: the sender's books.
//!
//! Source: PCI Express base specification, section 2.6 (flow control). A memory write takes one header credit and one data
//! credit for each 16 B of payload; it may leave while the credits consumed stay within those granted, and the receiver
//! grants them again when it has passed the write on. So throughput is the credits over the time that each is away
//! (Little's law), or the link's rate, whichever is less.
//!
//! A burst of many writes is one step here: within it, writes leave evenly over its time on the link and credits
//! come back evenly over the span in which the receiver passes it on. Whoever sends a burst says at once when its
//! credits will be back; what a credit waits for is then arithmetic, and no write has an event.
//!
//! Leaves out: completions and non-posted credits (reads are paced by what may be outstanding), and credits that are
//! handed back in lumps of more than a write.

use std::collections::VecDeque;

use crate::units::Time;

/// Payload that one data credit stands for (section 2.6.1).
pub const DATA_CREDIT_BYTES: u64 = 16;

/// Credits: of a receiver, of a burst, or consumed so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Credits {
    /// Writes.
    pub header: u64,
    /// Units of 16 B of payload.
    pub data: u64,
}

impl Credits {
    /// What `bytes` of payload take as writes of at most `max_payload` each.
    pub fn of_write(bytes: u64, max_payload: u64) -> Credits {
        let (full, rest) = (bytes / max_payload, bytes % max_payload);
        let units = |payload: u64| payload.div_ceil(DATA_CREDIT_BYTES);
        Credits { header: full + (rest > 0) as u64, data: full * units(max_payload) + units(rest) }
    }

    fn plus(self, other: Credits) -> Credits {
        Credits { header: self.header + other.header, data: self.data + other.data }
    }
}

/// When the credits of one burst come back: evenly from `from` to `to`.
#[derive(Clone, Copy, Debug)]
struct Return {
    /// Consumed before the burst, and with it.
    before: Credits,
    after: Credits,
    from: Time,
    to: Time,
}

/// The sender's books of posted credits.
#[derive(Clone, Debug)]
pub struct PostedCredits {
    granted: Credits,
    consumed: Credits,
    /// Bursts whose credits a later burst may wait for, oldest first.
    returns: VecDeque<Return>,
}

impl PostedCredits {
    /// All credits that the receiver grants are free.
    pub fn new(granted: Credits) -> Self {
        PostedCredits { granted, consumed: Credits::default(), returns: VecDeque::with_capacity(64) }
    }

    /// What the receiver grants.
    pub fn granted(&self) -> Credits {
        self.granted
    }

    /// Consumed since the start.
    pub fn consumed(&self) -> Credits {
        self.consumed
    }

    /// When a burst leaves, from its first to its last bit, that could begin at `start` and would take `span` on the
    /// link. It must not be larger than the credits granted. Nothing is consumed.
    pub fn departure(&mut self, burst: Credits, start: Time, span: Time) -> (Time, Time) {
        debug_assert!(burst.header <= self.granted.header && burst.data <= self.granted.data);
        let (mut first, mut last) = (start, start + span);
        // Nothing waits for credits that are back by now; bursts begin in order.
        while self.returns.front().is_some_and(|kept| kept.to <= start) {
            self.returns.pop_front();
        }
        for kept in &self.returns {
            let headers = Axis {
                consumed: self.consumed.header,
                granted: self.granted.header,
                burst: burst.header,
                kept: (kept.before.header, kept.after.header),
            };
            let data = Axis {
                consumed: self.consumed.data,
                granted: self.granted.data,
                burst: burst.data,
                kept: (kept.before.data, kept.after.data),
            };
            for axis in [headers, data] {
                let (from, to) = axis.departure(kept, span);
                first = first.max(from);
                last = last.max(to);
            }
        }
        (first, last)
    }

    /// A burst leaves; its credits will come back evenly from `from` to `to`, not before those of earlier bursts.
    pub fn send(&mut self, burst: Credits, from: Time, to: Time) {
        debug_assert!(from <= to);
        let before = self.consumed;
        self.consumed = before.plus(burst);
        self.returns.push_back(Return { before, after: self.consumed, from, to });
    }

    /// Credits that are away at `now`: consumed by writes that left, and not yet back. `now` must not lie before the
    /// last burst that was asked for.
    pub fn in_use(&self, now: Time) -> Credits {
        let mut away = Credits::default();
        for kept in self.returns.iter().rev() {
            let left = |before: u64, after: u64| {
                let burst = after - before;
                match kept.to.0.saturating_sub(now.0) {
                    0 => 0,
                    _ if now <= kept.from => burst,
                    wait => (burst as u128 * wait as u128).div_ceil((kept.to - kept.from).0 as u128) as u64,
                }
            };
            away.header += left(kept.before.header, kept.after.header);
            away.data += left(kept.before.data, kept.after.data);
        }
        away
    }
}

/// `part` of `whole` of a span, rounded up.
fn share(span: Time, part: u64, whole: u64) -> u64 {
    match span.0.checked_mul(part) {
        Some(product) => product.div_ceil(whole), // much quicker than 128 bits
        None => (span.0 as u128 * part as u128).div_ceil(whole as u128) as u64,
    }
}

/// One kind of credits: a burst that waits, and an earlier one whose credits come back.
struct Axis {
    consumed: u64,
    granted: u64,
    burst: u64,
    kept: (u64, u64),
}

impl Axis {
    /// The earliest beginning and end of the burst that this return allows. Credit number `n` of all that were ever
    /// consumed must be back before number `n + granted` is used; what of the burst follows that needs its share of
    /// `span` yet. Within a return both are linear, so the worst is at one end of what they have in common.
    fn departure(&self, kept: &Return, span: Time) -> (Time, Time) {
        let first = self.kept.0.max(self.consumed.saturating_sub(self.granted));
        let last = self.kept.1.min((self.consumed + self.burst).saturating_sub(self.granted));
        if first >= last {
            return (Time::ZERO, Time::ZERO);
        }
        let width = self.kept.1 - self.kept.0;
        let back_at = |number: u64| kept.from.0 + share(kept.to - kept.from, number - self.kept.0, width);
        let end_from = |number: u64| {
            let rest = self.consumed + self.burst - self.granted - number;
            back_at(number) + if rest > 0 { share(span, rest, self.burst) } else { 0 }
        };
        let begin = if first + self.granted == self.consumed { back_at(first) } else { 0 };
        (Time(begin), Time(end_from(first).max(end_from(last))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SPAN: Time = Time::from_ns(100);

    fn credits(header: u64, data: u64) -> Credits {
        Credits { header, data }
    }

    #[test]
    fn a_write_takes_a_header_and_a_unit_for_each_16_bytes() {
        assert_eq!(Credits::of_write(4096, 256), credits(16, 256));
        assert_eq!(Credits::of_write(1, 256), credits(1, 1));
        assert_eq!(Credits::of_write(257, 256), credits(2, 17));
        assert_eq!(Credits::of_write(0, 256), credits(0, 0));
    }

    #[test]
    fn within_the_credits_only_the_link_counts() {
        let mut books = PostedCredits::new(credits(32, 512));
        assert_eq!(books.departure(credits(16, 256), Time(50), SPAN).1, Time(50) + SPAN);
    }

    #[test]
    fn what_exceeds_the_credits_waits_for_their_return() {
        let mut books = PostedCredits::new(credits(16, 256));
        books.send(credits(16, 256), Time::from_ns(1000), Time::from_ns(1100));
        // As fast as the credits come back the link can send: the last one leaves as it is back.
        assert_eq!(books.departure(credits(16, 256), Time::from_ns(100), SPAN).1, Time::from_ns(1100));
        // Slower than they come back: the first one decides.
        assert_eq!(
            books.departure(credits(16, 256), Time::from_ns(100), Time::from_ns(300)).1,
            Time::from_ns(1300)
        );
        // Half of the credits are enough for half a burst.
        assert_eq!(
            books.departure(credits(8, 128), Time::from_ns(100), Time::from_ns(50)).1,
            Time::from_ns(1050)
        );
    }

    #[test]
    fn headers_run_out_before_data_where_writes_are_small() {
        let mut books = PostedCredits::new(credits(2, 256));
        books.send(credits(2, 2), Time::from_ns(500), Time::from_ns(500));
        assert_eq!(books.departure(credits(1, 1), Time::ZERO, Time::from_ns(10)).1, Time::from_ns(510));
    }

    /// Little's law: granted credits over the time that each is away.
    #[test]
    fn throughput_is_credits_over_latency() {
        let mut books = PostedCredits::new(credits(1000, 372));
        let (burst, span, loop_time) = (credits(4, 64), Time::from_ns(65), Time::from_ns(1280));
        let mut at = Time::ZERO;
        let bursts = 10_000;
        for _ in 0..bursts {
            let (begin, end) = books.departure(burst, at, span);
            books.send(burst, begin + loop_time, end + loop_time);
            assert!(books.in_use(end).data <= 372, "{:?}", books.in_use(end));
            at = end;
        }
        let per_second = bursts as f64 * 1024.0 / at.as_secs_f64();
        let expected = 372.0 * 16.0 / loop_time.as_secs_f64();
        assert!((per_second / expected - 1.0).abs() < 0.06, "{per_second} of {expected}");
    }
}
