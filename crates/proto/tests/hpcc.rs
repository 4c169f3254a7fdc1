//! HPCC against its paper: worked examples with the arithmetic shown, bounds under any input, and a closed loop.

mod bottleneck;

use bottleneck::Bottleneck;
use proptest::prelude::*;
use tailback_proto::congestion::hpcc::*;
use tailback_proto::congestion::parameters::RoundTrip;
use tailback_proto::congestion::{AckInfo, Controller, HopTelemetry, Link};
use tailback_proto::units::{Bytes, Rate, Time};

const LINE: Rate = Rate::from_gbps(100);

/// T = 8 us at 100 Gbit/s: the largest window is 100 kB.
fn parameters() -> HpccParameters {
    HpccParameters { base_rtt: RoundTrip(Time::from_us(8)), ..Default::default() }
}

fn law(p: HpccParameters) -> HpccLaw {
    Hpcc::law(&p, Link { rate: LINE, mtu_bytes: 1000 }).unwrap()
}

fn hop(us: u64, tx_bytes: u64, queue_bytes: u64) -> HopTelemetry {
    HopTelemetry { at: Time::from_us(us), tx_bytes, queue_bytes, rate: LINE }
}

/// An ACK of all bytes up to `acknowledged`, with 100 kB more in flight.
fn ack(acknowledged: u64, hops: &[HopTelemetry]) -> AckInfo<'_> {
    AckInfo {
        now: Time::from_us(100),
        rtt: Time::from_us(8),
        newly_acked_bytes: 1000,
        acknowledged_bytes: acknowledged,
        sent_bytes: acknowledged + 100_000,
        hops,
        ..Default::default()
    }
}

fn close(found: f64, expected: f64) {
    assert!((found - expected).abs() <= expected.abs() * 1e-9, "found {found}, expected {expected}");
}

#[test]
fn a_flow_starts_with_a_full_window_at_line_rate() {
    let p = law(parameters());
    let mut cc = Hpcc::new(&p);
    assert_eq!((cc.rate(), cc.window_bytes()), (100e9, Some(100_000)));
    cc.on_ack(&p, &ack(1000, &[hop(10, 0, 50_000)]));
    assert_eq!((cc.rate(), cc.window_bytes()), (100e9, Some(100_000)), "nothing to compare with yet");
}

#[test]
fn a_full_link_with_a_queue_divides_the_window() {
    let p = law(parameters());
    let mut cc = Hpcc::new(&p);
    cc.on_ack(&p, &ack(1000, &[hop(10, 0, 60_000)]));
    // In 8 us 100,000 B left: txRate / B = 1. min(60, 50) kB of queue over B * T = 100 kB: 0.5. So u = 1.5, and with
    // tau = T the average is u: U = 1.5. W = Wc / (1.5 / 0.95) + 80 = 100,000 * 0.95 / 1.5 + 80 = 63,413.33 B.
    cc.on_ack(&p, &ack(200_000, &[hop(18, 100_000, 50_000)]));
    close(cc.load(), 1.5);
    let window = 100_000.0 * 0.95 / 1.5 + 80.0;
    assert_eq!(cc.window_bytes(), Some(window as u64));
    close(cc.rate(), window * 8e12 / 8e6);
}

#[test]
fn acks_of_one_round_trip_do_not_cut_twice() {
    let p = law(parameters());
    let mut cc = Hpcc::new(&p);
    cc.on_ack(&p, &ack(1000, &[hop(10, 0, 50_000)]));
    cc.on_ack(&p, &ack(200_000, &[hop(18, 100_000, 50_000)]));
    let once = cc.window_bytes();
    // The reference window is now the cut one, until an ACK of what was sent after that: beyond 300,000.
    for i in 1..=5 {
        cc.on_ack(&p, &ack(200_000 + i * 1000, &[hop(18 + 8 * i, 100_000 * (1 + i), 50_000)]));
        // Each ACK divides the same Wc: W = 63,413.33 / (1.5 / 0.95) + 80.
        let twice = (100_000.0 * 0.95 / 1.5 + 80.0) * 0.95 / 1.5 + 80.0;
        assert_eq!(cc.window_bytes(), Some(twice as u64), "ACK {i}");
    }
    assert_ne!(once, cc.window_bytes());
}

