//! Work of cores: interrupts, rounds of softirqs and threads, unit by unit.

use std::collections::VecDeque;
use tailback_proto::units::Time;

use super::{Linux, Timer};
use crate::cores::{Core, Purpose, Share, PURPOSES};
use crate::engine::splitmix64;
use crate::event::Event;
use crate::fabric::packet::{Packet, PacketKind};
use crate::fabric::port::DropReason;
use crate::fabric::Fabric;
use crate::gauge::Gauge;

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
    #[inline(never)]
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

// What a CPU core of a Linux host does: hard interrupts, softirqs and threads, one after the other.
//
// Sources: Linux `kernel/softirq.c` (`__do_softirq`: pending vectors in turn, again while more are raised, for 2 ms and
// 10 rounds at most, then `ksoftirqd`), `net/core/dev.c` (`net_rx_action`: each NAPI instance of the list once, up to
// `netdev_budget` packets and `netdev_budget_usecs`; an instance that used up its weight of 64 is polled again by the
// next; `net_tx_action`: the transmit queues that wait when it begins), `include/linux/netdevice.h` (`NAPI_POLL_WEIGHT`).
//
// A core does one unit of work after another, one event each: a hard interrupt, a packet of a poll, a stopped queue that
// runs again, a piece of a thread's work. What a unit does takes effect at its end. A hard interrupt waits for the end
// of the current unit, then goes before everything else; only the long, empty units of a virtual CPU are cut short
// by it. Softirqs go before threads until `ksoftirqd` takes
// them over: a thread that shares the core equally with the others. While it is runnable, softirqs wait for it.
//
// `Napi`, `Output` and `Thread` say what a unit belongs to.
//
// Leaves out: hyper-threads, frequency changes, caches, the scheduler's granularity (threads take turns a unit each),
// moving threads between cores, and that kernels from 6.5 on run softirqs after an interrupt even when `ksoftirqd` is to.

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

/// Times of a core that do not depend on its work.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct CoreModel {
    /// From an interrupt to its handler on a core that sleeps.
    pub idle_exit: Time,
    /// A hard interrupt, entry and exit included.
    pub interrupt: Time,
    /// A poll, before its first packet.
    pub poll: Time,
}

/// State of a core.
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
    /// The rest of this round: transmit queues, then a `net_rx_action`.
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

// What a core's units of work do, by the kind of NAPI instance, transmit queue or thread they belong to; and what timers do.

/// A virtual CPU runs until the scheduler's tick, at 1000 Hz.
const TICK: Time = Time::from_us(1_000);

impl Linux {
    /// Begins the next unit of a poll that has used `used` of its weight. `None`: the poll is over.
    pub(super) fn napi_unit(&mut self, fabric: &mut Fabric, core: u32, napi: u32, used: u32) -> Option<Unit> {
        match self.napis[napi as usize] {
            Napi::Channel(channel) => self.channel_unit(fabric, core, channel, used),
            Napi::Veth(end) => self.veth_poll_unit(fabric, end),
        }
    }

    /// A unit of a poll ends: it takes effect.
    pub(super) fn napi_unit_ends(&mut self, fabric: &mut Fabric, core: u32, napi: u32) {
        match self.napis[napi as usize] {
            Napi::Channel(channel) => self.channel_unit_ends(fabric, core, channel),
            Napi::Veth(end) => self.veth_poll_unit_ends(fabric, core, end),
        }
    }

    /// A poll is over. `true`: there is more, and the instance stays on the list; else its interrupt is enabled again.
    pub(super) fn napi_poll_ends(&mut self, fabric: &mut Fabric, core: u32, napi: u32, used: u32) -> bool {
        match self.napis[napi as usize] {
            Napi::Channel(channel) => self.channel_poll_ends(fabric, channel, used),
            Napi::Veth(end) => self.veth_poll_ends(fabric, core, end),
        }
    }

