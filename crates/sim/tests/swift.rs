//! Swift against its paper: worked examples with the arithmetic shown, and what it holds in the whole system.

mod common;

use common::*;
use tailback_proto::congestion::swift::{Swift, SwiftLaw, SwiftParameters};
use tailback_proto::congestion::{AckInfo, Controller, Link, Loss};
use tailback_proto::units::{Bytes, Rate, Time};
use tailback_sim::plan::*;
use tailback_sim::record::Recording;

const MTU: u32 = 1024;

fn law(parameters: SwiftParameters) -> SwiftLaw {
    Swift::law(&parameters, Link { rate: Rate::from_gbps(100), mtu_bytes: MTU }).unwrap()
}

/// An ACK of one packet over a switch, at `now_us`, with this delay.
fn ack(now_us: u64, rtt_us: u64) -> AckInfo<'static> {
    AckInfo {
        now: Time::from_us(now_us),
        rtt: Time::from_us(rtt_us),
        newly_acked_bytes: MTU as u64,
        hop_count: 1,
        ..Default::default()
    }
}

fn close(found: f64, expected: f64) {
    assert!((found - expected).abs() <= expected.abs() * 1e-9, "found {found}, expected {expected}");
}

#[test]
fn the_target_grows_with_hops_and_with_flows() {
    let law = law(SwiftParameters::default());
    let us = |cwnd, hops| law.target(cwnd, hops) / 1e6;
    // 25 us, and 2 us a switch; a window of 100 packets or more adds nothing, one of 0.1 or less 100 us.
    close(us(100.0, 0), 25.0);
    close(us(1000.0, 5), 35.0);
    close(us(0.1, 1), 127.0);
    close(us(0.01, 1), 127.0);
    // a = 100 / (1 / sqrt(0.1) - 1 / sqrt(100)) = 32.655 us, b = -3.2655 us: at one packet 29.39 us.
    let a = 100.0 / (1.0 / 0.1f64.sqrt() - 0.1);
    close(us(1.0, 0), 25.0 + a - a / 10.0);
}

#[test]
fn below_the_target_a_packet_more_each_round_trip() {
    let law = law(SwiftParameters { initial_cwnd: 4.0, ..Default::default() });
    let mut cc = Swift::new(&law);
    for i in 0..4 {
        cc.on_ack(&law, &ack(i, 10));
    }
    // 4 + 1/4, then + 1/4.25, ...
    let mut window = 4.0;
    for _ in 0..4 {
        window += 1.0 / window;
    }
    close(cc.cwnd(), window);
    assert_eq!((cc.rate(), cc.window_bytes()), (100e9, Some(4 * 1024)), "ACKs clock it, in whole packets");
    // Below one packet each acknowledged packet adds one.
    let law = self::law(SwiftParameters { initial_cwnd: 0.25, ..Default::default() });
    let mut cc = Swift::new(&law);
    cc.on_ack(&law, &ack(1, 10));
    close(cc.cwnd(), 1.25);
}

#[test]
fn above_the_target_in_proportion_and_once_a_round_trip() {
    let p = SwiftParameters { initial_cwnd: 200.0, ..Default::default() };
    let law = law(p);
    let mut cc = Swift::new(&law);
    // Target 27 us. 1 - 0.8 * (54 - 27) / 54 = 0.6.
    cc.on_ack(&law, &ack(1000, 54));
    close(cc.cwnd(), 120.0);
    cc.on_ack(&law, &ack(1053, 54));
    close(cc.cwnd(), 120.0);
    // However long the delay, not more than max_mdf.
    cc.on_ack(&law, &ack(2000, 900));
    close(cc.cwnd(), 60.0);
}

