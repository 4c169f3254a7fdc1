//! DCQCN as ConnectX NICs ship it: the reaction point. What CNPs answer is in [`super::notification_point`].
//!
//! Sources: Zhu et al., "Congestion Control for Large-Scale RDMA Deployments", SIGCOMM 2015 (the algorithm, section
//! 3.1 and figure 7); NVIDIA, "DCQCN CC Parameters" (the parameters under their mlnx names and their defaults).
//!
//! The reaction point catches up lazily. Its alpha timer fires every microsecond for each queue pair and nobody can
//! see that until the next CNP or packet, so no timer is ever asked for: every input first replays, in order of time,
//! what happened since the last one. A catch-up costs a step for each rate cut and each rate increase, and two table
//! look-ups for any number of alpha periods.
//!
//! Leaves out: the NIC's fixed-point arithmetic (alpha is a fraction of 2^10 there, an `f64` here), and the limit on
//! how many flows its hardware can limit at once.

use std::num::NonZeroU64;

use super::parameters::{Declared, Plain, Profile, Refused};
use super::{Controller, Link, Merged, Signal, Uses};
use crate::units::{Rate, Time};
use crate::{choice, parameters};

parameters! {
    /// DCQCN: a profile, and what differs from it under the mlnx names, in the NIC's own units.
    pub struct DcqcnParameters {
        /// Share of alpha that remains after a period, in 1/1024.
        dce_tcp_g: u32 = 1019, in 0..=1024, source NVIDIA;
        /// Period of the update of alpha, in us.
        dce_tcp_rtt: u32 = 1, in 1..=u32::MAX, source NVIDIA;
        /// Alpha at the first CNP of a flow, in 1/1024.
        initial_alpha_value: u32 = 1023, in 0..=1024, source NVIDIA;
        /// Rate at the first CNP, in Mb/s; 0: the line rate.
        rate_to_set_on_first_cnp: u32 = 0, in 0..=u32::MAX, source NVIDIA;
        /// Least share of the rate that a cut leaves, in %.
        rpg_min_dec_fac: u32 = 50, in 0..=100, source NVIDIA;
        /// Lowest rate of a queue pair, in Mb/s.
        rpg_min_rate: u32 = 1, in 1..=u32::MAX, source NVIDIA;
        /// A cut gives rate * (1 - alpha / 2^(rpg_gd - 10)).
        rpg_gd: u32 = 11, in 10..=30, source NVIDIA;
        /// At most one cut in this period, in us; 0: at each CNP.
        rate_reduce_monitor_period: u32 = 4, in 0..=u32::MAX, source NVIDIA;
        /// Every cut sets the target to the rate before it.
        clamp_tgt_rate: bool = false, source NVIDIA;
        /// If not every cut sets the target: a cut after an increase by the timer does, not only a cut after an
        /// increase by the byte counter.
        clamp_tgt_rate_after_time_inc: bool = true, source NVIDIA;
        /// Period of the timer of rate increases, in us.
        rpg_time_reset: u32 = 300, in 1..=u32::MAX, source NVIDIA;
        /// Data between two rate increases by the byte counter, in byte_reset_unit_bytes; 0: no byte counter.
        rpg_byte_reset: u32 = 32767, in 0..=u32::MAX, source NVIDIA;
        /// Increases of either counter before fast recovery ends.
        rpg_threshold: u32 = 1, in 0..=u32::MAX, source NVIDIA;
        /// Additive increase of the target, in Mb/s.
        rpg_ai_rate: u32 = 5, in 0..=u32::MAX, source NVIDIA;
        /// Hyper increase of the target, in Mb/s.
        rpg_hai_rate: u32 = 50, in 0..=u32::MAX, source NVIDIA;
        /// Highest rate, in Mb/s; 0: the line rate.
        rpg_max_rate: u32 = 0, in 0..=u32::MAX, source NVIDIA;
        /// Least time between two CNPs of the receiver, in us.
        min_time_between_cnps: u32 = 4, in 0..=u32::MAX, source NVIDIA;
        /// Reading: the unit of rpg_byte_reset, in bytes.
        byte_reset_unit_bytes: u32 = 64, of [1, 64], source UNIT;
        /// Reading: at the highest rate the limiter is released, and the next CNP is a first one again.
        release_at_max_rate: bool = true, source RELEASE;
        /// Reading: whether min_time_between_cnps holds for each queue pair, for each host that CNPs go to, or for the
        /// port.
        cnp_interval_per: CnpInterval = CnpInterval::Qp, of CnpInterval::ALL, source INTERVAL;
        /// Reading: a packet that waits for its turn leaves earlier when the rate rises meanwhile. If false, its turn
        /// does not move.
        wait_follows_rate: bool = true, source TOKENS;
        /// Reading: bytes on the wire that the rate limiter lets go at once, before it waits as long as they take at the
        /// rate; 0: it waits after each packet.
        limiter_burst_bytes: u32 = 0, in 0..=1 << 20, source BURST;
    }
}

