//! What all queueing disciplines have in common: every packet is accounted for. And TBF and SFQ.

use proptest::prelude::*;
use std::collections::HashMap;
use tailback_proto::aqm::codel::{Codel, CodelParameters, CodelQueueParameters};
use tailback_proto::aqm::codel::{FqCodel, FqCodelParameters};
use tailback_proto::aqm::qdisc::TbfParameters;
use tailback_proto::aqm::qdisc::{Discipline, Qdisc};
use tailback_proto::aqm::qdisc::{DropReason, Enqueue, Skb};
use tailback_proto::aqm::qdisc::{Fifo, FifoLimit};
use tailback_proto::aqm::red::{Red, RedArguments};
use tailback_proto::aqm::sfq::{Sfq, SfqParameters};
use tailback_proto::units::{Bytes, Rate, Time};

fn red() -> Red {
    let arguments = RedArguments {
        limit: Bytes(30_000),
        min: Bytes(5_000),
        max: Bytes(15_000),
        avpkt: Bytes(1000),
        burst: 8,
        bandwidth: Rate(100_000_000),
        probability: 0.1,
        ecn: true,
        harddrop: false,
        whole_us: false,
    };
    Red::new(&arguments.parameters().expect("tc takes these"))
}

fn codel(stale: bool) -> CodelParameters {
    CodelParameters { target: Time::from_us(500), interval: Time::from_ms(10), stale }
}

fn sfq(limit: u32, depth: u32, flows: u32) -> Sfq {
    Sfq::new(&SfqParameters { limit, depth, flows, divisor: 1024, quantum: Bytes(1514) })
}

const TBF: TbfParameters = TbfParameters { rate: Rate(100_000_000), burst: Bytes(9000), limit: None };

/// One of each kind, small enough that all their limits are met.
fn every(kind: usize) -> Qdisc {
    let fq_codel = || {
        let (quantum, memory_limit) = (Bytes(1514), Bytes(60_000));
        let own = FqCodelParameters { limit: 40, flows: 16, quantum, ecn: true, memory_limit, drop_batch: 8 };
        FqCodel::new(&own, &codel(kind == 4), 1514)
    };
    let tbf = |child: Discipline| Discipline::tbf(&TBF, child.into());
    Qdisc::from(match kind {
        0 => Discipline::Fifo(Fifo::new(FifoLimit::Packets(20))),
        1 => Discipline::Fifo(Fifo::new(FifoLimit::Bytes(20_000))),
        2 => Discipline::Red(red()),
        3 => {
            Discipline::Codel(Codel::new(&CodelQueueParameters { limit: 30, ecn: true }, &codel(false), 1514))
        }
        4 | 5 => Discipline::FqCodel(fq_codel()),
        6 => Discipline::Sfq(sfq(30, 10, 12)),
        7 => tbf(Discipline::Red(red())),
        8 => tbf(Discipline::FqCodel(fq_codel())),
        9 => tbf(Discipline::Sfq(sfq(30, 10, 12))),
        _ => tbf(Discipline::Codel(Codel::new(
            &CodelQueueParameters { limit: 30, ecn: true },
            &codel(false),
            1514,
        ))),
    })
}
const KINDS: usize = 11;

