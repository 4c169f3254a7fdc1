//! The NIC's congestion control: which controller a queue pair has, and what it is told.

use std::num::NonZeroU64;

use tailback_proto::congestion::dcqcn::{ReactionParameters, ReactionPoint};
use tailback_proto::congestion::dctcp::{Dctcp, DctcpParameters};
use tailback_proto::congestion::hpcc::{Hpcc, HpccParameters};
use tailback_proto::congestion::timely::{Timely, TimelyParameters};
use tailback_proto::congestion::AckInfo;
use tailback_proto::units::{Rate, Time};

use crate::plan::CongestionPlan;

/// A kind of NIC's congestion control.
#[derive(Debug)]
#[repr(u8)] // a tag of its own is quicker to read than one hidden in a field's spare values
pub(crate) enum Congestion {
    None,
    Dcqcn(ReactionParameters),
    Timely(TimelyParameters),
    Hpcc(HpccParameters),
    Dctcp(DctcpParameters),
}

impl Congestion {
    pub fn new(plan: &CongestionPlan, line_rate: Rate) -> Result<Self, String> {
        Ok(match plan {
            CongestionPlan::None => Congestion::None,
            CongestionPlan::Dcqcn(dcqcn) => Congestion::Dcqcn(dcqcn.reaction(line_rate)?),
            CongestionPlan::Hpcc(hpcc) => Congestion::Hpcc(hpcc.parameters(line_rate)?),
            CongestionPlan::Timely(timely) => Congestion::Timely(timely.parameters(line_rate)?),
            CongestionPlan::Dctcp(dctcp) => Congestion::Dctcp(dctcp.parameters(line_rate)?),
        })
    }

    /// Whether controllers listen to acknowledgements.
    pub fn hears_acks(&self) -> bool {
        !matches!(self, Congestion::None | Congestion::Dcqcn(_))
    }

    /// Whether packets collect the telemetry of their path.
    pub fn needs_hops(&self) -> bool {
        matches!(self, Congestion::Hpcc(_))
    }

    /// Bytes of a burst, where bursts are paced and not packets.
    pub fn burst_bytes(&self) -> Option<NonZeroU64> {
        match self {
            Congestion::Timely(p) => Timely::burst_bytes(p),
            _ => None,
        }
    }

    /// The controller of a new queue pair.
    pub fn controller(&self) -> Controller {
        match self {
            Congestion::None => Controller::None,
            Congestion::Dcqcn(p) => Controller::Dcqcn(ReactionPoint::new(p)),
            Congestion::Hpcc(p) => Controller::Hpcc(Box::new(Hpcc::new(p))),
            Congestion::Timely(p) => Controller::Timely(Timely::new(p), Burst::default()),
            Congestion::Dctcp(p) => Controller::Dctcp(Dctcp::new(p)),
        }
    }
}

/// What a queue pair has sent of a burst.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Burst {
    began_at: Time,
    /// 0: the next packet begins one.
    wire_bytes: u64,
    /// The packet that continues it. Another one, after going back, begins anew.
    next_sequence: u64,
}

impl Burst {
    /// A packet of so many bytes on the wire is being sent: the earliest time of the next one, and the packet's time
    /// stamp. That is the burst's begin, and the burst's time on the link up to this packet's end: what comes back later
    /// was not spent on sending it.
    pub fn on_sent(
        &mut self,
        now: Time,
        sequence: u64,
        wire_bytes: u32,
        is_last: bool,
        rate: f64,
        line_rate: f64,
    ) -> (Time, Time) {
        if self.wire_bytes == 0 || sequence != self.next_sequence {
            *self = Burst { began_at: now, wire_bytes: 0, next_sequence: sequence };
        }
        self.wire_bytes += wire_bytes as u64;
        self.next_sequence += 1;
        let takes = |rate: f64| Time((self.wire_bytes as f64 * 8e12 / rate) as u64);
        let stamp = self.began_at + takes(line_rate);
        if !is_last {
            return (now, stamp);
        }
        let next_at = self.began_at + takes(rate);
        self.wire_bytes = 0;
        (next_at, stamp)
    }
}

