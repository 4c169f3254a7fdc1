//! Queueing disciplines: every packet comes out once, as it went in or with a reason, and within the discipline's limits.

use bolero::{check, TypeGenerator};
use std::collections::BTreeMap;
use tailback_fuzz::{Clock, Magnitude, Share, Span, END};
use tailback_proto::aqm::qdisc::Qdisc;
use tailback_proto::aqm::qdisc::{DropReason, Enqueue, Skb};
use tailback_proto::aqm::red::EcnThresholds;
use tailback_proto::units::{Bytes, Rate, Time};
use tailback_sim::plan::{
    BfifoParameters, CodelParameters, CodelQueueParameters, FqCodelParameters, PfifoParameters, QdiscPlan,
    RedArguments, SfqParameters, TbfParameters,
};

#[derive(Clone, Copy, Debug, TypeGenerator)]
struct CodelCase {
    target: Magnitude<31>,
    interval: Magnitude<31>,
    ecn: bool,
    stale: bool,
}

impl CodelCase {
    fn codel(self) -> CodelParameters {
        let time = |us: Magnitude<31>| Time::from_us(us.get().min(1_000_000_000));
        CodelParameters { target: time(self.target), interval: time(self.interval), stale: self.stale }
    }

    fn plan(self, limit: Magnitude<12>) -> QdiscPlan {
        let own = CodelQueueParameters { limit: limit.get() as u32, ecn: self.ecn };
        QdiscPlan::Codel { own, codel: self.codel() }
    }
}

#[derive(Clone, Copy, Debug, TypeGenerator)]
struct RedCase {
    limit: Magnitude<32>,
    min: Magnitude<24>,
    max: Magnitude<24>,
    avpkt: Magnitude<14>,
    burst: Magnitude<16>,
    bandwidth: Magnitude<36>,
    probability: Share,
    ecn: bool,
    harddrop: bool,
    whole_us: bool,
}

impl RedCase {
    fn plan(self) -> QdiscPlan {
        QdiscPlan::Red(RedArguments {
            limit: Bytes(self.limit.get()),
            min: Bytes(self.min.get()),
            max: Bytes(self.max.get()),
            avpkt: Bytes(self.avpkt.get()),
            burst: self.burst.get() as u32,
            bandwidth: Rate(self.bandwidth.get()),
            probability: self.probability.get(),
            ecn: self.ecn,
            harddrop: self.harddrop,
            whole_us: self.whole_us,
        })
    }
}

#[derive(Clone, Copy, Debug, TypeGenerator)]
struct FqCodelCase {
    limit: Magnitude<16>,
    flows: Magnitude<11>,
    quantum: Magnitude<16>,
    memory: Magnitude<31>,
    batch: Magnitude<8>,
    codel: CodelCase,
}

impl FqCodelCase {
    fn plan(self) -> QdiscPlan {
        let own = FqCodelParameters {
            limit: self.limit.get() as u32,
            flows: self.flows.get() as u32,
            quantum: Bytes(self.quantum.get()),
            ecn: self.codel.ecn,
            memory_limit: Bytes(self.memory.get()),
            drop_batch: self.batch.get() as u32,
        };
        QdiscPlan::FqCodel { own, codel: self.codel.codel() }
    }
}

#[derive(Clone, Copy, Debug, TypeGenerator)]
struct SfqCase {
    limit: Magnitude<12>,
    depth: Magnitude<7>,
    flows: Magnitude<8>,
    #[generator(0..=10u32)]
    divisor_log: u32,
    quantum: Magnitude<16>,
}

impl SfqCase {
    fn plan(self) -> QdiscPlan {
        QdiscPlan::Sfq(SfqParameters {
            limit: self.limit.get() as u32,
            depth: self.depth.get() as u32,
            flows: self.flows.get() as u32,
            divisor: 1 << self.divisor_log,
            quantum: Bytes(self.quantum.get()),
        })
    }
}

#[derive(Clone, Copy, Debug, TypeGenerator)]
enum Below {
    Nothing,
    Fifo(Magnitude<12>),
    Red(RedCase),
    Codel(Magnitude<12>, CodelCase),
    FqCodel(FqCodelCase),
    Sfq(SfqCase),
}

#[derive(Clone, Copy, Debug, TypeGenerator)]
struct TbfCase {
    rate: Magnitude<40>,
    burst: Magnitude<32>,
    limit: Magnitude<24>,
    below: Below,
}

fn pfifo(limit: u64) -> QdiscPlan {
    QdiscPlan::Pfifo(PfifoParameters { limit: limit as u32 })
}

