//! RHCC's probes: how a queue pair learns what its receiver's data path takes, and sends no faster than that.
//!
//! A probe is a packet of its own. It follows data in the class of its queue pair, takes the receiving host's data path as
//! data does, and is answered by the NIC there, whatever that host is set to: the answer carries the time from the probe's
//! leaving the receive buffer to the end of its write, in ns. Where the receiving host is ideal that is zero.
//!
//! Leaves out: two timestamps in place of their difference; retransmission (a lost probe is only missed).

use tailback_proto::congestion::Controller;
use tailback_proto::units::Time;
use tailback_proto::wire::{PREAMBLE_AND_GAP_BYTES, PROBE_FRAME_BYTES};

use super::pair_counts::EndSignal;
use super::qp::{QpState, SendQp};
use super::{Ethernet, Nics};
use crate::engine::{EventQueue, Place};
use crate::event::Event;
use crate::fabric::packet::{Amount, Detail, Kind, Packet, NONE};
use crate::fabric::Fabric;

impl Nics {
    /// Puts a probe into its host's send queue.
    pub(super) fn queue_probe(&mut self, fabric: &mut Fabric, qp: u32) {
        let s = &mut self.send_qps[qp as usize];
        if let Some(prober) = &mut s.prober {
            prober.probes_sent += 1;
        }
        let port = self.nics[s.src as usize].port as usize;
        let SendQp { number, dst, class, code_point, .. } = *s;
        let probe = fabric.packets.add(Packet {
            arrival: Time::ZERO,
            qp: number,
            detail: Detail::NONE,
            next: NONE,
            wire_bytes: (PROBE_FRAME_BYTES + PREAMBLE_AND_GAP_BYTES) as u16,
            amount: Amount::NONE,
            dst,
            ingress: 0,
            kind: Kind::Probe,
            class,
            code_point,
            flags: 0,
        });
        fabric.enqueue(port, probe);
    }

    /// A probe has left the receive buffer of the host that it was sent to; its write ends `processing` later, and then
    /// it is answered. The packet itself goes back as the answer.
    pub fn on_probe_through(
        &mut self,
        fabric: &mut Fabric,
        ethernet: &mut impl Ethernet,
        index: u32,
        processing: Time,
    ) {
        let packet = &mut fabric.packets[index];
        packet.kind = Kind::ProbeAck;
        let r = &mut self.recv_qps[self.slots.of(packet.qp) as usize];
        packet.dst = r.src;
        r.probes = r.probes.wrapping_add(1);
        let (source, own) = (packet.qp, r.probes);
        packet.detail = Detail::processing(processing);
        if processing == Time::ZERO {
            self.on_probe_answer(fabric, ethernet, index);
        } else {
            // A packet's index says who else has packets. So its place is its queue pair's, whose probes are told apart.
            let at = (fabric.run.now + processing).min(EventQueue::HORIZON);
            let place = Place::of(at, Event::ProbeAnswer(source).encode(), own);
            fabric.run.schedule_at(place, Event::ProbeAnswer(index).encode());
        }
    }

    /// The write of a probe has ended: its answer leaves.
    pub fn on_probe_answer(&mut self, fabric: &mut Fabric, ethernet: &mut impl Ethernet, index: u32) {
        let host = self.send_qps[self.slots.of(fabric.packets[index].qp) as usize].dst as usize;
        self.queue_reply(fabric, ethernet, host, index);
    }

    /// The answer to a probe has arrived.
    pub(super) fn on_probe_ack(&mut self, fabric: &mut Fabric, packet: &Packet) {
        let qp = self.slots.of(packet.qp);
        let s = &mut self.send_qps[qp as usize];
        let nic = &mut self.nics[s.src as usize];
        let model = &self.models[nic.model as usize];
        let (Some(prober), Some(p)) = (&mut s.prober, &model.rhcc) else { return };
        prober.answers += 1;
        nic.counters.rdma.delay_probes += 1;
        self.pair_counts.note(EndSignal::DelayProbe, s.dst, s.src);
        prober.sender.on_probe_answer(p, packet.processing());
        self.arm_probe_timer(fabric, qp);
    }

    /// A controller's own timer may be due: that of a queue pair's controller, or of the one beside it.
    pub fn on_controller_timer(&mut self, fabric: &mut Fabric, ethernet: &mut impl Ethernet, number: u32) {
        let qp = self.slots.of(number);
        let Some(s) = self.send_qps.get_mut(qp as usize) else { return };
        let model = &self.models[self.nics[s.src as usize].model as usize];
        let running = s.state == QpState::Running;
        let mut probes = false;
        if s.controller_event_at <= fabric.run.now {
            s.controller_event_at = Time::NEVER;
            if running {
                s.half.pacer.flow.on_timeout(&model.congestion[s.congestion as usize], fabric.run.now);
            }
        }
        if let (Some(prober), Some(p)) = (&mut s.prober, &model.rhcc) {
            if prober.timer_event_at <= fabric.run.now {
                prober.timer_event_at = Time::NEVER;
                if running {
                    prober.sender.on_timeout(p, fabric.run.now);
                    probes = prober.sender.takes_probe();
                }
            }
        }
        if !running {
            return;
        }
        if probes {
            let host = s.src as usize;
            self.queue_probe(fabric, qp);
            self.kick(fabric, ethernet, host);
        }
        self.arm_probe_timer(fabric, qp);
        if self.send_qps[qp as usize].half.uses.timer {
            self.arm_controller_timer(fabric, qp);
            self.activate(fabric, ethernet, qp);
        }
    }

    /// Makes sure that an event is pending where RHCC's timer runs. It stays where it is when the deadline moves on, and
    /// looks again when it fires.
    fn arm_probe_timer(&mut self, fabric: &mut Fabric, qp: u32) {
        let s = &mut self.send_qps[qp as usize];
        let model = &self.models[self.nics[s.src as usize].model as usize];
        let (Some(prober), Some(p)) = (&mut s.prober, &model.rhcc) else { return };
        if let (Some(deadline), Time::NEVER) = (prober.sender.next_timeout(p), prober.timer_event_at) {
            let deadline = deadline.max(fabric.run.now);
            prober.timer_event_at = deadline;
            fabric.run.schedule(deadline, Event::ControllerTimer(s.number));
        }
    }

    /// The same of its controller's own timer. Where the deadline came nearer, an earlier event is scheduled.
    pub(super) fn arm_controller_timer(&mut self, fabric: &mut Fabric, qp: u32) {
        let s = &mut self.send_qps[qp as usize];
        if !s.half.uses.timer || s.state != QpState::Running {
            return;
        }
        let model = &self.models[self.nics[s.src as usize].model as usize];
        let Some(deadline) = s.half.pacer.flow.next_timeout(&model.congestion[s.congestion as usize]) else {
            return;
        };
        let deadline = deadline.max(fabric.run.now);
        if deadline < s.controller_event_at {
            s.controller_event_at = deadline;
            fabric.run.schedule(deadline, Event::ControllerTimer(s.number));
        }
    }
}
