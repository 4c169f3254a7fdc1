//! Queue pairs: the sending half at one host, the receiving half at the other.

use tailback_proto::congestion::builtin::Congestion;
use tailback_proto::congestion::notification_point::NotificationPoint;
use tailback_proto::congestion::rhcc::sender::{Sender, SenderParameters};
use tailback_proto::congestion::Controller;
use tailback_proto::nic::{ReceivingHalf, SendingHalf, Standing};
use tailback_proto::units::Time;

use super::model::NicModel;
use crate::event::Event;
use crate::fabric::Fabric;
use crate::workload::latency::QpNumber;
use crate::workload::Writer;

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
    /// What its packets carry for its congestion control beyond their headers, bytes.
    pub telemetry_bytes: u16,
    /// Number of its congestion control.
    pub congestion: u8,
    /// Class at the sender.
    pub class: u8,
    pub code_point: u8,
    pub state: QpState,
    /// Whether it is in the NIC's ready ring, or has an event that will put it there.
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

    #[inline(never)] // what most runs never need stays out of the way of what they do
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

    /// Whether a packet waits and the window lets it go. The last one may pass the window's end.
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
    /// What answers carry of what packets brought, bytes.
    pub telemetry_bytes: u16,
    /// Number of its sender's congestion control.
    pub congestion: u8,
    /// Whether its sender lives on CNPs.
    pub sends_cnps: bool,
    /// Whether answers bring back what packets brought.
    pub echoes: bool,
    /// Something waits for its messages: see `message_end`.
    pub is_awaited: bool,
    /// Packets until the end of the next message that something waits for.
    pub message_end: u64,
    /// The queue pair that answers each message, in a latency test.
    pub answered_by: Option<QpNumber>,
    /// Probes that it let through, modulo 256.
    pub probes: u8,
    /// What the NIC sends of its own accord, where that has an interval of its own.
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

/// What a queue pair that probes has besides its controller.
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
    #[inline(never)] // what most runs never need stays out of the way of what they do
    pub fn on_sent(&mut self, p: &SenderParameters, now: Time, payload: u32, rate: f64) -> (bool, f64) {
        self.sender.on_sent(p, now, payload as u64);
        (self.sender.takes_probe(), self.sender.limit(rate))
    }
}
