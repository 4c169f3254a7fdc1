//! Selective repeat: requester and responder against each other, with packets lost, trimmed and overtaken on the way.

mod rc_link;

use proptest::prelude::*;
use rc_link::{DELAY, GAP};
use std::collections::{BTreeMap, BTreeSet};
use tailback_proto::transport::rc::SelectiveRepeat;
use tailback_proto::transport::rc::*;
use tailback_proto::units::Time;

const SELECTIVE: SelectiveRepeat = SelectiveRepeat {
    window: 32,
    reordering: 1,
    low_timeout: Time::from_us(50),
    high_timeout: Time::from_us(160),
    unmeasured_timeout: None,
};
const PARAMETERS: RcParameters =
    RcParameters { slow_restart: SlowRestart::Loss, selective: Some(SELECTIVE), ..rc_link::PARAMETERS };

#[derive(Clone, Copy, Debug)]
enum Packet {
    Data {
        psn: u32,
        ack_request: bool,
        sequence: u64,
    },
    Ack(u32),
    /// What is expected, and how far ahead of it the packet was that came.
    Nak(u32, u32),
    /// Of data that a switch trimmed.
    Headers(u32),
    /// What is expected, and how far ahead of it the packet was that was trimmed.
    TrimmedNak(u32, u32),
}

/// What becomes of a packet, by its number on the link and what it is: `None`: it is lost; else how much later it comes.
type Fate<'a> = &'a dyn Fn(usize, &Packet) -> Option<Time>;
/// Whether data is trimmed on its way, by its number on the link and its sequence.
type Trims<'a> = &'a dyn Fn(usize, u64) -> bool;

struct Exchange<'a> {
    fate: Fate<'a>,
    trims: Trims<'a>,
    p: RcParameters,
    put: usize,
    on_link: BTreeMap<(Time, usize), Packet>,
    requester: Requester,
    responder: Responder,
    memory: BTreeSet<u64>,
    sent: Vec<u64>,
    losses: usize,
    timeouts: usize,
    failed: bool,
}

impl<'a> Exchange<'a> {
    fn new(first: u32, packets: u64, p: RcParameters, fate: Fate<'a>) -> Self {
        let mut requester = Requester::new(first).with_recovery(&p);
        requester.post(packets);
        Exchange {
            fate,
            trims: &|_, _| false,
            p,
            put: 0,
            on_link: BTreeMap::new(),
            requester,
            responder: Responder::new(first).with_recovery(&p),
            memory: BTreeSet::new(),
            sent: Vec::new(),
            losses: 0,
            timeouts: 0,
            failed: false,
        }
    }

    fn put(&mut self, now: Time, packet: Packet) {
        let number = self.put;
        self.put += 1;
        let packet = match packet {
            Packet::Data { psn, sequence, .. } if (self.trims)(number, sequence) => Packet::Headers(psn),
            other => other,
        };
        if let Some(later) = (self.fate)(number, &packet) {
            self.on_link.insert((now + DELAY + later, number), packet);
        }
    }

    fn run(&mut self) -> Time {
        rc_link::run(self)
    }

    fn hear(&mut self, now: Time, psn: u32, ahead: u32, told: NakCause) {
        self.losses += self.requester.on_selective_nak(&self.p, now, psn, ahead, told).1 as usize;
    }

    fn first(&self) -> u64 {
        self.sent[0]
    }

    fn assert_delivered(&self, packets: u64) {
        assert!(!self.failed);
        let first = self.first();
        assert!(self.memory.iter().copied().eq(first..first + packets));
    }
}

