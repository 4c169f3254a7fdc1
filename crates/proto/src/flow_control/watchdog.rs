//! The PFC watchdog of one priority of an egress port: a pause that does not end makes it drop what waits.
//!
//! Source: SONiC, "PFC Watchdog Design" (github.com/sonic-net/SONiC/wiki), action *drop*. A pause storm is detected where a
//! lossless queue holds packets, is paused and sends nothing for the detection time. Then what waits in the queue is
//! dropped, and so is what comes for it and what its port receives in that priority, until the port has not been paused
//! for the restoration time.
//!
//! SONiC polls; here the time counts from the beginning of the pause, and a queue that was empty when the time was up is
//! looked at again a detection time later. Leaves out: the actions *forward* and *alert*, and the polling interval.

use crate::units::Time;

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

/// What a watchdog wants done.
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
    /// Whether packets are to be dropped.
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
mod tests {
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
