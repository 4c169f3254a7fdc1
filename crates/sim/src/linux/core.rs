//! A CPU core of a Linux host: hard interrupts, softirqs and threads, one after the other.
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

use crate::event::Event;
use crate::world::World;

/// Most packets of one poll of a NAPI instance (`NAPI_POLL_WEIGHT`).
pub(crate) const NAPI_WEIGHT: u32 = 64;
/// Rounds of softirqs until `ksoftirqd` takes them over (`MAX_SOFTIRQ_RESTART`).
const MAX_ROUNDS: u32 = 10;
/// Time of softirqs until `ksoftirqd` takes them over (`MAX_SOFTIRQ_TIME`).
const MAX_SOFTIRQ_TIME: Time = Time::from_us(2_000);
/// Packets of one `net_rx_action` (sysctl `net.core.netdev_budget`).
const NETDEV_BUDGET: u32 = 300;
/// Time of one `net_rx_action` (sysctl `net.core.netdev_budget_usecs`, at 1000 Hz).
const NETDEV_BUDGET_TIME: Time = Time::from_us(2_000);

/// What a core does, as `mpstat` tells it: %irq, %soft, %sys, %guest. The rest is %idle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Purpose {
    Irq,
    Soft,
    Sys,
    Guest,
}

/// Kinds of [`Purpose`].
pub(crate) const PURPOSES: usize = 4;

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
enum Work {
    /// Sleeping, or between two units.
    Nothing,
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
}

/// A call of `__do_softirq` under way. What is raised during a round is for the next one.
#[derive(Clone, Copy, Debug)]
struct Softirq {
    since: Time,
    rounds_left: u32,
    /// What is left of this round: transmit queues, then a `net_rx_action`.
    outputs: usize,
    receives: bool,
}

/// A call of `net_rx_action` under way.
#[derive(Clone, Copy, Debug)]
struct RxAction {
    since: Time,
    budget: u32,
    /// The instance being polled and the weight it has used; `None`: the next one has to be chosen.
    polled: Option<(u32, u32)>,
}

/// A core.
#[derive(Debug)]
pub(crate) struct Core {
    model: CoreModel,
    work: Work,
    /// The core's own code is running and will look for work itself.
    entered: bool,
    /// It has woken but not started: the wake-up cost still to pay.
    waking: Time,
    /// The current unit: its end, its cost and its purpose.
    busy_until: Time,
    cost: Time,
    purpose: Purpose,
    /// Time by [`Purpose`], the unit under way included.
    spent: [Time; PURPOSES],
    /// NAPI instances with a pending hard interrupt.
    interrupts: VecDeque<u32>,
    /// NAPI instances to poll; those left for the current `net_rx_action`; and those it puts off
    /// because they used up their weight.
    poll_list: VecDeque<u32>,
    list: VecDeque<u32>,
    repoll: VecDeque<u32>,
    /// Transmit queues to run again, and the one being run.
    output_queue: VecDeque<u32>,
    output: Option<u32>,
    softirq: Option<Softirq>,
    rx_action: Option<RxAction>,
    /// `ksoftirqd` is runnable.
    ksoftirqd: bool,
    /// Threads that want the core.
    threads: VecDeque<u32>,
    /// By how much softirqs have had more time than threads since both want the core, picoseconds.
    lead: i64,
    /// Hard interrupts, polls.
    pub interrupts_taken: u64,
    pub polls: u64,
}

impl Core {
    pub fn new(model: CoreModel) -> Self {
        Core {
            model,
            work: Work::Nothing,
            entered: false,
            waking: Time::ZERO,
            busy_until: Time::ZERO,
            cost: Time::ZERO,
            purpose: Purpose::Sys,
            spent: [Time::ZERO; PURPOSES],
            interrupts: VecDeque::new(),
            poll_list: VecDeque::new(),
            list: VecDeque::new(),
            repoll: VecDeque::new(),
            output_queue: VecDeque::new(),
            output: None,
            softirq: None,
            rx_action: None,
            ksoftirqd: false,
            threads: VecDeque::new(),
            lead: 0,
            interrupts_taken: 0,
            polls: 0,
        }
    }

