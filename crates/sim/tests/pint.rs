//! HPCC over PINT: worked examples with the arithmetic shown, digests that are right on average, and the whole system.

mod common;

use std::num::NonZeroU16;

use common::*;
use proptest::prelude::*;
use tailback_proto::congestion::hpcc::HpccParameters;
use tailback_proto::congestion::hpcc::{Digests, EgressLoad, Pint, PintLaw, PintParameters};
use tailback_proto::congestion::parameters::RoundTrip;
use tailback_proto::congestion::{AckInfo, Controller, HopTelemetry, Link};
use tailback_proto::units::{Bytes, Rate, Time};
use tailback_sim::plan::*;
use tailback_sim::record::{Flow, Recording};
use tailback_sim::Simulation;

const LINE: Rate = Rate::from_gbps(100);

/// T = 8 us at 100 Gbit/s: the largest window is 100 kB.
fn parameters() -> PintParameters {
    PintParameters { base_rtt: RoundTrip(Time::from_us(8)), ..Default::default() }
}

fn law(p: PintParameters) -> PintLaw {
    Pint::law(&p, Link { rate: LINE, mtu_bytes: 1000 }).unwrap()
}

fn digests(p: PintParameters) -> Digests {
    Pint::digests(&law(p)).unwrap().clone()
}

/// An ACK of all bytes up to `acknowledged`, with 100 kB more in flight.
fn ack(acknowledged: u64, digest: Option<NonZeroU16>) -> AckInfo<'static> {
    AckInfo {
        now: Time::from_us(100),
        rtt: Time::from_us(8),
        newly_acked_bytes: 1000,
        acknowledged_bytes: acknowledged,
        sent_bytes: acknowledged + 100_000,
        digest,
        ..Default::default()
    }
}

fn close(found: f64, expected: f64) {
    assert!((found - expected).abs() <= expected.abs() * 1e-9, "found {found}, expected {expected}");
}

#[test]
fn an_egress_averages_its_load_over_a_round_trip() {
    let digests = digests(parameters());
    let mut load = EgressLoad::default();
    let hop =
        |us, tx_bytes, queue_bytes| HopTelemetry { at: Time::from_us(us), tx_bytes, queue_bytes, rate: LINE };
    // Nothing for 8 us, of which none is left; now 50 kB wait behind it, over B * T = 100 kB: 0.5.
    close(digests.measure(&mut load, &hop(8, 0, 50_000)), 0.5);
    // 25,000 B in 2 us are a full link, 1 + 0.5; tau = T / 4: 3/4 * 0.5 + 1/4 * 1.5 = 0.75.
    close(digests.measure(&mut load, &hop(10, 25_000, 50_000)), 0.75);
    // 12,500 B in 2 us are half of one, and nothing waits: 3/4 * 0.75 + 1/4 * 0.5 = 0.6875.
    close(digests.measure(&mut load, &hop(12, 37_500, 0)), 0.6875);
    // After more than a round trip only what came since counts: 50,000 B in 20 us, 0.2 of the link.
    close(digests.measure(&mut load, &hop(32, 87_500, 0)), 0.2);
}

#[test]
fn codes_are_powers_and_chance_decides_between_two() {
    let p = PintParameters { base: 2.0, ..parameters() };
    let digests = digests(p);
    let code = |load, chance| digests.code(load, chance).get();
    // 1/512 is code 1, so 2^9 of them, 1, is code 10, and 2 code 11.
    assert_eq!([code(0.0, 0.9), code(1.0, 0.9), code(2.0, 0.0)], [1, 10, 11]);
    close(digests.load(NonZeroU16::new(10).unwrap()), 1.0);
    // 1.25 is a quarter of the way from 1 to 2.
    assert_eq!([code(1.25, 0.0), code(1.25, 0.24), code(1.25, 0.25), code(1.25, 0.99)], [11, 11, 10, 10]);
    // The largest is 512, code 19; what no switch writes is read as that.
    assert_eq!([code(512.0, 0.5), code(1e300, 0.0)], [19, 19]);
    close(digests.load(NonZeroU16::MAX), 512.0);
    // In a byte 1.05 reaches 1.05^254 / 512 = 470.
    close(self::digests(parameters()).load(NonZeroU16::MAX), 1.05f64.powi(254) / 512.0);
}

