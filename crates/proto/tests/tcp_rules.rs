//! TCP's rules one by one: worked examples with the arithmetic of the RFCs.

mod tcp_link;

use tailback_proto::transport::tcp::rto::Rto;
use tailback_proto::transport::tcp::*;
use tailback_proto::units::{Rate, Time};
use tcp_link::*;

const SEGMENT: u64 = MSS as u64;

fn reno() -> TcpParameters {
    parameters(ControlParameters::NewReno)
}

fn ms(n: u64) -> Time {
    Time::from_ms(n)
}

fn segment(number: u64) -> DataSegment {
    DataSegment {
        position: number * SEGMENT,
        bytes: MSS,
        segments: 1,
        ce: false,
        cwr: false,
        sent_at: Time::ZERO,
    }
}

/// An ACK of so many segments, with SACK blocks in segments.
fn ack(segments: u64, blocks: &[(u64, u64)]) -> AckSegment {
    let mut sack = SackBlocks::default();
    blocks.iter().for_each(|&(start, end)| assert!(sack.push(start * SEGMENT, end * SEGMENT)));
    AckSegment { ack: segments * SEGMENT, window: 1 << 30, sack, ece: false, echo: Time::ZERO }
}

/// Everything that the sender may send now: first segment, segments, whether again.
fn drain(sender: &mut TcpSender, p: &TcpParameters, now: Time) -> Vec<(u64, u64, bool)> {
    std::iter::from_fn(|| sender.poll_transmit(p, now, u32::MAX))
        .map(|burst| (burst.position / SEGMENT, burst.bytes as u64 / SEGMENT, burst.retransmission))
        .collect()
}

/// A sender that has sent its first window, of so many segments.
fn sender(p: &TcpParameters, window: u64) -> (TcpSender, TcpParameters) {
    let p = TcpParameters { initial_window: window * SEGMENT, ..*p };
    p.check().unwrap();
    let mut sender = TcpSender::new(&p);
    sender.write(u64::MAX);
    drain(&mut sender, &p, Time::ZERO);
    assert_eq!(sender.in_flight(), window * SEGMENT);
    (sender, p)
}

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
    // The application writes so many segments a round trip.
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

#[test]
fn two_duplicates_let_two_new_segments_out_and_the_third_retransmits() {
    for sack in [true, false] {
        let (mut sender, p) = sender(&TcpParameters { sack, ..reno() }, 10);
        let blocks = |n: u64| if sack { vec![(1, 1 + n)] } else { vec![] };
        for n in 1..=2 {
            sender.on_ack(&p, ms(1), &ack(0, &blocks(n)));
            assert_eq!(drain(&mut sender, &p, ms(1)), [(9 + n, 1, false)], "RFC 3042, SACK {sack}");
        }
        assert_eq!(sender.cwnd(), 10 * SEGMENT);
        sender.on_ack(&p, ms(1), &ack(0, &blocks(3)));
        assert_eq!(drain(&mut sender, &p, ms(1)), [(0, 1, true)], "RFC 5681, 3.2, SACK {sack}");
        // Half of the ten that the window held: what limited transmit added does not count.
        assert_eq!((sender.cwnd(), sender.ssthresh()), (5 * SEGMENT, 5 * SEGMENT));
        assert_eq!(sender.statistics().fast_recoveries, 1);
    }
}

