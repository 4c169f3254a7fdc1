//! What a host's TCP can be set to, as a Linux kernel has it, and the parameters of its connections.

use super::{ControlParameters, CubicParameters, DctcpParameters, TcpParameters};
use crate::units::{Bytes, Time};
use crate::wire::{IPV4_BYTES, TCP_BYTES, TCP_TIMESTAMP_BYTES};

/// Bytes of the IPv4 and TCP headers of a data segment, timestamps included (RFC 9293, RFC 7323): what the MSS is
/// below the MTU.
const HEADERS_BYTES: u32 = IPV4_BYTES + TCP_BYTES + TCP_TIMESTAMP_BYTES;
const TIMER: std::ops::RangeInclusive<Time> = Time::from_us(1)..=Time::from_ms(600_000);
const BUFFER: std::ops::RangeInclusive<Bytes> = Bytes(1)..=Bytes(1 << 30);
/// Up to 8 times 64 KiB: Linux, `include/linux/netdevice.h`, `GSO_MAX_SIZE`.
pub const BURST: std::ops::RangeInclusive<Bytes> = Bytes(0)..=Bytes(512 << 10);

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
        initial_rto: Option<Time> = None, in TIMER,
            source "assumption: the handshake, which is left out, has measured a short round trip by then (RFC 6298, \
                section 2.1, and Linux, TCP_TIMEOUT_INIT, have 1 s without one)";
        /// Shortest retransmission timeout; longer than delayed_ack, or it ends waits for ACKs that are due.
        min_rto: Time = Time::from_ms(200), in TIMER, source "Linux tcp.h: TCP_RTO_MIN (RFC 6298 has 1 s)";
        /// Longest retransmission timeout.
        max_rto: Time = Time::from_ms(120_000), in TIMER, source "Linux tcp.h: TCP_RTO_MAX";
        /// Longest time that an ACK waits for more data.
        delayed_ack: Time = Time::from_ms(40), in TIMER, source "Linux tcp.h: TCP_DELACK_MIN";
        /// Full segments after which an ACK waits no longer.
        ack_every: u32 = 2, in 1..=64, source "RFC 5681, section 4.2";
        /// Most bytes of a connection in flight or unread at its receiver.
        receive_buffer: Bytes = Bytes(6 << 20), in BUFFER,
            source "Linux tcp.c, tcp_init: the largest of net.ipv4.tcp_rmem (32 MiB in the newest kernels); its growth \
                up to there is left out";
        /// Most that TCP hands to the NIC at once, which cuts it into segments; less than a segment: segment by segment.
        tso: Bytes = Bytes(64 << 10), in BURST, source "Linux netdevice.h: GSO_LEGACY_MAX_SIZE";
        /// Most of one connection that waits in its own host's queues (TCP small queues).
        small_queue: Bytes = Bytes(1 << 20), in BUFFER,
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
                Control::Cubic => {
                    ControlParameters::Cubic(CubicParameters { c: 0.4, beta: 0.7, fast_convergence: true })
                }
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
