//! The CPU of a host: cores that take interrupts, poll receive rings and serve what waits for them.
//!
//! Sources: Linux `net/core/dev.c` (`napi_schedule`, `net_rx_action`, `napi_complete_done`: interrupts stay off while
//! polls find packets; at most `budget` packets a poll), `kernel/softirq.c` (under load softirqs run in `ksoftirqd`, a
//! thread that shares its core with the others), Documentation/networking/scaling.rst (RSS), and the interrupt
//! moderation of NICs (an interrupt a time after the first packet, or after a number of them, whichever is first).
//!
//! A core does one batch of work after the other, an event each: a poll of its receive ring together with what the
//! packets lead to, or a turn of the threads that wait for it. What costs cycles within a batch happens in the batch,
//! one after the other: the next stage takes the time from the core's own clock. While packets and threads both want
//! the core, they share its time equally. Nothing here knows what packets mean: `socket.rs` does.
//!
//! Leaves out: hyper-threads, frequency changes, caches and NUMA, moving threads between cores, interrupts in the
//! middle of a batch, the first 2 ms of a burst in which softirqs do not yield yet, and adaptive moderation.

use std::collections::VecDeque;
use tailback_proto::nic::Standing;
use tailback_proto::units::Time;

use super::socket::{Descriptor, TxBurst, TxRing, Work};
use super::Tcp;
use crate::cores::{Core, Purpose, Share, PURPOSES};
use crate::engine::{stream, uniform, Fifo};
use crate::event::Event;
use crate::fabric::packet::CWR;
use crate::fabric::port::DropReason;
use crate::fabric::{Fabric, CLASSES};
use crate::gauge::{Gauge, QueuedAt};
use crate::host::settings::CpuParameters;
use crate::nic::{Nics, ETHERNET};

/// A kind of CPU, and the NIC settings that its drivers chose.
#[derive(Clone, Debug)]
pub(crate) struct CpuModel {
    pub cores: u32,
    pub(super) ps_per_cycle: f64,
    /// Descriptors of a core's receive ring.
    pub(super) rx_ring: u32,
    pub(super) interrupt_delay: Time,
    pub(super) interrupt_packets: u32,
    /// Most packets of a poll.
    pub(super) budget: u32,
    /// Largest payload that GRO merges, bytes.
    pub gro_bytes: u32,
    pub cycles_per_interrupt: f64,
    pub cycles_per_packet: f64,
    pub cycles_per_segment: f64,
    pub cycles_per_byte: f64,
}

impl CpuModel {
    pub fn new(plan: &CpuParameters) -> Self {
        CpuModel {
            cores: plan.cores,
            ps_per_cycle: 1e12 / plan.clock.0 as f64,
            rx_ring: plan.rx_ring,
            interrupt_delay: plan.interrupt_delay,
            interrupt_packets: plan.interrupt_packets,
            budget: plan.napi_budget,
            gro_bytes: plan.gro.0 as u32,
            cycles_per_interrupt: plan.cycles_per_interrupt,
            cycles_per_packet: plan.cycles_per_packet,
            cycles_per_segment: plan.cycles_per_segment,
            cycles_per_byte: plan.cycles_per_byte,
        }
    }

    pub(super) fn time(&self, cycles: f64) -> Time {
        Time((cycles * self.ps_per_cycle + 0.5) as u64)
    }
}

/// A batch of work: cycles by purpose so far.
#[derive(Debug)]
pub(crate) struct Batch {
    pub core: u32,
    pub(super) start: Time,
    pub(super) cycles: [f64; PURPOSES],
}

impl Batch {
    pub fn spend(&mut self, purpose: Purpose, cycles: f64) {
        self.cycles[purpose as usize] += cycles;
    }

    /// The core's clock: the start of the batch and what it did since.
    pub fn now(&self, model: &CpuModel) -> Time {
        self.start + model.time(self.cycles.iter().sum())
    }