#[test]
fn a_window_below_a_packet_is_a_pause() {
    let law = law(SwiftParameters { initial_cwnd: 1.0, ..Default::default() });
    let mut cc = Swift::new(&law);
    cc.on_ack(&law, &ack(10_000, 500));
    cc.on_ack(&law, &ack(20_000, 500));
    close(cc.cwnd(), 0.25);
    // The next packet goes 500 us / 0.25 after the one before.
    cc.on_sent(&law, Time::from_us(20_000), 1024);
    assert_eq!((cc.window_bytes(), cc.next_timeout(&law)), (Some(0), Some(Time::from_us(22_000))));
    // An ACK with much delay halves the window, and the pause under way is twice as long.
    cc.on_ack(&law, &ack(20_600, 500));
    assert_eq!((cc.window_bytes(), cc.next_timeout(&law)), (Some(0), Some(Time::from_us(24_000))));
    cc.on_timeout(&law, Time::from_us(24_000));
    assert_eq!((cc.window_bytes(), cc.next_timeout(&law)), (Some(1024), None));
    // One with little delay adds a packet, and there is no pause.
    cc.on_sent(&law, Time::from_us(24_000), 1024);
    cc.on_ack(&law, &ack(24_020, 20));
    assert_eq!((cc.window_bytes(), cc.next_timeout(&law)), (Some(1024), None));
}

#[test]
fn losses_take_the_most_that_a_decrease_may_and_many_timeouts_all() {
    let law = law(SwiftParameters { initial_cwnd: 64.0, ..Default::default() });
    let mut cc = Swift::new(&law);
    cc.on_ack(&law, &ack(1000, 20));
    let before = cc.cwnd();
    cc.on_loss(&law, Time::from_us(2000), Loss::Nak);
    close(cc.cwnd(), before / 2.0);
    cc.on_loss(&law, Time::from_us(2010), Loss::Nak);
    close(cc.cwnd(), before / 2.0);
    for i in 0..5 {
        cc.on_loss(&law, Time::from_ms(10 + i), Loss::Timeout);
    }
    close(cc.cwnd(), 0.001);
}

#[test]
fn the_receiving_hosts_delay_has_a_window_of_its_own() {
    let law = law(SwiftParameters { initial_cwnd: 500.0, endpoint_weight: 1.0, ..Default::default() });
    let mut cc = Swift::new(&law);
    // 400 us, all of it in the host: four times its target; the fabric's delay is below its own.
    cc.on_ack(&law, &AckInfo { receiver_delay: Time::from_us(390), ..ack(1000, 400) });
    // Of 1,000 packets: 1 - 0.8 * (390 - 100) / 390 = 0.405, but at most half is taken.
    close(cc.cwnd(), 500.0_f64.min(500.0 + 1.0 / 500.0));
    cc.on_ack(&law, &AckInfo { receiver_delay: Time::from_us(390), ..ack(2000, 400) });
    close(cc.cwnd(), 250.0);
}

#[test]
fn impossible_parameters_are_named() {
    let link = Link { rate: Rate::from_gbps(100), mtu_bytes: MTU };
    let refuse = |p: SwiftParameters| Swift::law(&p, link).unwrap_err().field;
    let p = SwiftParameters::default();
    assert_eq!(refuse(SwiftParameters { beta: 0.0, ..p }), "beta");
    assert_eq!(refuse(SwiftParameters { fs_min_cwnd: 100.0, ..p }), "fs_min_cwnd");
    assert_eq!(refuse(SwiftParameters { initial_cwnd: 2000.0, ..p }), "initial_cwnd");
}

/// `flows` queue pairs of long messages from each of `senders` hosts to one.
fn incast(senders: usize, flows: u32, ms: u64) -> Recording {
    incast_of(SwiftParameters::default(), senders, flows, ms)
}

fn incast_of(parameters: SwiftParameters, senders: usize, flows: u32, ms: u64) -> Recording {
    let mut plan = star(senders + 1);
    plan.nics[0].congestion = vec![CongestionPlan::Swift(parameters)];
    plan.writers = (0..senders).map(|src| writer(src, senders, flows)).collect();
    for (index, writer) in plan.writers.iter_mut().enumerate() {
        writer.message = Bytes(1 << 20);
        writer.depth = 4;
        writer.start = Time(index as u64 * 10 * US);
    }
    plan.run.duration = Time(ms * MS);
    run(plan)
}

/// Means over the second half: the receiver's link, and of the queue pairs round trip, target, and window.
struct Seen {
    utilisation: f64,
    rtt_us: f64,
    target_us: f64,
    cwnd: f64,
    fairness: f64,
}

