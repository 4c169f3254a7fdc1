//! One direction of a congestion point: a queue in front of a link that is not there.
//!
//! A frame that comes is queued, or dropped where the buffer is full; it is served at the link's rate, and leaves after the link's
//! delay. It is marked by what it leaves behind in the queue when its service begins, as switches of the simulator do it. Service follows
//! the link's own clock: a frame begins when the one before has ended, however late the program looks.
//!
//! Leaves out: classes (all frames share the queue, and a pause holds all of them), and what PFC frames take of the link.

use std::collections::VecDeque;

use rand_core::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;
use serde::Serialize;
use tailback_proto::aqm::red::EcnThresholds;
use tailback_proto::flow_control::pfc::{pause_span, PauseSink, PauseSource};
use tailback_proto::units::{Rate, Time};
use tailback_proto::wire::{MacAddress, Pfc, FCS_BYTES, PREAMBLE_AND_GAP_BYTES};

use crate::events::{Action, EventSettings, Events};
use crate::frame::{corrupt, layout, mark};
use crate::mirror::Fate;
use crate::settings::PointSettings;

/// Bytes of a frame on the wire beyond those that a socket has.
const WIRE_OVERHEAD: u64 = (FCS_BYTES + PREAMBLE_AND_GAP_BYTES) as u64;
/// Most frames on the emulated link, and held back by events: a link that is longer than that is not emulated.
const MAX_ON_LINK: usize = 1 << 18;
/// Longest time in which a packet may be overtaken: its queue pair may have nothing more to send.
const LONGEST_REORDER: Time = Time::from_ms(10);

#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Counters {
    pub rx_frames: u64,
    pub rx_bytes: u64,
    pub tx_frames: u64,
    pub tx_bytes: u64,
    pub marked: u64,
    /// The buffer was full.
    pub dropped_full: u64,
    /// By the probability of a loss.
    pub dropped_loss: u64,
    pub dropped_event: u64,
    /// Longer than the interface takes: offloads are on.
    pub dropped_too_long: u64,
    /// They came faster than the program reads.
    pub dropped_unread: u64,
    /// The interface did not take them.
    pub dropped_send: u64,
    pub events: u64,
    pub pause_frames_sent: u64,
    pub pause_frames_received: u64,
    pub paused_ps: u64,
    pub most_queued_bytes: u64,
    /// Integral of what waits over time.
    pub queued_byte_ps: u128,
}

impl Counters {
    /// Frames that were not forwarded, for whatever reason.
    pub fn dropped(&self) -> u64 {
        let by_link = self.dropped_full + self.dropped_loss + self.dropped_event;
        by_link + self.dropped_too_long + self.dropped_unread + self.dropped_send
    }
}

/// A frame to be sent.
#[derive(Debug)]
pub enum Output {
    /// On, by the other interface; it was due at this time.
    Forward(Vec<u8>, Time),
    /// Back, by the interface that the frames come from.
    Back(Vec<u8>),
}

#[derive(Debug)]
struct Queued {
    came: Time,
    frame: Vec<u8>,
    /// Its number among those that came, if its fate is yet to be told.
    untold: Option<u64>,
}

#[derive(Debug)]
struct Held {
    frame: Vec<u8>,
    until: Time,
    qp: u32,
    packets: u32,
}

/// One direction.
pub struct Direction {
    settings: PointSettings,
    ecn: Option<EcnThresholds>,
    random: Pcg64Mcg,
    /// Address that its pause frames are from.
    mac: MacAddress,
    queue: VecDeque<Queued>,
    queued_bytes: u64,
    /// Up to when its integral goes.
    counted: Time,
    free_at: Time,
    on_link: VecDeque<(Time, Vec<u8>)>,
    held: Vec<Held>,
    source: PauseSource,
    sink: PauseSink,
    /// Its events.
    pub events: Events,
    pub counters: Counters,
    /// The fate of the n-th frame that came, if fates are kept.
    pub fates: Option<Vec<(u64, Fate)>>,
    outputs: VecDeque<Output>,
}

