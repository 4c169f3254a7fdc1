//! TIMELY against its paper: worked examples with the arithmetic shown, bounds under any input, and a closed loop.

mod bottleneck;

use bottleneck::Bottleneck;
use proptest::prelude::*;
use tailback_proto::congestion::parameters::RoundTrip;
use tailback_proto::congestion::timely::*;
use tailback_proto::congestion::{AckInfo, Controller, Link};
use tailback_proto::units::{Bytes, Rate, Time};

const LINE: Rate = Rate::from_gbps(100);

/// The paper's values, with delta at ten times its 10 Mbit/s, and alpha as CoNEXT 2016 has it.
fn parameters() -> TimelyParameters {
    TimelyParameters {
        alpha: 0.875,
        additive: Rate::from_mbps(100),
        hyper_additive: Rate::from_mbps(500),
        ..Default::default()
    }
}

fn law(p: TimelyParameters) -> TimelyLaw {
    Timely::law(&p, Link { rate: LINE, mtu_bytes: 1000 }).unwrap()
}

/// A completion event with this RTT.
fn completion(rtt_us: u64) -> AckInfo<'static> {
    AckInfo {
        now: Time::from_ms(1),
        rtt: Time::from_us(rtt_us),
        completes_burst: true,
        newly_acked_bytes: 16_000,
        ..Default::default()
    }
}

fn fed(p: &TimelyLaw, rtts: &[u64]) -> Timely {
    let mut cc = Timely::new(p);
    for &rtt in rtts {
        cc.on_ack(p, &completion(rtt));
    }
    cc
}

fn close(found: f64, expected: f64) {
    assert!((found - expected).abs() <= expected.abs() * 1e-9, "found {found}, expected {expected}");
}

#[test]
fn the_first_rtt_is_only_a_reference() {
    let p = law(parameters());
    assert_eq!(fed(&p, &[]).rate(), 100e9);
    assert_eq!(fed(&p, &[900]).rate(), 100e9);
    assert_eq!(fed(&p, &[]).window_bytes(), None);
}

#[test]
fn a_growing_rtt_between_the_thresholds_decreases_by_the_gradient() {
    let p = law(parameters());
    // 100 to 110 us: the average is 0.875 * 10 us, over 20 us a gradient of 0.4375; 1 - 0.8 * 0.4375 = 0.65.
    let mut cc = fed(&p, &[100, 110]);
    close(cc.gradient(&p), 0.4375);
    close(cc.rate(), 65e9);
    // 110 to 108 us: 0.125 * 8.75 - 0.875 * 2 = -0.65625 us: the gradient is below 0, the rate gains delta.
    cc.on_ack(&p, &completion(108));
    close(cc.gradient(&p), -0.65625 / 20.0);
    close(cc.rate(), 65.1e9);
}

#[test]
fn above_t_high_the_rate_falls_whatever_the_gradient() {
    let p = law(parameters());
    // 1 - 0.8 * (1 - 500 / 1000) = 0.6, although the RTT falls.
    close(fed(&p, &[2000, 1000]).rate(), 60e9);
}

#[test]
fn below_t_low_the_rate_grows_whatever_the_gradient() {
    let p = law(parameters());
    close(fed(&p, &[1500, 1000, 20, 40]).rate(), 60e9 + 2.0 * 100e6);
}

#[test]
fn five_calm_completion_events_make_the_increase_hyperactive() {
    let p = law(parameters());
    let mut cc = fed(&p, &[2000, 1000, 400]);
    // The drop to 400 us was the first calm event: 60 + 0.1. Three more of delta, then N * delta.
    close(cc.rate(), 60.1e9);
    for rtt in [399, 398, 397] {
        cc.on_ack(&p, &completion(rtt));
    }
    close(cc.rate(), 60.4e9);
    cc.on_ack(&p, &completion(396));
    close(cc.rate(), 60.9e9);
    cc.on_ack(&p, &completion(395));
    close(cc.rate(), 61.4e9);
    // A rise ends it: 0.875 * 5 - 0.125 * about 1 us is above zero.
    cc.on_ack(&p, &completion(400));
    let after = cc.rate();
    assert!(after < 61.4e9);
    cc.on_ack(&p, &completion(390));
    close(cc.rate(), after + 100e6);
}

#[test]
fn a_segment_or_a_round_trip_is_one_completion_event() {
    let p = law(parameters());
    assert_eq!(Timely::burst_bytes(&p).map(|bytes| bytes.get()), Some(16_000));
    let mut cc = fed(&p, &[103]);
    for rtt in [110, 120, 130] {
        cc.on_ack(&p, &AckInfo { completes_burst: false, ..completion(rtt) });
        assert_eq!((cc.rate(), cc.rtt()), (100e9, Some(Time::from_us(103))));
    }
    // 103 to 107 us: 1 - 0.8 * 0.875 * 4 / 20 = 0.86.
    cc.on_ack(&p, &completion(107));
    close(cc.rate(), 86e9);

    let p = law(TimelyParameters { segment: Bytes(0), ..parameters() });
    assert_eq!(Timely::burst_bytes(&p), None);
    let mut cc = Timely::new(&p);
    let at = |acknowledged_bytes, rtt| AckInfo {
        completes_burst: false,
        acknowledged_bytes,
        sent_bytes: acknowledged_bytes + 10_000,
        ..completion(rtt)
    };
    cc.on_ack(&p, &at(1_000, 100)); // the next round trip ends beyond 11,000
    cc.on_ack(&p, &at(11_000, 110));
    assert_eq!(cc.rate(), 100e9);
    cc.on_ack(&p, &at(11_001, 110));
    close(cc.rate(), 65e9);
}