fn seen(recording: &Recording, receiver: &str) -> Seen {
    let series = &recording.series;
    let mean = |metric: &str, entity: Option<&str>| {
        let of = |index: usize| entity.is_none_or(|name| series.entities[index] == name);
        let columns = series.columns().filter(|(index, name, _)| *name == metric && of(*index));
        let values: Vec<f64> = columns.flat_map(|column| column.2[series.bins / 2..].to_vec()).collect();
        values.iter().sum::<f64>() / values.len() as f64
    };
    let rates: Vec<f64> = recording.flows.iter().map(|flow| flow.bytes_delivered as f64).collect();
    let (sum, squares) = (rates.iter().sum::<f64>(), rates.iter().map(|r| r * r).sum::<f64>());
    let seen = Seen {
        utilisation: mean("wire_rx_bps", Some(receiver)) / 100e9,
        rtt_us: mean("rtt_ps", None) / 1e6,
        target_us: mean("target_delay_ps", None) / 1e6,
        cwnd: mean("cwnd_packets", None),
        fairness: sum * sum / (rates.len() as f64 * squares),
    };
    println!(
        "{} flows: {:.4} of the link, RTT {:.2} us, target {:.2} us, window {:.3} packets, fairness {:.4}",
        rates.len(),
        seen.utilisation,
        seen.rtt_us,
        seen.target_us,
        seen.cwnd,
        seen.fairness
    );
    seen
}

/// Section 3: the delay stays at the target, with the link full.
#[test]
fn sixteen_to_one_holds_the_target() {
    let seen = seen(&incast(16, 1, 20), "h16");
    assert!(seen.utilisation > 0.99, "{}", seen.utilisation);
    assert!((0.85..1.1).contains(&(seen.rtt_us / seen.target_us)), "{} of {}", seen.rtt_us, seen.target_us);
}

/// Flow scaling: a thousand flows have windows of a packet or less, and a longer target, and hold it.
#[test]
fn a_thousand_flows_hold_their_longer_target() {
    let seen = seen(&incast(20, 50, 30), "h20");
    assert!(seen.utilisation > 0.99, "{}", seen.utilisation);
    assert!(seen.cwnd < 2.0, "{}", seen.cwnd);
    assert!(seen.target_us > 40.0, "{}", seen.target_us);
    assert!((0.8..1.25).contains(&(seen.rtt_us / seen.target_us)), "{} of {}", seen.rtt_us, seen.target_us);
}

#[test]
fn two_ten_and_a_hundred_flows_share_alike() {
    for (senders, flows, least) in [(2, 1, 0.99), (10, 1, 0.97), (10, 10, 0.95)] {
        let seen = seen(&incast(senders, flows, 40), &format!("h{senders}"));
        assert!(seen.utilisation > 0.98, "{}", seen.utilisation);
        assert!(seen.fairness > least, "{}", seen.fairness);
    }
}

/// Figure 17: with both scalings off the round trip of 100 flows follows the target.
#[test]
fn the_round_trip_follows_the_target_that_is_set() {
    for target in [25, 40, 70] {
        let base_target = Time::from_us(target);
        let p = SwiftParameters { base_target, hop: Time(0), fs_range: Time(0), ..Default::default() };
        let seen = seen(&incast_of(p, 10, 10, 20), "h10");
        assert!(seen.utilisation > 0.99, "{}", seen.utilisation);
        assert!((0.9..1.1).contains(&(seen.rtt_us / target as f64)), "{} of {target}", seen.rtt_us);
    }
}

/// Section 3.7: other traffic in the same queue is not under Swift's control, and takes what it can.
#[test]
fn beside_dcqcn_it_gets_its_packets_through() {
    let mut plan = star(3);
    let swift = CongestionPlan::Swift(SwiftParameters::default());
    plan.nics[0].congestion = vec![CongestionPlan::Dcqcn(connectx()), swift];
    plan.writers = vec![writer(0, 2, 1), writer(1, 2, 1)];
    plan.writers[1].congestion = Some(1);
    for writer in &mut plan.writers {
        (writer.message, writer.depth) = (Bytes(1 << 20), 4);
    }
    plan.run.duration = Time(10 * MS);
    let recording = run(plan);
    let flows = &recording.flows;
    let shares: Vec<u64> = flows.iter().map(|flow| flow.bytes_delivered * 8 / 10_000_000).collect();
    println!("Gbit/s of DCQCN and of Swift: {shares:?}");
    assert!(flows[0].rp_cnp_handled > 0 && flows[1].rp_cnp_handled == 0, "only DCQCN hears CNPs");
    assert!(shares.iter().all(|&share| share > 1), "{shares:?}");
}