impl Direction {
    /// At rest.
    pub fn new(settings: &PointSettings, number: usize, mac: MacAddress) -> Direction {
        Direction {
            ecn: settings.ecn,
            random: seeded(settings.seed.wrapping_mul(2), number as u64),
            mac,
            queue: VecDeque::new(),
            queued_bytes: 0,
            counted: Time::ZERO,
            free_at: Time::ZERO,
            on_link: VecDeque::new(),
            held: Vec::new(),
            source: PauseSource::IDLE,
            sink: PauseSink::default(),
            events: Events::new(number, &settings.events),
            counters: Counters::default(),
            fates: None,
            outputs: VecDeque::new(),
            settings: settings.clone(),
        }
    }

    /// Rate of its link.
    pub fn rate(&self) -> Rate {
        self.settings.rate()
    }

    /// Bytes that wait.
    pub fn queued_bytes(&self) -> u64 {
        self.queued_bytes
    }

    /// A frame comes.
    pub fn on_frame(&mut self, now: Time, mut frame: Vec<u8>) {
        self.counters.rx_frames += 1;
        self.counters.rx_bytes += frame.len() as u64;
        let number = self.counters.rx_frames;
        if self.settings.loss > 0.0 && uniform(&mut self.random) < self.settings.loss {
            self.counters.dropped_loss += 1;
            return self.tell(number, Fate::Dropped);
        }
        let found = layout(&frame);
        let (mut overtaken, mut untold) = (Vec::new(), Some(number));
        if let Some((qp, psn, bth)) = found.request {
            if !self.held.is_empty() {
                overtaken = self.pass_held(qp);
            }
            if let Some(event) = self.events.on_request(now, qp, psn) {
                self.counters.events += 1;
                match event.action {
                    Action::Drop => {
                        self.counters.dropped_event += 1;
                        self.tell(number, Fate::Dropped);
                        return self.enqueue_all(now, overtaken);
                    }
                    Action::Mark => {
                        if found.ip.is_some_and(|ip| mark(&mut frame, ip)) {
                            self.counters.marked += 1;
                            self.tell(number, Fate::Marked);
                            untold = None;
                        }
                    }
                    Action::Corrupt => {
                        corrupt(&mut frame, bth);
                        self.tell(number, Fate::Damaged);
                        untold = None;
                    }
                    Action::Delay | Action::Reorder => {
                        self.tell(number, Fate::GoesOn);
                        self.hold(now, &event, qp, frame);
                        return self.enqueue_all(now, overtaken);
                    }
                }
            }
        }
        self.enqueue(now, frame, untold);
        self.enqueue_all(now, overtaken);
    }

    fn tell(&mut self, number: u64, fate: Fate) {
        if let Some(fates) = &mut self.fates {
            fates.push((number, fate));
        }
    }

    fn hold(&mut self, now: Time, event: &EventSettings, qp: u32, frame: Vec<u8>) {
        let (until, packets) = match event.action {
            Action::Reorder => (now + LONGEST_REORDER, event.packets.max(1)),
            _ => (now + Time(event.delay_ps), u32::MAX),
        };
        self.held.push(Held { frame, until, qp, packets });
    }

    /// A packet of a queue pair overtakes those that are held: which of them follow it.
    fn pass_held(&mut self, qp: u32) -> Vec<Vec<u8>> {
        for held in self.held.iter_mut().filter(|held| held.qp == qp && held.packets != u32::MAX) {
            held.packets -= 1;
        }
        self.held.extract_if(.., |held| held.packets == 0).map(|held| held.frame).collect()
    }

    fn enqueue_all(&mut self, now: Time, frames: Vec<Vec<u8>>) {
        frames.into_iter().for_each(|frame| self.enqueue(now, frame, None));
    }

    fn enqueue(&mut self, now: Time, frame: Vec<u8>, untold: Option<u64>) {
        let bytes = frame.len() as u64 + WIRE_OVERHEAD;
        if self.queued_bytes + bytes > self.settings.buffer_bytes || self.on_link.len() >= MAX_ON_LINK {
            self.counters.dropped_full += 1;
            return untold.into_iter().for_each(|number| self.tell(number, Fate::Dropped));
        }
        self.wait(now, self.queued_bytes + bytes);
        self.counters.most_queued_bytes = self.counters.most_queued_bytes.max(self.queued_bytes);
        self.queue.push_back(Queued { came: now, frame, untold });
        if let Some(pfc) = self.settings.pfc {
            if !self.source.asserted() && self.queued_bytes >= pfc.xoff_bytes {
                self.send_pause(now, true);
            }
        }
    }