#[test]
fn impossible_parameters_are_named() {
    let refuse =
        |p: TimelyParameters| Timely::law(&p, Link { rate: LINE, mtu_bytes: 1000 }).unwrap_err().field;
    assert_eq!(refuse(TimelyParameters { alpha: 0.0, ..parameters() }), "alpha");
    assert_eq!(refuse(TimelyParameters { beta: 1.5, ..parameters() }), "beta");
    assert_eq!(refuse(TimelyParameters { t_low: Time::from_ms(1), ..parameters() }), "t_low");
    assert_eq!(refuse(TimelyParameters { min_rtt: RoundTrip::AUTO, ..parameters() }), "min_rtt");
    assert_eq!(refuse(TimelyParameters { min_rate: Rate(0), ..parameters() }), "min_rate");
}

fn closed_loop(rate: Rate, p: TimelyParameters, flows: u32) -> bottleneck::Seen {
    let p = Timely::law(&p, Link { rate, mtu_bytes: 1000 }).unwrap();
    let link = Bottleneck { rate, delay: Time::from_us(20), mark_above_bytes: u64::MAX };
    let starts = (0..flows).map(|i| Time::from_us(i as u64 * 10));
    let seen = bottleneck::run::<Timely>(&link, &p, starts, Time::from_ms(100), Time::from_ms(300));
    println!(
        "utilisation {:.4}, {:.3} between, RTT 1 % {}, 50 % {}, 99 % {}, fairness {:.4}",
        seen.utilisation,
        seen.rtts.iter().filter(|&rtt| (p.t_low..=p.t_high).contains(rtt)).count() as f64
            / seen.rtts.len() as f64,
        seen.rtt(0.01),
        seen.rtt(0.5),
        seen.rtt(0.99),
        seen.fairness()
    );
    seen
}

/// The paper's values at its link rate. The RTT swings about T_low: half of it lies between the thresholds.
#[test]
fn ten_flows_of_bursts_hold_the_rtt_around_t_low() {
    let p = TimelyParameters {
        min_rate: Rate::from_mbps(10),
        alpha: 0.02,
        additive: Rate::from_mbps(10),
        hyper_additive: Rate::from_mbps(50),
        ..parameters()
    };
    let seen = closed_loop(Rate::from_gbps(10), p, 10);
    assert!(seen.utilisation > 0.8, "utilisation {}", seen.utilisation);
    assert!((Time::from_us(40)..Time::from_us(60)).contains(&seen.rtt(0.5)), "50 % {}", seen.rtt(0.5));
    assert!((p.t_low..p.t_high).contains(&seen.rtt(0.99)), "99 % {}", seen.rtt(0.99));
    assert!(seen.fairness() > 0.98, "fairness {}", seen.fairness());
}

/// CoNEXT 2016: with each packet paced, and a computation for each, any share of the link is as stable as a fair one. The
/// RTT stays at T_low and the link is full, and a few flows have nearly all of it. Bursts are noise that takes shares
/// apart and together again.
#[test]
fn rates_have_no_fixed_point_where_packets_are_paced() {
    let p = TimelyParameters::default();
    let seen = closed_loop(LINE, TimelyParameters { segment: Bytes(bottleneck::PACKET), ..p }, 10);
    assert!(seen.utilisation > 0.99, "utilisation {}", seen.utilisation);
    assert!(seen.fairness() < 0.5, "fairness {}", seen.fairness());
    let seen = closed_loop(LINE, p, 10);
    assert!(seen.fairness() > 0.9, "fairness {}", seen.fairness());
}

proptest! {
    #[test]
    fn the_rate_stays_in_its_bounds(
        alpha in 1e-6f64..=1.0, beta in 1e-6f64..=1.0, additive in 0..10_000_000_000_000u64, hyper_after in 0u32..10,
        times in (1u64..1_000_000_000, 0u64..1_000_000_000, 1u64..1_000_000_000), segment_bytes in 0u64..100_000,
        min_rate in 1..100_000_000_000u64,
        acks in prop::collection::vec((any::<u64>(), any::<bool>(), any::<u64>(), any::<u64>()), 1..200),
    ) {
        let p = law(TimelyParameters {
            min_rate: Rate(min_rate), alpha, beta, additive: Rate(additive), hyper_additive: Rate(additive * 5),
            hyper_after, t_low: Time(times.0), t_high: Time(times.0 + times.1), min_rtt: RoundTrip(Time(times.2)),
            segment: Bytes(segment_bytes), ..Default::default()
        });
        let mut cc = Timely::new(&p);
        for &(rtt, completes_burst, acknowledged, sent) in &acks {
            cc.on_ack(&p, &AckInfo {
                rtt: Time(rtt), completes_burst, acknowledged_bytes: acknowledged, sent_bytes: sent,
                ..completion(0)
            });
            prop_assert!((min_rate as f64..=100e9).contains(&cc.rate()), "rate {}", cc.rate());
            prop_assert!(cc.gradient(&p).is_finite());
        }
    }
}
