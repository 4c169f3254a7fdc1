//! What PFC does: pauses are asked for, travel, take effect and end.

use tailback_proto::flow_control::pfc::pause_span;
use tailback_proto::units::Time;
use tailback_proto::wire::{PFC_FRAME_BYTES, PREAMBLE_AND_GAP_BYTES};

use super::lanes::{lane, port_and_class, CLASSES};
use super::pause::PauseFrame;
use super::port::{Port, CUT};
use super::Fabric;
use crate::event::Event;

impl Fabric {
    /// An ingress group passed xoff: ask the peer for a pause.
    pub fn assert_pause(&mut self, port: usize, class: u8) {
        let span = self.pause_span_of(port);
        let now = self.run.now;
        self.groups[(port, class)].asserted = true;
        let source = &mut self.pausing[(port, class)].source;
        source.pause(now, span);
        let refresh_at = source.next_timeout().expect("a pause that is held is refreshed");
        self.run.schedule(refresh_at, Event::PauseRefresh(lane(port, class) as u32));
        self.queue_pfc(port, class);
    }

    /// An ingress group fell below xon: let the peer go on.
    pub fn release_pause(&mut self, port: usize, class: u8) {
        self.groups[(port, class)].asserted = false;
        let pausing = &mut self.pausing[(port, class)];
        pausing.held += pausing.source.resume(self.run.now);
        self.queue_pfc(port, class);
    }

    /// The refresh timer of a lane.
    pub fn on_pause_refresh(&mut self, lane: usize) {
        if self.pausing[lane].source.next_timeout() == Some(self.run.now) {
            let (port, class) = port_and_class(lane);
            self.assert_pause(port, class);
        }
    }

    fn pause_span_of(&self, port: usize) -> Time {
        pause_span(self.pfc_quanta[port], self.links[port].rate)
    }

    fn queue_pfc(&mut self, port: usize, class: u8) {
        self.ports[port].pfc_pending |= 1 << class;
        // The frame goes before any packet.
        let turn = self.has_turn(port);
        debug_assert!(!turn);
    }

    /// Sends one frame for all classes whose pause or resume waits.
    #[inline(never)] // what most ports never need stays out of the way of what they do
    pub fn send_pfc(&mut self, port: usize) {
        let named = std::mem::take(&mut self.ports[port].pfc_pending);
        let mut paused = 0u8;
        for class in (0..CLASSES as u8).filter(|class| named & (1 << class) != 0) {
            let pausing = &mut self.pausing[(port, class)];
            pausing.frames += 1;
            paused |= (pausing.source.asserted() as u8) << class;
        }
        let wire_bytes = PFC_FRAME_BYTES + PREAMBLE_AND_GAP_BYTES;
        let left = self.run.now + self.serialization(port, wire_bytes);
        let takes_effect = left + self.links[port].delay + self.pfc_response_delay[port];
        self.pause_frames.send(port, PauseFrame { named, paused, epoch: self.link_epochs[port] });
        self.note_pause(port, named, paused);
        self.ports[port].busy_until = left;
        self.ports[port].wire_bytes += wire_bytes as u64;
        let Port { peer_owner, flags, .. } = self.ports[port];
        if flags & CUT != 0 {
            self.note_paused_across(port, takes_effect);
        } else {
            self.run.schedule_across(peer_owner, takes_effect, Event::PauseEffect(port as u32));
        }
        // What follows is found out when the frame has left.
        self.wake_port(port, left);
    }

    /// The first PFC frame on the link behind `from` takes effect: see [`Self::take_pause`] for each class that it names.
    pub fn on_pause_effect(&mut self, from: usize) -> Option<PauseFrame> {
        let frame = self.pause_frames.on_links[from].pop_front().expect("each frame has an event");
        // Else the link failed with the frame on it.
        (frame.epoch == self.link_epochs[from]).then_some(frame)
    }

    /// A pause or resume of a class takes effect at the port that `from` sent it to. Gives back the host whose turn it is,
    /// where it is a host's.
    pub fn take_pause(&mut self, from: usize, class: u8, frame: PauseFrame) -> Option<usize> {
        let span = self.pause_span_of(from);
        let on = frame.paused & (1 << class) != 0;
        let lane = lane(self.ports[from].peer as usize, class);
        let ended = self.pauses[lane].on_frame(self.run.now, if on { span } else { Time::ZERO });
        self.hold_pause(lane);
        self.end_pause(lane, ended)
    }

    /// A lane is paused from now on, if its pause is held.
    fn hold_pause(&mut self, lane: usize) {
        if let Some(until) = self.pauses[lane].next_timeout() {
            let (port, class) = port_and_class(lane);
            self.ports[port].paused |= 1 << class;
            self.watch_pause(lane);
            self.run.schedule(until, Event::PauseExpiry(lane as u32));
        }
    }

    /// The link behind `port` works again: what it still wants paused, its peer does not begin to send, and is told first
    /// thing. (Assumption: priorities are lossless from the start, as where DCBX brings PFC up before there is traffic.
    /// Without it, what comes until the next repetition would find the headroom full.)
    pub fn recall_pauses(&mut self, port: usize) {
        let told = self.ports[port].busy_until.max(self.run.now)
            + self.serialization(port, PFC_FRAME_BYTES + PREAMBLE_AND_GAP_BYTES)
            + self.links[port].delay
            + self.pfc_response_delay[port];
        let span = told - self.run.now + self.pause_span_of(port);
        let peer = self.ports[port].peer as usize;
        for class in 0..CLASSES as u8 {
            if !self.groups[(port, class)].asserted {
                continue;
            }
            let lane = lane(peer, class);
            self.pauses[lane].on_link_repair(self.run.now, span);
            self.hold_pause(lane);
            self.ports[port].pfc_pending |= 1 << class;
        }
    }

    /// The quanta of a pause ran out, unless it was refreshed. Gives back the host whose turn it is, where it is a host's.
    pub fn on_pause_expiry(&mut self, lane: usize) -> Option<usize> {
        let ended = self.pauses[lane].on_timeout(self.run.now);
        self.end_pause(lane, ended)
    }

    pub(super) fn end_pause(&mut self, lane: usize, ended: Option<(Time, Time)>) -> Option<usize> {
        let (from, to) = ended?;
        let (port, class) = port_and_class(lane);
        let (from, to) = (self.run.skips.told(from), self.run.skips.told(to));
        self.pause_logs.entry(lane).or_default().add(from, to);
        if self.watch_resume(lane) {
            return None; // what comes is dropped, paused or not
        }
        self.ports[port].paused &= !(1 << class);
        self.kick(port)
    }

    /// Pauses that still last are counted up to now.
    pub fn close_pauses(&mut self) {
        for lane in 0..self.pauses.len() {
            if let Some(since) = self.pauses[lane].paused_since() {
                let (since, to) = (self.run.skips.told(since), self.run.simulated());
                self.pause_logs.entry(lane).or_default().add(since, to);
            }
        }
    }
}