    /// `bytes` wait from `now` on.
    fn wait(&mut self, now: Time, bytes: u64) {
        let span = now.saturating_sub(self.counted).ps();
        self.counters.queued_byte_ps += self.queued_bytes as u128 * span as u128;
        self.counted = self.counted.max(now);
        self.queued_bytes = bytes;
    }

    fn send_pause(&mut self, now: Time, on: bool) {
        let Some(pfc) = self.settings.pfc else { return };
        let mut time = [0; 8];
        if on {
            time[pfc.priority as usize & 7] = pfc.quanta;
            self.source.pause(now, pause_span(pfc.quanta, self.settings.rate()));
        } else {
            self.source.resume(now);
        }
        let mut frame = vec![0; Pfc::LEN];
        Pfc { source: self.mac, class_enable_vector: 1 << (pfc.priority & 7), time }.emit(&mut frame);
        self.counters.pause_frames_sent += 1;
        self.outputs.push_back(Output::Back(frame));
    }

    /// A PFC frame comes from where this direction sends to.
    pub fn on_pause(&mut self, now: Time, frame: &Pfc) {
        let Some(pfc) = self.settings.pfc else { return };
        if frame.class_enable_vector & 1 << (pfc.priority & 7) == 0 {
            return;
        }
        self.counters.pause_frames_received += 1;
        let span = pause_span(frame.time[pfc.priority as usize & 7], self.settings.rate());
        let ended = self.sink.on_frame(now, span);
        self.count_pause(ended);
    }

    fn count_pause(&mut self, ended: Option<(Time, Time)>) {
        if let Some((from, to)) = ended {
            self.counters.paused_ps += (to - from).ps();
            self.free_at = self.free_at.max(to);
        }
    }

    /// Carries out all that happened by now.
    pub fn advance(&mut self, now: Time) {
        if !self.held.is_empty() {
            let due: Vec<Held> = self.held.extract_if(.., |held| held.until <= now).collect();
            due.into_iter().for_each(|held| self.enqueue(now, held.frame, None));
        }
        let ended = self.sink.on_timeout(now);
        self.count_pause(ended);
        if self.source.next_timeout().is_some_and(|at| at <= now) {
            self.send_pause(now, true);
        }
        while !self.sink.is_paused() {
            let Some(begin) = self.queue.front().map(|one| self.free_at.max(one.came)) else { break };
            if begin > now {
                break;
            }
            let Some(Queued { mut frame, untold, .. }) = self.queue.pop_front() else { break };
            let bytes = frame.len() as u64 + WIRE_OVERHEAD;
            self.wait(begin, self.queued_bytes - bytes);
            let mut fate = Fate::GoesOn;
            if let Some(ecn) = self.ecn {
                let queued = self.queued_bytes;
                if ecn.mark(queued, || uniform(&mut self.random))
                    && layout(&frame).ip.is_some_and(|ip| mark(&mut frame, ip))
                {
                    self.counters.marked += 1;
                    fate = Fate::Marked;
                }
            }
            if let Some(number) = untold {
                self.tell(number, fate);
            }
            let left = begin + self.settings.rate().serialization(bytes);
            self.free_at = left;
            self.on_link.push_back((left + self.settings.delay(), frame));
            if self
                .settings
                .pfc
                .is_some_and(|pfc| self.source.asserted() && self.queued_bytes <= pfc.xon_bytes)
            {
                self.send_pause(now, false);
            }
        }
        self.wait(now, self.queued_bytes);
        while self.on_link.front().is_some_and(|(due, _)| *due <= now) {
            let Some((due, frame)) = self.on_link.pop_front() else { break };
            self.counters.tx_frames += 1;
            self.counters.tx_bytes += frame.len() as u64;
            self.outputs.push_back(Output::Forward(frame, due));
        }
    }

