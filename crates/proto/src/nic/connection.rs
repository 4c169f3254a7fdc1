//! What a NIC and its queue pairs are told, what they give out, and what they count.

use crate::congestion::builtin::Congestion;
use crate::transport::rc::RcParameters;
use crate::units::{Rate, Time};
use crate::wire::TransportHeaders;

/// Settings of a NIC.
#[derive(Debug)]
pub struct NicSettings {
    /// Congestion control of its queue pairs, on its link. One that listens to CNPs also makes them.
    pub congestion: Congestion,
    /// Of its link.
    pub line_rate: Rate,
    /// Least time between two CNPs of a queue pair.
    pub min_time_between_cnps: Time,
    /// Number of its first queue pair; the others follow. 0 and 1 are for management (IBTA 3.9.5).
    pub first_qpn: u32,
}

/// What a queue pair is told when it is connected (`ibv_modify_qp`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Connection {
    /// The peer's queue pair, 24 bits.
    pub dest_qp: u32,
    /// PSN of the first packet to send, 24 bits.
    pub sq_psn: u32,
    /// PSN of the first packet to receive, 24 bits.
    pub rq_psn: u32,
    /// Payload of a full packet, bytes; 256 to 4096 by powers of two.
    pub path_mtu: u32,
    /// Requests for ACKs, timer and retries.
    pub rc: RcParameters,
    /// RNR NAKs in a row that are followed by a retry; 7: any number.
    pub rnr_retry: u8,
    /// Code of the time that this end's RNR NAKs ask for, 5 bits ([`crate::wire::aeth::rnr_timer`]).
    pub min_rnr_timer: u8,
    /// READs that this end may have under way.
    pub max_rd_atomic: u8,
    /// READs of the peer that this end answers at a time.
    pub max_dest_rd_atomic: u8,
    /// From a NAK to the first packet that is sent again; nothing is sent meanwhile.
    pub nak_reaction: Time,
    /// From a gap to the NAK of it.
    pub nak_delay: Time,
    /// Each NAK and each timeout is a CNP to congestion control, too.
    pub losses_are_cnps: bool,
}

/// Memory that is the payload of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Payload {
    /// Where it begins.
    pub address: u64,
    /// Bytes; 0: there is none.
    pub length: u32,
}

impl Payload {
    pub(super) const NONE: Payload = Payload { address: 0, length: 0 };
}

/// A packet to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transmit {
    /// Queue pair that sends it.
    pub qpn: u32,
    /// Its headers.
    pub headers: TransportHeaders,
    /// Its payload.
    pub payload: Payload,
}

/// Counters of a NIC, under their mlx5 names where those exist (`rdma statistic`, `ethtool -S`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Counters {
    pub np_ecn_marked_roce_packets: u64,
    pub np_cnp_sent: u64,
    pub rp_cnp_handled: u64,
    pub rp_cnp_ignored: u64,
    /// Gaps, at the responder.
    pub out_of_sequence: u64,
    /// NAKs of gaps, at the requester.
    pub packet_seq_err: u64,
    /// READ responses that were found missing.
    pub implied_nak_seq_err: u64,
    pub local_ack_timeout_err: u64,
    /// Timeouts that were CNPs to congestion control.
    pub roce_slow_restart_cnps: u64,
    pub duplicate_request: u64,
    /// Queue pairs that ran out of RNR retries.
    pub rnr_nak_retry_err: u64,
    pub rnr_naks_sent: u64,
    pub rnr_naks_received: u64,
    pub retransmitted_packets: u64,
}
