//! A queueing discipline of Linux: what stands between the stack and a device's ring.
//!
//! The caller does what net/core/dev.c and net/sched/sch_generic.c do: it offers a packet (`enqueue`), and takes packets
//! (`dequeue`) while the device accepts them: after each packet offered, when the device wakes its queue, and at
//! `next_at`. A packet that the device then refuses goes back (`requeue`) and is the next one.
//!
//! Every packet that is offered comes out once: as the result of `enqueue` where it was dropped at once, in `drops`
//! if it was dropped later, or from `dequeue`.
//!
//! Leaves out: what a drop tells the sender of the packet (`NET_XMIT_CN`), that a packet which finds the discipline empty may
//! bypass it, and that the packet that was put back counts in the limits of pfifo, bfifo, CoDel, FQ-CoDel and SFQ (`dev_requeue_skb`
//! adds it to `qlen` and `backlog`): here it waits beside them, one more than the limit.

use super::codel::{Codel, CodelReadout};
use super::fifo::Fifo;
use super::fq_codel::{FqCodel, FqCodelStatistics};
use super::red::{Red, RedStatistics};
use super::sfq::Sfq;
use super::skb::{DropReason, Enqueue, Skb};
use super::tbf::{Tbf, TbfParameters};
use crate::units::Time;

/// The disciplines.
#[derive(Clone, Debug)]
#[allow(clippy::large_enum_variant)]
pub enum Discipline {
    /// No queue at all: the caller hands packets to the device and drops those it refuses.
    Noqueue,
    Fifo(Fifo),
    Red(Red),
    /// And where packets wait for tokens.
    Tbf(Tbf, Box<Qdisc>),
    Codel(Codel),
    FqCodel(FqCodel),
    Sfq(Sfq),
}

impl Discipline {
    /// A token bucket over a queue.
    pub fn tbf(parameters: &TbfParameters, child: Qdisc) -> Self {
        Discipline::Tbf(Tbf::new(parameters), Box::new(child))
    }
}

/// What all disciplines count, as `tc -s qdisc` prints it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QdiscStatistics {
    /// Bytes given to the device, or to the discipline above.
    pub sent_bytes: u64,
    /// The same in packets.
    pub sent_packets: u64,
    /// Packets dropped, for any reason.
    pub dropped: u64,
    /// RED: packets marked or dropped early. TBF: how often a packet had to wait for tokens.
    pub overlimits: u64,
    /// Packets that the device refused.
    pub requeues: u64,
}

/// What a discipline counts of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OwnStatistics {
    None,
    Red(RedStatistics),
    Codel(CodelReadout),
    FqCodel(FqCodelStatistics),
}

/// A discipline with its counters, and the packet that was taken from it but did not leave.
#[derive(Clone, Debug)]
pub struct Qdisc {
    discipline: Discipline,
    /// Refused by the device, or looked at by the discipline above (`gso_skb` of the kernel's struct Qdisc).
    held: Option<(Skb, bool)>,
    sent_bytes: u64,
    sent_packets: u64,
    /// By [`DropReason`].
    dropped: [u64; DropReason::ALL.len()],
    requeues: u64,
}

impl From<Discipline> for Qdisc {
    fn from(discipline: Discipline) -> Self {
        let dropped = [0; DropReason::ALL.len()];
        Qdisc { discipline, held: None, sent_bytes: 0, sent_packets: 0, dropped, requeues: 0 }
    }
}

impl Qdisc {
    /// Whether packets go straight to the device: then nothing is offered here, and nothing comes out.
    pub fn is_noqueue(&self) -> bool {
        matches!(self.discipline, Discipline::Noqueue)
    }

    /// The discipline.
    pub fn discipline(&self) -> &Discipline {
        &self.discipline
    }

    /// Offers a packet. `random` gives 32 random bits and is asked for at most once. Packets that were queued before and
    /// are dropped now come out in `drops`.
    pub fn enqueue(
        &mut self,
        skb: Skb,
        now: Time,
        random: impl FnOnce() -> u32,
        drops: &mut Vec<(Skb, DropReason)>,
    ) -> Enqueue {
        let before = drops.len();
        let result = self.offer(skb, now, random, drops);
        if let Enqueue::Dropped(reason) = result {
            self.dropped[reason as usize] += 1;
        }
        self.count_drops(&drops[before..]);
        result
    }

    fn count_drops(&mut self, drops: &[(Skb, DropReason)]) {
        for (_, reason) in drops {
            self.dropped[*reason as usize] += 1;
        }
    }

    fn offer(
        &mut self,
        skb: Skb,
        now: Time,
        random: impl FnOnce() -> u32,
        drops: &mut Vec<(Skb, DropReason)>,
    ) -> Enqueue {
        match &mut self.discipline {
            Discipline::Noqueue => Enqueue::Dropped(DropReason::NoQueue),
            Discipline::Fifo(fifo) => fifo.enqueue(skb, now),
            Discipline::Red(red) => red.enqueue(skb, now, random),
            Discipline::Tbf(tbf, _) if !tbf.admits(skb.bytes) => Enqueue::Dropped(DropReason::TooLarge),
            Discipline::Tbf(_, child) => child.enqueue(skb, now, random, drops),
            Discipline::Codel(codel) => codel.enqueue(skb, now),
            Discipline::FqCodel(fq_codel) => fq_codel.enqueue(skb, now, drops),
            Discipline::Sfq(sfq) => sfq.enqueue(skb, now, drops),
        }
    }