    /// Time spent for a purpose up to `now`.
    pub fn spent(&self, purpose: Purpose, now: Time) -> Time {
        let left = self.busy_until.saturating_sub(now).min(self.cost);
        self.spent[purpose as usize] - if self.purpose == purpose { left } else { Time::ZERO }
    }

    fn softirq_pending(&self) -> bool {
        !(self.poll_list.is_empty() && self.output_queue.is_empty())
    }

    fn begin_round(&mut self, since: Time, rounds_left: u32) {
        let (outputs, receives) = (self.output_queue.len(), !self.poll_list.is_empty());
        self.softirq = Some(Softirq { since, rounds_left, outputs, receives });
    }

    fn begin(&mut self, now: Time, work: Work, purpose: Purpose, cost: Time) {
        debug_assert!(self.work == Work::Nothing);
        self.work = work;
        self.purpose = purpose;
        self.cost = cost;
        self.busy_until = now + std::mem::take(&mut self.waking) + cost;
        self.spent[purpose as usize] += cost;
    }

    /// Cuts the current unit of a thread short. The thread gets the core back after the interruption.
    fn interrupt_thread(&mut self, now: Time, thread: u32) {
        let left = self.busy_until.saturating_sub(now).min(self.cost);
        let spent = &mut self.spent[self.purpose as usize];
        *spent = *spent - left;
        self.lead += left.0 as i64;
        (self.work, self.busy_until, self.cost) = (Work::Nothing, now, Time::ZERO);
        self.threads.push_front(thread);
    }

    fn begin_softirq(&mut self, now: Time, work: Work, cost: Time) {
        self.lead += cost.0 as i64;
        self.begin(now, work, Purpose::Soft, cost);
    }
}

impl World {
    /// A device interrupts the core of a NAPI instance, which that core will then poll.
    pub(crate) fn interrupt_core(&mut self, core: u32, napi: u32) {
        self.linux.cores[core as usize].interrupts.push_back(napi);
        self.kick_core(core);
    }

    /// Puts a NAPI instance on a core's poll list (`napi_schedule`) for that core's softirq. It must
    /// not be on a list already.
    pub(crate) fn schedule_napi(&mut self, core: u32, napi: u32) {
        self.linux.cores[core as usize].poll_list.push_back(napi);
        self.kick_core(core);
    }

    /// Has a core run a transmit queue again (`__netif_schedule`). The queue must not be waiting for a core already.
    pub(crate) fn schedule_output(&mut self, core: u32, queue: u32) {
        self.linux.cores[core as usize].output_queue.push_back(queue);
        self.kick_core(core);
    }

    /// A thread wants a core. It must not want one already, nor be running.
    pub(crate) fn wake_linux_thread(&mut self, core: u32, thread: u32) {
        self.linux.cores[core as usize].threads.push_back(thread);
        self.kick_core(core);
    }

    /// Makes a core look for work if it sleeps or runs a virtual CPU.
    fn kick_core(&mut self, core: u32) {
        let now = self.fabric.run.now;
        let c = &mut self.linux.cores[core as usize];
        match c.work {
            _ if c.entered => return,
            Work::Nothing => c.waking = c.model.idle_exit,
            Work::Thread(thread) if c.purpose == Purpose::Guest => c.interrupt_thread(now, thread),
            _ => return,
        }
        self.next_unit(core);
    }

    /// The current unit of a core ends.
    #[inline(never)] // what most runs never need stays out of the way of what they do
    pub(crate) fn on_linux_core(&mut self, core: u32) {
        let c = &mut self.linux.cores[core as usize];
        if c.work == Work::Nothing || c.busy_until != self.fabric.run.now {
            return; // stale: an interrupt ended that unit
        }
        c.entered = true;
        match std::mem::replace(&mut c.work, Work::Nothing) {
            Work::Nothing => unreachable!("it was looked at"),
            Work::Interrupt(napi) => {
                c.interrupts_taken += 1;
                c.poll_list.push_back(napi);
            }
            Work::PollStart => {}
            Work::Poll(napi) => self.napi_unit_ends(core, napi),
            Work::Output(queue) => self.output_unit_ends(core, queue),
            Work::Thread(thread) => {
                if self.thread_unit_ends(core, thread) {
                    self.linux.cores[core as usize].threads.push_back(thread);
                }
            }
        }
        self.next_unit(core);
    }

