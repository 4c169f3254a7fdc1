//! One NIC under congestion control: when its packets leave, and what marks, CNPs and ACKs do to that.

mod nic_alone;
mod nic_link;

use nic_alone::*;
use nic_link::{CONNECTION, KEY};
use tailback_proto::congestion::builtin::Settings;
use tailback_proto::congestion::timely::TimelyParameters;
use tailback_proto::nic::*;
use tailback_proto::transport::rc::RcParameters;
use tailback_proto::units::{Bytes, Time};
use tailback_proto::wire::bth::cnp;
use tailback_proto::wire::*;

/// TIMELY's segments of two packets on 100 Gbit/s, where a byte takes 80 ps. Each leaves at once and asks for an ACK. Its RTT is
/// from its last bit on, and the next one begins as late as the rate wants.
#[test]
fn bursts_are_paced_and_timed_as_one() {
    let settings = Settings::Timely(TimelyParameters {
        segment: Bytes(2000),
        t_low: Time::from_us(1),
        t_high: Time::from_us(10),
        ..Default::default()
    });
    let rc = RcParameters { ack_every: 100, ..CONNECTION.rc };
    let settings = nic_link::settings(nic_link::congestion(settings));
    let mut end = Alone::under(settings, &[with_rc(rc)]);
    let wire = |opcode| (roce_frame_bytes(opcode, 1024) + PREAMBLE_AND_GAP_BYTES) as u64;
    let [first, second] =
        [Opcode::WriteFirst, Opcode::WriteMiddle].map(|opcode| wire(opcode) + wire(Opcode::WriteMiddle));
    end.post(write(None), 5 * 1024);
    let third_at = (first + second) * 80;
    assert_eq!(
        end.timed(),
        [
            (0, 100, false),
            (0, 101, true),
            (first * 80, 102, false),
            (first * 80, 103, true),
            (third_at, 104, true)
        ]
    );
    end.now = Time::from_us(20);
    end.gets_syndrome(101, Syndrome::ACK);
    end.now = Time::from_us(30);
    end.gets_syndrome(103, Syndrome::ACK);
    let rtt = 30e6 - third_at as f64;
    let rate = 100e9 * (1.0 - 0.8 * (1.0 - 10e6 / rtt));
    end.post(write(None), 4 * 1024);
    let next_at = 30_000_000 + (first as f64 * 8e12 / rate) as u64;
    assert_eq!(
        end.timed(),
        [(30_000_000, 105, false), (30_000_000, 106, true), (next_at, 107, false), (next_at, 108, true)]
    );
}

#[test]
fn losses_may_be_cnps_to_the_reaction_point() {
    for losses_are_cnps in [false, true] {
        let mut end = Alone::with(&[with_rc(RcParameters { losses_are_cnps, ..CONNECTION.rc })]);
        end.post(write(None), 3000);
        end.sends();
        end.gets_syndrome(101, Syndrome::Nak(NakCode::PsnSequenceError));
        end.sends();
        end.passes(Time::from_us(200));
        end.sends();
        let counters = end.nic.counters();
        assert_eq!((counters.packet_seq_err, counters.local_ack_timeout_err), (1, 1));
        let expected = if losses_are_cnps { (2, 1) } else { (0, 0) };
        assert_eq!((counters.rp_cnp_handled, counters.roce_slow_restart_cnps), expected);
    }
}

