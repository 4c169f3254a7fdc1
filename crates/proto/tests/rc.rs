//! Requester and responder run against each other on simulated time, with packets lost on the way.

mod rc_link;

use proptest::prelude::*;
use rc_link::{DELAY, GAP, PARAMETERS};
use std::collections::BTreeMap;
use tailback_proto::congestion::dcqcn::NotificationPoint;
use tailback_proto::transport::rc::*;
use tailback_proto::units::Time;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Packet {
    Data { psn: u32, ack_request: bool, sequence: u64 },
    Ack(u32),
    Nak(u32),
    Cnp,
}

/// Two ends and a link that loses the packets that `lost` says, by their number on the link.
struct Exchange<L: FnMut(usize, &Packet) -> bool> {
    lost: L,
    sent: usize,
    on_link: BTreeMap<(Time, usize), Packet>,
    requester: Requester,
    responder: Responder,
    notification_point: NotificationPoint,
    memory: Vec<u64>,
    cnps: u64,
    naks: u64,
    failed: bool,
    log: Vec<Packet>,
}

impl<L: FnMut(usize, &Packet) -> bool> Exchange<L> {
    fn new(packets: u64, lost: L) -> Self {
        let mut requester = Requester::default();
        requester.post(packets);
        Exchange {
            lost,
            sent: 0,
            on_link: BTreeMap::new(),
            requester,
            responder: Responder::default(),
            notification_point: NotificationPoint::default(),
            memory: Vec::new(),
            cnps: 0,
            naks: 0,
            failed: false,
            log: Vec::new(),
        }
    }

    fn put(&mut self, now: Time, packet: Packet) {
        let number = self.sent;
        self.sent += 1;
        self.log.push(packet);
        if !(self.lost)(number, &packet) {
            self.on_link.insert((now + DELAY, number), packet);
        }
    }

    fn run(&mut self) -> Time {
        rc_link::run(self)
    }

    fn assert_delivered(&self, packets: u64) {
        assert!(!self.failed);
        assert_eq!(self.memory, (0..packets).collect::<Vec<_>>(), "each packet once, in order");
    }
}

impl<L: FnMut(usize, &Packet) -> bool> rc_link::Exchange for Exchange<L> {
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
        self.failed = self.requester.on_timeout(&PARAMETERS, now) == Timeout::Failed;
    }

    fn send(&mut self, now: Time) {
        let Outgoing { psn, ack_request, sequence, .. } = self.requester.send(&PARAMETERS, now, false, 1);
        self.put(now, Packet::Data { psn, ack_request, sequence });
    }

    fn arrive(&mut self, now: Time, packet: Packet) {
        match packet {
            Packet::Data { psn, ack_request, sequence } => {
                if self.notification_point.on_ecn_marked(now, Time::from_us(4)) {
                    self.put(now, Packet::Cnp);
                }
                match self.responder.on_request(psn, 1, ack_request) {
                    Verdict::Accepted { ack } => {
                        self.memory.push(sequence);
                        if ack {
                            self.put(now, Packet::Ack(self.responder.ack_psn().unwrap()));
                        }
                    }
                    Verdict::Placed => unreachable!("it goes back"),
                    Verdict::OutOfSequence { nak } => {
                        if nak {
                            self.naks += 1;
                            self.put(now, Packet::Nak(self.responder.nak_psn()));
                        }
                    }
                    Verdict::Duplicate { ack } => {
                        if ack {
                            self.put(now, Packet::Ack(self.responder.ack_psn().unwrap()));
                        }
                    }
                }
            }
            Packet::Ack(psn) => {
                self.requester.on_ack(&PARAMETERS, now, psn);
            }
            Packet::Nak(psn) => {
                self.requester.on_nak(&PARAMETERS, now, psn);
            }
            Packet::Cnp => self.cnps += 1,
        }
    }
}

