//! What cores do: interrupts, rounds of softirqs and threads, unit by unit. The rules are in `core.rs`.

use tailback_proto::units::Time;

use super::core::{RxAction, Softirq, Work};
use super::Linux;
use crate::event::Event;
use crate::fabric::Fabric;

/// Rounds of softirqs until `ksoftirqd` takes them over (`MAX_SOFTIRQ_RESTART`).
const MAX_ROUNDS: u32 = 10;
/// Time of softirqs until `ksoftirqd` takes them over (`MAX_SOFTIRQ_TIME`).
const MAX_SOFTIRQ_TIME: Time = Time::from_us(2_000);
/// Packets of one `net_rx_action` (sysctl `net.core.netdev_budget`).
const NETDEV_BUDGET: u32 = 300;
/// Time of one `net_rx_action` (sysctl `net.core.netdev_budget_usecs`, at 1000 Hz).
const NETDEV_BUDGET_TIME: Time = Time::from_us(2_000);

impl Linux {
    /// A device interrupts the core of a NAPI instance, which that core will then poll.
    pub(crate) fn interrupt_core(&mut self, fabric: &mut Fabric, core: u32, napi: u32) {
        self.cores[core as usize].interrupts.push_back(napi);
        self.kick_core(fabric, core);
    }

    /// Puts a NAPI instance on a core's poll list (`napi_schedule`) for that core's softirq. It must
    /// not be on a list already.
    pub(crate) fn schedule_napi(&mut self, fabric: &mut Fabric, core: u32, napi: u32) {
        self.cores[core as usize].poll_list.push_back(napi);
        self.kick_core(fabric, core);
    }

    /// Has a core run a transmit queue again (`__netif_schedule`). The queue must not be waiting for a core already.
    pub(crate) fn schedule_output(&mut self, fabric: &mut Fabric, core: u32, queue: u32) {
        self.cores[core as usize].output_queue.push_back(queue);
        self.kick_core(fabric, core);
    }

    /// A thread wants a core. It must not want one already, nor be running.
    pub(crate) fn wake_linux_thread(&mut self, fabric: &mut Fabric, core: u32, thread: u32) {
        self.cores[core as usize].core.threads.push_back(thread);
        self.kick_core(fabric, core);
    }

    /// Makes a core look for work if it sleeps or runs a virtual CPU.
    fn kick_core(&mut self, fabric: &mut Fabric, core: u32) {
        let now = fabric.run.now;
        let c = &mut self.cores[core as usize];
        match c.core.work() {
            None if c.core.is_free() => c.waking = c.model.idle_exit,
            Some(Work::Guest(thread)) => c.core.interrupt_thread(now, thread),
            _ => return,
        }
        self.next_unit(fabric, core);
    }

    /// The current unit of a core ends.
    #[inline(never)] // what most runs never need stays out of the way of what they do
    pub(crate) fn on_linux_core(&mut self, fabric: &mut Fabric, core: u32) {
        let c = &mut self.cores[core as usize];
        let Some(work) = c.core.end(fabric.run.now) else {
            return; // stale: an interrupt ended that unit
        };
        c.core.enter();
        match work {
            Work::Interrupt(napi) => {
                c.interrupts_taken += 1;
                c.poll_list.push_back(napi);
            }
            Work::PollStart => {}
            Work::Poll(napi) => self.napi_unit_ends(fabric, core, napi),
            Work::Output(queue) => self.output_unit_ends(fabric, core, queue),
            Work::Thread(thread) | Work::Guest(thread) => {
                if self.thread_unit_ends(fabric, core, thread) {
                    self.cores[core as usize].core.threads.push_back(thread);
                }
            }
        }
        self.next_unit(fabric, core);
    }

    /// Begins the next unit of a core, if there is work.
    fn next_unit(&mut self, fabric: &mut Fabric, core: u32) {
        let index = core as usize;
        self.cores[index].core.enter();
        while !self.begin_unit(fabric, core) {}
        if let Some(end) = self.cores[index].core.leave() {
            fabric.run.schedule(end, Event::LinuxCore(core));
        }
    }