/// The NIC's rate registers count in Mb/s: a limiter within one step of the highest rate has reached it.
pub const RATE_STEP_BPS: f64 = 1e6;

/// [`DcqcnParameters`] on a link of a given rate, in base units.
#[derive(Clone, Debug)]
pub struct ReactionParameters {
    alpha_period: Time,
    g: f64,
    /// `(1 - g)^k` and `(1 - g)^(256 k)`: what 65,536 numbers of alpha periods without a CNP leave of alpha.
    decay: Box<[[f64; 256]; 2]>,
    initial_alpha: f64,
    rate_on_first_cnp: Option<f64>,
    min_share_left: f64,
    min_rate: f64,
    gd: f64,
    cut_period: Time,
    clamp_target: bool,
    clamp_after_timer: bool,
    increase_period: Time,
    increase_bytes: u64,
    threshold: u32,
    additive: f64,
    hyper: f64,
    max_rate: f64,
    release_at_max: bool,
    wait_follows_rate: bool,
    burst: Option<NonZeroU64>,
}

impl ReactionParameters {
    /// Resolves the parameters against the rate of the NIC's link.
    ///
    /// # Errors
    /// The parameter that makes no sense.
    pub fn new(mlnx: &DcqcnParameters, line_rate: Rate) -> Result<Self, Refused> {
        mlnx.check()?;
        let mbps = |n: u32| n as f64 * 1e6;
        let max_rate = match mlnx.rpg_max_rate {
            0 => line_rate.0 as f64,
            n => mbps(n).min(line_rate.0 as f64),
        };
        if mbps(mlnx.rpg_min_rate) > max_rate {
            let limit = if max_rate < line_rate.bps() { "rpg_max_rate" } else { "the link's rate" };
            return Err(Refused::new("rpg_min_rate", format!("at most {limit}, {} Mb/s", max_rate / 1e6)));
        }
        let g = (1024 - mlnx.dce_tcp_g) as f64 / 1024.0;
        let powers_of = |base: f64| {
            let mut powers = [1.0; 256];
            for k in 1..powers.len() {
                powers[k] = powers[k - 1] * base;
            }
            powers
        };
        let fine = powers_of(1.0 - g);
        let decay = Box::new([fine, powers_of(fine[255] * (1.0 - g))]);
        Ok(ReactionParameters {
            alpha_period: Time::from_us(mlnx.dce_tcp_rtt as u64),
            g,
            decay,
            initial_alpha: mlnx.initial_alpha_value as f64 / 1024.0,
            rate_on_first_cnp: (mlnx.rate_to_set_on_first_cnp > 0)
                .then(|| mbps(mlnx.rate_to_set_on_first_cnp)),
            min_share_left: mlnx.rpg_min_dec_fac as f64 / 100.0,
            min_rate: mbps(mlnx.rpg_min_rate),
            gd: (1u64 << (mlnx.rpg_gd - 10)) as f64,
            cut_period: Time::from_us(mlnx.rate_reduce_monitor_period as u64),
            clamp_target: mlnx.clamp_tgt_rate,
            clamp_after_timer: mlnx.clamp_tgt_rate_after_time_inc,
            increase_period: Time::from_us(mlnx.rpg_time_reset as u64),
            increase_bytes: mlnx.rpg_byte_reset as u64 * mlnx.byte_reset_unit_bytes as u64,
            threshold: mlnx.rpg_threshold,
            additive: mbps(mlnx.rpg_ai_rate),
            hyper: mbps(mlnx.rpg_hai_rate),
            max_rate,
            release_at_max: mlnx.release_at_max_rate,
            wait_follows_rate: mlnx.wait_follows_rate,
            burst: NonZeroU64::new(mlnx.limiter_burst_bytes as u64),
        })
    }

