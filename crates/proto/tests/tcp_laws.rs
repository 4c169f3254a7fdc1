//! TCP against what is known of its control laws: the square root law, CUBIC's function of time, DCTCP's queue, fairness.

mod tcp_link;

use std::cell::Cell;
use tailback_proto::transport::tcp::*;
use tailback_proto::units::{Rate, Time};
use tcp_link::*;

/// Mean window in segments of a flow alone on a link of 100 Gbit/s: goodput times RTT.
fn mean_window(p: &TcpParameters, rtt: Time, run_for: Time, mut lost: impl FnMut() -> bool) -> f64 {
    let link = Link {
        rate: Rate::from_gbps(100),
        delay: Time(rtt.0 / 2),
        queue_limit: u64::MAX,
        mark_above: u64::MAX,
    };
    let fate = move |_, _, packet: &Packet| match packet {
        Packet::Data(..) if lost() => Fate::Lost,
        _ => Fate::Pass,
    };
    let mut net = Network::new(link, fate);
    net.connect(p, Time::ZERO, u64::MAX);
    net.run_until(Time(run_for.0 / 10));
    net.measure();
    net.run_until(run_for);
    net.flows[0].goodput as f64 / MSS as f64 * rtt.0 as f64 / (run_for.0 - run_for.0 / 10) as f64
}

/// Every 1/p-th segment is lost.
fn periodic(p: f64) -> impl FnMut() -> bool {
    let (every, mut count) = ((1.0 / p) as u64, 0);
    move || {
        count += 1;
        count % every == 0
    }
}

/// Time in which `losses` happen: a window of 1.22 / sqrt(p) loses p times that in a round trip.
fn span(losses: f64, p: f64, rtt: Time) -> Time {
    Time((rtt.0 as f64 * losses / (1.22 * p.sqrt())) as u64)
}

/// Mathis, Semke, Mahdavi, Ott, "The Macroscopic Behavior of the TCP Congestion Avoidance Algorithm", CCR 1997: a window of
/// C / sqrt(p) with C = sqrt(3/2). Its sqrt(3/4) for delayed ACKs counts ACKs; here bytes are counted, so delayed ACKs
/// make no difference.
const C: f64 = 1.224_744_871;

#[test]
fn the_square_root_law_of_periodic_losses() {
    let rtt = Time::from_ms(10);
    // The law leaves out the round trip of recovery, in which the window does not grow, and that only whole segments are
    // sent: the smaller the window, the more of it. So it is met from below.
    for (p, least) in [(1e-2, 0.80), (2.5e-3, 0.90), (1e-3, 0.93)] {
        for (sack, ack_every) in [(true, 1), (true, 2), (false, 1), (false, 2)] {
            let tcp = TcpParameters { sack, ack_every, ..parameters(ControlParameters::NewReno) };
            let share = mean_window(&tcp, rtt, span(100.0, p, rtt), periodic(p)) * p.sqrt() / C;
            println!("periodic p {p}, SACK {sack}, an ACK for {ack_every}: {share:.3} of the law");
            assert!((least..1.0).contains(&share), "p {p} SACK {sack} {ack_every}: {share:.3}");
        }
    }
}

#[test]
fn the_square_root_law_of_random_losses() {
    let rtt = Time::from_ms(10);
    for p in [1e-2, 2.5e-3, 1e-3] {
        for sack in [true, false] {
            let tcp = TcpParameters { sack, ..parameters(ControlParameters::NewReno) };
            let mut dice = Dice(7);
            let lost = move || dice.hits(p);
            let share = mean_window(&tcp, rtt, span(200.0, p, rtt), lost) * p.sqrt() / C;
            println!("random p {p}, SACK {sack}: {share:.3} of the law");
            assert!((share - 1.0).abs() < 0.1, "p {p} SACK {sack}: {share:.3}");
        }
    }
}

/// RFC 9438, 4.3: where the BDP is small, CUBIC does as well as NewReno.
#[test]
fn cubic_is_friendly_to_reno_at_a_small_bdp() {
    let rtt = Time::from_ms(1);
    for p in [1e-2, 1e-3] {
        let window = |control| mean_window(&parameters(control), rtt, span(100.0, p, rtt), periodic(p));
        let ratio = window(CUBIC) / window(ControlParameters::NewReno);
        println!("p {p}: CUBIC {ratio:.3} of NewReno");
        assert!((ratio - 1.0).abs() < 0.05, "p {p}: {ratio:.3}");
    }
}

