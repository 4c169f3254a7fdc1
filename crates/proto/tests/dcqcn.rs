//! DCQCN against first principles: worked examples with the arithmetic shown, and properties under any input.

use proptest::prelude::*;
use tailback_proto::congestion::dcqcn::NotificationPoint;
use tailback_proto::congestion::dcqcn::*;
use tailback_proto::congestion::{Controller, Uses};
use tailback_proto::units::{Rate, Time};

const LINE: Rate = Rate::from_gbps(100);

fn connectx() -> DcqcnParameters {
    DcqcnParameters::default()
}

fn resolved(mlnx: &DcqcnParameters) -> ReactionParameters {
    ReactionParameters::new(mlnx, LINE).unwrap()
}

fn us(n: u64) -> Time {
    Time::from_us(n)
}

/// A flow that got its first CNP at t = 0.
fn after_first_cnp(p: &ReactionParameters) -> ReactionPoint {
    let mut rp = ReactionPoint::new(p);
    rp.on_cnp(p, Time::ZERO);
    rp
}

fn close(found: f64, expected: f64) {
    assert!((found - expected).abs() <= expected.abs() * 1e-12, "found {found}, expected {expected}");
}

#[test]
fn the_first_cnp_cuts_at_the_end_of_the_monitor_period() {
    let p = resolved(&connectx());
    let mut rp = after_first_cnp(&p);
    assert_eq!(rp.rate(), 100e9, "nothing happens in the period in which the CNP came");
    rp.catch_up(&p, Time(us(4).0 - 1));
    assert_eq!(rp.rate(), 100e9);
    rp.catch_up(&p, us(4));
    // alpha starts at 1023/1024 and decays by 1019/1024 in each of the four microseconds to the cut.
    let alpha = 1023.0 / 1024.0 * (1019.0f64 / 1024.0).powi(4);
    close(rp.rate(), 100e9 * (1.0 - alpha / 2.0));
    assert_eq!(rp.target(), 100e9, "the rate before the cut");
}

#[test]
fn one_cnp_in_the_papers_setting_does_what_the_paper_says() {
    // SIGCOMM 2015, equation 1: R_T = R_C; R_C = R_C (1 - alpha / 2); alpha = (1 - g) alpha + g, with g = 1/256,
    // alpha = 1 at the start and the cut at once.
    let p = resolved(&DcqcnParameters {
        dce_tcp_g: 1020,
        dce_tcp_rtt: 55,
        initial_alpha_value: 1024,
        rate_reduce_monitor_period: 0,
        clamp_tgt_rate: true,
        rpg_time_reset: 55,
        rpg_threshold: 5,
        ..connectx()
    });
    let mut rp = ReactionPoint::new(&p);
    rp.on_cnp(&p, us(1000));
    assert_eq!((rp.rate(), rp.target(), rp.alpha()), (50e9, 100e9, 1.0));
    // A second CNP 30 us later: alpha was not updated yet, so the rate halves again.
    rp.on_cnp(&p, us(1030));
    assert_eq!((rp.rate(), rp.target()), (25e9, 50e9));
    // At 55 us the period saw a CNP: alpha = 255/256 * 1 + 1/256 = 1.
    rp.catch_up(&p, us(1055));
    close(rp.alpha(), 1.0);
    // The next saw none: alpha = 255/256.
    rp.catch_up(&p, us(1110));
    close(rp.alpha(), 255.0 / 256.0);
}

#[test]
fn at_most_one_cut_a_period() {
    let p = resolved(&connectx());
    let mut one = after_first_cnp(&p);
    let mut many = after_first_cnp(&p);
    one.on_cnp(&p, us(9));
    for t in [9, 10, 11] {
        many.on_cnp(&p, us(t));
    }
    one.catch_up(&p, us(12));
    many.catch_up(&p, us(12));
    // The same number of cuts; the CNPs of 10 and 11 us raised alpha before the cut at 12 us.
    assert!(many.rate() < one.rate());
    assert!(many.rate() > one.rate() * 0.99);
}

#[test]
fn fast_recovery_halves_the_distance_to_the_target_at_each_step() {
    let p = resolved(&DcqcnParameters { rpg_threshold: 5, release_at_max_rate: false, ..connectx() });
    let mut rp = after_first_cnp(&p);
    rp.catch_up(&p, us(4));
    for step in 1..=5 {
        let distance = rp.target() - rp.rate();
        rp.catch_up(&p, us(4 + 300 * step));
        close(rp.target() - rp.rate(), distance / 2.0);
        assert_eq!(rp.target(), 100e9);
    }
}

