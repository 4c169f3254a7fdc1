//! Network namespaces joined by veth pairs: what sends, the qdisc and the ring of each end, and the peer's NAPI.
//!
//! Sources: Linux drivers/net/veth.c (`veth_xmit`, `veth_poll`, `veth_xdp_rcv`), net/core/dev.c (`__dev_xmit_skb`,
//! `net_tx_action`, `napi_threaded_poll`), net/core/gro.c (`gro_normal_one`: the stack sees packets in lists of
//! `gro_normal_batch`, and what is left of them when a poll ends), net/sched/sch_generic.c (`__qdisc_run`).
//!
//! The life of a packet: the sender's call puts it into the qdisc and runs it; the peer polls what the ring took, up to 64
//! packets, and collects it in lists of 8; then each packet of a list goes up the stack, which compares it with every
//! rule. Echo requests are answered on the spot, over the other direction of the pair.
//!
//! Leaves out: more than one queue of a device, packets that the peer's NAPI does not take because the sender's TSO is
//! on, contention for the qdisc's lock, caches, and the processes behind the receiver's sockets.

mod transmit;

use std::collections::HashMap;
use tailback_proto::aqm::qdisc::{DropReason, Qdisc, Skb};
use tailback_proto::flow_control::byte_queue_limits::{
    Charge, DqlParameters, OnFull, VethParameters, VethQueue,
};
use tailback_proto::units::Time;

use self::transmit::{Flood, Frames, Ping, State};
use super::softirq::{CoreModel, LinuxCore, Napi, Output, Thread};
use super::{Linux, Timer};
use crate::declare::PlanError;
use crate::engine::{stream, Stream};
use crate::fabric::port::Tally;
use crate::gauge::{Gauge, QueuedAt};
use crate::linux::settings::{Kernel, Polling, VethBql, VethNetworkPlan, VethPlan};

/// Index of no packet.
const NONE: u32 = u32::MAX;

/// Source of a packet: its kind and index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DatagramSource {
    Datagram(u32),
    EchoRequest(u32),
    EchoReply(u32),
    Frame(u32),
}

/// A packet between namespaces.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Datagram {
    kind: DatagramSource,
    /// Of a ping: its number.
    sequence: u32,
    bytes: u32,
    /// Bytes it occupies in its socket's buffer; 0 once the receiver has it.
    charged: u32,
    next_free: u32,
    /// To the ring, then to the list.
    came: QueuedAt,
}

/// All packets between namespaces. Freed places are used again.
#[derive(Debug)]
struct Packets {
    packets: Vec<Datagram>,
    free: u32,
}

impl Default for Packets {
    fn default() -> Self {
        Packets { packets: Vec::new(), free: NONE }
    }
}

impl Packets {
    fn add(&mut self, packet: Datagram) -> u32 {
        if self.free == NONE {
            self.packets.push(packet);
            return self.packets.len() as u32 - 1;
        }
        let index = self.free;
        self.free = self.packets[index as usize].next_free;
        self.packets[index as usize] = packet;
        index
    }

    fn remove(&mut self, index: u32) {
        self.packets[index as usize].next_free = self.free;
        self.free = index;
    }
}

/// A queue that is recorded: packets and bytes.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Occupancy {
    pub packets: Gauge,
    pub bytes: Gauge,
}

impl Occupancy {
    fn set(&mut self, now: Time, packets: u64, bytes: u64) {
        self.packets.set(now, packets);
        self.bytes.set(now, bytes);
    }

    fn add(&mut self, now: Time, packets: i64, bytes: i64) {
        self.packets.change(now, packets);
        self.bytes.change(now, bytes);
    }

    /// A packet of this size has left it.
    fn left(&mut self, now: Time, bytes: u32, came: QueuedAt) {
        self.packets.left(1, came, now);
        self.bytes.left(bytes as u64, came, now);
    }
}

