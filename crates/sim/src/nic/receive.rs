//! The way in: notification point, responder, requester, congestion control.
//!
//! An ACK or NAK echoes what the packet that it answers brought: its CE mark, and the timestamp and telemetry of NICs whose
//! controllers use them.

use tailback_proto::congestion::notification_point::NotificationPoint;
use tailback_proto::nic::Echo;
use tailback_proto::transport::rc::{Timeout, Told, Verdict};
use tailback_proto::units::Time;
use tailback_proto::wire::{ACK_FRAME_BYTES, CNP_FRAME_BYTES, PREAMBLE_AND_GAP_BYTES};

use super::pair_counts::EndSignal;
use super::qp::{QpState, RecvQp, SendQp};
use super::{Ethernet, Nic, NicModel, Nics};
use crate::engine::{EventQueue, Place};
use crate::event::Event;
use crate::fabric::packet::{Amount, Detail, Kind, Packet, ACK_REQUEST, CE, CE_ECHO, NONE, TRIMMED};
use crate::fabric::Fabric;
use crate::host::path::IDEAL;

impl Nics {
    /// A packet has reached a NIC: its transport, where nothing lies behind it that could make it wait.
    #[inline(always)] // it is the event loop's
    pub fn receive(&mut self, fabric: &mut Fabric, ethernet: &mut impl Ethernet, host: usize, index: u32) {
        if self.nics[host].host_path == IDEAL {
            self.transport_receive(fabric, ethernet, host, index);
        } else {
            self.path_receive(fabric, ethernet, host, index);
        }
    }

    /// A packet has reached a host's transport.
    #[inline(always)] // where hosts are ideal it is part of the event loop, as if there were no paths
    pub fn transport_receive(
        &mut self,
        fabric: &mut Fabric,
        ethernet: &mut impl Ethernet,
        host: usize,
        index: u32,
    ) {
        let packet = fabric.packets[index];
        if packet.kind.is_tcp() {
            ethernet.receive(fabric, self, index);
            return;
        }
        fabric.packets.remove(index);
        match packet.kind {
            Kind::Data => self.on_data(fabric, ethernet, host, index, &packet),
            Kind::Trimmed => self.on_trimmed(fabric, ethernet, host, index, &packet),
            Kind::Ack | Kind::Nak => self.on_ack(fabric, ethernet, index, &packet),
            Kind::Cnp => self.on_cnp(fabric, host, &packet),
            Kind::Probe => {
                // It goes back as its own answer.
                let index = fabric.packets.add(packet);
                let processing = self
                    .host_paths
                    .get(self.nics[host].host_path as usize)
                    .map(|host_path| host_path.processing);
                self.on_probe_through(fabric, ethernet, index, processing.unwrap_or(Time::ZERO));
            }
            Kind::ProbeAck => self.on_probe_ack(fabric, &packet),
            Kind::Tcp | Kind::TcpAck => unreachable!("they went to the CPU"),
        }
    }