    /// Highest rate, bit/s.
    pub fn max_rate(&self) -> f64 {
        self.max_rate
    }

    /// Lowest rate, bit/s.
    pub fn min_rate(&self) -> f64 {
        self.min_rate
    }

    /// `alpha` after `periods` alpha periods without a CNP.
    fn decayed(&self, mut alpha: f64, mut periods: u64) -> f64 {
        while periods >= 1 << 16 && alpha > 0.0 {
            alpha *= self.decay[1][255] * self.decay[1][1];
            periods -= 1 << 16;
        }
        alpha * self.decay[0][(periods % 256) as usize] * self.decay[1][(periods / 256 % 256) as usize]
    }
}

/// The sender's side of DCQCN: one limiter a queue pair. What each packet needs comes first.
#[derive(Clone, Debug)]
#[repr(C)]
pub struct ReactionPoint {
    rate: f64,
    /// When the pending cut happens.
    cut_at: Time,
    /// When the increase timer fires.
    increase_at: Time,
    bytes: u64,
    target: f64,
    alpha: f64,
    /// Start of the alpha period that is running.
    alpha_at: Time,
    /// Start of the grid of rate-decrease periods: the first CNP.
    cut_grid_at: Time,
    timer_events: u32,
    byte_events: u32,
    cnp_in_alpha_period: bool,
    /// True if the limiter is on: from the first CNP until the highest rate is reached again.
    limited: bool,
}

impl Controller for ReactionPoint {
    type Parameters = DcqcnParameters;
    type Law = ReactionParameters;

    const USES: Uses = Uses { cnps: true, ..Uses::NOTHING };
    const SIGNALS: &'static [Signal<Self>] = &[Signal {
        name: "alpha",
        unit: "",
        help: "The estimate of congestion, 0 to 1.",
        merged: Merged::Mean,
        read: |flow, _| flow.alpha,
    }];

    const PROFILES: &'static [Profile] = PROFILES;

    fn law(parameters: &DcqcnParameters, link: Link) -> Result<ReactionParameters, Refused> {
        ReactionParameters::new(parameters, link.rate)
    }

    fn burst_bytes(law: &ReactionParameters) -> Option<NonZeroU64> {
        law.burst
    }

    /// It starts at the highest rate, with no limiter.
    fn new(law: &ReactionParameters) -> Self {
        ReactionPoint {
            rate: law.max_rate,
            target: law.max_rate,
            alpha: 0.0,
            alpha_at: Time::ZERO,
            cut_grid_at: Time::ZERO,
            cut_at: Time::NEVER,
            increase_at: Time::NEVER,
            bytes: 0,
            timer_events: 0,
            byte_events: 0,
            cnp_in_alpha_period: false,
            limited: false,
        }
    }

    /// As of the last input.
    #[inline]
    fn rate(&self) -> f64 {
        self.rate
    }

    #[inline(always)] // a sender's packets have two ways out, both hot
    fn on_sent(&mut self, p: &ReactionParameters, now: Time, bytes: u64) {
        self.run_timers(p, now);
        // Both counters of increases start with the first cut.
        if self.increase_at == Time::NEVER || p.increase_bytes == 0 {
            return;
        }
        self.bytes += bytes;
        while self.bytes >= p.increase_bytes && self.limited {
            self.bytes -= p.increase_bytes;
            self.byte_events = self.byte_events.saturating_add(1);
            self.increase(p);
        }
    }

    fn on_cnp(&mut self, p: &ReactionParameters, now: Time) {
        self.catch_up(p, now);
        if !self.limited {
            self.limited = true;
            self.alpha = p.initial_alpha;
            self.alpha_at = now;
            self.cnp_in_alpha_period = false;
            if let Some(rate) = p.rate_on_first_cnp {
                self.rate = rate.clamp(p.min_rate, p.max_rate);
            }
            self.target = self.rate;
            self.cut_grid_at = now;
            self.cut_at = now + p.cut_period;
        } else {
            self.cnp_in_alpha_period = true;
            if self.cut_at == Time::NEVER {
                let period = p.cut_period.0.max(1);
                let periods = (now - self.cut_grid_at).0 / period;
                self.cut_at =
                    if p.cut_period.0 == 0 { now } else { self.cut_grid_at + Time((periods + 1) * period) };
            }
        }
        // A monitor period of zero cuts at once.
        self.run_timers(p, now);
    }

    fn followed_rate(&mut self, law: &ReactionParameters, now: Time) -> Option<f64> {
        law.wait_follows_rate.then(|| {
            self.run_timers(law, now);
            self.rate
        })
    }

    /// The timer's next increase. The byte counter counts nothing while a packet waits.
    #[inline]
    fn rises_at(&self, law: &ReactionParameters) -> Time {
        if law.wait_follows_rate {
            self.increase_at
        } else {
            Time::NEVER
        }
    }

    #[inline]
    fn is_at_min_rate(&self, law: &ReactionParameters) -> bool {
        self.rate <= law.min_rate
    }

    fn look(&self, law: &ReactionParameters, now: Time, read: impl FnOnce(&Self) -> f64) -> f64 {
        let mut flow = self.clone();
        flow.catch_up(law, now);
        read(&flow)
    }
}

