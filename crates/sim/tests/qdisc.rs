//! Queueing disciplines at a bridge's ports: in a whole run their books add up, and they do what they are for.

mod common;
use common::bridge::*;
use common::*;
use tailback_proto::units::{Bytes, Rate, Time};
use tailback_sim::plan::*;
use tailback_sim::record::Recording;

const CODEL: CodelParameters =
    CodelParameters { target: Time::from_us(500), interval: Time::from_us(5_000), stale: false };

fn codel() -> QdiscPlan {
    QdiscPlan::Codel { own: CodelQueueParameters::default(), codel: CODEL }
}

fn fq_codel() -> QdiscPlan {
    QdiscPlan::FqCodel {
        own: FqCodelParameters {
            limit: 300,
            flows: 1024,
            quantum: Bytes(4214),
            ecn: false,
            memory_limit: Bytes(32 << 20),
            drop_batch: 64,
        },
        codel: CODEL,
    }
}

fn sfq() -> QdiscPlan {
    let (limit, depth, flows, divisor) = (127, 127, 128, 1024);
    QdiscPlan::Sfq(SfqParameters { limit, depth, flows, divisor, quantum: Bytes(4214) })
}

fn below_tbf(child: QdiscPlan) -> QdiscPlan {
    let own = TbfParameters { rate: Rate(1_000_000_000), burst: Bytes(10_000), limit: None };
    QdiscPlan::Tbf { own, child: Some(Box::new(child)) }
}

/// Four queue pairs write for 20 ms.
fn writes(qdisc: QdiscPlan) -> Recording {
    let mut plan = bridged(BridgeModelPlan { qdisc, multiqueue: false, ..model() });
    plan.run.duration = Time(20 * MS);
    plan.writers = vec![WriterPlan { message: Bytes(65_536), ..writer(0, 1, 4) }];
    run(plan)
}

fn common_books(r: &Recording, prefix: &str) -> (u64, u64) {
    let value = |name: &str| at(r, "br0:h1", &format!("{prefix}_{name}"));
    (value("sent_packets") + value("backlog_packets"), value("dropped"))
}

/// `run` checks that every packet is found again, and every queue holds what it counts.
#[test]
fn all_disciplines_keep_their_books_in_a_run() {
    let limit = QdiscPlan::Pfifo(PfifoParameters { limit: 100 });
    let kinds = [
        limit.clone(),
        QdiscPlan::Bfifo(BfifoParameters { limit: Bytes(400_000) }),
        QdiscPlan::Red(RED),
        codel(),
        fq_codel(),
        sfq(),
        below_tbf(limit),
        below_tbf(QdiscPlan::Red(RED)),
        below_tbf(codel()),
        below_tbf(fq_codel()),
        below_tbf(sfq()),
    ];
    for kind in kinds {
        let recording = writes(kind.clone());
        assert!(recording.flows[0].bytes_delivered > 0, "{kind:?}: nothing arrives");
        if let QdiscPlan::Tbf { .. } = kind {
            let ((through, dropped), (of_child, child_dropped)) =
                (common_books(&recording, "qdisc"), common_books(&recording, "child"));
            assert!(dropped > 0, "{kind:?}: 1 Gbit/s holds the window of four queue pairs");
            assert_eq!(dropped, child_dropped, "{kind:?}");
            assert!(through == of_child || through + 1 == of_child, "{kind:?}: {through} and {of_child}");
            // 1 Gbit/s of frames for 20 ms, and the bucket; less where go-back-N waits for a timeout.
            let bytes = at(&recording, "br0:h1", "qdisc_sent_bytes");
            assert!((500_000..=2_510_000).contains(&bytes), "{kind:?}: {bytes} B");
        }
    }
}

#[test]
fn red_marks_what_says_ect_and_does_not_drop_it_early() {
    let recording = writes(below_tbf(QdiscPlan::Red(RED)));
    let of = |name| at(&recording, "br0:h1", name);
    assert!(of("red_marked") > 400, "{}", of("red_marked"));
    assert_eq!(of("red_early"), 0);
    // 1 Gbit/s for 20 ms, and the bucket of 10,000 B, less what the core is late with: while it drops packets at the limit it
    // sends others all the same.
    let bytes = of("qdisc_sent_bytes");
    assert!((2_475_000..=2_510_000).contains(&bytes), "{bytes} B");
    assert_eq!(of("red_pdrop"), of("child_dropped"));
    assert_eq!(of("child_overlimits"), of("red_marked"));
}
