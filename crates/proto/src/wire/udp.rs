//! UDP header (RFC 768).

use super::{number, put, split, Error};

/// A UDP header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Udp {
    /// Source port: of RoCEv2 any number, by which paths are chosen (annex A17, "RoCEv2 packet format").
    pub source_port: u16,
    /// Destination port.
    pub destination_port: u16,
    /// Checksum, as it is on the wire: 0 where none was made, as RoCEv2 NICs do. Not checked: the ICRC covers the packet.
    pub checksum: u16,
}

impl Udp {
    /// Bytes that it takes.
    pub const LEN: usize = 8;
    /// Destination port of RoCEv2 (annex A17; IANA `roce`).
    pub const ROCE_PORT: u16 = 4791;

    /// Reads the header: it, and the payload. What IP carries must end where the length says.
    ///
    /// # Errors
    /// [`Error::Truncated`]; [`Error::Length`].
    pub fn parse(bytes: &[u8]) -> Result<(Udp, &[u8]), Error> {
        let (header, payload) = split::<{ Udp::LEN }>(bytes)?;
        if number::<2>(header, 4) as usize != bytes.len() {
            return Err(Error::Length);
        }
        let udp = Udp {
            source_port: number::<2>(header, 0) as u16,
            destination_port: number::<2>(header, 2) as u16,
            checksum: number::<2>(header, 6) as u16,
        };
        Ok((udp, payload))
    }

    /// Writes the header of a datagram with `payload_len` bytes of payload into the first [`Self::LEN`] bytes; panics if there
    /// are fewer.
    pub fn emit(&self, payload_len: u16, bytes: &mut [u8]) {
        put::<2>(bytes, 0, self.source_port as u64);
        put::<2>(bytes, 2, self.destination_port as u64);
        put::<2>(bytes, 4, payload_len as u64 + Udp::LEN as u64);
        put::<2>(bytes, 6, self.checksum as u64);
    }
}
