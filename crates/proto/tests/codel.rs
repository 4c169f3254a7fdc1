//! CoDel and FQ-CoDel: examples of RFC 8289 and RFC 8290, with the arithmetic that the kernel does.

use tailback_proto::aqm::codel::{Codel, CodelParameters, CodelQueueParameters};
use tailback_proto::aqm::codel::{FqCodel, FqCodelParameters};
use tailback_proto::aqm::qdisc::{DropReason, Enqueue, Skb};
use tailback_proto::units::{Bytes, Time};

const MTU: u32 = 1514;

/// The defaults of RFC 8289, section 4: target 5 ms, interval 100 ms.
fn one_queue(ecn: bool) -> Codel {
    Codel::new(&CodelQueueParameters { limit: 100_000, ecn }, &CodelParameters::default(), MTU)
}

fn skb(packet: u32, bytes: u32, flow: u32, ect: bool) -> Skb {
    // fq_codel takes the upper bits: flow n of 1024.
    Skb::new(packet, bytes, flow << 22, ect)
}

/// A packet a millisecond comes and goes, and `standing` of them wait: all have waited `standing` ms. When each is dropped
/// or marked, ms.
fn events(standing: u64, ect: bool, ms: u64) -> Vec<u64> {
    let mut codel = one_queue(true);
    let mut drops = vec![];
    let mut found = vec![];
    for now in 0..ms {
        let time = Time::from_ms(now);
        codel.enqueue(skb(now as u32, 1000, 0, ect), time);
        // What a drop took is offered again, so that the queue stands.
        while codel.qlen() as u64 > standing {
            let (_, marked) = codel.dequeue(time, &mut drops).expect("packets wait");
            found.extend(marked.then_some(now));
            for (dropped, reason) in drops.drain(..) {
                assert_eq!(reason, DropReason::Sojourn);
                found.push(now);
                codel.enqueue(Skb { packet: dropped.packet, ..dropped }, time);
            }
        }
    }
    found
}

/// RFC 8289, section 5.3: nothing is dropped while the wait is above target for less than an interval; then one packet,
/// and the next ones interval / sqrt(count) later.
///
/// The first packet that has waited too long leaves at 20 ms, unit 19531 of 1024 ns of the run. An interval has 97656 units: the
/// first packet after unit 117187 goes, and as that of 120 ms is in unit 117187, it is the one of 121 ms. With sqrt the gaps
/// are 100, 70.7, 57.7, 50 ms, ... The kernel's 1 / sqrt(count) starts at 1 and takes one step of Newton's method,
/// x (3 - count x^2) / 2, a drop: for 2: 1 * (3 - 2) / 2 = 0.5, for 3: 0.5 * (3 - 3 * 0.25) / 2 = 0.5625, for 4:
/// 0.5625 * (3 - 4 * 0.3164) / 2 = 0.4878, for 5: 0.4878 * (3 - 5 * 0.2380) / 2 = 0.4415. So drops are due at 121 + 100 =
/// 221 ms, and at 221 + 50 = 271, 327.2, 376.0 and 420.2 ms, and fall upon the next packet that leaves, one a millisecond.
#[test]
fn drops_come_ever_faster_while_the_wait_is_too_long() {
    let dropped = events(20, false, 430);
    assert_eq!(dropped, [121, 221, 271, 328, 377, 421]);
    // The gaps of packets that are marked are the same.
    assert_eq!(events(20, true, 430), dropped);
}

/// The steps of Newton's method come near 1 / sqrt(count) soon: the 40th gap is 100 ms / sqrt(40) = 15.8 ms.
#[test]
fn gaps_follow_the_square_root() {
    let dropped = events(20, true, 3_000);
    for count in [10, 20, 40] {
        // Five gaps around, to average out that packets leave once a millisecond.
        let gap = (dropped[count + 2] - dropped[count - 3]) as f64 / 5.0;
        let due = 100.0 / (count as f64).sqrt();
        assert!((gap / due - 1.0).abs() < 0.05, "gap {count}: {gap} ms, not {due} ms");
    }
}

