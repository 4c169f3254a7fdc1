//! The way out: which class, which queue pair, when.
//!
//! Classes: strict ones first, then round robin, or by their weights. In a class: ACKs and CNPs, which the NIC's receive
//! side made, before data; queue pairs and the host's Ethernet rings take turns, a packet each. A queue pair under
//! congestion control is paced: after a packet of `b` bytes on the wire its next one may leave `8 b / rate` later, by the
//! rate at that moment. Where its controller asks for bursts, that holds for a burst: its packets follow each other at
//! once. Where its controller has a window, it sends while less than that is in flight. Where it probes its receiver, the
//! slower of two rates paces it.

use tailback_proto::nic::{Sent, Standing};
use tailback_proto::units::Time;

use super::qp::{QpState, SendQp};
use super::{Ethernet, Nic, NicModel, Nics, ETHERNET};
use crate::event::Event;
use crate::fabric::lanes::CLASSES;
use crate::fabric::packet::{Amount, Detail, Kind, Packet, ACK_REQUEST, NONE};
use crate::fabric::Fabric;
use crate::host::path::IDEAL;
use crate::workload::Writer;

impl Nics {
    /// Lets a NIC send if it can, now or when its port is free.
    #[inline]
    pub fn kick(&mut self, fabric: &mut Fabric, ethernet: &mut impl Ethernet, host: usize) {
        if fabric.has_turn(self.nics[host].port as usize) {
            self.transmit(fabric, ethernet, host);
        }
    }

    /// A NIC's port is free: send the next packet, if one may go.
    pub fn transmit(&mut self, fabric: &mut Fabric, ethernet: &mut impl Ethernet, host: usize) {
        let port = self.nics[host].port as usize;
        loop {
            let p = &fabric.ports[port];
            let nic = &self.nics[host];
            let ready = if nic.data_ready <= fabric.run.now { nic.arbiter.ready_classes() } else { 0 };
            let eligible = (p.backlogged | ready) & !p.paused;
            if eligible == 0 {
                break; // a wake-up follows where data has yet to be fetched
            }
            let backlogged = p.backlogged;
            let class = fabric.next_class(port, eligible);
            if backlogged & (1 << class) != 0 {
                let packet = fabric.dequeue(port, class);
                fabric.send(port, packet);
                break;
            }
            let qp = self.nics[host].arbiter.take(class);
            if qp & ETHERNET != 0 {
                ethernet.send(fabric, self, port, qp & !ETHERNET);
                break;
            }
            if self.send_if_it_may(fabric, port, qp) {
                break;
            }
        }
        self.wake_if_ready(fabric, port, host);
    }

    /// Sends the next packet of a queue pair whose turn it is. `false`: an ACK took its work away, a smaller window
    /// closed, or a NAK came, while it stood in the ring.
    #[inline(never)] // where a queue pair is paced, and where it takes turns: twice would be an eighth of the code that is hot
    fn send_if_it_may(&mut self, fabric: &mut Fabric, port: usize, qp: u32) -> bool {
        let s = &mut self.send_qps[qp as usize];
        let writer = &self.writers[s.writer as usize];
        match s.half.standing(&writer.writes, fabric.run.now) {
            Standing::Ready => {
                let nic = &mut self.nics[s.src as usize];
                let model = &self.models[nic.model as usize];
                let follows = send_data(s, writer, nic, model, fabric, port, qp);
                if follows.any {
                    self.follow(fabric, qp, &follows);
                }
                return true;
            }
            Standing::Waits(until) => fabric.run.schedule(until, Event::PacingDue(s.number)),
            Standing::Idle => s.scheduled = false,
        }
        false
    }

    /// What few NICs do when a packet was sent.
    #[inline(never)] // what most runs never need stays out of the way of what they do
    fn follow(&mut self, fabric: &mut Fabric, qp: u32, follows: &Follows) {
        let host = self.send_qps[qp as usize].src as usize;
        if self.nics[host].host_path != IDEAL {
            self.fetch_next(fabric.run.now, host, follows.payload_bytes);
        }
        if follows.probe {
            self.queue_probe(fabric, qp);
        }
        self.arm_controller_timer(fabric, qp);
    }

    /// A NIC's port looks again when it is free, if something waits for it.
    fn wake_if_ready(&mut self, fabric: &mut Fabric, port: usize, host: usize) {
        let p = &fabric.ports[port];
        let nic = &self.nics[host];
        if (p.backlogged | nic.arbiter.ready_classes()) & !p.paused != 0 {
            let mut free_at = p.busy_until;
            if p.backlogged & !p.paused == 0 {
                free_at = free_at.max(nic.data_ready);
            }
            fabric.wake_port(port, free_at);
        }
    }

