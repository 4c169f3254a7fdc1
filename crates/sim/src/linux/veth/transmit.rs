//! Down: from the stack through the qdisc into the ring.

use rand_core::Rng;
use tailback_proto::aqm::qdisc::{Enqueue, Skb};
use tailback_proto::flow_control::byte_queue_limits::Transmit;
use tailback_proto::units::Time;

use super::{Datagram, DatagramSource, Dropped, NONE};
use crate::cores::Purpose;
use crate::engine::{splitmix64, uniform, Stream};
use crate::event::Event;
use crate::fabric::Fabric;
use crate::gauge::QueuedAt;
use crate::linux::settings::VethNetworkPlan;
use crate::linux::softirq::{Unit, NAPI_WEIGHT};
use crate::linux::Linux;
use crate::run::Run;

/// Packets that are taken from a qdisc at once where the device has several queues (net/sched/sch_generic.c,
/// `try_bulk_dequeue_skb_slow`).
const BULK: usize = 9;

/// Hash of the flow that a packet belongs to, well mixed as `skb_get_hash` is.
fn flow_hash(kind: DatagramSource) -> u32 {
    let (class, index) = match kind {
        DatagramSource::Datagram(index) => (1u64, index),
        DatagramSource::EchoRequest(index) => (2, index),
        DatagramSource::EchoReply(index) => (3, index),
        DatagramSource::Frame(index) => (4, index),
    };
    splitmix64(class << 32 | index as u64) as u32
}

impl Linux {
    /// A new packet of the stack goes to a device (`dev_queue_xmit`); `core` runs it.
    pub(super) fn veth_send(
        &mut self,
        fabric: &mut Fabric,
        core: u32,
        end: u32,
        kind: DatagramSource,
        sequence: u32,
        bytes: u32,
    ) {
        let mut skb = Skb::new(0, bytes, flow_hash(kind), false);
        let charged = match kind {
            DatagramSource::Datagram(flood) => {
                let truesize = skb.truesize();
                self.veths.floods[flood as usize].charged_bytes += truesize as u64;
                truesize
            }
            _ => 0,
        };
        let came = QueuedAt::at(fabric.run.now);
        let packet = Datagram { kind, sequence, bytes, charged, next_free: NONE, came };
        skb.packet = self.veths.packets.add(packet);
        let now = fabric.run.now;
        let e = &mut self.veths.ends[end as usize];
        e.counted.offered.count(bytes);
        if e.qdisc.is_noqueue() {
            self.veth_xmit(fabric, core, end, skb);
            return;
        }
        let mut drops = std::mem::take(&mut self.veths.drops);
        let random = &mut e.random;
        if let Enqueue::Dropped(_) = e.qdisc.enqueue(skb, now, || random.next_u32(), &mut drops) {
            self.veth_drop(fabric, end, skb.packet, Dropped::ByQdisc);
        }
        self.veths.drops = drops;
        self.veth_free_drops(fabric, end);
        self.veth_run_qdisc(fabric, core, end);
    }

    /// Hands packets from the qdisc to the device while it accepts them (`__qdisc_run`).
    fn veth_run_qdisc(&mut self, fabric: &mut Fabric, core: u32, end: u32) {
        while self.veth_restart_qdisc(fabric, core, end) {}
        self.veth_record_qdisc(fabric, end);
        self.veth_arm_watchdog(fabric, end);
    }