/// A wait below target leaves the state at once (RFC 8289, section 5.4).
#[test]
fn waits_below_target_are_never_punished() {
    assert_eq!(events(4, false, 1_000), [] as [u64; 0]);
}

/// Within 16 intervals of the last drop the count goes on from where it was, less what it was at the last begin
/// (RFC 8289, section 5.5): after 6 drops it begins with 6 - 1 = 5, not with 1.
#[test]
fn dropping_resumes_where_it_was() {
    let mut codel = one_queue(false);
    let mut drops = vec![];
    let run = |codel: &mut Codel, drops: &mut Vec<_>, from: u64, to: u64, standing: usize| {
        for now in from..to {
            let time = Time::from_ms(now);
            codel.enqueue(skb(0, 1000, 0, false), time);
            while codel.qlen() > standing {
                codel.dequeue(time, drops);
                for _ in 0..drops.len() {
                    drops.pop();
                    codel.enqueue(skb(0, 1000, 0, false), time);
                }
            }
        }
    };
    run(&mut codel, &mut drops, 0, 425, 20);
    assert_eq!(codel.readout(Time::from_ms(425)).count, 6);
    run(&mut codel, &mut drops, 425, 600, 1);
    assert_eq!(codel.readout(Time::from_ms(600)).drop_next_us, None, "it has left the state of dropping");
    // Twenty packets stand again: the first of them leaves after 20 ms with too long a wait, and 101 ms later one goes.
    run(&mut codel, &mut drops, 600, 730, 20);
    let readout = codel.readout(Time::from_ms(730));
    assert_eq!((readout.count, readout.lastcount), (5, 5));
}

fn fq_codel(change: impl FnOnce(&mut FqCodelParameters)) -> FqCodel {
    with_codel(change, &CodelParameters::default())
}

fn with_codel(change: impl FnOnce(&mut FqCodelParameters), codel: &CodelParameters) -> FqCodel {
    let mut p = FqCodelParameters {
        limit: 10_240,
        flows: 1024,
        quantum: Bytes(MTU as u64),
        ecn: true,
        memory_limit: Bytes(32 << 20),
        drop_batch: 64,
    };
    change(&mut p);
    FqCodel::new(&p, codel, MTU)
}

fn order(queue: &mut FqCodel) -> Vec<u32> {
    let mut drops = vec![];
    let found =
        std::iter::from_fn(|| queue.dequeue(Time::ZERO, &mut drops)).map(|(skb, _)| skb.packet).collect();
    assert!(drops.is_empty());
    found
}

/// RFC 8290, section 4.2: flows 1 and 2 have packets of 1514 B, a quantum, and take turns: one packet each. Flow 3 with
/// packets of 500 B is new when flow 1 has become old, and goes first, until its quantum is spent: 1514 - 4 * 500 is
/// below 0 after four of them. Then it is the last of the old flows, behind 2, which has its quantum yet, and before 1,
/// which has spent it; with what is left of two quanta, 3028 - 2000 B, it sends its last two packets at once.
#[test]
fn new_flows_go_first_for_a_quantum() {
    let mut queue = fq_codel(|_| {});
    let mut drops = vec![];
    for packet in [10, 11, 12] {
        queue.enqueue(skb(packet, MTU, 1, false), Time::ZERO, &mut drops);
        queue.enqueue(skb(packet + 10, MTU, 2, false), Time::ZERO, &mut drops);
    }
    assert_eq!(queue.dequeue(Time::ZERO, &mut drops).map(|(skb, _)| skb.packet), Some(10));
    assert_eq!(queue.dequeue(Time::ZERO, &mut drops).map(|(skb, _)| skb.packet), Some(20));
    // Their deficit is 0: at the next look each is moved to the old flows.
    assert_eq!(queue.dequeue(Time::ZERO, &mut drops).map(|(skb, _)| skb.packet), Some(11));
    for packet in 30..36 {
        queue.enqueue(skb(packet, 500, 3, false), Time::ZERO, &mut drops);
    }
    assert_eq!(order(&mut queue), [30, 31, 32, 33, 21, 34, 35, 12, 22]);
    assert_eq!(queue.statistics().new_flow_count, 3);
}