#[test]
fn additive_then_hyper_increase() {
    let p = resolved(&DcqcnParameters {
        clamp_tgt_rate: true,
        rate_to_set_on_first_cnp: 1000,
        rpg_byte_reset: 1_000_000,
        byte_reset_unit_bytes: 1,
        ..connectx()
    });
    let mut rp = after_first_cnp(&p);
    rp.catch_up(&p, us(4));
    assert_eq!(rp.target(), 1e9);
    // Event 1 of the timer is fast recovery (threshold 1), event 2 adds 5 Mbit/s to the target.
    rp.catch_up(&p, us(304));
    assert_eq!(rp.target(), 1e9);
    rp.catch_up(&p, us(604));
    assert_eq!(rp.target(), 1.005e9);
    // The byte counter's first event is past the timer's threshold: additive. Its second: both are past, hyper.
    rp.on_sent(&p, us(610), 1_000_000);
    assert_eq!(rp.target(), 1.010e9);
    rp.on_sent(&p, us(620), 1_000_000);
    assert_eq!(rp.target(), 1.060e9);
}

#[test]
fn the_target_follows_a_cut_only_after_an_increase_unless_clamped() {
    for (clamp, target_after_two_cuts) in [(false, 100e9), (true, 50e9)] {
        let p = resolved(&DcqcnParameters {
            clamp_tgt_rate: clamp,
            initial_alpha_value: 1024,
            dce_tcp_g: 1024, // alpha stays as it is
            ..connectx()
        });
        let mut rp = after_first_cnp(&p);
        rp.on_cnp(&p, us(5));
        rp.catch_up(&p, us(8));
        assert_eq!((rp.rate(), rp.target()), (25e9, target_after_two_cuts));
        // An increase by the timer at 308 us, then a cut: now the target follows.
        rp.catch_up(&p, us(308));
        let before = rp.rate();
        rp.on_cnp(&p, us(309));
        rp.catch_up(&p, us(312));
        assert_eq!(rp.target(), before);
    }
}

#[test]
fn a_released_limiter_takes_the_next_cnp_as_a_first() {
    let mlnx = DcqcnParameters { rpg_byte_reset: 0, ..connectx() };
    let p = resolved(&mlnx);
    let mut rp = after_first_cnp(&p);
    // Half the distance each 300 us: 50 Gbit/s below becomes less than 1 Mbit/s below after 16 steps.
    rp.catch_up(&p, us(4 + 300 * 16));
    assert!(!rp.is_limited());
    rp.on_cnp(&p, us(10_000));
    rp.catch_up(&p, us(10_004));
    assert!(rp.rate() < 52e9, "cut by about a half: {}", rp.rate());

    let p = resolved(&DcqcnParameters { release_at_max_rate: false, ..mlnx });
    let mut rp = after_first_cnp(&p);
    rp.on_cnp(&p, us(10_000));
    rp.catch_up(&p, us(10_004));
    assert!(rp.rate() > 99e9, "an alpha that decayed for 10 ms hardly cuts: {}", rp.rate());
}

/// A flow at line rate sends more than `rpg_byte_reset` before its first cut: that must not undo the cut.
#[test]
fn a_flow_at_line_rate_is_cut_whatever_it_sends_meanwhile() {
    let p = resolved(&connectx());
    let mut rp = ReactionPoint::new(&p);
    for t in 0..1000 {
        // 12,500 B in a microsecond are 100 Gbit/s; a CNP every 4 us.
        if t % 4 == 0 {
            rp.on_cnp(&p, us(t));
        }
        rp.on_sent(&p, us(t), 12_500);
    }
    assert!(rp.is_limited());
    assert!(rp.rate() < 10e9, "250 CNPs in a millisecond left {} bit/s", rp.rate());
}

#[test]
fn alpha_decays_over_any_number_of_periods() {
    // 1023/1024 remain after a microsecond; release and cuts are out of the way.
    let p = resolved(&DcqcnParameters { dce_tcp_g: 1023, release_at_max_rate: false, ..connectx() });
    let start = 1023.0 / 1024.0;
    for periods in [1, 255, 256, 65_535, 65_536, 200_000] {
        let mut rp = after_first_cnp(&p);
        rp.catch_up(&p, us(periods));
        let expected = start * (1023.0f64 / 1024.0).powi(periods as i32);
        assert!(
            (rp.alpha() / expected - 1.0).abs() < 1e-9,
            "{} after {periods} us, not {expected}",
            rp.alpha()
        );
    }
    let stays = resolved(&DcqcnParameters { dce_tcp_g: 1024, release_at_max_rate: false, ..connectx() });
    let mut rp = after_first_cnp(&stays);
    rp.catch_up(&stays, us(1_000_000));
    assert_eq!(rp.alpha(), start);
}

