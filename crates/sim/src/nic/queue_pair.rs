//! Queue pairs: the sending half at one host, the receiving half at the other.

use tailback_proto::congestion::builtin::Congestion;
use tailback_proto::congestion::dcqcn::NotificationPoint;
use tailback_proto::congestion::rhcc::{Sender, SenderParameters};
use tailback_proto::congestion::Controller;
use tailback_proto::nic::{Echo, ReceivingHalf, SendingHalf, Sent, Standing};
use tailback_proto::transport::rc::{NakCause, Timeout, Verdict};
use tailback_proto::units::Time;
use tailback_proto::wire::{ACK_FRAME_BYTES, CNP_FRAME_BYTES, PREAMBLE_AND_GAP_BYTES, PROBE_FRAME_BYTES};

use super::{EndSignal, Ethernet, Nic, NicModel, Nics, ETHERNET};
use crate::engine::{EventKey, EventQueue};
use crate::event::Event;
use crate::fabric::packet::{Amount, Detail, Packet, PacketKind, ACK_REQUEST, CE, CE_ECHO, NONE, TRIMMED};
use crate::fabric::{Fabric, CLASSES};
use crate::host::path::IDEAL;
use crate::workload::{QpNumber, Writer};

/// Where a sending queue pair stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum QpState {
    /// Its writer has not started.
    Waiting,
    Running,
    /// Everything it was to send was acknowledged.
    Done,
    /// It ran out of retries.
    Error,
}

impl QpState {
    /// In words.
    pub fn text(self) -> &'static str {
        match self {
            QpState::Waiting => "waiting",
            QpState::Running => "running",
            QpState::Done => "done",
            QpState::Error => "error",
        }
    }
}

/// The sending half of a queue pair. A NIC may have thousands, and comes to one after the other: what a packet needs is three
/// cache lines, and one more where DCQCN cuts the rate.
#[derive(Debug)]
#[repr(C, align(64))]
pub(crate) struct SendQp {
    /// Its own among all of the run; `GONE`: none is in this slot.
    pub number: u32,
    /// Writer that it belongs to.
    pub writer: u32,
    pub src: u16,
    pub dst: u16,
    /// Bytes that its congestion control adds to the headers of its packets.
    pub telemetry_bytes: u16,
    /// Number of its congestion control.
    pub congestion: u8,
    /// Class at the sender.
    pub class: u8,
    pub code_point: u8,
    pub state: QpState,
    /// True if it is in the NIC's ready ring, or has an event that will put it there.
    pub scheduled: bool,
    pub packets_sent: u64,
    pub rp_cnp_handled: u64,
    /// Its packets, its controller, and when its next packet may leave.
    pub half: SendingHalf,
    /// When its pending timer event is due; `NEVER`: none.
    pub timer_event_at: Time,
    pub messages_posted: u64,
    /// Where it probes its receiver. Boxed: most do not.
    pub prober: Option<Box<Prober>>,
    /// When the pending event of its controller's own timer is due; `NEVER`: none.
    pub controller_event_at: Time,
    pub start: Time,
    pub end: Time,
    pub packets_retransmitted: u64,
    pub packet_seq_err: u64,
    pub local_ack_timeout_err: u64,
    /// Boxed: most never are.
    pub at_min_rate: Option<Box<AtMinRate>>,
}

/// How a queue pair's packets waited for the lowest rate that its controller may set.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AtMinRate {
    /// When the first such wait began.
    pub from: Time,
    /// When the last one ended.
    pub to: Time,
    /// All of them together.
    pub waited: Time,
}

impl SendQp {
    /// At rest, of a writer from one host to another. `congestion`: its number among those of its NIC.
    pub fn new(
        model: &NicModel,
        number: u32,
        congestion: usize,
        writer: u32,
        (src, dst): (u16, u16),
        code_point: u8,
    ) -> Self {
        let (own, congestion) = (congestion, &model.congestion[congestion]);
        SendQp {
            number,
            half: SendingHalf::new(0, congestion).with_recovery(&model.rc),
            congestion: own as u8,
            telemetry_bytes: congestion.telemetry_bytes() as u16,
            controller_event_at: Time::NEVER,
            prober: model.rhcc.as_ref().map(|p| Box::new(Prober::new(p))),
            scheduled: false,
            state: QpState::Waiting,
            class: model.class_of[code_point as usize],
            code_point,
            src,
            dst,
            writer,
            timer_event_at: Time::NEVER,
            messages_posted: 0,
            start: Time::ZERO,
            end: Time::ZERO,
            packets_sent: 0,
            packets_retransmitted: 0,
            packet_seq_err: 0,
            local_ack_timeout_err: 0,
            rp_cnp_handled: 0,
            at_min_rate: None,
        }
    }