    /// Time by purpose: whole picoseconds, which add up.
    pub(super) fn times(&self, model: &CpuModel) -> [Time; PURPOSES] {
        let (mut sum, mut before) = (0.0, Time::ZERO);
        self.cycles.map(|cycles| {
            sum += cycles;
            let until = model.time(sum);
            until - std::mem::replace(&mut before, until)
        })
    }
}

/// A core with its receive ring.
#[derive(Debug)]
pub(crate) struct HostCore {
    pub host: u16,
    /// Its work is a batch.
    pub core: Core<()>,
    /// Receive ring.
    pub ring: Fifo,
    pub ring_packets: u32,
    /// Packets since interrupts were enabled.
    pub(super) unannounced: u32,
    /// When the interrupt that moderation holds back is due; `NEVER`: none is.
    pub(super) interrupt_at: Time,
    /// Interrupts are off: a poll is under way or due.
    pub(super) polling: bool,
    /// The next poll pays for an interrupt.
    pub(super) interrupted: bool,
    /// Work that waits for softirq time besides the ring.
    pub(super) softirqs: VecDeque<u32>,
    pub rx_packets: u64,
    pub rx_bytes: u64,
    pub polled_packets: u64,
    pub rx_out_of_buffer: u64,
    pub interrupts: u64,
}

/// A host's CPU.
#[derive(Debug)]
pub(crate) struct HostCpu {
    pub model: CpuModel,
    pub first_core: u32,
    pub backlog: Gauge,
}

/// All CPUs.
#[derive(Debug, Default)]
pub(crate) struct Cpus {
    /// By host; none where no packet needs one.
    pub hosts: Vec<Option<HostCpu>>,
    pub cores: Vec<HostCore>,
    /// Packets of the poll under way.
    pub(super) polled: Vec<u32>,
}

impl Cpus {
    /// Gives a host a CPU, if it has none yet.
    pub fn add(&mut self, host: usize, plan: &CpuParameters) {
        if self.hosts.len() <= host {
            self.hosts.resize_with(host + 1, || None);
        }
        if self.hosts[host].is_some() {
            return;
        }
        let model = CpuModel::new(plan);
        let first_core = self.cores.len() as u32;
        self.cores.extend((0..model.cores).map(|_| HostCore::new(host as u16)));
        self.hosts[host] = Some(HostCpu { model, first_core, backlog: Gauge::default() });
    }

    /// The core that RSS gives a flow: a hash of its addresses and ports, which are not modelled, picks evenly.
    pub fn rss(&self, host: usize, seed: u64, flow: u64) -> u32 {
        let cpu = self.hosts[host].as_ref().expect("the host has a CPU");
        let draw = uniform(&mut stream(seed, "rss", flow << 16 | host as u64));
        cpu.first_core + (draw * cpu.model.cores as f64) as u32
    }

    /// The CPU of a core's host.
    pub fn of(&self, core: u32) -> &HostCpu {
        let host = self.cores[core as usize].host as usize;
        self.hosts[host].as_ref().expect("a core belongs to a CPU")
    }

    /// Packets that wait in the receive rings of a host that has a CPU.
    pub fn backlog(&mut self, host: usize) -> &mut Gauge {
        &mut self.hosts[host].as_mut().expect("the host has a CPU").backlog
    }

    /// The cores of a host.
    pub fn cores_of(&self, host: usize) -> &[HostCore] {
        match self.hosts.get(host) {
            Some(Some(cpu)) => {
                let first = cpu.first_core as usize;
                &self.cores[first..first + cpu.model.cores as usize]
            }
            _ => &[],
        }
    }
}

impl HostCore {
    fn new(host: u16) -> Self {
        HostCore {
            host,
            core: Core::default(),
            ring: Fifo::EMPTY,
            ring_packets: 0,
            unannounced: 0,
            interrupt_at: Time::NEVER,
            polling: false,
            interrupted: false,
            softirqs: VecDeque::new(),
            rx_packets: 0,
            rx_bytes: 0,
            polled_packets: 0,
            rx_out_of_buffer: 0,
            interrupts: 0,
        }
    }
}

// What the cores of a host do: they take packets from the wire, are interrupted, poll, and serve what waits for them. The
// rules are above.

