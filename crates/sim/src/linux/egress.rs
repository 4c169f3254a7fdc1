//! How packets get from a queueing discipline to a device.
//!
//! Sources: Linux net/core/dev.c (`__dev_xmit_skb`, `net_tx_action`), net/sched/sch_generic.c (`__qdisc_run`
//! and its quota of `dev_tx_weight`, `sch_direct_xmit`, `dev_requeue_skb`, `TCQ_F_CAN_BYPASS`). Only one core
//! at a time runs a discipline (`__QDISC_STATE_RUNNING`); other cores that queue a packet meanwhile leave it
//! to that core. A discipline with a single transmit queue is not dequeued while that queue is stopped
//! (`TCQ_F_ONETXQUEUE`). With several transmit queues, or when the discipline is bypassed, a packet that
//! finds its transmit queue stopped is put back (a requeue) and waits until the queue is woken. The core that
//! wakes the queue, on a completion, resumes the discipline.
//!
//! Leaves out: lock contention between cores, and bulk dequeue.

use tailback_proto::aqm::qdisc::{Discipline, Qdisc};
use tailback_proto::units::Time;

use crate::engine::Stream;

/// A queueing discipline in front of one or several transmit queues of a port.
#[derive(Debug)]
pub(crate) struct Egress {
    pub qdisc: Qdisc,
    /// The port, by its index in the world.
    pub port: u32,
    /// The port's transmit queue, if it has only one.
    pub(super) only_queue: Option<u32>,
    /// Index among the cores' transmit queues.
    pub(super) output: u32,
    /// Index among the timers.
    pub(super) timer: u32,
    /// Whether a packet that finds the discipline empty goes straight to the device.
    pub(super) bypass: bool,
    pub(super) random: Stream,
    /// Whether a core is running the discipline, and how many packets are left of that core's quota.
    pub(super) running: bool,
    pub(super) quota: u32,
    /// Whether the current packet bypassed the queue.
    pub(super) direct: bool,
    /// Whether the discipline is scheduled on a core (`__QDISC_STATE_SCHED`).
    pub(super) scheduled: bool,
    /// The core whose softirq runs the discipline.
    pub(super) output_core: Option<u32>,
    /// The packet that this softirq is handing to the device.
    pub(super) sending: Option<u32>,
    /// The transmit queue of the packet that was put back.
    pub(super) held_for: Option<u32>,
    /// When the watchdog timer is due, and the core that armed it and that it interrupts
    /// (`HRTIMER_MODE_ABS_PINNED`).
    pub(super) watchdog_at: Time,
    pub(super) watchdog_core: u32,
    /// Data packets that wait here, for the audit.
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
