//! TCP for bulk transfer: a sender and a receiver, one direction of data.
//!
//! Sources: [`sender`]: RFC 9293 (windows), 5681 (congestion control), 6928 (initial window), 3042 (limited
//! transmit), 6582 (NewReno recovery), 6675 (recovery with SACK), 3168 (ECN); its scoreboard: RFC 6675; its
//! retransmissions: Linux; its timer: RFC 6298 and 7323; [`receiver`]: RFC 9293, 1122, 5681, 2018, 3168, 7323, 8257;
//! [`control`], NewReno, CUBIC (RFC 9438) and DCTCP (RFC 8257): how the window grows, and by how much congestion reduces it.
//!
//! Positions are bytes of the stream in 64 bits, and 32 bits on the wire. Every
//! segment carries a timestamp, and every ACK echoes one, so that an RTT is measured whatever was sent again.
//!
//! Leaves out: setting a connection up and taking it down (it exists, and its peer's window is known), data both ways,
//! urgent data, Nagle's algorithm (a short write is sent at once), window scaling's granularity, window validation after
//! idle times, HyStart, proportional rate reduction, RACK and tail loss probes (a lost tail waits for the timer), undoing reductions that turn out spurious (Eifel, F-RTO, DSACK), adaption of the duplicate threshold to
//! reordering, pacing, and reneging (a receiver here never drops what it has SACKed).

pub mod control;
pub mod receiver;
pub mod sender;

use crate::units::{Bytes, Time};
use crate::wire::{IPV4_BYTES, TCP_BYTES, TCP_TIMESTAMP_BYTES};

pub use self::control::{CubicParameters, DctcpParameters};
pub use self::receiver::{ReceiveVerdict, TcpReceiver};
pub use self::sender::TcpSender;

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
    /// True if ACKs carry SACK blocks and the sender uses them.
    pub sack: bool,
    /// True if segments are ECN-capable, and ends echo marks and react to them.
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

// What a host's TCP can be set to, as a Linux kernel has it, and the parameters of its connections.

/// Bytes of the IPv4 and TCP headers of a data segment, timestamps included (RFC 9293, RFC 7323): what the MSS is
/// below the MTU.
const HEADERS_BYTES: u32 = IPV4_BYTES + TCP_BYTES + TCP_TIMESTAMP_BYTES;

const TIMER_RANGE: std::ops::RangeInclusive<Time> = Time::from_us(1)..=Time::from_ms(600_000);
const BUFFER_RANGE_BYTES: std::ops::RangeInclusive<Bytes> = Bytes(1)..=Bytes(1 << 30);

/// Up to 8 times 64 KiB: Linux, `include/linux/netdevice.h`, `GSO_MAX_SIZE`.
pub const BURST_BYTES: std::ops::RangeInclusive<Bytes> = Bytes(0)..=Bytes(512 << 10);

crate::choice! {
    /// Congestion control of TCP, with the constants of its RFC.
    pub enum Control {
        /// RFC 9438.
        Cubic = "cubic",
        /// RFC 5681 and 6582.
        NewReno = "newreno",
        /// RFC 8257.
        Dctcp = "dctcp",
    }
}

