//! Random early detection, as `tc`'s `red` does it.
//!
//! Sources: Linux include/net/red.h and net/sched/sch_red.c; Floyd and Jacobson, "Random Early Detection Gateways
//! for Congestion Avoidance", IEEE/ACM Transactions on Networking, 1993. What `tc` makes of its arguments: iproute2
//! tc/tc_red.c, tc/q_red.c and tc/tc_core.c.
//!
//! The average of the queue is kept in fixed point with the binary point at `w_log`, and moves with each packet that
//! arrives by 2^-w_log of its distance to the queue that the packet finds. A queue that was found empty by the *device*
//! is idle; at the next packet the average decays by a table over the idle time instead. Below a `tbf` that never
//! happens: the parent looks at the queue's head and does not ask an empty queue for a packet.
//!
//! `tc` builds the table in ticks of 64 ns (/proc/net/psched), but the kernel indexes it with
//! microseconds, so an idle average decays 15.6 times slower than `bandwidth` asks for. It does here, too.
//!
//! Leaves out: adaptive RED, `nodrop`, qevents and offload to a switch.

use std::ops::Bound;

use super::qdisc::{DropReason, Enqueue, Fifo, FifoLimit, Skb};
use super::{LIMIT_BYTES, LIMIT_PACKETS};
use crate::parameters::Declared;
use crate::units::{Bytes, Rate, Time};

/// Entries of the idle table: include/net/red.h, `RED_STAB_SIZE`.
const STAB_ENTRIES: usize = 256;

/// Ticks of a microsecond as iproute2 reads them from /proc/net/psched: 1000 ns over 64 ns (`PSCHED_SHIFT` is 6).
const TICKS_PER_US: f64 = 1000.0 / 64.0;

/// Greatest shift of the table: iproute2 tc/tc_red.c.
const MAX_SHIFT: f64 = 31.0;

crate::parameters! {
    /// Random early detection: marks or drops by the average of the queue.
    pub struct RedArguments {
        /// Most bytes that wait.
        limit: Bytes, in LIMIT_BYTES;
        /// Average from which on packets are marked with a probability; null: a third of max.
        min: Bytes, or null, in LIMIT_BYTES, source SOURCE;
        /// Average from which on all packets are marked; null: three times min, without min a quarter of limit.
        max: Bytes, or null, in LIMIT_BYTES, source SOURCE;
        /// Size of an average packet.
        avpkt: Bytes, in Bytes(1)..=Bytes(65_535);
        /// Packets of a burst that is let through: with avpkt and min it gives the weight of the average. null: (2 min + max)
        /// / (3 avpkt).
        burst: u32, or null, in LIMIT_PACKETS, source SOURCE;
        /// Rate by which the average of an idle queue decays.
        bandwidth: Rate = Rate::from_mbps(10), in TC_RATES, source SOURCE;
        /// Probability at max.
        probability: f64 = 0.02, in PROBABILITY, source SOURCE;
        /// Mark ECT packets instead of dropping them; others are dropped.
        ecn: bool = false, source SOURCE;
        /// With ecn: above max drop ECT packets, too.
        harddrop: bool = false, source SOURCE;
        /// Whether tc counts the time of avpkt at bandwidth in whole microseconds, rounded down. Where that gives 0,
        /// an idle average is halved at once, and gone after 255 us.
        whole_us: bool = false, source "iproute2 tc/tc_core.c from 2025 on; before that: true";
    }
}

const SOURCE: &str = "iproute2 tc/q_red.c";

/// What tc takes where it keeps 32 bits of bytes a second.
const TC_RATES: std::ops::RangeInclusive<Rate> = Rate(8)..=Rate(u32::MAX as u64 * 8);

/// More than never, less than always.
const PROBABILITY: (Bound<f64>, Bound<f64>) = (Bound::Excluded(0.0), Bound::Excluded(1.0));

/// What the kernel works with.
#[derive(Clone, Debug, PartialEq)]
pub struct RedParameters {
    /// Most bytes that wait.
    pub limit_bytes: u32,
    /// Lower threshold, bytes.
    pub min_bytes: u32,
    /// Upper threshold, bytes.
    pub max_bytes: u32,
    /// Weight of a packet's queue in the average: 2^-w_log.
    pub w_log: u8,
    /// Probability at `max_bytes`, in units of 2^-32.
    pub max_p: u32,
    /// An entry of `stab` stands for 2^scell_log us.
    pub scell_log: u8,
    /// By how many bits the average of an idle queue is shifted down.
    pub stab: [u8; STAB_ENTRIES],
    /// Mark packets that say ECT instead of dropping them.
    pub ecn: bool,
    /// Above `max_bytes` drop ECT packets, too.
    pub harddrop: bool,
}