    /// One step towards the next unit. `true`: a unit has begun, or there is no work.
    fn begin_unit(&mut self, fabric: &mut Fabric, core: u32) -> bool {
        let now = fabric.run.now;
        let c = &mut self.cores[core as usize];
        if let Some(napi) = c.interrupts.pop_front() {
            c.begin_interrupt(now, napi);
            return true;
        }
        if c.softirq.is_some() {
            return self.begin_softirq_unit(fabric, core);
        }
        let pending = c.softirq_pending();
        c.ksoftirqd &= pending;
        let shared = c.ksoftirqd && !c.core.threads.is_empty();
        if c.core.softirqs_are_next(pending, shared) {
            c.begin_round(now, MAX_ROUNDS);
            return false;
        }
        let Some(thread) = c.core.threads.pop_front() else { return true };
        let Some(unit) = self.thread_unit(fabric, core, thread) else { return false };
        self.cores[core as usize].begin_thread(now, thread, unit);
        true
    }

    /// A step of the `__do_softirq` under way. `true`: a unit has begun.
    fn begin_softirq_unit(&mut self, fabric: &mut Fabric, core: u32) -> bool {
        let now = fabric.run.now;
        let index = core as usize;
        let c = &mut self.cores[index];
        let Some(mut action) = c.rx_action else {
            let round = c.softirq.as_mut().expect("it is under way");
            // NET_TX comes before NET_RX.
            if let Some(queue) = c.output {
                match self.output_unit(fabric, core, queue) {
                    Some(unit) => {
                        self.cores[index].begin_softirq(now, Work::Output(queue), unit.cost);
                        return true;
                    }
                    None => self.cores[index].output = None,
                }
            } else if round.outputs > 0 {
                round.outputs -= 1;
                c.output = c.output_queue.pop_front();
            } else if std::mem::take(&mut round.receives) {
                std::mem::swap(&mut c.list, &mut c.poll_list);
                c.rx_action = Some(RxAction { since: now, budget: NETDEV_BUDGET, polled: None });
            } else {
                self.end_round(fabric, core);
            }
            return false;
        };
        let Some((napi, used)) = action.polled else {
            let over = action.budget == 0 || now >= action.since + NETDEV_BUDGET_TIME;
            if c.list.is_empty() && c.repoll.is_empty() {
                // Take what was scheduled in the meantime.
                std::mem::swap(&mut c.list, &mut c.poll_list);
            }
            if over || c.list.is_empty() {
                self.end_rx_action(core);
                return false;
            }
            let napi = c.list.pop_front().expect("it is not empty");
            action.polled = Some((napi, 0));
            c.rx_action = Some(action);
            c.polls += 1;
            let cost = c.model.poll;
            c.begin_softirq(now, Work::PollStart, cost);
            return true;
        };
        if let Some(unit) = self.napi_unit(fabric, core, napi, used) {
            action.polled = Some((napi, used + unit.weight));
            let c = &mut self.cores[index];
            c.rx_action = Some(action);
            c.begin_softirq(now, Work::Poll(napi), unit.cost);
            return true;
        }
        action.budget = action.budget.saturating_sub(used);
        action.polled = None;
        self.cores[index].rx_action = Some(action);
        if self.napi_poll_ends(fabric, core, napi, used) {
            self.cores[index].repoll.push_back(napi);
        }
        false
    }

    /// A `net_rx_action` ends. What it left is polled by the next one, in another round or in `ksoftirqd`.
    fn end_rx_action(&mut self, core: u32) {
        let c = &mut self.cores[core as usize];
        c.rx_action = None;
        // In the kernel's order: the rest of the list, new arrivals, then those to be polled again.
        c.list.append(&mut c.poll_list);
        c.list.append(&mut c.repoll);
        std::mem::swap(&mut c.list, &mut c.poll_list);
    }

    /// A round of softirqs is over. If work is left, another begins; after many rounds or a long time, `ksoftirqd`
    /// takes over.
    fn end_round(&mut self, fabric: &mut Fabric, core: u32) {
        let now = fabric.run.now;
        let c = &mut self.cores[core as usize];
        let Softirq { since, rounds_left, .. } = c.softirq.take().expect("it is under way");
        if !c.softirq_pending() {
            return;
        }
        if rounds_left == 1 || now >= since + MAX_SOFTIRQ_TIME {
            c.ksoftirqd = true;
        } else {
            c.begin_round(since, rounds_left - 1);
        }
    }
}