    /// Packets that the qdisc gives at once go to the device. Returns true if there may be more (`qdisc_restart`). Where a device has
    /// several queues, that is up to `BULK` packets, whether the queue is stopped or not; what cannot go waits ahead of all
    /// that the discipline holds.
    fn veth_restart_qdisc(&mut self, fabric: &mut Fabric, core: u32, end: u32) -> bool {
        let now = fabric.run.now;
        let e = &mut self.veths.ends[end as usize];
        let in_bulk = e.multiqueue && !e.qdisc.has_requeued();
        let stopped = e.queue.is_stopped();
        if stopped && !in_bulk {
            return false;
        }
        let mut drops = std::mem::take(&mut self.veths.drops);
        let mut bulk = std::mem::take(&mut self.veths.bulk);
        let most = if in_bulk { BULK } else { 1 };
        bulk.extend(std::iter::from_fn(|| e.qdisc.dequeue(now, &mut drops)).map(|(skb, _)| skb).take(most));
        self.veths.drops = drops;
        self.veth_free_drops(fabric, end);
        let mut goes_on = !stopped;
        if bulk.is_empty() {
            self.veth_arm_shaper(fabric, core, end);
            goes_on = false;
        }
        for skb in bulk.drain(..) {
            if !goes_on {
                self.veths.ends[end as usize].qdisc.requeue(skb);
                continue;
            }
            goes_on = self.veth_xmit(fabric, core, end, skb);
            if goes_on {
                let waiting = &mut self.veths.ends[end as usize].waiting;
                waiting.left(now, skb.bytes, QueuedAt::at(skb.enqueued));
            }
        }
        self.veths.bulk = bulk;
        goes_on
    }

    /// Arms the timer of a shaping qdisc for its next packet, on the core that found none
    /// (`qdisc_watchdog`).
    fn veth_arm_shaper(&mut self, fabric: &mut Fabric, core: u32, end: u32) {
        let e = &mut self.veths.ends[end as usize];
        if let Some(at) = e.qdisc.next_at().filter(|&at| at < e.shaper_at) {
            (e.shaper_at, e.shaper_core) = (at, core);
            let timer = e.shaper;
            fabric.run.schedule(at, Event::LinuxTimer(timer));
        }
    }

    /// A shaping qdisc may release a packet.
    pub(in crate::linux) fn on_veth_shaper(&mut self, fabric: &mut Fabric, end: u32) {
        let e = &mut self.veths.ends[end as usize];
        if e.shaper_at != fabric.run.now {
            return;
        }
        e.shaper_at = Time::NEVER;
        let core = e.shaper_core;
        self.veth_schedule_output(fabric, core, end);
    }

    /// The device gets a packet (`veth_xmit`); whether it took or freed it.
    fn veth_xmit(&mut self, fabric: &mut Fabric, core: u32, end: u32, skb: Skb) -> bool {
        let now = fabric.run.now;
        let e = &mut self.veths.ends[end as usize];
        match e.queue.transmit(skb.packet, skb.bytes, now) {
            Transmit::Queued => {
                e.in_ring.add(now, 1, skb.bytes as i64);
                self.veths.packets.packets[skb.packet as usize].came = QueuedAt::at(now);
                self.veths.hops += 1;
                self.veth_schedule_poll(fabric, core, end);
                true
            }
            Transmit::Freed => {
                self.veth_drop(fabric, end, skb.packet, Dropped::ByRing);
                true
            }
            Transmit::Busy => {
                e.qdisc.requeue(skb);
                self.veth_schedule_poll(fabric, core, end);
                false
            }
        }
    }

    /// A batch of XDP frames bypasses the qdisc; frames that find no room in the ring are freed (`veth_xdp_xmit`).
    pub(super) fn veth_send_frames(
        &mut self,
        fabric: &mut Fabric,
        core: u32,
        end: u32,
        source: u32,
        count: u32,
        bytes: u32,
    ) {
        let now = fabric.run.now;
        for _ in 0..count {
            let kind = DatagramSource::Frame(source);
            let came = QueuedAt::at(now);
            let packet = Datagram { kind, sequence: 0, bytes, charged: 0, next_free: NONE, came };
            let index = self.veths.packets.add(packet);
            let e = &mut self.veths.ends[end as usize];
            e.counted.offered.count(bytes);
            if e.queue.transmit_frame(index) {
                e.in_ring.add(now, 1, bytes as i64);
                self.veths.hops += 1;
            } else {
                self.veth_drop(fabric, end, index, Dropped::Frame);
            }
        }
        self.veth_schedule_poll(fabric, core, end);
    }