/// The smallest W with burst + 1 - min / avpkt <= (1 - (1 - 2^-W)^burst) / 2^-W: iproute2 `tc_red_eval_ewma`.
///
/// # Errors
/// No such W below 32: the burst is below min / avpkt, or far too large.
pub fn w_log(min_bytes: u32, burst_packets: u32, avpkt_bytes: u32) -> Result<u8, String> {
    let least = burst_packets as f64 + 1.0 - min_bytes as f64 / avpkt_bytes as f64;
    if least < 1.0 {
        let enough = 1 + min_bytes / avpkt_bytes;
        return Err(format!(
            "burst is {burst_packets}, too small for this min and avpkt; {enough} is enough"
        ));
    }
    let mut weight = 0.5;
    for w_log in 1..32 {
        if least <= (1.0 - libm::pow(1.0 - weight, burst_packets as f64)) / weight {
            return Ok(w_log);
        }
        weight /= 2.0;
    }
    Err(format!("burst is {burst_packets}, too large for an average"))
}

/// The table of idle decay and its `scell_log`: iproute2 `tc_red_eval_idle_damping`.
///
/// Where `whole_us` leaves nothing of a packet's time, `tc` divides by 0, and what x86-64 makes of the result is a table of
/// zeros with 31 at its end: an idle average is halved within a microsecond, and gone after 255.
///
/// # Errors
/// The rate is too low for 32 bits of time.
pub fn idle_table(
    w_log: u8,
    avpkt_bytes: u32,
    bandwidth_bps: u64,
    whole_us: bool,
) -> Result<(u8, [u8; STAB_ENTRIES]), String> {
    let us = 1e6 * (avpkt_bytes as f64 / (bandwidth_bps as f64 / 8.0));
    let ticks = match whole_us {
        false => libm::ceil(us * TICKS_PER_US),
        true => libm::floor(libm::floor(us) * TICKS_PER_US),
    };
    if ticks == 0.0 {
        let mut stab = [0; STAB_ENTRIES];
        stab[STAB_ENTRIES - 1] = MAX_SHIFT as u8;
        return Ok((0, stab));
    }
    let bits_per_tick = -libm::log(1.0 - 1.0 / (1u64 << w_log) as f64) / ticks;
    let longest = MAX_SHIFT / bits_per_tick;
    let scell_log = (0..32u8)
        .find(|&log| longest / ((1u64 << log) as f64) < 2.0 * STAB_ENTRIES as f64)
        .ok_or("bandwidth is too low for the table of idle times")?;
    let mut stab = [0; STAB_ENTRIES];
    for (cell, shift) in stab.iter_mut().enumerate().skip(1) {
        *shift = (((cell as u64) << scell_log) as f64 * bits_per_tick).min(MAX_SHIFT) as u8;
    }
    stab[STAB_ENTRIES - 1] = MAX_SHIFT as u8;
    Ok((scell_log, stab))
}

impl RedArguments {
    /// What `tc` makes of them.
    ///
    /// # Errors
    /// One line naming the argument that `tc` or the kernel refuses.
    pub fn parameters(&self) -> Result<RedParameters, String> {
        self.check().map_err(|refused| refused.to_string())?;
        let bytes = |size: Bytes| size.0 as u32;
        let [limit_bytes, min_bytes, max_bytes, avpkt_bytes] =
            [self.limit, self.min, self.max, self.avpkt].map(bytes);
        if max_bytes <= min_bytes {
            return Err("max is not above min".into());
        }
        let w_log = w_log(min_bytes, self.burst, avpkt_bytes)?;
        // red_check_params() of the kernel: thresholds with their binary point must have 31 bits.
        if u32::BITS - max_bytes.leading_zeros() + w_log as u32 >= u32::BITS {
            return Err(format!(
                "max with an average over 2^{w_log} packets does not fit the kernel's 32 bits"
            ));
        }
        let (scell_log, stab) = idle_table(w_log, avpkt_bytes, self.bandwidth.0, self.whole_us)?;
        Ok(RedParameters {
            limit_bytes,
            min_bytes,
            max_bytes,
            w_log,
            max_p: (self.probability * 4_294_967_296.0) as u32,
            scell_log,
            stab,
            ecn: self.ecn,
            harddrop: self.harddrop,
        })
    }
}

/// Counters, as `tc -s qdisc` prints them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RedStatistics {
    /// Packets marked.
    pub marked: u64,
    /// Packets dropped before the queue was full, by probability or because the average was above max.
    pub early: u64,
    /// Packets dropped because the queue was full.
    pub pdrop: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Action {
    Pass,
    Probability,
    Hard,
}