impl Tcp {
    /// A packet for a core came over the wire.
    #[inline]
    pub fn core_receive(&mut self, fabric: &mut Fabric, nics: &mut Nics, core: u32, index: u32) {
        let host = self.cpus.cores[core as usize].host as usize;
        let cpu = self.cpus.hosts[host].as_mut().expect("the core is its");
        let c = &mut self.cpus.cores[core as usize];
        let bytes = fabric.packets[index].frame_bytes();
        c.rx_packets += 1;
        c.rx_bytes += bytes as u64;
        if c.ring_packets == cpu.model.rx_ring {
            c.rx_out_of_buffer += 1;
            let port = nics[host].port as usize;
            fabric.drop_packet(port, index, DropReason::ReceiveRing);
            return;
        }
        c.ring.push(&mut fabric.packets, index);
        #[cfg(debug_assertions)]
        {
            fabric.packets[index].arrival = fabric.run.now;
        }
        c.ring_packets += 1;
        cpu.backlog.change(fabric.run.now, bytes as i64);
        if c.polling {
            return;
        }
        c.unannounced += 1;
        if c.unannounced >= cpu.model.interrupt_packets {
            self.interrupt(fabric, nics, core);
        } else if c.interrupt_at == Time::NEVER {
            c.interrupt_at = fabric.run.now + cpu.model.interrupt_delay;
            let at = c.interrupt_at;
            fabric.run.schedule(at, Event::Core(core));
        }
    }

    /// The NIC interrupts a core.
    fn interrupt(&mut self, fabric: &mut Fabric, nics: &mut Nics, core: u32) {
        let c = &mut self.cpus.cores[core as usize];
        c.interrupt_at = Time::NEVER;
        c.unannounced = 0;
        c.interrupts += 1;
        c.polling = true;
        c.interrupted = true;
        if c.core.is_free() {
            self.run_core(fabric, nics, core);
        }
    }

    /// A batch of a core ends, or an interrupt that was held back is due.
    #[inline(never)]
    pub fn on_core(&mut self, fabric: &mut Fabric, nics: &mut Nics, core: u32) {
        let c = &mut self.cpus.cores[core as usize];
        c.core.end(fabric.run.now);
        if c.interrupt_at == fabric.run.now {
            self.interrupt(fabric, nics, core);
        } else if c.core.is_free() {
            self.run_core(fabric, nics, core);
        }
    }

    /// Work for a core in softirq context.
    pub fn raise_softirq(&mut self, fabric: &mut Fabric, nics: &mut Nics, core: u32, work: u32) {
        let c = &mut self.cpus.cores[core as usize];
        c.softirqs.push_back(work);
        if c.core.is_free() {
            self.run_core(fabric, nics, core);
        }
    }

    /// A thread has something to do on a core, which has a batch under way.
    pub fn wake_thread(&mut self, core: u32, work: u32) {
        self.cpus.cores[core as usize].core.threads.push_back(work);
    }

    /// An idle core begins the next batch, if there is work.
    fn run_core(&mut self, fabric: &mut Fabric, nics: &mut Nics, core: u32) {
        let c = &mut self.cpus.cores[core as usize];
        if c.polling && c.ring_packets == 0 {
            c.polling = false;
        }
        let softirq = c.polling || !c.softirqs.is_empty();
        let thread = !c.core.threads.is_empty();
        let takes_softirq = c.core.softirqs_are_next(softirq, softirq && thread);
        if !softirq && !thread {
            return;
        }
        c.core.enter();
        let mut batch = Batch { core, start: fabric.run.now, cycles: [0.0; PURPOSES] };
        if !takes_softirq {
            let work = c.core.threads.pop_front().expect("a thread waits");
            self.run_thread(fabric, nics, work, &mut batch);
        } else if self.cpus.cores[core as usize].polling {
            self.poll(fabric, nics, &mut batch);
        } else {
            // What is raised in the meantime waits for the next batch.
            for _ in 0..self.cpus.cores[core as usize].softirqs.len() {
                let work = self.cpus.cores[core as usize].softirqs.pop_front().expect("counted");
                self.run_softirq(fabric, nics, work, &mut batch);
            }
        }
        let cpu = self.cpus.of(core);
        let (start, takes) = (batch.start, batch.times(&cpu.model));
        let c = &mut self.cpus.cores[core as usize].core;
        c.begin(start, (), if takes_softirq { Share::Softirqs } else { Share::Threads }, takes);
        if let Some(end) = c.leave() {
            fabric.run.schedule(end, Event::Core(core));
        }
    }

