//! Priority-based flow control (IEEE 802.1Qbb): both ends of one priority on one link.
//!
//! A pause frame carries, for each priority, a time in quanta of 512 bit times. The receiver of the frame
//! stops sending that priority until the time is over or a frame with 0 quanta resumes it; the sender of the
//! frame repeats it before the time runs out for as long as it needs the pause.
//!
//! Leaves out: 802.3 pause of the whole link, and the DCBX negotiation of what is lossless.

use crate::parameters::DELAYS;
use crate::units::{Bytes, Rate, Time, BIT_PS_PER_BYTE};
use crate::wire::{PFC_FRAME_BYTES, PREAMBLE_AND_GAP_BYTES};

crate::parameters! {
    /// Priority flow control of a switch (IEEE 802.1Qbb).
    pub struct PfcParameters {
        /// An ingress group above this pauses its peer. null: switch.ingress_alpha times the free buffer.
        xoff: Option<Bytes> = None, in Bytes(1)..=Bytes(u32::MAX as u64),
            source "Linux mlxsw spectrum_buffers.c: thresholds of shared pools are dynamic";
        /// An ingress group at or below this resumes its peer. null: xon_offset below xoff.
        xon: Option<Bytes> = None, in ..=Bytes(u32::MAX as u64),
            source "assumption: a fixed value makes no sense below a threshold that moves";
        /// How far below xoff a group resumes its peer, where xon is null.
        xon_offset: Bytes = Bytes(3 << 10),
            source "the HPCC authors' simulator, switch-mmu.cc; Zhu et al., SIGCOMM 2015: two MTUs";
        /// Buffer that the headroom of all ports of a switch comes from together (a shared headroom pool): each may
        /// use up to its headroom, and all of them no more than this. null: each keeps its own.
        headroom_pool: Option<Bytes> = None, in Bytes(1)..=Bytes(64 << 30),
            source "SAI: a buffer pool has an XOFF_SIZE of 0 unless it is set; SONiC: xoff of BUFFER_POOL";
    }
}

crate::parameters! {
    /// The pauses that a switch or a NIC asks for.
    pub struct PauseParameters {
        /// Length of a pause, in 512 bit times; repeated at half of it while it is needed.
        quanta: u16 = 65_535, in 2..=65_535,
            source "IEEE 802.1Qbb: the most that a frame can ask for";
        /// From a pause frame's last bit to the moment its receiver is quiet.
        response_delay: Time = Time(2_017_280), in DELAYS,
            source "IEEE 802.3 annex 31B.3.7: 394 quanta at 100 Gbit/s, the most that a port may take";
    }
}

crate::parameters! {
    /// Buffer that a switch keeps free for what still arrives after it asks for a pause.
    pub struct HeadroomParameters {
        /// Buffer kept for each port and lossless priority, for packets that arrive once a pause is due. auto: frames
        /// of the packet that passes xoff; of what the link carries in twice its delay, the response delay, the
        /// switch's latency, a packet of the greatest length that delays the pause, and the PFC frame; and of one
        /// more packet that the peer has begun.
        headroom: Bytes, or auto, source "IEEE 802.1Q annex N (the terms of the sum); docs/models/pfc.md";
    }
}

/// Length of one pause quantum in bit times (802.3 annex 31B, 802.1Qbb).
pub const QUANTUM_BITS: u64 = 512;

/// Time that `quanta` pause quanta last on a link of `rate`.
///
/// 65,535 quanta, the most that a frame can ask for, last 1.342 ms at 25 Gbit/s.
pub fn pause_span(quanta: u16, rate: Rate) -> Time {
    rate.serialization(quanta as u64 * QUANTUM_BITS / 8)
}