    /// The queue of an end goes on: a softirq of `core` runs its qdisc (`netif_schedule_queue`).
    pub(super) fn veth_schedule_output(&mut self, fabric: &mut Fabric, core: u32, end: u32) {
        let e = &mut self.veths.ends[end as usize];
        if !e.output_scheduled && !e.qdisc.is_noqueue() {
            e.output_scheduled = true;
            let output = e.output;
            self.schedule_output(fabric, core, output);
        }
    }

    /// The softirq that runs a qdisc takes the next packet.
    pub(in crate::linux) fn veth_output_unit(&mut self, end: u32) -> Option<Unit> {
        let e = &mut self.veths.ends[end as usize];
        if e.output_ends || e.queue.is_stopped() || e.qdisc.qlen() == 0 {
            (e.output_scheduled, e.output_ends) = (false, false);
            return None;
        }
        Some(Unit { cost: e.output_cost, weight: 0, purpose: Purpose::Soft })
    }

    /// It gives that packet to the device.
    pub(in crate::linux) fn veth_output_unit_ends(&mut self, fabric: &mut Fabric, core: u32, end: u32) {
        let more = self.veth_restart_qdisc(fabric, core, end);
        self.veths.ends[end as usize].output_ends = !more;
        self.veth_record_qdisc(fabric, end);
        self.veth_arm_watchdog(fabric, end);
    }

    fn veth_record_qdisc(&mut self, fabric: &mut Fabric, end: u32) {
        let now = fabric.run.now;
        let e = &mut self.veths.ends[end as usize];
        e.waiting.set(now, e.qdisc.qlen() as u64, e.qdisc.backlog_bytes());
    }

    /// Frees what the qdisc dropped.
    fn veth_free_drops(&mut self, fabric: &mut Fabric, end: u32) {
        while let Some((skb, _)) = self.veths.drops.pop() {
            let e = &mut self.veths.ends[end as usize];
            e.waiting.left(fabric.run.now, skb.bytes, QueuedAt::at(skb.enqueued));
            self.veth_drop(fabric, end, skb.packet, Dropped::ByQdisc);
        }
    }

    /// A packet is freed, and its sender may continue.
    fn veth_drop(&mut self, fabric: &mut Fabric, end: u32, packet: u32, by: Dropped) {
        let Datagram { kind, bytes, .. } = self.veths.packets.packets[packet as usize];
        self.veths.ends[end as usize].counted.dropped[by as usize].count(bytes);
        self.veth_orphan(fabric, packet);
        match kind {
            DatagramSource::Datagram(flood) => self.veths.floods[flood as usize].dropped += 1,
            DatagramSource::Frame(source) => self.veths.frames[source as usize].dropped += 1,
            DatagramSource::EchoRequest(ping) | DatagramSource::EchoReply(ping) => {
                let sequence = self.veths.packets.packets[packet as usize].sequence;
                self.veths.pings[ping as usize].samples[sequence as usize].lost = true;
            }
        }
        self.veths.packets.remove(packet);
    }

    /// A packet no longer counts for its socket (`skb_orphan`).
    pub(super) fn veth_orphan(&mut self, fabric: &mut Fabric, packet: u32) {
        let p = &mut self.veths.packets.packets[packet as usize];
        let charged = std::mem::take(&mut p.charged);
        if let (DatagramSource::Datagram(flood), 1..) = (p.kind, charged) {
            self.flood_may_go_on(fabric, flood, charged);
        }
    }

    /// Schedules the watchdog of a stopped queue.
    fn veth_arm_watchdog(&mut self, fabric: &mut Fabric, end: u32) {
        let e = &mut self.veths.ends[end as usize];
        if let (false, Some(at)) = (e.watchdog_armed, e.queue.next_timeout()) {
            e.watchdog_armed = true;
            let timer = e.watchdog;
            fabric.run.schedule(at, Event::LinuxTimer(timer));
        }
    }