impl rc_link::Exchange for Exchange<'_> {
    type Packet = Packet;

    fn requester(&self) -> &Requester {
        &self.requester
    }

    fn on_link(&mut self) -> &mut BTreeMap<(Time, usize), Packet> {
        &mut self.on_link
    }

    fn has_failed(&self) -> bool {
        self.failed
    }

    fn time_out(&mut self, now: Time) {
        self.timeouts += 1;
        self.failed = self.requester.on_timeout(&self.p, now) == Timeout::Failed;
    }

    fn send(&mut self, now: Time) {
        let unsent = self.requester.unsent();
        let out = self.requester.send(&self.p, now, false, 1);
        assert!(self.requester.unsent() < unsent);
        assert!(out.sequence < self.requester.acknowledged() + SELECTIVE.window as u64);
        assert_eq!(out.retransmission, self.sent.contains(&out.sequence));
        self.sent.push(out.sequence);
        let Outgoing { psn, ack_request, sequence, .. } = out;
        self.put(now, Packet::Data { psn, ack_request, sequence });
    }

    fn arrive(&mut self, now: Time, packet: Packet) {
        match packet {
            Packet::Data { psn, ack_request, sequence } => {
                let takes = self.responder.takes(psn);
                let is_new = !self.memory.contains(&sequence);
                assert_eq!(takes, is_new, "each packet goes to memory once");
                let answers = match self.responder.on_request(psn, 1, ack_request) {
                    Verdict::Accepted { ack } => ack,
                    Verdict::Placed => true,
                    Verdict::Duplicate { ack } => {
                        assert!(!is_new);
                        ack
                    }
                    Verdict::OutOfSequence { .. } => unreachable!("it is in the window"),
                };
                self.memory.insert(sequence);
                if answers {
                    let ahead = self.responder.ahead(psn);
                    self.put(
                        now,
                        match ahead {
                            0 => Packet::Ack(self.responder.ack_psn().unwrap()),
                            _ => Packet::Nak(self.responder.nak_psn(), ahead),
                        },
                    );
                }
                let all = self.responder.received() + self.responder.placed().count() as u64;
                assert_eq!(all - self.first(), self.memory.len() as u64);
            }
            Packet::Ack(psn) => _ = self.requester.on_ack(&self.p, now, psn),
            Packet::Headers(psn) => {
                let (missing, ahead) = (self.responder.takes(psn), self.responder.ahead(psn));
                let answer = match (missing, ahead) {
                    (true, _) => Packet::TrimmedNak(self.responder.nak_psn(), ahead),
                    (false, 0) => Packet::Ack(self.responder.ack_psn().expect("it came before")),
                    (false, _) => Packet::Nak(self.responder.nak_psn(), ahead),
                };
                self.put(now, answer);
            }
            Packet::Nak(psn, ahead) => self.hear(now, psn, ahead, NakCause::Arrived),
            Packet::TrimmedNak(psn, ahead) => self.hear(now, psn, ahead, NakCause::Trimmed),
        }
        assert!(self.requester.acknowledged() <= self.responder.received(), "acknowledged before it arrived");
    }
}

fn loses(sequences: &'static [u64]) -> impl Fn(usize, &Packet) -> Option<Time> {
    let left = std::cell::RefCell::new(sequences.to_vec());
    move |_, packet| {
        let Packet::Data { sequence, .. } = *packet else { return Some(Time::ZERO) };
        let mut left = left.borrow_mut();
        match left.iter().position(|&lost| lost == sequence) {
            Some(at) => {
                left.remove(at);
                None
            }
            None => Some(Time::ZERO),
        }
    }
}

/// The short time is for few packets: a flight that begins with them has the long one once there are more.
#[test]
fn a_flight_that_grows_has_the_time_of_many() {
    let p = RcParameters { ack_every: 1, ..PARAMETERS };
    let selective = p.selective.expect("it repeats selectively");
    let mut requester = Requester::new(0).with_recovery(&p);
    requester.post(10);
    let at = Time::from_ns;
    requester.send(&p, at(0), false, 1);
    requester.send(&p, at(10), false, 1);
    assert_eq!(requester.next_timeout(), Some(selective.low_timeout));
    requester.send(&p, at(20), false, 1);
    assert_eq!(requester.next_timeout(), Some(selective.high_timeout));
}

/// RFC 6298: SRTT + 4 RTTVAR once a round trip was measured. A packet that goes again is not measured (section 3).
#[test]
fn the_timer_follows_the_round_trip() {
    let at = Time::from_us;
    let selective = Some(SelectiveRepeat { unmeasured_timeout: Some(at(4000)), ..SELECTIVE });
    let p = RcParameters { ack_every: 1, ack_timeout: at(60_000), selective, ..PARAMETERS };
    let mut requester = Requester::new(0).with_recovery(&p);
    requester.post(4);
    requester.send(&p, at(0), false, 1);
    assert_eq!(requester.next_timeout(), Some(at(4000)));
    requester.on_ack(&p, at(1000), 0);
    requester.send(&p, at(1000), false, 1);
    assert_eq!(requester.next_timeout(), Some(at(1000 + 1000 + 4 * 500)));
    assert_eq!(requester.on_timeout(&p, at(4000)), Timeout::Retry);
    requester.send(&p, at(4000), false, 1);
    requester.on_ack(&p, at(9000), 1);
    requester.send(&p, at(9000), false, 1);
    assert_eq!(requester.next_timeout(), Some(at(9000 + 3000)));
}

