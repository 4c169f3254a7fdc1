//! What a NIC and its queue pairs are told, what they give out, and what they count.

use std::iter::Sum;

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
    /// Requests for ACKs, timer, retries, and what follows a loss.
    pub rc: RcParameters,
    /// RNR NAKs in a row that are followed by a retry; 7: any number.
    pub rnr_retry: u8,
    /// Code of the time that this end's RNR NAKs ask for, 5 bits ([`crate::wire::aeth::rnr_timer`]).
    pub min_rnr_timer: u8,
    /// READs that this end may have under way.
    pub max_rd_atomic: u8,
    /// READs of the peer that this end answers at a time.
    pub max_dest_rd_atomic: u8,
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

/// What a queue pair shows.
#[derive(Clone, Debug, PartialEq)]
pub struct Shown {
    /// Rate of its controller, bit/s.
    pub rate_bps: f64,
    /// The controller's signals: see [`Congestion::signals`].
    pub signals: Vec<f64>,
    /// Payload of its WRITEs and SENDs that was sent, what is sent again not counted.
    pub sent_bytes: u64,
}

macro_rules! counters {
    ($($(#[$help:meta])* $name:ident,)*) => {
        /// Counters of a queue pair or a NIC, under their mlx5 names where those exist (`rdma statistic`, `ethtool -S`).
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        #[cfg_attr(feature = "serde", derive(serde::Serialize))]
        pub struct Counters {
            $($(#[$help])* pub $name: u64,)*
        }

        impl Sum<Counters> for Counters {
            fn sum<I: Iterator<Item = Counters>>(all: I) -> Counters {
                all.fold(Counters::default(), |sum, one| Counters { $($name: sum.$name + one.$name,)* })
            }
        }
    };
}

counters! {
    np_ecn_marked_roce_packets,
    np_cnp_sent,
    rp_cnp_handled,
    rp_cnp_ignored,
    /// Answers with a delay that congestion control acts on; no NIC shows this one.
    delay_probes,
    /// Gaps, at the responder.
    out_of_sequence,
    /// NAKs of gaps, at the requester.
    packet_seq_err,
    /// READ responses that were found missing.
    implied_nak_seq_err,
    local_ack_timeout_err,
    /// Timeouts that were CNPs to congestion control.
    roce_slow_restart_cnps,
    /// NAKs that were; no NIC shows this one.
    nak_cnps,
    /// Timeouts of a timer that adapts.
    roce_adp_retrans,
    /// Slow restarts after losses.
    roce_slow_restart,
    /// Queue pairs that ran out of retries.
    req_transport_retries_exceeded,
    duplicate_request,
    /// Queue pairs that ran out of RNR retries.
    rnr_nak_retry_err,
    rnr_naks_sent,
    rnr_naks_received,
    retransmitted_packets,
}