/// Bytes that may still come into an ingress buffer of one priority once it has to ask for a pause: what it must keep
/// free above xoff so that nothing is lost. Frames are counted from address to FCS, as in a buffer.
///
/// `delay`: of the link, one way. `response_delay`: from the end of the pause frame to the moment its receiver begins no
/// further packet. `latency`: from a packet's last bit to its being counted. `largest_packet`: bytes on the wire,
/// preamble and gap included, in whichever priority.
///
/// The terms are those of IEEE 802.1Q annex N, each at its worst:
///
/// 1. The packet that passes xoff does not fit below it, however little is missing: it is kept here whole.
/// 2. From that instant on the peer sends for as long as the pause frame waits for a packet that has just begun the other
///    way, is itself on the wire and on the link, and is obeyed. What it had sent before is on the link and in
///    the pipeline, too. All of that is time at the link's rate.
/// 3. At the last moment the peer begins one more packet, and completes it.
///
/// Preambles and gaps take time but no buffer, so the worst is the largest packets, and one for what is left of the time.
/// That is tight: see the exhaustive check in `tailback-sim`, `tests/headroom.rs`.
pub fn headroom_bytes(
    rate: Rate,
    delay: Time,
    response_delay: Time,
    latency: Time,
    largest_packet: u32,
) -> u64 {
    let pause_frame = PFC_FRAME_BYTES + PREAMBLE_AND_GAP_BYTES;
    let sent = rate.serialization(largest_packet as u64) + rate.serialization(pause_frame as u64);
    let span = sent + delay + delay + latency + response_delay;
    // Serialization is rounded down: a packet may be up to a picosecond shorter than its bytes.
    let rounding = if BIT_PS_PER_BYTE.is_multiple_of(rate.0) {
        0
    } else {
        rate.bytes_in(span) / largest_packet as u64 + 2
    };
    let bytes = (rate.0 as u128 * (span.0 + rounding) as u128 / BIT_PS_PER_BYTE as u128) as u64;
    let (whole, rest) = (bytes / largest_packet as u64, bytes % largest_packet as u64);
    let frame = (largest_packet - PREAMBLE_AND_GAP_BYTES) as u64;
    (whole + 2) * frame + rest.saturating_sub(PREAMBLE_AND_GAP_BYTES as u64)
}

/// The end that asks for the pause: one priority group of an ingress port.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PauseSource {
    asserted_at: Option<Time>,
    refresh_at: Option<Time>,
}

impl PauseSource {
    /// No pause asked for.
    pub const IDLE: PauseSource = PauseSource { asserted_at: None, refresh_at: None };

    /// True if this end currently pauses its peer.
    pub fn asserted(&self) -> bool {
        self.asserted_at.is_some()
    }

    /// Above xoff: asks for a pause. The frame's content is `quanta`; `span` is how long that lasts.
    ///
    /// The refresh is due at half of the span: late enough to cost little, early enough that the frame, which
    /// waits for at most one packet in transmission, always arrives before the quanta run out.
    pub fn pause(&mut self, now: Time, span: Time) {
        self.asserted_at.get_or_insert(now);
        self.refresh_at = Some(now + Time(span.0 / 2));
    }

    /// Below xon: lets the peer go on. Returns how long the pause was held.
    pub fn resume(&mut self, now: Time) -> Time {
        self.refresh_at = None;
        self.asserted_at.take().map_or(Time::ZERO, |since| now - since)
    }

    /// When the pause must be repeated, if it is held.
    pub fn next_timeout(&self) -> Option<Time> {
        self.refresh_at
    }

    /// When the pause that is held began.
    pub fn asserted_at(&self) -> Option<Time> {
        self.asserted_at
    }
}

/// The end that is paused: one priority of an egress port, with the counters that NICs print.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PauseSink {
    until: Option<Time>,
    since: Time,
    /// Frames received for this priority, resumes included (`rx_prioN_pause`).
    pub frames: u64,
    /// Changes from paused to running (`rx_prioN_pause_transition`).
    pub transitions: u64,
    /// Time spent paused, not counting a pause that still lasts.
    pub paused: Time,
}

/// A span during which a [`PauseSink`] was paused.
pub type PausedSpan = (Time, Time);

impl PauseSink {
    /// True if this priority must not start a packet.
    pub fn is_paused(&self) -> bool {
        self.until.is_some()
    }

    /// A pause frame takes effect: quiet for `span` from now; a span of zero resumes.
    /// Returns the pause that this ended, if it did.
    pub fn on_frame(&mut self, now: Time, span: Time) -> Option<PausedSpan> {
        self.frames += 1;
        if span == Time::ZERO {
            return self.end(now);
        }
        self.hold(now, span);
        None
    }

    /// Pauses for `span` from now, whatever the reason.
    fn hold(&mut self, now: Time, span: Time) {
        if self.until.is_none() {
            self.since = now;
        }
        self.until = Some(now + span);
    }

    /// When the quanta run out, if paused.
    pub fn next_timeout(&self) -> Option<Time> {
        self.until
    }