#[derive(Clone, Debug)]
enum Step {
    Offer { bytes: u32, flow: u8, ect: bool },
    Take { most: u8, refused: bool },
    Wait { us: u64 },
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        5 => (60u32..9100, 0u8..24, any::<bool>())
            .prop_map(|(bytes, flow, ect)| Step::Offer { bytes: bytes.min(9014), flow, ect }),
        3 => (1u8..6, prop::bool::weighted(0.1)).prop_map(|(most, refused)| Step::Take { most, refused }),
        2 => (0u64..4000).prop_map(|us| Step::Wait { us }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1024))]

    /// What goes in comes out, waits, or is dropped, once; backlog and counters say so; a flow's packets stay in order.
    #[test]
    fn every_packet_is_accounted_for(
        kind in 0..KINDS,
        seed: u32,
        steps in prop::collection::vec(step(), 1..400),
    ) {
        let mut qdisc = every(kind);
        let mut random = seed;
        let mut now = Time::ZERO;
        let mut drops = vec![];
        let mut waiting: HashMap<u32, Skb> = HashMap::new();
        let (mut offered, mut sent, mut sent_bytes, mut dropped) = (0u32, 0u64, 0u64, 0u64);
        let mut reasons: HashMap<DropReason, u64> = HashMap::new();
        let mut requeues = 0;
        let mut last_of_flow: HashMap<u32, u32> = HashMap::new();
        for step in steps {
            match step {
                Step::Offer { bytes, flow, ect } => {
                    let skb = Skb::new(offered, bytes, (flow as u32).wrapping_mul(0x9E37_79B1), ect);
                    offered += 1;
                    random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                    match qdisc.enqueue(skb, now, || random, &mut drops) {
                        Enqueue::Queued { marked } => {
                            prop_assert!(!marked || ect, "marked what does not say ECT");
                            waiting.insert(skb.packet, skb);
                        }
                        Enqueue::Dropped(reason) => {
                            dropped += 1;
                            *reasons.entry(reason).or_default() += 1;
                        }
                    }
                }
                Step::Take { most, refused } => {
                    for _ in 0..most {
                        let Some((skb, marked)) = qdisc.dequeue(now, &mut drops) else { break };
                        prop_assert!(!marked || skb.ect);
                        if refused {
                            qdisc.requeue(skb);
                            requeues += 1;
                            let (again, _) = qdisc.dequeue(now, &mut drops).expect("it was just put back");
                            prop_assert_eq!(again, skb);
                        }
                        prop_assert!(waiting.remove(&skb.packet).is_some(), "{} came twice", skb.packet);
                        if let Some(last) = last_of_flow.insert(skb.flow_hash, skb.packet) {
                            prop_assert!(last < skb.packet, "a flow was reordered");
                        }
                        sent += 1;
                        sent_bytes += skb.bytes as u64;
                    }
                }
                Step::Wait { us } => now += Time::from_us(us),
            }
            for (skb, reason) in drops.drain(..) {
                prop_assert!(waiting.remove(&skb.packet).is_some(), "{} was dropped twice", skb.packet);
                dropped += 1;
                *reasons.entry(reason).or_default() += 1;
            }
            let counted = qdisc.statistics();
            let held = waiting.values().map(|skb| skb.bytes as u64).sum::<u64>();
            prop_assert_eq!(qdisc.qlen(), waiting.len());
            prop_assert_eq!(qdisc.backlog_bytes(), held);
            prop_assert_eq!((counted.dropped, counted.requeues), (dropped, requeues));
            prop_assert!(qdisc.dropped_for().all(|(r, n)| n == reasons.get(&r).copied().unwrap_or(0)));
            prop_assert_eq!((counted.sent_packets, counted.sent_bytes), (sent, sent_bytes));
            prop_assert_eq!(offered as u64, sent + dropped + waiting.len() as u64);
            prop_assert!(qdisc.next_at().is_none_or(|at| at <= now || !waiting.is_empty()));
        }
        // It runs empty in the end: nothing is stuck.
        for _ in 0..10_000 {
            if qdisc.dequeue(now, &mut drops).is_none() {
                let Some(at) = qdisc.next_at() else { break };
                now = at;
            }
        }
        prop_assert_eq!(qdisc.qlen(), 0);
    }
}

fn packet(packet: u32, bytes: u32, flow: u32) -> Skb {
    Skb::new(packet, bytes, flow, true)
}

/// 100 Mbit/s is a byte in 80 ns, and a bucket of 3000 B 240 us: two packets of 1500 B leave at once. The next waits for
/// 120 us of tokens, the next for as long, and so on: the rate holds exactly.
#[test]
fn tbf_sends_a_burst_and_then_at_its_rate() {
    let fifo = Qdisc::from(Discipline::Fifo(Fifo::new(FifoLimit::Packets(100))));
    let mut tbf: Qdisc = Discipline::tbf(&TbfParameters { burst: Bytes(3000), ..TBF }, fifo).into();
    let mut drops = vec![];
    (0..6).for_each(|n| _ = tbf.enqueue(packet(n, 1500, 0), Time::ZERO, || 0, &mut drops));
    let mut left = vec![];
    let mut now = Time::ZERO;
    loop {
        match tbf.dequeue(now, &mut drops) {
            Some(_) => left.push(now.ps() / 1_000_000),
            None => match tbf.next_at() {
                Some(at) => now = at,
                None => break,
            },
        }
    }
    assert_eq!(left, [0, 0, 120, 240, 360, 480]);
    assert_eq!(tbf.statistics().overlimits, 4);
    // Asked again too early it says the same time, and counts.
    tbf.enqueue(packet(6, 1500, 0), now, || 0, &mut drops);
    assert!(tbf.dequeue(now + Time::from_us(1), &mut drops).is_none());
    assert_eq!(tbf.next_at(), Some(now + Time::from_us(120)));
    assert_eq!(tbf.statistics().overlimits, 5);
    // A bucket is full after any time.
    let later = now + Time::from_ms(1000);
    assert!(tbf.dequeue(later, &mut drops).is_some());
    let full = later + Time::from_ms(1000);
    (10..16).for_each(|n| _ = tbf.enqueue(packet(n, 1500, 0), full, || 0, &mut drops));
    let at_once = std::iter::from_fn(|| tbf.dequeue(full, &mut drops)).count();
    assert_eq!(at_once, 2);
    let large = tbf.enqueue(packet(7, 3001, 0), now, || 0, &mut drops);
    assert_eq!(large, Enqueue::Dropped(DropReason::TooLarge));
}

