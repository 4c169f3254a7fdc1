//! What a congestion point, a host and a switch do with frames of anybody's making.

use bolero::{check, TypeGenerator};
use tailback_fuzz::{Clock, Span};
use tailback_live::direction::{Direction, Output};
use tailback_live::events::{Action, EventSettings};
use tailback_live::host::Host;
use tailback_live::plan::LivePlan;
use tailback_live::settings::{PfcSettings, PointSettings};
use tailback_live::switch::Switch;
use tailback_proto::aqm::red::EcnThresholds;
use tailback_proto::congestion::dcqcn::DcqcnParameters;
use tailback_proto::transport::rc::TransportParameters;
use tailback_proto::units::Time;
use tailback_proto::wire::{icrc, Ipv4, MacAddress, Pfc, Udp};

const RXE: &[u8] = include_bytes!("../../../crates/proto/tests/data/rxe_write.pcap");

/// Frames that come go on, are dropped with a reason, or wait; nothing waits beyond the buffer.
#[test]
fn direction() {
    #[derive(Debug, TypeGenerator)]
    enum Input {
        Bytes(Vec<u8>),
        /// A real packet, with a byte changed.
        Packet(u8, u8, u8),
        Pause(u8, u16),
        Advance,
    }
    check!().with_type::<(u16, bool, Vec<(Span, Input)>)>().for_each(|(buffer, pfc, inputs)| {
        let event = |action, nth| EventSettings {
            action,
            direction: None,
            qp: None,
            nth: Some(nth),
            psn: None,
            delay_ps: 1_000_000,
            packets: 2,
        };
        let settings = PointSettings {
            rate_bps: 1_000_000_000,
            delay_ps: 500,
            buffer_bytes: *buffer as u64,
            ecn: Some(EcnThresholds { k_min_bytes: 1000, k_max_bytes: 3000, p_max: 0.5 }),
            pfc: pfc.then_some(PfcSettings { xoff_bytes: 2000, xon_bytes: 1000, priority: 3, quanta: 100 }),
            loss: 0.1,
            seed: 1,
            events: vec![
                event(Action::Drop, 1),
                event(Action::Corrupt, 2),
                event(Action::Reorder, 3),
                event(Action::Delay, 4),
                event(Action::Mark, 5),
            ],
        };
        let mut direction = Direction::new(&settings, 0, MacAddress([2; 6]));
        let mut clock = Clock::default();
        let (mut came, mut left) = (0u64, 0u64);
        for (span, input) in inputs {
            let now = clock.pass(*span);
            match input {
                Input::Bytes(bytes) => {
                    came += 1;
                    direction.on_frame(now, bytes.clone());
                }
                Input::Packet(which, at, byte) => {
                    came += 1;
                    // The first frames of the capture are 1,082 bytes long, each behind 16 of its own.
                    let begin = 24 + 16 + (*which as usize % 4) * (1082 + 16);
                    let mut frame = RXE[begin..begin + 1082].to_vec();
                    frame[*at as usize] ^= byte;
                    direction.on_frame(now, frame);
                }
                Input::Pause(classes, quanta) => {
                    let frame =
                        Pfc { source: MacAddress([2; 6]), class_enable_vector: *classes, time: [*quanta; 8] };
                    direction.on_pause(now, &frame);
                }
                Input::Advance => direction.advance(now),
            }
            while let Some(output) = direction.next_output() {
                left += matches!(output, Output::Forward(..)) as u64;
            }
            assert!(direction.queued_bytes() <= *buffer as u64);
        }
        assert_eq!(direction.counters.rx_frames, came);
        assert_eq!(direction.counters.tx_frames, left);
        assert!(left + direction.counters.dropped() <= came);
    });
}

/// Two hosts and a switch between them, with a queue pair that writes.
pub(crate) fn plan() -> LivePlan {
    let link = r#"{"rate_bps": 1000000000, "delay_ps": 1000, "loss": 0.01, "headroom_bytes": 10000, "response_delay_ps": 1000}"#;
    let host = |number: u8| {
        format!(
            r#"{{"name": "h{number}", "interface": null, "mac": [2, 84, 66, 0, 0, {number}], "ip": "10.84.0.{number}", "mtu": 256,
            "rx_latency_ps": 1000, "ect": true, "transport": {}, "congestion": {{"dcqcn": {}}}, "cnp_dscp": 48,
            "class_of": [[24, 3], [48, 6]], "link": {link}}}"#,
            serde_json::to_string(&TransportParameters::default()).expect("plain data"),
            serde_json::to_string(&DcqcnParameters::default()).expect("plain data"),
        )
    };
    let text = format!(
        r#"{{"seed": 1, "duration_ps": 1000000000, "slowdown": 1.0, "bin_ps": 1000000, "hosts": [{}, {}], "cables": [],
        "switches": [{{"name": "sw", "latency_ps": 100, "buffer": {{"shared_bytes": 20000, "pools": null,
        "ingress_alpha": 1.0, "egress_alpha": 2.0, "lossless": [3],
        "pfc": {{"xoff": null, "xon": null, "xon_offset": 3072, "headroom_pool": null}}}},
        "strict": [6], "class_of": [[24, 3], [48, 6]],
        "ecn": [{{"rate_bps": null, "priorities": [3], "k_min": 1000, "k_max": 3000, "p_max": 0.5}}], "quanta": 100,
        "ports": [{{"peer": "h0", "link": {link}}}, {{"peer": "h1", "link": {link}}}],
        "routes": [[[2, 84, 66, 0, 0, 0], 0], [[2, 84, 66, 0, 0, 1], 1]]}}],
        "flows": [{{"src": 0, "dst": 1, "message": 1000, "depth": 4, "messages": null, "start_ps": 0, "stop_ps": null, "dscp": 24}}]}}"#,
        host(0),
        host(1)
    );
    serde_json::from_str(&text).expect("it is a plan")
}