    /// The clock passed `next_timeout()`. Does nothing where a refresh moved it.
    /// Returns the pause that this ended, if it did.
    pub fn on_timeout(&mut self, now: Time) -> Option<PausedSpan> {
        if self.until.is_some_and(|until| until <= now) {
            return self.end(now);
        }
        None
    }

    /// The link failed, which ends the pause. Returns the pause, if there was one.
    pub fn on_link_failure(&mut self, now: Time) -> Option<PausedSpan> {
        self.end(now)
    }

    /// The link works again, and its other end still asks for a pause: quiet for `span` from now.
    pub fn on_link_repair(&mut self, now: Time, span: Time) {
        self.hold(now, span);
    }

    /// Time spent paused up to `now`, a pause that still lasts included.
    pub fn paused_until(&self, now: Time) -> Time {
        if self.until.is_some() {
            self.paused + (now - self.since)
        } else {
            self.paused
        }
    }

    /// Since when it is paused, if it is.
    pub fn paused_since(&self) -> Option<Time> {
        self.until.map(|_| self.since)
    }

    fn end(&mut self, now: Time) -> Option<PausedSpan> {
        self.until.take()?;
        self.transitions += 1;
        self.paused += now - self.since;
        Some((self.since, now))
    }
}

// The PFC watchdog of one priority of an egress port: a pause that does not end makes it drop what waits.
//
// Source: SONiC, "PFC Watchdog Design" (github.com/sonic-net/SONiC/wiki), action *drop*. A pause storm is detected where a
// lossless queue holds packets, is paused and sends nothing for the detection time. Then what waits in the queue is
// dropped, and so is what comes for it and what its port receives in that priority, until the port has not been paused
// for the restoration time.
//
// SONiC polls; here the time counts from the beginning of the pause, and a queue that was empty when the time was up is
// looked at again a detection time later. Leaves out: the actions *forward* and *alert*, and the polling interval.

const SPAN: std::ops::RangeInclusive<Time> = Time(1)..=Time::from_ms(5 * 3_600_000);

crate::parameters! {
    /// The PFC watchdog of the switches' ports, with the action drop.
    pub struct WatchdogParameters {
        /// A lossless queue that is paused for this long drops its packets and all that arrive.
        detection_time: Time = Time::from_ms(200), in SPAN, source "SONiC, pfcwd: DEFAULT_DETECTION_TIME";
        /// The queue works again after this long without a pause.
        restoration_time: Time = Time::from_ms(200), in SPAN, source "SONiC, pfcwd: DEFAULT_RESTORATION_TIME";
    }
}

/// The action that a watchdog asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// A pause storm: drop what waits and what comes.
    Drop,
    /// The pause storm is over.
    Restore,
}

/// The watchdog of one priority of an egress port.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Watchdog {
    state: State,
    /// Pause storms so far (`PFC_WD_QUEUE_STATS_DEADLOCK_DETECTED`).
    pub detected: u64,
    /// Pause storms that are over (`PFC_WD_QUEUE_STATS_DEADLOCK_RESTORED`).
    pub restored: u64,
    /// When the first pause storm was detected.
    pub first: Option<Time>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    #[default]
    Running,
    Paused {
        since: Time,
    },
    /// `quiet_since`: when the last pause ended.
    PauseStorm {
        quiet_since: Option<Time>,
    },
}

impl Watchdog {
    /// True if packets are to be dropped.
    pub fn in_pause_storm(&self) -> bool {
        matches!(self.state, State::PauseStorm { .. })
    }

    /// A pause begins, or is repeated.
    pub fn on_pause(&mut self, now: Time) {
        self.state = match self.state {
            State::Running => State::Paused { since: now },
            State::PauseStorm { .. } => State::PauseStorm { quiet_since: None },
            paused => paused,
        };
    }

    /// A pause ends.
    pub fn on_resume(&mut self, now: Time) {
        self.state = match self.state {
            State::PauseStorm { .. } => State::PauseStorm { quiet_since: Some(now) },
            _ => State::Running,
        };
    }

    /// When [`Self::on_timeout`] is due.
    pub fn next_timeout(&self, p: &WatchdogParameters) -> Option<Time> {
        match self.state {
            State::Running => None,
            State::Paused { since } => Some(since + p.detection_time),
            State::PauseStorm { quiet_since } => quiet_since.map(|since| since + p.restoration_time),
        }
    }