#[test]
fn a_young_measurement_weighs_its_share_of_a_round_trip() {
    let p = law(parameters());
    let mut cc = Hpcc::new(&p);
    cc.on_ack(&p, &ack(1000, &[hop(10, 0, 0)]));
    // In 2 us nothing left: u = 0 over tau = T / 4. U = 3/4 * 1 + 1/4 * 0.
    cc.on_ack(&p, &ack(2000, &[hop(12, 0, 0)]));
    close(cc.load(), 0.75);
}

#[test]
fn below_the_target_five_additive_steps_then_a_multiplicative_one() {
    let p = law(HpccParameters { additive: Bytes(100), ..parameters() });
    let mut cc = Hpcc::new(&p);
    cc.on_ack(&p, &ack(1000, &[hop(10, 0, 0)]));
    // A cut first, so that there is room: u = 1.9, W = 100,000 / 2 + 100.
    cc.on_ack(&p, &ack(200_000, &[hop(18, 190_000, 0)]));
    assert_eq!(cc.window_bytes(), Some(50_100));
    // Half a load, a round trip each: five steps of 100 B.
    for i in 1..=5u64 {
        cc.on_ack(&p, &ack(200_000 + 200_000 * i, &[hop(18 + 8 * i, 190_000 + 50_000 * i, 0)]));
        close(cc.load(), 0.5);
        assert_eq!(cc.window_bytes(), Some(50_100 + 100 * i));
    }
    // The sixth multiplies: 50,600 * 0.95 / 0.5 + 100 = 96,240.
    cc.on_ack(&p, &ack(1_600_000, &[hop(66, 490_000, 0)]));
    assert_eq!(cc.window_bytes(), Some(96_240));
}

#[test]
fn the_most_loaded_link_counts() {
    let p = law(parameters());
    let mut cc = Hpcc::new(&p);
    let first = [hop(10, 0, 0), hop(11, 5, 40_000), hop(12, 9, 0)];
    let second = [hop(18, 90_000, 0), hop(19, 80_005, 40_000), hop(20, 100_009, 0)];
    cc.on_ack(&p, &ack(1000, &first));
    cc.on_ack(&p, &ack(2000, &second));
    close(cc.load(), 0.8 + 0.4);
}

#[test]
fn a_new_path_starts_a_new_record() {
    let p = law(parameters());
    let mut cc = Hpcc::new(&p);
    cc.on_ack(&p, &ack(1000, &[hop(10, 500_000, 0)]));
    cc.on_ack(&p, &ack(2000, &[hop(18, 0, 0)])); // a counter that goes back is another link's
    cc.on_ack(&p, &ack(3000, &[hop(26, 0, 0), hop(26, 0, 0)]));
    assert_eq!((cc.load(), cc.window_bytes()), (1.0, Some(100_000)));
}

#[test]
fn impossible_parameters_are_named() {
    let refuse = |p: HpccParameters| Hpcc::law(&p, Link { rate: LINE, mtu_bytes: 1000 }).unwrap_err().field;
    assert_eq!(refuse(HpccParameters { base_rtt: RoundTrip::AUTO, ..parameters() }), "base_rtt");
    assert_eq!(refuse(HpccParameters { eta: f64::NAN, ..parameters() }), "eta");
    assert_eq!(refuse(HpccParameters { min_rate: Rate::from_gbps(101), ..parameters() }), "min_rate");
    assert_eq!(refuse(HpccParameters { telemetry: Bytes(2000), ..parameters() }), "telemetry");
}

