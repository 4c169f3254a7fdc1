//! The memory controller's queue of pending writes.
//!
//! Sources: Intel, "Xeon Processor E5-2600 product family uncore performance monitoring guide" (327043-001), section on the
//! iMC: 32 entries a channel; a write is complete for the rest of the system once it is posted there; what has no entry waits
//! for one; the controller is in read mode or in *write major mode*. Chatterjee et al., "Staged reads", HPCA 2012,
//! section 2 (writes are drained in batches between two watermarks of the queue).
//!
//! A write *ends* when it gets an entry, not when it is in DRAM. So it waits only while the queue is full,
//! for as long as the queue takes to drain what is ahead of it. If a queue drains faster than it fills,
//! no write waits, however busy the controller is.
//!
//! The queue is drained in batches. Before each batch, reads are served for a random time. Take K entries in
//! B batches, and let L be the mean time that a write of a full queue stays beyond what the bus needs for it.
//! Then the mean time of reads is L / B, and a full queue drains at `K / (K / bandwidth + L)`: Little's law.
//!
//! There are no events for lines. Lines are numbered as they come, and a line may enter once the batch B
//! before its own has been drained. Batch j is drained when batch j - 1 is, or when its own last line came,
//! plus the reads before it, plus its time on the bus.
//!
//! In every refresh interval, nothing is drained for the time of a refresh (JEDEC JESD79-4, section on
//! refresh: tREFI, tRFC). The work in between takes that much less time, so that the mean drain rate is the
//! same as without refresh: the bandwidth is a measured one, which includes refresh. All channels are
//! refreshed at once (assumption: writes end in order, so a single stalled channel holds up as many lines for
//! each of its entries as all channels stalled together).
//!
//! Leaves out: entries taken by the cores' writes; a full queue of one channel while others have room; ranks,
//! one of which may be refreshed while another is written.

use std::collections::VecDeque;
use tailback_proto::units::Time;

/// Lines of a batch: half of the 32 entries of a channel (assumption: watermarks half of the queue apart, and channels
/// one after the other, as addresses are spread over them).
const BATCH_LINES: u64 = 16;

/// Times in which the memory serves nothing.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Refresh {
    /// From the beginning of one to the beginning of the next; longer than `time`.
    pub interval: Time,
    pub time: Time,
    /// How long before time 0 one began; less than `interval`.
    pub phase: Time,
}

impl Refresh {
    /// When work is done that takes the time `work` on average, including refresh.
    fn end(&self, start: Time, work: Time) -> Time {
        let Refresh { interval, time, phase } = *self;
        if time == Time::ZERO {
            return start + work;
        }
        let free = interval - time;
        let work = Time((work.0 as f64 * (free.0 as f64 / interval.0 as f64)) as u64);
        let within = (start + phase).0 % interval.0;
        let served = within.saturating_sub(time.0) + work.0;
        let under_way = time.0.saturating_sub(within);
        let more = served.saturating_sub(1) / free.0 * time.0;
        start + work + Time(under_way + more)
    }
}

/// The queue of writes that no DRAM page has taken yet.
#[derive(Debug)]
pub(crate) struct WriteQueue {
    /// Lines in a batch.
    batch: u64,
    /// Time of a batch on the bus.
    span: Time,
    refresh: Refresh,
    /// Lines that have entered so far.
    entered: u64,
    /// When the batches before the one being filled were drained, for as many as the queue has room for,
    /// oldest first.
    drained: VecDeque<Time>,
}

impl WriteQueue {
    /// A queue of `lines` entries, where a line takes `line_ps` on the bus.
    pub fn new(lines: u64, line_ps: f64, refresh: Refresh) -> Self {
        let batch = BATCH_LINES.min(lines);
        WriteQueue {
            batch,
            span: Time((batch as f64 * line_ps) as u64),
            refresh,
            entered: 0,
            drained: VecDeque::from(vec![Time::ZERO; (lines / batch) as usize]),
        }
    }

    /// When a line of the batch being filled may enter.
    fn room_at(&self) -> Time {
        self.drained[0]
    }

    /// A batch's share of the queue.
    pub fn batch_share(&self) -> f64 {
        1.0 / self.drained.len() as f64
    }

    /// Takes `lines` that come evenly over a span. Returns when the first and the last of them have entered.
    /// `reads` draws how long reads are served before a batch.
    pub fn enter(
        &mut self,
        lines: u64,
        from: Time,
        to: Time,
        mut reads: impl FnMut() -> Time,
    ) -> (Time, Time) {
        let first = from.max(self.room_at());
        let mut last = first;
        let end = self.entered + lines;
        let mut come = 0;
        while self.entered < end {
            let left = (self.batch - self.entered % self.batch).min(end - self.entered);
            come += left;
            self.entered += left;
            let arrival = from + Time((to - from).0 * come / lines); // spans are below a second, lines below a packet
            last = arrival.max(self.room_at()).max(last);
            if self.entered.is_multiple_of(self.batch) {
                let before = self.drained[self.drained.len() - 1];
                self.drained.pop_front();
                self.drained.push_back(self.refresh.end(before.max(last), reads() + self.span));
            }
        }
        (first, last)
    }

    /// How long a line that comes now waits for an entry.
    pub fn wait(&self, now: Time) -> Time {
        self.room_at().saturating_sub(now)
    }

