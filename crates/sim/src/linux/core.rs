//! What a CPU core of a Linux host does: hard interrupts, softirqs and threads, one after the other.
//!
//! Sources: Linux `kernel/softirq.c` (`__do_softirq`: pending vectors in turn, again while more are raised, for 2 ms and
//! 10 rounds at most, then `ksoftirqd`), `net/core/dev.c` (`net_rx_action`: each NAPI instance of the list once, up to
//! `netdev_budget` packets and `netdev_budget_usecs`; an instance that used up its weight of 64 is polled again by the
//! next; `net_tx_action`: the transmit queues that wait when it begins), `include/linux/netdevice.h` (`NAPI_POLL_WEIGHT`).
//!
//! A core does one unit of work after another, one event each: a hard interrupt, a packet of a poll, a stopped queue that
//! runs again, a piece of a thread's work. What a unit does takes effect at its end. A hard interrupt waits for the end
//! of the current unit, then goes before everything else; only the long, empty units of a virtual CPU are cut short
//! by it. Softirqs go before threads until `ksoftirqd` takes
//! them over: a thread that shares the core equally with the others. While it is runnable, softirqs wait for it.
//!
//! What a unit means is decided in `napi.rs`.
//!
//! Leaves out: hyper-threads, frequency changes, caches, the scheduler's granularity (threads take turns a unit each),
//! moving threads between cores, and that kernels from 6.5 on run softirqs after an interrupt even when `ksoftirqd` is to.

use std::collections::VecDeque;
use tailback_proto::units::Time;

use crate::cores::{Core, Purpose, Share, PURPOSES};

/// Most packets of one poll of a NAPI instance (`NAPI_POLL_WEIGHT`).
pub(crate) const NAPI_WEIGHT: u32 = 64;

/// A unit of work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Unit {
    pub cost: Time,
    /// Its share of the poll's weight: 1 for a received packet, 0 for work that the weight does not limit.
    pub weight: u32,
    /// Of a thread's work; polls are always [`Purpose::Soft`].
    pub purpose: Purpose,
}

/// What a core costs, whatever it does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct CoreModel {
    /// From an interrupt to its handler on a core that sleeps.
    pub idle_exit: Time,
    /// A hard interrupt, entry and exit included.
    pub interrupt: Time,
    /// A poll, before its first packet.
    pub poll: Time,
}

/// What a core is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Work {
    /// The hard interrupt of a NAPI instance.
    Interrupt(u32),
    /// The start of a poll.
    PollStart,
    /// A unit of the poll under way.
    Poll(u32),
    /// A unit of a transmit queue that runs again.
    Output(u32),
    /// A unit of a thread.
    Thread(u32),
    /// The same of a virtual CPU, which an interrupt cuts short.
    Guest(u32),
}

/// A call of `__do_softirq` under way. What is raised during a round is for the next one.
#[derive(Clone, Copy, Debug)]
pub(super) struct Softirq {
    pub(super) since: Time,
    pub(super) rounds_left: u32,
    /// What is left of this round: transmit queues, then a `net_rx_action`.
    pub(super) outputs: usize,
    pub(super) receives: bool,
}

/// A call of `net_rx_action` under way.
#[derive(Clone, Copy, Debug)]
pub(super) struct RxAction {
    pub(super) since: Time,
    pub(super) budget: u32,
    /// The instance being polled and the weight it has used; `None`: the next one has to be chosen.
    pub(super) polled: Option<(u32, u32)>,
}

/// A core of a Linux host.
#[derive(Debug)]
pub(crate) struct LinuxCore {
    pub(super) model: CoreModel,
    /// Its work is a unit.
    pub core: Core<Work>,
    /// It has woken but not started: the wake-up cost still to pay.
    pub(super) waking: Time,
    /// NAPI instances with a pending hard interrupt.
    pub(super) interrupts: VecDeque<u32>,
    /// NAPI instances to poll; those left for the current `net_rx_action`; and those it puts off
    /// because they used up their weight.
    pub(super) poll_list: VecDeque<u32>,
    pub(super) list: VecDeque<u32>,
    pub(super) repoll: VecDeque<u32>,
    /// Transmit queues to run again, and the one being run.
    pub(super) output_queue: VecDeque<u32>,
    pub(super) output: Option<u32>,
    pub(super) softirq: Option<Softirq>,
    pub(super) rx_action: Option<RxAction>,
    /// `ksoftirqd` is runnable.
    pub(super) ksoftirqd: bool,
    /// Hard interrupts, polls.
    pub interrupts_taken: u64,
    pub polls: u64,
}

impl LinuxCore {
    pub fn new(model: CoreModel) -> Self {
        LinuxCore {
            model,
            core: Core::default(),
            waking: Time::ZERO,
            interrupts: VecDeque::new(),
            poll_list: VecDeque::new(),
            list: VecDeque::new(),
            repoll: VecDeque::new(),
            output_queue: VecDeque::new(),
            output: None,
            softirq: None,
            rx_action: None,
            ksoftirqd: false,
            interrupts_taken: 0,
            polls: 0,
        }
    }

    pub(super) fn softirq_pending(&self) -> bool {
        !(self.poll_list.is_empty() && self.output_queue.is_empty())
    }

    pub(super) fn begin_round(&mut self, since: Time, rounds_left: u32) {
        let (outputs, receives) = (self.output_queue.len(), !self.poll_list.is_empty());
        self.softirq = Some(Softirq { since, rounds_left, outputs, receives });
    }

    fn begin(&mut self, now: Time, work: Work, share: Share, purpose: Purpose, cost: Time) {
        let mut takes = [Time::ZERO; PURPOSES];
        takes[purpose as usize] = cost;
        self.core.begin(now + std::mem::take(&mut self.waking), work, share, takes);
    }

    pub(super) fn begin_interrupt(&mut self, now: Time, napi: u32) {
        self.begin(now, Work::Interrupt(napi), Share::Nobodys, Purpose::Irq, self.model.interrupt);
    }

    pub(super) fn begin_softirq(&mut self, now: Time, work: Work, cost: Time) {
        self.begin(now, work, Share::Softirqs, Purpose::Soft, cost);
    }

    pub(super) fn begin_thread(&mut self, now: Time, thread: u32, unit: Unit) {
        let work = match unit.purpose {
            Purpose::Guest => Work::Guest(thread),
            _ => Work::Thread(thread),
        };
        self.begin(now, work, Share::Threads, unit.purpose, unit.cost);
    }
}