#[test]
fn newreno_inflates_its_window_and_a_partial_ack_retransmits_the_next() {
    let (mut sender, p) = sender(&TcpParameters { sack: false, ..reno() }, 10);
    for _ in 0..3 {
        sender.on_ack(&p, ms(1), &ack(0, &[]));
    }
    // In the window: 5 + 3 duplicates = 8, and 10 are out: nothing but the retransmission.
    assert_eq!(drain(&mut sender, &p, ms(1)), [(0, 1, true)]);
    for (duplicate, expected) in
        [(4, vec![]), (5, vec![]), (6, vec![(10, 1, false)]), (7, vec![(11, 1, false)])]
    {
        sender.on_ack(&p, ms(1), &ack(0, &[]));
        assert_eq!(drain(&mut sender, &p, ms(1)), expected, "duplicate {duplicate}");
    }
    // Segments 0 and 5 were lost. The ACK takes five out of the window, and one comes back: 5 + 7 - 5 + 1 = 8, and 7 are
    // out: the retransmission, which asks nobody, and one of new data.
    sender.on_ack(&p, ms(2), &ack(5, &[]));
    assert_eq!(drain(&mut sender, &p, ms(2)), [(5, 1, true), (12, 1, false)]);
    // All is there that was sent before the recovery, which ends: min(ssthresh, flight + 1).
    sender.on_ack(&p, ms(3), &ack(12, &[]));
    assert!(!sender.in_recovery());
    assert_eq!(sender.cwnd(), 2 * SEGMENT, "RFC 6582, 3.2, step 3: 1 in flight");
}

/// Ten losses in a window of a hundred. RTT 10 ms.
fn recovery_of_ten_losses(sack: bool) -> (Time, TcpStatistics) {
    let link = Link { rate: Rate::from_gbps(10), delay: ms(5), queue_limit: u64::MAX, mark_above: u64::MAX };
    let lost = |_, _, packet: &Packet| match packet {
        Packet::Data(segment, false, _)
            if segment.position < 100 * SEGMENT && segment.position / SEGMENT % 10 == 5 =>
        {
            Fate::Lost
        }
        _ => Fate::Pass,
    };
    let mut net = Network::new(link, lost);
    let p = TcpParameters { sack, initial_window: 100 * SEGMENT, ..reno() };
    net.connect(&p, Time::ZERO, u64::MAX);
    let step = Time::from_us(100);
    while !net.flows[0].sender.in_recovery() {
        net.run_until(net.now + step);
    }
    let from = net.now;
    while net.flows[0].sender.in_recovery() {
        net.run_until(net.now + step);
    }
    (net.now - from, net.flows[0].sender.statistics())
}

#[test]
fn sack_recovers_many_losses_in_a_round_trip_and_newreno_one_in_each() {
    let (with, statistics) = recovery_of_ten_losses(true);
    assert_eq!(
        (statistics.retransmitted_segments, statistics.fast_recoveries, statistics.timeouts),
        (10, 1, 0)
    );
    let (without, statistics) = recovery_of_ten_losses(false);
    assert_eq!(
        (statistics.retransmitted_segments, statistics.fast_recoveries, statistics.timeouts),
        (10, 1, 0)
    );
    println!("ten losses, RTT 10 ms: with SACK {with}, without {without}");
    assert!(with < ms(15), "{with}");
    assert!((ms(100)..ms(105)).contains(&without), "{without}");
}

#[test]
fn sack_counts_a_segment_lost_when_enough_beyond_it_arrived() {
    // Three ranges beyond it, though in bytes less than two segments; at the first ACK of their kind.
    let (mut ranges, p) = sender(&reno(), 20);
    let mut sack = SackBlocks::default();
    for n in [5, 3, 1] {
        sack.push(n * SEGMENT, n * SEGMENT + 500);
    }
    ranges.on_ack(&p, ms(1), &AckSegment { sack, ..ack(0, &[]) });
    assert!(ranges.in_recovery());

    let (mut spread, p) = sender(&reno(), 20);
    spread.on_ack(&p, ms(1), &ack(0, &[(5, 6), (3, 4), (1, 2)]));
    assert!(spread.in_recovery(), "RFC 6675, IsLost: DupThresh ranges");
    // 0 has three ranges beyond it, 2 and 4 have fewer: only 0 is lost.
    assert_eq!(drain(&mut spread, &p, ms(1)).first(), Some(&(0, 1, true)));
    spread.on_ack(&p, ms(2), &ack(0, &[(5, 8)]));
    // More than two segments' worth beyond 4 and 2: both lost, too.
    let sent = drain(&mut spread, &p, ms(2));
    assert_eq!(sent, [], "20 - 5 SACKed - 2 lost = 13 are in the network, and the window is 10");
    spread.on_ack(&p, ms(2), &ack(0, &[(5, 12)]));
    let sent = drain(&mut spread, &p, ms(2));
    assert_eq!(sent, [(2, 1, true)], "20 - 9 SACKed - 2 lost = 9 of 10");
    spread.on_ack(&p, ms(2), &ack(0, &[(5, 14)]));
    let sent = drain(&mut spread, &p, ms(2));
    assert_eq!(sent, [(4, 1, true), (20, 1, false)], "then new data");

    // Two segments beyond are not enough.
    let (mut two, p) = sender(&reno(), 20);
    two.on_ack(&p, ms(1), &ack(0, &[(1, 3)]));
    assert!(!two.in_recovery());
}