impl TbfCase {
    fn plan(self) -> QdiscPlan {
        let child = match self.below {
            Below::Nothing => None,
            Below::Fifo(limit) => Some(pfifo(limit.get())),
            Below::Red(red) => Some(red.plan()),
            Below::Codel(limit, codel) => Some(codel.plan(limit)),
            Below::FqCodel(fq_codel) => Some(fq_codel.plan()),
            Below::Sfq(sfq) => Some(sfq.plan()),
        };
        let own = TbfParameters {
            rate: Rate(self.rate.get()),
            burst: Bytes(self.burst.get()),
            limit: Some(Bytes(self.limit.get())),
        };
        QdiscPlan::Tbf { own, child: child.map(Box::new) }
    }
}

#[derive(Debug, TypeGenerator)]
enum Input {
    /// `count` packets of a flow.
    Enqueue {
        after: Span,
        count: u8,
        bytes: u16,
        flow: u32,
        ect: bool,
        random: u32,
    },
    Dequeue {
        after: Span,
        count: u8,
    },
    /// The device refuses the next packet.
    Refuse {
        after: Span,
    },
    /// Until there are tokens.
    Wait,
}

/// What is known of a packet that waits.
#[derive(Debug)]
struct Waiting {
    skb: Skb,
    marked: bool,
}

struct Books {
    qdisc: Qdisc,
    waiting: BTreeMap<u32, Waiting>,
    offered: u64,
    dropped: u64,
    sent: u64,
    /// Last packet of each flow that came out: they do not overtake each other.
    last_of: BTreeMap<u32, u32>,
}

impl Books {
    fn drops(&mut self, drops: &mut Vec<(Skb, DropReason)>) {
        for (skb, _) in drops.drain(..) {
            self.waiting.remove(&skb.packet).expect("dropped twice, or never queued");
            self.dropped += 1;
        }
    }

    fn enqueue(&mut self, skb: Skb, clock: &Clock, random: u32) {
        let mut drops = Vec::new();
        self.offered += 1;
        match self.qdisc.enqueue(skb, clock.now(), || random, &mut drops) {
            Enqueue::Dropped(_) => self.dropped += 1,
            Enqueue::Queued { marked } => {
                assert!(skb.ect || !marked, "marks what cannot be marked");
                self.waiting.insert(skb.packet, Waiting { skb, marked });
            }
        }
        self.drops(&mut drops);
    }

    fn dequeue(&mut self, clock: &Clock) -> Option<Skb> {
        let mut drops = Vec::new();
        let next = self.qdisc.dequeue(clock.now(), &mut drops);
        self.drops(&mut drops);
        let (skb, marked) = next?;
        let waiting = self.waiting.remove(&skb.packet).expect("comes out twice, or never went in");
        assert_eq!((skb.bytes, skb.flow_hash, skb.ect), {
            let was = waiting.skb;
            (was.bytes, was.flow_hash, was.ect)
        });
        assert!(skb.enqueued <= clock.now());
        assert!(!marked || (skb.ect && !waiting.marked), "marked twice, or what cannot be marked");
        let last = self.last_of.insert(skb.flow_hash, skb.packet);
        assert!(last.is_none_or(|last| last < skb.packet), "overtakes within its flow");
        self.sent += 1;
        Some(skb)
    }

    fn refuse(&mut self, clock: &Clock) {
        let before = self.qdisc.statistics().requeues;
        let Some(skb) = self.dequeue(clock) else { return };
        self.qdisc.requeue(skb);
        self.last_of.remove(&skb.flow_hash);
        self.waiting.insert(skb.packet, Waiting { skb, marked: false });
        self.sent -= 1;
        assert_eq!(self.qdisc.statistics().requeues, before + 1);
        let mut drops = Vec::new();
        let again = self.qdisc.dequeue(clock.now(), &mut drops).expect("what was refused is the next one");
        assert!(drops.is_empty() && again.0.packet == skb.packet);
        self.qdisc.requeue(again.0);
    }

    fn check(&self) {
        let bytes: u64 = self.waiting.values().map(|waiting| waiting.skb.bytes as u64).sum();
        assert_eq!((self.qdisc.qlen(), self.qdisc.backlog_bytes()), (self.waiting.len(), bytes));
        assert_eq!(self.offered, self.sent + self.dropped + self.waiting.len() as u64);
    }
}