#[test]
fn without_loss_nothing_is_sent_twice() {
    let mut exchange = Exchange::new(10, |_, _| false);
    exchange.run();
    exchange.assert_delivered(10);
    let count = |wanted: fn(&Packet) -> bool| exchange.log.iter().filter(|p| wanted(p)).count();
    assert_eq!(count(|p| matches!(p, Packet::Data { .. })), 10);
    // ACK requests on packets 4 and 8, and on the last.
    assert_eq!(count(|p| matches!(p, Packet::Ack(_))), 3);
    assert_eq!(count(|p| matches!(p, Packet::Nak(_))), 0);
}

#[test]
fn every_single_packet_can_be_lost() {
    // The exchange without loss, and one with a gap so that there is a NAK to lose.
    for also_lost in [None, Some(2)] {
        let mut complete = Exchange::new(9, |n, _| Some(n) == also_lost);
        complete.run();
        complete.assert_delivered(9);
        let kinds: Vec<Packet> = complete.log.clone();
        assert!(kinds.contains(&Packet::Cnp) && kinds.iter().any(|p| matches!(p, Packet::Ack(_))));
        assert_eq!(kinds.iter().any(|p| matches!(p, Packet::Nak(_))), also_lost.is_some());
        for number in 0..complete.sent {
            let mut exchange = Exchange::new(9, |n, _| n == number || Some(n) == also_lost);
            exchange.run();
            exchange.assert_delivered(9);
        }
    }
}

#[test]
fn a_gap_gives_one_nak_and_goes_back() {
    let mut exchange = Exchange::new(40, |n, _| n == 3);
    let end = exchange.run();
    exchange.assert_delivered(40);
    assert_eq!(exchange.naks, 1, "once per gap, though many packets came out of sequence");
    assert!(end < Time::from_us(100), "by the NAK and not by the timer: {end}");
}

#[test]
fn a_lost_tail_comes_back_by_the_timer() {
    let mut first = true;
    let mut exchange = Exchange::new(10, |_, packet| {
        matches!(packet, Packet::Data { sequence: 9, .. }) && std::mem::take(&mut first)
    });
    let end = exchange.run();
    exchange.assert_delivered(10);
    // The last packet, which asks for an ACK, leaves at 9 us; the request of packet 7 was answered at 17 us, and the
    // timer of 100 us starts again there. Packets 8 and 9 go again, a gap apart, and the ACK comes back.
    assert_eq!(end, Time::from_us(17 + 100) + GAP + DELAY + DELAY);
}

#[test]
fn timeouts_double_up_to_the_timer_and_end_in_an_error() {
    let mut exchange = Exchange::new(1, |_, _| true);
    let end = exchange.run();
    assert!(exchange.failed && exchange.requester.is_failed() && !exchange.requester.has_work());
    // 100, 200, 400, 800 us, then 1000 us each; the connection gives up at the first timeout after 8 * 1000 us
    // without progress: 1500 + 7 * 1000.
    assert_eq!(end, Time::from_us(8500));
    assert_eq!(exchange.log.len(), 11);
}

#[test]
fn old_and_foreign_acks_change_nothing() {
    let mut requester = Requester::default();
    requester.post(8);
    for _ in 0..4 {
        requester.send(&PARAMETERS, Time::ZERO, false, 1);
    }
    assert_eq!(requester.on_ack(&PARAMETERS, Time(1), 1), 2);
    assert_eq!(requester.on_ack(&PARAMETERS, Time(2), 0), 0, "older than what is known");
    assert_eq!(requester.on_ack(&PARAMETERS, Time(3), 7), 0, "never sent");
    assert_eq!(requester.on_nak(&PARAMETERS, Time(4), 1), 0, "asks for what was acknowledged");
    assert_eq!((requester.acknowledged(), requester.next_sequence()), (2, 4));
}

/// A requester that sent packets 0 to `sent - 1` of `posted`.
fn after_sending(sent: usize, posted: u64) -> Requester {
    let mut requester = Requester::default();
    requester.post(posted);
    (0..sent).for_each(|_| _ = requester.send(&PARAMETERS, Time::ZERO, false, 1));
    requester
}

#[test]
fn acks_tell_how_much_they_acknowledge() {
    let mut requester = after_sending(6, 8);
    assert_eq!(requester.on_ack(&PARAMETERS, Time(1), 1), 2);
    assert_eq!(requester.on_ack(&PARAMETERS, Time(2), 4), 3);
    assert!(!requester.is_failed() && !requester.is_idle());
}

