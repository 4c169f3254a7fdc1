//! Congestion control: how fast a flow may send. Each controller has a file of its own, and two lines in this
//! one.
//!
//! A [`Controller`] hears of congestion from acknowledgements ([`AckInfo`]), from DCQCN's notification
//! packets, from losses and from its own timer. It says at which rate, within which window and in what bursts
//! its flow may send, and which of its values are worth a time series. Its settings are declared in its file,
//! too ([`parameters`]).
//!
//! Two more act on congestion inside the receiving host, beside one of these: RHCC and hostCC.

/// Hands the list of controllers to a macro: the name, which is in lower case in scenarios, and the type. The
/// first one is what most runs have: its packets are dispatched by a single comparison. The last one stands
/// for controllers that are not built in.
macro_rules! built_in {
    ($of:ident) => {
        $of! {
            Dcqcn: dcqcn::ReactionPoint,
            Hpcc: hpcc::Hpcc,
            Pint: hpcc::Pint,
            Timely: timely::Timely,
            Dctcp: dctcp::Dctcp,
            Swift: swift::Swift,
            None: builtin::LineRate,
            ;
            External: external::External,
        }
    };
}

pub mod builtin;
pub mod dcqcn;
pub mod dctcp;
pub mod external;
pub mod host;
pub mod hpcc;
pub use crate::parameters;
pub mod rhcc;
pub mod swift;
pub mod timely;

use std::borrow::Cow;
use std::fmt::Debug;
use std::num::{NonZeroU16, NonZeroU64};
use std::ops::Deref;

use crate::units::{Rate, Time};
use parameters::{Declared, Profile, Refused};

/// Telemetry that an egress port wrote into a packet (Li et al., "HPCC", SIGCOMM 2019, section 4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HopTelemetry {
    /// When the packet left its queue, by the switch's clock: only differences matter.
    pub at: Time,
    /// Bytes that the port has sent so far.
    pub tx_bytes: u64,
    /// Bytes in the egress queue that the packet left behind.
    pub queue_bytes: u64,
    /// Rate of the link.
    pub rate: Rate,
}

/// An acknowledgement as a controller sees it. Bytes are positions in, or spans of, the flow's payload stream.
#[derive(Clone, Copy, Debug, Default)]
pub struct AckInfo<'a> {
    /// When the acknowledgement arrived.
    pub now: Time,
    /// `now` less the time at which the answered packet was sent (its timestamp comes back with the ACK). If
    /// the sender paces bursts: less the time at which the packet's burst began, and less the time that the
    /// burst up to this packet takes on the sender's link.
    pub rtt: Time,
    /// The receiving host's share of that: from the packet's arrival at its NIC to the making of the answer.
    pub receiver_delay: Time,
    /// True if the answered packet ended a burst and is acknowledged for the first time. Always false if the sender
    /// paces packets.
    pub completes_burst: bool,
    /// Bytes acknowledged for the first time.
    pub newly_acked_bytes: u64,
    /// All bytes acknowledged so far, these included.
    pub acknowledged_bytes: u64,
    /// End of what was sent: the next new byte's position.
    pub sent_bytes: u64,
    /// True if the answered packet carried a CE mark.
    pub marked: bool,
    /// Switches that the packet passed on its way, if a controller asks for their number
    /// ([`Uses::hop_count`]).
    pub hop_count: u32,
    /// Telemetry of that packet, in the order of its route. Empty if no switch writes any.
    pub hops: &'a [HopTelemetry],
    /// The largest load on its route, if the packet carries a digest of it ([`Controller::digests`]).
    pub digest: Option<NonZeroU16>,
}

/// How a loss was noticed. The flow then goes back to the first packet that is not acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loss {
    /// A NAK: the receiver missed a packet.
    Nak,
    /// The transport timer: nothing came back for a long time.
    Timeout,
}