    /// Begins the next unit of a core, if there is work.
    fn next_unit(&mut self, core: u32) {
        let index = core as usize;
        self.linux.cores[index].entered = true;
        while !self.begin_unit(core) {}
        let c = &mut self.linux.cores[index];
        c.entered = false;
        if c.work != Work::Nothing {
            let end = c.busy_until;
            self.fabric.run.schedule(end, Event::LinuxCore(core));
        }
    }

    /// One step towards the next unit. `true`: a unit has begun, or there is no work.
    fn begin_unit(&mut self, core: u32) -> bool {
        let now = self.fabric.run.now;
        let c = &mut self.linux.cores[core as usize];
        if let Some(napi) = c.interrupts.pop_front() {
            c.begin(now, Work::Interrupt(napi), Purpose::Irq, c.model.interrupt);
            return true;
        }
        if c.softirq.is_some() {
            return self.begin_softirq_unit(core);
        }
        let pending = c.softirq_pending();
        c.ksoftirqd &= pending;
        let shared = c.ksoftirqd && !c.threads.is_empty();
        if !shared {
            c.lead = 0;
        }
        if pending && c.lead <= 0 {
            c.begin_round(now, MAX_ROUNDS);
            return false;
        }
        let Some(thread) = c.threads.pop_front() else { return true };
        let Some(unit) = self.thread_unit(core, thread) else { return false };
        let c = &mut self.linux.cores[core as usize];
        c.lead -= unit.cost.0 as i64;
        c.begin(now, Work::Thread(thread), unit.purpose, unit.cost);
        true
    }

    /// A step of the `__do_softirq` under way. `true`: a unit has begun.
    fn begin_softirq_unit(&mut self, core: u32) -> bool {
        let now = self.fabric.run.now;
        let index = core as usize;
        let c = &mut self.linux.cores[index];
        let Some(mut action) = c.rx_action else {
            let round = c.softirq.as_mut().expect("it is under way");
            // NET_TX comes before NET_RX.
            if let Some(queue) = c.output {
                match self.output_unit(core, queue) {
                    Some(unit) => {
                        self.linux.cores[index].begin_softirq(now, Work::Output(queue), unit.cost);
                        return true;
                    }
                    None => self.linux.cores[index].output = None,
                }
            } else if round.outputs > 0 {
                round.outputs -= 1;
                c.output = c.output_queue.pop_front();
            } else if std::mem::take(&mut round.receives) {
                std::mem::swap(&mut c.list, &mut c.poll_list);
                c.rx_action = Some(RxAction { since: now, budget: NETDEV_BUDGET, polled: None });
            } else {
                self.end_round(core);
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
        if let Some(unit) = self.napi_unit(core, napi, used) {
            action.polled = Some((napi, used + unit.weight));
            let c = &mut self.linux.cores[index];
            c.rx_action = Some(action);
            c.begin_softirq(now, Work::Poll(napi), unit.cost);
            return true;
        }
        action.budget = action.budget.saturating_sub(used);
        action.polled = None;
        self.linux.cores[index].rx_action = Some(action);
        if self.napi_poll_ends(core, napi, used) {
            self.linux.cores[index].repoll.push_back(napi);
        }
        false
    }

    /// A `net_rx_action` ends. What it left is polled by the next one, in another round or in `ksoftirqd`.
    fn end_rx_action(&mut self, core: u32) {
        let c = &mut self.linux.cores[core as usize];
        c.rx_action = None;
        // In the kernel's order: the rest of the list, new arrivals, then those to be polled again.
        c.list.append(&mut c.poll_list);
        c.list.append(&mut c.repoll);
        std::mem::swap(&mut c.list, &mut c.poll_list);
    }

    /// A round of softirqs is over. If work is left, another begins; after many rounds or a long time, `ksoftirqd`
    /// takes over.
    fn end_round(&mut self, core: u32) {
        let now = self.fabric.run.now;
        let c = &mut self.linux.cores[core as usize];
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
