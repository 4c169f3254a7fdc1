//! How packets get from a queueing discipline to a device.
//!
//! Sources: Linux net/core/dev.c (`__dev_xmit_skb`, `net_tx_action`), net/sched/sch_generic.c (`__qdisc_run` and its quota
//! of `dev_tx_weight`, `sch_direct_xmit`, `dev_requeue_skb`, `TCQ_F_CAN_BYPASS`). Only one core runs a discipline at
//! a time (`__QDISC_STATE_RUNNING`); others that queue a packet meanwhile leave it to that core. A discipline with a single transmit
//! queue is not dequeued while that queue is stopped (`TCQ_F_ONETXQUEUE`). Otherwise, and when it is bypassed, a packet that finds
//! its transmit queue stopped is put back (a requeue) and waits until the queue is woken. The core that wakes the
//! queue, on a completion, continues the discipline.
//!
//! Leaves out: lock contention between cores, and bulk dequeue.

use tailback_proto::aqm::qdisc::{Discipline, Qdisc};
use tailback_proto::units::Time;

use crate::engine::Stream;

/// A queueing discipline in front of one or several transmit queues of a port.
#[derive(Debug)]
pub(crate) struct Egress {
    pub qdisc: Qdisc,
    /// Port of the world.
    pub port: u32,
    /// Its transmit queue, if it has only one.
    pub(super) only_queue: Option<u32>,
    /// Its index among the cores' transmit queues.
    pub(super) output: u32,
    /// Its index among the timers.
    pub(super) timer: u32,
    /// A packet that finds it empty goes straight to the device.
    pub(super) bypass: bool,
    pub(super) random: Stream,
    /// Being run by a core: packets left of its quota.
    pub(super) running: bool,
    pub(super) quota: u32,
    /// The current packet bypassed the queue.
    pub(super) direct: bool,
    /// Scheduled on a core (`__QDISC_STATE_SCHED`).
    pub(super) scheduled: bool,
    /// The core whose softirq runs it.
    pub(super) output_core: Option<u32>,
    /// The packet that this softirq hands to the device.
    pub(super) sending: Option<u32>,
    /// Transmit queue of the packet that was put back.
    pub(super) held_for: Option<u32>,
    /// When its timer is due, and the core that armed it, which it interrupts (`HRTIMER_MODE_ABS_PINNED`).
    pub(super) watchdog_at: Time,
    pub(super) watchdog_core: u32,
    /// Data packets waiting, for the audit.
    pub data_packets: u64,
    pub marked: u64,
}

impl Egress {
    pub fn new(
        qdisc: Qdisc,
        port: u32,
        only_queue: Option<u32>,
        output: u32,
        timer: u32,
        random: Stream,
    ) -> Self {
        let bypass = match qdisc.discipline() {
            Discipline::Noqueue
            | Discipline::Fifo(_)
            | Discipline::Codel(_)
            | Discipline::FqCodel(_)
            | Discipline::Sfq(_) => true,
            Discipline::Red(_) | Discipline::Tbf(..) => false,
        };
        Egress {
            qdisc,
            port,
            only_queue,
            output,
            timer,
            bypass,
            random,
            running: false,
            quota: 0,
            direct: false,
            scheduled: false,
            output_core: None,
            sending: None,
            held_for: None,
            watchdog_at: Time::NEVER,
            watchdog_core: 0,
            data_packets: 0,
            marked: 0,
        }
    }

    /// The packet that a softirq is handing to the device, if any.
    pub fn in_hand(&self) -> Option<u32> {
        self.sending
    }
}
