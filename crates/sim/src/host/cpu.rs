//! The CPU of a host: cores that take interrupts, poll receive rings and serve what waits for them.
//!
//! Sources: Linux `net/core/dev.c` (`napi_schedule`, `net_rx_action`, `napi_complete_done`: interrupts stay off while
//! polls find packets; at most `budget` packets a poll), `kernel/softirq.c` (under load softirqs run in `ksoftirqd`, a
//! thread that shares its core with the others), Documentation/networking/scaling.rst (RSS), and the interrupt
//! moderation of NICs (an interrupt a time after the first packet, or after a number of them, whichever is first).
//!
//! A core does one batch of work after the other, an event each: a poll of its receive ring together with what the
//! packets lead to, or a turn of the threads that wait for it. What costs cycles within a batch happens in the batch,
//! one after the other: the next stage is told the time by the core's own clock. While packets and threads both want
//! the core, they share its time equally. Nothing here knows what packets mean: `socket.rs` does.
//!
//! Leaves out: hyper-threads, frequency changes, caches and NUMA, moving threads between cores, interrupts in the
//! middle of a batch, the first 2 ms of a burst in which softirqs do not yield yet, and adaptive moderation.

use std::collections::VecDeque;
use tailback_proto::parameters::DELAY;
use tailback_proto::transport::tcp::settings::BURST;
use tailback_proto::units::{Bytes, Hertz, Time};

use super::gauge::Gauge;
use crate::engine::{stream, uniform};
use crate::event::Event;
use crate::fabric::drops::DropReason;
use crate::fabric::packet::Fifo;
use crate::world::World;

tailback_proto::parameters! {
    /// The CPU of every host, of which TCP takes a part and RDMA none; no effect where no traffic is tcp.
    pub struct CpuParameters {
        /// Cores, each with a receive ring and an interrupt; a hash spreads connections over them (RSS).
        cores: u32 = 16, in 1..=1024,
            source "assumption: a server of 2016 or 2017 with two processors of 8 cores (Xeon E5-2600 v4)";
        /// Cycles of a core in a second.
        clock: Hertz = Hertz(2_600_000_000), in Hertz(1_000_000)..=Hertz(100_000_000_000),
            source "assumption: Xeon E5-2600 v4 at 8 cores";
        /// Packets that a receive ring holds; more are dropped.
        rx_ring: u32 = 1024, in 1..=1_048_576, source "Linux mlx5 en.h: MLX5E_PARAMS_DEFAULT_LOG_RQ_SIZE = 10";
        /// An interrupt comes at most this long after a packet.
        interrupt_delay: Time = Time::from_us(8), in DELAY,
            source "Linux mlx5 en.h: MLX5E_PARAMS_DEFAULT_RX_CQ_MODERATION_USEC_FROM_CQE";
        /// An interrupt comes at once when this many packets wait.
        interrupt_packets: u32 = 32, in 1..=65_535,
            source "Linux mlx5 en.h: MLX5E_PARAMS_DEFAULT_RX_CQ_MODERATION_PKTS";
        /// Packets of a poll.
        napi_budget: u32 = 64, in 1..=65_535, source "Linux netdevice.h: NAPI_POLL_WEIGHT";
        /// Most that neighbouring segments of a connection are merged into before they go up the stack (GRO); 0: off.
        gro: Bytes = Bytes(64 << 10), in BURST, source "Linux netdevice.h: GRO_LEGACY_MAX_SIZE";
        /// Cycles of an interrupt and of the begin and end of its polls.
        cycles_per_interrupt: f64 = 2500.0, in CYCLES,
            source "assumption: about a microsecond, the usual price of an interrupt and a softirq";
        /// Cycles of a packet in the driver and in GRO.
        cycles_per_packet: f64 = 700.0, in CYCLES,
            source format!("assumption: of the order of {CAI}, section 3: about a million packets a second and core \
                without GRO");
        /// Cycles of what goes through the stack as one: merged segments up, an ACK, a burst down.
        cycles_per_segment: f64 = 3000.0, in CYCLES,
            source format!("assumption: of the order of {CAI}, section 3; a microsecond of IP, TCP and the socket");
        /// Cycles of copying a byte between kernel and application.
        cycles_per_byte: f64 = 0.32, in CYCLES,
            source format!("assumption: worked out from {CAI}: 42 Gbit/s a receiving core of 3.4 GHz are 0.65 cycles \
                a byte, half of them copying");
    }
}

const CAI: &str = "Cai et al., \"Understanding Host Network Stack Overheads\", SIGCOMM 2021";
const CYCLES: std::ops::RangeInclusive<f64> = 0.0..=1e9;

/// A kind of CPU, and the NIC settings that its drivers chose.
#[derive(Clone, Debug)]
pub(crate) struct CpuModel {
    pub cores: u32,
    ps_per_cycle: f64,
    /// Descriptors of a core's receive ring.
    rx_ring: u32,
    interrupt_delay: Time,
    interrupt_packets: u32,
    /// Most packets of a poll.
    budget: u32,
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

    fn time(&self, cycles: f64) -> Time {
        Time((cycles * self.ps_per_cycle + 0.5) as u64)
    }
}