/// RFC 9438, equations 1 and 2, and fast convergence (4.7), at 20,000 segments a second.
#[test]
fn cubic_follows_its_function_of_time() {
    const RTT: Time = Time::from_ms(50);
    let lose_next = Cell::new(false);
    let link = Link {
        rate: Rate::from_gbps(100),
        delay: Time(RTT.0 / 2),
        queue_limit: u64::MAX,
        mark_above: u64::MAX,
    };
    let fate = |_, _, packet: &Packet| match packet {
        Packet::Data(..) if lose_next.replace(false) => Fate::Lost,
        _ => Fate::Pass,
    };
    let mut net = Network::new(link, fate);
    // The first loss comes before the window grows: W_max is 1000.
    net.connect(&TcpParameters { initial_window: 1_000_000, ..parameters(CUBIC) }, Time::ZERO, u64::MAX);
    let segments = |cwnd: u64| cwnd as f64 / MSS as f64;
    let cubic = |t: f64, k: f64, w_max: f64| 0.4 * (t - k).powi(3) + w_max;

    let mut check = |gives_way: bool, times: &[f64]| {
        lose_next.set(true);
        let mut before = 0.0;
        while !net.flows[0].sender.in_recovery() {
            before = segments(net.flows[0].sender.cwnd());
            net.run_until(net.now + Time::from_ms(1));
        }
        let w_max = if gives_way { before * (1.0 + 0.7) / 2.0 } else { before };
        while net.flows[0].sender.in_recovery() {
            net.run_until(net.now + Time::from_us(100));
        }
        let (start, after) = (net.now, segments(net.flows[0].sender.cwnd()));
        assert!((after / (0.7 * before) - 1.0).abs() < 0.005, "beta: {after} of {before}");
        let k = ((w_max - after) / 0.4).cbrt();
        for &t in times {
            net.run_until(start + Time((t * 1e12) as u64));
            let (found, expected) = (segments(net.flows[0].sender.cwnd()), cubic(t, k, w_max));
            println!("W_max {w_max:.1}, K {k:.3} s, {t} s: {found:.1}, equation 1: {expected:.1}");
            assert!((found / expected - 1.0).abs() < 0.003, "{t} s: {found} and not {expected}");
        }
    };
    // K = cbrt(1000 * 0.3 / 0.4) = 9.09 s: concave, flat, convex.
    check(false, &[1.0, 3.0, 6.0, 9.0, 12.0]);
    // At 1010 segments, above the last maximum; then at some 910, below it.
    check(false, &[3.0]);
    check(true, &[1.0, 3.0, 7.0, 9.0]);
}

/// Alizadeh et al., "Data Center TCP (DCTCP)", SIGCOMM 2010, 3.3: N flows in step make a queue of at most K + N packets that
/// swings by A = sqrt(2 N (C RTT + K)) / 2, with alpha = sqrt(2 N / (C RTT + K)).
#[test]
fn dctcp_holds_the_queue_at_k() {
    const K: u64 = 40;
    const BDP: f64 = 126.0; // 10 Gbit/s, 100 us and a packet
    for flows in [1u64, 2, 4] {
        let link = Link {
            rate: Rate::from_gbps(10),
            delay: Time::from_us(50),
            queue_limit: u64::MAX,
            mark_above: K * MSS as u64,
        };
        let mut net = Network::new(link, |_, _, _| Fate::Pass);
        for i in 0..flows {
            let p = TcpParameters { ack_every: 1, ..parameters(DCTCP) };
            net.connect(&p, Time::from_us(7 * i), u64::MAX);
        }
        net.run_until(Time::from_ms(100));
        net.measure();
        net.run_until(Time::from_ms(200));
        let n = flows as f64;
        let packets = |bytes: u64| (bytes / MSS as u64) as f64;
        let (most, least) = (packets(net.seen.max_queue), packets(net.seen.min_queue));
        let swing = 0.5 * (2.0 * n * (BDP + K as f64)).sqrt();
        let alpha = (2.0 * n / (BDP + K as f64)).sqrt();
        let found = net.flows.iter().map(|flow| flow.sender.alpha().unwrap()).sum::<f64>() / n;
        println!("{flows} flows: queue {least} to {most}, A {swing:.1}; alpha {found:.3}, {alpha:.3}");
        assert!(net.utilisation() > 0.999);
        assert!((most - (K as f64 + n)).abs() <= 1.0, "{flows} flows: {most} packets");
        assert!(
            ((most - least) / swing - 1.0).abs() < 0.25,
            "{flows} flows: {least} to {most}, A {swing:.1}"
        );
        assert!((found / alpha - 1.0).abs() < 0.3, "{flows} flows: alpha {found:.3} and not {alpha:.3}");
        assert!(net.fairness() > 0.95, "{flows} flows: {}", net.fairness());
    }
}

#[test]
fn two_flows_share_fairly() {
    for (control, mark_above) in
        [(ControlParameters::NewReno, u64::MAX), (CUBIC, u64::MAX), (DCTCP, 40_000), (CUBIC, 40_000)]
    {
        let link =
            Link { rate: Rate::from_gbps(1), delay: Time::from_us(500), queue_limit: 125_000, mark_above };
        let mut net = Network::new(link, |_, _, _| Fate::Pass);
        let p = TcpParameters { ecn: mark_above != u64::MAX, ..parameters(control) };
        // The second meets a link that the first has filled.
        net.connect(&p, Time::ZERO, u64::MAX);
        net.connect(&p, Time::from_ms(300), u64::MAX);
        net.run_until(Time::from_ms(1000));
        net.measure();
        net.run_until(Time::from_ms(3000));
        println!("{control:?}: index {:.4}, link {:.4}", net.fairness(), net.utilisation());
        assert!(net.fairness() > 0.95, "{control:?}: {}", net.fairness());
        assert!(net.utilisation() > 0.97, "{control:?}: {}", net.utilisation());
        let ecn = p.ecn && net.flows.iter().all(|flow| flow.sender.statistics().ecn_reductions > 10);
        assert_eq!(ecn, p.ecn, "ECN works, or is off");
        assert!(!p.ecn || net.seen.drops == 0, "marks come before drops");
    }
}