    /// The watchdog of an end may be due (`dev_watchdog`, which calls `veth_tx_timeout`).
    pub(in crate::linux) fn on_veth_watchdog(&mut self, fabric: &mut Fabric, end: u32) {
        let now = fabric.run.now;
        let e = &mut self.veths.ends[end as usize];
        e.watchdog_armed = false;
        if e.queue.on_timeout(now) {
            let core = e.poll_core;
            self.veth_schedule_output(fabric, core, end);
        }
        self.veth_arm_watchdog(fabric, end);
    }
}

// Traffic sources: threads that flood, pings, batches of XDP frames.
//
// A flood's thread calls `sendto` again and again. What it sent counts for its socket (`sk_wmem_alloc`) until it is
// dropped or the receiver's stack has it; at `sk_sndbuf` the call waits until half of that is free (net/core/sock.c,
// `sock_def_write_space`), or, with MSG_DONTWAIT in a loop, fails until there is room for one.
//
// Leaves out: the cost of failing calls in a loop; nothing else wants that core here.

/// Reason why a flood's thread waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// Its start, or the next turn of its rate.
    Timer,
    /// It runs.
    Running,
    /// Room in its socket's buffer.
    Room,
    Stopped,
}

/// A thread that sends datagrams.
#[derive(Debug)]
pub(crate) struct Flood {
    pub(super) end: u32,
    pub(super) frame_bytes: u32,
    pub(super) send: Time,
    pub(super) interval: Time,
    pub(super) sndbuf: u64,
    pub(super) blocks: bool,
    pub(super) stop: Time,
    pub(super) core: u32,
    pub(super) thread: u32,
    pub(super) timer: u32,
    pub(super) state: State,
    pub(super) next_at: Time,
    /// Memory that counts for its socket, bytes.
    pub charged_bytes: u64,
    pub sent: u64,
    pub delivered: u64,
    pub dropped: u64,
    /// How often it waited for room.
    pub waits: u64,
}

/// Fate of an echo request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sample {
    pub sent_at: Time,
    pub rtt: Option<Time>,
    pub lost: bool,
}

/// Echo requests at regular intervals.
#[derive(Debug)]
pub(crate) struct Ping {
    pub(super) end: u32,
    pub(super) frame_bytes: u32,
    pub(super) interval: Time,
    pub(super) spread: Time,
    /// When the next request is due, and how much later it is sent.
    pub(super) due: Time,
    pub(super) random: Stream,
    pub(super) stop: Time,
    pub(super) core: u32,
    pub(super) timer: u32,
    pub samples: Vec<Sample>,
    /// The latest answer's round trip.
    pub rtt: Time,
}

impl Ping {
    pub(super) fn answered(&mut self, sequence: u32, now: Time) {
        let sample = &mut self.samples[sequence as usize];
        self.rtt = now - sample.sent_at;
        sample.rtt = Some(self.rtt);
    }
}

/// Batches of XDP frames.
#[derive(Debug)]
pub(crate) struct Frames {
    pub(super) end: u32,
    pub(super) frame_bytes: u32,
    pub(super) batch: u32,
    pub(super) interval: Time,
    pub(super) stop: Time,
    pub(super) core: u32,
    pub(super) timer: u32,
    pub sent: u64,
    pub delivered: u64,
    pub dropped: u64,
}

// What traffic sources do: floods, pings and batches of XDP frames.

impl Linux {
    /// Schedules the start of everything that sends over veth pairs.
    pub(crate) fn start_veths(&mut self, run: &mut Run, plan: &VethNetworkPlan) {
        let veths = &self.veths;
        let floods = veths.floods.iter().zip(&plan.datagrams).map(|(f, p)| (f.timer, p.start.0));
        let pings = veths.pings.iter().zip(&plan.pings).map(|(s, p)| (s.timer, p.start.0));
        let frames = veths.frames.iter().zip(&plan.frames).map(|(s, p)| (s.timer, p.start.0));
        let starts: Vec<(u32, u64)> = floods.chain(pings).chain(frames).collect();
        for (timer, start) in starts {
            run.schedule(Time(start), Event::LinuxTimer(timer));
        }
    }