/// Which of a NIC's abilities a controller uses. What it does not use costs nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(default, deny_unknown_fields)
)]
pub struct Uses {
    /// It hears acknowledgements: packets carry the time at which they are sent, and answers bring it back.
    pub acks: bool,
    /// Each packet asks for an ACK.
    pub each_ack: bool,
    /// It acts on the delay that answers bring back: each answer is a delay probe in the log of signals. Goes
    /// with `acks`.
    pub delay: bool,
    /// Answers say how many switches the packet passed.
    pub hop_count: bool,
    /// Switches write their load into packets, and answers bring it back.
    pub telemetry: bool,
    /// Receivers turn CE marks into CNPs.
    pub cnps: bool,
    /// It may have a window, which ACKs move. Goes with `acks`.
    pub window: bool,
    /// It has a timer of its own.
    pub timer: bool,
}

impl Uses {
    /// Uses nothing: the start of a list.
    pub const NOTHING: Uses = Uses {
        acks: false,
        each_ack: false,
        delay: false,
        hop_count: false,
        telemetry: false,
        cnps: false,
        window: false,
        timer: false,
    };
}

/// A flow's link and packets, known before it begins.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Link {
    /// Rate of the sender's link.
    pub rate: Rate,
    /// Payload of a full packet.
    pub mtu_bytes: u32,
}

/// Parameters on a link: what most controllers need, shared by all flows of a NIC.
#[derive(Clone, Copy, Debug)]
pub struct OnLink<P> {
    /// The link.
    pub link: Link,
    /// Rate of the link, bit/s: the first and the highest rate.
    pub line_rate: f64,
    /// The parameters as they were set.
    pub parameters: P,
}

impl<P: Declared> OnLink<P> {
    /// # Errors
    /// A parameter is out of bounds.
    pub fn new(parameters: P, link: Link) -> Result<Self, Refused> {
        parameters.check()?;
        Ok(OnLink { link, line_rate: link.rate.bps(), parameters })
    }
}

impl<P> Deref for OnLink<P> {
    type Target = P;
    fn deref(&self) -> &P {
        &self.parameters
    }
}

/// How bins of a series are merged, which also says what a value is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize), serde(rename_all = "lowercase"))]
pub enum Merged {
    /// A state: the value at a bin's end, the mean of merged bins.
    Mean,
    /// A sample: the last one.
    Last,
}

/// Something about a controller that is worth a time series.
#[derive(Debug)]
pub struct Signal<C: Controller> {
    /// Name of the series; it ends with its unit.
    pub name: &'static str,
    /// Unit. Empty for a pure number.
    pub unit: &'static str,
    /// What the series shows.
    pub help: &'static str,
    /// How bins are merged.
    pub merged: Merged,
    /// Reads its value from a controller that has caught up.
    pub read: fn(&C, &C::Law) -> f64,
}

/// A [`Signal`] without its reader.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct SignalInfo {
    pub name: Cow<'static, str>,
    pub unit: &'static str,
    pub help: Cow<'static, str>,
    pub merged: Merged,
}