#[test]
fn a_timeout_sends_again_only_what_sack_does_not_know_of() {
    let (mut sender, p) = sender(&reno(), 10);
    sender.on_ack(&p, ms(1), &ack(0, &[(3, 4), (7, 8)]));
    drain(&mut sender, &p, ms(1)); // limited transmit: 10 and 11
    let due = sender.next_timeout().unwrap();
    sender.on_timeout(&p, due);
    assert_eq!((sender.cwnd(), sender.ssthresh()), (SEGMENT, 5 * SEGMENT), "RFC 5681, 3.1");
    assert_eq!(sender.next_timeout(), Some(due + ms(2000)), "doubled");
    assert_eq!(drain(&mut sender, &p, due), [(0, 1, true)]);
    // Again, before anything arrived: ssthresh stays.
    let again = sender.next_timeout().unwrap();
    sender.on_timeout(&p, again);
    assert_eq!((sender.ssthresh(), sender.next_timeout()), (5 * SEGMENT, Some(again + ms(4000))));
    assert_eq!(drain(&mut sender, &p, again), [(0, 1, true)]);
    // Slow start over the gaps, to what is beyond them.
    sender.on_ack(&p, again + ms(10), &AckSegment { echo: again, ..ack(1, &[(7, 8), (3, 4)]) });
    assert_eq!(drain(&mut sender, &p, again + ms(10)), [(1, 2, true)]);
    sender.on_ack(&p, again + ms(20), &AckSegment { echo: again, ..ack(4, &[(7, 8)]) });
    assert_eq!(sender.cwnd(), 5 * SEGMENT);
    assert_eq!(drain(&mut sender, &p, again + ms(20)), [(4, 3, true), (8, 2, true)]);
    assert_eq!(sender.statistics().timeouts, 2);
}

#[test]
fn a_timeout_in_fast_recovery_leaves_ssthresh() {
    let (mut sender, p) = sender(&reno(), 20);
    sender.on_ack(&p, ms(1), &ack(0, &[(1, 4)]));
    assert_eq!((sender.in_recovery(), sender.ssthresh()), (true, 10 * SEGMENT));
    drain(&mut sender, &p, ms(1));
    sender.on_timeout(&p, ms(2000));
    assert_eq!((sender.cwnd(), sender.ssthresh()), (SEGMENT, 10 * SEGMENT));
}

#[test]
fn without_sack_what_a_timeout_sent_twice_is_no_loss() {
    let (mut sender, p) = sender(&TcpParameters { sack: false, ..reno() }, 10);
    let now = sender.next_timeout().unwrap();
    sender.on_timeout(&p, now);
    assert_eq!(drain(&mut sender, &p, now), [(0, 1, true)]);
    sender.on_ack(&p, now, &ack(1, &[]));
    assert_eq!(drain(&mut sender, &p, now), [(1, 2, true)]);
    // Only 0 had been lost: all is there, and 1 and 2 come twice.
    sender.on_ack(&p, now, &ack(10, &[]));
    let sent = drain(&mut sender, &p, now);
    assert!(sent.iter().all(|burst| !burst.2), "{sent:?}");
    let flight = sender.in_flight();
    for _ in 0..10 {
        sender.on_ack(&p, now, &ack(10, &[]));
        drain(&mut sender, &p, now);
    }
    assert!(!sender.in_recovery(), "RFC 6582, 4");
    assert_eq!(
        sender.in_flight(),
        flight + 3 * SEGMENT,
        "and no duplicate after the third widens the window"
    );
}

