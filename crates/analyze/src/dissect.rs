//! What a frame is, as far as it was kept: captures are often cut behind the headers.

use tailback_proto::wire::{icrc, EtherType, Ethernet, Pfc, TransportHeaders, Udp, Vlan};

use crate::reader::{ETHERNET, LINUX_SLL, LINUX_SLL2, RAW_IP};

/// Addresses of a packet; those of IPv4 mapped into IPv6 (RFC 4291, 2.5.5.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Addresses {
    /// Who sends.
    pub source: u128,
    /// To whom.
    pub destination: u128,
}

/// A RoCEv2 packet.
#[derive(Clone, Copy, Debug)]
pub struct Roce {
    /// From where to where.
    pub addresses: Addresses,
    /// ECN field.
    pub ecn: u8,
    /// BTH and what follows it.
    pub headers: TransportHeaders,
    /// Message bytes on the wire, kept or not.
    pub payload_bytes: u32,
    /// Whether its ICRC is right; none: it was not kept.
    pub icrc_ok: Option<bool>,
}

/// A frame.
#[derive(Clone, Copy, Debug)]
pub enum Frame {
    /// RoCEv2.
    Roce(Roce),
    /// A pause of priorities.
    Pfc(Pfc),
    /// RoCEv2 by its port, whose payload a switch trimmed.
    Trimmed,
    /// RoCEv2 by its port, with headers that are broken or were not kept.
    Broken,
    /// Anything else.
    Other,
}

const MAPPED: u128 = 0xffff << 32;
const PROTOCOL_UDP: u8 = 17;

fn number(bytes: &[u8], at: usize) -> Option<usize> {
    bytes.get(at..at + 2).map(|pair| (pair[0] as usize) << 8 | pair[1] as usize)
}

/// Reads a frame of an interface of this link type.
pub fn dissect(link_type: i32, bytes: &[u8]) -> Frame {
    let packet = match link_type {
        ETHERNET => match Ethernet::parse(bytes) {
            Ok((ethernet, mut rest)) => {
                let mut ether_type = ethernet.ether_type;
                if ether_type == EtherType::MAC_CONTROL {
                    return Pfc::parse(bytes).map_or(Frame::Other, Frame::Pfc);
                }
                // A service tag may lie ahead of the VLAN's.
                while ether_type == EtherType::VLAN || ether_type == EtherType(0x88a8) {
                    match Vlan::parse(rest) {
                        Ok((vlan, inner)) => (ether_type, rest) = (vlan.ether_type, inner),
                        Err(_) => return Frame::Other,
                    }
                }
                rest
            }
            Err(_) => return Frame::Other,
        },
        RAW_IP => bytes,
        LINUX_SLL => bytes.get(16..).unwrap_or_default(),
        LINUX_SLL2 => bytes.get(20..).unwrap_or_default(),
        _ => return Frame::Other,
    };
    ip(packet).unwrap_or(Frame::Other)
}

/// None: it is no UDP to RoCEv2's port.
fn ip(packet: &[u8]) -> Option<Frame> {
    let version = packet.first()? >> 4;
    let (header_len, ip_len, protocol, traffic_class) = match version {
        4 => {
            let fragment = number(packet, 6)? & 0x1fff;
            if fragment != 0 {
                return None;
            }
            ((packet[0] & 0xf) as usize * 4, number(packet, 2)?, *packet.get(9)?, packet[1])
        }
        6 => (40, number(packet, 4)? + 40, *packet.get(6)?, packet[0] << 4 | packet[1] >> 4),
        _ => return None,
    };
    let datagram = packet.get(header_len.max(20)..)?;
    if protocol != PROTOCOL_UDP || number(datagram, 2)? != Udp::ROCE_PORT as usize {
        return None;
    }
    let addresses = match version {
        4 => {
            let address = |at: usize| {
                let bytes: [u8; 4] = packet.get(at..at + 4)?.try_into().ok()?;
                Some(MAPPED | u32::from_be_bytes(bytes) as u128)
            };
            Addresses { source: address(12)?, destination: address(16)? }
        }
        _ => {
            let address = |at: usize| Some(u128::from_be_bytes(packet.get(at..at + 16)?.try_into().ok()?));
            Addresses { source: address(8)?, destination: address(24)? }
        }
    };
    // A switch that trims a packet makes the length of IP right (SAI, "Packet Trimming"); UDP's is as it was.
    if number(datagram, 4)? > ip_len.saturating_sub(header_len) {
        return Some(Frame::Trimmed);
    }
    Some(roce(packet, header_len, ip_len, addresses, traffic_class & 3).unwrap_or(Frame::Broken))
}

fn roce(packet: &[u8], header_len: usize, ip_len: usize, addresses: Addresses, ecn: u8) -> Option<Frame> {
    let transport_len = ip_len.checked_sub(header_len + Udp::LEN + icrc::LEN)?;
    let end = header_len + Udp::LEN + transport_len;
    let kept = packet.get(header_len + Udp::LEN..end.min(packet.len()))?;
    let (headers, _) = TransportHeaders::parse(kept).ok()?;
    let padded = transport_len.checked_sub(headers.header_len())?;
    let payload_bytes = padded.checked_sub(headers.bth.pad_cnt as usize)? as u32;
    // Options are not read where the sum is made.
    let whole = packet.get(end..end + icrc::LEN).filter(|_| header_len == 20 || packet[0] >> 4 == 6);
    let icrc_ok = whole.and_then(|found| {
        let sum = icrc::icrc(&packet[..end]).ok()?;
        Some(sum.to_le_bytes() == found)
    });
    Some(Frame::Roce(Roce { addresses, ecn, headers, payload_bytes, icrc_ok }))
}