    fn on_data(
        &mut self,
        fabric: &mut Fabric,
        ethernet: &mut impl Ethernet,
        host: usize,
        index: u32,
        packet: &Packet,
    ) {
        // The notification point sees every packet, in sequence or not.
        let qp = self.slots.of(packet.qp);
        let r = &mut self.recv_qps[qp as usize];
        let nic = &mut self.nics[host];
        let model = &self.models[nic.model as usize];
        let (marked, cnp) =
            look_at_mark(fabric.run.now, nic, model, r, &mut self.notification_points, packet);
        let src = r.src;
        let mut is_new = false;
        let ack_request = packet.flags & ACK_REQUEST != 0;
        let answer = match r.half.on_request(packet.psn(), 1, ack_request, &mut nic.counters.rdma) {
            Verdict::Accepted { ack } => {
                is_new = true;
                r.bytes_delivered += packet.payload_bytes() as u64;
                nic.goodput_rx_bytes += packet.payload_bytes() as u64;
                self.nics[src as usize].goodput_tx_bytes += packet.payload_bytes() as u64;
                fabric.data.delivered += 1;
                ack.then_some(Kind::Ack)
            }
            Verdict::Placed => {
                r.out_of_sequence += 1;
                r.bytes_delivered += packet.payload_bytes() as u64;
                nic.goodput_rx_bytes += packet.payload_bytes() as u64;
                self.nics[src as usize].goodput_tx_bytes += packet.payload_bytes() as u64;
                fabric.data.delivered += 1;
                Some(Kind::Nak)
            }
            Verdict::OutOfSequence { nak } => {
                r.out_of_sequence += nak as u64;
                fabric.data.out_of_sequence += 1;
                nak.then_some(Kind::Nak)
            }
            Verdict::Duplicate { ack } => {
                r.duplicate_request += 1;
                fabric.data.duplicate += 1;
                ack.then_some(Kind::Ack)
            }
        };
        let has_waiter = is_new && r.is_awaited;
        if cnp {
            self.send_cnp(fabric, ethernet, host, packet);
        }
        if let Some(kind) = answer {
            let r = &self.recv_qps[qp as usize];
            let rc = &self.models[self.nics[host].model as usize].rc;
            let (telemetry_bytes, echoes, nak_delay) = (r.telemetry_bytes as u32, r.echoes, rc.nak_delay);
            let echoes_ahead = rc.selective.is_some();
            let responder = &r.half.responder;
            let ahead = if echoes_ahead { responder.ahead(packet.psn()) } else { 0 };
            // A duplicate may lie ahead of a gap, too.
            let kind = if ahead > 0 { Kind::Nak } else { kind };
            let psn = match kind {
                Kind::Nak => responder.nak_psn(),
                _ => responder.ack_psn().expect("an ACK follows a packet"),
            };
            let frame_bytes = ACK_FRAME_BYTES + telemetry_bytes;
            let class_and_point = (packet.class, packet.code_point);
            let answer = reply(src, packet.qp, kind, class_and_point, Detail::psn(psn), frame_bytes);
            let answer = fabric.packets.add(Packet { amount: Amount::ahead(ahead), ..answer });
            if echoes {
                fabric.packets[answer].flags = if marked { CE_ECHO } else { 0 };
                fabric.telemetry.echo(index, answer, fabric.run.now - packet.arrival);
            }
            if kind == Kind::Nak && nak_delay > Time::ZERO && !echoes_ahead {
                delay_nak(fabric, packet.qp, answer, nak_delay);
            } else {
                self.queue_reply(fabric, ethernet, host, answer);
            }
            // A message's last packet asks for an ACK. Where that was lost the packet comes again: what polls the memory
            // sees no change.
            if let (true, Some(partner)) = (is_new, self.recv_qps[qp as usize].answered_by) {
                self.answer_message(fabric, ethernet, qp, partner);
            }
        }
        // What fills a gap may complete several.
        let is_complete = |r: &RecvQp| r.half.responder.received() >= r.message_end;
        while has_waiter && is_complete(&self.recv_qps[qp as usize]) {
            self.message_arrived(fabric, qp);
        }
    }

    /// The headers of a packet that a switch trimmed: they are answered at once. A packet that had arrived is acknowledged.
    #[inline(never)] // what most runs never need stays out of the way of what they do
    fn on_trimmed(
        &mut self,
        fabric: &mut Fabric,
        ethernet: &mut impl Ethernet,
        host: usize,
        index: u32,
        packet: &Packet,
    ) {
        let qp = self.slots.of(packet.qp);
        let (nic, r) = (&mut self.nics[host], &mut self.recv_qps[qp as usize]);
        let model = &self.models[nic.model as usize];
        let (marked, cnp) =
            look_at_mark(fabric.run.now, nic, model, r, &mut self.notification_points, packet);
        if cnp {
            self.send_cnp(fabric, ethernet, host, packet);
        }
        let r = &self.recv_qps[qp as usize];
        let responder = &r.half.responder;
        let trimmed = if responder.takes(packet.psn()) { TRIMMED } else { 0 };
        let ahead = responder.ahead(packet.psn());
        let (kind, psn) = match responder.ack_psn() {
            Some(psn) if trimmed == 0 && ahead == 0 => (Kind::Ack, psn),
            _ => (Kind::Nak, responder.nak_psn()),
        };
        let frame_bytes = ACK_FRAME_BYTES + r.telemetry_bytes as u32;
        let (src, echoes, class_and_point) = (r.src, r.echoes, (packet.class, packet.code_point));
        let answer = reply(src, packet.qp, kind, class_and_point, Detail::psn(psn), frame_bytes);
        let flags = trimmed | if echoes && marked { CE_ECHO } else { 0 };
        let answer = fabric.packets.add(Packet { amount: Amount::ahead(ahead), flags, ..answer });
        if echoes {
            fabric.telemetry.echo(index, answer, fabric.run.now - packet.arrival);
        }
        self.queue_reply(fabric, ethernet, host, answer);
    }

    /// The NAK of a gap leaves the slow path, unless the gap was filled meanwhile.
    pub fn on_delayed_nak(&mut self, fabric: &mut Fabric, ethernet: &mut impl Ethernet, index: u32) {
        let nak = fabric.packets[index];
        let qp = self.slots.of(nak.qp) as usize;
        if self.recv_qps[qp].half.responder.nak_psn() != nak.psn() {
            fabric.packets.remove(index);
            return;
        }
        let host = self.send_qps[qp].dst as usize;
        self.queue_reply(fabric, ethernet, host, index);
    }

