//! RED of `tc` below a token bucket, under soft-RoCE (rxe): what a real kernel did with packets that say ECT and with
//! those that do not.
//!
//! Measured on a kernel 7.2 (emulated): `tbf` of 100 Mbit/s with a child `red limit 2000000 min 50000 max 200000 avpkt 1500
//! burst 60 ecn probability 0.5`, MTU 4200, `ib_write_bw`.
//!
//! | Queue pairs | Traffic | MiB/s | Marked | Dropped |
//! | --- | --- | --- | --- | --- |
//! | 1 | not ECT | 0.02 to 0.04 | 0 | 1,593 to 4,047 |
//! | 1 | ECT(0) | 6.05 | 8,097 of 8,414 packets | 9, early |
//! | 1 | DSCP 26 and ECT(0) | 5.62 | 6,513 of 7,925 | 5 |
//! | 4 | ECT(0), ack timeout code 18 | 11.55 | 15,987 | 0 |
//!
//! The sender is go-back-N without congestion control, as rxe is (drivers/infiniband/sw/rxe, rxe_req.c and rxe_param.h): at
//! most 128 packets unacknowledged, at most 64 in the discipline at a time, and an ACK for each message of 16 packets.
//! Receiver and wire take no time; the emulated machine's did, so that one queue pair did not fill the link.

mod red_arguments;

use red_arguments::RED;
use tailback_proto::aqm::qdisc::TbfParameters;
use tailback_proto::aqm::qdisc::{Discipline, OwnStatistics, Qdisc};
use tailback_proto::aqm::qdisc::{Enqueue, Skb};
use tailback_proto::aqm::qdisc::{Fifo, FifoLimit};
use tailback_proto::aqm::red::{Red, RedStatistics};
use tailback_proto::transport::rc::{RcParameters, Requester, Responder, SlowRestart, Verdict};
use tailback_proto::units::{Bytes, Rate, Time};

/// RXE_MAX_UNACKED_PSNS and RXE_INFLIGHT_SKBS_PER_QP_HIGH.
const UNACKNOWLEDGED: u64 = 128;
const IN_DISCIPLINE: u32 = 64;
/// 4096 B of payload with Ethernet, IPv4, UDP, BTH and ICRC.
const FRAME: u32 = 4096 + 14 + 20 + 8 + 12 + 4;
const PAYLOAD: f64 = 4096.0;
const MIB: f64 = 1_048_576.0;

/// Assumption: the table says nothing of the bucket; two packets and a half.
const TBF: TbfParameters = TbfParameters { rate: Rate(100_000_000), burst: Bytes(10_000), limit: None };

struct QueuePair {
    requester: Requester,
    responder: Responder,
    in_discipline: u32,
}

struct Outcome {
    mib_per_second: f64,
    sent: u64,
    dropped: u64,
    red: RedStatistics,
    requester_failed: bool,
}

/// Numerical Recipes' generator.
fn next(state: &mut u32) -> u32 {
    *state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
    *state
}

