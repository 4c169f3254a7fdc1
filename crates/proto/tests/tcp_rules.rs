//! TCP's timer, windows and marks one by one: worked examples with the arithmetic of the RFCs.

mod tcp_link;

use tailback_proto::transport::tcp::sender::Rto;
use tailback_proto::transport::tcp::*;
use tailback_proto::units::{Rate, Time};
use tcp_link::one_end::*;
use tcp_link::*;

#[test]
fn the_timeout_of_rfc_6298() {
    let p = TcpParameters { min_rto: ms(1), max_rto: ms(60_000), ..reno() };
    let mut rto = Rto::new(&p);
    assert_eq!(rto.timeout(&p), ms(1000), "2.1: a second before the first RTT");
    rto.on_rtt(ms(100));
    // 2.2: SRTT 100, RTTVAR 50: 100 + 4 * 50.
    assert_eq!((rto.smoothed(), rto.variation(), rto.timeout(&p)), (Some(ms(100)), ms(50), ms(300)));
    rto.on_rtt(ms(140));
    // 2.3: RTTVAR 3/4 * 50 + 1/4 * |100 - 140| = 47.5, SRTT 7/8 * 100 + 1/8 * 140 = 105: 105 + 190.
    let us = Time::from_us;
    assert_eq!((rto.smoothed(), rto.variation(), rto.timeout(&p)), (Some(ms(105)), us(47_500), ms(295)));
    rto.on_rtt(ms(81));
    // RTTVAR 3/4 * 47.5 + 1/4 * 24 = 41.625, SRTT 7/8 * 105 + 81 / 8 = 102: 102 + 166.5.
    assert_eq!(rto.timeout(&p), us(268_500));
    // 5.5, 2.5: doubled at each timeout, up to the bound.
    for expected in [537_000, 1_074_000, 2_148_000] {
        rto.on_timeout();
        assert_eq!(rto.timeout(&p), us(expected));
    }
    (0..100).for_each(|_| rto.on_timeout());
    assert_eq!(rto.timeout(&p), ms(60_000));
    rto.on_rtt(ms(102));
    assert!(rto.timeout(&p) < ms(300), "an RTT ends the back-off");
    // 2.4: never below the minimum, and doubled from there.
    let p = TcpParameters { min_rto: ms(1000), ..p };
    assert_eq!(rto.timeout(&p), ms(1000));
    rto.on_timeout();
    assert_eq!(rto.timeout(&p), ms(2000));
}

#[test]
fn the_timer_starts_with_data_restarts_with_progress_and_stops_at_the_end() {
    let p = TcpParameters { initial_window: 4 * SEGMENT, ..reno() };
    let mut sender = TcpSender::new(&p);
    assert_eq!(sender.next_timeout(), None);
    sender.write(4 * SEGMENT);
    drain(&mut sender, &p, ms(5));
    assert_eq!(sender.next_timeout(), Some(ms(1005)), "RFC 6298, 5.1");
    sender.on_ack(&p, ms(105), &AckSegment { echo: ms(5), ..ack(1, &[]) });
    assert_eq!(sender.next_timeout(), Some(ms(105 + 300)), "5.3: 100 ms of RTT and four times half of it");
    sender.on_ack(&p, ms(110), &AckSegment { echo: ms(5), ..ack(1, &[]) });
    assert_eq!(sender.next_timeout(), Some(ms(405)), "a duplicate is no progress");
    sender.on_timeout(&p, ms(404));
    assert_eq!(sender.statistics().timeouts, 0, "not due");
    sender.on_ack(&p, ms(120), &AckSegment { echo: ms(20), ..ack(4, &[]) });
    assert_eq!((sender.next_timeout(), sender.is_idle()), (None, true), "5.2");
}

#[test]
fn slow_start_doubles_and_congestion_avoidance_adds_a_segment_a_round_trip() {
    let (mut sender, p) = sender(&reno(), 10);
    sender.on_ack(&p, ms(1), &ack(10, &[]));
    assert_eq!(sender.cwnd(), 20 * SEGMENT);
    assert_eq!(drain(&mut sender, &p, ms(1)), [(10, 20, false)]);
    // Three duplicates: half of the 20 in flight is left.
    sender.on_ack(&p, ms(2), &ack(10, &[(11, 14)]));
    assert_eq!((sender.cwnd(), sender.ssthresh()), (10 * SEGMENT, 10 * SEGMENT));
    drain(&mut sender, &p, ms(2));
    sender.on_ack(&p, ms(3), &ack(30, &[]));
    assert!(!sender.in_recovery());
    let mut acked = 30;
    for round in 1..=5 {
        for _ in drain(&mut sender, &p, ms(4)) {}
        let window = sender.in_flight() / SEGMENT;
        assert_eq!(window, 9 + round);
        for _ in 0..window {
            acked += 1;
            sender.on_ack(&p, ms(4), &ack(acked, &[]));
            drain(&mut sender, &p, ms(4));
        }
        // Just below a segment a round trip: 1 / cwnd for each ACK, and cwnd grows meanwhile.
        let grown = sender.cwnd() as f64 / SEGMENT as f64 - 10.0;
        assert!((grown - round as f64).abs() < 0.1 * round as f64, "{grown} after {round}");
        if (grown as u64) < round {
            // The last fraction of a segment comes with the next ACK.
            acked += 1;
            sender.on_ack(&p, ms(4), &ack(acked, &[]));
        }
    }
}