#[test]
fn bounds_are_those_of_the_parameters_or_the_link() {
    let of_link = resolved(&connectx());
    assert_eq!((of_link.min_rate(), of_link.max_rate()), (1e6, 100e9));
    let set = resolved(&DcqcnParameters { rpg_min_rate: 10, rpg_max_rate: 40_000, ..connectx() });
    assert_eq!((set.min_rate(), set.max_rate()), (10e6, 40e9));
}

/// Increases that change nothing are not replayed one by one; the first that does change something again is.
#[test]
fn a_long_silence_is_replayed_as_its_parts_would_be() {
    let settings = DcqcnParameters {
        clamp_tgt_rate: true,
        rate_to_set_on_first_cnp: 1000,
        rpg_time_reset: 1,
        rpg_threshold: 1000,
        rpg_ai_rate: 1,
        rpg_byte_reset: 0,
        release_at_max_rate: false,
        ..connectx()
    };
    let p = resolved(&settings);
    let mut at_once = after_first_cnp(&p);
    let mut stepwise = at_once.clone();
    // Fast recovery reaches its target of 1 Gbit/s in some 50 of its 1,000 steps; additive increase follows it, 1 Mbit/s
    // a step.
    let mut from = 0;
    for until in [1_004, 1_005, 1_104, 2_500] {
        at_once.catch_up(&p, us(until));
        for t in from..=until {
            stepwise.catch_up(&p, us(t));
        }
        from = until;
        assert_eq!(
            (at_once.rate(), at_once.target()),
            (stepwise.rate(), stepwise.target()),
            "after {until} us"
        );
    }
    assert!((2.4e9..2.5e9).contains(&at_once.rate()), "{}", at_once.rate());
    // Ten hours in periods of a microsecond are 36,000 million, and the last of them are like each other.
    at_once.catch_up(&p, Time(36_000 * 1_000_000_000_000));
    assert_eq!((at_once.rate(), at_once.target()), (100e9, 100e9));
    at_once.on_cnp(&p, Time(36_000 * 1_000_000_000_000));
    assert!(at_once.is_limited());
}

#[test]
fn a_silence_of_weeks_costs_nothing_whatever_the_threshold() {
    // 10^12 periods of the timer, of which the counter has 2^32. Without the skip this does not end.
    for rpg_threshold in [u32::MAX, u32::MAX - 1] {
        let p = resolved(&DcqcnParameters { rpg_time_reset: 1, rpg_threshold, ..connectx() });
        let mut rp = after_first_cnp(&p);
        rp.catch_up(&p, us(1_000_000_000_000));
        let cut = rp.rate();
        rp.on_cnp(&p, us(1_000_000_000_001));
        rp.catch_up(&p, us(1_000_000_000_010));
        assert!(rp.rate() < cut, "it still hears");
    }
}

#[test]
fn the_byte_counters_unit_is_a_reading() {
    let target_after_1_mb = |unit| {
        let p = resolved(&DcqcnParameters {
            byte_reset_unit_bytes: unit,
            rate_to_set_on_first_cnp: 1000,
            ..connectx()
        });
        let mut rp = after_first_cnp(&p);
        rp.catch_up(&p, us(4));
        rp.on_sent(&p, us(5), 1_000_000);
        rp.target()
    };
    // 1,000,000 / 32,767 = 30 events: one of fast recovery, 29 of additive increase. In units of 64 B: none.
    close(target_after_1_mb(1), 1e9 + 29.0 * 5e6);
    close(target_after_1_mb(64), 1e9);
}

#[test]
fn the_byte_counter_starts_with_the_first_cut() {
    let p = resolved(&DcqcnParameters { rate_to_set_on_first_cnp: 1000, ..connectx() });
    let mut rp = after_first_cnp(&p);
    rp.on_sent(&p, us(1), 1_000_000);
    assert_eq!((rp.rate(), rp.target()), (1e9, 1e9));
}