crate::parameters! {
    /// TCP of every host, as a Linux kernel has it; without effect where no traffic is tcp.
    pub struct TcpSettings {
        /// Congestion control: cubic (RFC 9438), newreno (RFC 5681, RFC 6582) or dctcp (RFC 8257).
        control: Control = Control::Cubic, of Control::ALL, source "Linux net/ipv4/Kconfig: DEFAULT_CUBIC";
        /// CUBIC: the share of the window that a loss leaves.
        cubic_beta: f64 = 0.7, in 0.1..=0.95,
            source "RFC 9438, section 4.6; Linux tcp_cubic.c has 717/1024, module parameter beta";
        /// Largest IP packet; 52 B of it are headers.
        mtu: Bytes = Bytes(1500), in Bytes(576)..=Bytes(9216),
            source "IEEE 802.3: the payload of a frame that is no jumbo frame";
        /// Selective acknowledgements (RFC 2018, RFC 6675); without them NewReno's recovery (RFC 6582).
        sack: bool = true, source "Linux tcp_ipv4.c: net.ipv4.tcp_sack = 1";
        /// Whether connections use ECN (RFC 3168). dctcp always does.
        ecn: bool = false,
            source "Linux tcp_ipv4.c: net.ipv4.tcp_ecn = 2, which accepts ECN and does not ask for it";
        /// Segments of the first window.
        initial_window: u32 = 10, in 1..=10_000, source "RFC 6928; Linux tcp.h: TCP_INIT_CWND";
        /// Retransmission timeout before data has measured a round trip. null: min_rto.
        initial_rto: Option<Time> = None, in TIMER_RANGE,
            source "assumption: the handshake, which is left out, has measured a short round trip by then (RFC 6298, \
                section 2.1, and Linux, TCP_TIMEOUT_INIT, have 1 s without one)";
        /// Shortest retransmission timeout; longer than delayed_ack, or it ends waits for ACKs that are due.
        min_rto: Time = Time::from_ms(200), in TIMER_RANGE, source "Linux tcp.h: TCP_RTO_MIN (RFC 6298 has 1 s)";
        /// Longest retransmission timeout.
        max_rto: Time = Time::from_ms(120_000), in TIMER_RANGE, source "Linux tcp.h: TCP_RTO_MAX";
        /// Longest time that an ACK waits for more data.
        delayed_ack: Time = Time::from_ms(40), in TIMER_RANGE, source "Linux tcp.h: TCP_DELACK_MIN";
        /// Full segments after which an ACK waits no longer.
        ack_every: u32 = 2, in 1..=64, source "RFC 5681, section 4.2";
        /// Most bytes of a connection in flight or unread at its receiver.
        receive_buffer: Bytes = Bytes(6 << 20), in BUFFER_RANGE_BYTES,
            source "Linux tcp.c, tcp_init: the largest of net.ipv4.tcp_rmem (32 MiB in the newest kernels); its growth \
                up to there is left out";
        /// Most that TCP hands to the NIC at once, which cuts it into segments; less than a segment: segment by segment.
        tso: Bytes = Bytes(64 << 10), in BURST_BYTES, source "Linux netdevice.h: GSO_LEGACY_MAX_SIZE";
        /// Most of one connection that waits in its own host's queues (TCP small queues).
        small_queue: Bytes = Bytes(1 << 20), in BUFFER_RANGE_BYTES,
            source "Linux tcp_ipv4.c: net.ipv4.tcp_limit_output_bytes = 16 bursts of 64 KiB (4 MiB in the newest kernels)";
    }
}

impl TcpSettings {
    /// Payload of a full segment.
    pub fn mss(&self) -> u32 {
        self.mtu.0 as u32 - HEADERS_BYTES
    }

    /// Parameters of a connection.
    pub fn parameters(&self) -> TcpParameters {
        TcpParameters {
            mss: self.mss(),
            control: match self.control {
                Control::NewReno => ControlParameters::NewReno,
                Control::Cubic => ControlParameters::Cubic(CubicParameters {
                    c: 0.4,
                    beta: self.cubic_beta,
                    fast_convergence: true,
                }),
                Control::Dctcp => {
                    ControlParameters::Dctcp(DctcpParameters { g: 1.0 / 16.0, initial_alpha: 1.0 })
                }
            },
            initial_window: self.initial_window as u64 * self.mss() as u64,
            initial_rto: self.initial_rto.unwrap_or(self.min_rto),
            min_rto: self.min_rto,
            max_rto: self.max_rto,
            sack: self.sack,
            ecn: self.ecn,
            delayed_ack: self.delayed_ack,
            ack_every: self.ack_every,
            receive_buffer: self.receive_buffer.0,
            max_burst: self.tso.0 as u32,
        }
    }
}

// What the two ends say to each other, decoded.

/// SACK blocks that fit beside a timestamp in 40 bytes of options (RFC 2018, 3).
pub const MAX_SACK_BLOCKS: usize = 3;

/// The SACK blocks of an ACK: ranges `start..end` of the stream, the one of the newest segment first (RFC 2018, 4).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SackBlocks {
    blocks: [(u64, u64); MAX_SACK_BLOCKS],
    count: u8,
}

impl SackBlocks {
    /// Adds a block; `false` where there is no room left.
    pub fn push(&mut self, start: u64, end: u64) -> bool {
        let room = (self.count as usize) < MAX_SACK_BLOCKS;
        if room {
            self.blocks[self.count as usize] = (start, end);
            self.count += 1;
        }
        room
    }

    /// The blocks, the newest first.
    pub fn as_slice(&self) -> &[(u64, u64)] {
        &self.blocks[..self.count as usize]
    }
}