/// The larger of two numbers: one instruction, where `f64::max` takes eight for what is no number.
#[inline]
fn larger(a: f64, b: f64) -> f64 {
    if a > b {
        a
    } else {
        b
    }
}

impl ReactionPoint {
    /// The rate that recovery aims at, bit/s.
    pub fn target(&self) -> f64 {
        self.target
    }

    /// The estimate of congestion, 0 to 1, as of the last input.
    pub fn alpha(&self) -> f64 {
        self.alpha
    }

    /// True if a limiter is on.
    pub fn is_limited(&self) -> bool {
        self.limited
    }

    /// Replays what happened up to `now`. Inputs do this themselves; call it to read rate and alpha between inputs.
    #[inline]
    pub fn catch_up(&mut self, p: &ReactionParameters, now: Time) {
        self.run_timers(p, now);
        if self.limited {
            self.update_alpha(p, now);
        }
    }

    /// Replays cuts and timer increases up to `now`. Alpha, which only a cut reads, is left behind.
    #[inline(always)] // the test alone: a third of a slow flow's packets find one due
    fn run_timers(&mut self, p: &ReactionParameters, now: Time) {
        if self.increase_at.min(self.cut_at) <= now {
            self.run_due_timers(p, now);
        }
    }

    /// Mostly one cut is due, which a loop around it would make dearer.
    #[inline(never)]
    fn run_due_timers(&mut self, p: &ReactionParameters, now: Time) {
        self.run_next_timer(p, now);
        if self.increase_at.min(self.cut_at) <= now {
            self.run_more_timers(p, now);
        }
    }

    #[cold]
    fn run_more_timers(&mut self, p: &ReactionParameters, now: Time) {
        while self.increase_at.min(self.cut_at) <= now {
            self.run_next_timer(p, now);
        }
    }

    /// Replays the next cut or timer increase, which is due.
    #[inline(always)] // as above
    fn run_next_timer(&mut self, p: &ReactionParameters, now: Time) {
        // At the same instant alpha comes before the increase, and the increase before the cut.
        if self.increase_at <= self.cut_at {
            return self.increase_by_timer(p, now);
        }
        let at = self.cut_at;
        self.update_alpha(p, at);
        self.cut(p, at);
    }

    #[inline(never)] // cuts are many, with CNPs
    fn increase_by_timer(&mut self, p: &ReactionParameters, now: Time) {
        let before = (self.rate, self.target);
        self.increase_at += p.increase_period;
        self.timer_events = self.timer_events.saturating_add(1);
        self.increase(p);
        if (self.rate, self.target) == before {
            self.skip_increases(p, now);
        }
    }

    /// An increase by the timer changed nothing: neither do those after it, until a counter passes the threshold or there
    /// is a cut. So a flow that was silent for hours has no millions of them to replay.
    fn skip_increases(&mut self, p: &ReactionParameters, now: Time) {
        let until = now.min(self.cut_at);
        if self.increase_at > until {
            return;
        }
        let due = (until - self.increase_at).0 / p.increase_period.0 + 1;
        // A counter at its end passes no threshold.
        let to_threshold =
            p.threshold.checked_sub(self.timer_events).filter(|_| self.timer_events < u32::MAX);
        let alike = to_threshold.map_or(u64::MAX, u64::from);
        let skipped = due.min(alike);
        self.increase_at += Time(skipped * p.increase_period.0);
        self.timer_events = self.timer_events.saturating_add(skipped.min(u32::MAX as u64) as u32);
    }