#[test]
fn without_a_byte_counter_what_is_sent_changes_nothing() {
    let p = resolved(&DcqcnParameters { rpg_byte_reset: 0, ..connectx() });
    let mut rp = after_first_cnp(&p);
    rp.catch_up(&p, us(4));
    let cut = (rp.rate(), rp.target());
    rp.on_sent(&p, us(5), 1 << 40);
    assert_eq!((rp.rate(), rp.target()), cut);
}

/// Increases that were skipped because they changed nothing take none away of those that come after a look.
#[test]
fn the_timer_goes_on_once_its_increases_count_again() {
    let p = resolved(&DcqcnParameters {
        rate_to_set_on_first_cnp: 1000,
        rpg_ai_rate: 0,
        rpg_byte_reset: 1000,
        byte_reset_unit_bytes: 1,
        release_at_max_rate: false,
        ..connectx()
    });
    let mut rp = after_first_cnp(&p);
    // Additive increases of nothing, until the rate is the target.
    rp.catch_up(&p, us(4 + 300 * 100));
    assert_eq!((rp.rate(), rp.target()), (1e9, 1e9));
    // Two events of the byte counter, and both counters are past the threshold: 50 Mbit/s at each event.
    rp.on_sent(&p, us(4 + 300 * 100), 2000);
    assert_eq!(rp.target(), 1.05e9);
    rp.catch_up(&p, us(4 + 300 * 101));
    assert_eq!(rp.target(), 1.1e9);
}

#[test]
fn the_limiter_is_released_less_than_a_step_below_the_highest_rate() {
    // alpha stays 1, and a cut takes 1/2^15 of 65,536 Mbit/s: 2 Mbit/s.
    let p = resolved(&DcqcnParameters {
        initial_alpha_value: 1024,
        dce_tcp_g: 1024,
        rpg_gd: 25,
        rpg_max_rate: 65_536,
        ..connectx()
    });
    let mut rp = after_first_cnp(&p);
    for (time, below_mbps, limited) in [(4, 2.0, true), (304, 1.0, true), (604, 0.0, false)] {
        rp.catch_up(&p, us(time));
        assert_eq!((p.max_rate() - rp.rate(), rp.is_limited()), (below_mbps * 1e6, limited), "at {time} us");
    }
}

#[test]
fn it_hears_cnps_and_asks_nothing_of_packets() {
    assert_eq!(ReactionPoint::USES, Uses { cnps: true, ..Uses::NOTHING });
}

#[test]
fn cnps_keep_their_distance() {
    let mut np = NotificationPoint::default();
    let sent: Vec<u64> = (0..20).filter(|&t| np.on_ecn_marked(us(t), us(4))).collect();
    assert_eq!(sent, [0, 4, 8, 12, 16]);
}

#[test]
fn impossible_parameters_are_named() {
    let refuse = |mlnx: DcqcnParameters| ReactionParameters::new(&mlnx, LINE).unwrap_err().field;
    assert!(refuse(DcqcnParameters { dce_tcp_g: 1025, ..connectx() }) == "dce_tcp_g");
    assert!(refuse(DcqcnParameters { rpg_time_reset: 0, ..connectx() }) == "rpg_time_reset");
    assert!(refuse(DcqcnParameters { rpg_min_rate: 100_001, ..connectx() }) == "rpg_min_rate");
}

#[derive(Clone, Debug)]
enum Input {
    Cnp,
    Sent(u64),
    Look,
}

fn inputs() -> impl Strategy<Value = Vec<(u64, Input)>> {
    let input = prop_oneof![
        3 => Just(Input::Cnp),
        3 => (1u64..100_000).prop_map(Input::Sent),
        1 => Just(Input::Look),
    ];
    // Gaps from nothing to seconds.
    let gap = (0u32..41, 0u64..1000).prop_map(|(bits, offset)| (1u64 << bits) + offset);
    prop::collection::vec((gap, input), 1..200)
}

