//! TCP's recovery from losses: which segment goes again at which ACK, with the arithmetic of the RFCs.

mod tcp_link;

use tailback_proto::transport::tcp::*;
use tailback_proto::units::{Rate, Time};
use tcp_link::one_end::*;
use tcp_link::*;

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
fn what_is_no_duplicate_ack() {
    // With SACK: one that brings no news. Without: one that moves the window, and two before progress.
    let (mut with, p) = sender(&reno(), 10);
    (0..5).for_each(|_| with.on_ack(&p, ms(1), &ack(0, &[(1, 3)])));
    assert!(!with.in_recovery());
    let (mut without, p) = sender(&TcpParameters { sack: false, ..reno() }, 10);
    let opens = |n: u64, more: u64| AckSegment { window: (1 << 30) + more, ..ack(n, &[]) };
    (1..5).for_each(|more| without.on_ack(&p, ms(1), &opens(0, more)));
    assert!(!without.in_recovery());
    assert_eq!(drain(&mut without, &p, ms(1)), []);
    (0..2).for_each(|_| without.on_ack(&p, ms(1), &ack(0, &[])));
    without.on_ack(&p, ms(2), &ack(1, &[]));
    drain(&mut without, &p, ms(2));
    assert_eq!(without.in_flight(), without.cwnd(), "progress takes back what two duplicates added");
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
    // cwnd: 2, slow start to 5, and the other six segments add 6 / 5.
    assert_eq!((sender.ssthresh(), sender.cwnd()), (5 * SEGMENT, 6_200));
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
    // In the network is what was sent beyond 23, and not 0 and 2: with these again, the window of 10 is full.
    let beyond = sender.next_position() / SEGMENT - 23;
    assert_eq!(sent[..2], [(0, 1, true), (2, 1, true)], "{sent:?}");
    assert_eq!((sent.len(), beyond), (3, 8), "{sent:?}");
    // Once: now what was sent after these must tell.
    sender.on_ack(&p, ms(4), &ack(0, &[(3, 24), (1, 2)]));
    assert!(drain(&mut sender, &p, ms(4)).iter().all(|burst| !burst.2));
    let end = sender.next_position() / SEGMENT;
    sender.on_ack(&p, ms(5), &ack(end, &[]));
    assert!(!sender.in_recovery() && sender.in_flight() == 0 && sender.statistics().timeouts == 0);
    assert_eq!(sender.statistics().retransmitted_segments, 6);
}
