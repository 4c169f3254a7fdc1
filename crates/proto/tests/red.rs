//! RED of `tc`: its arithmetic, worked through by hand and against exact rational numbers.

mod red_arguments;

use proptest::prelude::*;
use red_arguments::RED;
use tailback_proto::aqm::qdisc::{DropReason, Enqueue, Skb};
use tailback_proto::aqm::red::{idle_table, w_log, Red, RedArguments, RedParameters};
use tailback_proto::units::Time;

fn parameters(arguments: RedArguments) -> RedParameters {
    arguments.parameters().expect("tc takes these")
}

fn skb(bytes: u32, ect: bool) -> Skb {
    Skb::new(0, bytes, 0, ect)
}

/// The table in the comment of include/net/red.h: with min of 32 packets, the longest burst for each W. Its rows for 1, 2
/// and 3 round the sum up, that for 9 is one too many; these are exact.
#[test]
fn w_log_is_that_of_the_kernels_table() {
    for (w, burst) in [(4, 46), (5, 57), (6, 75), (7, 101)] {
        assert_eq!(w_log(32 * 1000, burst, 1000), Ok(w), "burst {burst}");
        assert_eq!(w_log(32 * 1000, burst + 1, 1000), Ok(w + 1), "burst {}", burst + 1);
    }
}

/// min 50000 B, avpkt 1500 B, burst 60: 60 + 1 - 33.33 = 27.67. (1 - (31/32)^60) * 32 = 27.24 is too little,
/// (1 - (63/64)^60) * 64 = 39.12 is enough: 6. Without burst tc takes (2 * 50000 + 200000) / (3 * 1500) = 66: also 6.
#[test]
fn w_log_of_a_bridge() {
    assert_eq!(w_log(50_000, 60, 1500), Ok(6));
    assert_eq!(w_log(50_000, 66, 1500), Ok(6));
    assert_eq!(
        w_log(50_000, 33, 1500).unwrap_err(),
        "burst is 33, too small for this min and avpkt; 34 is enough"
    );
}

/// 1500 B at 10 Mbit/s are 1200 us, 18750 ticks of 64 ns; -ln(1 - 1/64) = 0.015748, so 8.399e-7 bits a tick, and 31 bits
/// take 3.691e7 ticks. Over 2^17 that is 281.6, below 512, and over 2^16 it is not. Entry i is the whole part of
/// i * 131072 * 8.399e-7 = 0.11009 i: 0 up to 9, 1 from 10, 2 from 19.
#[test]
fn the_idle_table_of_tc() {
    let (scell_log, stab) = idle_table(6, 1500, 10_000_000, false).expect("it fits");
    assert_eq!(scell_log, 17);
    assert_eq!((stab[9], stab[10], stab[18], stab[19]), (0, 1, 1, 2));
    assert_eq!((stab[0], stab[254], stab[255]), (0, 27, 31));
    // 1500 B at 25 Gbit/s are 7.5 ticks, which tc rounds up to 8: 8 / 18750 of the ticks above, 15748, over 2^5.
    assert_eq!(idle_table(6, 1500, 25_000_000_000, false).expect("it fits").0, 5);
}

/// An older tc has whole microseconds: 1200 us are the same, 0.48 us are none, and 1500 B at 7 Gbit/s, 1.71 us, are 1 us, 15
/// ticks instead of 27.
#[test]
fn an_older_tc_rounds_down() {
    assert_eq!(idle_table(6, 1500, 10_000_000, true), idle_table(6, 1500, 10_000_000, false));
    let (scell_log, stab) = idle_table(6, 1500, 25_000_000_000, true).expect("it fits");
    assert_eq!((scell_log, stab[1], stab[254], stab[255]), (0, 0, 0, 31));
    let first = |whole_us| {
        let (scell_log, stab) = idle_table(6, 1500, 7_000_000_000, whole_us).expect("it fits");
        stab.iter().position(|&shift| shift == 1).expect("it decays") << scell_log
    };
    // -ln(1 - 1/64) = 0.015748 bits: one bit after 952.5 and after 1714.5, in steps of 2^6 and of 2^7.
    assert_eq!((first(true), first(false)), (960, 1792));
}

/// A queue that holds 100,000 B and an average of that: it decays by the table when the device has found it empty. After
/// 10 entries of 2^17 us it is shifted by a bit; within the first 9 it falls linearly, by idle / 2^17 us, but not below a
/// half.
#[test]
fn an_idle_average_decays_by_the_table() {
    let mut filled = Red::new(&RedParameters { w_log: 6, ..parameters(RED) });
    for _ in 0..100 {
        filled.enqueue(skb(1000, true), Time::ZERO, || u32::MAX);
    }
    while filled.dequeue(Time::ZERO).is_some() {}
    let average = filled.average();
    assert!(average > 30_000 << 6, "{average}");
    let after = |us: u64| {
        let mut red = filled.clone();
        red.enqueue(skb(1000, true), Time::from_us(us), || u32::MAX);
        red.average()
    };
    let entry = 1 << 17;
    assert_eq!(after(0), average);
    assert_eq!(after(entry / 4), average - average / 4);
    // 3 us more than half an entry would be a little less than half.
    assert_eq!(after(entry / 2 + 3), average / 2);
    assert_eq!(after(entry), average / 2);
    assert_eq!(after(9 * entry), average / 2);
    assert_eq!(after(10 * entry), average >> 1);
    assert_eq!(after(19 * entry), average >> 2);
    assert_eq!(after(10_000 * entry), average >> 31);
    // A packet that comes while another waits is not after an idle time.
    let mut busy = filled.clone();
    busy.enqueue(skb(1000, true), Time::ZERO, || u32::MAX);
    busy.enqueue(skb(1000, true), Time::from_us(10 * entry), || u32::MAX);
    assert_eq!(busy.average(), average + 1000 - (average >> 6));
}

