//! A packet that waits, and a rate that changes meanwhile.

use proptest::prelude::*;
use tailback_proto::congestion::builtin::{Congestion, Settings};
use tailback_proto::congestion::dcqcn::DcqcnParameters;
use tailback_proto::congestion::Link;
use tailback_proto::nic::{Pacer, SendingHalf, Standing};
use tailback_proto::units::{Rate, Time};

/// A frame of 4096 B of payload, with preamble and gap.
const WIRE_BYTES: u32 = 4178;

fn dcqcn(wait_follows_rate: bool) -> Congestion {
    let parameters = DcqcnParameters { wait_follows_rate, ..Default::default() };
    Settings::Dcqcn(parameters).on(Link { rate: Rate::from_gbps(100), mtu_bytes: 4096 }).unwrap()
}

/// A queue pair that a CNP each 4 us has cut to the lowest rate by 100 us, and that has then sent a packet.
fn at_min_rate(congestion: &Congestion) -> (Pacer, Time) {
    let mut pacer = Pacer::new(congestion);
    for cnp in 0..25 {
        pacer.flow.on_cnp(congestion, Time::from_us(4 * cnp));
    }
    let now = Time::from_us(100);
    let rate = pacer.flow.on_sent(congestion, now, 4096);
    assert_eq!(rate, 1e6);
    assert!(pacer.flow.is_at_min_rate(congestion));
    pacer.pace(now, WIRE_BYTES, rate);
    // 4178 B at 1 Mbit/s.
    assert_eq!(pacer.next_at(), now + Time::from_us(33_424));
    (pacer, now)
}

#[test]
fn a_packet_that_waits_at_the_lowest_rate_leaves_when_the_rate_has_risen() {
    let congestion = dcqcn(true);
    let (mut pacer, now) = at_min_rate(&congestion);
    // The last cut is at 100 us, and the timer takes 300 us: half of the way to 100 Gbit/s.
    assert_eq!(pacer.look_at(&congestion, Time::ZERO), Time::from_us(400));
    pacer.look_again(&congestion, Time::from_us(200), Time::ZERO, |rate| rate);
    assert_eq!(pacer.next_at(), now + Time::from_us(33_424), "it has not risen yet");
    pacer.look_again(&congestion, Time::from_us(400), Time::ZERO, |rate| rate);
    // 33,124 us are left of what took 33,424 us: at 50.0005 Gbit/s that is 1 / 50,000.5 of it.
    let left = pacer.next_at() - Time::from_us(400);
    assert!(left.0.abs_diff(662_473) < 1000, "{left}");
    assert!(!pacer.flow.is_at_min_rate(&congestion));
}

#[test]
fn it_stays_where_it_is_if_so_set() {
    let congestion = dcqcn(false);
    let (mut pacer, now) = at_min_rate(&congestion);
    let leaves_at = now + Time::from_us(33_424);
    assert_eq!(pacer.look_at(&congestion, Time::ZERO), leaves_at);
    pacer.look_again(&congestion, Time::from_us(400), Time::ZERO, |rate| rate);
    assert_eq!(pacer.next_at(), leaves_at);
}

/// What a NAK holds up leaves no earlier at a higher rate, and another limit than the controller's counts.
#[test]
fn a_rate_moves_neither_a_hold_nor_a_lower_limit() {
    let congestion = dcqcn(true);
    let mut half = SendingHalf::new(0, &congestion);
    (half.pacer, _) = at_min_rate(&congestion);
    half.pacer.look_again(&congestion, Time::from_us(400), Time::ZERO, |_| 1e6);
    assert_eq!(half.next_at(), Time::from_us(33_524));
    half.hold(Time::from_us(700));
    half.pacer.look_again(&congestion, Time::from_us(400), Time::ZERO, |rate| rate);
    assert_eq!(half.next_at(), Time::from_us(700));
}

proptest! {
    /// However often it is looked at: never later than by the rate that it began with, never earlier than by the highest.
    #[test]
    fn looking_is_harmless(
        cnps in prop::collection::vec(0u64..2000, 1..60),
        looks in prop::collection::vec(0u64..40_000, 0..60),
    ) {
        let congestion = dcqcn(true);
        let mut pacer = Pacer::new(&congestion);
        let mut cnps = cnps;
        cnps.sort_unstable();
        for at in &cnps {
            pacer.flow.on_cnp(&congestion, Time::from_us(*at));
        }
        let now = Time::from_us(2000);
        let rate = pacer.flow.on_sent(&congestion, now, 4096);
        pacer.pace(now, WIRE_BYTES, rate);
        let latest = pacer.next_at();
        let earliest = now + Time(WIRE_BYTES as u64 * 8 * 10);
        let mut looks: Vec<u64> = looks.iter().map(|us| 2000 + us).collect();
        looks.sort_unstable();
        for us in looks {
            let (before, at) = (pacer.next_at(), Time::from_us(us));
            let standing = pacer.look_again(&congestion, at, Time::ZERO, |rate| rate);
            prop_assert!(pacer.next_at() <= before);
            prop_assert!(pacer.next_at() >= before.min(at));
            match standing {
                Standing::Waits(until) => prop_assert!(until > at && until <= pacer.next_at()),
                _ => prop_assert!(pacer.next_at() <= at),
            }
        }
        prop_assert!((earliest..=latest).contains(&pacer.next_at()));
    }
}