#[test]
fn newreno_restarts_the_timer_with_the_first_partial_ack_only() {
    let (mut sender, p) = sender(&TcpParameters { sack: false, ..reno() }, 20);
    for _ in 0..3 {
        sender.on_ack(&p, ms(1), &ack(0, &[]));
    }
    drain(&mut sender, &p, ms(1));
    let partial = |n, now: u64| AckSegment { echo: ms(now - 1), ..ack(n, &[]) };
    sender.on_ack(&p, ms(10), &partial(5, 10));
    assert_eq!(sender.next_timeout(), Some(ms(210)));
    drain(&mut sender, &p, ms(10));
    sender.on_ack(&p, ms(20), &partial(8, 20));
    assert_eq!(sender.next_timeout(), Some(ms(210)), "RFC 6582, 3.2, step 3, and 4: impatient");
    drain(&mut sender, &p, ms(20));
    sender.on_ack(&p, ms(30), &partial(20, 30));
    assert_eq!((sender.in_recovery(), sender.next_timeout()), (false, None));
}

#[test]
fn at_the_end_of_the_stream_what_may_be_lost_is_sent_again() {
    let p = TcpParameters { initial_window: 10 * SEGMENT, ..reno() };
    let mut sender = TcpSender::new(&p);
    sender.write(10 * SEGMENT);
    drain(&mut sender, &p, Time::ZERO);
    // 0, 6 and the tail are lost. Nothing beyond 6 tells that it is, but there is no new data to send (rule 3), and
    // of the tail nobody can tell (rule 4: one segment, once).
    sender.on_ack(&p, ms(1), &ack(0, &[(7, 8), (1, 6)]));
    assert_eq!(drain(&mut sender, &p, ms(1)), [(0, 1, true), (6, 1, true)]);
    sender.on_ack(&p, ms(2), &ack(6, &[(7, 8)]));
    assert_eq!(drain(&mut sender, &p, ms(2)), [(9, 1, true)]);
    sender.on_ack(&p, ms(3), &ack(8, &[(9, 10)]));
    assert_eq!(drain(&mut sender, &p, ms(3)), [(8, 1, true)]);
    sender.on_ack(&p, ms(4), &ack(10, &[]));
    assert!(sender.is_idle() && sender.statistics().timeouts == 0);
    assert_eq!(sender.statistics().retransmitted_segments, 4);
}

#[test]
fn a_second_recovery_sends_again_what_the_first_did() {
    let p = TcpParameters { initial_window: 10 * SEGMENT, ..reno() };
    let mut sender = TcpSender::new(&p);
    sender.write(14 * SEGMENT);
    drain(&mut sender, &p, Time::ZERO);
    sender.on_ack(&p, ms(1), &ack(0, &[(1, 10)]));
    assert_eq!(drain(&mut sender, &p, ms(1)), [(0, 1, true), (10, 4, false)]);
    sender.on_ack(&p, ms(2), &ack(0, &[(11, 12), (1, 10)]));
    assert_eq!(drain(&mut sender, &p, ms(2)), [(10, 1, true)], "rule 3: nothing tells yet that it is lost");
    sender.on_ack(&p, ms(2), &ack(10, &[(11, 12)]));
    assert!(!sender.in_recovery());
    // Enough arrived beyond it: a loss of its own.
    sender.on_ack(&p, ms(3), &ack(10, &[(11, 14)]));
    assert!(sender.in_recovery());
    assert_eq!(drain(&mut sender, &p, ms(3)), [(10, 1, true)]);
}

