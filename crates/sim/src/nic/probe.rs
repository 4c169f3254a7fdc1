//! RHCC's probes: how a queue pair learns what its receiver's data path takes, and sends no faster than that.
//!
//! A probe is a packet of its own. It follows data in the class of its queue pair, takes the receiving host's data path as
//! data does, and is answered by the NIC there, whatever that host is set to: the answer carries the time from the probe's
//! leaving the receive buffer to the end of its write, in ns. Where the receiving host is ideal that is zero.
//!
//! Leaves out: two timestamps in place of their difference; retransmission (a lost probe is only missed).

use tailback_proto::congestion::rhcc::sender::{Sender, SenderParameters};
use tailback_proto::congestion::Controller;
use tailback_proto::units::Time;
use tailback_proto::wire::{PREAMBLE_AND_GAP_BYTES, PROBE_FRAME_BYTES};

use super::{QpState, SendQp};
use crate::engine::{EventQueue, Place};
use crate::event::Event;
use crate::fabric::packet::{Detail, Kind, Packet, NONE};
use crate::world::World;

/// What a queue pair that probes has besides its controller.
#[derive(Debug)]
pub(crate) struct Prober {
    pub sender: Sender,
    /// When its pending timer event is due; `NEVER`: none.
    timer_event_at: Time,
    pub probes_sent: u64,
    pub answers: u64,
}

impl Prober {
    pub fn new(p: &SenderParameters) -> Self {
        Prober { sender: Sender::new(p), timer_event_at: Time::NEVER, probes_sent: 0, answers: 0 }
    }

    /// A packet is being sent: whether a probe follows, and the rate that paces what comes next, where the controller
    /// allows `rate`.
    #[inline(never)] // what most runs never need stays out of the way of what they do
    pub fn on_sent(&mut self, p: &SenderParameters, now: Time, payload: u64, rate: f64) -> (bool, f64) {
        self.sender.on_sent(p, now, payload);
        (self.sender.takes_probe(), self.sender.limit(rate))
    }
}

impl World {
    /// Puts a probe into its host's send queue.
    pub(super) fn queue_probe(&mut self, qp: u32) {
        let s = &mut self.send_qps[qp as usize];
        if let Some(prober) = &mut s.prober {
            prober.probes_sent += 1;
        }
        let port = self.nics[s.src as usize].port as usize;
        let SendQp { dst, class, code_point, .. } = *s;
        let probe = self.fabric.packets.add(Packet {
            arrival: Time::ZERO,
            qp,
            detail: Detail::NONE,
            next: NONE,
            wire_bytes: (PROBE_FRAME_BYTES + PREAMBLE_AND_GAP_BYTES) as u16,
            payload_bytes: 0,
            dst,
            ingress: 0,
            kind: Kind::Probe,
            class,
            code_point,
            flags: 0,
        });
        self.fabric.enqueue(port, probe);
    }

    /// A probe has left the receive buffer of the host that it was sent to; its write ends `processing` later, and then
    /// it is answered. The packet itself goes back as the answer.
    pub(crate) fn on_probe_through(&mut self, index: u32, processing: Time) {
        let packet = &mut self.fabric.packets[index];
        packet.kind = Kind::ProbeAck;
        let r = &mut self.recv_qps[packet.qp as usize];
        packet.dst = r.src;
        r.probes = r.probes.wrapping_add(1);
        let (source, own) = (packet.qp, r.probes);
        packet.detail = Detail::processing(processing);
        if processing == Time::ZERO {
            self.on_probe_answer(index);
        } else {
            // A packet's index says who else has packets. So its place is its queue pair's, whose probes are told apart.
            let at = (self.fabric.run.now + processing).min(EventQueue::HORIZON);
            let place = Place::of(at, Event::ProbeAnswer(source).encode(), own);
            self.fabric.run.events.push_at(place, Event::ProbeAnswer(index).encode());
        }
    }

    /// The write of a probe has ended: its answer leaves.
    pub(crate) fn on_probe_answer(&mut self, index: u32) {
        let host = self.send_qps[self.fabric.packets[index].qp as usize].dst as usize;
        self.queue_reply(host, index);
    }

    /// The answer to a probe has arrived.
    pub(super) fn on_probe_ack(&mut self, packet: &Packet) {
        let s = &mut self.send_qps[packet.qp as usize];
        let model = &self.nic_models[self.nics[s.src as usize].model as usize];
        let (Some(prober), Some(p)) = (&mut s.prober, &model.rhcc) else { return };
        prober.answers += 1;
        prober.sender.on_probe_answer(p, packet.processing());
        self.arm_probe_timer(packet.qp);
    }

    /// A controller's own timer may be due: that of a queue pair's controller, or of the one beside it.
    pub(crate) fn on_controller_timer(&mut self, qp: u32) {
        let s = &mut self.send_qps[qp as usize];
        let model = &self.nic_models[self.nics[s.src as usize].model as usize];
        let running = s.state == QpState::Running;
        let mut probes = false;
        if s.controller_event_at <= self.fabric.run.now {
            s.controller_event_at = Time::NEVER;
            if running {
                s.pacer.flow.on_timeout(&model.congestion[s.congestion as usize], self.fabric.run.now);
            }
        }
        if let (Some(prober), Some(p)) = (&mut s.prober, &model.rhcc) {
            if prober.timer_event_at <= self.fabric.run.now {
                prober.timer_event_at = Time::NEVER;
                if running {
                    prober.sender.on_timeout(p, self.fabric.run.now);
                    probes = prober.sender.takes_probe();
                }
            }
        }
        if !running {
            return;
        }
        if probes {
            let port = self.nics[s.src as usize].port as usize;
            self.queue_probe(qp);
            self.kick(port);
        }
        self.arm_probe_timer(qp);
        if self.send_qps[qp as usize].uses.timer {
            self.arm_controller_timer(qp);
            self.activate(qp);
        }
    }

    /// Makes sure that an event is pending where RHCC's timer runs. It stays where it is when the deadline moves on, and
    /// looks again when it fires.
    fn arm_probe_timer(&mut self, qp: u32) {
        let s = &mut self.send_qps[qp as usize];
        let model = &self.nic_models[self.nics[s.src as usize].model as usize];
        let (Some(prober), Some(p)) = (&mut s.prober, &model.rhcc) else { return };
        if let (Some(deadline), Time::NEVER) = (prober.sender.next_timeout(p), prober.timer_event_at) {
            let deadline = deadline.max(self.fabric.run.now);
            prober.timer_event_at = deadline;
            self.fabric.run.schedule(deadline, Event::ControllerTimer(qp));
        }
    }

    /// The same of its controller's own timer. Where the deadline came nearer, an earlier event is scheduled.
    pub(super) fn arm_controller_timer(&mut self, qp: u32) {
        let s = &mut self.send_qps[qp as usize];
        if !s.uses.timer || s.state != QpState::Running {
            return;
        }
        let model = &self.nic_models[self.nics[s.src as usize].model as usize];
        let Some(deadline) = s.pacer.flow.next_timeout(&model.congestion[s.congestion as usize]) else {
            return;
        };
        let deadline = deadline.max(self.fabric.run.now);
        if deadline < s.controller_event_at {
            s.controller_event_at = deadline;
            self.fabric.run.schedule(deadline, Event::ControllerTimer(qp));
        }
    }
}
