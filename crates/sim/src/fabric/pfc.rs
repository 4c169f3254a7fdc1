//! PFC: pauses are asked for, travel, take effect and end.

use std::collections::{BTreeMap, VecDeque};
use tailback_proto::flow_control::pfc::{pause_span, Action, PauseSource, Watchdog};
use tailback_proto::units::Time;
use tailback_proto::wire::{PFC_FRAME_BYTES, PREAMBLE_AND_GAP_BYTES};

use super::port::{DropReason, Port, CUT};
use super::switch::IN_PAUSE_STORM;
use super::{lane, port_and_class, Fabric, CLASSES};
use crate::event::Event;

impl Fabric {
    /// An ingress group passed xoff: ask the peer for a pause.
    pub fn assert_pause(&mut self, port: usize, class: u8) {
        let span = self.pause_span_of(port);
        let now = self.run.now;
        self.groups[(port, class)].held.pausing = true;
        let source = &mut self.pausing[(port, class)].source;
        source.pause(now, span);
        let refresh_at = source.next_timeout().expect("a pause that is held is refreshed");
        self.run.schedule(refresh_at, Event::PauseRefresh(lane(port, class) as u32));
        self.queue_pfc(port, class);
    }

    /// An ingress group fell below xon: let the peer go on.
    pub fn release_pause(&mut self, port: usize, class: u8) {
        self.groups[(port, class)].held.pausing = false;
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
    #[inline(never)]
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

    /// The link behind `port` works again: what it still wants paused, its peer does not begin to send, and is notified
    /// first thing. (Assumption: priorities are lossless from the start, as where DCBX brings PFC up before there is
    /// traffic. Without it, what comes until the next repetition would find the headroom full.)
    pub fn recall_pauses(&mut self, port: usize) {
        let sent_at = self.ports[port].busy_until.max(self.run.now)
            + self.serialization(port, PFC_FRAME_BYTES + PREAMBLE_AND_GAP_BYTES)
            + self.links[port].delay
            + self.pfc_response_delay[port];
        let span = sent_at - self.run.now + self.pause_span_of(port);
        let peer = self.ports[port].peer as usize;
        for class in 0..CLASSES as u8 {
            if !self.groups[(port, class)].held.pausing {
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
        let (from, to) = (self.run.skips.simulated_at(from), self.run.skips.simulated_at(to));
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
                let (since, to) = (self.run.skips.simulated_at(since), self.run.simulated());
                self.pause_logs.entry(lane).or_default().add(since, to);
            }
        }
    }
}

// PFC frames between the ends of a link. The state machines are in `tailback_proto::flow_control::pfc`.
//
// A frame goes out ahead of everything but the packet in transmission, and takes effect at the other end after the
// propagation and the response delay; a packet already in transmission there is completed.
//
// Leaves out: loss of a PFC frame, and the buffer space that the frames themselves take.

/// The pause that a priority group of an ingress port holds at its peer.
#[derive(Clone, Debug)]
pub(crate) struct Pausing {
    pub source: PauseSource,
    /// Time that pauses were held, not counting one that still is.
    pub held: Time,
    pub frames: u64,
}

impl Pausing {
    pub const IDLE: Pausing = Pausing { source: PauseSource::IDLE, held: Time::ZERO, frames: 0 };

    /// Time that pauses were held up to now.
    pub fn held_until(&self, now: Time) -> Time {
        self.held + self.source.asserted_at().map_or(Time::ZERO, |since| now - since)
    }
}

/// A PFC frame on a link.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PauseFrame {
    /// The classes that it names, a bit for each, and those of them that it pauses.
    pub named: u8,
    pub paused: u8,
    /// The link's epoch when it was sent.
    pub epoch: u8,
}

impl PauseFrame {
    /// The classes that it names.
    pub fn classes(self) -> impl Iterator<Item = u8> {
        (0..CLASSES as u8).filter(move |class| self.named & (1 << class) != 0)
    }
}

/// PFC frames on their way.
#[derive(Debug, Default)]
pub(crate) struct PauseFrames {
    /// By port that sent them, as far as one did; the first one takes effect first.
    pub(super) on_links: Vec<VecDeque<PauseFrame>>,
    /// Frames sent so far.
    pub sent: u64,
}

impl PauseFrames {
    pub(super) fn send(&mut self, port: usize, frame: PauseFrame) {
        self.put(port, frame);
        self.sent += 1;
    }

    /// A frame is on a link.
    pub(super) fn put(&mut self, port: usize, frame: PauseFrame) {
        if self.on_links.len() <= port {
            self.on_links.resize_with(port + 1, VecDeque::new);
        }
        self.on_links[port].push_back(frame);
    }
}

// Pause storms: what the watchdogs of a switch's ports do. The state machine is in
// `tailback_proto::flow_control::watchdog`.
//
// A port in a pause storm stays marked as paused for its class, so that nothing else on the way out need know of it.

impl Fabric {
    /// The switch of a lane whose pauses are watched.
    fn watching_switch(&self, at: usize) -> Option<usize> {
        let (port, class) = port_and_class(at);
        let switch = self.switch_of(port)?;
        let s = &self.switches[switch];
        (s.cold.watchdog.is_some() && s.buffer.is_lossless(class)).then_some(switch)
    }