#[test]
fn a_retransmission_that_is_lost_is_sent_again_without_the_timer() {
    let (mut sender, p) = sender(&reno(), 20);
    sender.on_ack(&p, ms(1), &ack(0, &[(5, 15), (1, 2)]));
    // 0, and 2 to 4, are lost; 20 - 11 - 4 = 5 in the network, and the window is 10.
    assert_eq!(drain(&mut sender, &p, ms(1)), [(0, 1, true), (2, 3, true), (20, 1, false)]);
    // What was sent before the retransmissions tells nothing of them.
    sender.on_ack(&p, ms(2), &ack(0, &[(5, 20), (1, 2)]));
    assert_eq!(drain(&mut sender, &p, ms(2)), [(21, 5, false)]);
    // 3 and 4 arrive, 0 and 2 do not; two segments sent after them do.
    sender.on_ack(&p, ms(3), &ack(0, &[(3, 22), (1, 2)]));
    let sent = drain(&mut sender, &p, ms(3));
    assert!(sent.iter().all(|burst| !burst.2), "not enough: {sent:?}");
    sender.on_ack(&p, ms(3), &ack(0, &[(3, 23), (1, 2)]));
    let sent = drain(&mut sender, &p, ms(3));
    assert_eq!(sent[..2], [(0, 1, true), (2, 1, true)], "{sent:?}");
    // Once: now what was sent after these must tell.
    sender.on_ack(&p, ms(4), &ack(0, &[(3, 24), (1, 2)]));
    assert!(drain(&mut sender, &p, ms(4)).iter().all(|burst| !burst.2));
    let end = sender.next_position() / SEGMENT;
    sender.on_ack(&p, ms(5), &ack(end, &[]));
    assert!(!sender.in_recovery() && sender.in_flight() == 0 && sender.statistics().timeouts == 0);
    assert_eq!(sender.statistics().retransmitted_segments, 6);
}

/// A flow alone on a fast link: its window in segments, so long after it first left slow start or recovery.
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
fn an_ack_for_every_second_segment_or_after_the_delay() {
    let p = reno();
    let mut receiver = TcpReceiver::new(&p);
    assert!(!receiver.on_segment(&p, ms(1), &segment(0)).ack);
    assert_eq!(receiver.next_timeout(), Some(ms(41)));
    assert!(receiver.on_segment(&p, ms(2), &segment(1)).ack);
    assert_eq!(receiver.ack(&p).ack, 2 * SEGMENT);
    assert_eq!(receiver.next_timeout(), None);
    assert!(!receiver.on_segment(&p, ms(3), &segment(2)).ack);
    assert!(!receiver.on_timeout(ms(42)) && receiver.on_timeout(ms(43)));
    assert_eq!(receiver.ack(&p).ack, 3 * SEGMENT);
    // A merged run is several segments.
    let run = DataSegment { bytes: 2 * MSS, segments: 2, ..segment(3) };
    assert!(receiver.on_segment(&p, ms(4), &run).ack);
    // A window probe is answered at once.
    receiver.ack(&p);
    assert!(receiver.on_segment(&p, ms(4), &DataSegment { bytes: 0, ..segment(5) }).ack);
}

#[test]
fn gaps_are_told_of_at_once_the_newest_range_first() {
    let p = reno();
    let mut receiver = TcpReceiver::new(&p);
    let mut told = |number: u64| {
        let verdict = receiver.on_segment(&p, ms(1), &segment(number));
        assert!(verdict.ack, "segment {number}");
        let ack = receiver.ack(&p);
        let blocks = ack.sack.as_slice().iter().map(|b| (b.0 / SEGMENT, b.1 / SEGMENT)).collect::<Vec<_>>();
        (verdict.newly_delivered / SEGMENT, ack.ack / SEGMENT, blocks)
    };
    assert_eq!(told(2), (0, 0, vec![(2, 3)]));
    assert_eq!(told(6), (0, 0, vec![(6, 7), (2, 3)]));
    assert_eq!(told(4), (0, 0, vec![(4, 5), (6, 7), (2, 3)]));
    assert_eq!(told(8), (0, 0, vec![(8, 9), (4, 5), (6, 7)]), "three fit beside a timestamp");
    assert_eq!(told(5), (0, 0, vec![(4, 7), (8, 9)]), "one range of two");
    assert_eq!(told(0), (1, 1, vec![(4, 7), (8, 9)]), "part of the gap");
    assert_eq!(told(1), (2, 3, vec![(4, 7), (8, 9)]), "with 2, which waited");
    assert_eq!(told(3), (4, 7, vec![(8, 9)]));
    assert_eq!(told(3), (0, 7, vec![(8, 9)]), "received before");
    assert_eq!((receiver.duplicate_bytes(), receiver.out_of_order_bytes()), (SEGMENT, SEGMENT));
    // A run over what waits: one of its three segments had arrived.
    let run = DataSegment { bytes: 3 * MSS, segments: 3, ..segment(7) };
    let verdict = receiver.on_segment(&p, ms(2), &run);
    assert_eq!((verdict.newly_delivered, verdict.discarded), (3 * SEGMENT, SEGMENT));
    assert_eq!(receiver.out_of_order_bytes(), 0);
}

