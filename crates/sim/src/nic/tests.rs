//! Two NICs on one link, without a run around them.

use std::mem::offset_of;
use tailback_proto::congestion::builtin::Settings;
use tailback_proto::congestion::dcqcn::NotificationPoint;
use tailback_proto::congestion::Link;
use tailback_proto::nic::{Counters, SendingHalf};
use tailback_proto::transport::rc::TransportParameters;
use tailback_proto::units::{Rate, Time};

use super::queue_pair::{QpState, RecvQp, SendQp};
use super::{Ethernet, Nic, NicModel, Nics};
use crate::event::Event;
use crate::fabric::packet::PacketKind;
use crate::fabric::packet::Telemetry;
use crate::fabric::port::DropReason;
use crate::fabric::tests::{classes, port};
use crate::fabric::ONE_CLASS;
use crate::fabric::{Arrived, Fabric};
use crate::host::path::IDEAL;
use crate::workload::Writer;

/// A host that does nothing but RDMA.
struct NoEthernet;

impl Ethernet for NoEthernet {
    fn receive(&mut self, _: &mut Fabric, _: &mut Nics, _: u32) {
        unreachable!("nobody sends such packets");
    }

    fn send(&mut self, _: &mut Fabric, _: &mut Nics, _: usize, _: u32) {
        unreachable!("there is no ring");
    }
}

const RATE: Rate = Rate(8_000_000_000);

/// A queue pair from the first of two hosts to the second, which is to send one message.
fn pair(bytes: u64) -> (Fabric, Nics) {
    let ports = vec![port(0, 1), port(1, 0)];
    let mut fabric = Fabric::new(1, 2, vec![], classes(2), ports, Telemetry::OFF).expect("it is small");
    let transport = TransportParameters::default();
    let settings = &Settings::defaults()[0];
    let model = NicModel {
        rc: transport.connection(),
        congestion: vec![settings.on(Link { rate: RATE, mtu_bytes: 1024 }).expect("it is possible")],
        rhcc: None,
        min_time_between_cnps: vec![Time::ZERO],
        data_flags: 0,
        class_of: ONE_CLASS,
        cnp_code_point: None,
        strict: 0,
        weights: None,
        line_rate: RATE.0 as f64,
    };
    let nic = |port| Nic {
        port,
        model: 0,
        marks_ce: false,
        arbiter: Default::default(),
        backlog_bytes: Default::default(),
        counters: Default::default(),
        goodput_tx_bytes: 0,
        goodput_rx_bytes: 0,
        host_path: IDEAL,
        data_ready: Time::ZERO,
    };
    let nics = Nics {
        nics: vec![nic(0), nic(1)],
        send_qps: vec![SendQp::new(&model, 0, 0, 0, (0, 1), 0)],
        recv_qps: vec![RecvQp { src: 0, ..RecvQp::default() }],
        notification_points: vec![NotificationPoint::default()],
        writers: vec![Writer::of_flow(bytes, 1024, 0, 0)],
        models: vec![model],
        ..Nics::default()
    };
    fabric.run.active_flows = 1;
    (fabric, nics)
}

/// Runs until the message is there. `loses`: the data packets, by number, that are lost on the link.
fn run(fabric: &mut Fabric, nics: &mut Nics, loses: &[u32]) {
    let mut count = 0;
    nics.on_flow_start(fabric, &mut NoEthernet, 0);
    while !fabric.run.finished {
        let (time, code) = fabric.run.events.pop().expect("somebody waits");
        fabric.run.now = time;
        match Event::decode(code) {
            Event::Arrival(port) => {
                let arrived = fabric.on_arrival(port as usize).expect("no link fails");
                let Arrived { node, packet, .. } = arrived;
                if fabric.packets[packet].kind == PacketKind::Data {
                    count += 1;
                    if loses.contains(&count) {
                        fabric.drop_packet(port as usize, packet, DropReason::LinkLoss);
                        continue;
                    }
                }
                nics.receive(fabric, &mut NoEthernet, node, packet);
            }
            Event::PortWake(port) => {
                if let Some(host) = fabric.on_port_wake(port as usize) {
                    nics.transmit(fabric, &mut NoEthernet, host);
                }
            }
            Event::PacingDue(qp) => nics.on_pacing_due(fabric, &mut NoEthernet, qp),
            Event::TransportTimer(qp) => nics.on_transport_timer(fabric, &mut NoEthernet, qp),
            Event::DelayedNak(packet) => nics.on_delayed_nak(fabric, &mut NoEthernet, packet),
            Event::ControllerTimer(qp) => nics.on_controller_timer(fabric, &mut NoEthernet, qp),
            other => unreachable!("{other:?}"),
        }
    }
}