fn parameters() -> impl Strategy<Value = DcqcnParameters> {
    let first = (0u32..=1024, 1u32..100, 0u32..=1024, prop_oneof![Just(0u32), 1u32..100_000], 0u32..=100);
    let second = (1u32..1000, 10u32..14, 0u32..100, any::<[bool; 3]>(), 1u32..2000);
    let third = (0u32..1_000_000, 0u32..6, 0u32..1000, 0u32..1000, prop_oneof![Just(0u32), 1000u32..200_000]);
    (first, second, third).prop_map(|(a, b, c)| DcqcnParameters {
        dce_tcp_g: a.0,
        dce_tcp_rtt: a.1,
        initial_alpha_value: a.2,
        rate_to_set_on_first_cnp: a.3,
        rpg_min_dec_fac: a.4,
        rpg_min_rate: b.0,
        rpg_gd: b.1,
        rate_reduce_monitor_period: b.2,
        clamp_tgt_rate: b.3[0],
        clamp_tgt_rate_after_time_inc: b.3[1],
        release_at_max_rate: b.3[2],
        rpg_time_reset: b.4,
        rpg_byte_reset: c.0,
        rpg_threshold: c.1,
        rpg_ai_rate: c.2,
        rpg_hai_rate: c.3,
        rpg_max_rate: c.4,
        byte_reset_unit_bytes: 1,
        ..connectx()
    })
}

fn feed(rp: &mut ReactionPoint, p: &ReactionParameters, now: Time, input: &Input) {
    match input {
        Input::Cnp => rp.on_cnp(p, now),
        Input::Sent(bytes) => rp.on_sent(p, now, *bytes),
        Input::Look => rp.catch_up(p, now),
    }
}

proptest! {
    #[test]
    fn rate_and_alpha_stay_in_their_bounds(mlnx in parameters(), inputs in inputs()) {
        let p = resolved(&mlnx);
        let mut rp = ReactionPoint::new(&p);
        let mut now = Time::ZERO;
        for (gap, input) in inputs {
            now += Time(gap);
            feed(&mut rp, &p, now, &input);
            prop_assert!((p.min_rate()..=p.max_rate()).contains(&rp.rate()), "rate {}", rp.rate());
            prop_assert!((p.min_rate()..=p.max_rate()).contains(&rp.target()), "target {}", rp.target());
            prop_assert!((0.0..=1.0).contains(&rp.alpha()), "alpha {}", rp.alpha());
        }
    }

    /// What a flow does depends on when its first CNP comes, not on when time began.
    #[test]
    fn later_is_the_same(mlnx in parameters(), inputs in inputs(), later in 1u64..1 << 50) {
        let p = resolved(&mlnx);
        let (mut rp, mut shifted) = (ReactionPoint::new(&p), ReactionPoint::new(&p));
        let mut now = Time::ZERO;
        for (gap, input) in inputs {
            now += Time(gap);
            feed(&mut rp, &p, now, &input);
            feed(&mut shifted, &p, now + Time(later), &input);
            prop_assert_eq!((rp.rate(), rp.target(), rp.alpha()), (shifted.rate(), shifted.target(), shifted.alpha()));
        }
    }

    /// Catching up lazily gives what a timer that fires every microsecond gives.
    #[test]
    fn lazy_is_eager(inputs in prop::collection::vec((0u64..2_000, 0u32..4), 1..40)) {
        let p = resolved(&connectx());
        let (mut lazy, mut eager) = (ReactionPoint::new(&p), ReactionPoint::new(&p));
        let mut now = 0;
        for (gap, kind) in inputs {
            let input = if kind == 0 { Input::Sent(1024) } else { Input::Cnp };
            for t in now..now + gap {
                eager.catch_up(&p, us(t));
            }
            now += gap;
            feed(&mut lazy, &p, us(now), &input);
            feed(&mut eager, &p, us(now), &input);
            lazy.catch_up(&p, us(now));
            eager.catch_up(&p, us(now));
            prop_assert!((lazy.rate() - eager.rate()).abs() <= 1e-9 * eager.rate());
            prop_assert!((lazy.alpha() - eager.alpha()).abs() <= 1e-12);
        }
    }

    /// No cut takes more than `rpg_min_dec_fac` allows, and without CNPs the rate never falls.
    #[test]
    fn cuts_are_bounded_and_need_a_cnp(mlnx in parameters(), inputs in inputs()) {
        let p = resolved(&DcqcnParameters { rate_to_set_on_first_cnp: 0, ..mlnx });
        let mut rp = ReactionPoint::new(&p);
        let mut now = Time::ZERO;
        for (gap, input) in inputs {
            let before = rp.rate();
            let pending_possible = rp.is_limited();
            now += Time(gap);
            feed(&mut rp, &p, now, &input);
            let left = mlnx.rpg_min_dec_fac as f64 / 100.0;
            // At most the pending cut and, where the monitor period is zero, the one of this CNP.
            prop_assert!(rp.rate() >= before * left * left * (1.0 - 1e-12));
            if !pending_possible && !matches!(input, Input::Cnp) {
                prop_assert!(rp.rate() >= before);
            }
        }
    }
}
