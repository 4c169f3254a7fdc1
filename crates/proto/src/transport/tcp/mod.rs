//! TCP for bulk transfer: a sender and a receiver, one direction of data.
//!
//! Sources, by file: [`sender`]: RFC 9293 (windows), 5681 (congestion control), 6928 (initial window), 3042 (limited
//! transmit), 6582 (NewReno recovery), 6675 (recovery with SACK), 3168 (ECN); [`scoreboard`]: RFC 6675;
//! [`retransmissions`]: Linux; [`rto`]: RFC 6298 and 7323; [`receiver`] and [`reassembly`]: RFC 9293, 1122, 5681, 2018, 3168, 7323, 8257; [`newreno`], [`cubic`] (RFC
//! 9438) and [`dctcp`] (RFC 8257): how the window grows, and by how much congestion reduces it.
//!
//! Positions are bytes of the stream in 64 bits; [`sequence`] turns them into the 32 bits of the wire and back. Every
//! segment carries a timestamp, and every ACK echoes one, so that an RTT is measured whatever was sent again.
//!
//! Leaves out: setting a connection up and taking it down (it exists, and its peer's window is known), data both ways,
//! urgent data, Nagle's algorithm (a short write is sent at once), window scaling's granularity, window validation after
//! idle times, HyStart, proportional rate reduction, RACK and tail loss probes (a lost tail waits for the timer), undoing reductions that turn out spurious (Eifel, F-RTO, DSACK), adaption of the duplicate threshold to
//! reordering, pacing, and reneging (a receiver here never drops what it has SACKed).

pub mod cubic;
pub mod dctcp;
pub mod newreno;
pub mod reassembly;
pub mod receiver;
pub mod retransmissions;
pub mod rto;
pub mod scoreboard;
pub mod segment;
pub mod sender;
pub mod sequence;
pub mod settings;
pub mod statistics;

mod control;
mod usage;

pub use cubic::CubicParameters;
pub use dctcp::DctcpParameters;
pub use receiver::{ReceiveVerdict, TcpReceiver};
pub use segment::{AckSegment, Burst, DataSegment, SackBlocks, MAX_SACK_BLOCKS};
pub use sender::TcpSender;
pub use sequence::{unwrap_sequence, wire_sequence};
pub use settings::{Control, TcpSettings};
pub use statistics::TcpStatistics;

use crate::units::Time;

/// Duplicate ACKs, or segments' worth of SACKed data beyond a gap, that tell of a loss (RFC 5681, 3.2; RFC 6675, 2).
pub(crate) const DUPLICATE_THRESHOLD: u32 = 3;

/// How a sender's window grows and shrinks.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ControlParameters {
    /// RFC 5681 and 6582.
    NewReno,
    /// RFC 9438.
    Cubic(CubicParameters),
    /// RFC 8257. Needs ECN.
    Dctcp(DctcpParameters),
}

/// Settings of a connection, for both of its ends.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TcpParameters {
    /// Payload of a full segment, bytes.
    pub mss: u32,
    /// Congestion control.
    pub control: ControlParameters,
    /// First congestion window, bytes.
    pub initial_window: u64,
    /// Retransmission timeout before the first RTT is known.
    pub initial_rto: Time,
    /// Shortest retransmission timeout.
    pub min_rto: Time,
    /// Longest retransmission timeout, backed off or not.
    pub max_rto: Time,
    /// Whether ACKs carry SACK blocks and the sender uses them.
    pub sack: bool,
    /// Whether segments are ECN-capable, and ends echo marks and react to them.
    pub ecn: bool,
    /// Longest time that an ACK waits for more segments. Zero: each segment is acknowledged at once.
    pub delayed_ack: Time,
    /// Segments that an ACK waits for.
    pub ack_every: u32,
    /// Bytes that the receiver holds for its application: also its largest window.
    pub receive_buffer: u64,
    /// Most bytes in a burst that the sender hands down at once (TSO).
    pub max_burst: u32,
}

impl TcpParameters {
    /// # Errors
    /// One line naming the parameter that makes no sense.
    pub fn check(&self) -> Result<(), String> {
        let mss = self.mss as u64;
        let checks = [
            (mss >= 1, "mss must be above 0"),
            (self.initial_window >= mss, "initial_window is below one segment"),
            (self.min_rto > Time::ZERO, "min_rto must be above 0"),
            (self.initial_rto > Time::ZERO, "initial_rto must be above 0"),
            (self.min_rto <= self.max_rto, "min_rto is above max_rto"),
            (self.initial_rto <= self.max_rto, "initial_rto is above max_rto"),
            (self.ack_every >= 1, "ack_every must be above 0"),
            (self.receive_buffer >= 2 * mss, "receive_buffer is below two segments"),
            (self.max_burst >= self.mss, "max_burst is below one segment"),
            (
                self.ecn || !matches!(self.control, ControlParameters::Dctcp(_)),
                "ecn is off, and dctcp reacts to nothing else",
            ),
        ];
        if let Some((_, text)) = checks.iter().find(|(ok, _)| !ok) {
            return Err((*text).to_string());
        }
        match &self.control {
            ControlParameters::NewReno => Ok(()),
            ControlParameters::Cubic(cubic) => cubic.check(),
            ControlParameters::Dctcp(dctcp) => dctcp.check(),
        }
    }
}