/// A queue pair's controller: the state that belongs to its NIC's [`Congestion`].
#[derive(Clone, Debug)]
#[repr(u8)]
pub(crate) enum Controller {
    None,
    Dcqcn(ReactionPoint),
    Timely(Timely, Burst),
    // From here on with a window: next to each other, they are told by one comparison.
    /// Boxed: what it remembers of each link would make every queue pair large.
    Hpcc(Box<Hpcc>),
    Dctcp(Dctcp),
}

impl Controller {
    /// A packet with `payload` bytes is being sent: the rate that paces the next one.
    #[inline]
    pub fn on_sent(&mut self, congestion: &Congestion, now: Time, payload: u64, line_rate: f64) -> f64 {
        if let (Controller::Dcqcn(reaction), Congestion::Dcqcn(p)) = (&mut *self, congestion) {
            reaction.on_sent(p, now, payload);
            return reaction.rate();
        }
        self.rate(line_rate)
    }

    #[inline(never)] // what most runs never need stays out of the way of what they do
    pub fn rate(&self, line_rate: f64) -> f64 {
        match self {
            Controller::None => line_rate,
            Controller::Dcqcn(reaction) => reaction.rate(),
            Controller::Hpcc(hpcc) => hpcc.rate(),
            Controller::Timely(timely, _) => timely.rate(),
            Controller::Dctcp(dctcp) => dctcp.rate(),
        }
    }

    /// Whether [`Self::window_bytes`] need be asked.
    #[inline]
    pub fn may_have_window(&self) -> bool {
        matches!(self, Controller::Hpcc(_) | Controller::Dctcp(_))
    }

    /// Bytes that may be in flight; none: no limit.
    pub fn window_bytes(&self) -> Option<u64> {
        match self {
            Controller::None | Controller::Dcqcn(_) | Controller::Timely(..) => None,
            Controller::Hpcc(hpcc) => hpcc.window_bytes(),
            Controller::Dctcp(dctcp) => dctcp.window_bytes(),
        }
    }

    pub fn on_ack(&mut self, congestion: &Congestion, ack: &AckInfo) {
        match (self, congestion) {
            (Controller::Hpcc(hpcc), Congestion::Hpcc(p)) => hpcc.on_ack(p, ack),
            (Controller::Timely(timely, _), Congestion::Timely(p)) => timely.on_ack(p, ack),
            (Controller::Dctcp(dctcp), Congestion::Dctcp(p)) => dctcp.on_ack(p, ack),
            _ => {}
        }
    }

    /// The burst that is being sent, where bursts are paced.
    pub fn burst(&mut self, congestion: &Congestion) -> Option<&mut Burst> {
        match self {
            Controller::Timely(_, burst) => congestion.burst_bytes().map(|_| burst),
            _ => None,
        }
    }

    /// Whether [`Self::rtt`] says something.
    pub fn measures_rtt(&self) -> bool {
        matches!(self, Controller::Timely(..))
    }

    /// The round-trip time that it went by last, of those that go by one; zero before the first.
    pub fn rtt(&self) -> Time {
        match self {
            Controller::Timely(timely, _) => timely.rtt().unwrap_or(Time::ZERO),
            _ => Time::ZERO,
        }
    }

    /// Rate and alpha now, of those that have one. Looking must not change what is seen later.
    pub fn peek(&self, congestion: &Congestion, now: Time, line_rate: f64) -> (f64, f64) {
        match (self, congestion) {
            (Controller::Dcqcn(reaction), Congestion::Dcqcn(p)) => {
                let mut reaction = reaction.clone();
                reaction.catch_up(p, now);
                (reaction.rate(), reaction.alpha())
            }
            (Controller::Dctcp(dctcp), _) => (dctcp.rate(), dctcp.alpha()),
            (other, _) => (other.rate(line_rate), 0.0),
        }
    }
}