/// The paper: the link runs at eta, W_AI adds a little, the queue is near zero, flows are equal (section 3; 5.2).
#[test]
fn sixteen_flows_fill_the_link_to_eta_with_hardly_a_queue() {
    let link = Bottleneck { rate: LINE, delay: Time(7_920_000), mark_above_bytes: u64::MAX };
    let p = law(parameters());
    let starts = (0..16u32).map(|i| Time(i as u64 * 1_000));
    let seen = bottleneck::run::<Hpcc>(&link, &p, starts, Time::from_ms(2), Time::from_ms(6));
    println!(
        "utilisation {:.4}, mean queue {:.0} B, max queue {} B, fairness {:.4}",
        seen.utilisation,
        seen.mean_queue,
        seen.max_queue,
        seen.fairness()
    );
    // eta + N * W_AI / (B * T) = 0.95 + 16 * 80 / 100,000 = 0.963.
    assert!((0.94..0.98).contains(&seen.utilisation), "utilisation {}", seen.utilisation);
    assert!(seen.mean_queue < 3_000.0, "mean queue {}", seen.mean_queue);
    assert!(seen.fairness() > 0.99, "fairness {}", seen.fairness());
}

/// "HPCC ... resolves congestion in just one RTT": a second flow's burst is gone in a few round trips (5.2).
#[test]
fn a_newcomer_at_line_rate_leaves_no_standing_queue() {
    let link = Bottleneck { rate: LINE, delay: Time(7_920_000), mark_above_bytes: u64::MAX };
    let p = law(parameters());
    let run = |from: u64, until: u64| {
        let starts = [Time::ZERO, Time::from_us(500)].into_iter();
        bottleneck::run::<Hpcc>(&link, &p, starts, Time::from_us(from), Time::from_us(until))
    };
    let (burst, after) = (run(500, 540), run(540, 600));
    println!("burst {} B, after five round trips a mean of {:.0} B", burst.max_queue, after.mean_queue);
    assert!(burst.max_queue > 50_000, "two flows at line rate for a round trip: {}", burst.max_queue);
    assert!(after.mean_queue < 5_000.0, "{}", after.mean_queue);
}

proptest! {
    #[test]
    fn rate_and_window_stay_in_their_bounds(
        t in 1u64..1_000_000_000, eta in 0.01f64..1.0, max_stage in 0u32..10, additive in 0..1_000_000_000u64,
        min_rate in 1..100_000_000_000u64,
        acks in prop::collection::vec(
            (any::<[u64; 4]>(), prop::collection::vec((any::<u64>(), any::<u64>(), any::<u64>(), any::<u64>()), 0..8)),
            1..100
        ),
        steady in any::<bool>(),
    ) {
        let p = law(HpccParameters {
            base_rtt: RoundTrip(Time(t)), eta, max_stage, additive: Bytes(additive), min_rate: Rate(min_rate),
            ..Default::default()
        });
        let mut cc = Hpcc::new(&p);
        let (mut at, mut tx) = (0u64, 0u64);
        for (numbers, hops) in &acks {
            let hops: Vec<HopTelemetry> = hops.iter().map(|&(a, b, c, d)| {
                // Half of the cases: counters that move on, so that loads are computed and not only refused.
                let (a, b, d) = if steady { (at + a % 100, tx + b % 100, 1 << (d % 40)) } else { (a, b, d) };
                HopTelemetry { at: Time(a), tx_bytes: b, queue_bytes: c, rate: Rate(d) }
            }).collect();
            at += 100 + numbers[1] % 1000;
            tx += 100 + numbers[2] % 1000;
            let hops = if steady && !hops.is_empty() { &hops[..1] } else { &hops[..] };
            cc.on_ack(&p, &AckInfo {
                now: Time(numbers[0]), completes_burst: false, rtt: Time(numbers[1]), newly_acked_bytes: numbers[2],
                acknowledged_bytes: numbers[3], sent_bytes: numbers[0], marked: numbers[1] % 2 == 0, hops,
                ..Default::default()
            });
            prop_assert!((min_rate as f64..=100e9).contains(&cc.rate()), "rate {}", cc.rate());
            let window = cc.window_bytes().unwrap() as f64;
            prop_assert!(window <= p.windows.max_window().max(1.0) && window + 1.0 >= p.windows.min_window(), "window {window}");
            prop_assert!(cc.load() >= 0.0, "load {}", cc.load());
        }
    }
}