    /// A packet waits by the controller's rate: until when, and then the queue pair is to be looked at again.
    #[inline(always)] // a sender's packets have two ways out, both hot
    pub fn wait(&mut self, congestion: &Congestion, now: Time) -> Time {
        let until = self.half.pacer.look_at(congestion, self.half.held_until());
        self.count_wait(congestion, now, until);
        until
    }

    #[inline]
    fn count_wait(&mut self, congestion: &Congestion, now: Time, until: Time) {
        if self.half.pacer.flow.is_at_min_rate(congestion) {
            self.wait_at_min_rate(now, until.min(self.half.pacer.next_at()));
        }
    }

    #[inline(never)]
    fn wait_at_min_rate(&mut self, now: Time, until: Time) {
        let none = AtMinRate { from: now, to: now, waited: Time::ZERO };
        let at_min_rate = self.at_min_rate.get_or_insert_with(|| Box::new(none));
        if until > now {
            at_min_rate.to = until;
            at_min_rate.waited += until - now;
        }
    }

    /// A packet waits, and its rate may have risen.
    #[inline(never)]
    pub fn look_again(&mut self, model: &NicModel, now: Time) -> Standing {
        let (congestion, prober) = (&model.congestion[self.congestion as usize], &self.prober);
        let limit = |rate| prober.as_ref().map_or(rate, |prober| prober.sender.limit(rate));
        let held_until = self.half.held_until();
        let standing = self.half.pacer.look_again(congestion, now, held_until, limit);
        if let Standing::Waits(until) = standing {
            self.count_wait(congestion, now, until);
        }
        standing
    }

    /// Makes sure that a timer event is pending where the transport timer runs. The event stays where it is when the
    /// deadline moves on, and looks again when it fires.
    #[inline]
    pub fn arm_timer(&mut self, fabric: &mut Fabric) {
        if let (Some(deadline), Time::NEVER) = (self.half.requester.next_timeout(), self.timer_event_at) {
            self.timer_event_at = deadline;
            fabric.run.schedule(deadline, Event::TransportTimer(self.number));
        }
    }

    /// True if a packet waits and the window lets it go. The last one may pass the window's end.
    #[inline]
    pub fn may_send(&self, writers: &[Writer]) -> bool {
        self.half.may_send(&writers[self.writer as usize].writes)
    }
}

/// The receiving half of a queue pair. What a packet needs comes first, and is a cache line.
#[derive(Clone, Debug, Default)]
#[repr(C, align(64))]
pub(crate) struct RecvQp {
    pub half: ReceivingHalf,
    pub bytes_delivered: u64,
    pub np_ecn_marked_roce_packets: u64,
    pub np_cnp_sent: u64,
    /// Number of its notification point, which others may share.
    pub notification_point: u32,
    /// Host that sends.
    pub src: u16,
    /// Bytes that answers carry of the packets' telemetry.
    pub telemetry_bytes: u16,
    /// Number of its sender's congestion control.
    pub congestion: u8,
    /// True if its sender lives on CNPs.
    pub sends_cnps: bool,
    /// True if answers bring back what packets brought.
    pub echoes: bool,
    /// Something waits for its messages: see `message_end`.
    pub is_awaited: bool,
    /// Packets until the end of the next message that something waits for.
    pub message_end: u64,
    /// The queue pair that answers each message, in a latency test.
    pub answered_by: Option<QpNumber>,
    /// Probes that it let through, modulo 256.
    pub probes: u8,
    /// CNPs that the NIC sends of its own accord, where these have an interval of their own.
    pub own_cnps: NotificationPoint,
    pub out_of_sequence: u64,
    pub duplicate_request: u64,
}

impl RecvQp {
    /// At rest, at a NIC.
    pub fn new(model: &NicModel) -> Self {
        RecvQp { half: ReceivingHalf::default().with_recovery(&model.rc), ..RecvQp::default() }
    }
}

/// State of a queue pair that probes, besides its controller.
#[derive(Debug)]
pub(crate) struct Prober {
    pub sender: Sender,
    /// When its pending timer event is due; `NEVER`: none.
    pub timer_event_at: Time,
    pub probes_sent: u64,
    pub answers: u64,
}