#[test]
fn marks_become_cnps_and_cnps_slow_a_queue_pair_down() {
    let mut end = Alone::new();
    let mark = |end: &mut Alone, psn| {
        let bth = Bth::new(Opcode::WriteOnly, 0x11, psn, 4);
        let headers = TransportHeaders { bth, extension: reth(0, KEY, 4) };
        end.nic.on_packet(end.now, &headers, 4, true);
    };
    mark(&mut end, 500);
    mark(&mut end, 501);
    assert_eq!(end.sends(), ["Cnp 0, BECN"]);
    end.passes(Time::from_us(4));
    mark(&mut end, 502);
    mark(&mut end, 509);
    assert_eq!(end.sends(), ["Cnp 0, BECN", "Acknowledge 503 0x60 msn 3, BECN"], "the CNP first");
    let expected =
        Counters { np_ecn_marked_roce_packets: 4, np_cnp_sent: 2, out_of_sequence: 1, ..Counters::default() };
    assert_eq!(end.nic.counters(), expected);

    // A middle packet of 1024 B: 1106 B on the wire, 88.48 ns at 100 Gbit/s; after a first CNP half of that rate, about.
    let gap = |end: &mut Alone| {
        end.post(write(None), 3 * 1024);
        let mut at = Vec::new();
        while at.len() < 3 {
            match end.nic.poll_transmit(end.now) {
                Some(_) => at.push(end.now.0),
                None => end.now = end.nic.next_timeout().unwrap(),
            }
        }
        at[2] - at[1]
    };
    assert_eq!(gap(&mut end), 88_480);
    end.nic.on_packet(end.now, &cnp(0x11), 0, false);
    end.passes(Time::from_us(5));
    let slow = gap(&mut end);
    assert!((170_000..180_000).contains(&slow), "{slow} ps");
    assert_eq!(end.nic.counters().rp_cnp_handled, 1);
}

/// 25 CNPs bring the rate to 1 Mbit/s, by which a packet takes 8.8 ms; 300 us after the last cut it is half of the line rate.
#[test]
fn a_packet_that_waits_follows_the_rate() {
    let mut end = Alone::new();
    for _ in 0..25 {
        end.nic.on_packet(end.now, &cnp(0x11), 0, false);
        end.passes(Time::from_us(4));
    }
    end.post(write(None), 3 * 1024);
    let mut at = Vec::new();
    while at.len() < 2 {
        match end.nic.poll_transmit(end.now) {
            Some(_) => at.push(end.now.0),
            None => end.now = end.nic.next_timeout().unwrap(),
        }
    }
    let waited = at[1] - at[0];
    assert!((299_000_000..302_000_000).contains(&waited), "{waited} ps");
}

#[test]
fn a_window_waits_for_acks_and_marks_come_back_with_them() {
    let dctcp = nic_link::settings(nic_link::congestion(nic_link::dctcp()));
    let mut end = Alone::under(dctcp, &[connection()]);
    let mark = |end: &mut Alone, psn, is_marked| {
        let bth = Bth { ack_req: true, ..Bth::new(Opcode::WriteOnly, 0x11, psn, 4) };
        let headers = TransportHeaders { bth, extension: reth(0, KEY, 4) };
        end.nic.on_packet(end.now, &headers, 4, is_marked);
    };
    mark(&mut end, 500, true);
    mark(&mut end, 501, false);
    assert_eq!(end.sends(), ["Acknowledge 501 0x1f msn 2, BECN"], "no CNP; one of those answered was marked");
    mark(&mut end, 502, false);
    assert_eq!(end.sends(), ["Acknowledge 502 0x1f msn 3"]);

    // 5 us at 100 Gbit/s are 62,500 B: that many leave at once, and each asks for an ACK; then one for each acknowledged.
    end.post(SEND, 1 << 20);
    let mut sent = Vec::new();
    while end.now < Time::from_us(90) {
        match end.nic.poll_transmit(end.now) {
            Some(transmit) => sent.push(shown(&transmit)),
            None => end.now = end.nic.next_timeout().unwrap(),
        }
    }
    assert_eq!(sent.len(), 62_500usize.div_ceil(1024));
    assert!(sent.iter().all(|packet| packet.ends_with(", ask")));
    end.gets_syndrome(SENDS_FROM, Syndrome::ACK);
    assert!(end.nic.poll_transmit(end.now).is_some(), "it opened");
}

#[test]
fn a_controller_that_needs_more_than_packets_carry_is_refused() {
    assert!(Nic::new(nic_link::settings(nic_link::congestion(nic_link::hpcc())))
        .is_err_and(|text| text.contains("telemetry")));
}
