//! DCQCN's reaction point as that simulator has it (`rdma-hw.cc`, the functions ending in `Mlx`).
//!
//! It differs from the NICs' in `proto::congestion::dcqcn`: no byte counter, the first CNP cuts nothing, target and
//! rate are whole bit/s, hyper increase adds the same step each time, and an increase ends in the middle between the
//! truncated halves. Alpha is updated when it is needed, one period after the other because the rounding of each product
//! counts.

use super::super::plan::Dcqcn;

/// Parameters; times in ps.
#[derive(Clone, Copy, Debug)]
pub struct Parameters {
    alpha_period: u64,
    /// Between two looks for a cut.
    pub cut_period: u64,
    /// Between a cut and an increase, and between increases.
    pub increase_period: u64,
    g: f64,
    clamp_target: bool,
    fast_recovery: u32,
    additive: u64,
    hyper: u64,
    min_rate: u64,
}

impl From<&Dcqcn> for Parameters {
    fn from(cc: &Dcqcn) -> Self {
        let us = |us: u32| us as u64 * 1_000_000;
        Parameters {
            alpha_period: us(cc.alpha_resume_us),
            cut_period: us(cc.rate_decrease_us),
            increase_period: us(cc.rp_timer_us),
            g: cc.ewma_gain,
            clamp_target: cc.clamp_target_rate,
            fast_recovery: cc.fast_recovery_times,
            additive: cc.rate_ai_bps,
            hyper: cc.rate_hai_bps,
            min_rate: cc.min_rate_bps,
        }
    }
}

impl Parameters {
    /// When the first look for a cut comes after the first CNP: 1 ns late, so that alpha is updated before it.
    pub fn first_cut(&self) -> u64 {
        self.cut_period + 1_000
    }
}

/// A queue pair's rate. Rates in bit/s, times in ps.
#[derive(Clone, Debug)]
pub struct ReactionPoint {
    /// What packets are sent at.
    pub rate: u64,
    /// What the rate recovers towards.
    pub target: u64,
    /// Estimate of the congestion, as of the last update.
    pub alpha: f64,
    /// When alpha is updated next; none before the first CNP.
    next_alpha: Option<u64>,
    /// Increases since the last cut.
    pub stage: u32,
    alpha_flag: bool,
    cut_flag: bool,
}

impl ReactionPoint {
    /// A queue pair at line rate.
    pub fn new(line_rate: u64) -> Self {
        ReactionPoint {
            rate: line_rate,
            target: line_rate,
            alpha: 1.0,
            next_alpha: None,
            stage: 0,
            alpha_flag: false,
            cut_flag: false,
        }
    }

    /// A flagged ACK came at `now`, which the sender's last switch or host began to send at `sent`. True at the first
    /// one: the looks for a cut begin.
    ///
    /// An alpha update of the same instant was scheduled one period before it and the ACK's arrival at `sent`;
    /// whichever was scheduled first happens first.
    #[inline]
    pub fn on_cnp(&mut self, p: &Parameters, now: u64, sent: u64) -> bool {
        self.cut_flag = true;
        let Some(next) = self.next_alpha else {
            self.alpha = 1.0;
            self.alpha_flag = false;
            self.target = self.rate;
            self.next_alpha = Some(now + p.alpha_period);
            return true;
        };
        if next <= now {
            let alpha_is_first = now.saturating_sub(p.alpha_period) < sent;
            self.update_alpha(p, if alpha_is_first { now } else { now - 1 });
        }
        self.alpha_flag = true;
        false
    }

    /// Updates alpha up to and including `now`.
    pub fn update_alpha(&mut self, p: &Parameters, now: u64) {
        let Some(mut next) = self.next_alpha else { return };
        while next <= now {
            self.alpha =
                if self.alpha_flag { (1.0 - p.g) * self.alpha + p.g } else { (1.0 - p.g) * self.alpha };
            self.alpha_flag = false;
            next += p.alpha_period;
        }
        self.next_alpha = Some(next);
    }

    /// A look for a cut. True where there was one: the increases start anew.
    #[inline]
    pub fn on_cut_timer(&mut self, p: &Parameters, now: u64) -> bool {
        if !self.cut_flag {
            return false;
        }
        self.update_alpha(p, now);
        if p.clamp_target || self.stage != 0 {
            self.target = self.rate;
        }
        self.rate = ((self.rate as f64 * (1.0 - self.alpha / 2.0)) as u64).max(p.min_rate);
        self.stage = 0;
        self.cut_flag = false;
        true
    }

    /// An increase on a NIC of `line_rate`.
    pub fn on_increase_timer(&mut self, p: &Parameters, line_rate: u64) {
        if self.stage >= p.fast_recovery {
            let step = if self.stage == p.fast_recovery { p.additive } else { p.hyper };
            self.target = (self.target + step).min(line_rate);
        }
        self.rate = self.rate / 2 + self.target / 2;
        self.stage = self.stage.saturating_add(1);
    }
}