impl Prober {
    pub fn new(p: &SenderParameters) -> Self {
        Prober { sender: Sender::new(p), timer_event_at: Time::NEVER, probes_sent: 0, answers: 0 }
    }

    /// A packet is being sent: whether a probe follows, and the rate that paces what comes next, where the controller
    /// allows `rate`.
    #[inline(never)]
    pub fn on_sent(&mut self, p: &SenderParameters, now: Time, payload: u32, rate: f64) -> (bool, f64) {
        self.sender.on_sent(p, now, payload as u64);
        (self.sender.takes_probe(), self.sender.limit(rate))
    }
}

// Where queue pairs are kept. Packets, events and routes know a queue pair by its number, which no other ever has. A message
// that is done gives its slot, with all that hangs on it, to a later one. What is still on its way to it then finds nothing.

/// Slots of queue pairs, by their numbers.
#[derive(Debug, Default)]
pub(crate) struct Slots {
    /// By number. Empty before the work begins, and where there is none: each queue pair has the slot of its number.
    of: Vec<u32>,
    /// The number of the work's first queue pair.
    first_of_work: Option<u32>,
    free: Vec<u32>,
    /// Those of the work's messages that are done and still in theirs.
    pub done: Vec<u32>,
}

/// The slot of a queue pair that has none any more, and the number of a slot that is free.
pub(crate) const GONE: u32 = u32::MAX;

impl Slots {
    /// The slot of a queue pair; out of all bounds if it is gone.
    #[inline(always)] // packets and events ask
    pub fn of(&self, number: u32) -> u32 {
        self.of.get(number as usize).copied().unwrap_or(number)
    }

    /// From now on queue pairs are added, `planned` of which there are.
    pub fn begin_work(&mut self, planned: usize) {
        self.of = (0..planned as u32).collect();
        self.first_of_work = Some(planned as u32);
    }

    /// True if a queue pair was added during the run.
    pub fn is_of_work(&self, number: u32) -> bool {
        self.first_of_work.is_some_and(|first| number >= first)
    }

    /// Queue pairs so far, where so many slots are used or free.
    pub fn numbers(&self, slots: usize) -> u32 {
        if self.first_of_work.is_some() {
            self.of.len() as u32
        } else {
            slots as u32
        }
    }

    /// The slot of the next queue pair, where so many are used or free.
    pub fn next(&self, slots: usize) -> u32 {
        self.free.last().copied().unwrap_or(slots as u32)
    }

    /// The next queue pair is in this slot.
    pub fn take(&mut self, slot: u32) {
        if self.first_of_work.is_some() {
            self.of.push(slot);
            self.free.pop_if(|free| *free == slot);
        }
    }

    /// A queue pair is gone.
    pub fn give_back(&mut self, number: u32) {
        self.free.push(std::mem::replace(&mut self.of[number as usize], GONE));
    }
}

/// Puts what belongs to a slot in its place of a list, or at the end of that.
pub(crate) fn put<T>(list: &mut Vec<T>, at: u32, value: T) {
    match list.get_mut(at as usize) {
        Some(place) => *place = value,
        None => list.push(value),
    }
}

// What writers have queue pairs do: they begin, post messages as completions make room, and end.

impl Nics {
    /// The queue pairs of a writer begin.
    pub fn on_writer_start(&mut self, fabric: &mut Fabric, ethernet: &mut impl Ethernet, writer: u32) {
        let Writer { first_qp, qps, .. } = self.writers[writer as usize];
        for qp in first_qp..first_qp + qps {
            let s = &mut self.send_qps[qp as usize];
            s.state = QpState::Running;
            s.start = fabric.run.now;
            self.post(qp);
        }
        for qp in first_qp..first_qp + qps {
            self.activate(fabric, ethernet, qp);
        }
        if !self.latency_tests.is_empty() {
            self.begin_latency_test(fabric, ethernet, first_qp);
        }
    }

    /// A message of the flow list is posted.
    pub fn on_flow_start(&mut self, fabric: &mut Fabric, ethernet: &mut impl Ethernet, number: u32) {
        let qp = self.slots.of(number);
        let s = &mut self.send_qps[qp as usize];
        s.state = QpState::Running;
        s.start = fabric.run.now;
        self.post(qp);
        self.activate(fabric, ethernet, qp);
    }