    fn update_alpha(&mut self, p: &ReactionParameters, now: Time) {
        let periods = (now - self.alpha_at).0 / p.alpha_period.0;
        if periods == 0 {
            return;
        }
        self.alpha_at += Time(periods * p.alpha_period.0);
        self.alpha *= 1.0 - p.g;
        if self.cnp_in_alpha_period {
            self.alpha += p.g;
            self.cnp_in_alpha_period = false;
        }
        self.alpha = p.decayed(self.alpha, periods - 1);
    }

    fn cut(&mut self, p: &ReactionParameters, at: Time) {
        if p.clamp_target || self.byte_events > 0 || (self.timer_events > 0 && p.clamp_after_timer) {
            self.target = self.rate;
        }
        let rate = larger(self.rate * (1.0 - self.alpha / p.gd), self.rate * p.min_share_left);
        self.rate = larger(rate, p.min_rate);
        self.timer_events = 0;
        self.byte_events = 0;
        self.bytes = 0;
        self.increase_at = at + p.increase_period;
        self.cut_at = Time::NEVER;
    }

    fn increase(&mut self, p: &ReactionParameters) {
        if self.timer_events.min(self.byte_events) > p.threshold {
            self.target += p.hyper;
        } else if self.timer_events.max(self.byte_events) > p.threshold {
            self.target += p.additive;
        }
        self.target = self.target.min(p.max_rate);
        self.rate = (self.rate + self.target) / 2.0;
        // A CNP whose cut is still to come keeps the limiter on.
        if p.release_at_max && self.cut_at == Time::NEVER && p.max_rate - self.rate < RATE_STEP_BPS {
            *self = ReactionPoint::new(p);
        }
    }
}

// DCQCN as it is shipped and as it was published: profiles of its parameters, and where their values are from.

const NVIDIA: &str = "NVIDIA \"DCQCN CC Parameters\", defaults";

const UNIT: &str = "assumption: 64 B makes 2 MB, a test vendor's default; bytes, as a tool's help text has it, bring a queue pair back \
    in 6 ms, 64 B in 0.1 s, and a ConnectX-5 took 0.45 s";
const RELEASE: &str = "assumption: a tool's help text: at rpg_max_rate the rate limiter is released";
const INTERVAL: &str = "assumption: documents differ; for a host or the port, RoCE Rocks would pause on";
const TOKENS: &str =
    "NVIDIA \"Packet Pacing\" (5T): tokens by a clock; assumption: DCQCN's limiter is of that kind";
const BURST: &str =
    "assumption: no document says; a BlueField-3 at 4 to 18 Mbit/s sent a CNP per 6 to 7 packets, all of them marked";
const NOT_GIVEN: &str = "assumption: not given there; the connectx value";

macro_rules! zhu {
    ($text:literal) => {
        concat!("Zhu et al., SIGCOMM 2015, ", $text)
    };
}