/// A namespace, as its packets meet it.
#[derive(Clone, Debug)]
pub(crate) struct Namespace {
    take: Time,
    /// The stack with all rules.
    stack: Time,
    echo: Time,
    /// Share of these by which a poll differs.
    jitter: f64,
    wakeup: Time,
    threaded: bool,
    gro_batch: usize,
    pub delivered_packets: u64,
    pub delivered_bytes: u64,
}

/// A poll of the ring of an end, by its peer.
#[derive(Debug, Default)]
pub(crate) struct Poll {
    /// The peer's NAPI is scheduled.
    scheduled: bool,
    /// Packets taken in the poll under way.
    used: u32,
    /// The list that GRO holds, and the stack's position in it; `in_stack`: the stack is working on it.
    list: Vec<u32>,
    at: usize,
    in_stack: bool,
    /// The list is the last of the poll.
    last: bool,
    /// Cost of a packet's way up the stack in this poll, relative to the average.
    factor: f64,
    /// A completion restarted the queue: the softirq that runs the qdisc waits for the end of the poll.
    goes_on: bool,
}

/// Who freed a packet: the qdisc; the device, whose ring was full, of the stack's packets and of XDP frames.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Dropped {
    ByQdisc,
    ByRing,
    Frame,
}

/// Counters of an end.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counted {
    /// Given to the end, and come out at the peer's stack.
    pub offered: Tally,
    pub delivered: Tally,
    /// By [`Dropped`].
    pub dropped: [Tally; 3],
    /// Polls, and those that used up their weight.
    pub polls: u64,
    pub full_polls: u64,
}

impl Counted {
    /// Packets that were freed.
    pub fn dropped(&self, by: Dropped) -> u64 {
        self.dropped[by as usize].packets
    }
}

/// An end of a veth pair: its qdisc, its ring, and the peer's NAPI that polls it. Its peer is the index with the last bit
/// flipped.
#[derive(Debug)]
pub(crate) struct End {
    pub namespace: u32,
    pub qdisc: Qdisc,
    pub queue: VethQueue,
    pub poll: Poll,
    /// Names in `Linux`: the NAPI instance, its thread, the transmit queue.
    napi: u32,
    thread: u32,
    /// Core of that thread; without one, the core that polls it, or did last.
    pub poll_core: u32,
    output: u32,
    output_scheduled: bool,
    /// The softirq that runs the qdisc got no packet from it, or could not send that.
    output_ends: bool,
    output_cost: Time,
    /// The device has several queues, of which it uses one.
    multiqueue: bool,
    watchdog: u32,
    watchdog_armed: bool,
    /// The timer of a qdisc that shapes, when it is due, and on which core.
    shaper: u32,
    shaper_at: Time,
    shaper_core: u32,
    /// Random streams of the qdisc and of the peer's polls.
    random: Stream,
    jitter: Stream,
    pub waiting: Occupancy,
    pub in_ring: Occupancy,
    pub in_list: Occupancy,
    pub counted: Counted,
}

impl End {
    fn new(plan: &VethPlan, namespace: u32, qdisc: Qdisc, random: [Stream; 2]) -> Self {
        let [random, jitter] = random;
        let stops = (plan.veth.kernel == Kernel::Stops) && !qdisc.is_noqueue();
        let parameters = VethParameters {
            ring: plan.veth.ring,
            on_full: if stops { OnFull::Stop } else { OnFull::Free },
            charge: match plan.veth.bql {
                _ if qdisc.is_noqueue() => Charge::Off,
                VethBql::Off => Charge::Off,
                VethBql::Packets => Charge::Packets,
                VethBql::Bytes => Charge::Bytes,
            },
            tx_usecs: plan.veth.tx_usecs,
            dql: DqlParameters::default(),
        };
        End {
            namespace,
            qdisc,
            queue: VethQueue::new(parameters, Time::ZERO),
            poll: Poll::default(),
            napi: 0,
            thread: NONE,
            poll_core: 0,
            output: 0,
            output_scheduled: false,
            output_ends: false,
            output_cost: plan.veth.output,
            multiqueue: plan.veth.multiqueue,
            watchdog: 0,
            watchdog_armed: false,
            shaper: 0,
            shaper_at: Time::NEVER,
            shaper_core: 0,
            random,
            jitter,
            waiting: Occupancy::default(),
            in_ring: Occupancy::default(),
            in_list: Occupancy::default(),
            counted: Counted::default(),
        }
    }
}