    /// The arrival of each message of a queue pair is reported: of a single one, or of as many as will be posted on one
    /// that lasts.
    pub fn tell_arrivals(&mut self, qp: u32, lasts: bool) {
        let writer = &mut self.writers[self.send_qps[qp as usize].writer as usize];
        writer.post_one_by_one(lasts);
        let r = &mut self.recv_qps[qp as usize];
        (r.is_awaited, r.message_end) = (true, writer.writes.packets_per_message);
    }

    /// A message is posted whose arrival is to be reported.
    pub fn post_message(&mut self, fabric: &mut Fabric, ethernet: &mut impl Ethernet, qp: u32) {
        let s = &mut self.send_qps[qp as usize];
        if s.state == QpState::Waiting {
            s.state = QpState::Running;
            s.start = fabric.run.now;
        }
        self.writers[s.writer as usize].tx_depth += 1;
        self.post(qp);
        self.activate(fabric, ethernet, qp);
    }

    /// A message that something waits for is in memory.
    #[inline(never)]
    pub fn message_arrived(&mut self, fabric: &mut Fabric, qp: u32) {
        let s = &self.send_qps[qp as usize];
        let writer = &self.writers[s.writer as usize];
        self.recv_qps[qp as usize].message_end += writer.writes.packets_per_message;
        fabric.run.schedule(fabric.run.now, Event::MessageArrived(s.number));
    }

    /// A writer posts no more; what it posted is still sent.
    pub fn on_writer_stop(&mut self, fabric: &mut Fabric, writer: u32) {
        self.writers[writer as usize].stopped = true;
        let Writer { first_qp, qps, .. } = self.writers[writer as usize];
        for qp in first_qp..first_qp + qps {
            match self.send_qps[qp as usize].state {
                QpState::Waiting => self.end_qp(fabric, qp, QpState::Done),
                QpState::Running => self.end_if_idle(fabric, qp),
                QpState::Done | QpState::Error => {}
            }
        }
    }

    /// Packets of a queue pair were acknowledged.
    pub fn on_progress(&mut self, fabric: &mut Fabric, qp: u32) {
        self.post(qp);
        self.end_if_idle(fabric, qp);
    }

    /// Posts what a queue pair has room for.
    pub(super) fn post(&mut self, qp: u32) {
        let s = &mut self.send_qps[qp as usize];
        let writer = &self.writers[s.writer as usize];
        let completed = writer.writes.complete_before(s.half.requester.acknowledged());
        let messages = writer.to_post(s.messages_posted, completed);
        if messages == 0 {
            return;
        }
        let packets = messages * writer.writes.packets_per_message;
        s.messages_posted += messages;
        s.half.requester.post(packets);
        self.nics[s.src as usize].backlog_bytes[s.class as usize] +=
            (packets * writer.backlog_weight as u64) as i64;
    }

    fn end_if_idle(&mut self, fabric: &mut Fabric, qp: u32) {
        let s = &self.send_qps[qp as usize];
        let writer = &self.writers[s.writer as usize];
        let complete = writer.stopped || writer.messages == Some(s.messages_posted);
        if complete && s.half.requester.is_idle() {
            self.end_qp(fabric, qp, QpState::Done);
        }
    }

    /// True if no late packet can change this finished queue pair's counters, so that its slot may be reused. What was
    /// sent again may come twice, and a prober counts to the end of the run.
    pub fn is_forgotten(&self, slot: u32) -> bool {
        let s = &self.send_qps[slot as usize];
        s.state == QpState::Done && !s.scheduled && s.packets_retransmitted == 0 && s.prober.is_none()
    }

    /// A queue pair is finished, well or not.
    pub fn end_qp(&mut self, fabric: &mut Fabric, qp: u32, state: QpState) {
        let s = &mut self.send_qps[qp as usize];
        if s.state == QpState::Waiting {
            s.start = fabric.run.now;
        }
        if state == QpState::Error {
            let unsent = s.half.requester.unsent();
            let weight = self.writers[s.writer as usize].backlog_weight as i64;
            self.nics[s.src as usize].backlog_bytes[s.class as usize] -= unsent as i64 * weight;
        }
        s.state = state;
        s.end = fabric.run.now;
        if state == QpState::Done {
            if self.tells_ends {
                fabric.run.schedule(fabric.run.now, Event::MessageDone(s.number));
            } else if self.slots.is_of_work(s.number) {
                self.slots.done.push(qp);
            }
        }
        fabric.run.flow_ended();
    }
}