#[test]
fn the_timer_runs_only_while_an_ack_is_asked_for() {
    let mut requester = after_sending(3, 8);
    assert_eq!(requester.next_timeout(), None, "packets 0 to 2 of 8 ask for none");
    requester.send(&PARAMETERS, Time::ZERO, false, 1);
    assert_eq!(requester.next_timeout(), Some(Time::from_us(100)), "packet 3 does");
    requester.send(&PARAMETERS, Time::ZERO, false, 1);
    requester.on_ack(&PARAMETERS, Time(5), 3);
    assert_eq!(requester.next_timeout(), None, "packet 4, which is on its way, does not");
}

#[test]
fn the_timer_fires_when_it_is_due_or_later_but_not_before() {
    let mut requester = after_sending(4, 4);
    assert_eq!(requester.on_timeout(&PARAMETERS, Time::from_us(99)), Timeout::None);
    assert_eq!(requester.next_sequence(), 4);
    assert_eq!(requester.on_timeout(&PARAMETERS, Time::from_us(101)), Timeout::Retry);
    assert_eq!(requester.next_sequence(), 0);
    assert_eq!(requester.next_timeout(), None, "until a packet asks again");
}

#[test]
fn what_goes_again_says_so() {
    let mut requester = after_sending(4, 8);
    assert_eq!(requester.on_nak(&PARAMETERS, Time(1), 2), 2);
    let again: Vec<(u64, bool)> = (0..3)
        .map(|_| requester.send(&PARAMETERS, Time(2), false, 1))
        .map(|out| (out.sequence, out.retransmission))
        .collect();
    assert_eq!(again, [(2, true), (3, true), (4, false)]);
}

#[test]
fn a_nak_of_the_first_packet_goes_back_to_it() {
    let mut requester = after_sending(4, 8);
    assert_eq!(requester.on_nak(&PARAMETERS, Time(1), 0), 0);
    assert_eq!(requester.next_sequence(), 0);
}

#[test]
fn a_nak_of_what_was_not_sent_yet_only_acknowledges() {
    let mut requester = after_sending(2, 8);
    assert_eq!(requester.on_nak(&PARAMETERS, Time(1), 2), 2);
    assert_eq!((requester.acknowledged(), requester.next_sequence()), (2, 2));
    // It is still the fourth packet that asks for an ACK: nothing began anew.
    let asks: Vec<bool> =
        (0..2).map(|_| requester.send(&PARAMETERS, Time(2), false, 1).ack_request).collect();
    assert_eq!(asks, [false, true]);
}

/// What goes at once: packets and whether the last one asks for an ACK.
fn goes(requester: &mut Requester, p: &RcParameters) -> (u64, bool) {
    let (first, mut asks) = (requester.next_sequence(), false);
    while requester.has_work() {
        asks = requester.send(p, Time(2), false, 1).ack_request;
    }
    (requester.next_sequence() - first, asks)
}

#[test]
fn after_a_loss_one_packet_goes_and_twice_as_many_each_round_trip() {
    let p = RcParameters { ack_every: 100, slow_restart: SlowRestart::Loss, ..PARAMETERS };
    let mut requester = after_sending(50, 64);
    assert_eq!(requester.on_nak(&p, Time(1), 10), 10);
    let mut acknowledged = 10;
    for expected in [1, 2, 4, 8, 16] {
        assert_eq!(goes(&mut requester, &p), (expected, true), "the last one that may go asks for an ACK");
        acknowledged += expected;
        requester.on_ack(&p, Time(2), acknowledged as u32 - 1);
    }
    // 41 are acknowledged, and 32 more than the 64 posted may go: it is over, and what is posted now goes at once.
    assert_eq!(goes(&mut requester, &p).0, 64 - 41);
    requester.post(500);
    assert_eq!(goes(&mut requester, &p).0, 500);
}