const PROFILES: &[Profile] = &[
    Profile {
        name: "connectx",
        about: "ConnectX-4 and later as shipped",
        source: NVIDIA,
        values: &[],
        sources: &[],
        per_25_gbps: &[],
    },
    Profile {
        name: "sigcomm15",
        about: "The paper's own evaluation at 40 Gbit/s",
        source: zhu!("sections 3.1 and 5"),
        values: &[
            ("dce_tcp_g", Plain::Whole(1020)),
            ("dce_tcp_rtt", Plain::Whole(55)),
            ("initial_alpha_value", Plain::Whole(1024)),
            ("rate_reduce_monitor_period", Plain::Whole(0)),
            ("clamp_tgt_rate", Plain::Flag(true)),
            ("rpg_time_reset", Plain::Whole(55)),
            ("rpg_byte_reset", Plain::Whole(10_000_000)),
            ("byte_reset_unit_bytes", Plain::Whole(1)),
            ("rpg_threshold", Plain::Whole(5)),
            ("rpg_ai_rate", Plain::Whole(40)),
            ("rpg_hai_rate", Plain::Whole(50)),
            ("min_time_between_cnps", Plain::Whole(50)),
            ("release_at_max_rate", Plain::Flag(false)),
        ],
        sources: &[
            ("dce_tcp_g", zhu!("section 5: g = 1/256, so (1024 - 4)/1024 of alpha remains")),
            ("dce_tcp_rtt", zhu!("section 5: alpha timer 55 us")),
            ("initial_alpha_value", zhu!("section 3.1: alpha starts at 1")),
            ("rpg_min_rate", NOT_GIVEN),
            ("rpg_min_dec_fac", zhu!("equation 1: a cut by alpha/2 never takes more than half")),
            ("rate_reduce_monitor_period", zhu!("equation 1: a cut on each CNP, at once")),
            ("clamp_tgt_rate", zhu!("equation 1: every cut sets the target to the rate before it")),
            ("clamp_tgt_rate_after_time_inc", "assumption: without effect where every cut sets the target"),
            ("rpg_time_reset", zhu!("section 5: rate timer 55 us")),
            ("rpg_byte_reset", zhu!("section 5: byte counter 10 MB")),
            ("rpg_threshold", zhu!("section 3.1: F = 5")),
            ("rpg_ai_rate", zhu!("section 3.1: R_AI = 40 Mb/s")),
            ("rpg_hai_rate", "assumption: the paper gives no figure; the connectx value"),
            ("min_time_between_cnps", zhu!("section 3.1: 50 us")),
            ("byte_reset_unit_bytes", zhu!("section 5: byte counter 10 MB")),
            ("release_at_max_rate", zhu!("figure 7: nothing there releases the limiter")),
            ("cnp_interval_per", zhu!("section 3.1: for each flow")),
            ("wait_follows_rate", TOKENS),
            ("limiter_burst_bytes", BURST),
        ],
        per_25_gbps: &[],
    },
    Profile {
        name: "alibaba",
        about: "Alibaba's production setting; its ECN (100 KB, 400 KB per 25 Gbit/s) belongs to the switch",
        source: "Li et al. (HPCC), SIGCOMM 2019, the DCQCN that Alibaba runs",
        values: &[
            ("dce_tcp_g", Plain::Whole(1020)),
            ("rpg_min_rate", Plain::Whole(1000)),
            ("rpg_byte_reset", Plain::Whole(0)),
        ],
        sources: &[
            ("byte_reset_unit_bytes", UNIT),
            ("release_at_max_rate", RELEASE),
            ("cnp_interval_per", INTERVAL),
            ("wait_follows_rate", TOKENS),
            ("limiter_burst_bytes", BURST),
            ("dce_tcp_g", "Li et al. (HPCC), SIGCOMM 2019: g = 1/256, so (1024 - 4)/1024 of alpha remains"),
            ("initial_alpha_value", NOT_GIVEN),
            ("rate_to_set_on_first_cnp", NOT_GIVEN),
            ("rpg_min_dec_fac", NOT_GIVEN),
            ("rpg_gd", NOT_GIVEN),
            ("clamp_tgt_rate", NOT_GIVEN),
            ("clamp_tgt_rate_after_time_inc", NOT_GIVEN),
            ("rpg_byte_reset", "assumption: not given there; the authors' simulator has no byte counter"),
            ("rpg_max_rate", NOT_GIVEN),
            ("min_time_between_cnps", NOT_GIVEN),
        ],
        per_25_gbps: &["rpg_ai_rate", "rpg_hai_rate"],
    },
];

// The receiver's side of DCQCN: marks become congestion notification packets (CNPs).
//
// Source: Zhu et al., "Congestion Control for Large-Scale RDMA Deployments", SIGCOMM 2015, section 3.1.

choice! {
    /// What the least time between two CNPs holds for.
    pub enum CnpInterval {
        /// Each queue pair.
        Qp = "qp",
        /// All queue pairs whose CNPs go to one host together.
        Destination = "destination",
        /// All queue pairs of a port together.
        Port = "port",
    }
}

/// Turns CE marks into CNPs, never two closer than the minimum interval.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NotificationPoint {
    next_at: Time,
}

impl NotificationPoint {
    /// A packet with a CE mark arrived. Returns whether to send a CNP.
    pub fn on_ecn_marked(&mut self, now: Time, min_time_between_cnps: Time) -> bool {
        if now < self.next_at {
            return false;
        }
        self.next_at = now + min_time_between_cnps;
        true
    }
}