    /// A flood begins, or its rate lets it send again.
    pub(in crate::linux) fn on_flood_timer(&mut self, fabric: &mut Fabric, flood: u32) {
        let f = &mut self.veths.floods[flood as usize];
        f.state = State::Running;
        let (core, thread) = (f.core, f.thread);
        self.wake_linux_thread(fabric, core, thread);
    }

    /// A flood's thread calls `sendto`. `None`: it waits.
    pub(in crate::linux) fn flood_unit(&mut self, fabric: &mut Fabric, flood: u32) -> Option<Unit> {
        let now = fabric.run.now;
        let f = &mut self.veths.floods[flood as usize];
        if now >= f.stop {
            f.state = State::Stopped;
            return None;
        }
        if f.charged_bytes >= f.sndbuf {
            f.state = State::Room;
            f.waits += 1;
            return None;
        }
        if f.next_at > now {
            f.state = State::Timer;
            let (at, timer) = (f.next_at, f.timer);
            fabric.run.schedule(at, Event::LinuxTimer(timer));
            return None;
        }
        Some(Unit { cost: f.send, weight: 0, purpose: Purpose::Sys })
    }

    /// The call has built a packet.
    pub(in crate::linux) fn flood_unit_ends(&mut self, fabric: &mut Fabric, core: u32, flood: u32) {
        let f = &mut self.veths.floods[flood as usize];
        f.sent += 1;
        f.next_at += f.interval;
        let (end, bytes) = (f.end, f.frame_bytes);
        self.veth_send(fabric, core, end, DatagramSource::Datagram(flood), 0, bytes);
    }

    /// A packet no longer counts for a flood's socket.
    pub(super) fn flood_may_go_on(&mut self, fabric: &mut Fabric, flood: u32, freed_bytes: u32) {
        let f = &mut self.veths.floods[flood as usize];
        f.charged_bytes -= freed_bytes as u64;
        let room = if f.blocks { f.sndbuf / 2 } else { f.sndbuf };
        if f.state == State::Room && f.charged_bytes < room {
            f.state = State::Running;
            let (core, thread) = (f.core, f.thread);
            self.wake_linux_thread(fabric, core, thread);
        }
    }

    /// The next echo request.
    pub(in crate::linux) fn on_ping_timer(&mut self, fabric: &mut Fabric, ping: u32) {
        let now = fabric.run.now;
        let p = &mut self.veths.pings[ping as usize];
        if now >= p.stop {
            return;
        }
        let sequence = p.samples.len() as u32;
        p.samples.push(Sample { sent_at: now, rtt: None, lost: false });
        p.due += p.interval;
        let later = (p.spread.0 as f64 * uniform(&mut p.random)) as u64;
        let (core, end, bytes, timer, next) = (p.core, p.end, p.frame_bytes, p.timer, p.due + Time(later));
        fabric.run.schedule(next, Event::LinuxTimer(timer));
        self.veth_send(fabric, core, end, DatagramSource::EchoRequest(ping), sequence, bytes);
    }

    /// The next batch of XDP frames.
    pub(in crate::linux) fn on_frames_timer(&mut self, fabric: &mut Fabric, source: u32) {
        let now = fabric.run.now;
        let f = &mut self.veths.frames[source as usize];
        if now >= f.stop {
            return;
        }
        f.sent += f.batch as u64;
        let (core, end, batch, bytes) = (f.core, f.end, f.batch, f.frame_bytes);
        let (timer, next) = (f.timer, now + f.interval);
        fabric.run.schedule(next, Event::LinuxTimer(timer));
        self.veth_send_frames(fabric, core, end, source, batch, bytes);
    }
}

// Up: the peer's NAPI takes packets from the ring, GRO collects them, the stack gets them.