proptest! {
    /// The exact average E moves by (q - E) / 2^W. Times 2^(W n) after n packets it is a whole number, and the fixed-point
    /// average, with W bits, is above it by what its shifts cut off: less than a byte, and never below.
    #[test]
    fn the_average_is_exact_to_a_byte(
        w in 1u32..=9,
        steps in prop::collection::vec((64u32..9000, 0u8..3), 1..90),
    ) {
        let p = RedParameters {
            limit_bytes: u32::MAX, min_bytes: 1 << 21, max_bytes: (1 << 22) - 1, w_log: w as u8,
            ..parameters(RED)
        };
        let mut red = Red::new(&p);
        let mut exact: u128 = 0; // times 2^(w * done)
        for (done, (bytes, departures)) in steps.into_iter().take((96 / w) as usize).enumerate() {
            let done = done as u32;
            let queue = red.backlog_bytes() as u128;
            exact = exact * ((1 << w) - 1) + (queue << (w * done));
            red.enqueue(skb(bytes, true), Time::ZERO, || u32::MAX);
            let fixed = (red.average() as u128) << (w * done);
            prop_assert!(fixed >= exact, "{fixed} is below {exact}");
            prop_assert!(fixed - exact < 1 << (w * (done + 1)), "{fixed} is a byte above {exact}");
            for _ in 0..departures {
                // Not the last one: the queue must not be found empty.
                if red.qlen() > 1 {
                    red.dequeue(Time::ZERO);
                }
            }
        }
    }
}

/// Fates of packets of 1000 B that find a queue and an average of about `backlog`.
fn fates(
    p: &RedParameters,
    backlog: u32,
    ect: bool,
    packets: usize,
    mut random: impl FnMut() -> u32,
) -> Vec<Enqueue> {
    let mut red = Red::new(p);
    for _ in 0..backlog / 1000 {
        red.enqueue(skb(1000, true), Time::ZERO, || u32::MAX);
    }
    let mut offer = |ect| {
        let fate = red.enqueue(skb(1000, ect), Time::ZERO, &mut random);
        if matches!(fate, Enqueue::Queued { .. }) {
            red.dequeue(Time::ZERO);
        }
        fate
    };
    // e^-64 of the difference to the average is left.
    (0..64 << p.w_log).for_each(|_| {
        offer(true);
    });
    (0..packets).map(|_| offer(ect)).collect()
}

/// Thresholds 50,000 and 200,000 B, P 0.5, average 125,000 B: the probability is 0.25. The gap between two marks is then
/// 1, 2, 3 or 4 packets, all equally likely (Floyd and Jacobson, section 7), and never more: 2.5 packets on average.
#[test]
fn marks_between_the_thresholds_are_spread_evenly() {
    let mut draw = 0u32;
    // All residues of a full-period generator: as even as random numbers get.
    let random = move || {
        draw = draw.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        draw
    };
    let found = fates(&parameters(RED), 125_000, true, 100_000, random);
    let mut gaps = [0u32; 6];
    let mut gap = 0;
    for fate in &found {
        gap += 1;
        if matches!(fate, Enqueue::Queued { marked: true }) {
            gaps[gap] += 1;
            gap = 0;
        }
    }
    println!("gaps of 1, 2, ...: {:?}", &gaps[1..]);
    assert_eq!(gaps[5], 0);
    for gap in 1..=4 {
        assert!((9_500..10_500).contains(&gaps[gap]), "{gap}: {gaps:?}");
    }
}

#[test]
fn below_min_nothing_is_marked_and_above_max_all_is() {
    let p = parameters(RED);
    let all = |p: &RedParameters, backlog, ect| {
        let found = fates(p, backlog, ect, 500, || 0);
        assert!(found.windows(2).all(|pair| pair[0] == pair[1]), "{found:?}");
        found[0]
    };
    assert_eq!(all(&p, 40_000, false), Enqueue::Queued { marked: false });
    assert_eq!(all(&p, 300_000, true), Enqueue::Queued { marked: true });
    assert_eq!(all(&p, 300_000, false), Enqueue::Dropped(DropReason::EarlyForced));
    let hard = RedParameters { harddrop: true, ..p.clone() };
    assert_eq!(fates(&hard, 300_000, true, 1, || 0)[0], Enqueue::Dropped(DropReason::EarlyForced));
    let without_ecn = RedParameters { ecn: false, ..p };
    assert_eq!(fates(&without_ecn, 300_000, true, 1, || 0)[0], Enqueue::Dropped(DropReason::EarlyForced));
}

#[test]
fn packets_are_counted_as_tc_prints_them() {
    let mut red =
        Red::new(&RedParameters { limit_bytes: 3000, min_bytes: 1, max_bytes: 2, ..parameters(RED) });
    let mut offer = |bytes, ect| red.enqueue(skb(bytes, ect), Time::ZERO, || 0);
    // The average is 0 until a packet has found one.
    assert_eq!(offer(1000, true), Enqueue::Queued { marked: false });
    assert_eq!(offer(1000, true), Enqueue::Queued { marked: true });
    assert_eq!(offer(1000, false), Enqueue::Dropped(DropReason::EarlyForced));
    assert_eq!(offer(1000, true), Enqueue::Queued { marked: true });
    // It is marked, and then there is no room for it.
    assert_eq!(offer(1, true), Enqueue::Dropped(DropReason::Overlimit));
    let counted = *red.statistics();
    assert_eq!((counted.marked, counted.early, counted.pdrop), (3, 1, 1));
}
