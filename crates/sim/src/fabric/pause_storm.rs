//! Pause storms: what the watchdogs of a switch's ports do. The state machine is in
//! `tailback_proto::flow_control::watchdog`.
//!
//! A port in a pause storm stays marked as paused for its class, so that nothing else on the way out need know of it.

use tailback_proto::flow_control::watchdog::{Action, Watchdog};

use super::drops::DropReason;
use super::lanes::{lane, port_and_class};
use super::switch::IN_PAUSE_STORM;
use super::Fabric;
use crate::event::Event;

impl Fabric {
    /// The switch of a lane whose pauses are watched.
    fn watching_switch(&self, at: usize) -> Option<usize> {
        let (port, class) = port_and_class(at);
        let switch = self.switch_of(port)?;
        let s = &self.switches[switch];
        (s.cold.watchdog.is_some() && s.lossless & (1 << class) != 0).then_some(switch)
    }

    /// Whether a watchdog looks after the pauses of a lane.
    pub fn is_watched(&self, at: usize) -> bool {
        self.watching_switch(at).is_some()
    }

    fn schedule_watchdog(&mut self, at: usize, switch: usize) {
        let p = self.switches[switch].cold.watchdog.expect("it is watched");
        if let Some(due) = self.watchdogs.get(&at).and_then(|watchdog| watchdog.next_timeout(&p)) {
            self.run.schedule(due, Event::Watchdog(at as u32));
        }
    }

    /// A pause of a lane begins or is repeated.
    pub fn watch_pause(&mut self, at: usize) {
        let Some(switch) = self.watching_switch(at) else { return };
        let watchdog = self.watchdogs.entry(at).or_default();
        let before = *watchdog;
        watchdog.on_pause(self.run.now);
        if *watchdog != before {
            self.schedule_watchdog(at, switch);
        }
    }

    /// A pause of a lane ended. Returns whether it is in a pause storm.
    pub fn watch_resume(&mut self, at: usize) -> bool {
        let Some(switch) = self.watching_switch(at) else { return false };
        let Some(watchdog) = self.watchdogs.get_mut(&at) else { return false };
        watchdog.on_resume(self.run.now);
        let in_pause_storm = watchdog.in_pause_storm();
        self.schedule_watchdog(at, switch);
        in_pause_storm
    }

    /// A watchdog may be due.
    pub fn on_watchdog(&mut self, at: usize) {
        let Some(switch) = self.watching_switch(at) else { return };
        let p = self.switches[switch].cold.watchdog.expect("it is watched");
        let waiting = !self.queues[at].fifo.is_empty();
        let Some(watchdog) = self.watchdogs.get_mut(&at) else { return };
        let before = *watchdog;
        let action = watchdog.on_timeout(&p, self.run.now, waiting);
        if *watchdog == before {
            return; // of a pause that is over
        }
        let (port, class) = port_and_class(at);
        match action {
            None => self.schedule_watchdog(at, switch),
            Some(Action::Drop) => {
                let s = &mut self.switches[switch];
                s.cold.pause_storms += 1;
                s.detours |= IN_PAUSE_STORM;
                while self.ports[port].backlogged & (1 << class) != 0 {
                    let packet = self.dequeue(port, class);
                    self.release(port, packet);
                    self.drop_packet(port, packet, DropReason::PauseStormQueued);
                }
            }
            Some(Action::Restore) => {
                let s = &mut self.switches[switch];
                s.cold.pause_storms -= 1;
                if s.cold.pause_storms == 0 {
                    s.detours &= !IN_PAUSE_STORM;
                }
                self.ports[port].paused &= !(1 << class);
            }
        }
    }

    /// A packet for `out_port` has passed the pipeline of a switch with a port in a pause storm: if it came for that port, or from
    /// it, it is dropped. Returns whether it was.
    pub fn is_dropped_in_pause_storm(&mut self, in_port: usize, out_port: Option<usize>, index: u32) -> bool {
        let class = self.packets[index].class;
        let in_pause_storm =
            |port| self.watchdogs.get(&lane(port, class)).is_some_and(Watchdog::in_pause_storm);
        let out_port = out_port.filter(|&port| in_pause_storm(port));
        if in_pause_storm(in_port) {
            self.drop_packet(in_port, index, DropReason::PauseStormIngress);
        } else if let Some(port) = out_port {
            self.drop_packet(port, index, DropReason::PauseStormEgress);
        } else {
            return false;
        }
        true
    }
}
