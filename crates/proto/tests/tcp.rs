//! TCP, two ends in simulated time: whatever the network does, the stream arrives whole and in order, and the exchange ends.

mod tcp_link;

use proptest::prelude::*;
use tailback_proto::transport::tcp::*;
use tailback_proto::units::{Rate, Time};
use tcp_link::*;

fn link() -> Link {
    Link { rate: Rate::from_gbps(1), delay: Time::from_us(50), queue_limit: u64::MAX, mark_above: u64::MAX }
}

fn controls() -> [ControlParameters; 3] {
    [ControlParameters::NewReno, CUBIC, DCTCP]
}

/// With and without SACK, all controls, ECN where it is optional.
fn variants() -> impl Iterator<Item = TcpParameters> {
    controls().into_iter().flat_map(|control| {
        [true, false].map(|sack| TcpParameters {
            sack,
            min_rto: Time::from_ms(1),
            delayed_ack: Time::from_us(500),
            ..parameters(control)
        })
    })
}

#[test]
fn without_loss_nothing_is_sent_twice() {
    for p in variants() {
        let mut net = Network::new(link(), |_, _, _| Fate::Pass);
        net.connect(&p, Time::ZERO, 100_500);
        net.run_to_end(10_000);
        assert_eq!(net.flows[0].sender.statistics(), TcpStatistics::default());
        assert_eq!(net.flows[0].receiver.duplicate_bytes(), 0);
        assert!(net.now < Time::from_ms(5), "{}", net.now);
    }
}

#[test]
fn every_single_packet_can_be_lost() {
    for p in variants() {
        // The exchange without loss, and one with a gap so that there are duplicate ACKs and retransmissions to lose.
        for also_lost in [None, Some(3)] {
            let mut complete =
                Network::new(link(), |n, _, _| if Some(n) == also_lost { Fate::Lost } else { Fate::Pass });
            complete.connect(&p, Time::ZERO, 30_500);
            complete.run_to_end(10_000);
            for number in 0..complete.packets {
                let lost = |n, _, _: &Packet| {
                    if n == number || Some(n) == also_lost {
                        Fate::Lost
                    } else {
                        Fate::Pass
                    }
                };
                let mut net = Network::new(link(), lost);
                net.connect(&p, Time::ZERO, 30_500);
                net.run_to_end(10_000);
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]
    #[test]
    fn whatever_happens_the_stream_arrives_whole_and_in_order(
        variant in 0usize..6, bytes in 1u64..200_000, lost in 0.0f64..0.4, late in 0.0f64..0.4,
        twice in 0.0f64..0.4, late_us in 1u64..3_000, mark_above in prop::option::of(0u64..20_000),
        buffer in 2_000u64..100_000, seed in 1u64..,
    ) {
        let p = TcpParameters { ecn: true, receive_buffer: buffer, ..variants().nth(variant).unwrap() };
        let mut dice = Dice(seed);
        let fate = move |_, _, _: &Packet| {
            let by = Time::from_us(dice.roll() % late_us);
            if dice.hits(lost) {
                Fate::Lost
            } else if dice.hits(late) {
                Fate::Late(by)
            } else if dice.hits(twice) {
                Fate::Twice(by)
            } else {
                Fate::Pass
            }
        };
        let mark_above = mark_above.unwrap_or(u64::MAX);
        let mut net = Network::new(Link { queue_limit: 30_000, mark_above, ..link() }, fate);
        net.connect(&p, Time::ZERO, bytes);
        net.run_to_end(300_000);
    }
}