/// RFC 8290, section 4.2: a new flow that runs empty becomes an old one; otherwise a flow that sends a packet whenever its
/// last one has left would always be new, and old ones would starve. Flow 1 has packets of 100 B: 16 of them are a quantum.
#[test]
fn a_flow_of_single_packets_does_not_starve_the_others() {
    let mut queue = fq_codel(|_| {});
    let mut drops = vec![];
    (0..60).for_each(|n| _ = queue.enqueue(skb(n, 100, 1, false), Time::ZERO, &mut drops));
    // Its first quantum is spent, and it is an old flow.
    for n in 0..17 {
        assert_eq!(queue.dequeue(Time::ZERO, &mut drops).map(|(skb, _)| skb.packet), Some(n));
    }
    queue.enqueue(skb(100, 1400, 2, false), Time::ZERO, &mut drops);
    assert_eq!(queue.dequeue(Time::ZERO, &mut drops).map(|(skb, _)| skb.packet), Some(100), "it is new");
    // The next look finds it empty, and it queues up behind flow 1, with what that has left of its quantum: after two of 100 B
    // and a debt of 86 B, 1228 of 1514 B, so 13 packets.
    assert_eq!(queue.dequeue(Time::ZERO, &mut drops).map(|(skb, _)| skb.packet), Some(17));
    queue.enqueue(skb(101, 1400, 2, false), Time::ZERO, &mut drops);
    let found = order(&mut queue);
    assert_eq!(found.iter().position(|&packet| packet == 101), Some(13), "{found:?}");
}

/// Full: half of the bytes of the fattest flow go, from its head, but at most 64 packets. Of 12 packets of flow 1 with
/// 12,000 B six are dropped; the packet of flow 2 stays.
#[test]
fn a_full_queue_drops_half_of_the_fattest_flow() {
    let mut queue = fq_codel(|p| p.limit = 12);
    let mut drops = vec![];
    (0..12).for_each(|n| _ = queue.enqueue(skb(n, 1000, 1, false), Time::ZERO, &mut drops));
    assert!(drops.is_empty());
    let result = queue.enqueue(skb(100, 50, 2, false), Time::ZERO, &mut drops);
    assert_eq!(result, Enqueue::Queued { marked: false });
    assert_eq!(drops.iter().map(|(skb, _)| skb.packet).collect::<Vec<_>>(), [0, 1, 2, 3, 4, 5]);
    assert!(drops.iter().all(|&(_, reason)| reason == DropReason::Overlimit));
    assert_eq!(queue.statistics().drop_overlimit, 6);

    let mut queue = fq_codel(|p| p.limit = 1000);
    drops.clear();
    (0..1001).for_each(|n| _ = queue.enqueue(skb(n, 1000, 1, false), Time::ZERO, &mut drops));
    assert_eq!(drops.len(), 64);
    assert_eq!(queue.qlen(), 1001 - 64);
}