/// `packets` delivered over all queue pairs, or `longest`, whichever comes first. `code` of the ack timeout.
fn run(child: Discipline, queue_pairs: u32, ect: bool, code: u32, longest: Time, packets: u64) -> Outcome {
    let timeout = Time(4_096_000 << code);
    // ib_write_bw gives up after 7 retries; the collapse lasts longer.
    let p = RcParameters {
        ack_every: 16,
        ack_timeout: timeout,
        first_timeout: timeout,
        retry_count: u32::MAX - 1,
        slow_restart: SlowRestart::Never,
        nak_reaction: Time::ZERO,
        nak_delay: Time::ZERO,
        losses_are_cnps: false,
        discarded_cause_cnps: true,
        selective: None,
    };
    let mut tbf = Qdisc::from(Discipline::tbf(&TBF, child.into()));
    let mut qps: Vec<QueuePair> = (0..queue_pairs)
        .map(|_| QueuePair {
            requester: Requester::default(),
            responder: Responder::default(),
            in_discipline: 0,
        })
        .collect();
    qps.iter_mut().for_each(|qp| qp.requester.post(1 << 40));
    let (mut now, mut drops, mut draw) = (Time::ZERO, vec![], 1u32);
    let delivered = |qps: &[QueuePair]| qps.iter().map(|qp| qp.responder.received()).sum::<u64>();
    while now < longest && delivered(&qps) < packets {
        for (number, qp) in qps.iter_mut().enumerate() {
            while qp.requester.next_sequence() - qp.requester.acknowledged() < UNACKNOWLEDGED
                && qp.in_discipline < IN_DISCIPLINE
            {
                let packet = qp.requester.send(&p, now, false, 1);
                let name = packet.psn << 1 | packet.ack_request as u32;
                let skb = Skb::new(name, FRAME, number as u32, ect);
                if let Enqueue::Queued { .. } = tbf.enqueue(skb, now, || next(&mut draw), &mut drops) {
                    qp.in_discipline += 1;
                }
            }
        }
        let mut left = false;
        while let Some((skb, _)) = tbf.dequeue(now, &mut drops) {
            left = true;
            let qp = &mut qps[skb.flow_hash as usize];
            qp.in_discipline -= 1;
            match qp.responder.on_request(skb.packet >> 1, 1, skb.packet & 1 == 1) {
                Verdict::Accepted { ack: true } | Verdict::Duplicate { ack: true } => {
                    let psn = qp.responder.ack_psn().expect("it got a packet");
                    qp.requester.on_ack(&p, now, psn);
                }
                Verdict::OutOfSequence { nak: true } => {
                    qp.requester.on_nak(&p, now, qp.responder.nak_psn());
                }
                _ => {}
            }
        }
        if !left {
            let timers = qps.iter().filter_map(|qp| qp.requester.next_timeout());
            now = timers.chain(tbf.next_at()).min().expect("a timer runs");
            qps.iter_mut().for_each(|qp| _ = qp.requester.on_timeout(&p, now));
        }
    }
    let child = tbf.child().expect("a tbf has one");
    Outcome {
        mib_per_second: delivered(&qps) as f64 * PAYLOAD / MIB / now.as_secs_f64(),
        sent: child.statistics().sent_packets,
        dropped: child.statistics().dropped,
        red: match child.own_statistics(now) {
            OwnStatistics::Red(red) => red,
            _ => RedStatistics::default(),
        },
        requester_failed: qps.iter().any(|qp| qp.requester.is_failed()),
    }
}

fn red() -> Discipline {
    Discipline::Red(Red::new(&RED.parameters().expect("tc takes these")))
}

/// What the link carries at most: 100 Mbit/s of frames as the kernel counts them.
fn line_rate() -> f64 {
    12.5e6 * PAYLOAD / FRAME as f64 / MIB
}

fn print(what: &str, o: &Outcome) {
    println!(
        "{what}: {:.3} MiB/s, {} sent, marked {}, early {}, pdrop {}, dropped {}",
        o.mib_per_second, o.sent, o.red.marked, o.red.early, o.red.pdrop, o.dropped
    );
}

#[test]
fn traffic_that_is_not_ect_collapses() {
    let o = run(red(), 1, false, 14, Time::from_ms(20_000), u64::MAX);
    print("1 queue pair, not ECT", &o);
    assert!(!o.requester_failed);
    assert_eq!(o.red.marked, 0);
    assert_eq!(o.dropped, o.red.early, "nothing is dropped by the limit");
    // Measured 0.02 to 0.04 MiB/s, as two digits.
    assert!((0.015..0.045).contains(&o.mib_per_second), "{} MiB/s", o.mib_per_second);
}

#[test]
fn traffic_that_says_ect_is_marked_and_passes() {
    // As many packets as the kernel sent.
    let one = run(red(), 1, true, 14, Time::from_ms(60_000), 8_414);
    print("1 queue pair, ECT", &one);
    assert_eq!((one.dropped, one.red.early), (0, 0));
    let share = one.red.marked as f64 / one.sent as f64;
    assert!((share - 8_097.0 / 8_414.0).abs() < 0.05, "{share} are marked");

    let four = run(red(), 4, true, 18, Time::from_ms(60_000), 16_000);
    print("4 queue pairs, ECT", &four);
    assert_eq!((four.dropped, four.red.early), (0, 0));
    assert!(four.red.marked as f64 / four.sent as f64 > 0.98);
    assert!((four.mib_per_second / 11.55 - 1.0).abs() < 0.05, "{} MiB/s, not 11.55", four.mib_per_second);
}

/// It is RED that ends the traffic that is not ECT, not the bucket.
#[test]
fn without_red_it_passes() {
    let fifo = Discipline::Fifo(Fifo::new(FifoLimit::Bytes(2_000_000)));
    let o = run(fifo, 1, false, 14, Time::from_ms(2_000), u64::MAX);
    print("1 queue pair, not ECT, bfifo", &o);
    assert_eq!(o.dropped, 0);
    assert!(o.mib_per_second > 0.99 * line_rate());
}
