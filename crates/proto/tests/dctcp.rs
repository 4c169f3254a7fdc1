//! DCTCP against its paper: worked examples with the arithmetic shown, bounds under any input, and a closed loop.

mod bottleneck;

use bottleneck::{Bottleneck, PACKET};
use proptest::prelude::*;
use tailback_proto::congestion::dctcp::*;
use tailback_proto::congestion::parameters::RoundTrip;
use tailback_proto::congestion::{AckInfo, Controller, Link};
use tailback_proto::units::{Rate, Time};

const LINE: Rate = Rate::from_gbps(100);

/// g of the paper; a packet of 1000 B a round trip of 8 us is 1 Gbit/s.
fn parameters() -> DctcpParameters {
    DctcpParameters {
        additive: Rate::from_gbps(1),
        window_rtt: Some(RoundTrip(Time::from_us(8))),
        ..Default::default()
    }
}

fn law(p: DctcpParameters) -> DctcpLaw {
    Dctcp::law(&p, Link { rate: LINE, mtu_bytes: 1000 }).unwrap()
}

fn ack(acknowledged_bytes: u64, sent_bytes: u64, marked: bool) -> AckInfo<'static> {
    AckInfo {
        now: Time::from_ms(1),
        rtt: Time::from_us(8),
        newly_acked_bytes: PACKET,
        acknowledged_bytes,
        sent_bytes,
        marked,
        ..Default::default()
    }
}

fn close(found: f64, expected: f64) {
    assert!((found - expected).abs() <= expected.abs() * 1e-9, "found {found}, expected {expected}");
}

#[test]
fn a_flow_starts_at_line_rate_and_its_first_mark_halves_it() {
    let p = law(parameters());
    let mut cc = Dctcp::new(&p);
    assert_eq!((cc.rate(), cc.window_bytes(), cc.alpha()), (100e9, Some(100_000), 1.0));
    cc.on_ack(&p, &ack(1_000, 100_000, true));
    assert_eq!((cc.rate(), cc.window_bytes()), (50e9, Some(50_000)));
}

#[test]
fn alpha_is_the_average_share_of_marked_bytes() {
    let p = law(parameters());
    let mut cc = Dctcp::new(&p);
    // The first window ends beyond 8,000: eight packets, and the one that ends it. Three of nine are marked.
    for i in 1..=9u64 {
        cc.on_ack(&p, &ack(i * 1_000, 8_000 + if i == 9 { 9_000 } else { 0 }, i <= 3));
    }
    // Equation 1: 15/16 * 1 + 1/16 * 3/9.
    let alpha = 15.0 / 16.0 + 3.0 / 9.0 / 16.0;
    close(cc.alpha(), alpha);
    // The second window, 9,000 to 17,000, has no mark.
    for i in 10..=18u64 {
        cc.on_ack(&p, &ack(i * 1_000, 30_000, false));
    }
    close(cc.alpha(), alpha * 15.0 / 16.0);
}

#[test]
fn one_cut_a_window_then_one_increase_a_window() {
    let p = law(parameters());
    let mut cc = Dctcp::new(&p);
    for i in 1..=5u64 {
        cc.on_ack(&p, &ack(i * 1_000, 10_000, true));
        assert_eq!(cc.rate(), 50e9, "ACK {i}");
    }
    for i in 6..=10u64 {
        cc.on_ack(&p, &ack(i * 1_000, 20_000, false));
    }
    assert_eq!(cc.rate(), 50e9, "the window of the cut is not over");
    cc.on_ack(&p, &ack(11_000, 20_000, false));
    close(cc.rate(), 51e9);
    for i in 12..=20u64 {
        cc.on_ack(&p, &ack(i * 1_000, 30_000, false));
    }
    close(cc.rate(), 51e9);
    cc.on_ack(&p, &ack(21_000, 40_000, false));
    close(cc.rate(), 52e9);
    // A mark in the next window cuts at once, by half of what alpha has become: 5 of 11 packets, then 0, were marked.
    let alpha = (15.0 / 16.0 + 5.0 / 11.0 / 16.0) * 15.0 / 16.0;
    cc.on_ack(&p, &ack(22_000, 40_000, true));
    close(cc.rate(), 52e9 * (1.0 - alpha / 2.0));
}

#[test]
fn impossible_parameters_are_named() {
    let refuse = |p: DctcpParameters| Dctcp::law(&p, Link { rate: LINE, mtu_bytes: 1000 }).unwrap_err().field;
    assert_eq!(refuse(DctcpParameters { g: 0.0, ..parameters() }), "g");
    assert_eq!(refuse(DctcpParameters { g: f64::NAN, ..parameters() }), "g");
    assert_eq!(refuse(DctcpParameters { window_rtt: Some(RoundTrip::AUTO), ..parameters() }), "window_rtt");
    assert_eq!(refuse(DctcpParameters { min_rate: Rate::from_gbps(101), ..parameters() }), "min_rate");
    assert_eq!(refuse(DctcpParameters { min_rate: Rate(0), ..parameters() }), "min_rate");
}

/// The paper, section 3.3: the queue swings below a maximum of K + N packets and never runs empty where K is above a
/// seventh of the bandwidth-delay product; section 4.1: two flows hold it near K at full throughput.
#[test]
fn two_flows_hold_the_queue_near_k() {
    const K: u64 = 50_000;
    let link = Bottleneck { rate: LINE, delay: Time(7_920_000), mark_above_bytes: K };
    // With the window, as in the paper: rates alone would swing, since a queue is what rates have added up to.
    let p = law(parameters());
    let starts = [Time::ZERO, Time::from_us(3)].into_iter();
    let seen = bottleneck::run::<Dctcp>(&link, &p, starts, Time::from_ms(5), Time::from_ms(25));
    println!(
        "utilisation {:.4}, mean queue {:.0} B, max queue {} B, fairness {:.4}",
        seen.utilisation,
        seen.mean_queue,
        seen.max_queue,
        seen.fairness()
    );
    assert!(seen.utilisation > 0.99, "utilisation {}", seen.utilisation);
    assert!((0.5..1.2).contains(&(seen.mean_queue / K as f64)), "mean queue {}", seen.mean_queue);
    assert!(seen.fairness() > 0.95, "fairness {}", seen.fairness());
}

proptest! {
    #[test]
    fn rate_window_and_alpha_stay_in_their_bounds(
        g in 1e-6f64..=1.0, additive in 0..100_000_000_000_000u64, min_rate in 1..100_000_000_000u64,
        window in prop::option::of(1u64..1_000_000_000),
        acks in prop::collection::vec((any::<u64>(), any::<u64>(), any::<u64>(), any::<bool>()), 1..200),
    ) {
        let p = law(DctcpParameters {
            min_rate: Rate(min_rate), g, additive: Rate(additive), window_rtt: window.map(|rtt| RoundTrip(Time(rtt))),
        });
        let mut cc = Dctcp::new(&p);
        for &(newly, acknowledged, sent, marked) in &acks {
            cc.on_ack(&p, &AckInfo { newly_acked_bytes: newly, ..ack(acknowledged, sent, marked) });
            prop_assert!((min_rate as f64..=100e9).contains(&cc.rate()), "rate {}", cc.rate());
            prop_assert!((0.0..=1.0).contains(&cc.alpha()), "alpha {}", cc.alpha());
            prop_assert_eq!(cc.window_bytes().is_some(), window.is_some());
            if let Some(bytes) = cc.window_bytes() {
                let full = 100e9 * window.unwrap() as f64 / 8e12;
                prop_assert!(bytes >= 1 && bytes as f64 <= full.max(1.0), "window {bytes}");
            }
        }
    }
}
