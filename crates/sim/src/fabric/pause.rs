//! PFC frames between the ends of a link. The state machines are in `tailback_proto::flow_control::pfc`.
//!
//! A frame goes out ahead of everything but the packet in transmission, and takes effect at the other end after the
//! propagation and the response delay; a packet already in transmission there is completed.
//!
//! Leaves out: loss of a PFC frame, and the buffer space that the frames themselves take.

use std::collections::{BTreeMap, VecDeque};
use tailback_proto::flow_control::pfc::{pause_span, PauseSource};
use tailback_proto::units::Time;
use tailback_proto::wire::{PFC_FRAME_BYTES, PREAMBLE_AND_GAP_BYTES};

use super::{lane, port_and_class, CLASSES};
use crate::event::Event;
use crate::world::World;

const SECOND: u64 = 1_000_000_000_000;

/// What the pauses of one (port, class) added up to.
#[derive(Clone, Debug, Default)]
pub(crate) struct PauseLog {
    /// Time paused in each second of the run.
    pub per_second: Vec<u64>,
    /// When the last pause ended.
    pub last: Time,
}

impl PauseLog {
    pub fn add(&mut self, from: Time, to: Time) {
        self.last = to;
        let mut at = from.0;
        while at < to.0 {
            let second = (at / SECOND) as usize;
            let end = to.0.min((second as u64 + 1) * SECOND);
            if self.per_second.len() <= second {
                self.per_second.resize(second + 1, 0);
            }
            self.per_second[second] += end - at;
            at = end;
        }
    }

    pub fn max_share_of_a_second(&self) -> f64 {
        self.per_second.iter().copied().max().unwrap_or(0) as f64 / SECOND as f64
    }
}

/// What a priority group of an ingress port asks its peer for.
#[derive(Clone, Debug)]
pub(crate) struct Pausing {
    pub source: PauseSource,
    /// Time that pauses were held, not counting one that still is.
    pub held: Time,
    pub frames: u64,
    /// Bytes dropped since the pause that is held, or was held last, began.
    pub overflow: u64,
}

impl Pausing {
    pub const IDLE: Pausing = Pausing { source: PauseSource::IDLE, held: Time::ZERO, frames: 0, overflow: 0 };

    /// Time that pauses were held up to now.
    pub fn held_until(&self, now: Time) -> Time {
        self.held + self.source.asserted_at().map_or(Time::ZERO, |since| now - since)
    }
}

/// Pauses by lane, for those lanes that ever had one.
pub(crate) type PauseLogs = BTreeMap<usize, PauseLog>;

/// A PFC frame on a link.
#[derive(Clone, Copy, Debug)]
struct PauseFrame {
    /// The classes that it names, a bit for each, and those of them that it pauses.
    named: u8,
    paused: u8,
    /// The link's epoch when it was sent.
    epoch: u8,
}

/// PFC frames on their way.
#[derive(Debug, Default)]
pub(crate) struct PauseFrames {
    /// By port that sent them, as far as one did; the first one takes effect first.
    on_links: Vec<VecDeque<PauseFrame>>,
    /// Frames sent so far.
    pub sent: u64,
}

impl PauseFrames {
    fn send(&mut self, port: usize, frame: PauseFrame) {
        if self.on_links.len() <= port {
            self.on_links.resize_with(port + 1, VecDeque::new);
        }
        self.on_links[port].push_back(frame);
        self.sent += 1;
    }
}

impl World {
    /// An ingress group passed xoff: ask the peer for a pause.
    pub(crate) fn assert_pause(&mut self, port: usize, class: u8) {
        let span = self.pause_span_of(port);
        let now = self.now;
        self.groups[(port, class)].asserted = true;
        let source = &mut self.pausing[(port, class)].source;
        source.pause(now, span);
        let refresh_at = source.next_timeout().expect("a pause that is held is refreshed");
        self.schedule(refresh_at, Event::PauseRefresh(lane(port, class) as u32));
        self.queue_pfc(port, class);
    }

    /// An ingress group fell below xon: let the peer go on.
    pub(crate) fn release_pause(&mut self, port: usize, class: u8) {
        self.groups[(port, class)].asserted = false;
        let pausing = &mut self.pausing[(port, class)];
        pausing.held += pausing.source.resume(self.now);
        pausing.overflow = 0;
        self.queue_pfc(port, class);
    }

    /// The refresh timer of a lane.
    pub(crate) fn on_pause_refresh(&mut self, lane: usize) {
        if self.pausing[lane].source.next_timeout() == Some(self.now) {
            let (port, class) = port_and_class(lane);
            self.assert_pause(port, class);
        }
    }