    /// Begins the next unit of a transmit queue that runs again. `None`: it is empty, or its quota is used up.
    pub(super) fn output_unit(&mut self, fabric: &mut Fabric, core: u32, queue: u32) -> Option<Unit> {
        match self.outputs[queue as usize] {
            Output::Bridge(egress) => self.output_egress_unit(fabric, core, egress),
            Output::Veth(end) => self.veth_output_unit(end),
        }
    }

    /// A unit of a transmit queue ends: it takes effect.
    pub(super) fn output_unit_ends(&mut self, fabric: &mut Fabric, core: u32, queue: u32) {
        match self.outputs[queue as usize] {
            Output::Bridge(egress) => self.output_egress_unit_ends(fabric, egress),
            Output::Veth(end) => self.veth_output_unit_ends(fabric, core, end),
        }
    }

    /// Begins the next unit of a thread. `None`: it sleeps.
    pub(super) fn thread_unit(&mut self, fabric: &mut Fabric, core: u32, thread: u32) -> Option<Unit> {
        match self.threads[thread as usize] {
            Thread::Guest => Some(Unit { cost: TICK, weight: 0, purpose: Purpose::Guest }),
            Thread::VethNapi(end) => self.veth_thread_unit(fabric, core, end),
            Thread::Flood(flood) => self.flood_unit(fabric, flood),
        }
    }

    /// A unit of a thread ends: it takes effect. `true`: the thread wants the core again.
    pub(super) fn thread_unit_ends(&mut self, fabric: &mut Fabric, core: u32, thread: u32) -> bool {
        match self.threads[thread as usize] {
            Thread::Guest => {}
            Thread::VethNapi(end) => self.veth_poll_unit_ends(fabric, core, end),
            Thread::Flood(flood) => self.flood_unit_ends(fabric, core, flood),
        }
        true
    }
}

impl Linux {
    #[inline(never)]
    pub(crate) fn on_linux_timer(&mut self, fabric: &mut Fabric, timer: u32) {
        match self.timers[timer as usize] {
            Timer::VethWatchdog(end) => self.on_veth_watchdog(fabric, end),
            Timer::VethShaper(end) => self.on_veth_shaper(fabric, end),
            Timer::Flood(flood) => self.on_flood_timer(fabric, flood),
            Timer::Ping(ping) => self.on_ping_timer(fabric, ping),
            Timer::Frames(source) => self.on_frames_timer(fabric, source),
            Timer::Watchdog { egress } => self.on_watchdog_of(fabric, egress),
        }
    }

    /// The moderated interrupt of a NAPI instance may be due.
    #[inline(never)]
    pub(crate) fn on_linux_irq(&mut self, fabric: &mut Fabric, napi: u32) {
        match self.napis[napi as usize] {
            Napi::Channel(channel) => self.on_moderation(fabric, channel),
            Napi::Veth(_) => unreachable!("a veth has no interrupt"),
        }
    }
}

// What a core's units of work belong to: a NAPI instance, a transmit queue or a thread.

/// A NAPI instance.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Napi {
    /// A channel of a bridge's port: transmit completions, then received packets.
    Channel(u32),
    /// Polls the ring of an end of a veth pair.
    Veth(u32),
}

/// A transmit queue that `__netif_schedule` names.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Output {
    /// A queueing discipline of a bridge's port.
    Bridge(u32),
    /// Of an end of a veth pair.
    Veth(u32),
}

/// A thread.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Thread {
    /// A virtual CPU that never sleeps.
    Guest,
    /// NAPI of the ring of an end of a veth pair (`napi_threaded_poll`).
    VethNapi(u32),
    /// Sends datagrams.
    Flood(u32),
}