    /// Takes up to the budget of packets from a core's ring. Softirq work that waits besides goes along.
    fn poll(&mut self, fabric: &mut Fabric, nics: &mut Nics, batch: &mut Batch) {
        let core = batch.core;
        let host = self.cpus.cores[core as usize].host as usize;
        let cpu = self.cpus.hosts[host].as_mut().expect("the core is its");
        let c = &mut self.cpus.cores[core as usize];
        if std::mem::take(&mut c.interrupted) {
            batch.spend(Purpose::Irq, cpu.model.cycles_per_interrupt);
        }
        let mut polled = std::mem::take(&mut self.cpus.polled);
        let mut bytes = 0;
        while polled.len() < cpu.model.budget as usize {
            let Some(index) = c.ring.pop(&fabric.packets) else { break };
            let packet = &fabric.packets[index];
            bytes += packet.frame_bytes() as i64;
            cpu.backlog.left(packet.frame_bytes() as u64, QueuedAt::at(packet.arrival), fabric.run.now);
            polled.push(index);
        }
        c.ring_packets -= polled.len() as u32;
        c.polled_packets += polled.len() as u64;
        cpu.backlog.change(fabric.run.now, -bytes);
        batch.spend(Purpose::Soft, polled.len() as f64 * cpu.model.cycles_per_packet);
        self.receive_polled(fabric, nics, &polled, batch);
        polled.clear();
        self.cpus.polled = polled;
        for _ in 0..self.cpus.cores[core as usize].softirqs.len() {
            let work = self.cpus.cores[core as usize].softirqs.pop_front().expect("counted");
            self.run_softirq(fabric, nics, work, batch);
        }
    }
}

// What transmit rings do: they join the turns of the NIC's arbiter, and send a packet when theirs comes.

impl Tcp {
    /// A core hands something to the NIC, at `descriptor.ready_at`, which is now or later.
    pub fn ring_push(&mut self, fabric: &mut Fabric, nics: &mut Nics, ring: u32, descriptor: Descriptor) {
        let r = &mut self.rings.rings[ring as usize];
        let bytes = match descriptor.work {
            Work::Packet(_) => 0,
            Work::Burst(burst) => burst.bytes,
        };
        r.note_comes(fabric.run.now, &fabric.packets, &descriptor);
        r.descriptors.push_back(descriptor);
        let host = fabric.ports[r.port as usize].owner as usize;
        nics[host].backlog_bytes[r.class as usize] += bytes as i64;
        if r.scheduled {
            return;
        }
        r.scheduled = true;
        if descriptor.ready_at <= fabric.run.now {
            self.on_ring_due(fabric, nics, ring);
        } else {
            fabric.run.schedule(descriptor.ready_at, Event::RingDue(ring));
        }
    }

    /// The first descriptor of a ring is ready: the ring joins its class's turns.
    #[inline(never)]
    pub fn on_ring_due(&mut self, fabric: &mut Fabric, nics: &mut Nics, ring: u32) {
        let port = self.rings.rings[ring as usize].port as usize;
        if fabric.ports[port].up {
            self.join_turns(fabric, nics, ring);
            let host = fabric.ports[port].owner as usize;
            nics.kick(fabric, self, host);
        } else {
            self.drain(fabric, nics, ring);
        }
    }

    #[inline(always)] // every packet's turn ends with it
    fn join_turns(&mut self, fabric: &mut Fabric, nics: &mut Nics, ring: u32) {
        let TxRing { port, class, .. } = self.rings.rings[ring as usize];
        let nic = &mut nics[fabric.ports[port as usize].owner as usize];
        nic.arbiter.join(class, ETHERNET | ring);
    }

