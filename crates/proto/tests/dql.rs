//! Dynamic queue limits: their rules transcribed a second time, over whole numbers that do not wrap, and what must hold.

use proptest::prelude::*;
use tailback_proto::flow_control::byte_queue_limits::{Dql, DqlParameters, HOLD_TIME};
use tailback_proto::units::Time;

/// The rules as lib/dynamic_queue_limits.c states them, told from the sums of what was queued and completed.
#[derive(Clone, Debug)]
struct Rules {
    min: i64,
    max: i64,
    hold: Time,
    limit: i64,
    queued: i64,
    completed: i64,
    last: i64,
    queued_before: i64,
    over_before: i64,
    last_before: i64,
    slack: Option<i64>,
    since: Time,
}

impl Rules {
    fn new(p: DqlParameters) -> Self {
        Rules {
            min: p.min_limit.into(),
            max: p.max_limit.into(),
            hold: p.hold_time,
            limit: 0,
            queued: 0,
            completed: 0,
            last: 0,
            queued_before: 0,
            over_before: 0,
            last_before: 0,
            slack: None,
            since: Time::ZERO,
        }
    }

    fn queued(&mut self, count: i64) {
        self.queued += count;
        self.last = count;
    }

    fn completed(&mut self, count: i64, now: Time) {
        let over = (self.queued - self.completed - self.limit).max(0);
        let busy_before = self.queued_before > self.completed;
        self.completed += count;
        let busy = self.queued > self.completed;
        let new_ones = (self.completed - self.queued_before).max(0);

        let starved_now = over > 0 && !busy;
        let all_of_then = self.completed >= self.queued_before;
        let starved_before = self.over_before > 0 && all_of_then;
        let mut limit = self.limit;
        if starved_now || starved_before {
            limit += new_ones + self.over_before;
            self.since = now;
            self.slack = None;
        } else if busy && busy_before && !all_of_then {
            let spare = (limit + self.over_before - 2 * count).max(0);
            let last = if self.over_before > 0 { (self.last_before - self.over_before).max(0) } else { 0 };
            let seen = spare.max(last);
            self.slack = Some(self.slack.map_or(seen, |least| least.min(seen)));
            if now > self.since + self.hold {
                limit = (limit - self.slack.expect("just seen")).max(0);
                self.since = now;
                self.slack = None;
            }
        }
        limit = limit.max(self.min).min(self.max);
        self.over_before = if limit == self.limit { over } else { 0 };
        self.limit = limit;
        self.last_before = self.last;
        self.queued_before = self.queued;
    }
}