#[test]
fn a_digest_moves_the_window_as_hpcc_does() {
    let p = law(PintParameters { base: 2.0, ..parameters() });
    let mut cc = Pint::new(&p);
    assert_eq!((cc.rate(), cc.window_bytes()), (100e9, Some(100_000)));
    let [one, two] = [10, 11].map(NonZeroU16::new);
    cc.on_ack(&p, &ack(1000, two));
    assert_eq!(cc.window_bytes(), Some(100_000), "the first only begins the round trip, until 101,000");
    // U = 2: W = 100,000 / (2 / 0.95) + 80 = 47,580 B, from each ACK of the round trip.
    for acknowledged in [2000, 3000, 101_000] {
        cc.on_ack(&p, &ack(acknowledged, two));
        assert_eq!(cc.window_bytes(), Some(47_580));
    }
    close(cc.rate(), 47_580.0 * 8e12 / 8e6);
    // A packet without one says nothing, and ends no round trip.
    cc.on_ack(&p, &ack(102_000, None));
    assert_eq!(cc.window_bytes(), Some(47_580));
    // The next ends it: W = Wc = 47,580. The one after divides that: 47,580 * 0.95 + 80 = 45,281 B.
    cc.on_ack(&p, &ack(103_000, two));
    assert_eq!(cc.window_bytes(), Some(47_580));
    cc.on_ack(&p, &ack(104_000, one));
    assert_eq!(cc.window_bytes(), Some(45_281));
}

#[test]
fn a_share_of_the_packets_carries_a_digest() {
    for (probability, least, most) in [(1.0, 1 << 16, 1 << 16), (1.0 / 16.0, 4095, 4097)] {
        let digests = digests(PintParameters { probability, ..parameters() });
        let carriers = (0..1u32 << 16).filter(|n| digests.is_carrier(n << 16)).count();
        assert!((least..=most).contains(&carriers), "{carriers}");
    }
}

#[test]
fn impossible_parameters_are_named() {
    let refuse = |p: PintParameters| Pint::law(&p, Link { rate: LINE, mtu_bytes: 1000 }).unwrap_err();
    assert_eq!(refuse(PintParameters { base_rtt: RoundTrip::AUTO, ..parameters() }).field, "base_rtt");
    assert_eq!(refuse(PintParameters { probability: 0.0, ..parameters() }).field, "probability");
    assert_eq!(refuse(PintParameters { telemetry: Bytes(3), ..parameters() }).field, "telemetry");
    assert_eq!(refuse(PintParameters { min_rate: Rate::from_gbps(101), ..parameters() }).field, "min_rate");
    // 1.01^254 / 512 = 0.024.
    let refused = refuse(PintParameters { base: 1.01, ..parameters() }).to_string();
    assert_eq!(refused, "base: expected larger: 1B of telemetry would tell loads up to 0.024 only");
    law(PintParameters { base: 1.01, telemetry: Bytes(2), ..parameters() });
}

proptest! {
    /// A code is next to the load, and over all chances its load is the load on average.
    #[test]
    fn digests_are_right_on_average(base in 1.03f64..2.0, exponent in -9.0f64..8.9, two in any::<bool>()) {
        let p = PintParameters { base, telemetry: Bytes(1 + two as u64), ..parameters() };
        let digests = digests(p);
        let load = exponent.exp2().min(digests.load(NonZeroU16::MAX)).max(1.0 / 512.0);
        let draws = 1000;
        let told = (0..draws).map(|i| digests.load(digests.code(load, (i as f64 + 0.5) / draws as f64)));
        let (mut sum, mut least, mut most) = (0.0, f64::MAX, 0.0f64);
        for told in told {
            (sum, least, most) = (sum + told, least.min(told), most.max(told));
        }
        prop_assert!(least > load / base * (1.0 - 1e-9) && most < load * base * (1.0 + 1e-9), "{load}: {least} to {most}");
        // Even chances: what is left is a step of 1/1000 of the distance between two codes.
        prop_assert!((sum / draws as f64 - load).abs() <= load * (base - 1.0) / draws as f64 * 1.01, "{load}");
    }

    #[test]
    fn rate_and_window_stay_in_their_bounds(
        t in 1u64..1_000_000_000, eta in 0.01f64..1.0, max_stage in 0u32..10, additive in 0..1_000_000_000u64,
        min_rate in 1..100_000_000_000u64,
        acks in prop::collection::vec((any::<u64>(), any::<u64>(), any::<u16>()), 1..100),
    ) {
        let p = law(PintParameters {
            base_rtt: RoundTrip(Time(t)), eta, max_stage, additive: Bytes(additive), min_rate: Rate(min_rate),
            ..Default::default()
        });
        let mut cc = Pint::new(&p);
        for &(acknowledged_bytes, sent_bytes, digest) in &acks {
            cc.on_ack(&p, &AckInfo { acknowledged_bytes, sent_bytes, ..ack(0, NonZeroU16::new(digest)) });
            prop_assert!((min_rate as f64..=100e9).contains(&cc.rate()), "rate {}", cc.rate());
            let window = cc.window_bytes().unwrap() as f64;
            let (least, most) = (p.windows.min_window(), p.windows.max_window());
            prop_assert!(window <= most.max(1.0) && window + 1.0 >= least, "window {window}");
        }
    }
}

/// Sixteen senders of long messages to one.
fn incast(congestion: Vec<CongestionPlan>) -> Plan {
    let mut plan = star(17);
    plan.writers = (0..16).map(|src| writer(src, 16, 1)).collect();
    for (index, writer) in plan.writers.iter_mut().enumerate() {
        (writer.message, writer.depth, writer.start) = (Bytes(1 << 20), 4, Time(index as u64 * US));
    }
    plan.nics[0].transport.ack_every = 1;
    plan.nics[0].congestion = congestion;
    plan.run.duration = Time(20 * MS);
    plan
}