/// State.
#[derive(Clone, Debug)]
pub struct Red {
    parameters: RedParameters,
    fifo: Fifo,
    /// Thresholds with their binary point.
    min: u64,
    max: u64,
    /// Probability by byte of the average, in units of 2^-32: what a random number is divided by.
    probability_step: u32,
    /// Average, binary point at w_log.
    average: u64,
    /// When the queue last became idle.
    idle_since: Option<Time>,
    /// Packets since the last mark between the thresholds; -1: none since the average got there.
    count: i64,
    /// R: the product of count and excess that marks.
    random: u32,
    statistics: RedStatistics,
}

impl Red {
    /// An empty queue; it is idle from the start of the run.
    pub fn new(parameters: &RedParameters) -> Self {
        let p = parameters.clone();
        Red {
            fifo: Fifo::new(FifoLimit::Bytes(p.limit_bytes)),
            min: (p.min_bytes as u64) << p.w_log,
            max: (p.max_bytes as u64) << p.w_log,
            probability_step: (p.max_p / (p.max_bytes - p.min_bytes)).max(1),
            average: 0,
            idle_since: Some(Time::ZERO),
            count: -1,
            random: 0,
            statistics: RedStatistics::default(),
            parameters: p,
        }
    }

    /// Average of the queue, bytes, with its binary point at `w_log` of the parameters.
    pub fn average(&self) -> u64 {
        self.average
    }

    /// Average of the queue, bytes, rounded down.
    pub fn average_bytes(&self) -> u64 {
        self.average >> self.parameters.w_log
    }

    /// Counters.
    pub fn statistics(&self) -> &RedStatistics {
        &self.statistics
    }

    /// Offers a packet. `random` gives 32 random bits and is asked for at most once.
    pub fn enqueue(&mut self, skb: Skb, now: Time, random: impl FnOnce() -> u32) -> Enqueue {
        self.average = match self.idle_since.take() {
            None => self.average + self.fifo.backlog_bytes() - self.average_bytes(),
            Some(since) => self.decayed((now.saturating_sub(since)).ps() / 1_000_000),
        };
        let can_mark = self.parameters.ecn && skb.ect;
        let marked = match self.action(random) {
            Action::Pass => false,
            Action::Probability if can_mark => true,
            Action::Hard if can_mark && !self.parameters.harddrop => true,
            action => {
                self.statistics.early += 1;
                return Enqueue::Dropped(match action {
                    Action::Probability => DropReason::EarlyProbability,
                    _ => DropReason::EarlyForced,
                });
            }
        };
        // The kernel counts a mark even where the queue then turns out to be full.
        self.statistics.marked += marked as u64;
        match self.fifo.enqueue(skb, now) {
            Enqueue::Queued { .. } => Enqueue::Queued { marked },
            dropped => {
                self.statistics.pdrop += 1;
                dropped
            }
        }
    }

    /// The average after an idle time: shifted by the table, or where that says 0 bits, less a linear part of it.
    fn decayed(&self, idle_us: u64) -> u64 {
        let p = &self.parameters;
        let idle_us = idle_us.min((STAB_ENTRIES as u64 - 1) << p.scell_log);
        match p.stab[(idle_us >> p.scell_log) as usize] {
            0 => {
                let part = ((self.average as u128 * idle_us as u128) >> p.scell_log) as u64;
                let half = self.average >> 1;
                if part < half {
                    self.average - part
                } else {
                    half
                }
            }
            shift => self.average >> shift,
        }
    }

    /// Marks are spread evenly, at most 1 / probability apart: R is drawn once for each.
    fn action(&mut self, random: impl FnOnce() -> u32) -> Action {
        if self.average < self.min || self.average >= self.max {
            self.count = -1;
            return if self.average < self.min { Action::Pass } else { Action::Hard };
        }
        self.count += 1;
        let marks = self.count > 0 && {
            let excess = (self.average - self.min) >> self.parameters.w_log;
            excess * self.count as u64 >= self.random as u64
        };
        if marks || self.count == 0 {
            self.count = 0;
            self.random = random() / self.probability_step;
        }
        if marks {
            Action::Probability
        } else {
            Action::Pass
        }
    }

    /// Takes the packet at the head; without one the queue is idle from now on.
    pub fn dequeue(&mut self, now: Time) -> Option<Skb> {
        let skb = self.fifo.dequeue();
        if skb.is_none() && self.idle_since.is_none() {
            self.idle_since = Some(now);
        }
        skb
    }

    /// The packet at the head.
    pub fn peek(&self) -> Option<&Skb> {
        self.fifo.peek()
    }

