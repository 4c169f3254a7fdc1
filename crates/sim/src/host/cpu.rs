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

use crate::cores::{Core, Purpose, PURPOSES};
use crate::engine::{stream, uniform, Fifo};
use crate::gauge::Gauge;

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
            source format!("assumption: of the order of {CAI}, section 3: about a million packets per second and core \
                without GRO");
        /// Cycles of each unit that goes through the stack: merged segments up, an ACK or a burst down.
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

    /// What it took by purpose: whole picoseconds, which add up.
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
    /// What waits for softirq time besides the ring.
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

    /// What waits in the receive rings of a host that has a CPU.
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
