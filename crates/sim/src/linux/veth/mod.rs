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
use std::ops::{Bound, RangeInclusive};
use tailback_proto::aqm::qdisc::{DropReason, Qdisc, Skb};
use tailback_proto::flow_control::byte_queue_limits::{
    Charge, DqlParameters, OnFull, VethParameters, VethQueue,
};
use tailback_proto::units::Time;

use self::transmit::{Flood, Frames, Ping, State};
use super::softirq::{CoreModel, LinuxCore, Napi, Output, Thread};
use super::{Linux, Timer};
use crate::engine::{stream, Stream};
use crate::fabric::port::Tally;
use crate::gauge::{Gauge, QueuedAt};
use crate::plan::{PlanError, VethNetworkPlan, VethPlan};

/// Index of no packet.
const NONE: u32 = u32::MAX;

/// What a packet belongs to: the kind and index of its source.
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

/// What an end counted.
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

// What a veth pair and the namespaces at its ends are set by.

tailback_proto::choice! {
    /// What a full ring does.
    pub enum Kernel {
        /// The packet is freed.
        Frees = "6.1",
        /// The queue stops.
        Stops = "6.18",
    }
}

tailback_proto::choice! {
    /// What byte queue limits count.
    pub enum VethBql {
        /// Nothing: there are none.
        Off = "none",
        /// Packets, one unit each.
        Packets = "packets",
        /// Their lengths.
        Bytes = "bytes",
    }
}

tailback_proto::choice! {
    /// Where rings are polled.
    pub enum Polling {
        /// Each in a thread with a core of its own.
        Threaded = "threaded",
        /// In softirqs of the core that sent to it first.
        Softirq = "softirq",
    }
}

tailback_proto::parameters! {
    /// The veth pair of a topology of kind veth.
    pub struct VethSettings {
        /// What a full ring does. 6.1 (and older): the packet is freed. 6.18 (6.16 and newer): the queue of a device with a
        /// qdisc stops until the peer's next poll ends.
        kernel: Kernel = Kernel::Stops, of Kernel::ALL, source "Linux commits dc82a33297fc and 5442a9da6978";
        /// Entries of the ring of each end.
        ring: u32 = 256, in 1..=1 << 20, source "drivers/net/veth.c: VETH_RING_SIZE";
        /// Byte queue limits: none, as in kernels without the series; packets: one unit each, as from its v2 on; bytes:
        /// their lengths, as in v1.
        bql: VethBql = VethBql::Off, of VethBql::ALL, source "Linux up to 7.3: veth has none";
        /// Time over which completions are coalesced before the limit sees them; 0us: it sees each at once. Without
        /// effect where bql is none.
        tx_usecs: Time = Time::from_us(100), source "v7 of the series, patch 5: ethtool tx-usecs, 100 us";
        /// The device has several transmit queues and uses one, as `ip link add` makes it on a machine with several CPUs. Its
        /// qdisc hands over up to nine packets at once, whether the queue is stopped or not, and what cannot go then goes
        /// before all that come later, a ping's included. false: one at a time, as with numtxqueues 1.
        multiqueue: bool = true, source "drivers/net/veth.c: veth_get_num_queues; net/sched/sch_generic.c: \
            try_bulk_dequeue_skb_slow, and no TCQ_F_ONETXQUEUE";
        /// To take a packet from the qdisc and put it into the ring, where a softirq does that.
        output: Time = Time::from_ns(500), in WORK, source "assumption: a third of a call of sendto";
    }
}

tailback_proto::parameters! {
    /// What receiving costs in the consumer's namespace. The producer's is alike, but has no rules.
    pub struct ConsumerParameters {
        /// Rules of iptables that each packet is compared with.
        rules: u32 = 0, in 0..=1_000_000, source "assumption: none";
        /// A comparison with one rule.
        rule: Time = Time(7_700), in COST, source format!("{SWEEP}: 10,000 rules, 13,000 packets per second");
        /// A packet's way up the stack, without rules.
        stack: Time = Time::from_ns(270), in WORK,
            source format!("{SWEEP}: 0.57 us a packet without rules, less take");
        /// To take a packet from the ring and hand it to GRO.
        take: Time = Time::from_ns(300), in WORK,
            source "the authors' sweep of intervals (interval.csv): 0.3 to 0.4 us between two completions of a list";
        /// An echo request costs this many times as much as another packet, rules included.
        echo: f64 = 1.0, in 1.0..=1000.0, source "assumption: the same";
        /// A poll's packets take up to this share less or more, drawn anew for each poll.
        jitter: f64 = 0.0, in BELOW_ALL, source "assumption: none";
        /// From the wake-up of a thread, or of a core that sleeps, to its first instruction.
        wakeup: Time = Time::from_us(5), in COST,
            source "assumption: no document says; the order of a context switch and a short sleep of a core";
        /// Where rings are polled: each in a thread with a core of its own, or in softirqs of the core that sent to it first.
        napi: Polling = Polling::Threaded, of Polling::ALL,
            source "the authors' veth_bql_test.sh: without threads both ends share a core, and nothing builds up";
        /// Packets that GRO collects before the stack sees them.
        gro_batch: u32 = 8, in 1..=64, source "Linux net/core: sysctl net.core.gro_normal_batch";
    }
}

const SWEEP: &str = "the authors' sweep on a Ryzen 5 5600X (text_sweep.txt)";
const COST: RangeInclusive<Time> = Time(0)..=Time::from_ms(10_000);
const WORK: RangeInclusive<Time> = Time(1)..=Time::from_ms(10_000);
const BELOW_ALL: (Bound<f64>, Bound<f64>) = (Bound::Included(0.0), Bound::Excluded(1.0));

impl ConsumerParameters {
    /// A packet's way up the stack, rules included.
    fn way_up(&self) -> Time {
        Time(self.stack.0 + self.rules as u64 * self.rule.0)
    }

    /// The same of an echo request.
    fn way_up_of_echo(&self) -> Time {
        Time((self.way_up().0 as f64 * self.echo).round_ties_even() as u64)
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