    /// Bytes waiting.
    pub fn backlog_bytes(&self) -> u64 {
        self.fifo.backlog_bytes()
    }

    /// Packets waiting.
    pub fn qlen(&self) -> usize {
        self.fifo.qlen()
    }
}

// ECN marking between two thresholds, as RoCE switches do it.
//
// Source: Zhu et al., "Congestion Control for Large-Scale RDMA Deployments", SIGCOMM 2015, section 3.1,
// figure 5 (congestion point): never below K_min, with a probability that rises linearly to P_max at K_max,
// always above K_max. The queue is the instantaneous depth of the egress queue of the packet's class.
//
// Leaves out: averaging of the queue (the paper uses none; `tc`'s RED does).

crate::parameters! {
    /// Thresholds of ECN marking.
    pub struct EcnParameters {
        /// No marks up to this queue; for all ports, or by the port's rate.
        k_min: Bytes = Bytes(150_000), source format!("{ROCKS}, section 3.1");
        /// Every packet is marked above this queue; for all ports, or by the port's rate.
        k_max: Bytes = Bytes(1_500_000), source format!("{ROCKS}, section 3.1");
        /// Probability of a mark at k_max; it grows in a straight line from 0 at k_min. For all ports, or by the port's rate.
        p_max: f64 = 1.0, in 0.0..=1.0,
            source "Mellanox community DOC-2500: always marked above the maximum, linear between";
    }
    worked out {
        /// Rate of the ports that it is for, bit/s; none: all ports whose rate has no entry.
        rate_bps: Option<u64>;
        /// Priorities that it is for.
        priorities: Vec<u8>;
    }
}

const ROCKS: &str = "\"RoCE Rocks without PFC\"";

impl EcnParameters {
    /// Of the entries of a switch the one for a class of a port.
    pub fn of(entries: &[EcnParameters], rate: Rate, class: u8) -> Option<&EcnParameters> {
        let with = |rate: Option<u64>| {
            entries.iter().find(|ecn| ecn.rate_bps == rate && ecn.priorities.contains(&class))
        };
        with(Some(rate.0)).or_else(|| with(None))
    }

    pub fn thresholds(&self) -> EcnThresholds {
        EcnThresholds { k_min_bytes: self.k_min.0, k_max_bytes: self.k_max.0, p_max: self.p_max }
    }
}

crate::in_plans! {
    /// Marking thresholds of one egress queue.
    #[derive(Clone, Copy, Debug, PartialEq)]
    pub struct EcnThresholds {
        /// Bytes up to which nothing is marked.
        pub k_min_bytes: u64,
        /// Bytes above which every packet is marked.
        pub k_max_bytes: u64,
        /// Marking probability at `k_max_bytes`, 0 to 1.
        pub p_max: f64,
    }
}

impl EcnThresholds {
    /// Probability of marking a packet that leaves `queue_bytes` behind it.
    pub fn probability(&self, queue_bytes: u64) -> f64 {
        if queue_bytes <= self.k_min_bytes {
            0.0
        } else if queue_bytes > self.k_max_bytes {
            1.0
        } else {
            let above = (queue_bytes - self.k_min_bytes) as f64;
            self.p_max * above / (self.k_max_bytes - self.k_min_bytes) as f64
        }
    }

    /// True if to mark; `draw` gives a number in [0, 1) and is asked for only between the thresholds.
    #[inline(always)] // each packet of a queue takes it: a call would cost more than the rest
    pub fn mark(&self, queue_bytes: u64, draw: impl FnOnce() -> f64) -> bool {
        if queue_bytes <= self.k_min_bytes {
            return false;
        }
        queue_bytes > self.k_max_bytes || draw() < self.probability(queue_bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const THRESHOLDS: EcnThresholds =
        EcnThresholds { k_min_bytes: 150_000, k_max_bytes: 1_500_000, p_max: 0.5 };

    #[test]
    fn probability_is_zero_linear_one() {
        assert_eq!(THRESHOLDS.probability(150_000), 0.0);
        // Half-way between 150 KB and 1500 KB is 825 KB: half of P_max.
        assert_eq!(THRESHOLDS.probability(825_000), 0.25);
        assert_eq!(THRESHOLDS.probability(1_500_000), 0.5);
        assert_eq!(THRESHOLDS.probability(1_500_001), 1.0);
    }

    #[test]
    fn equal_thresholds_are_a_step() {
        let step = EcnThresholds { k_min_bytes: 1000, k_max_bytes: 1000, p_max: 1.0 };
        assert!(!step.mark(1000, || unreachable!("no draw at a step")));
        assert!(step.mark(1001, || unreachable!("no draw at a step")));
    }
}