impl Linux {
    /// Schedules the poll of an end's ring after `core` sent to it (`__veth_xdp_flush`).
    pub(super) fn veth_schedule_poll(&mut self, fabric: &mut Fabric, core: u32, end: u32) {
        let veths = &mut self.veths;
        let threaded = veths.namespaces[veths.ends[end as usize ^ 1].namespace as usize].threaded;
        let e = &mut veths.ends[end as usize];
        if std::mem::replace(&mut e.poll.scheduled, true) {
            return;
        }
        if threaded {
            let (core, thread) = (e.poll_core, e.thread);
            self.wake_linux_thread(fabric, core, thread);
        } else {
            e.poll_core = core;
            let napi = e.napi;
            self.schedule_napi(fabric, core, napi);
        }
    }

    /// The next piece of a poll's work. `None`: the poll is over.
    pub(in crate::linux) fn veth_poll_unit(&mut self, fabric: &mut Fabric, end: u32) -> Option<Unit> {
        let veths = &mut self.veths;
        let namespace = &veths.namespaces[veths.ends[end as usize ^ 1].namespace as usize];
        let e = &mut veths.ends[end as usize];
        if e.poll.used == 0 && e.poll.list.is_empty() {
            e.poll.factor = 1.0 + namespace.jitter * (2.0 * uniform(&mut e.jitter) - 1.0);
        }
        if !e.poll.in_stack {
            if !e.poll.last && e.poll.used < NAPI_WEIGHT && !e.queue.is_empty() {
                return Some(Unit { cost: namespace.take, weight: 1, purpose: Purpose::Sys });
            }
            if e.poll.list.is_empty() {
                return None;
            }
            // An empty ring ends the poll, and what comes while the stack is at the last list is for the next one.
            e.poll.last = true;
            self.veth_list_goes_up(fabric, end);
        }
        Some(Unit { cost: self.veth_stack_cost(end), weight: 0, purpose: Purpose::Sys })
    }

    /// The cost of the next packet of the list in the stack.
    fn veth_stack_cost(&self, end: u32) -> Time {
        let veths = &self.veths;
        let namespace = &veths.namespaces[veths.ends[end as usize ^ 1].namespace as usize];
        let poll = &veths.ends[end as usize].poll;
        let cost = match veths.packets.packets[poll.list[poll.at] as usize].kind {
            DatagramSource::EchoRequest(_) => namespace.echo,
            _ => namespace.stack,
        };
        Time((cost.0 as f64 * poll.factor) as u64)
    }

    /// The same for a thread, which polls again where there is more.
    pub(in crate::linux) fn veth_thread_unit(
        &mut self,
        fabric: &mut Fabric,
        core: u32,
        end: u32,
    ) -> Option<Unit> {
        let unit = self.veth_poll_unit(fabric, end);
        if unit.is_none() && self.veth_poll_ends(fabric, core, end) {
            // The thread enables softirqs between two polls, so a restarted qdisc goes first.
            let thread = self.veths.ends[end as usize].thread;
            self.wake_linux_thread(fabric, core, thread);
        }
        unit
    }

    /// A piece of a poll's work ends.
    pub(in crate::linux) fn veth_poll_unit_ends(&mut self, fabric: &mut Fabric, core: u32, end: u32) {
        let now = fabric.run.now;
        let veths = &mut self.veths;
        let batch = veths.namespaces[veths.ends[end as usize ^ 1].namespace as usize].gro_batch;
        let e = &mut veths.ends[end as usize];
        if !e.poll.in_stack {
            let packet = e.queue.take().expect("a unit was begun for it");
            let p = &mut veths.packets.packets[packet as usize];
            let bytes = p.bytes as i64;
            e.in_ring.add(now, -1, -bytes);
            e.in_ring.left(now, p.bytes, p.came);
            e.in_list.add(now, 1, bytes);
            p.came = QueuedAt::at(now);
            e.poll.used += 1;
            e.poll.list.push(packet);
            if e.poll.list.len() >= batch {
                self.veth_list_goes_up(fabric, end);
            } else {
                e.poll.goes_on |= e.queue.done(now);
            }
            return;
        }
        let packet = e.poll.list[e.poll.at];
        e.poll.at += 1;
        if e.poll.at == e.poll.list.len() {
            e.poll.list.clear();
            e.poll.at = 0;
            e.poll.in_stack = false;
            if !e.poll.last {
                // `napi_gro_receive` of the packet that filled the list returns.
                e.poll.goes_on |= e.queue.done(now);
            }
        }
        self.veth_deliver(fabric, core, end, packet);
    }