#[derive(Clone, Debug)]
enum Step {
    /// Queue objects of this size while that is allowed, at most `most`.
    Queue {
        size: u32,
        most: u32,
    },
    /// Complete this share of what is in flight, in 255ths, at least one.
    Complete {
        share: u8,
    },
    Wait {
        ms: u64,
    },
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        3 => (prop_oneof![Just(1u32), 42u32..9014], 1u32..64).prop_map(|(size, most)| Step::Queue { size, most }),
        4 => any::<u8>().prop_map(|share| Step::Complete { share }),
        2 => (0u64..600).prop_map(|ms| Step::Wait { ms }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn any_history_follows_the_rules(
        steps in prop::collection::vec(step(), 1..300),
        min in prop_oneof![Just(0u32), 1u32..20_000],
        room in prop_oneof![Just(u32::MAX), 0u32..100_000],
    ) {
        let p = DqlParameters { min_limit: min, ..DqlParameters::default() };
        let p = DqlParameters { max_limit: p.max_limit.min(min.saturating_add(room)), ..p };
        let (mut dql, mut rules) = (Dql::new(p, Time::ZERO), Rules::new(p));
        let mut now = Time::ZERO;
        for step in steps {
            match step {
                Step::Queue { size, most } => {
                    for _ in 0..most {
                        if dql.available() < 0 {
                            break;
                        }
                        dql.queued(size);
                        rules.queued(size as i64);
                    }
                }
                Step::Complete { share } => {
                    let count = (dql.in_flight() as u64 * share as u64 / 255).max(1) as u32;
                    if dql.in_flight() > 0 {
                        dql.completed(count, now);
                        rules.completed(count as i64, now);
                        prop_assert!((p.min_limit..=p.max_limit).contains(&dql.limit()));
                    }
                }
                Step::Wait { ms } => now += Time::from_ms(ms),
            }
            prop_assert_eq!(dql.limit() as i64, rules.limit);
            prop_assert_eq!(dql.in_flight() as i64, rules.queued - rules.completed);
            prop_assert_eq!(dql.available(), rules.limit - (rules.queued - rules.completed));
            // What is stopped has something in flight, whose completion can start it again: it never stops for good.
            prop_assert!(dql.available() >= 0 || dql.in_flight() > 0);
        }
        let left = dql.in_flight();
        dql.completed(left, now);
        prop_assert!(dql.available() >= 0, "all is completed, and it is still stopped");
    }
}

/// Lowest and highest limit of a queue of packets, counted one each, over the second half of `rounds`, of which one takes
/// a millisecond: hold times pass. The producer fills the queue, then `completions` of `batch` packets come.
fn settled(batch: u32, completions: u32, rounds: u32) -> (u32, u32) {
    let mut dql = Dql::new(DqlParameters::default(), Time::ZERO);
    let (mut lowest, mut highest) = (u32::MAX, 0);
    for round in 0..rounds {
        while dql.available() >= 0 {
            dql.queued(1);
        }
        let now = Time::from_ms(round as u64);
        // At first all that is there is completed at once: after 8 rounds the limit is 255, and comes down from there.
        if round < 8 {
            dql.completed(dql.in_flight(), now);
            continue;
        }
        for _ in 0..completions {
            dql.completed(dql.in_flight().min(batch), now);
        }
        if round > rounds / 2 {
            lowest = lowest.min(dql.limit());
            highest = highest.max(dql.limit());
        }
    }
    (lowest, highest)
}

/// A stopped queue holds limit + 1, 1 of them over the limit. Where the producer runs after each completion of one packet,
/// slack is limit + 1 - 2 * 1, and the limit comes down to 1. Then a completion finds all done that was queued before it,
/// after an over-limit of 1: the limit is 2 until the least slack, 1, comes off after the hold time.
#[test]
fn completions_one_packet_at_a_time_bring_the_limit_to_2_or_1() {
    assert_eq!(settled(1, 2, 40_000), (1, 2));
    assert_eq!(settled(1, 1, 40_000), (1, 2));
}

/// Batches of n: slack is limit + over - 2 * n, so the limit comes down to 2 * n less the over-limit of 1; there a batch
/// is all that was queued before it, and the over-limit is added.
#[test]
fn the_limit_follows_the_batch_of_completions() {
    for batch in [4, 16, 64] {
        assert_eq!(settled(batch, 1, 40_000), (2 * batch - 1, 2 * batch));
    }
}

/// Starved: the first packet of 1000 B is over the limit of 0, and nothing is left when it is completed: the limit grows
/// by what was completed, 1000 B. At the next round 2000 B are queued (1000 B may be exceeded by a packet), 1000 B over;
/// all are completed: the limit grows by 2000 B.
#[test]
fn starvation_raises_the_limit_by_what_was_completed() {
    let mut dql = Dql::new(DqlParameters::default(), Time::ZERO);
    dql.queued(1000);
    assert!(dql.available() < 0);
    dql.completed(1000, Time::ZERO);
    assert_eq!(dql.limit(), 1000);
    dql.queued(1000);
    assert_eq!(dql.available(), 0, "at the limit another may be queued");
    dql.queued(1000);
    assert_eq!(dql.available(), -1000);
    dql.completed(2000, Time::ZERO);
    assert_eq!(dql.limit(), 3000);
}

/// Busy throughout: limit 3000 B, 4000 B in flight, 1000 B of them over it, and 1000 B completed at a time. Slack is
/// 3000 + 1000 - 2 * 1000 = 2000 B. It comes off once the hold time is over, and not before.
#[test]
fn the_least_slack_comes_off_after_the_hold_time() {
    let mut dql = Dql::new(DqlParameters::default(), Time::ZERO);
    for count in [1, 2] {
        (0..count).for_each(|_| dql.queued(1000));
        dql.completed(count * 1000, Time::ZERO);
    }
    assert_eq!(dql.limit(), 3000);
    (0..4).for_each(|_| dql.queued(1000));
    for ms in 0..=1000 {
        dql.completed(1000, Time::from_ms(ms));
        dql.queued(1000);
        assert_eq!(dql.limit(), 3000, "at {ms} ms");
    }
    dql.completed(1000, HOLD_TIME + Time(1));
    assert_eq!(dql.limit(), 1000);
}

#[test]
#[should_panic(expected = "completed")]
fn more_than_was_queued_is_never_completed() {
    let mut dql = Dql::new(DqlParameters::default(), Time::ZERO);
    dql.queued(5);
    dql.completed(6, Time::ZERO);
}