/// 25 Gbit/s and 7 bit/s of rounding: over a second the kernel's product of 32 bits is off by less than a part in 2^30.
#[test]
fn tbf_is_exact_at_any_rate() {
    for rate_bps in [1_000_000u64, 33_333_333, 100_000_000, 25_000_000_000, 400_000_000_000] {
        let fifo = Qdisc::from(Discipline::Fifo(Fifo::new(FifoLimit::Packets(100_000))));
        let mut tbf: Qdisc = Discipline::tbf(&TbfParameters { rate: Rate(rate_bps), ..TBF }, fifo).into();
        let mut drops = vec![];
        let (mut now, mut bytes) = (Time::ZERO, 0u64);
        for n in 0..20_000 {
            tbf.enqueue(packet(n, 9000, 0), now, || 0, &mut drops);
            while tbf.dequeue(now, &mut drops).is_none() {
                now = tbf.next_at().expect("it waits for tokens");
            }
            bytes += 9000;
        }
        let due = (bytes - 9000) as f64 * 8.0 / (rate_bps / 8 * 8) as f64;
        // A packet's nanoseconds are whole ones.
        let rounding = 1.0 / (9000.0 * 8e9 / rate_bps as f64) + 1e-9;
        assert!((now.as_secs_f64() / due - 1.0).abs() < rounding, "{rate_bps}: {now}, not {due} s");
    }
}

/// The average of an idle RED decays, but not below a TBF: that looks at the head of the queue and never asks an empty
/// one for a packet.
#[test]
fn red_below_tbf_is_never_idle() {
    let average_after_idling = |mut qdisc: Qdisc| {
        let mut drops = vec![];
        let (mut now, mut packets) = (Time::ZERO, 0);
        for round in 0..20u64 {
            for n in 0..8 {
                qdisc.enqueue(packet(n, 1000, 0), now, || u32::MAX, &mut drops);
            }
            while packets < 8 * (round + 1) {
                match qdisc.dequeue(now, &mut drops) {
                    Some(_) => packets += 1,
                    None => now = qdisc.next_at().expect("it waits for tokens"),
                }
            }
            assert!(qdisc.dequeue(now, &mut drops).is_none());
        }
        qdisc.enqueue(packet(0, 1000, 0), now + Time::from_ms(10_000), || u32::MAX, &mut drops);
        let of = |qdisc: &Qdisc| match qdisc.discipline() {
            Discipline::Red(red) => red.average_bytes(),
            other => panic!("{other:?}"),
        };
        qdisc.child().map_or_else(|| of(&qdisc), of)
    };
    assert_eq!(average_after_idling(Discipline::Red(red()).into()), 0);
    assert!(average_after_idling(every(7)) > 1000);
}

fn sfq_order(sfq: &mut Sfq) -> Vec<u32> {
    std::iter::from_fn(|| sfq.dequeue()).map(|skb| skb.packet).collect()
}

/// Flow 1 with packets of 1514 B, a quantum, and flow 2 with packets of 757 B: one of the first, two of the second.
#[test]
fn sfq_gives_each_flow_as_many_bytes() {
    let mut sfq = sfq(127, 127, 128);
    let mut drops = vec![];
    (0..4).for_each(|n| _ = sfq.enqueue(packet(n, 1514, 1), Time::ZERO, &mut drops));
    (10..18).for_each(|n| _ = sfq.enqueue(packet(n, 757, 2), Time::ZERO, &mut drops));
    assert_eq!(sfq_order(&mut sfq), [0, 10, 11, 1, 12, 13, 2, 14, 15, 3, 16, 17]);
}

/// Full with 5 packets of flow 1 and 3 of flow 2: the last of flow 1 goes, whoever comes.
#[test]
fn a_full_sfq_drops_the_tail_of_the_longest_flow() {
    let mut sfq = sfq(8, 127, 128);
    let mut drops = vec![];
    (0..5).for_each(|n| _ = sfq.enqueue(packet(n, 100, 1), Time::ZERO, &mut drops));
    (10..13).for_each(|n| _ = sfq.enqueue(packet(n, 100, 2), Time::ZERO, &mut drops));
    let newcomer = sfq.enqueue(packet(20, 100, 3), Time::ZERO, &mut drops);
    assert_eq!(newcomer, Enqueue::Queued { marked: false });
    assert_eq!(drops.drain(..).map(|(skb, _)| skb.packet).collect::<Vec<_>>(), [4]);
    let own = sfq.enqueue(packet(5, 100, 1), Time::ZERO, &mut drops);
    assert_eq!(own, Enqueue::Dropped(DropReason::Overlimit));
    assert!(drops.is_empty());
    assert_eq!(sfq.qlen(), 8);
}

#[test]
fn sfq_limits_the_depth_of_a_flow_and_their_number() {
    let mut sfq = sfq(100, 2, 2);
    let mut drops = vec![];
    let mut offer = |n, flow| sfq.enqueue(packet(n, 100, flow), Time::ZERO, &mut drops);
    assert_eq!(offer(0, 1), Enqueue::Queued { marked: false });
    assert_eq!(offer(1, 1), Enqueue::Queued { marked: false });
    assert_eq!(offer(2, 1), Enqueue::Dropped(DropReason::FlowLimit));
    assert_eq!(offer(3, 2), Enqueue::Queued { marked: false });
    assert_eq!(offer(4, 3), Enqueue::Dropped(DropReason::Flows));
}