    /// The next that is to be sent.
    pub fn next_output(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    /// When something happens next by itself.
    pub fn next_timeout(&self) -> Option<Time> {
        let begin = (!self.sink.is_paused())
            .then(|| self.queue.front().map(|one| self.free_at.max(one.came)))
            .flatten();
        let held = self.held.iter().map(|held| held.until).min();
        let on_link = self.on_link.front().map(|(due, _)| *due);
        let sink = self.sink.next_timeout();
        let source = self.source.next_timeout();
        [begin, held, on_link, sink, source].into_iter().flatten().min()
    }
}

/// Random numbers of one of those that share a seed.
pub(crate) fn seeded(seed: u64, number: u64) -> Pcg64Mcg {
    Pcg64Mcg::seed_from_u64(seed.wrapping_add(number))
}

/// A number from 0 to 1, without 1.
pub(crate) fn uniform(random: &mut Pcg64Mcg) -> f64 {
    (random.next_u64() >> 11) as f64 / (1u64 << 53) as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::PfcSettings;

    fn settings() -> PointSettings {
        PointSettings {
            rate_bps: 1_000_000_000,
            delay_ps: 0,
            buffer_bytes: 100_000,
            ecn: None,
            pfc: None,
            loss: 0.0,
            seed: 1,
            events: Vec::new(),
        }
    }

    fn direction(settings: &PointSettings) -> Direction {
        Direction::new(settings, 0, MacAddress([2; 6]))
    }

    /// Frames that leave by `until`, with when they were due.
    fn forwarded(d: &mut Direction, until: Time) -> Vec<Time> {
        let mut due = Vec::new();
        while let Some(at) = d.next_timeout().filter(|&at| at <= until) {
            d.advance(at);
            while let Some(output) = d.next_output() {
                if let Output::Forward(_, at) = output {
                    due.push(at);
                }
            }
        }
        due
    }

    #[test]
    fn frames_leave_at_the_rate_and_after_the_delay() {
        let mut d = direction(&PointSettings { delay_ps: 7_000_000, ..settings() });
        for _ in 0..3 {
            d.on_frame(Time::ZERO, vec![0; 1226]);
        }
        // 1226 B and 24 on the wire are 10 us at 1 Gbit/s.
        assert_eq!(forwarded(&mut d, Time::from_ms(1)), [17, 27, 37].map(Time::from_us));
    }

    #[test]
    fn however_late_it_looks_the_rate_is_kept() {
        let mut d = direction(&settings());
        for _ in 0..20 {
            d.on_frame(Time::ZERO, vec![0; 1226]);
        }
        d.advance(Time::from_us(95));
        let mut left = 0;
        while d.next_output().is_some() {
            left += 1;
        }
        assert_eq!(left, 9, "as many as the link had carried by then");
    }

    #[test]
    fn a_full_buffer_drops_and_xoff_and_xon_pause() {
        let pfc = PfcSettings { xoff_bytes: 5_000, xon_bytes: 2_500, priority: 3, quanta: 65_535 };
        let mut d = direction(&PointSettings { pfc: Some(pfc), buffer_bytes: 10_000, ..settings() });
        for _ in 0..9 {
            d.on_frame(Time::ZERO, vec![0; 1226]);
        }
        assert_eq!((d.counters.dropped_full, d.counters.most_queued_bytes), (1, 10_000));
        let pause = |output| match output {
            Some(Output::Back(frame)) => Pfc::parse(&frame).unwrap().time[3],
            other => unreachable!("{other:?}"),
        };
        assert_eq!(pause(d.next_output()), 65_535);
        // Six have begun when two are left.
        d.advance(Time::from_us(50));
        assert_eq!(pause(d.next_output()), 0);
    }

    #[test]
    fn it_honours_a_pause() {
        let pfc = PfcSettings { xoff_bytes: 90_000, xon_bytes: 1, priority: 3, quanta: 1 };
        let mut d = direction(&PointSettings { pfc: Some(pfc), ..settings() });
        let mut time = [0; 8];
        time[3] = 100; // 51.2 us
        d.on_pause(Time::ZERO, &Pfc { source: MacAddress([2; 6]), class_enable_vector: 8, time });
        d.on_frame(Time::ZERO, vec![0; 1226]);
        assert_eq!(forwarded(&mut d, Time::from_ms(1)), [Time(61_200_000)]);
        assert_eq!(d.counters.paused_ps, 51_200_000);
    }

    #[test]
    fn what_does_not_say_that_it_may_be_marked_is_not() {
        let ecn = EcnThresholds { k_min_bytes: 0, k_max_bytes: 0, p_max: 1.0 };
        let mut d = direction(&PointSettings { ecn: Some(ecn), ..settings() });
        d.on_frame(Time::ZERO, vec![0; 1226]);
        d.on_frame(Time::ZERO, vec![0; 1226]);
        forwarded(&mut d, Time::from_ms(1));
        assert_eq!((d.counters.marked, d.counters.tx_frames), (0, 2));
    }
}