#[test]
fn only_what_is_missing_goes_again() {
    let fate = loses(&[3, 4, 9, 20]);
    let mut exchange = Exchange::new(0, 40, PARAMETERS, &fate);
    let end = exchange.run();
    exchange.assert_delivered(40);
    assert_eq!(exchange.sent.len(), 44);
    assert_eq!((exchange.losses, exchange.timeouts), (2, 0), "3 to 9 within a round trip are one loss");
    assert!(end < Time::from_us(80), "{end}");
}

#[test]
fn a_packet_that_is_lost_twice_waits_for_the_timer() {
    let fate = loses(&[3, 3]);
    let mut exchange = Exchange::new(0, 40, PARAMETERS, &fate);
    exchange.run();
    exchange.assert_delivered(40);
    // The timer takes all that is not known to have arrived for lost: here nothing else.
    assert_eq!((exchange.sent.len(), exchange.timeouts), (42, 1));
}

#[test]
fn the_timer_is_short_while_few_packets_are_in_flight() {
    let end = |packets, lost| {
        let fate = loses(lost);
        let mut exchange = Exchange::new(0, packets, PARAMETERS, &fate);
        let end = exchange.run();
        exchange.assert_delivered(packets);
        assert_eq!(exchange.timeouts, 1);
        end
    };
    // It starts with the last packet, which asks for an ACK; then that goes again and its ACK comes back.
    assert_eq!(end(1, &[0]), SELECTIVE.low_timeout + DELAY + DELAY);
    // The last three are lost, behind an ACK at 10 us: the timer is the long one.
    assert_eq!(
        end(4, &[1, 2, 3]),
        GAP + GAP + GAP + SELECTIVE.high_timeout + GAP + GAP + DELAY + DELAY + GAP
    );
}

#[test]
fn what_is_only_overtaken_goes_once_where_reordering_is_allowed() {
    // Every third packet takes 4 us longer: three others overtake it.
    let fate = |_: usize, packet: &Packet| match *packet {
        Packet::Data { sequence, .. } if sequence % 3 == 0 => Some(Time::from_us(4)),
        _ => Some(Time::ZERO),
    };
    let sent = |reordering| {
        let selective = Some(SelectiveRepeat { reordering, ..SELECTIVE });
        let mut exchange = Exchange::new(0, 60, RcParameters { selective, ..PARAMETERS }, &fate);
        exchange.run();
        exchange.assert_delivered(60);
        exchange.sent.len()
    };
    assert!(sent(1) > 70);
    assert_eq!(sent(5), 60);
}

#[test]
fn no_more_than_the_window_is_in_flight() {
    let fate = |_: usize, packet: &Packet| match packet {
        Packet::Data { .. } => Some(Time::from_us(500)),
        _ => Some(Time::ZERO),
    };
    let selective = Some(SelectiveRepeat { high_timeout: Time::from_us(900), ..SELECTIVE });
    let mut exchange =
        Exchange::new(0, 200, RcParameters { ack_every: 1000, selective, ..PARAMETERS }, &fate);
    exchange.run();
    exchange.assert_delivered(200);
    assert_eq!(exchange.sent.len(), 200);
}

/// The first that goes of each of these is trimmed.
fn trims_once(sequences: &'static [u64]) -> impl Fn(usize, u64) -> bool {
    let left = std::cell::RefCell::new(sequences.to_vec());
    move |_, sequence| {
        let mut left = left.borrow_mut();
        left.iter().position(|&at| at == sequence).map(|at| left.remove(at)).is_some()
    }
}