// The way out: which class, which queue pair, when.
//
// Classes: strict ones first, then round robin, or by their weights. In a class: ACKs and CNPs, which the NIC's receive
// side made, before data; queue pairs and the host's Ethernet rings take turns, a packet each. A queue pair under
// congestion control is paced: after a packet of `b` bytes on the wire its next one may leave `8 b / rate` later, by the
// rate at that moment. Where its controller asks for bursts, that holds for a burst: its packets follow each other at
// once. Where its controller has a window, it sends while less than that is in flight. Where it probes its receiver, the
// slower of two rates paces it.

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

    /// Work of few NICs after a packet was sent.
    #[inline(never)]
    fn follow(&mut self, fabric: &mut Fabric, qp: u32, follows: &SendFollowUp) {
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

/// The follow-up of a packet that was sent.
struct SendFollowUp {
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
) -> SendFollowUp {
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
        kind: PacketKind::Data,
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
    SendFollowUp { any: probe | uses.timer | (nic.host_path != IDEAL), payload_bytes, probe }
}

// The way in: notification point, responder, requester, congestion control.
//
// An ACK or NAK echoes what the packet that it answers brought: its CE mark, and the timestamp and telemetry of NICs whose
// controllers use them.

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
            PacketKind::Data => self.on_data(fabric, ethernet, host, index, &packet),
            PacketKind::Trimmed => self.on_trimmed(fabric, ethernet, host, index, &packet),
            PacketKind::Ack | PacketKind::Nak => self.on_ack(fabric, ethernet, index, &packet),
            PacketKind::Cnp => self.on_cnp(fabric, host, &packet),
            PacketKind::Probe => {
                // It goes back as its own answer.
                let index = fabric.packets.add(packet);
                let processing = self
                    .host_paths
                    .get(self.nics[host].host_path as usize)
                    .map(|host_path| host_path.processing);
                self.on_probe_through(fabric, ethernet, index, processing.unwrap_or(Time::ZERO));
            }
            PacketKind::ProbeAck => self.on_probe_ack(fabric, &packet),
            PacketKind::Tcp | PacketKind::TcpAck => unreachable!("they went to the CPU"),
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
                ack.then_some(PacketKind::Ack)
            }
            Verdict::Placed => {
                r.out_of_sequence += 1;
                r.bytes_delivered += packet.payload_bytes() as u64;
                nic.goodput_rx_bytes += packet.payload_bytes() as u64;
                self.nics[src as usize].goodput_tx_bytes += packet.payload_bytes() as u64;
                fabric.data.delivered += 1;
                Some(PacketKind::Nak)
            }
            Verdict::OutOfSequence { nak } => {
                r.out_of_sequence += nak as u64;
                fabric.data.out_of_sequence += 1;
                nak.then_some(PacketKind::Nak)
            }
            Verdict::Duplicate { ack } => {
                r.duplicate_request += 1;
                fabric.data.duplicate += 1;
                ack.then_some(PacketKind::Ack)
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
            let kind = if ahead > 0 { PacketKind::Nak } else { kind };
            let psn = match kind {
                PacketKind::Nak => responder.nak_psn(),
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
            if kind == PacketKind::Nak && nak_delay > Time::ZERO && !echoes_ahead {
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
    #[inline(never)]
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
            Some(psn) if trimmed == 0 && ahead == 0 => (PacketKind::Ack, psn),
            _ => (PacketKind::Nak, responder.nak_psn()),
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
        let notification = reply(src, packet.qp, PacketKind::Cnp, class_and_point, made, CNP_FRAME_BYTES);
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
        let newly = if packet.kind == PacketKind::Ack {
            s.half.on_ack(&common, fabric.run.now, packet.psn())
        } else if packet.ahead() > 0 || packet.flags & TRIMMED != 0 {
            let cause = if packet.flags & TRIMMED != 0 { NakCause::Trimmed } else { NakCause::Arrived };
            let counters = &mut self.nics[s.src as usize].counters.rdma;
            let handled = counters.rp_cnp_handled;
            let (newly, is_loss) = s.half.on_selective_nak(
                &common,
                fabric.run.now,
                packet.psn(),
                packet.ahead(),
                cause,
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
    #[inline(never)]
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
        let (is_ack, counters) = (packet.kind == PacketKind::Ack, &mut nic.counters.rdma);
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
    let place = EventKey::of(at, Event::DelayedNak(qp).encode(), 0);
    fabric.run.schedule_at(place, Event::DelayedNak(nak).encode());
}

/// True if a packet of a sender is marked, and whether a CNP is to follow.
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
    let answers = model.rc.discarded_cause_cnps || r.half.responder.takes(packet.psn());
    let point = (r.sends_cnps && answers).then(|| &mut points[r.notification_point as usize]);
    let interval = model.min_time_between_cnps[r.congestion as usize];
    (true, r.half.on_marked(now, point, interval, &mut nic.counters.rdma))
}

/// A packet that answers another.
#[inline]
fn reply(
    dst: u16,
    qp: u32,
    kind: PacketKind,
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

// RHCC's probes: how a queue pair learns what its receiver's data path takes, and sends no faster than that.
//
// A probe is a packet of its own. It follows data in the class of its queue pair, takes the receiving host's data path as
// data does, and is answered by the NIC there, whatever that host is set to: the answer carries the time from the probe's
// leaving the receive buffer to the end of its write, in ns. Where the receiving host is ideal that is zero.
//
// Leaves out: two timestamps in place of their difference; retransmission (a lost probe is only missed).

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
            kind: PacketKind::Probe,
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
        packet.kind = PacketKind::ProbeAck;
        let r = &mut self.recv_qps[self.slots.of(packet.qp) as usize];
        packet.dst = r.src;
        r.probes = r.probes.wrapping_add(1);
        let (source, own) = (packet.qp, r.probes);
        packet.detail = Detail::processing(processing);
        if processing == Time::ZERO {
            self.on_probe_answer(fabric, ethernet, index);
        } else {
            // A packet's index says who else has packets. Its order is that of its queue pair, which numbers its
            // probes.
            let at = (fabric.run.now + processing).min(EventQueue::HORIZON);
            let place = EventKey::of(at, Event::ProbeAnswer(source).encode(), own);
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

// What latency tests have queue pairs do: a message that has arrived is answered.

impl Nics {
    /// A latency test begins.
    pub fn begin_latency_test(&mut self, fabric: &mut Fabric, ethernet: &mut impl Ethernet, qp: u32) {
        if self.latency_tests.iter().any(|test| test.qp == qp) {
            self.write_one(fabric, ethernet, qp);
        }
    }

    /// A message of a latency test is in memory: it is answered.
    #[inline(never)]
    pub fn answer_message(
        &mut self,
        fabric: &mut Fabric,
        ethernet: &mut impl Ethernet,
        received: u32,
        answer: QpNumber,
    ) {
        let answer = answer.get() - 1;
        let writer = &self.writers[self.send_qps[received as usize].writer as usize];
        let packets = self.recv_qps[received as usize].half.responder.received();
        if !packets.is_multiple_of(writer.writes.packets_per_message) {
            return;
        }
        let now = fabric.run.now;
        if let Some(test) = self.latency_tests.iter_mut().find(|test| test.qp == answer) {
            test.round_trips.push(now - test.sent_at);
        }
        self.write_one(fabric, ethernet, answer);
    }

    /// Posts a message of a latency test, unless it was the last one.
    fn write_one(&mut self, fabric: &mut Fabric, ethernet: &mut impl Ethernet, qp: u32) {
        if self.send_qps[qp as usize].state != QpState::Running {
            return;
        }
        let now = fabric.run.now;
        if let Some(test) = self.latency_tests.iter_mut().find(|test| test.qp == qp) {
            test.sent_at = now;
        }
        self.writers[self.send_qps[qp as usize].writer as usize].tx_depth += 1;
        self.post(qp);
        self.activate(fabric, ethernet, qp);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_work_a_number_is_a_slot() {
        let mut slots = Slots::default();
        slots.take(slots.next(0));
        assert_eq!((slots.of(0), slots.numbers(1), slots.next(1)), (0, 1, 1));
        assert!(!slots.is_of_work(0));
    }

    /// Two of the plan, then three messages: the fourth has the slot of the third, and what is left of the third finds nothing.
    #[test]
    fn a_slot_is_used_again_and_a_number_is_not() {
        let mut slots = Slots::default();
        slots.begin_work(2);
        for slot in 2..5 {
            assert_eq!((slots.numbers(slot), slots.next(slot)), (slot as u32, slot as u32));
            slots.take(slot as u32);
        }
        slots.give_back(4);
        assert_eq!((slots.of(4), slots.numbers(5), slots.next(5)), (GONE, 5, 4));
        slots.take(4);
        assert_eq!((slots.of(5), slots.of(4), slots.numbers(5), slots.next(5)), (4, GONE, 6, 5));
        assert!(slots.is_of_work(2) && !slots.is_of_work(1));
    }
}