    /// The clock passed `next_timeout()`; does nothing before. `waiting`: whether the queue holds packets.
    pub fn on_timeout(&mut self, p: &WatchdogParameters, now: Time, waiting: bool) -> Option<Action> {
        if self.next_timeout(p).is_none_or(|due| now < due) {
            return None;
        }
        match self.state {
            State::Paused { .. } if !waiting => {
                self.state = State::Paused { since: now };
                None
            }
            State::Paused { .. } => {
                self.state = State::PauseStorm { quiet_since: None };
                self.detected += 1;
                self.first.get_or_insert(now);
                Some(Action::Drop)
            }
            _ => {
                self.state = State::Running;
                self.restored += 1;
                Some(Action::Restore)
            }
        }
    }
}

#[cfg(test)]
mod pfc_tests {
    use super::*;

    #[test]
    fn quanta_last_512_bit_times() {
        assert_eq!(pause_span(1, Rate::from_gbps(25)), Time(20_480));
        assert_eq!(pause_span(65_535, Rate::from_gbps(25)), Time(1_342_156_800));
    }

    /// 100 Gbit/s, 80 ps a byte; 500 ns, 2.01728 us and 300 ns; MTU 1024: packets of 1,122 B, frames of 1,102 B.
    #[test]
    fn headroom_by_hand() {
        let headroom = |largest| {
            let (delay, response, latency) = (Time(500_000), Time(2_017_280), Time(300_000));
            headroom_bytes(Rate::from_gbps(100), delay, response, latency, largest)
        };
        // The pause is obeyed after 1,122 + 84 + 41,466 = 42,672 B: 38 packets and 36 B, of which 16 B are frame. And the
        // one that passed xoff, and the last one.
        assert_eq!(headroom(1122), 40 * 1102 + 16);
        // 9,038 + 84 + 41,466 = 50,588 B: five packets and 5,398 B.
        assert_eq!(headroom(9038), 7 * 9018 + 5378);
    }

    #[test]
    fn headroom_where_every_byte_takes_whole_picoseconds() {
        // 800 Gbit/s, 500 us: 1,122 + 84 + 100,000,000 B are 89,127 packets and 712 B; nothing was rounded, however long.
        let headroom = headroom_bytes(Rate::from_gbps(800), Time::from_us(500), Time::ZERO, Time::ZERO, 1122);
        assert_eq!(headroom, 89_129 * 1102 + 692);
    }

    #[test]
    fn headroom_has_a_picosecond_for_each_packet_that_may_be_short() {
        // 300 Gbit/s: 26,666 + 2,240 + 1,000,000 + 14 ps have 38 packets of 1,000 B, and parts of two more. With 40 ps for
        // them these are 38,586 B, and with 36 a byte less.
        let headroom = headroom_bytes(Rate::from_gbps(300), Time::from_ns(500), Time(14), Time::ZERO, 1000);
        assert_eq!(headroom, 40 * 980 + 566);
    }

    #[test]
    fn headroom_where_no_byte_takes_whole_picoseconds() {
        // 300 Gbit/s: 26.67 ps a byte. A packet of 1,000 B takes 26,666 ps instead of 26,666.67.
        let rate = Rate::from_gbps(300);
        let headroom = headroom_bytes(rate, Time::ZERO, Time(10_000 * 26_666 - 28_906), Time::ZERO, 1000);
        // 26,666 + 2,240 + the rest are 10,000 such packets: with that which passed xoff and the last, 10,002.
        assert!(headroom >= 10_002 * 980, "{headroom}");
        assert!(headroom <= 10_002 * 980 + 200, "{headroom}");
    }

    #[test]
    fn a_pause_expires_by_itself() {
        let mut sink = PauseSink::default();
        sink.on_frame(Time(100), Time(50));
        assert!(sink.is_paused());
        assert_eq!(sink.on_timeout(Time(149)), None, "too early");
        assert_eq!(sink.on_timeout(Time(150)), Some((Time(100), Time(150))));
        assert!(!sink.is_paused());
        assert_eq!((sink.transitions, sink.paused), (1, Time(50)));
    }

    #[test]
    fn a_refresh_extends_and_a_resume_ends() {
        let mut sink = PauseSink::default();
        sink.on_frame(Time(100), Time(50));
        sink.on_frame(Time(140), Time(50));
        assert_eq!(sink.on_timeout(Time(150)), None, "the refresh moved it to 190");
        assert_eq!(sink.on_frame(Time(160), Time::ZERO), Some((Time(100), Time(160))));
        assert_eq!((sink.frames, sink.transitions, sink.paused), (3, 1, Time(60)));
    }