    /// Sends a CNP to the host at the other end of a queue pair, of which this is a packet.
    pub fn send_cnp(
        &mut self,
        fabric: &mut Fabric,
        ethernet: &mut impl Ethernet,
        host: usize,
        packet: &Packet,
    ) {
        let r = &mut self.recv_qps[self.slots.of(packet.qp) as usize];
        r.np_cnp_sent += 1;
        let src = r.src;
        self.pair_counts.note(EndSignal::Cnp, host as u16, src);
        let nic = &mut self.nics[host];
        nic.counters.rdma.np_cnp_sent += 1;
        let model = &self.models[nic.model as usize];
        let code_point = model.cnp_code_point.unwrap_or(packet.code_point);
        let class_and_point = (model.class_of[code_point as usize], code_point);
        let made = Detail::made(fabric.run.in_whole_ns());
        let notification = reply(src, packet.qp, Kind::Cnp, class_and_point, made, CNP_FRAME_BYTES);
        let index = fabric.packets.add(notification);
        self.answer(fabric, ethernet, host, index);
    }

    /// Queues a packet that the receive side made.
    #[inline(never)] // answers other than CNPs are few
    pub(super) fn queue_reply(
        &mut self,
        fabric: &mut Fabric,
        ethernet: &mut impl Ethernet,
        host: usize,
        index: u32,
    ) {
        self.answer(fabric, ethernet, host, index);
    }

    #[inline(always)] // what makes a CNP has it in hand
    fn answer(&mut self, fabric: &mut Fabric, ethernet: &mut impl Ethernet, host: usize, index: u32) {
        let nic = &self.nics[host];
        let port = nic.port as usize;
        if nic.arbiter.ready_classes() == 0 && fabric.pass(port, index) {
            return;
        }
        fabric.enqueue(port, index);
        self.kick(fabric, ethernet, host);
    }

    fn on_ack(&mut self, fabric: &mut Fabric, ethernet: &mut impl Ethernet, index: u32, packet: &Packet) {
        let qp = self.slots.of(packet.qp);
        let Some(s) = self.send_qps.get_mut(qp as usize) else { return };
        if s.state != QpState::Running {
            return;
        }
        let model = &self.models[self.nics[s.src as usize].model as usize];
        let common = model.common(s.congestion);
        let hears_acks = s.half.uses.acks;
        let unsent = s.half.requester.unsent();
        let newly = if packet.kind == Kind::Ack {
            s.half.on_ack(&common, fabric.run.now, packet.psn())
        } else if packet.ahead() > 0 || packet.flags & TRIMMED != 0 {
            let told = if packet.flags & TRIMMED != 0 { Told::Trimmed } else { Told::Arrived };
            let counters = &mut self.nics[s.src as usize].counters.rdma;
            let handled = counters.rp_cnp_handled;
            let (newly, is_loss) = s.half.on_selective_nak(
                &common,
                fabric.run.now,
                packet.psn(),
                packet.ahead(),
                told,
                counters,
            );
            s.packet_seq_err += is_loss as u64;
            if is_loss {
                self.pair_counts.note(EndSignal::Nak, s.dst, s.src);
            }
            s.rp_cnp_handled += counters.rp_cnp_handled - handled;
            newly
        } else {
            s.packet_seq_err += 1;
            self.pair_counts.note(EndSignal::Nak, s.dst, s.src);
            let counters = &mut self.nics[s.src as usize].counters.rdma;
            let handled = counters.rp_cnp_handled;
            let newly = s.half.on_nak(&common, fabric.run.now, packet.psn(), counters);
            s.rp_cnp_handled += counters.rp_cnp_handled - handled;
            newly
        };
        self.account_backlog(qp, unsent);
        if hears_acks {
            self.inform_controller(fabric, index, qp, packet);
        }
        if newly > 0 {
            self.on_progress(fabric, qp);
        }
        self.send_qps[qp as usize].arm_timer(fabric);
        if hears_acks {
            self.arm_controller_timer(fabric, qp);
        }
        self.activate(fabric, ethernet, qp);
    }

    /// Tells a queue pair's controller of an ACK or NAK.
    #[inline(never)] // what most runs never need stays out of the way of what they do
    fn inform_controller(&mut self, fabric: &mut Fabric, index: u32, qp: u32, packet: &Packet) {
        let s = &mut self.send_qps[qp as usize];
        let nic = &mut self.nics[s.src as usize];
        let model = &self.models[nic.model as usize];
        let brought = fabric.telemetry.of(index);
        let echo = Echo {
            rtt: fabric.run.now - brought.sent_at,
            receiver_delay: brought.receiver_delay,
            marked: packet.flags & CE_ECHO != 0,
            hop_count: brought.passed as u32,
            hops: brought.hops(),
            digest: brought.digest,
        };
        let congestion = &model.congestion[s.congestion as usize];
        let writes = &self.writers[s.writer as usize].writes;
        if s.half.uses.delay {
            self.pair_counts.note(EndSignal::DelayProbe, s.dst, s.src);
        }
        let (is_ack, counters) = (packet.kind == Kind::Ack, &mut nic.counters.rdma);
        s.half.inform_controller(congestion, fabric.run.now, writes, is_ack, &echo, counters);
    }