#[test]
fn what_a_packet_needs_is_few_cache_lines() {
    assert!(std::mem::size_of::<Nic>() <= 128, "{}", std::mem::size_of::<Nic>());
}

/// Of the sending half the first two lines and the fourth are for each packet, the third is for cuts of the rate; of the receiving
/// half the first is.
#[test]
fn queue_pairs_lie_in_whole_cache_lines() {
    let line = |at: usize| at / 64;
    let half = offset_of!(SendQp, half);
    let requester = half + offset_of!(SendingHalf, requester);
    assert_eq!((size_of::<SendQp>(), align_of::<SendQp>()), (384, 64));
    assert_eq!((requester, line(half + offset_of!(SendingHalf, pacer))), (3 * 64, 0));
    assert_eq!((size_of::<RecvQp>(), align_of::<RecvQp>()), (128, 64));
    assert_eq!(offset_of!(RecvQp, message_end), 64);
}

#[test]
fn a_message_goes_at_line_rate() {
    let (mut fabric, mut nics) = pair(1 << 20);
    run(&mut fabric, &mut nics, &[]);
    assert_eq!((nics.recv_qps[0].bytes_delivered, nics.send_qps[0].packets_sent), (1 << 20, 1024));
    assert_eq!(nics.send_qps[0].state, QpState::Done);
    // A byte a nanosecond: the payload, and less than a tenth of it for headers and the last ACK.
    let (least, took) = (Time::from_ns(1 << 20), fabric.run.now);
    assert!(took > least && took < Time::from_ns((1 << 20) * 11 / 10), "{took}");
}

/// A NAK has the sender go back to what was lost, and only there.
#[test]
fn what_is_lost_is_sent_again() {
    let (mut fabric, mut nics) = pair(64 << 10);
    run(&mut fabric, &mut nics, &[10]);
    assert_eq!(nics.recv_qps[0].bytes_delivered, 64 << 10);
    assert_eq!((nics[1].counters.rdma.out_of_sequence, nics[0].counters.rdma.packet_seq_err), (1, 1));
    let again = nics.send_qps[0].packets_retransmitted;
    assert!((1..5).contains(&again), "{again}");
}

/// A slow path of 20 us holds the NAK back, and the message as long.
#[test]
fn a_nak_may_take_a_slow_path() {
    let took = |delay| {
        let (mut fabric, mut nics) = pair(64 << 10);
        nics.models[0].rc.nak_delay = delay;
        run(&mut fabric, &mut nics, &[10]);
        assert_eq!((nics.recv_qps[0].bytes_delivered, nics[0].counters.rdma.packet_seq_err), (64 << 10, 1));
        fabric.run.now
    };
    let (at_once, later) = (took(Time::ZERO), took(Time::from_us(20)));
    let more = later - at_once;
    assert!(more >= Time::from_us(19) && more < Time::from_us(22), "{more}");
}

/// Where losses are CNPs they slow the sender down, and the counters say so.
#[test]
fn losses_may_be_cnps() {
    let count = |losses_are_cnps, loses: &[u32]| {
        let (mut fabric, mut nics) = pair(64 << 10);
        nics.models[0].rc.losses_are_cnps = losses_are_cnps;
        run(&mut fabric, &mut nics, loses);
        let Counters { rp_cnp_handled, nak_cnps, roce_slow_restart_cnps, roce_slow_restart, .. } =
            nics[0].counters.rdma;
        (rp_cnp_handled, nak_cnps, roce_slow_restart_cnps, roce_slow_restart)
    };
    assert_eq!(count(false, &[10]), (0, 0, 0, 1));
    assert_eq!(count(true, &[10]), (1, 1, 0, 1));
    assert_eq!(count(true, &[64]), (1, 0, 1, 1), "the last packet: only the timer tells");
    assert_eq!(count(true, &[]), (0, 0, 0, 0));
}