    #[test]
    fn a_resume_without_a_pause_only_counts() {
        let mut sink = PauseSink::default();
        assert_eq!(sink.on_frame(Time(5), Time::ZERO), None);
        assert_eq!((sink.frames, sink.transitions), (1, 0));
    }

    #[test]
    fn the_source_refreshes_before_the_quanta_run_out() {
        let mut source = PauseSource::default();
        source.pause(Time(0), Time(100));
        assert_eq!(source.next_timeout(), Some(Time(50)));
        source.pause(Time(50), Time(100));
        assert_eq!(source.next_timeout(), Some(Time(100)));
        assert_eq!((source.asserted_at(), source.asserted()), (Some(Time(0)), true));
        assert_eq!(source.resume(Time(70)), Time(70));
        assert_eq!((source.next_timeout(), source.asserted_at()), (None, None));
    }

    #[test]
    fn a_failed_link_ends_a_pause_and_a_repaired_one_may_hold_one() {
        let mut sink = PauseSink::default();
        assert_eq!(sink.on_link_failure(Time(5)), None);
        sink.on_frame(Time(100), Time(50));
        assert_eq!(sink.paused_since(), Some(Time(100)));
        assert_eq!(sink.on_link_failure(Time(120)), Some((Time(100), Time(120))));
        assert_eq!((sink.paused_until(Time(200)), sink.paused_since()), (Time(20), None));
        sink.on_link_repair(Time(300), Time(40));
        assert_eq!((sink.is_paused(), sink.next_timeout()), (true, Some(Time(340))));
        assert_eq!((sink.frames, sink.transitions), (1, 1), "nobody sent a frame");
    }
}

#[cfg(test)]
mod watchdog_tests {
    use super::*;

    const P: WatchdogParameters =
        WatchdogParameters { detection_time: Time(200), restoration_time: Time(100) };

    #[test]
    fn a_setting_out_of_bounds_is_refused_with_them() {
        use crate::parameters::Declared;
        assert_eq!(WatchdogParameters::default().check(), Ok(()));
        let refused = WatchdogParameters { restoration_time: Time::ZERO, ..P }.check().unwrap_err();
        assert_eq!(refused.to_string(), "restoration_time: expected 1ps to 18000s");
    }

    #[test]
    fn a_long_pause_is_a_storm_until_it_has_been_quiet() {
        let mut watchdog = Watchdog::default();
        watchdog.on_pause(Time(10));
        watchdog.on_pause(Time(150));
        assert_eq!(watchdog.next_timeout(&P), Some(Time(210)), "a repetition does not begin anew");
        assert_eq!(watchdog.on_timeout(&P, Time(209), true), None);
        assert_eq!(watchdog.on_timeout(&P, Time(210), true), Some(Action::Drop));
        assert_eq!(watchdog.next_timeout(&P), None, "as long as it is paused");
        watchdog.on_resume(Time(300));
        watchdog.on_pause(Time(350));
        assert_eq!(watchdog.on_timeout(&P, Time(400), false), None, "paused again");
        watchdog.on_resume(Time(500));
        assert_eq!(watchdog.on_timeout(&P, Time(599), false), None);
        assert!(watchdog.in_pause_storm());
        assert_eq!(watchdog.on_timeout(&P, Time(600), false), Some(Action::Restore));
        assert!(!watchdog.in_pause_storm());
        assert_eq!((watchdog.detected, watchdog.restored, watchdog.first), (1, 1, Some(Time(210))));
    }

    #[test]
    fn short_pauses_and_empty_queues_are_no_storm() {
        let mut watchdog = Watchdog::default();
        watchdog.on_pause(Time(0));
        watchdog.on_resume(Time(199));
        assert_eq!(watchdog.next_timeout(&P), None);
        watchdog.on_pause(Time(199));
        assert_eq!(watchdog.on_timeout(&P, Time(200), true), None, "of the pause before");
        assert_eq!(watchdog.on_timeout(&P, Time(399), false), None, "nothing waits");
        assert_eq!(watchdog.next_timeout(&P), Some(Time(599)));
        assert_eq!(watchdog.on_timeout(&P, Time(599), true), Some(Action::Drop));
    }
}
