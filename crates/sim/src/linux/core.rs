//! A CPU core of a Linux host, with a time line: hard interrupts, softirqs, threads.
//!
//! Sources: Linux `kernel/softirq.c` (`__do_softirq`: pending vectors in turn, again while more are raised, for 2 ms and
//! 10 rounds at most, then `ksoftirqd`), `net/core/dev.c` (`net_rx_action`: each NAPI instance of the list once, up to
//! `netdev_budget` packets and `netdev_budget_usecs`; an instance that used up its weight of 64 is polled again by the
//! next; `net_tx_action`: the transmit queues that wait when it begins), `include/linux/netdevice.h` (`NAPI_POLL_WEIGHT`).
//!
//! A core does one unit of work after the other, an event each: a hard interrupt, a packet of a poll, a stopped queue that
//! runs again, a piece of a thread's work. What a unit does takes effect at its end. A hard interrupt waits for the end
//! of the unit under way, then comes before everything else; a virtual CPU, whose units do nothing and are long, it ends
//! at once. Softirqs come before threads until `ksoftirqd` takes
//! them over: it is a thread and shares the core with the others equally. While it is to run, softirqs wait for it.
//!
//! What a unit means is not known here: `napi.rs` says.
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

/// A piece of work that a core begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Unit {
    pub cost: Time,
    /// How much it counts for in a poll's weight: 1 for a packet received, 0 for what the weight does not limit.
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

/// What a core is at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Work {
    /// It sleeps, or is between two units.
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
    /// What the round under way has still to do: transmit queues, then a `net_rx_action`.
    outputs: usize,
    receives: bool,
}

/// A call of `net_rx_action` under way.
#[derive(Clone, Copy, Debug)]
struct RxAction {
    since: Time,
    budget: u32,
    /// The instance polled, and the weight it used so far; none: the next is to be chosen.
    polled: Option<(u32, u32)>,
}

/// A core.
#[derive(Debug)]
pub(crate) struct Core {
    model: CoreModel,
    work: Work,
    /// Its own code runs: it will look for work by itself.
    entered: bool,
    /// It woke and has not begun: what that takes.
    waking: Time,
    /// The unit under way: when it ends, what it costs and what for.
    busy_until: Time,
    cost: Time,
    purpose: Purpose,
    /// Time by [`Purpose`], the unit under way included.
    spent: [Time; PURPOSES],
    /// NAPI instances whose hard interrupt waits.
    interrupts: VecDeque<u32>,
    /// NAPI instances to be polled; those that the `net_rx_action` under way has still to poll; and those that it leaves
    /// to the next because they used up their weight.
    poll_list: VecDeque<u32>,
    list: VecDeque<u32>,
    repoll: VecDeque<u32>,
    /// Transmit queues to run again, and the one that is run.
    output_queue: VecDeque<u32>,
    output: Option<u32>,
    softirq: Option<Softirq>,
    rx_action: Option<RxAction>,
    /// `ksoftirqd` is to run.
    ksoftirqd: bool,
    /// Threads that want the core.
    threads: VecDeque<u32>,
    /// Time of softirqs beyond that of threads since `ksoftirqd` and threads both want the core, picoseconds.
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

    /// Ends the unit of a thread under way before its time; the thread had the core and has it again after what comes now.
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

    /// Puts a NAPI instance on a core's list (`napi_schedule`), which that core's softirq then polls. The instance must
    /// not be on any.
    pub(crate) fn schedule_napi(&mut self, core: u32, napi: u32) {
        self.linux.cores[core as usize].poll_list.push_back(napi);
        self.kick_core(core);
    }

    /// A core is to run a transmit queue again (`__netif_schedule`). The queue must not wait for any.
    pub(crate) fn schedule_output(&mut self, core: u32, queue: u32) {
        self.linux.cores[core as usize].output_queue.push_back(queue);
        self.kick_core(core);
    }

    /// A thread wants a core. It must not want one already, nor be running.
    pub(crate) fn wake_linux_thread(&mut self, core: u32, thread: u32) {
        self.linux.cores[core as usize].threads.push_back(thread);
        self.kick_core(core);
    }

    /// A core that sleeps looks for work, and so does one at a virtual CPU.
    fn kick_core(&mut self, core: u32) {
        let now = self.now;
        let c = &mut self.linux.cores[core as usize];
        match c.work {
            _ if c.entered => return,
            Work::Nothing => c.waking = c.model.idle_exit,
            Work::Thread(thread) if c.purpose == Purpose::Guest => c.interrupt_thread(now, thread),
            _ => return,
        }
        self.next_unit(core);
    }

    /// A core's unit of work ends.
    #[inline(never)] // what most runs never need stays out of the way of what they do
    pub(crate) fn on_linux_core(&mut self, core: u32) {
        let c = &mut self.linux.cores[core as usize];
        if c.work == Work::Nothing || c.busy_until != self.now {
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
            self.schedule(end, Event::LinuxCore(core));
        }
    }

    /// A step towards the next unit. `true`: it has begun, or there is none.
    fn begin_unit(&mut self, core: u32) -> bool {
        let now = self.now;
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
        let now = self.now;
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
                // What was scheduled meanwhile.
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

    /// A `net_rx_action` ends: what it left is polled by the next, in another round or by `ksoftirqd`.
    fn end_rx_action(&mut self, core: u32) {
        let c = &mut self.linux.cores[core as usize];
        c.rx_action = None;
        // What is left of the list, then what came meanwhile, then what is polled again.
        c.list.append(&mut c.poll_list);
        c.list.append(&mut c.repoll);
        std::mem::swap(&mut c.list, &mut c.poll_list);
    }

    /// A round of softirqs is over. Where there is more another begins; after many of them, or a long time, `ksoftirqd`
    /// goes on.
    fn end_round(&mut self, core: u32) {
        let now = self.now;
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