    /// A queue pair may send again: it joins the end of its class's ring.
    #[inline(always)] // it is the event loop's
    pub fn on_pacing_due(&mut self, fabric: &mut Fabric, ethernet: &mut impl Ethernet, number: u32) {
        self.send_again(fabric, ethernet, self.slots.of(number));
    }

    #[inline(always)] // the other caller is rare
    fn send_again(&mut self, fabric: &mut Fabric, ethernet: &mut impl Ethernet, qp: u32) {
        let s = &mut self.send_qps[qp as usize];
        let (host, class) = (s.src as usize, s.class);
        let nic = &mut self.nics[host];
        if s.half.next_at() > fabric.run.now {
            // The rate may have risen, or a NAK holds it up.
            let model = &self.models[nic.model as usize];
            if let Standing::Waits(until) = s.look_again(model, fabric.run.now) {
                fabric.run.schedule(until, Event::PacingDue(s.number));
                return;
            }
        }
        let port = nic.port as usize;
        let p = &mut fabric.ports[port];
        let is_first = nic.arbiter.ready_classes() == 0 && nic.data_ready <= fabric.run.now;
        if p.is_idle(fabric.run.now, class) && is_first {
            // It is its turn at once.
            p.last_class = class;
            self.send_if_it_may(fabric, port, qp);
            self.wake_if_ready(fabric, port, host);
            return;
        }
        nic.arbiter.join(class, qp);
        self.kick(fabric, ethernet, host);
    }

    /// A queue pair may have got work: schedule it, and let its port look.
    pub fn activate(&mut self, fabric: &mut Fabric, ethernet: &mut impl Ethernet, qp: u32) {
        let s = &mut self.send_qps[qp as usize];
        if s.scheduled || !s.may_send(&self.writers) || s.state != QpState::Running {
            return;
        }
        s.scheduled = true;
        self.send_again(fabric, ethernet, qp);
    }
}

/// What follows a packet that was sent.
struct Follows {
    /// Anything of it.
    any: bool,
    /// The next packet's payload is fetched: so many bytes are the last one's.
    payload_bytes: u32,
    probe: bool,
}

/// Sends the next packet of a queue pair that has work. The caller has looked up what it takes.
#[inline(always)]
fn send_data(
    s: &mut SendQp,
    writer: &Writer,
    nic: &mut Nic,
    model: &NicModel,
    fabric: &mut Fabric,
    port: usize,
    qp: u32,
) -> Follows {
    let common = model.common(s.congestion);
    let extra_bytes = s.telemetry_bytes as u32;
    let (mut probe, now) = (false, fabric.run.now);
    let limit = |payload, rate| match (&model.rhcc, &mut s.prober) {
        (Some(p), Some(prober)) => {
            let (follows, rate) = prober.on_sent(p, now, payload, rate);
            probe = follows;
            rate
        }
        _ => rate,
    };
    let sent = s.half.send(&common, now, &writer.writes, extra_bytes, limit);
    let Sent { psn, ack_request, is_retransmission, taken, payload_bytes, wire_bytes, stamp, .. } = sent;
    let class = s.class;
    s.packets_sent += 1;
    if is_retransmission {
        s.packets_retransmitted += 1;
    }
    nic.backlog_bytes[class as usize % CLASSES] -= taken * writer.backlog_weight as i64;
    let packet = Packet {
        arrival: Time::ZERO,
        qp: s.number,
        detail: Detail::psn(psn),
        next: NONE,
        wire_bytes: wire_bytes as u16,
        amount: Amount::payload(payload_bytes),
        dst: s.dst,
        ingress: 0,
        kind: Kind::Data,
        class,
        flags: model.data_flags | if ack_request { ACK_REQUEST } else { 0 },
        code_point: s.code_point,
    };
    let uses = s.half.uses;
    fabric.data.sent += 1;
    let free_at = fabric.send_new(port, packet, uses.acks.then_some(stamp));
    match s.half.standing(&writer.writes, free_at) {
        Standing::Ready => nic.arbiter.join(class, qp),
        Standing::Waits(_) => {
            let until = s.wait(common.congestion, now);
            fabric.run.schedule(until, Event::PacingDue(s.number));
        }
        Standing::Idle => s.scheduled = false,
    }
    if ack_request {
        s.arm_timer(fabric);
    }
    Follows { any: probe | uses.timer | (nic.host_path != IDEAL), payload_bytes, probe }
}