/// What a core does, as `mpstat` tells it: %irq, %soft, %sys.
#[derive(Clone, Copy, Debug)]
#[repr(u8)]
pub(crate) enum Purpose {
    Interrupt,
    Softirq,
    Syscall,
}

/// A batch of work: cycles by purpose so far.
#[derive(Debug)]
pub(crate) struct Batch {
    pub core: u32,
    start: Time,
    cycles: [f64; 3],
}

impl Batch {
    pub fn spend(&mut self, purpose: Purpose, cycles: f64) {
        self.cycles[purpose as usize] += cycles;
    }

    /// The core's clock: the start of the batch and what it did since.
    pub fn now(&self, model: &CpuModel) -> Time {
        self.start + model.time(self.cycles.iter().sum())
    }

    /// What it took by purpose: whole picoseconds, which add up.
    fn times(&self, model: &CpuModel) -> [Time; 3] {
        let [irq, softirq, system] = self.cycles;
        let until = [irq, irq + softirq, irq + softirq + system].map(|cycles| model.time(cycles));
        [until[0], until[1] - until[0], until[2] - until[1]]
    }
}

/// A core.
#[derive(Debug)]
pub(crate) struct Core {
    pub host: u16,
    /// Whether a batch is under way, and when it ends.
    running: bool,
    busy_until: Time,
    /// Time busy, the whole batch under way included.
    busy: Time,
    /// Of it, by [`Purpose`].
    spent: [Time; 3],
    /// The latest batch, by [`Purpose`].
    batch: [Time; 3],
    /// Receive ring.
    pub ring: Fifo,
    pub ring_packets: u32,
    /// Packets since interrupts were enabled.
    unannounced: u32,
    /// When the interrupt that moderation holds back is due; `NEVER`: none is.
    interrupt_at: Time,
    /// Interrupts are off: a poll is under way or due.
    polling: bool,
    /// The next poll pays for an interrupt.
    interrupted: bool,
    /// What waits for softirq time besides the ring, and the threads that wait for the core.
    softirqs: VecDeque<u32>,
    threads: VecDeque<u32>,
    /// Time of softirqs beyond that of threads since both want the core, picoseconds.
    lead: i64,
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
    pub cores: Vec<Core>,
    /// Packets of the poll under way.
    polled: Vec<u32>,
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
        self.cores.extend((0..model.cores).map(|_| Core::new(host as u16)));
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

    /// What waits in the receive rings of a host that has a CPU.
    pub fn backlog(&mut self, host: usize) -> &mut Gauge {
        &mut self.hosts[host].as_mut().expect("the host has a CPU").backlog
    }

    /// The cores of a host.
    pub fn cores_of(&self, host: usize) -> &[Core] {
        match self.hosts.get(host) {
            Some(Some(cpu)) => {
                let first = cpu.first_core as usize;
                &self.cores[first..first + cpu.model.cores as usize]
            }
            _ => &[],
        }
    }
}

impl Core {
    fn new(host: u16) -> Self {
        Core {
            host,
            running: false,
            busy_until: Time::ZERO,
            busy: Time::ZERO,
            spent: [Time::ZERO; 3],
            batch: [Time::ZERO; 3],
            ring: Fifo::EMPTY,
            ring_packets: 0,
            unannounced: 0,
            interrupt_at: Time::NEVER,
            polling: false,
            interrupted: false,
            softirqs: VecDeque::new(),
            threads: VecDeque::new(),
            lead: 0,
            rx_packets: 0,
            rx_bytes: 0,
            polled_packets: 0,
            rx_out_of_buffer: 0,
            interrupts: 0,
        }
    }

    /// Time busy up to `now`, whatever for.
    pub fn busy_until_now(&self, now: Time) -> Time {
        self.busy - self.busy_until.saturating_sub(now)
    }

    /// Shares of the time up to `now`, by [`Purpose`].
    pub fn shares(&self, now: Time) -> [f64; 3] {
        let length = self.batch.iter().map(|time| time.0).sum::<u64>().max(1);
        let left = self.busy_until.saturating_sub(now).0 as f64 / length as f64;
        std::array::from_fn(|purpose| {
            let ahead = self.batch[purpose].0 as f64 * left;
            (self.spent[purpose].0 as f64 - ahead) / (now.0 as f64).max(1.0)
        })
    }
}

impl World {
    /// A packet for a core came over the wire.
    #[inline(never)] // what most runs never need stays out of the way of what they do
    pub(crate) fn core_receive(&mut self, core: u32, index: u32) {
        let host = self.cpus.cores[core as usize].host as usize;
        let cpu = self.cpus.hosts[host].as_mut().expect("the core is its");
        let c = &mut self.cpus.cores[core as usize];
        let bytes = self.fabric.packets[index].frame_bytes();
        c.rx_packets += 1;
        c.rx_bytes += bytes as u64;
        if c.ring_packets == cpu.model.rx_ring {
            c.rx_out_of_buffer += 1;
            let port = self.nics[host].port as usize;
            self.fabric.drop_packet(port, index, DropReason::ReceiveRing);
            return;
        }
        c.ring.push(&mut self.fabric.packets, index);
        c.ring_packets += 1;
        cpu.backlog.change(self.fabric.run.now, bytes as i64);
        if c.polling {
            return;
        }
        c.unannounced += 1;
        if c.unannounced >= cpu.model.interrupt_packets {
            self.interrupt(core);
        } else if c.interrupt_at == Time::NEVER {
            c.interrupt_at = self.fabric.run.now + cpu.model.interrupt_delay;
            let at = c.interrupt_at;
            self.fabric.run.schedule(at, Event::Core(core));
        }
    }