#[test]
fn a_window_that_is_not_used_does_not_grow() {
    let p = TcpParameters { initial_window: 100 * SEGMENT, ..reno() };
    let mut sender = TcpSender::new(&p);
    let mut acked = 0;
    // The application writes `written` segments a round trip.
    let mut round = |sender: &mut TcpSender, written: u64| {
        sender.write(written * SEGMENT);
        drain(sender, &p, ms(acked));
        acked += written;
        sender.on_ack(&p, ms(acked), &ack(acked, &[]));
        sender.cwnd() / SEGMENT
    };
    assert_eq!((0..50).map(|_| round(&mut sender, 1)).max(), Some(100));
    assert_eq!(round(&mut sender, 49), 100, "less than half of it is used");
    assert_eq!(round(&mut sender, 51), 151, "in slow start a half is enough");
    assert_eq!(round(&mut sender, 60), 151);
    sender.write(200 * SEGMENT);
    drain(&mut sender, &p, ms(acked));
    acked += 100;
    sender.on_ack(&p, ms(acked), &ack(acked, &[]));
    assert_eq!(sender.cwnd(), 251 * SEGMENT, "it held data back");
    drain(&mut sender, &p, ms(acked));
    acked += 100;
    sender.on_ack(&p, ms(acked), &ack(acked, &[]));
    let before = sender.cwnd();
    for _ in 0..50 {
        sender.write(SEGMENT);
        drain(&mut sender, &p, ms(acked));
        acked += 1;
        sender.on_ack(&p, ms(acked), &ack(acked, &[]));
    }
    assert!(sender.cwnd() <= before + SEGMENT, "it held data back, but not in the last round trip");
}

/// The window of a lone flow on a fast link in segments, `waits` after it first left slow start or recovery.
fn cubic_after(lost: impl Fn(usize) -> bool, window: u64, rtt: Time, waits: Time) -> f64 {
    let link = Link {
        rate: Rate::from_gbps(100),
        delay: Time(rtt.0 / 2),
        queue_limit: u64::MAX,
        mark_above: u64::MAX,
    };
    let fate = |n, _, _: &Packet| if lost(n) { Fate::Lost } else { Fate::Pass };
    let mut net = Network::new(link, fate);
    let p = TcpParameters { initial_window: window * SEGMENT, ..parameters(CUBIC) };
    net.connect(&p, Time::ZERO, u64::MAX);
    let step = Time(rtt.0 / 10);
    let state = |net: &TcpSender| net.in_recovery() || net.cwnd() < net.ssthresh();
    while state(&net.flows[0].sender) {
        net.run_until(net.now + step);
    }
    net.run_until(net.now + waits);
    net.flows[0].sender.cwnd() as f64 / MSS as f64
}

#[test]
fn cubic_starts_flat_after_a_timeout() {
    // All of the first window is lost. ssthresh is 700, and from there it is 700 + 0.4 t^3 (RFC 9438, 4.8); with K it
    // would be 1000 - 0.4 * 6.1^3 = 909 after 3 s, and with NewReno's pace 708.
    let window = cubic_after(|n| n < 1000, 1000, ms(200), ms(3000));
    assert!((708.5..714.0).contains(&window), "{window}");
}

#[test]
fn cubic_is_as_fast_as_newreno_once_beyond_the_window_of_the_loss() {
    // From 14 to 20 at 0.53 segments a round trip, 11.3 of them, then at 1: 20 + 188.7 after 200.
    let window = cubic_after(|n| n == 0, 20, ms(1), ms(200));
    assert!((window / 208.7 - 1.0).abs() < 0.03, "{window}");
}

