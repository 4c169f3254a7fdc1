//! Invariant CRC (annex A17, "ICRC"; IBTA 7.8.1): over all of a packet that no switch or router changes.
//!
//! It is the CRC-32 of Ethernet over eight bytes of ones, which stand for InfiniBand's local route header, and the packet from
//! its IP header to its pad, with ones in place of what may change on the way: traffic class, time to live, header checksum
//! and flow label, UDP checksum, and the BTH's FECN, BECN and reserved six bits. It is sent with its least significant byte
//! first. So a CE mark leaves it valid, and a change of an address, a port or the IPv4 identification does not.

use super::{Bth, Error, Ipv4, Ipv6, Udp};

/// Bytes that it takes.
pub const LEN: usize = 4;

/// The ICRC of a packet: its bytes from the IP header to the pad, without the ICRC itself.
///
/// # Errors
/// [`Error::Truncated`] where the packet ends before its BTH does; [`Error::Unsupported`] where it is not IP.
pub fn icrc(packet: &[u8]) -> Result<u32, Error> {
    let mut masked = [0xff; 8 + Ipv6::LEN + Udp::LEN + Bth::LEN];
    let ip_len = match packet.first().ok_or(Error::Truncated)? >> 4 {
        4 => Ipv4::LEN,
        6 => Ipv6::LEN,
        _ => return Err(Error::Unsupported),
    };
    let headers_len = ip_len + Udp::LEN + Bth::LEN;
    let (headers, rest) = packet.split_at_checked(headers_len).ok_or(Error::Truncated)?;
    let copy = &mut masked[8..8 + headers_len];
    copy.copy_from_slice(headers);
    if ip_len == Ipv4::LEN {
        copy[1] = 0xff; // DSCP and ECN
        copy[8] = 0xff; // time to live
        copy[10..12].fill(0xff); // header checksum
    } else {
        copy[0] |= 0x0f; // traffic class and flow label
        copy[1..4].fill(0xff);
        copy[7] = 0xff; // hop limit
    }
    copy[ip_len + 6..ip_len + 8].fill(0xff); // UDP checksum
    copy[ip_len + Udp::LEN + 4] = 0xff; // FECN, BECN, reserved
    let mut crc = crc32fast::Hasher::new();
    crc.update(&masked[..8 + headers_len]);
    crc.update(rest);
    Ok(crc.finalize())
}