    /// Takes the next packet; true: it gets a CE mark now. Packets dropped on the way come out in `drops`.
    pub fn dequeue(&mut self, now: Time, drops: &mut Vec<(Skb, DropReason)>) -> Option<(Skb, bool)> {
        if let Some(held) = self.held.take() {
            return Some(held);
        }
        let before = drops.len();
        let next = match &mut self.discipline {
            Discipline::Noqueue => None,
            Discipline::Fifo(fifo) => fifo.dequeue().map(|skb| (skb, false)),
            Discipline::Red(red) => red.dequeue(now).map(|skb| (skb, false)),
            Discipline::Tbf(tbf, child) => {
                let head = child.peek_bytes(now, drops);
                if tbf.lets_go(now, head) {
                    child.dequeue(now, drops)
                } else {
                    None
                }
            }
            Discipline::Codel(codel) => codel.dequeue(now, drops),
            Discipline::FqCodel(fq_codel) => fq_codel.dequeue(now, drops),
            Discipline::Sfq(sfq) => sfq.dequeue().map(|skb| (skb, false)),
        };
        self.count_drops(&drops[before..]);
        if let Some((skb, _)) = &next {
            self.sent_packets += 1;
            self.sent_bytes += skb.bytes as u64;
        }
        next
    }

    /// Length of the packet that `dequeue` would give. A queue without a peek hands it over, and it is held here.
    fn peek_bytes(&mut self, now: Time, drops: &mut Vec<(Skb, DropReason)>) -> Option<u32> {
        if let Some((skb, _)) = &self.held {
            return Some(skb.bytes);
        }
        match &self.discipline {
            Discipline::Fifo(fifo) => fifo.peek().map(|skb| skb.bytes),
            Discipline::Red(red) => red.peek().map(|skb| skb.bytes),
            _ => {
                self.held = self.dequeue(now, drops);
                self.held.map(|(skb, _)| skb.bytes)
            }
        }
    }

    /// The device refused the packet that `dequeue` gave last: the next `dequeue` gives it again.
    pub fn requeue(&mut self, skb: Skb) {
        debug_assert!(self.held.is_none(), "only one packet is on its way");
        self.held = Some((skb, false));
        self.requeues += 1;
    }

    /// When to call `dequeue` even if nothing was offered and the device did not wake its queue.
    pub fn next_at(&self) -> Option<Time> {
        match &self.discipline {
            Discipline::Tbf(tbf, _) => tbf.next_at(),
            _ => None,
        }
    }

    /// Counters that all disciplines have.
    pub fn statistics(&self) -> QdiscStatistics {
        let overlimits = match &self.discipline {
            Discipline::Red(red) => red.statistics().marked + red.statistics().early,
            Discipline::Tbf(tbf, _) => tbf.overlimits(),
            _ => 0,
        };
        QdiscStatistics {
            sent_bytes: self.sent_bytes,
            sent_packets: self.sent_packets,
            dropped: self.dropped.iter().sum(),
            overlimits,
            requeues: self.requeues,
        }
    }

    /// Packets dropped by reason, by the disciplines below too.
    pub fn dropped_for(&self) -> impl Iterator<Item = (DropReason, u64)> + '_ {
        DropReason::ALL.into_iter().zip(self.dropped)
    }

    /// Counters that only this discipline has.
    pub fn own_statistics(&self, now: Time) -> OwnStatistics {
        match &self.discipline {
            Discipline::Red(red) => OwnStatistics::Red(*red.statistics()),
            Discipline::Codel(codel) => OwnStatistics::Codel(codel.readout(now)),
            Discipline::FqCodel(fq_codel) => OwnStatistics::FqCodel(fq_codel.statistics()),
            _ => OwnStatistics::None,
        }
    }

    /// The discipline below this one.
    pub fn child(&self) -> Option<&Qdisc> {
        match &self.discipline {
            Discipline::Tbf(_, child) => Some(child),
            _ => None,
        }
    }

    /// Bytes waiting.
    pub fn backlog_bytes(&self) -> u64 {
        let held = self.held.map_or(0, |(skb, _)| skb.bytes as u64);
        held + match &self.discipline {
            Discipline::Noqueue => 0,
            Discipline::Fifo(fifo) => fifo.backlog_bytes(),
            Discipline::Red(red) => red.backlog_bytes(),
            Discipline::Tbf(_, child) => child.backlog_bytes(),
            Discipline::Codel(codel) => codel.backlog_bytes(),
            Discipline::FqCodel(fq_codel) => fq_codel.backlog_bytes(),
            Discipline::Sfq(sfq) => sfq.backlog_bytes(),
        }
    }

    /// The packets that wait, in no order: for books that are closed.
    pub fn waiting(&self, now: Time) -> Vec<Skb> {
        let held = self.held.iter().map(|&(skb, _)| skb);
        if let Some(child) = self.child() {
            return held.chain(child.waiting(now)).collect();
        }
        // Those that the discipline would drop wait, too.
        let (mut rest, mut drops) = (self.clone(), Vec::new());
        let taken: Vec<Skb> =
            std::iter::from_fn(|| rest.dequeue(now, &mut drops)).map(|(skb, _)| skb).collect();
        taken.into_iter().chain(drops.into_iter().map(|(skb, _)| skb)).collect()
    }

    /// Packets waiting.
    pub fn qlen(&self) -> usize {
        let held = self.held.is_some() as usize;
        held + match &self.discipline {
            Discipline::Noqueue => 0,
            Discipline::Fifo(fifo) => fifo.qlen(),
            Discipline::Red(red) => red.qlen(),
            Discipline::Tbf(_, child) => child.qlen(),
            Discipline::Codel(codel) => codel.qlen(),
            Discipline::FqCodel(fq_codel) => fq_codel.qlen(),
            Discipline::Sfq(sfq) => sfq.qlen(),
        }
    }
}