/// All namespaces of a run.
#[derive(Debug, Default)]
pub(crate) struct Veths {
    pub namespaces: Vec<Namespace>,
    pub ends: Vec<End>,
    pub floods: Vec<Flood>,
    pub pings: Vec<Ping>,
    pub frames: Vec<Frames>,
    packets: Packets,
    /// Scratch space for packets that a qdisc drops.
    drops: Vec<(Skb, DropReason)>,
    /// The same for packets that it gives.
    bulk: Vec<Skb>,
    /// Packets put into rings.
    pub hops: u64,
}

impl Veths {
    /// Bytes of packets, by index.
    pub fn bytes_of(&self, packets: impl Iterator<Item = u32>) -> u64 {
        packets.map(|index| self.packets.packets[index as usize].bytes as u64).sum()
    }

    /// Bytes of packets in a ring or a list, by index, and since when each is there.
    #[cfg(debug_assertions)]
    pub fn waits<'a>(
        &'a self,
        packets: impl Iterator<Item = u32> + 'a,
    ) -> impl Iterator<Item = (u64, QueuedAt)> + 'a {
        packets
            .map(|index| &self.packets.packets[index as usize])
            .map(|packet| (packet.bytes as u64, packet.came))
    }

    /// Packets taken by a poll that the stack has not seen yet.
    pub fn in_list(&self, end: usize) -> impl Iterator<Item = u32> + '_ {
        let poll = &self.ends[end].poll;
        poll.list[poll.at..].iter().copied()
    }

    /// Bytes that a flood's packets occupy in its socket's buffer.
    pub fn charged_bytes(&self, flood: u32) -> u64 {
        let packets = &self.packets.packets;
        let mut free = vec![false; packets.len()];
        let mut next = self.packets.free;
        while next != NONE {
            free[next as usize] = true;
            next = packets[next as usize].next_free;
        }
        let own =
            packets.iter().zip(free).filter(|(p, free)| !free && p.kind == DatagramSource::Datagram(flood));
        own.map(|(p, _)| p.charged as u64).sum()
    }

    /// Packets and bytes taken by a poll that the stack has not seen yet.
    pub fn held(&self, end: usize) -> (u64, u64) {
        (self.in_list(end).count() as u64, self.bytes_of(self.in_list(end)))
    }
}

impl End {
    /// True if the NAPI that polls it has a thread with a core of its own.
    pub fn has_thread(&self) -> bool {
        self.thread != NONE
    }
}

// Namespaces, veth pairs and what sends over them are built from the plan.

impl Linux {
    fn add_core(&mut self, wakeup: Time) -> u32 {
        self.cores.push(LinuxCore::new(CoreModel { idle_exit: wakeup, ..CoreModel::default() }));
        self.cores.len() as u32 - 1
    }

    fn add_timer(&mut self, timer: Timer) -> u32 {
        self.timers.push(timer);
        self.timers.len() as u32 - 1
    }