/// Headers that a peer may make up, with an ICRC that is right.
#[derive(Debug, TypeGenerator)]
pub(crate) struct Forged {
    pub opcode: u8,
    pub qp: u8,
    pub psn: u32,
    pub ecn: u8,
    pub dscp: u8,
    pub address: u32,
    pub length: u32,
    pub payload: u8,
}

impl Forged {
    pub(crate) fn frame(&self, to: u8) -> Vec<u8> {
        let mut transport = vec![self.opcode, 0, 0xff, 0xff, 0, 0, 1, self.qp, 0x80];
        transport.extend_from_slice(&self.psn.to_be_bytes()[1..]);
        transport.extend_from_slice(&(0x7f00_0000_0000u64 + self.address as u64).to_be_bytes());
        transport.extend_from_slice(&0x100u32.to_be_bytes());
        transport.extend_from_slice(&self.length.to_be_bytes());
        transport.resize(28 + 4 * self.payload as usize, self.payload);
        let udp_len = 8 + transport.len() + 4;
        let mut packet = vec![0; 28];
        Ipv4 {
            dscp: self.dscp & 63,
            ecn: self.ecn & 3,
            identification: 0,
            dont_fragment: true,
            time_to_live: 64,
            protocol: 17,
            source: [10, 84, 0, 1 - to].into(),
            destination: [10, 84, 0, to].into(),
        }
        .emit(udp_len as u16, &mut packet);
        Udp { source_port: 0xc000, destination_port: Udp::ROCE_PORT, checksum: 0 }
            .emit(udp_len as u16 - 8, &mut packet[20..]);
        packet.extend_from_slice(&transport);
        let icrc = icrc::icrc(&packet).expect("it is whole");
        packet.extend_from_slice(&icrc.to_le_bytes());
        let mut frame = vec![2, 84, 66, 0, 0, to, 2, 84, 66, 0, 0, 1 - to, 8, 0];
        frame.extend_from_slice(&packet);
        frame
    }
}

/// A frame comes to both hosts and to both ports of the switch between them, and they send each other what they have to.
pub(crate) fn exchange(now: Time, frame: &[u8], hosts: &mut [Host; 2], switch: &mut Switch) {
    for (port, host) in hosts.iter_mut().enumerate() {
        host.on_frame(now, frame);
        switch.on_frame(now, port, frame);
        host.advance(now);
        switch.advance(now);
        while let Some(sending) = host.next_output(now) {
            switch.on_frame(now, port, &sending.frame);
            host.give_back(sending.frame);
        }
        while let Some(sending) = switch.next_output(now, port) {
            host.on_frame(now, &sending.frame);
            switch.give_back(sending.frame);
        }
        assert!(host.next_timeout().is_none_or(|at| at > Time::ZERO));
    }
    assert!(switch.buffer().free_bytes(0) <= 20_000);
}

/// What comes to a host or a switch, whoever made it, makes neither panic nor spin; a switch's books stay even.
#[test]
fn host_and_switch() {
    #[derive(Debug, TypeGenerator)]
    enum Input {
        Bytes(Vec<u8>),
        Forged(bool, Forged),
        Pause(u8, u16),
        Own,
    }
    let plan = plan();
    check!().with_type::<Vec<(Span, Input)>>().for_each(|inputs| {
        let mut hosts = [0, 1].map(|number| Host::new(&plan, number, &[]).expect("it is a host"));
        let mut switch = Switch::new(&plan.switches[0], 1, 0);
        let mut clock = Clock::default();
        for (span, input) in inputs {
            let now = clock.pass(*span);
            let frame = match input {
                Input::Bytes(bytes) => bytes.clone(),
                Input::Forged(to, forged) => forged.frame(*to as u8),
                Input::Pause(classes, quanta) => {
                    let mut frame = vec![0; Pfc::LEN];
                    let source = MacAddress([2; 6]);
                    Pfc { source, class_enable_vector: *classes, time: [*quanta; 8] }.emit(&mut frame);
                    frame
                }
                Input::Own => Vec::new(),
            };
            exchange(now, &frame, &mut hosts, &mut switch);
        }
    });
}