/// The seven drops of a full queue count as drops of CoDel's, but not as recent ones: it begins with one drop,
/// and not with a flush.
#[test]
fn a_full_queue_at_the_start_is_not_flushed_later() {
    let mut queue = fq_codel(|p| p.limit = 12);
    let mut drops = vec![];
    (0..13).for_each(|n| _ = queue.enqueue(skb(n, 1000, 1, false), Time::ZERO, &mut drops));
    assert_eq!(drops.drain(..).count(), 7);
    for ms in 1..180 {
        queue.enqueue(skb(0, 1000, 1, false), Time::from_ms(ms), &mut drops);
        // What is dropped is offered again, so that the queue stands.
        while queue.qlen() > 7 {
            queue.dequeue(Time::from_ms(ms), &mut drops);
        }
        while queue.qlen() < 7 {
            queue.enqueue(skb(0, 1000, 1, false), Time::from_ms(ms), &mut drops);
        }
    }
    assert_eq!(drops.len(), 1);
}

/// A packet of 1500 B with its headroom and shared info of 384 B lies in 2048 B, and 256 B of sk_buff: 2304 B.
/// 10 of them fit into 24,000 B, and the 11th makes half of the 11 go.
#[test]
fn memory_is_limited_too() {
    let mut queue = fq_codel(|p| p.memory_limit = Bytes(24_000));
    let mut drops = vec![];
    (0..10).for_each(|n| _ = queue.enqueue(skb(n, 1500, 1, false), Time::ZERO, &mut drops));
    assert_eq!(queue.statistics().memory_usage, 23_040);
    assert!(drops.is_empty());
    queue.enqueue(skb(10, 1500, 1, false), Time::ZERO, &mut drops);
    assert_eq!(drops.len(), 6);
    assert!(drops.iter().all(|&(_, reason)| reason == DropReason::Memory));
    assert_eq!((queue.statistics().drop_overlimit, queue.statistics().drop_overmemory), (6, 6));
}

/// The packet that finds the queue full is dropped itself where its flow is the fattest and has no other.
#[test]
fn the_offered_packet_may_be_the_one() {
    let mut queue = fq_codel(|p| p.limit = 1);
    let mut drops = vec![];
    queue.enqueue(skb(0, 100, 1, false), Time::ZERO, &mut drops);
    let result = queue.enqueue(skb(1, 1000, 2, false), Time::ZERO, &mut drops);
    assert_eq!(result, Enqueue::Dropped(DropReason::Overlimit));
    assert!(drops.is_empty());
    assert_eq!(order(&mut queue), [0]);
}

/// Drops of a ping each 200 ms that waits 20 ms because the device stands still, while another flow has a backlog above
/// an MTU or is empty.
fn sparse_drops(stale: bool, backlog: bool) -> usize {
    let codel = CodelParameters { stale, ..CodelParameters::default() };
    let mut queue = with_codel(|p| p.ecn = false, &codel);
    let mut drops = vec![];
    let mut lost = 0;
    for ping in 0..10u64 {
        let sent = Time::from_ms(200 * ping);
        let out = sent + Time::from_ms(20);
        queue.enqueue(skb(100, 98, 2, false), sent, &mut drops);
        if backlog {
            (0..20).for_each(|n| _ = queue.enqueue(skb(n, MTU, 1, false), out, &mut drops));
        }
        // Three more packets leave after the ping, or whatever is there, so that its flow is found empty.
        let mut more = 4;
        while more > 0 {
            let Some((skb, _)) = queue.dequeue(out, &mut drops) else { break };
            more -= (skb.packet == 100 || more < 4) as u32;
            let dropped = drops.drain(..).filter(|(skb, _)| skb.packet == 100).count();
            more -= (dropped > 0 && more == 4) as u32;
            lost += dropped;
        }
    }
    lost
}

/// Its wait is above target each time, but it is alone in its flow, so that there is no queue that stands. Kernels before
/// commit 815980fe6dbb kept the time of the first such packet over the empty queue, and dropped the next.
#[test]
fn a_sparse_flow_that_waits_for_the_device() {
    assert_eq!(sparse_drops(false, true), 0);
    assert!(sparse_drops(true, true) >= 4, "{}", sparse_drops(true, true));
    // Alone it is exempt: no more than an MTU waits in the whole discipline.
    assert_eq!(sparse_drops(true, false), 0);
}