    /// Sends the next packet of a ring, whose turn it is.
    #[inline(never)]
    pub fn send_from_ring(&mut self, fabric: &mut Fabric, nics: &mut Nics, port: usize, ring: u32) {
        let (index, sent) = self.take_packet(fabric, nics, ring);
        fabric.send(port, index);
        let r = &mut self.rings.rings[ring as usize];
        match r.standing(fabric.ports[port].busy_until) {
            Standing::Idle => r.scheduled = false,
            Standing::Ready => self.join_turns(fabric, nics, ring),
            Standing::Waits(until) => fabric.run.schedule(until, Event::RingDue(ring)),
        }
        if let Some(burst) = sent {
            self.on_burst_sent(fabric, nics, &burst);
        }
    }

    /// The next packet of a ring, and the burst that ends with it.
    #[inline(always)] // in each packet's turn; the burst then stays in registers
    fn take_packet(&mut self, fabric: &mut Fabric, nics: &mut Nics, ring: u32) -> (u32, Option<TxBurst>) {
        let r = &mut self.rings.rings[ring as usize];
        let (port, class) = (r.port as usize, r.class);
        let front = r.descriptors.front_mut().expect("a ring that takes a turn has work");
        let came = front.came;
        let mut sent = None;
        let index = match &mut front.work {
            Work::Packet(index) => {
                let index = *index;
                r.descriptors.pop_front();
                r.note_left(fabric.run.now, || fabric.packets[index].frame_bytes(), came);
                index
            }
            Work::Burst(burst) => {
                let cut = *burst;
                let payload = cut.bytes.min(self.sockets.mss(cut.connection));
                burst.position += payload as u64;
                burst.bytes -= payload;
                burst.flags &= !CWR;
                if burst.bytes == 0 {
                    r.descriptors.pop_front();
                    sent = Some(cut);
                }
                r.note_left(fabric.run.now, || payload, came);
                let host = fabric.ports[port].owner as usize;
                nics[host].backlog_bytes[class as usize] -= payload as i64;
                self.data_packet(fabric, &cut, payload, class)
            }
        };
        let queue = &mut fabric.queues[(port, class)];
        queue.rx_packets += 1;
        queue.rx_bytes += fabric.packets[index].frame_bytes() as u64;
        (index, sent)
    }

    /// The link of a NIC fails: what waits in its rings is lost, as what waits at a switch's port is.
    pub fn fail_rings(&mut self, fabric: &mut Fabric, nics: &mut Nics, host: usize) {
        for class in 0..CLASSES as u8 {
            let rings = nics[host].arbiter.take_all(class, |sender| sender & ETHERNET != 0);
            rings.into_iter().for_each(|ring| self.drain(fabric, nics, ring & !ETHERNET));
        }
    }

    /// Drops what is ready in a ring whose link is down.
    fn drain(&mut self, fabric: &mut Fabric, nics: &mut Nics, ring: u32) {
        loop {
            let r = &mut self.rings.rings[ring as usize];
            match r.standing(fabric.run.now) {
                Standing::Idle => {
                    r.scheduled = false;
                    return;
                }
                Standing::Waits(until) => {
                    fabric.run.schedule(until, Event::RingDue(ring));
                    return;
                }
                Standing::Ready => {}
            }
            let port = r.port as usize;
            let (index, sent) = self.take_packet(fabric, nics, ring);
            fabric.drop_packet(port, index, DropReason::PortDown);
            if let Some(burst) = sent {
                self.on_burst_sent(fabric, nics, &burst);
            }
        }
    }

    /// Payload of the bursts that wait in transmit rings, by connection: for the books.
    pub fn ring_payload(&self, connections: usize) -> Vec<u64> {
        let mut waiting = vec![0; connections];
        for descriptor in self.rings.rings.iter().flat_map(|ring| &ring.descriptors) {
            if let Work::Burst(burst) = descriptor.work {
                waiting[burst.connection as usize] += burst.whole as u64;
            }
        }
        waiting
    }
}
