//! How a NIC fetches what it sends over PCIe.

use tailback_proto::parameters::SPAN;
use tailback_proto::units::{Bytes, Time};

tailback_proto::parameters! {
    /// How the NIC fetches what it sends.
    pub struct ReadsParameters {
        /// Read requests outstanding times their size.
        outstanding: Bytes = Bytes(16 << 10), in Bytes(1)..=Bytes(1 << 30),
            source "assumption: 32 requests of 512 B";
        /// From a read request to its last completion.
        latency: Time = Time::from_ns(700), in SPAN,
            source "assumption: the order of a PCIe read of memory; a GPU's takes longer";
    }
}

/// How a NIC fetches what it sends: requests are outstanding all the time, so what has been fetched is ahead of the wire
/// by up to that many bytes.
#[derive(Debug)]
pub(crate) struct Reads {
    pub outstanding_bytes: u64,
    pub latency: Time,
    /// When the payload of the packet that goes next is there.
    pub fetched: Time,
}