/// RFC 7323, 4.3, and the examples there: delayed ACKs, a hole, and its filling.
#[test]
fn the_timestamp_echoed_is_the_one_that_gives_the_rtt() {
    let p = reno();
    let mut receiver = TcpReceiver::new(&p);
    let at = |number, sent: u64| DataSegment { sent_at: ms(sent), ..segment(number) };
    receiver.on_segment(&p, ms(50), &at(0, 1));
    receiver.on_segment(&p, ms(50), &at(1, 2));
    assert_eq!(receiver.ack(&p).echo, ms(1), "the earlier of the two");
    receiver.on_segment(&p, ms(50), &at(3, 4));
    assert_eq!(receiver.ack(&p).echo, ms(1), "beyond a hole: the last in order");
    receiver.on_segment(&p, ms(90), &at(2, 60));
    assert_eq!(receiver.ack(&p).echo, ms(60), "what fills the hole, sent again");
    receiver.on_segment(&p, ms(91), &at(2, 3));
    assert_eq!(receiver.ack(&p).echo, ms(60), "an old copy comes late");
}

#[test]
fn the_echo_of_a_mark_lasts_until_cwr() {
    let p = TcpParameters { ecn: true, ..reno() };
    let mut receiver = TcpReceiver::new(&p);
    let mut ece = |number, ce, cwr| {
        let verdict = receiver.on_segment(&p, ms(1), &DataSegment { ce, cwr, ..segment(number) });
        assert_eq!(verdict.first, None);
        receiver.ack(&p).ece
    };
    assert!(!ece(0, false, false));
    assert!(ece(1, true, false));
    assert!(ece(2, false, false), "RFC 3168, 6.1.3");
    assert!(!ece(3, false, true));
    assert!(ece(4, true, true), "a mark on the segment that carries CWR");
    let off = reno();
    let mut receiver = TcpReceiver::new(&off);
    receiver.on_segment(&off, ms(1), &DataSegment { ce: true, ..segment(0) });
    assert!(!receiver.ack(&off).ece, "ECN is off");
}

#[test]
fn dctcp_acknowledges_marked_and_unmarked_segments_apart() {
    let p = TcpParameters { ack_every: 4, ..parameters(DCTCP) };
    let mut receiver = TcpReceiver::new(&p);
    let mut arrive = |number, ce| {
        let verdict = receiver.on_segment(&p, ms(1), &DataSegment { ce, ..segment(number) });
        let told = |ack: AckSegment| (ack.ack / SEGMENT, ack.ece);
        (verdict.first.map(told), verdict.ack.then(|| told(receiver.ack(&p))))
    };
    assert_eq!(arrive(0, false), (None, None));
    assert_eq!(arrive(1, true), (Some((1, false)), None), "RFC 8257, 3.2: what was delayed goes first");
    assert_eq!(arrive(2, true), (None, None));
    assert_eq!(arrive(3, false), (Some((3, true)), None));
    assert_eq!(arrive(4, false), (None, None));
    assert_eq!(arrive(5, false), (None, None));
    assert_eq!(arrive(6, false), (None, Some((7, false))));
    assert_eq!(arrive(7, true), (None, None), "nothing was delayed");
}

