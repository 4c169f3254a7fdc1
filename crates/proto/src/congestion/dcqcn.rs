//! DCQCN as ConnectX NICs ship it: notification point and reaction point.
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

use crate::units::{Rate, Time};

/// The parameters under their mlnx names, in the units that the NIC takes them in.
///
/// The last two fields choose among readings that the vendor's documents leave open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(deny_unknown_fields))]
pub struct MlnxParameters {
    /// 1/1024: share of alpha that remains after a period.
    pub dce_tcp_g: u32,
    /// us: period of the alpha update.
    pub dce_tcp_rtt: u32,
    /// 1/1024: alpha at a flow's first CNP.
    pub initial_alpha_value: u32,
    /// Mb/s: rate at a flow's first CNP; 0 = the line rate stays the start of the cut.
    pub rate_to_set_on_first_cnp: u32,
    /// %: one cut leaves at least this share of the rate.
    pub rpg_min_dec_fac: u32,
    /// Mb/s: a queue pair's lowest rate.
    pub rpg_min_rate: u32,
    /// log2 with alpha as a 10-bit fraction: 11 stands for a cut by alpha / 2.
    pub rpg_gd: u32,
    /// us: a CNP seen in a period cuts at the start of the next; at most one cut a period. 0 = at once.
    pub rate_reduce_monitor_period: u32,
    /// Every cut sets the target to the rate before it.
    pub clamp_tgt_rate: bool,
    /// Where not every cut does: a cut after an increase by the timer does, not only after one by the byte counter.
    pub clamp_tgt_rate_after_time_inc: bool,
    /// us: period of the increase timer.
    pub rpg_time_reset: u32,
    /// Data between two increases by the byte counter, in `byte_reset_unit_bytes`; 0 = no byte counter.
    pub rpg_byte_reset: u32,
    /// Increase events of either counter that are fast recovery.
    pub rpg_threshold: u32,
    /// Mb/s: additive increase of the target.
    pub rpg_ai_rate: u32,
    /// Mb/s: hyper increase of the target.
    pub rpg_hai_rate: u32,
    /// Mb/s: highest rate; 0 = line rate.
    pub rpg_max_rate: u32,
    /// Reading: the unit of `rpg_byte_reset`, 1 B or 64 B.
    pub byte_reset_unit_bytes: u32,
    /// Reading: once the highest rate is reached the limiter is released, and the next CNP is a first CNP again.
    pub release_at_max_rate: bool,
}

/// The NIC's rate registers count in Mb/s: a limiter within one step of the highest rate has reached it.
pub const RATE_STEP_BPS: f64 = 1e6;

/// [`MlnxParameters`] on a link of a given rate, in base units.
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
}

impl ReactionParameters {
    /// Resolves the parameters against the rate of the NIC's link.
    ///
    /// # Errors
    /// One line naming the parameter that makes no sense.
    pub fn new(mlnx: &MlnxParameters, line_rate: Rate) -> Result<Self, String> {
        let mbps = |n: u32| n as f64 * 1e6;
        let max_rate = match mlnx.rpg_max_rate {
            0 => line_rate.0 as f64,
            n => mbps(n).min(line_rate.0 as f64),
        };
        let checks = [
            (mlnx.dce_tcp_g <= 1024, "dce_tcp_g must be 0 to 1024"),
            (mlnx.dce_tcp_rtt > 0, "dce_tcp_rtt must be above 0"),
            (mlnx.initial_alpha_value <= 1024, "initial_alpha_value must be 0 to 1024"),
            (mlnx.rpg_min_dec_fac <= 100, "rpg_min_dec_fac must be 0 to 100"),
            ((10..=30).contains(&mlnx.rpg_gd), "rpg_gd must be 10 to 30"),
            (mlnx.rpg_time_reset > 0, "rpg_time_reset must be above 0"),
            (mlnx.rpg_min_rate > 0, "rpg_min_rate must be above 0"),
            (mbps(mlnx.rpg_min_rate) <= max_rate, "rpg_min_rate is above the highest rate"),
        ];
        if let Some((_, text)) = checks.iter().find(|(ok, _)| !ok) {
            return Err((*text).to_string());
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

/// The sender's side of DCQCN: one limiter a queue pair.
#[derive(Clone, Debug)]
pub struct ReactionPoint {
    rate: f64,
    target: f64,
    alpha: f64,
    /// Start of the alpha period that is running.
    alpha_at: Time,
    /// Start of the grid of rate-decrease periods: the first CNP.
    cut_grid_at: Time,
    /// When the pending cut happens.
    cut_at: Time,
    /// When the increase timer fires.
    increase_at: Time,
    bytes: u64,
    timer_events: u32,
    byte_events: u32,
    cnp_in_alpha_period: bool,
    /// Whether the limiter is on: from the first CNP until the highest rate is reached again.
    limited: bool,
}

impl ReactionPoint {
    /// A new flow: it starts at the highest rate, with no limiter.
    pub fn new(parameters: &ReactionParameters) -> Self {
        ReactionPoint {
            rate: parameters.max_rate,
            target: parameters.max_rate,
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

    /// The rate that the flow may send at, bit/s, as of the last input.
    pub fn rate(&self) -> f64 {
        self.rate
    }

    /// The rate that recovery aims at, bit/s.
    pub fn target(&self) -> f64 {
        self.target
    }

    /// The estimate of congestion, 0 to 1, as of the last input.
    pub fn alpha(&self) -> f64 {
        self.alpha
    }

    /// Whether a limiter is on.
    pub fn is_limited(&self) -> bool {
        self.limited
    }

    /// A CNP arrived for this queue pair.
    pub fn on_cnp(&mut self, p: &ReactionParameters, now: Time) {
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

    /// The flow sent `bytes` of data.
    #[inline]
    pub fn on_sent(&mut self, p: &ReactionParameters, now: Time, bytes: u64) {
        self.run_timers(p, now);
        // Both counters of increases start with the first cut.
        if self.increase_at == Time::NEVER || p.increase_bytes == 0 {
            return;
        }
        self.bytes += bytes;
        while self.bytes >= p.increase_bytes && self.limited {
            self.bytes -= p.increase_bytes;
            self.byte_events += 1;
            self.increase(p);
        }
    }

    /// Replays what happened up to `now`. Inputs do this themselves; call it to read rate and alpha between inputs.
    pub fn catch_up(&mut self, p: &ReactionParameters, now: Time) {
        self.run_timers(p, now);
        if self.limited {
            self.update_alpha(p, now);
        }
    }

    /// Replays cuts and timer increases up to `now`. Alpha, which only a cut reads, is left behind.
    #[inline]
    fn run_timers(&mut self, p: &ReactionParameters, now: Time) {
        while self.increase_at.min(self.cut_at) <= now {
            // At the same instant alpha comes before the increase, and the increase before the cut.
            if self.increase_at <= self.cut_at {
                self.increase_at += p.increase_period;
                self.timer_events += 1;
                self.increase(p);
            } else {
                let at = self.cut_at;
                self.update_alpha(p, at);
                self.cut(p, at);
            }
        }
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
        self.rate = (self.rate * (1.0 - self.alpha / p.gd)).max(self.rate * p.min_share_left).max(p.min_rate);
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

/// The receiver's side of DCQCN: turns CE marks into CNPs, never two closer than the minimum interval.
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
