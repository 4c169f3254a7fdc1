//! Frames of RoCEv2 and PFC as bytes, and how many bytes each takes.
//!
//! A file a header. Each is a plain struct: `parse` reads it from the front of some bytes and hands back what follows, `emit`
//! writes it. Lengths and checksums are not fields: they follow from what a frame holds, and [`Frame`], which is a whole
//! RoCEv2 frame, fills them in and checks them. Reserved bits are written as 0 and ignored when read. Nothing allocates, and
//! no input makes `parse` panic.
//!
//! Sources: InfiniBand architecture specification, volume 1 ("IBTA" in this module), chapter 9, and its annex A17 (RoCEv2);
//! IEEE 802.3; 802.1Q with 802.1Qbb (PFC); RFC 791, 8200 and 768.
//!
//! Leaves out: the FCS, which NICs add and strip; more than one VLAN tag; IPv4 options and IPv6 extension headers; reading TCP,
//! which has sizes here and no contents; and of IBTA's extended headers those of datagrams and of invalidation.

pub mod aeth;
pub mod atomic;
pub mod bth;
pub mod cnp;
pub mod ethernet;
pub mod frame;
pub mod icrc;
pub mod immdt;
pub mod ipv4;
pub mod ipv6;
pub mod opcode;
pub mod pfc;
pub mod reth;
mod sizes;
pub mod transport;
pub mod udp;
pub mod vlan;

pub use aeth::{Aeth, NakCode, Syndrome};
pub use atomic::{AtomicAckEth, AtomicEth};
pub use bth::Bth;
pub use ethernet::{EtherType, Ethernet, MacAddress};
pub use frame::{Frame, Ip, Tag};
pub use immdt::ImmDt;
pub use ipv4::Ipv4;
pub use ipv6::Ipv6;
pub use opcode::{ExtensionKind, Opcode};
pub use pfc::Pfc;
pub use reth::Reth;
pub use sizes::*;
pub use transport::{Extension, TransportHeaders};
pub use udp::Udp;
pub use vlan::Vlan;

use core::fmt;

/// Why bytes are not a frame, or a frame cannot be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Error {
    /// They end inside a header, or before what a length field says.
    Truncated,
    /// The buffer is shorter than the frame.
    BufferTooShort,
    /// Not one of the headers that this module knows, or a version or option of it that it does not.
    Unsupported,
    /// A length field, or the pad count, does not fit the rest.
    Length,
    /// The header checksum of IPv4 is wrong.
    Checksum,
    /// The invariant CRC is wrong.
    Icrc,
    /// The extended headers are not those that the opcode calls for.
    Opcode,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Error::Truncated => "the frame ends too early",
            Error::BufferTooShort => "the buffer is too short for the frame",
            Error::Unsupported => "a header or option that is not read here",
            Error::Length => "a length field disagrees with the frame",
            Error::Checksum => "the IPv4 header checksum is wrong",
            Error::Icrc => "the invariant CRC is wrong",
            Error::Opcode => "the extended headers are not those of the opcode",
        })
    }
}

impl core::error::Error for Error {}

/// The first `N` bytes, and the rest.
fn split<const N: usize>(bytes: &[u8]) -> Result<(&[u8; N], &[u8]), Error> {
    bytes.split_first_chunk().ok_or(Error::Truncated)
}

/// Big-endian number in `N` bytes from `at` on.
fn number<const N: usize>(bytes: &[u8], at: usize) -> u64 {
    bytes[at..at + N].iter().fold(0, |number, &byte| number << 8 | byte as u64)
}

/// Writes the low `N` bytes of a number, big-endian, from `at` on.
fn put<const N: usize>(bytes: &mut [u8], at: usize, number: u64) {
    bytes[at..at + N].copy_from_slice(&number.to_be_bytes()[8 - N..]);
}