fn pint(probability: f64) -> CongestionPlan {
    CongestionPlan::Pint(PintParameters { base_rtt: RoundTrip(Time(13 * US)), probability, ..parameters() })
}

fn hpcc() -> CongestionPlan {
    CongestionPlan::Hpcc(HpccParameters { base_rtt: RoundTrip(Time(13 * US)), ..Default::default() })
}

/// Over the second half: the receiver's goodput and link, bit/s, and the queue before it, bytes.
#[derive(Debug)]
struct Seen {
    wire: f64,
    queue: f64,
    fairness: f64,
    goodput: f64,
}

fn seen(recording: &Recording) -> Seen {
    let series = &recording.series;
    let mean = |entity: &str, metric: &str| {
        let named = |index: usize, name: &str| series.entities[index] == entity && name == metric;
        let column = series.columns().find(|(index, name, _)| named(*index, name)).expect(metric);
        let half = &column.2[series.bins / 2..series.bins];
        half.iter().sum::<f64>() / half.len() as f64
    };
    let rates: Vec<f64> = recording.flows.iter().map(|flow| flow.goodput_bps).collect();
    let (sum, squares) = (rates.iter().sum::<f64>(), rates.iter().map(|r| r * r).sum::<f64>());
    Seen {
        wire: mean("h16", "wire_rx_bps"),
        queue: mean("sw0:h16/tc3", "queue_mean_bytes"),
        fairness: sum * sum / (rates.len() as f64 * squares),
        goodput: sum,
    }
}

/// The paper: about as HPCC with all of its telemetry, and what that took on the wire is goodput.
#[test]
fn sixteen_to_one_is_as_under_hpcc() {
    let all = [hpcc(), pint(1.0), pint(1.0 / 16.0)].map(|congestion| seen(&run(incast(vec![congestion]))));
    println!("HPCC, PINT in each packet, in one of 16: {all:#?}");
    let [hpcc, pint, sixteenth] = all;
    for seen in [&pint, &sixteenth] {
        assert!((94e9..97e9).contains(&seen.wire), "{seen:?}");
        assert!(seen.goodput > 0.85 * 100e9 && seen.goodput > hpcc.goodput, "{seen:?}");
        assert!(seen.fairness > 0.98, "{seen:?}");
    }
    // Packets of 1,123 B.
    assert!(pint.queue < 4.0 * 1123.0, "{pint:?}");
    assert!(sixteenth.queue < 12.0 * 1123.0, "{sixteenth:?}");
}

/// Bytes of a digest are on the wire, and in the ideal completion time: a message alone takes exactly that.
#[test]
fn a_digest_takes_its_byte_on_the_wire() {
    let mut plan = star(2);
    plan.nics[0].transport.ack_every = 1;
    plan.nics[0].congestion = vec![pint(1.0)];
    plan.flows.items = vec!["one".into()];
    plan.flows.list = vec![serde_json::from_str("[0, 1, 0, 3, 1024, 0]").unwrap()];
    let recording = run(plan);
    // 1,024 + 98 + 1 B of data and 86 + 1 B of ACK, each over two links at 80 ps a byte.
    let expected = 2 * (1123 + 87) * 80 + 4 * 500_000 + 4 * 300_000;
    assert_eq!(recording.flows[0].fct_ps, Some(expected));
    assert_eq!(recording.flows[0].ideal_fct_ps, Some(expected));
}

/// HPCC's senders get what switches write in full, PINT's their digests: both hold their queue.
#[test]
fn beside_hpcc_both_share_the_link() {
    let mut plan = incast(vec![pint(1.0), hpcc()]);
    for writer in &mut plan.writers[..8] {
        writer.congestion = Some(1);
    }
    let recording = run(plan);
    let seen = seen(&recording);
    let share = |flows: &[Flow]| flows.iter().map(|flow| flow.goodput_bps).sum::<f64>();
    let (hpcc, pint) = recording.flows.split_at(8);
    println!("{seen:?}; HPCC {:.1}, PINT {:.1} Gbit/s", share(hpcc) / 1e9, share(pint) / 1e9);
    assert!((94e9..97e9).contains(&seen.wire), "{seen:?}");
    assert!(seen.queue < 5.0 * 1164.0, "{seen:?}");
    assert!(share(hpcc) / seen.goodput > 0.2 && share(pint) / seen.goodput > 0.2);
}

#[test]
fn a_switch_has_one_average() {
    let other = PintParameters { base: 1.1, base_rtt: RoundTrip(Time(13 * US)), ..parameters() };
    let plan = incast(vec![pint(1.0), CongestionPlan::Pint(other)]);
    let problem = Simulation::new(plan).err().expect("refused").to_string();
    assert!(problem.contains("nics: digests that differ"), "{problem}");
}