    fn pause_span_of(&self, port: usize) -> Time {
        pause_span(self.pfc_quanta[port], self.links[port].rate)
    }

    fn queue_pfc(&mut self, port: usize, class: u8) {
        self.ports[port].pfc_pending |= 1 << class;
        self.kick(port);
    }

    /// Sends one frame for all classes whose pause or resume waits.
    #[inline(never)] // what most ports never need stays out of the way of what they do
    pub(crate) fn send_pfc(&mut self, port: usize) {
        let named = std::mem::take(&mut self.ports[port].pfc_pending);
        let mut paused = 0u8;
        for class in (0..CLASSES as u8).filter(|class| named & (1 << class) != 0) {
            let pausing = &mut self.pausing[(port, class)];
            pausing.frames += 1;
            paused |= (pausing.source.asserted() as u8) << class;
        }
        let wire_bytes = PFC_FRAME_BYTES + PREAMBLE_AND_GAP_BYTES;
        let left = self.now + self.serialization(port, wire_bytes);
        let takes_effect = left + self.links[port].delay + self.pfc_response_delay[port];
        self.pause_frames.send(port, PauseFrame { named, paused, epoch: self.link_epochs[port] });
        self.ports[port].busy_until = left;
        self.ports[port].wire_bytes += wire_bytes as u64;
        self.schedule(takes_effect, Event::PauseEffect(port as u32));
    }

    /// The first PFC frame on the link behind `from` takes effect at the port that it was sent to.
    pub(crate) fn on_pause_effect(&mut self, from: usize) {
        let frame = self.pause_frames.on_links[from].pop_front();
        let PauseFrame { named, paused, epoch } = frame.expect("each frame has an event");
        if epoch != self.link_epochs[from] {
            return; // the link failed with the frame on it
        }
        let span = self.pause_span_of(from);
        let port = self.ports[from].peer as usize;
        for class in (0..CLASSES as u8).filter(|class| named & (1 << class) != 0) {
            let on = paused & (1 << class) != 0;
            let lane = lane(port, class);
            let ended = self.pauses[lane].on_frame(self.now, if on { span } else { Time::ZERO });
            self.hold_pause(lane);
            self.end_pause(lane, ended);
        }
    }

    /// A lane is paused from now on, if its pause is held.
    fn hold_pause(&mut self, lane: usize) {
        if let Some(until) = self.pauses[lane].next_timeout() {
            let (port, class) = port_and_class(lane);
            self.ports[port].paused |= 1 << class;
            self.watch_pause(lane);
            self.schedule(until, Event::PauseExpiry(lane as u32));
        }
    }

    /// The link behind `port` works again: what it still wants paused, its peer does not begin to send, and is told first
    /// thing. (Assumption: priorities are lossless from the start, as where DCBX brings PFC up before there is traffic.
    /// Without it, what comes until the next repetition would find the headroom full.)
    pub(crate) fn recall_pauses(&mut self, port: usize) {
        let told = self.ports[port].busy_until.max(self.now)
            + self.serialization(port, PFC_FRAME_BYTES + PREAMBLE_AND_GAP_BYTES)
            + self.links[port].delay
            + self.pfc_response_delay[port];
        let span = told - self.now + self.pause_span_of(port);
        let peer = self.ports[port].peer as usize;
        for class in 0..CLASSES as u8 {
            if !self.groups[(port, class)].asserted {
                continue;
            }
            let lane = lane(peer, class);
            self.pauses[lane].on_link_repair(self.now, span);
            self.hold_pause(lane);
            self.ports[port].pfc_pending |= 1 << class;
        }
    }

    /// The quanta of a pause ran out, unless it was refreshed.
    pub(crate) fn on_pause_expiry(&mut self, lane: usize) {
        let ended = self.pauses[lane].on_timeout(self.now);
        self.end_pause(lane, ended);
    }

    pub(crate) fn end_pause(&mut self, lane: usize, ended: Option<(Time, Time)>) {
        if let Some((from, to)) = ended {
            let (port, class) = port_and_class(lane);
            self.pause_logs.entry(lane).or_default().add(from, to);
            if self.watch_resume(lane) {
                return; // what comes is dropped, paused or not
            }
            self.ports[port].paused &= !(1 << class);
            self.kick(port);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pause_across_a_second_counts_in_both() {
        let mut log = PauseLog::default();
        log.add(Time(SECOND - 10), Time(SECOND + 30));
        log.add(Time(SECOND + 100), Time(SECOND + 101));
        assert_eq!(log.per_second, [10, 31]);
        assert_eq!(log.max_share_of_a_second(), 31.0 / 1e12);
    }
}