/// Segments that the sender hands down at once: all new data, or all sent before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Burst {
    pub position: u64,
    /// Payload: whole segments, except for what ends the stream or a gap. 0: a window probe, an empty segment that the receiver
    /// answers at once (Linux, `tcp_output.c`, `tcp_xmit_probe_skb`).
    pub bytes: u32,
    /// True if it was sent before.
    pub retransmission: bool,
    /// CWR on its first segment (RFC 3168, 6.1.2).
    pub cwr: bool,
    /// True if its segments are ECN-capable: new data, and with DCTCP everything (RFC 3168, 6.1.5; Linux,
    /// `tcp_output.c`, `tcp_ecn_send`).
    pub ect: bool,
}

/// A data segment, or a run of them that the receiving host merged (GRO).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DataSegment {
    pub position: u64,
    /// Payload.
    pub bytes: u32,
    /// Segments merged into it, at least 1.
    pub segments: u32,
    /// CE on all of them: merging keeps marked and unmarked ones apart.
    pub ce: bool,
    /// CWR on its first segment.
    pub cwr: bool,
    /// Timestamp of its first segment: when it was sent.
    pub sent_at: Time,
}

/// An ACK.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AckSegment {
    /// All of the stream before it arrived.
    pub ack: u64,
    /// Bytes from `ack` on that the receiver takes.
    pub window: u64,
    /// Ranges beyond `ack` that arrived.
    pub sack: SackBlocks,
    /// ECN-Echo.
    pub ece: bool,
    /// Timestamp echo (RFC 7323, 4.3): when the segment was sent that this answers.
    pub echo: Time,
}

// Sequence numbers: positions of the stream as the 32 bits of a header (RFC 9293, 3.4).
//
// The initial sequence number is 0.

/// Sequence number of a position.
pub const fn wire_sequence(position: u64) -> u32 {
    position as u32
}

/// The position nearest to `near` that has this sequence number; `None` where it would be negative or beyond 64 bits.
/// Right as long as the two are less than 2^31 bytes apart, as a window (at most 2^30, RFC 7323, 2.3) makes sure.
pub const fn unwrap_sequence(sequence: u32, near: u64) -> Option<u64> {
    // The difference as a signed number of 32 bits is the shortest way there.
    let distance = sequence.wrapping_sub(near as u32) as i32;
    near.checked_add_signed(distance as i64)
}

// What a connection counts.

/// What a sender counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TcpStatistics {
    /// Segments sent again.
    pub retransmitted_segments: u64,
    /// Times that fast recovery was entered.
    pub fast_recoveries: u64,
    /// Times that the retransmission timer expired.
    pub timeouts: u64,
    /// Times that a mark reduced the window.
    pub ecn_reductions: u64,
    /// ACKs with ECN-Echo.
    pub ece_received: u64,
    /// Probes of a closed window.
    pub window_probes: u64,
}

// Whether a sender uses its congestion window: one that it does not use must not grow.
//
// The rules are those of Linux (`tcp_output.c`, `tcp_cwnd_validate`; `tcp.h`, `tcp_is_cwnd_limited`): what was seen last of
// a round trip decides, in slow start a window half used is used, and else one that held data back.

/// Use of the window, once a round trip.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WindowUsage {
    /// Most bytes in flight.
    max_flight: u64,
    /// True if the window held data back.
    limited: bool,
    /// The round trip ends when data from here on is acknowledged.
    ends_at: u64,
}

impl WindowUsage {
    /// The sender sent, or found that it may not.
    pub fn note(&mut self, acknowledged: u64, next: u64, flight: u64, limited: bool) {
        let stronger = limited || (!self.limited && flight > self.max_flight);
        if stronger || acknowledged >= self.ends_at {
            *self = WindowUsage { max_flight: flight, limited, ends_at: next };
        }
    }

    /// True if the window may grow.
    pub fn allows_growth(&self, cwnd: f64, slow_start: bool) -> bool {
        self.limited || (slow_start && cwnd < 2.0 * self.max_flight as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_unwrap_across_the_32_bit_wrap() {
        const WRAP: u64 = 1 << 32;
        assert_eq!(unwrap_sequence(wire_sequence(WRAP + 5), WRAP - 10), Some(WRAP + 5));
        assert_eq!(unwrap_sequence(wire_sequence(WRAP - 10), WRAP + 5), Some(WRAP - 10));
        assert_eq!(unwrap_sequence(7, 3 * WRAP), Some(3 * WRAP + 7));
        assert_eq!(unwrap_sequence(0xffff_ffff, 5), None, "before the first byte");
    }
}