    fn on_cnp(&mut self, fabric: &mut Fabric, host: usize, packet: &Packet) {
        let (qp, nic) = (self.slots.of(packet.qp), &mut self.nics[host]);
        let running = |s: &&mut SendQp| s.state == QpState::Running;
        let Some(s) = self.send_qps.get_mut(qp as usize).filter(running) else {
            nic.counters.rdma.rp_cnp_ignored += 1;
            return;
        };
        let congestion = &self.models[nic.model as usize].congestion[s.congestion as usize];
        if s.half.on_cnp(congestion, fabric.run.now, &mut nic.counters.rdma) {
            s.rp_cnp_handled += 1;
            nic.counters.cnp_delay_ns += packet.age_ns(fabric.run.in_whole_ns());
            if s.half.uses.timer {
                self.arm_controller_timer(fabric, qp);
            }
        }
    }

    /// A transport timer event.
    pub fn on_transport_timer(&mut self, fabric: &mut Fabric, ethernet: &mut impl Ethernet, number: u32) {
        let qp = self.slots.of(number);
        let Some(s) = self.send_qps.get_mut(qp as usize) else { return };
        s.timer_event_at = Time::NEVER;
        if s.state != QpState::Running {
            return;
        }
        let nic = &mut self.nics[s.src as usize];
        let common = self.models[nic.model as usize].common(s.congestion);
        let unsent = s.half.requester.unsent();
        let handled = nic.counters.rdma.rp_cnp_handled;
        let timeout = s.half.on_timeout(&common, fabric.run.now, &mut nic.counters.rdma);
        s.local_ack_timeout_err += (timeout != Timeout::None) as u64;
        s.rp_cnp_handled += nic.counters.rdma.rp_cnp_handled - handled;
        if timeout == Timeout::Failed {
            self.account_backlog(qp, unsent);
            self.end_qp(fabric, qp, QpState::Error);
            return;
        }
        self.account_backlog(qp, unsent);
        self.send_qps[qp as usize].arm_timer(fabric);
        self.arm_controller_timer(fabric, qp);
        self.activate(fabric, ethernet, qp);
    }

    /// Brings the NIC's backlog up to date with what a queue pair has still to send, `before` packets earlier.
    fn account_backlog(&mut self, qp: u32, before: u64) {
        let s = &self.send_qps[qp as usize];
        let after = s.half.requester.unsent();
        let weight = self.writers[s.writer as usize].backlog_weight as i64;
        self.nics[s.src as usize].backlog_bytes[s.class as usize] += (after as i64 - before as i64) * weight;
    }
}

/// Holds the NAK of a gap back. Its place among simultaneous events is its queue pair's, which has one gap at a time.
#[cold]
fn delay_nak(fabric: &mut Fabric, qp: u32, nak: u32, delay: Time) {
    let at = (fabric.run.now + delay).min(EventQueue::HORIZON);
    let place = Place::of(at, Event::DelayedNak(qp).encode(), 0);
    fabric.run.schedule_at(place, Event::DelayedNak(nak).encode());
}

/// Whether a packet of a sender is marked, and whether a CNP is to follow.
#[inline(always)] // the caller has looked up what it takes
fn look_at_mark(
    now: Time,
    nic: &mut Nic,
    model: &NicModel,
    r: &mut RecvQp,
    points: &mut [NotificationPoint],
    packet: &Packet,
) -> (bool, bool) {
    let marked = (packet.flags & CE != 0) | nic.marks_ce;
    if !marked {
        return (false, false);
    }
    r.np_ecn_marked_roce_packets += 1;
    let point = r.sends_cnps.then(|| &mut points[r.notification_point as usize]);
    let interval = model.min_time_between_cnps[r.congestion as usize];
    (true, r.half.on_marked(now, point, interval, &mut nic.counters.rdma))
}

/// A packet that answers another.
#[inline]
fn reply(
    dst: u16,
    qp: u32,
    kind: Kind,
    (class, code_point): (u8, u8),
    detail: Detail,
    frame_bytes: u32,
) -> Packet {
    Packet {
        arrival: Time::ZERO,
        qp,
        detail,
        next: NONE,
        wire_bytes: (frame_bytes + PREAMBLE_AND_GAP_BYTES) as u16,
        amount: Amount::NONE,
        dst,
        ingress: 0,
        kind,
        class,
        flags: 0,
        code_point,
    }
}