    /// Builds the namespaces of a checked plan.
    ///
    /// # Errors
    /// A queueing discipline with impossible settings.
    pub fn add_veths(&mut self, plan: &VethNetworkPlan, seed: u64) -> Result<(), PlanError> {
        let number: HashMap<&str, u32> =
            plan.namespaces.iter().enumerate().map(|(index, n)| (n.name.as_str(), index as u32)).collect();
        self.veths.namespaces = (plan.namespaces.iter())
            .map(|n| Namespace {
                take: n.costs.take,
                stack: n.costs.way_up(),
                echo: n.costs.way_up_of_echo(),
                jitter: n.costs.jitter,
                wakeup: n.costs.wakeup,
                threaded: n.costs.napi == Polling::Threaded,
                gro_batch: n.costs.gro_batch as usize,
                delivered_packets: 0,
                delivered_bytes: 0,
            })
            .collect();
        for (index, veth) in plan.veths.iter().enumerate() {
            for (side, name) in [&veth.a, &veth.b].into_iter().enumerate() {
                let qdisc = veth.qdisc.build(&format!("veth.veths[{index}].qdisc"), veth.frame_bytes)?;
                let own = (2 * index + side) as u64;
                let random = ["veth qdisc", "veth poll"].map(|kind| stream(seed, kind, own));
                let mut end = End::new(veth, number[name.as_str()], qdisc, random);
                let own = self.veths.ends.len() as u32;
                self.napis.push(Napi::Veth(own));
                end.napi = self.napis.len() as u32 - 1;
                self.outputs.push(Output::Veth(own));
                end.output = self.outputs.len() as u32 - 1;
                end.watchdog = self.add_timer(Timer::VethWatchdog(own));
                end.shaper = self.add_timer(Timer::VethShaper(own));
                self.veths.ends.push(end);
            }
        }
        for own in 0..self.veths.ends.len() {
            let receiver = self.veths.namespaces[self.veths.ends[own ^ 1].namespace as usize].clone();
            if receiver.threaded {
                self.threads.push(Thread::VethNapi(own as u32));
                self.veths.ends[own].thread = self.threads.len() as u32 - 1;
                self.veths.ends[own].poll_core = self.add_core(receiver.wakeup);
            }
        }
        self.add_sources(plan, &number, seed);
        Ok(())
    }

    /// The end by which a namespace reaches another.
    fn end_between(&self, src: u32, dst: u32) -> u32 {
        let ends = &self.veths.ends;
        let joins = |&end: &usize| ends[end].namespace == src && ends[end ^ 1].namespace == dst;
        (0..ends.len()).find(joins).expect("the plan was checked") as u32
    }
}

impl Linux {
    fn add_sources(&mut self, plan: &VethNetworkPlan, number: &HashMap<&str, u32>, seed: u64) {
        let between = |linux: &Linux, src: &str, dst: &str| linux.end_between(number[src], number[dst]);
        let wakeup = |linux: &Linux, src: &str| linux.veths.namespaces[number[src] as usize].wakeup;
        for (index, item) in plan.datagrams.iter().enumerate() {
            self.threads.push(Thread::Flood(index as u32));
            let core = self.add_core(wakeup(self, &item.src));
            let timer = self.add_timer(Timer::Flood(index as u32));
            self.veths.floods.push(Flood {
                end: between(self, &item.src, &item.dst),
                frame_bytes: item.frame_bytes,
                send: item.send,
                interval: item.interval,
                sndbuf: item.sndbuf.0,
                blocks: item.blocking,
                stop: item.stop.unwrap_or(Time::NEVER),
                core,
                thread: self.threads.len() as u32 - 1,
                timer,
                state: State::Timer,
                next_at: item.start,
                charged_bytes: 0,
                sent: 0,
                delivered: 0,
                dropped: 0,
                waits: 0,
            });
        }
        for (index, item) in plan.pings.iter().enumerate() {
            let core = self.add_core(wakeup(self, &item.src));
            let timer = self.add_timer(Timer::Ping(index as u32));
            self.veths.pings.push(Ping {
                end: between(self, &item.src, &item.dst),
                frame_bytes: item.frame_bytes,
                interval: item.interval,
                spread: item.spread,
                due: item.start,
                random: stream(seed, "ping", index as u64),
                stop: item.stop.unwrap_or(Time::NEVER),
                core,
                timer,
                samples: Vec::new(),
                rtt: Time::ZERO,
            });
        }
        for (index, item) in plan.frames.iter().enumerate() {
            let core = self.add_core(wakeup(self, &item.src));
            let timer = self.add_timer(Timer::Frames(index as u32));
            self.veths.frames.push(Frames {
                end: between(self, &item.src, &item.dst),
                frame_bytes: item.frame_bytes,
                batch: item.batch,
                interval: item.interval,
                stop: item.stop.unwrap_or(Time::NEVER),
                core,
                timer,
                sent: 0,
                delivered: 0,
                dropped: 0,
            });
        }
    }
}