#[test]
fn cubic_grows_by_half_in_a_round_trip_at_most() {
    let (mut sender, p) = sender(&parameters(CUBIC), 20);
    sender.on_ack(&p, ms(1), &ack(0, &[(1, 4)]));
    drain(&mut sender, &p, ms(1));
    sender.on_ack(&p, ms(2), &ack(20, &[]));
    drain(&mut sender, &p, ms(2));
    sender.on_ack(&p, ms(3), &ack(21, &[])); // the epoch begins
    drain(&mut sender, &p, ms(3));
    let before = sender.cwnd();
    // After 100 s the function is at 360,000 segments.
    sender.on_ack(&p, ms(100_000), &AckSegment { echo: ms(99_999), ..ack(22, &[]) });
    assert!((sender.cwnd() - before).abs_diff(SEGMENT / 2) <= 1, "RFC 9438, 4.2: {before} {}", sender.cwnd());
}

#[test]
fn a_mark_halves_once_a_window_and_the_receiver_is_told() {
    let p = TcpParameters { ecn: true, ..reno() };
    let (mut sender, p) = sender(&p, 10);
    let ece = |n| AckSegment { ece: true, ..ack(n, &[]) };
    for n in 1..=5 {
        sender.on_ack(&p, ms(1), &ece(n));
    }
    assert_eq!((sender.cwnd(), sender.statistics().ecn_reductions), (5 * SEGMENT, 1), "RFC 3168, 6.1.2");
    for n in 6..=9 {
        sender.on_ack(&p, ms(1), &ack(n, &[]));
    }
    let first = sender.poll_transmit(&p, ms(1), u32::MAX).unwrap();
    assert!(first.cwr && first.ect && first.position == 10 * SEGMENT, "{first:?}");
    sender.on_ack(&p, ms(2), &ack(10, &[]));
    let second = sender.poll_transmit(&p, ms(2), u32::MAX).unwrap();
    assert!(!second.cwr, "once");
    // Data of the next window was marked.
    sender.on_ack(&p, ms(3), &ece(11));
    assert_eq!(sender.statistics().ecn_reductions, 2);
}

#[test]
fn a_loss_in_a_window_that_a_mark_reduced_reduces_no_more() {
    let (mut sender, p) = sender(&TcpParameters { ecn: true, ..reno() }, 20);
    sender.on_ack(&p, ms(1), &AckSegment { ece: true, ..ack(1, &[]) });
    assert_eq!(sender.cwnd(), 10 * SEGMENT);
    sender.on_ack(&p, ms(1), &ack(1, &[(2, 6)]));
    assert!(sender.in_recovery());
    assert_eq!(sender.cwnd(), 10 * SEGMENT);
    let sent = sender.poll_transmit(&p, ms(1), u32::MAX).unwrap();
    assert!(sent.retransmission && !sent.ect && !sent.cwr, "{sent:?}");
    // Nor does a mark where a loss did.
    let (mut sender, p) = self::sender(&TcpParameters { ecn: true, ..reno() }, 20);
    sender.on_ack(&p, ms(1), &ack(1, &[(2, 6)]));
    assert!(sender.in_recovery());
    let cwnd = sender.cwnd();
    sender.on_ack(&p, ms(1), &AckSegment { ece: true, ..ack(3, &[(4, 6)]) });
    assert_eq!((sender.cwnd(), sender.statistics().ecn_reductions), (cwnd, 0));
}

#[test]
fn dctcp_cuts_by_half_of_alpha() {
    let (mut sender, p) = sender(&parameters(DCTCP), 20);
    // The first ACK ends the first, empty window of data: alpha = 15/16 * 1 + 1/16 * 1.
    sender.on_ack(&p, ms(1), &AckSegment { ece: true, ..ack(1, &[]) });
    assert_eq!((sender.alpha(), sender.cwnd()), (Some(1.0), 10 * SEGMENT));
    // Until 20 is acknowledged and beyond: 5 of 20 marked.
    for n in 2..=20 {
        sender.on_ack(&p, ms(1), &AckSegment { ece: n <= 6, ..ack(n, &[]) });
        drain(&mut sender, &p, ms(1));
    }
    let cwnd = sender.cwnd();
    sender.on_ack(&p, ms(2), &AckSegment { ece: true, ..ack(21, &[]) });
    let alpha = 15.0 / 16.0 + 6.0 / 20.0 / 16.0;
    assert!((sender.alpha().unwrap() - alpha).abs() < 1e-12, "{:?}, {alpha}", sender.alpha());
    assert_eq!(sender.cwnd(), (cwnd as f64 * (1.0 - alpha / 2.0)) as u64);
    // A loss in a new window halves.
    for n in 22..=40 {
        sender.on_ack(&p, ms(3), &ack(n, &[]));
        drain(&mut sender, &p, ms(3));
    }
    let cwnd = sender.cwnd();
    sender.on_ack(&p, ms(4), &ack(40, &[(41, 45)]));
    assert_eq!(sender.ssthresh(), cwnd.min(sender.in_flight()) / 2, "RFC 8257, 3.5");
}