    /// GRO hands its list to the stack: its packets no longer count for the senders' sockets (net/ipv4/ip_input.c,
    /// `ip_rcv_core`, for the whole list before the rules see the first).
    fn veth_list_goes_up(&mut self, fabric: &mut Fabric, end: u32) {
        let poll = &mut self.veths.ends[end as usize].poll;
        poll.in_stack = true;
        for index in 0..poll.list.len() {
            let packet = self.veths.ends[end as usize].poll.list[index];
            self.veth_orphan(fabric, packet);
        }
    }

    /// A poll is over. `true`: there is more to poll.
    pub(in crate::linux) fn veth_poll_ends(&mut self, fabric: &mut Fabric, core: u32, end: u32) -> bool {
        let now = fabric.run.now;
        let e = &mut self.veths.ends[end as usize];
        let used = std::mem::take(&mut e.poll.used);
        e.poll.last = false;
        let more = used == NAPI_WEIGHT || !e.queue.is_empty();
        e.counted.polls += 1;
        e.counted.full_polls += (used == NAPI_WEIGHT) as u64;
        e.poll.scheduled = more;
        let completed = std::mem::take(&mut e.poll.goes_on);
        if e.queue.poll_ends(now) || completed {
            self.veth_schedule_output(fabric, core, end);
        }
        more
    }

    /// The stack has finished a packet.
    fn veth_deliver(&mut self, fabric: &mut Fabric, core: u32, end: u32, packet: u32) {
        let now = fabric.run.now;
        let veths = &mut self.veths;
        let Datagram { kind, sequence, bytes, came, .. } = veths.packets.packets[packet as usize];
        veths.packets.remove(packet);
        let e = &mut veths.ends[end as usize];
        e.in_list.add(now, -1, -(bytes as i64));
        e.in_list.left(now, bytes, came);
        e.counted.delivered.count(bytes);
        let receiver = veths.ends[end as usize ^ 1].namespace as usize;
        let namespace = &mut veths.namespaces[receiver];
        match kind {
            DatagramSource::Datagram(flood) => {
                namespace.delivered_packets += 1;
                namespace.delivered_bytes += bytes as u64;
                veths.floods[flood as usize].delivered += 1;
            }
            DatagramSource::Frame(source) => {
                namespace.delivered_packets += 1;
                namespace.delivered_bytes += bytes as u64;
                veths.frames[source as usize].delivered += 1;
            }
            DatagramSource::EchoRequest(ping) => {
                self.veth_send(fabric, core, end ^ 1, DatagramSource::EchoReply(ping), sequence, bytes)
            }
            DatagramSource::EchoReply(ping) => {
                let wakeup = namespace.wakeup;
                veths.pings[ping as usize].answered(sequence, now + wakeup);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::cores::Purpose;
    use crate::plan::Plan;
    use crate::Simulation;
    use tailback_proto::units::Time;

    const PLAN: &str = include_str!("../../../tests/data/veth.json");

    /// XDP frames fill the ring, and the core that redirected them polls it, for longer than the watchdog waits. There the
    /// queue that the flood found full goes on, and not on the first core of the run, the flood's, which polls nothing.
    #[test]
    fn the_watchdog_wakes_the_queue_where_it_is_polled() {
        let mut simulation =
            Simulation::new(Plan::from_json(PLAN).expect("it is a plan")).expect("it is possible");
        while !simulation.advance(100_000).done {}
        let world = simulation.world_mut();
        let end = &world.linux.veths.ends[0];
        assert_eq!((end.queue.timeouts, end.poll_core), (1, 1));
        let spent = |core: usize| world.linux.cores[core].core.spent(Purpose::Soft, world.fabric.run.now);
        assert!(spent(1) > Time::from_ms(16_000));
        assert_eq!(spent(0), Time::ZERO);
    }
}
