//! How a NIC fetches what it sends over PCIe.

use tailback_proto::units::Time;

/// How a NIC fetches what it sends: requests are outstanding all the time, so what has been fetched is ahead of the wire
/// by up to that many bytes.
#[derive(Debug)]
pub(crate) struct Reads {
    pub outstanding_bytes: u64,
    pub latency: Time,
    /// When the payload of the next packet is fetched.
    pub fetched: Time,
}