#[test]
fn bursts_are_whole_segments_within_the_room() {
    let p = TcpParameters { max_burst: 4_500, ..reno() };
    let mut sender = TcpSender::new(&p);
    sender.write(7_300);
    let mut next = |room| sender.poll_transmit(&p, ms(1), room).map(|burst| (burst.position, burst.bytes));
    assert_eq!(next(999), None);
    assert_eq!(next(u32::MAX), Some((0, 4_000)));
    assert_eq!(next(1_999), Some((4_000, 1_000)));
    assert_eq!(next(2_300), Some((5_000, 2_300)), "the end of the stream");
    assert_eq!(next(u32::MAX), None);
}

#[test]
fn impossible_parameters_are_named() {
    let refuse = |p: TcpParameters| p.check().unwrap_err();
    assert!(reno().check().is_ok());
    assert!(refuse(TcpParameters { mss: 0, ..reno() }).contains("mss"));
    assert!(refuse(TcpParameters { initial_window: 1, ..reno() }).contains("initial_window"));
    assert!(refuse(TcpParameters { min_rto: Time::ZERO, ..reno() }).contains("min_rto"));
    assert!(refuse(TcpParameters { max_rto: ms(1), ..reno() }).contains("max_rto"));
    assert!(refuse(TcpParameters { ack_every: 0, ..reno() }).contains("ack_every"));
    assert!(refuse(TcpParameters { receive_buffer: 1, ..reno() }).contains("receive_buffer"));
    assert!(refuse(TcpParameters { max_burst: 1, ..reno() }).contains("max_burst"));
    assert!(refuse(TcpParameters { ecn: false, ..parameters(DCTCP) }).contains("ecn"));
    let cubic =
        |c, beta| parameters(ControlParameters::Cubic(CubicParameters { c, beta, fast_convergence: true }));
    assert!(refuse(cubic(f64::NAN, 0.7)).contains("c is") && refuse(cubic(0.4, 1.0)).contains("beta"));
    let dctcp = |g, initial_alpha| parameters(ControlParameters::Dctcp(DctcpParameters { g, initial_alpha }));
    assert!(refuse(dctcp(0.0, 1.0)).contains("g is") && refuse(dctcp(0.1, 2.0)).contains("initial_alpha"));
}

/// The senders take any ACK without panicking, and never claim what did not happen.
mod any_input {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn is_survived(
            control in 0usize..3, sack in any::<bool>(),
            inputs in prop::collection::vec((0u32..4, 0u64..60_000, 0u64..60_000, any::<bool>(), 0u64..400), 0..200),
        ) {
            let control = [ControlParameters::NewReno, CUBIC, DCTCP][control];
            let p = TcpParameters { sack, ecn: true, receive_buffer: 50_000, ..parameters(control) };
            let (mut sender, mut receiver) = (TcpSender::new(&p), TcpReceiver::new(&p));
            let mut now = Time::ZERO;
            for (kind, a, b, flag, gap) in inputs {
                now += ms(gap);
                match kind {
                    0 => sender.write(a),
                    1 => {
                        let mut blocks = SackBlocks::default();
                        blocks.push(b, b + a % 5_000);
                        let echo = Time(now.0.saturating_sub(b));
                        sender.on_ack(&p, now, &AckSegment { ack: a, window: b, sack: blocks, ece: flag, echo });
                    }
                    2 => sender.on_timeout(&p, now),
                    _ => {
                        let run = DataSegment {
                            position: a, bytes: b as u32, segments: 1 + (b / 1000) as u32, ce: flag, cwr: !flag, sent_at: now,
                        };
                        let before = receiver.delivered();
                        let verdict = receiver.on_segment(&p, now, &run);
                        prop_assert_eq!(receiver.delivered() - before, verdict.newly_delivered);
                        prop_assert!(verdict.discarded <= b);
                        if flag {
                            receiver.on_read(&p, receiver.unread());
                        }
                        let ack = receiver.ack(&p);
                        prop_assert!(ack.window <= p.receive_buffer);
                    }
                }
                while let Some(burst) = sender.poll_transmit(&p, now, 10_000) {
                    prop_assert!(burst.bytes <= 10_000);
                    prop_assert!(burst.position + burst.bytes as u64 <= sender.written());
                    prop_assert!(burst.bytes == 0 || burst.position >= sender.acknowledged());
                }
                prop_assert!(sender.acknowledged() <= sender.next_position());
                prop_assert!(sender.next_position() <= sender.written());
                prop_assert!(sender.cwnd() >= MSS as u64);
            }
        }
    }
}