#[test]
fn a_reader_that_is_late_closes_the_window_and_a_probe_finds_it_open() {
    let p = TcpParameters { receive_buffer: 10 * SEGMENT, initial_window: 20 * SEGMENT, ..reno() };
    let (mut sender, mut receiver) = (TcpSender::new(&p), TcpReceiver::new(&p));
    sender.write(30 * SEGMENT);
    let take = |sender: &mut TcpSender, receiver: &mut TcpReceiver, now: Time| {
        let bursts: Vec<Burst> = std::iter::from_fn(|| sender.poll_transmit(&p, now, u32::MAX)).collect();
        for burst in &bursts {
            let segments = burst.bytes.div_ceil(MSS).max(1);
            let &Burst { position, bytes, .. } = burst;
            let run = DataSegment { position, bytes, segments, ce: false, cwr: false, sent_at: now };
            receiver.on_segment(&p, now, &run);
        }
        bursts.iter().map(|burst| burst.bytes as u64 / SEGMENT).collect::<Vec<_>>()
    };
    assert_eq!(take(&mut sender, &mut receiver, ms(0)), [10], "the receiver's window and not the sender's");
    let full = receiver.ack(&p);
    assert_eq!((full.ack, full.window), (10 * SEGMENT, 0));
    sender.on_ack(&p, ms(1), &full);
    assert_eq!(take(&mut sender, &mut receiver, ms(1)), []);
    // The persist timer: RTT 1 ms, and at least 200 ms.
    assert_eq!(sender.next_timeout(), Some(ms(201)));
    sender.on_timeout(&p, ms(201));
    assert_eq!(take(&mut sender, &mut receiver, ms(201)), [0], "a probe");
    sender.on_ack(&p, ms(202), &receiver.ack(&p));
    assert_eq!(take(&mut sender, &mut receiver, ms(202)), []);
    assert_eq!(sender.next_timeout(), Some(ms(201 + 400)), "backed off");
    // The reader takes a little: not worth telling. Then more: worth it, and told, but that ACK is lost.
    assert!(!receiver.on_read(&p, SEGMENT / 2));
    assert_eq!(receiver.ack(&p).window, 0, "RFC 9293, 3.8.6.2.2: less than a segment");
    assert!(receiver.on_read(&p, 4 * SEGMENT + SEGMENT / 2));
    assert_eq!(receiver.ack(&p).window, 5 * SEGMENT);
    sender.on_timeout(&p, ms(601));
    assert_eq!(take(&mut sender, &mut receiver, ms(601)), [0]);
    sender.on_ack(&p, ms(602), &receiver.ack(&p));
    assert_eq!(take(&mut sender, &mut receiver, ms(602)), [5]);
    assert_eq!((receiver.unread(), sender.statistics().timeouts), (10 * SEGMENT, 0));
    assert_eq!(sender.statistics().window_probes, 2);
    // What lies beyond the window is not taken.
    let beyond = receiver.on_segment(&p, ms(603), &segment(15));
    assert_eq!((beyond.discarded, beyond.ack), (SEGMENT, true));
}

#[test]
fn a_reader_tells_of_a_window_that_doubled() {
    let p = TcpParameters { receive_buffer: 10 * SEGMENT, ..reno() };
    let mut receiver = TcpReceiver::new(&p);
    receiver.on_segment(&p, ms(1), &DataSegment { bytes: 8 * MSS, segments: 8, ..segment(0) });
    assert_eq!(receiver.ack(&p).window, 2 * SEGMENT);
    assert!(!receiver.on_read(&p, SEGMENT), "3 where the sender knows of 2");
    assert!(receiver.on_read(&p, SEGMENT), "4");
    assert_eq!(receiver.ack(&p).window, 4 * SEGMENT);
    assert!(receiver.on_read(&p, 6 * SEGMENT));
    receiver.ack(&p);
    receiver.on_segment(&p, ms(1), &segment(8));
    receiver.ack(&p);
    assert!(!receiver.on_read(&p, SEGMENT), "more than half of the buffer is known to be free");
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
