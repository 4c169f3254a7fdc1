//! What a veth pair and the namespaces at its ends are set by.

use std::ops::{Bound, RangeInclusive};
use tailback_proto::units::Time;

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
    pub(super) fn way_up(&self) -> Time {
        Time(self.stack.0 + self.rules as u64 * self.rule.0)
    }

    /// The same of an echo request.
    pub(super) fn way_up_of_echo(&self) -> Time {
        Time((self.way_up().0 as f64 * self.echo).round_ties_even() as u64)
    }
}