    /// The NIC interrupts a core.
    fn interrupt(&mut self, core: u32) {
        let c = &mut self.cpus.cores[core as usize];
        c.interrupt_at = Time::NEVER;
        c.unannounced = 0;
        c.interrupts += 1;
        c.polling = true;
        c.interrupted = true;
        if !c.running {
            self.run_core(core);
        }
    }

    /// A batch of a core ends, or an interrupt that was held back is due.
    #[inline(never)] // what most runs never need stays out of the way of what they do
    pub(crate) fn on_core(&mut self, core: u32) {
        let c = &mut self.cpus.cores[core as usize];
        if c.running && c.busy_until == self.fabric.run.now {
            c.running = false;
        }
        if c.interrupt_at == self.fabric.run.now {
            self.interrupt(core);
        } else if !c.running {
            self.run_core(core);
        }
    }

    /// Work for a core in softirq context.
    pub(crate) fn raise_softirq(&mut self, core: u32, work: u32) {
        let c = &mut self.cpus.cores[core as usize];
        c.softirqs.push_back(work);
        if !c.running {
            self.run_core(core);
        }
    }

    /// A thread has something to do on a core, which has a batch under way.
    pub(crate) fn wake_thread(&mut self, core: u32, work: u32) {
        self.cpus.cores[core as usize].threads.push_back(work);
    }

    /// An idle core begins the next batch, if there is work.
    fn run_core(&mut self, core: u32) {
        let c = &mut self.cpus.cores[core as usize];
        if c.polling && c.ring_packets == 0 {
            c.polling = false;
        }
        let softirq = c.polling || !c.softirqs.is_empty();
        let thread = !c.threads.is_empty();
        if !(softirq && thread) {
            c.lead = 0;
            if !softirq && !thread {
                return;
            }
        }
        c.running = true;
        let takes_softirq = softirq && (!thread || c.lead <= 0);
        let mut batch = Batch { core, start: self.fabric.run.now, cycles: [0.0; 3] };
        if !takes_softirq {
            let work = self.cpus.cores[core as usize].threads.pop_front().expect("a thread waits");
            self.run_thread(work, &mut batch);
        } else if self.cpus.cores[core as usize].polling {
            self.poll(&mut batch);
        } else {
            // What is raised in the meantime waits for the next batch.
            for _ in 0..self.cpus.cores[core as usize].softirqs.len() {
                let work = self.cpus.cores[core as usize].softirqs.pop_front().expect("counted");
                self.run_softirq(work, &mut batch);
            }
        }
        let cpu = self.cpus.of(core);
        let end = batch.now(&cpu.model);
        let parts = batch.times(&cpu.model);
        let c = &mut self.cpus.cores[core as usize];
        let spent = end - self.fabric.run.now;
        c.batch = parts;
        for (sum, part) in c.spent.iter_mut().zip(parts) {
            *sum += part;
        }
        c.busy += spent;
        c.lead += if takes_softirq { spent.0 as i64 } else { -(spent.0 as i64) };
        c.busy_until = end;
        self.fabric.run.schedule(end, Event::Core(core));
    }

    /// Takes up to the budget of packets from a core's ring. Softirq work that waits besides goes along.
    fn poll(&mut self, batch: &mut Batch) {
        let core = batch.core;
        let host = self.cpus.cores[core as usize].host as usize;
        let cpu = self.cpus.hosts[host].as_mut().expect("the core is its");
        let c = &mut self.cpus.cores[core as usize];
        if std::mem::take(&mut c.interrupted) {
            batch.spend(Purpose::Interrupt, cpu.model.cycles_per_interrupt);
        }
        let mut polled = std::mem::take(&mut self.cpus.polled);
        let mut bytes = 0;
        while polled.len() < cpu.model.budget as usize {
            let Some(index) = c.ring.pop(&self.fabric.packets) else { break };
            bytes += self.fabric.packets[index].frame_bytes() as i64;
            polled.push(index);
        }
        c.ring_packets -= polled.len() as u32;
        c.polled_packets += polled.len() as u64;
        cpu.backlog.change(self.fabric.run.now, -bytes);
        batch.spend(Purpose::Softirq, polled.len() as f64 * cpu.model.cycles_per_packet);
        self.receive_polled(&polled, batch);
        polled.clear();
        self.cpus.polled = polled;
        for _ in 0..self.cpus.cores[core as usize].softirqs.len() {
            let work = self.cpus.cores[core as usize].softirqs.pop_front().expect("counted");
            self.run_softirq(work, batch);
        }
    }
}