    /// True if a watchdog watches the pauses of a lane.
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

// Deadlocks: pauses that wait for each other.
//
// A queue that is paused waits for an ingress group of the next switch, which waits for the queues that its packets
// stand in. Where these are paused too, and the chain comes back to where it began, nothing on it ever moves again
// (Hu et al., "Deadlocks in Datacenter Networks: Why Do They Form, and How to Avoid Them", HotNets 2016).

/// A cycle counts as a deadlock when all its queues have been paused with packets waiting for this long: ten times the
/// longest pause that one frame can ask for at 25 Gbit/s, far longer than any queue here takes to drain.
const DEADLOCK_STANDSTILL: Time = Time::from_ms(13);

/// On slow links: for the time of this many packets of 4,096 B on the slowest of them.
const PACKETS_OF_STANDSTILL: u64 = 10;

/// Looks for a deadlock in this time.
const CHECKS_PER_STANDSTILL: u64 = 4;

/// When to look for deadlocks, and what was found.
#[derive(Debug)]
pub(crate) struct Deadlocks {
    standstill: Time,
    next_look: Time,
    /// Lanes, each waiting for the next and the last for the first, and since when.
    pub found: Option<(Vec<usize>, Time)>,
}

impl Deadlocks {
    /// `slowest_packet`: time of a packet of 4,096 B on the slowest link.
    pub fn new(slowest_packet: Time) -> Self {
        let standstill = DEADLOCK_STANDSTILL.max(Time(PACKETS_OF_STANDSTILL * slowest_packet.0));
        Deadlocks { standstill, next_look: standstill, found: None }
    }

    /// True if there is a deadlock that no watchdog will end.
    pub fn look(&mut self, fabric: &Fabric) -> bool {
        if !self.is_due(fabric.run.now) {
            return false;
        }
        self.looked(fabric.run.now);
        self.look_at(&self.stuck(fabric), |_| fabric)
    }

    /// True if there is a deadlock among the `stuck` lanes; `of` gives the fabric that has a node's state.
    pub fn look_at<'a>(&mut self, stuck: &[usize], of: impl Fn(u32) -> &'a Fabric) -> bool {
        let at = |port: usize| of(of(0).ports[port].owner);
        let waits_for = |lane: usize| {
            let peer = of(0).ports[port_and_class(lane).0].peer;
            at(peer as usize).waits_for(lane, stuck)
        };
        let Some(cycle) = cycle(stuck, waits_for) else { return false };
        let since =
            cycle.iter().filter_map(|&lane| at(port_and_class(lane).0).pauses[lane].paused_since()).max();
        self.found = since.map(|since| (cycle, since));
        true
    }

    /// True if the next check is due.
    pub fn is_due(&self, now: Time) -> bool {
        now >= self.next_look
    }

    /// There was none.
    pub fn looked(&mut self, now: Time) {
        self.next_look = now + Time(self.standstill.0 / CHECKS_PER_STANDSTILL);
    }

    /// The lanes that wait for long: without any there is no deadlock.
    pub fn stuck(&self, fabric: &Fabric) -> Vec<usize> {
        let long_ago = fabric.run.now.saturating_sub(self.standstill);
        let is_stuck = |lane: &usize| {
            !fabric.queues[*lane].fifo.is_empty()
                && fabric.pauses[*lane].paused_since().is_some_and(|since| since <= long_ago)
                && !fabric.is_watched(*lane)
        };
        (0..fabric.queues.len()).filter(is_stuck).collect()
    }
}

/// A cycle of lanes, each waiting for the next, among those that are `stuck`; from its lowest lane on.
fn cycle(stuck: &[usize], waits_for: impl Fn(usize) -> Vec<usize>) -> Option<Vec<usize>> {
    /// How far the search has come with a lane.
    #[derive(Clone, Copy, PartialEq)]
    enum Visited {
        OnPath,
        LeadsNowhere,
    }
    let mut seen: BTreeMap<usize, Visited> = BTreeMap::new();
    for &start in stuck {
        // Lanes on the path, each with those that it waits for and that were not looked at yet.
        let mut path: Vec<(usize, Vec<usize>)> = Vec::new();
        let mut next = Some(start).filter(|start| !seen.contains_key(start));
        while next.is_some() || !path.is_empty() {
            if let Some(lane) = next.take() {
                seen.insert(lane, Visited::OnPath);
                path.push((lane, waits_for(lane)));
            }
            let (lane, ahead) = path.last_mut().expect("it is not empty");
            match ahead.pop() {
                Some(other) if seen.get(&other) == Some(&Visited::OnPath) => {
                    let lanes = path.iter().map(|(lane, _)| *lane);
                    let mut cycle: Vec<usize> = lanes.skip_while(|&lane| lane != other).collect();
                    let lowest = (0..cycle.len()).min_by_key(|&at| cycle[at])?;
                    cycle.rotate_left(lowest);
                    return Some(cycle);
                }
                Some(other) => next = Some(other).filter(|other| !seen.contains_key(other)),
                None => {
                    seen.insert(*lane, Visited::LeadsNowhere);
                    path.pop();
                }
            }
        }
    }
    None
}

impl Fabric {
    /// The stuck lanes where packets stand that keep a lane's pause up.
    fn waits_for(&self, at: usize, stuck: &[usize]) -> Vec<usize> {
        let (port, class) = port_and_class(at);
        let peer = self.ports[port].peer as usize;
        let Some(switch) = self.switch_of(peer) else { return Vec::new() };
        let own = self.ports_of(switch);
        let first = own.start;
        own.map(|port| lane(port, class))
            .filter(|lane| stuck.binary_search(lane).is_ok())
            .filter(|&lane| {
                let mut packets = self.queues[lane].fifo.iter(&self.packets);
                packets.any(|packet| first + packet.ingress as usize == peer)
            })
            .collect()
    }
}