/// Runs a discipline; `limit`: most packets and bytes that wait, without the one that was refused.
fn run(plan: QdiscPlan, limit: (u64, u64), inputs: &[Input]) {
    let Ok(qdisc) = plan.build("qdisc", 1514) else { return };
    let (waiting, last_of) = Default::default();
    let mut books = Books { qdisc, waiting, offered: 0, dropped: 0, sent: 0, last_of };
    let mut clock = Clock::default();
    let mut packets = 0..;
    for input in inputs {
        match *input {
            Input::Enqueue { after, count, bytes, flow, ect, random } => {
                clock.pass(after);
                for _ in 0..count {
                    // No frame is shorter than its Ethernet and IP headers.
                    let bytes = (bytes as u32).max(34);
                    let packet = packets.next().expect("without end");
                    books.enqueue(Skb::new(packet, bytes, flow, ect), &clock, random);
                    let held = 1;
                    assert!(books.qdisc.qlen() as u64 <= limit.0 + held);
                    assert!(books.qdisc.backlog_bytes() <= limit.1 + held * 65_535);
                }
            }
            Input::Dequeue { after, count } => {
                clock.pass(after);
                for _ in 0..count {
                    let ready = books.dequeue(&clock).is_some();
                    if !ready && books.qdisc.qlen() > 0 {
                        let at = books.qdisc.next_at().expect("packets wait, and nothing says until when");
                        assert!(at >= clock.now(), "waits for what is past");
                    }
                }
            }
            Input::Refuse { after } => {
                clock.pass(after);
                books.refuse(&clock);
            }
            Input::Wait => {
                if let Some(at) = books.qdisc.next_at().filter(|&at| at <= END) {
                    clock.pass_until(at);
                    books.dequeue(&clock);
                }
            }
        }
        books.check();
    }
    // Everything comes out in the end, if that is not years away.
    while books.qdisc.qlen() > 0 && clock.now() <= END {
        if books.dequeue(&clock).is_none() && books.qdisc.qlen() > 0 {
            let at = books.qdisc.next_at().expect("stuck");
            assert!(at > clock.now(), "stuck at one instant");
            clock.pass_until(at);
        }
        books.check();
    }
}

const ANY: u64 = u64::MAX >> 1;

#[test]
fn fifo() {
    check!().with_type::<(bool, Magnitude<24>, Vec<Input>)>().for_each(|(of_packets, limit, inputs)| {
        let limit = limit.get();
        match of_packets {
            true => run(pfifo(limit), (limit, ANY), inputs),
            false => run(QdiscPlan::Bfifo(BfifoParameters { limit: Bytes(limit) }), (ANY, limit), inputs),
        }
    });
}

#[test]
fn red() {
    check!().with_type::<(RedCase, Vec<Input>)>().for_each(|(red, inputs)| {
        run(red.plan(), (ANY, red.limit.get()), inputs);
    });
}

#[test]
fn codel() {
    check!().with_type::<(Magnitude<12>, CodelCase, Vec<Input>)>().for_each(|(limit, codel, inputs)| {
        run(codel.plan(*limit), (limit.get(), ANY), inputs);
    });
}

#[test]
fn fq_codel() {
    check!().with_type::<(FqCodelCase, Vec<Input>)>().for_each(|(case, inputs)| {
        // A batch of drops may be too small to come below the limit of memory at once.
        run(case.plan(), (case.limit.get(), ANY), inputs);
    });
}

#[test]
fn sfq() {
    check!().with_type::<(SfqCase, Vec<Input>)>().for_each(|(sfq, inputs)| {
        run(sfq.plan(), (sfq.limit.get(), ANY), inputs);
    });
}

#[test]
fn tbf() {
    check!()
        .with_type::<(TbfCase, Vec<Input>)>()
        .for_each(|(tbf, inputs)| run(tbf.plan(), (ANY, ANY), inputs));
}

/// Between its thresholds marking grows with the queue; below it never happens, above always.
#[test]
fn ecn() {
    type Case = (Magnitude<40>, Magnitude<40>, Share, Magnitude<41>, Magnitude<41>, Share);
    check!().with_type::<Case>().for_each(|(a, b, p_max, queue, more, draw)| {
        let (a, b) = (a.get(), b.get());
        let ecn = EcnThresholds { k_min_bytes: a.min(b), k_max_bytes: a.max(b), p_max: p_max.get() };
        let (queue, more) = (queue.get().min(more.get()), queue.get().max(more.get()));
        let (low, high) = (ecn.probability(queue), ecn.probability(more));
        assert!((0.0..=1.0).contains(&low) && low <= high, "{low} and {high}");
        let draw = draw.get() * 0.999;
        assert_eq!(ecn.mark(queue, || draw), draw < low);
    });
}