// A Linux bridge: a host that forwards Ethernet frames between its ports, in softirq.
//
// Sources: Linux net/bridge/br_input.c, br_forward.c (a frame from one port goes out by another, by its address),
// net/core/dev.c (`netdev_pick_tx`: the transmit queue that XPS maps to the sending core, else the number of the queue that
// received the packet), Documentation/networking/scaling.rst (RSS, XPS).
//
// A packet arrives in the receive ring of one of its port's channels, is polled by the core that takes that channel's interrupts, goes
// through the queueing discipline of the other port and into a transmit ring there; completions may be served by another
// core. ACKs and CNPs return the same way. Addresses are known from the start.
//
// Leaves out: learning and ageing of addresses, spanning tree, VLANs, firewall hooks, GRO and forwarding in the
// driver (XDP), flow control of the ports (a bridge passes no pause on), and more than one host's worth of memory
// bandwidth.

/// A bridge.
#[derive(Debug)]
pub(crate) struct Bridge {
    /// First of its cores among all.
    pub first_core: u32,
}

/// Time of a core to send a packet by a port.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SendCosts {
    /// To queue it and take it again.
    pub qdisc: Time,
    /// To hand it to the device.
    pub transmit: Time,
}

/// A port of a bridge.
#[derive(Debug)]
pub(crate) struct BridgePort {
    pub bridge: u32,
    pub tx_latency: Time,
    /// Its channels among all: the first, and how many.
    pub first_channel: u32,
    pub channels: u32,
    /// Channels that receive.
    pub(super) rss: Vec<u32>,
    /// By core of the bridge: the channel that XPS gives it, if any.
    pub(super) xps: Vec<Option<u32>>,
    /// By core of the bridge.
    pub send_costs: Vec<SendCosts>,
    /// Bytes in its receive rings, in its queueing disciplines, and between its transmit rings and their completions.
    pub rx_backlog: Gauge,
    pub qdisc_backlog: Gauge,
    pub tx_backlog: Gauge,
}

/// The hash of a packet's addresses and ports, for RSS and queueing disciplines.
pub(super) fn flow_hash(packet: &Packet) -> u32 {
    let forward =
        matches!(packet.kind, PacketKind::Data | PacketKind::Trimmed | PacketKind::Probe | PacketKind::Tcp);
    let flow = (packet.qp as u64) << 17 | (packet.dst as u64) << 1 | forward as u64;
    splitmix64(flow) as u32
}

// What a bridge does with a packet: it goes from one port to another by its address.

impl Linux {
    /// A packet has reached a port of a bridge.
    #[inline(never)]
    pub(crate) fn receive(&mut self, fabric: &mut Fabric, port: usize, index: u32) {
        let p = &self.bridge_ports[port - self.first_bridge_port];
        let channels = p.rss.len() as u64;
        let at = (flow_hash(&fabric.packets[index]) as u64 * channels) >> 32;
        let channel = p.first_channel + p.rss[at as usize];
        self.channel_receive(fabric, channel, index);
    }

    /// A core has taken a packet from a channel and forwards it to its output port.
    pub(super) fn forward(&mut self, fabric: &mut Fabric, core: u32, channel: u32, index: u32) {
        let c = &self.channels[channel as usize];
        let (in_port, number) = (c.port as usize, c.number);
        let packet = &fabric.packets[index];
        let node = fabric.ports[in_port].owner as usize - fabric.hosts;
        let Some(out) = fabric.routes.next_port(node, packet.dst, packet.qp) else {
            fabric.drop_packet(in_port, index, DropReason::NoRoute);
            return;
        };
        let p = &self.bridge_ports[out - self.first_bridge_port];
        let of_bridge = core - self.bridges[p.bridge as usize].first_core;
        let queue = p.xps[of_bridge as usize].unwrap_or(number % p.channels);
        let egress = self.channels[(p.first_channel + queue) as usize].tx.egress;
        // Which transmit queue it has stands where a switch notes the port that a packet came in by.
        fabric.packets[index].ingress = (p.first_channel + queue) as u16;
        if self.egress_enqueue(fabric, egress, index) {
            self.channels[channel as usize].running = Some(egress);
        }
    }

    /// The channel whose transmit queue a packet has.
    pub(super) fn transmit_queue(&self, fabric: &mut Fabric, packet: u32) -> u32 {
        fabric.packets[packet].ingress as u32
    }
}