#[test]
fn a_second_loss_begins_anew() {
    let p = RcParameters { slow_restart: SlowRestart::Loss, ..PARAMETERS };
    let mut requester = after_sending(8, 8);
    requester.on_nak(&p, Time(1), 0);
    goes(&mut requester, &p);
    requester.on_ack(&p, Time(2), 0);
    assert_eq!(goes(&mut requester, &p).0, 2);
    requester.on_nak(&p, Time(3), 2);
    assert_eq!(goes(&mut requester, &p), (1, true));
}

#[test]
fn what_restarts_slowly_is_a_setting() {
    for (slow_restart, after_nak, after_timeout) in
        [(SlowRestart::Never, 8, 8), (SlowRestart::Timeout, 8, 1), (SlowRestart::Loss, 1, 1)]
    {
        let p = RcParameters { slow_restart, ..PARAMETERS };
        let mut requester = after_sending(8, 8);
        requester.on_nak(&p, Time(1), 0);
        assert_eq!(goes(&mut requester, &p).0, after_nak, "{slow_restart:?}");
        let mut requester = after_sending(8, 8);
        assert_eq!(requester.on_timeout(&p, Time::from_us(200)), Timeout::Retry);
        assert_eq!(goes(&mut requester, &p).0, after_timeout, "{slow_restart:?}");
    }
}

#[test]
fn the_responder_takes_packets_in_order_and_names_the_one_it_misses() {
    let mut responder = Responder::default();
    assert_eq!((responder.received(), responder.ack_psn(), responder.nak_psn()), (0, None, 0));
    let before_the_first = responder.on_request(0xff_ffff, 1, true);
    assert_eq!(before_the_first, Verdict::Duplicate { ack: false }, "nothing arrived that an ACK could name");
    for psn in 0..3 {
        assert!(responder.expects(psn) && !responder.expects(psn + 1));
        assert_eq!(responder.on_request(psn, 1, psn == 2), Verdict::Accepted { ack: psn == 2 });
    }
    assert_eq!((responder.received(), responder.ack_psn(), responder.nak_psn()), (3, Some(2), 3));
    assert_eq!(responder.on_request(5, 1, true), Verdict::OutOfSequence { nak: true });
    assert_eq!(responder.on_request(1, 1, true), Verdict::Duplicate { ack: true });
    assert_eq!(responder.on_request(1, 1, false), Verdict::Duplicate { ack: false });
    assert_eq!(responder.on_request(6, 1, true), Verdict::OutOfSequence { nak: false }, "one NAK for a gap");
    assert_eq!(responder.received(), 3);
}

proptest! {
    #[test]
    fn under_random_loss_everything_arrives_once_in_order(
        packets in 1u64..300, percent in 0u32..40, seed in any::<u64>()
    ) {
        let mut state = seed | 1;
        let mut exchange = Exchange::new(packets, move |_, _| {
            // xorshift64: only to pick what is lost.
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state % 100 < percent as u64
        });
        exchange.run();
        if !exchange.failed {
            prop_assert_eq!(&exchange.memory, &(0..packets).collect::<Vec<_>>());
        }
        // Whatever reached memory did so once and in order, even where the connection gave up.
        let received = exchange.memory.len() as u64;
        prop_assert_eq!(&exchange.memory, &(0..received).collect::<Vec<_>>());
    }

    /// The state machines take any input without panicking, and never claim what did not happen.
    #[test]
    fn any_input_is_survived(inputs in prop::collection::vec((0u32..5, any::<u32>(), 0u64..10_000), 0..300)) {
        let mut requester = Requester::default();
        let mut now = Time::ZERO;
        for (kind, number, gap) in inputs {
            now += Time::from_us(gap);
            match kind {
                0 => requester.post((number % 100) as u64),
                1 if requester.has_work() => {
                    requester.send(&PARAMETERS, now, false, 1);
                }
                2 => {
                    requester.on_ack(&PARAMETERS, now, number & 0xff_ffff);
                }
                3 => {
                    requester.on_nak(&PARAMETERS, now, number & 0xff_ffff);
                }
                _ => {
                    requester.on_timeout(&PARAMETERS, now);
                }
            }
            prop_assert!(requester.acknowledged() <= requester.next_sequence());
            prop_assert!(requester.next_sequence() <= requester.posted());
        }
    }
}