/// The congestion control of one flow. Inputs come in order of time; rate, window and deadline are read after each.
pub trait Controller: Debug + Sized + 'static {
    /// The settings of the controller.
    type Parameters: Declared;
    /// The parameters on a link, with what is worked out from them once for all flows of a NIC.
    type Law: Debug;

    /// What the controller uses of a NIC.
    const USES: Uses;
    /// The signals that it shows.
    const SIGNALS: &'static [Signal<Self>] = &[];
    /// Named sets of its parameters, if there are any.
    const PROFILES: &'static [Profile] = &[];

    /// # Errors
    /// A parameter is out of bounds, or does not go with another one or with the link.
    fn law(parameters: &Self::Parameters, link: Link) -> Result<Self::Law, Refused>;

    /// What the controller uses of a NIC, if that depends on its parameters.
    fn uses(_law: &Self::Law) -> Uses {
        Self::USES
    }

    /// The signals that it shows, if they depend on its parameters.
    fn signals(_law: &Self::Law) -> Vec<SignalInfo> {
        shown::<Self>()
    }

    /// Bytes that it adds to each data packet and each answer.
    fn telemetry_bytes(_law: &Self::Law) -> u32 {
        0
    }

    /// How switches put their load into a digest instead of writing it out. All controllers of a run agree,
    /// since each switch has one average.
    fn digests(_law: &Self::Law) -> Option<&hpcc::Digests> {
        None
    }

    /// Bytes to send at line rate before the next pause, rounded up to whole packets. None: each packet is
    /// paced.
    fn burst_bytes(_law: &Self::Law) -> Option<NonZeroU64> {
        None
    }

    /// A new flow.
    fn new(law: &Self::Law) -> Self;

    /// Rate that paces the flow, bit/s.
    fn rate(&self) -> f64;

    /// The rate now, bit/s, if a waiting packet has to follow its changes.
    fn followed_rate(&mut self, _law: &Self::Law, _now: Time) -> Option<f64> {
        None
    }

    /// When the followed rate may next rise without any input. Right after an input, this is later than now.
    #[inline]
    fn rises_at(&self, _law: &Self::Law) -> Time {
        Time::NEVER
    }

    /// True if the rate, as of the last input, is the lowest that it may be set to.
    #[inline]
    fn is_at_min_rate(&self, _law: &Self::Law) -> bool {
        false
    }

    /// Bytes that may be in flight. None: no limit. A packet goes while fewer bytes than that are in flight:
    /// at 0 none goes, until the timer or an ACK opens the window again.
    fn window_bytes(&self) -> Option<u64> {
        None
    }

    /// A packet with `payload` bytes is being sent.
    #[inline]
    fn on_sent(&mut self, _law: &Self::Law, _now: Time, _payload: u64) {}

    /// An acknowledgement arrived, or a NAK, which acknowledges what came before the gap.
    fn on_ack(&mut self, _law: &Self::Law, _ack: &AckInfo) {}

    /// A CNP arrived.
    fn on_cnp(&mut self, _law: &Self::Law, _now: Time) {}

    /// A loss was noticed.
    fn on_loss(&mut self, _law: &Self::Law, _now: Time, _loss: Loss) {}

    /// When the timer is due. None: it does not run.
    fn next_timeout(&self, _law: &Self::Law) -> Option<Time> {
        None
    }

    /// The timer may be due.
    fn on_timeout(&mut self, _law: &Self::Law, _now: Time) {}

    /// True if to send a probe now. Asked after each packet and each timeout.
    fn takes_probe(&mut self) -> bool {
        false
    }

    /// A probe came back: the receiving host took this long to write it.
    fn on_probe_answer(&mut self, _law: &Self::Law, _delay: Time) {}

    /// Reads the controller as it would be if an input came now, for controllers that catch up lazily.
    /// Looking must not change what is seen later.
    fn look(&self, _law: &Self::Law, _now: Time, read: impl FnOnce(&Self) -> f64) -> f64 {
        read(self)
    }

    /// The rate as it would be if an input came now.
    fn rate_at(&self, law: &Self::Law, now: Time) -> f64 {
        self.look(law, now, Self::rate)
    }

    /// The present value of a signal, by its number.
    fn signal(&self, law: &Self::Law, now: Time, number: usize) -> f64 {
        self.look(law, now, |flow| (Self::SIGNALS[number].read)(flow, law))
    }
}

/// The signals that a controller shows.
pub fn shown<C: Controller>() -> Vec<SignalInfo> {
    let info = |s: &Signal<C>| {
        let (name, help) = (Cow::Borrowed(s.name), Cow::Borrowed(s.help));
        SignalInfo { name, unit: s.unit, help, merged: s.merged }
    };
    C::SIGNALS.iter().map(info).collect()
}

/// Round trips of a flow, by sequence number: one ends when data is acknowledged that was sent after it
/// began. This is `lastUpdateSeq` of HPCC's algorithm 1.
#[derive(Clone, Copy, Debug, Default)]
struct Round {
    ends_after: u64,
}

impl Round {
    /// True if a round trip has begun: the first acknowledgement of a flow begins it.
    fn has_begun(&self) -> bool {
        self.ends_after > 0
    }

    /// True if this acknowledgement ends a round trip. If so, the next one begins.
    fn ends(&mut self, ack: &AckInfo) -> bool {
        let ends = ack.acknowledged_bytes > self.ends_after;
        if ends {
            // The end of what was sent may go back to what is acknowledged; round trips do not.
            self.ends_after = self.ends_after.max(ack.sent_bytes);
        }
        ends
    }
}
