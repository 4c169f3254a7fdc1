//! TCP's receiver: when it acknowledges, and what its ACKs tell.

mod tcp_link;

use tailback_proto::transport::tcp::*;
use tailback_proto::units::Time;
use tcp_link::one_end::*;
use tcp_link::*;

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