#[test]
fn what_was_trimmed_goes_again_at_once_whatever_reordering_is_allowed() {
    let selective = Some(SelectiveRepeat { reordering: 30, ..SELECTIVE });
    let p = RcParameters { selective, ..PARAMETERS };
    let trims = trims_once(&[3, 4, 9, 20, 39]);
    let mut exchange = Exchange { trims: &trims, ..Exchange::new(0, 40, p, &|_, _| Some(Time::ZERO)) };
    let end = exchange.run();
    exchange.assert_delivered(40);
    // Each of them twice, the last one too; none again when 30 later ones have arrived.
    assert_eq!((exchange.sent.len(), exchange.timeouts), (45, 0));
    // Packet 3 goes at 3 us, and its NAK is back a round trip of 10 us later.
    assert_eq!(exchange.sent[12..16], [12, 3, 4, 13]);
    // 44 packets go by then; the NAK of the last one, itself and its ACK take two round trips.
    assert_eq!(end, Time::from_us(43 + 20));
}

#[test]
fn what_is_trimmed_twice_goes_three_times_without_a_timeout() {
    let trims = trims_once(&[3, 3]);
    let mut exchange =
        Exchange { trims: &trims, ..Exchange::new(0, 40, PARAMETERS, &|_, _| Some(Time::ZERO)) };
    exchange.run();
    exchange.assert_delivered(40);
    assert_eq!(exchange.sent.iter().filter(|&&sequence| sequence == 3).count(), 3);
    assert_eq!((exchange.sent.len(), exchange.timeouts), (42, 0));
}

/// Headers that arrive show that the network lives: the timer waits for what nobody tells of.
#[test]
fn the_timer_does_not_fire_while_headers_come() {
    let trims = |number: usize, _: u64| number < 600;
    let mut exchange =
        Exchange { trims: &trims, ..Exchange::new(0, 4, PARAMETERS, &|_, _| Some(Time::ZERO)) };
    let end = exchange.run();
    exchange.assert_delivered(4);
    assert!(end > SELECTIVE.high_timeout + SELECTIVE.high_timeout, "{end}");
    assert_eq!(exchange.timeouts, 0);
}

#[test]
fn headers_that_are_lost_leave_it_to_the_timer() {
    let fate = |_: usize, packet: &Packet| match packet {
        Packet::Headers(_) => None,
        _ => Some(Time::ZERO),
    };
    let trims = trims_once(&[39]);
    let mut exchange = Exchange { trims: &trims, ..Exchange::new(0, 40, PARAMETERS, &fate) };
    exchange.run();
    exchange.assert_delivered(40);
    assert_eq!(
        (exchange.sent.len(), exchange.timeouts),
        (44, 1),
        "behind packet 35 nothing is known to have arrived"
    );
}

#[test]
fn a_dead_link_ends_in_an_error() {
    let mut exchange = Exchange::new(7, 4, PARAMETERS, &|_, _| None);
    exchange.run();
    assert!(exchange.failed && !exchange.requester.has_work());
}

proptest! {
    /// Whatever is lost, trimmed or overtaken on a link that now and then lets something through, each packet is in memory once and
    /// the connection ends; across the wrap of the PSN, too.
    #[test]
    fn everything_arrives_once(
        first in prop_oneof![Just(0u32), Just(0xff_fff0)],
        packets in 1u64..120,
        reordering in 1u32..12,
        ack_every in 1u32..20,
        fates in prop::collection::vec((0u8..100, 0u64..30, 0u8..100), 1..300),
        loss in 0u8..40,
        trimmed in 0u8..80,
    ) {
        let fate = |number: usize, _: &Packet| {
            // Later than any list: nothing is lost any more.
            let (dice, late, _) = fates.get(number).copied().unwrap_or((99, 0, 99));
            (dice >= loss).then(|| Time::from_us(late))
        };
        let selective = Some(SelectiveRepeat { reordering, ..SELECTIVE });
        // With two of five packets lost, and as many answers, seven retries in a row may all fail.
        let (retry_count, ack_timeout) = (300, Time::from_us(100_000));
        let p = RcParameters { selective, ack_every, ack_timeout, retry_count, ..PARAMETERS };
        let trims = |number: usize, _: u64| fates.get(number).is_some_and(|fate| fate.2 < trimmed);
        let mut exchange = Exchange { trims: &trims, ..Exchange::new(first, packets, p, &fate) };
        exchange.run();
        exchange.assert_delivered(packets);
    }
}
