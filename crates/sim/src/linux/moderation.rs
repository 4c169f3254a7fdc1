//! Interrupt moderation: when the completions of a queue raise an interrupt.
//!
//! Sources: `ethtool -C` (usecs and frames, whichever is first; adaptive: lib/dim), Linux mlx5 (two modes of the timer: of
//! receive queues restart it with every packet, CQE mode; transmit queues with every interrupt, EQE mode).

use tailback_proto::interrupts::dim::{Dim, Profile, Sample, RX_CQE, TX_EQE};
use tailback_proto::units::Time;

tailback_proto::parameters! {
    /// When completions interrupt a core, as ethtool -C has it.
    pub struct CoalescingParameters {
        /// Dynamic moderation chooses usecs and frames (adaptive-rx, adaptive-tx).
        adaptive: bool = true, source "Linux mlx5 en.h: on";
        /// An interrupt comes this long after a packet; without effect where it is adaptive.
        usecs: u32 = 16, in 0..=65_535,
            source "Linux mlx5 en.h: MLX5E_PARAMS_DEFAULT_TX_CQ_MODERATION_USEC; of receive queues the driver's default is adaptive";
        /// An interrupt comes with this many packets; without effect where it is adaptive.
        frames: u32 = 32, in 1..=65_535, source "Linux mlx5 en.h: MLX5E_PARAMS_DEFAULT_TX_CQ_MODERATION_PKTS";
    }
}

/// What starts the timer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// The last packet.
    Packet,
    /// The last interrupt.
    Interrupt,
}

/// Moderation of one completion queue.
#[derive(Clone, Debug)]
pub(crate) struct Moderation {
    mode: Mode,
    dim: Option<Dim>,
    profile: Profile,
    last_interrupt: Time,
    /// Interrupts, packets and bytes so far.
    pub sample: Sample,
}

impl Moderation {
    pub fn new(plan: &CoalescingParameters, mode: Mode) -> Self {
        let dim = plan.adaptive.then(Dim::default);
        let profile = Profile { usecs: plan.usecs, frames: plan.frames };
        let mut moderation =
            Moderation { mode, dim, profile, last_interrupt: Time::ZERO, sample: Sample::default() };
        moderation.apply();
        moderation
    }

    /// The profile in use.
    pub fn profile(&self) -> Profile {
        self.profile
    }

    fn apply(&mut self) {
        if let Some(dim) = &self.dim {
            let profiles = match self.mode {
                Mode::Packet => &RX_CQE,
                Mode::Interrupt => &TX_EQE,
            };
            self.profile = profiles[dim.profile()];
        }
    }

    /// When a queue interrupts, given the times of its first and last completion, and of the one that completes `frames`,
    /// if there are that many.
    pub fn due(&self, first: Time, last: Time, full: Option<Time>) -> Time {
        let span = Time::from_us(self.profile.usecs as u64);
        let timer = match self.mode {
            Mode::Packet => last + span,
            Mode::Interrupt => first.max(self.last_interrupt + span),
        };
        full.map_or(timer, |full| timer.min(full))
    }

    /// It interrupts.
    pub fn on_interrupt(&mut self, now: Time) {
        self.last_interrupt = now;
        self.sample.events += 1;
    }

    pub fn count(&mut self, bytes: u32) {
        self.sample.packets += 1;
        self.sample.bytes += bytes as u64;
    }

    /// A poll is over.
    pub fn on_poll_complete(&mut self, now: Time) {
        if self.dim.as_mut().is_some_and(|dim| dim.on_poll_complete(now, self.sample)) {
            self.apply();
        }
    }
}