    /// Lines in the queue, and lines already known to enter, rounded to a batch.
    pub fn lines(&self, now: Time) -> u64 {
        let full = self.drained.iter().rev().take_while(|&&at| at > now).count() as u64;
        full * self.batch + self.entered % self.batch
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const LINE: Time = Time::from_ns(2);

    const NO_REFRESH: Refresh =
        Refresh { interval: Time::from_ns(7800), time: Time::ZERO, phase: Time::ZERO };

    fn queue() -> WriteQueue {
        WriteQueue::new(64, LINE.0 as f64, NO_REFRESH)
    }

    /// Goes in steps of 1 ns, and compares when all of the work is done.
    #[test]
    fn work_ends_as_it_does_step_by_step() {
        for phase in [0, 1, 349, 350, 5000, 7799] {
            let refresh = Refresh {
                interval: Time::from_ns(7800),
                time: Time::from_ns(350),
                phase: Time::from_ns(phase),
            };
            for start in [0, 1, 2449, 7449, 7450, 7799, 12_345] {
                for shares in [1, 2, 50, 100, 170] {
                    // Work with refresh in it, of which 149 in 156 are without.
                    let (work, mut left) = (156 * shares, 149 * shares);
                    let mut at = start;
                    while left > 0 {
                        left -= u64::from((at + phase) % 7800 >= 350);
                        at += 1;
                    }
                    let end = refresh.end(Time::from_ns(start), Time::from_ns(work));
                    assert!(end.0.abs_diff(at * 1000) <= 1, "{phase} {start} {work}: {end:?}, {at} ns");
                }
            }
        }
    }

    /// A queue that is always full drains as much as without refresh.
    #[test]
    fn refresh_is_in_the_bandwidth() {
        let refresh = Refresh { interval: Time::from_ns(7800), time: Time::from_ns(350), phase: Time::ZERO };
        let mut queue = WriteQueue::new(64, LINE.0 as f64, refresh);
        let mut at = Time::ZERO;
        for _ in 0..100_000 {
            at = queue.enter(20, at, at, || Time::ZERO).1;
        }
        let per_line = at.0 as f64 / 2_000_000.0;
        assert!((per_line / LINE.0 as f64 - 1.0).abs() < 1e-3, "{per_line} ps");
    }

    /// 64 lines hold what comes in 128 ns at a line every 2 ns; writes wait for the rest of the 350 ns of a
    /// refresh.
    #[test]
    fn a_refresh_fills_the_queue() {
        let refresh = Refresh { interval: Time::from_ns(7800), time: Time::from_ns(350), phase: Time::ZERO };
        let mut queue = WriteQueue::new(64, LINE.0 as f64, refresh);
        let (_, entered) = queue.enter(80, Time::ZERO, Time::from_ns(160), || Time::ZERO);
        assert!(entered > Time::from_ns(350) && entered < Time::from_ns(400), "{entered:?}");
        let (_, entered) = queue.enter(80, Time::from_ns(1000), Time::from_ns(1160), || Time::ZERO);
        assert_eq!(entered, Time::from_ns(1160));
    }

    #[test]
    fn what_finds_room_does_not_wait() {
        let mut queue = queue();
        let ns = Time::from_ns;
        assert_eq!(queue.enter(64, ns(100), ns(400), || ns(1000)), (ns(100), ns(400)));
        // Line 16 came at 175 ns: 1000 ns of reads and 32 ns of bus later there is room for 16 more.
        assert_eq!(queue.wait(ns(400)), ns(175 + 1032 - 400));
        assert_eq!(queue.lines(ns(400)), 64);
        assert_eq!(queue.lines(ns(175 + 1032)), 48);
        assert_eq!(queue.lines(ns(175 + 4 * 1032)), 0);
        assert_eq!(queue.enter(1, ns(5000), ns(5000), || ns(1000)), (ns(5000), ns(5000)));
    }

    /// Little's law: entries over the time that each is held, and never more than the bus carries.
    #[test]
    fn a_full_queue_drains_at_its_entries_over_their_time() {
        for reads in [0, 100, 1000] {
            let mut queue = queue();
            let mut at = Time::ZERO;
            for _ in 0..10_000 {
                at = queue.enter(20, at, at, || Time::from_ns(reads)).1;
            }
            let per_line = at.0 as f64 / 200_000.0;
            let expected = LINE.0 as f64 + reads as f64 * 1e3 / 16.0;
            assert!((per_line / expected - 1.0).abs() < 1e-3, "{per_line} ps, expected {expected}");
        }
    }

    /// Writes that come more slowly than the queue drains find room, whatever the controller does in between.
    #[test]
    fn below_its_drain_rate_the_queue_stays_empty() {
        let mut queue = queue();
        let reads = Time::from_ns(250);
        // 16 lines take 282 ns; here they come in 320.
        for packet in 0..1000 {
            let at = Time::from_ns(1280 * packet);
            assert_eq!(queue.enter(64, at, at + Time::from_ns(330), || reads).1, at + Time::from_ns(330));
        }
    }

    proptest! {
        #[test]
        fn lines_enter_in_order_and_never_more_than_there_are_entries(
            bursts in prop::collection::vec((1u64..200, 0u64..2000, 0u64..500, 0u64..3000), 1..100),
            entries in 2u64..200,
        ) {
            let mut queue = WriteQueue::new(entries, LINE.0 as f64, NO_REFRESH);
            let (mut at, mut last) = (Time::ZERO, Time::ZERO);
            for (lines, gap, span, reads) in bursts {
                // A burst begins when the one before has ended, or later: bursts that overlap are not in
                // order.
                at += Time::from_ns(gap);
                let to = at + Time::from_ns(span);
                let (first, end) = queue.enter(lines, at, to, || Time::from_ns(reads));
                prop_assert!(first >= at && end >= to && end >= first);
                prop_assert!(first >= last, "{first:?} is before {last:?}");
                prop_assert!(queue.lines(end) <= entries, "{} of {entries}", queue.lines(end));
                (at, last) = (to, end);
            }
        }
    }
}
