//! The transmit queue of a veth device: worked examples, and properties under arbitrary sequences of what both ends do.

use proptest::prelude::*;
use tailback_proto::flow_control::byte_queue_limits::DqlParameters;
use tailback_proto::flow_control::byte_queue_limits::*;
use tailback_proto::units::Time;

fn queue(ring: u32, on_full: OnFull, charge: Charge, tx_usecs: u64) -> VethQueue {
    let tx_usecs = Time::from_us(tx_usecs);
    VethQueue::new(
        VethParameters { ring, on_full, charge, tx_usecs, dql: DqlParameters::default() },
        Time::ZERO,
    )
}

#[test]
fn the_watchdog_is_64_packets_of_250_ms_and_half_of_it_the_most_for_tx_usecs() {
    assert_eq!((TX_WATCHDOG_TIMEOUT, MAX_TX_USECS), (Time::from_ms(16_000), Time::from_ms(8_000)));
}

/// A ring of 256 is full until the consumer has cleared 16 entries at once, and stopped until the poll ends.
#[test]
fn a_full_ring_stops_the_queue_until_a_poll_ends() {
    let mut q = queue(256, OnFull::Stop, Charge::Off, 0);
    for packet in 0..256 {
        assert_eq!(q.transmit(packet, 60, Time::ZERO), Transmit::Queued);
    }
    assert!(!q.is_stopped());
    assert_eq!(q.transmit(256, 60, Time::ZERO), Transmit::Busy);
    assert!(q.is_stopped());
    for packet in 0..64 {
        assert_eq!(q.take(), Some(packet));
        assert!(!q.done(Time::ZERO));
        assert!(q.is_stopped());
    }
    assert!(q.poll_ends(Time::ZERO));
    assert!(!q.poll_ends(Time::ZERO));
    for packet in 0..64 {
        assert_eq!(q.transmit(packet, 60, Time::ZERO), Transmit::Queued);
    }
    assert_eq!(q.transmit(0, 60, Time::ZERO), Transmit::Busy);
}

#[test]
fn entries_are_cleared_sixteen_at_once_but_one_by_one_in_a_small_ring() {
    let room = |ring, taken| {
        let mut q = queue(ring, OnFull::Free, Charge::Off, 0);
        (0..ring).for_each(|packet| assert_eq!(q.transmit(packet, 60, Time::ZERO), Transmit::Queued));
        (0..taken).for_each(|_| assert!(q.take().is_some()));
        (0..ring).filter(|_| q.transmit(0, 60, Time::ZERO) == Transmit::Queued).count()
    };
    assert_eq!([room(256, 15), room(256, 16), room(256, 31), room(256, 32)], [0, 16, 16, 32]);
    assert_eq!([room(30, 1), room(30, 7)], [1, 7]);
}

/// The limit is 0 at first: one packet is over it. Its completion is told although the 100 us are not over, since it is
/// more than the limit.
#[test]
fn what_would_starve_the_queue_is_told_at_once() {
    let mut q = queue(256, OnFull::Stop, Charge::Packets, 100);
    assert_eq!(q.transmit(7, 60, Time::ZERO), Transmit::Queued);
    assert!(q.is_stopped());
    assert_eq!(q.take(), Some(7));
    assert!(q.done(Time::from_us(1)));
    assert_eq!(q.in_flight(), 0);
}

#[test]
fn xdp_frames_are_neither_charged_nor_stopped_by_the_limit() {
    let mut q = queue(4, OnFull::Stop, Charge::Packets, 0);
    q.transmit(0, 60, Time::ZERO);
    assert!(q.is_stopped());
    assert!((1..4).all(|packet| q.transmit_frame(packet)));
    assert!(!q.transmit_frame(4));
    assert_eq!(q.in_flight(), 1);
}

#[derive(Clone, Copy, Debug)]
enum Step {
    /// The stack sends while it may: at most this many packets, of this many bytes each.
    Send(u32, u32),
    Frame,
    /// A poll takes at most this many packets, each this many us after the one before.
    Poll(u32, u64),
    Wait(u64),
    TearDown,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        4 => (1u32..300, 60u32..1515).prop_map(|(count, bytes)| Step::Send(count, bytes)),
        1 => Just(Step::Frame),
        4 => (1u32..65, 0u64..200).prop_map(|(budget, us)| Step::Poll(budget, us)),
        1 => (0u64..2_000_000).prop_map(Step::Wait),
        1 => Just(Step::TearDown),
    ];
    prop::collection::vec(step, 1..200)
}

proptest! {
    /// Packets come out in the order in which they went in, once each; charges equal what lies there; a queue whose ring was
    /// emptied by a poll is not stopped; teardown leaves nothing.
    #[test]
    fn nothing_is_lost_and_nothing_hangs(
        steps in steps(),
        ring in 1u32..300,
        stops in any::<bool>(),
        charge in prop_oneof![Just(Charge::Off), Just(Charge::Packets), Just(Charge::Bytes)],
        tx_usecs in prop_oneof![Just(0u64), 1u64..10_000],
    ) {
        let mut q = queue(ring, if stops { OnFull::Stop } else { OnFull::Free }, charge, tx_usecs);
        let (mut now, mut sent, mut expected) = (Time::ZERO, 0u32, std::collections::VecDeque::new());
        for step in steps {
            match step {
                Step::Send(count, bytes) => for _ in 0..count {
                    if q.is_stopped() {
                        break;
                    }
                    sent += 1;
                    if q.transmit(sent, bytes, now) == Transmit::Queued {
                        expected.push_back(sent);
                    }
                },
                Step::Frame => {
                    sent += 1;
                    if q.transmit_frame(sent) {
                        expected.push_back(sent);
                    }
                }
                Step::Poll(budget, us) => {
                    for _ in 0..budget {
                        now += Time::from_us(us);
                        let was_stopped = q.is_stopped();
                        let Some(packet) = q.take() else { break };
                        prop_assert_eq!(Some(packet), expected.pop_front());
                        prop_assert!(!q.done(now) || was_stopped);
                    }
                    q.poll_ends(now);
                    if q.is_empty() {
                        prop_assert!(!q.is_stopped(), "an empty ring, and nobody will wake the queue");
                    }
                }
                Step::Wait(us) => now += Time::from_us(us),
                Step::TearDown => {
                    let stopped = q.is_stopped();
                    let mut freed = Vec::new();
                    prop_assert_eq!(q.tear_down(now, |packet| freed.push(packet)), stopped);
                    prop_assert_eq!(freed, expected.drain(..).collect::<Vec<_>>());
                    prop_assert!(q.is_empty() && !q.is_stopped() && q.in_flight() == 0);
                }
            }
            prop_assert!(q.len() as u32 <= ring);
            prop_assert_eq!(q.len(), expected.len());
            prop_assert_eq!(q.in_flight(), q.charged());
        }
    }

    /// A queue that stays stopped is woken 16 s after its last packet, and not before.
    #[test]
    fn the_watchdog_wakes_a_stopped_queue_after_16_s(sent_at in 0u64..1_000_000) {
        let mut q = queue(256, OnFull::Stop, Charge::Packets, 0);
        prop_assert_eq!(q.next_timeout(), None);
        q.transmit(0, 60, Time::from_us(sent_at));
        let due = Time::from_us(sent_at) + TX_WATCHDOG_TIMEOUT;
        prop_assert_eq!(q.next_timeout(), Some(due));
        prop_assert!(!q.on_timeout(Time(due.0 - 1)));
        prop_assert!(q.on_timeout(due));
        prop_assert!(!q.is_stopped());
    }
}
