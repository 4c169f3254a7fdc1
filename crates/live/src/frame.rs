//! The fields of a frame that a congestion point reads and changes.

use tailback_proto::wire::ip::{CE, NOT_ECT};
use tailback_proto::wire::{Bth, EtherType, Ethernet, Opcode, Udp, Vlan};

/// Where the headers of a frame begin, as far as it has them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Its IP header.
    pub ip: Option<usize>,
    /// Queue pair, PSN and where the BTH begins, of a RoCEv2 request.
    pub request: Option<(u32, u32, usize)>,
}

/// Reads a frame. Nothing of what it holds makes it panic.
pub fn layout(bytes: &[u8]) -> Layout {
    let none = Layout { ip: None, request: None };
    let Ok((ethernet, _)) = Ethernet::parse(bytes) else { return none };
    let (mut ether_type, mut at) = (ethernet.ether_type, Ethernet::LEN);
    if ether_type == EtherType::VLAN {
        let Ok((vlan, _)) = Vlan::parse(&bytes[at..]) else { return none };
        (ether_type, at) = (vlan.ether_type, at + Vlan::LEN);
    }
    let packet = &bytes[at..];
    let (header_len, protocol) = match ether_type {
        EtherType::IPV4 if packet.len() >= 20 && packet[0] >> 4 == 4 => {
            ((packet[0] & 0xf) as usize * 4, packet[9])
        }
        EtherType::IPV6 if packet.len() >= 40 && packet[0] >> 4 == 6 => (40, packet[6]),
        _ => return none,
    };
    let request = (protocol == 17).then(|| packet.get(header_len..)).flatten().and_then(|datagram| {
        let port = u16::from_be_bytes(datagram.get(2..4)?.try_into().ok()?);
        let (bth, _) = Bth::parse(datagram.get(Udp::LEN..)?).ok().filter(|_| port == Udp::ROCE_PORT)?;
        let is_request = bth.opcode.is_request() && bth.opcode != Opcode::Cnp;
        is_request.then_some((bth.dest_qp, bth.psn, at + header_len + Udp::LEN))
    });
    Layout { ip: Some(at), request }
}

/// Differentiated services code point of a packet, by where its IP header begins.
pub fn dscp(bytes: &[u8], ip: usize) -> u8 {
    match bytes[ip] >> 4 {
        6 => (bytes[ip] & 0xf) << 2 | bytes[ip + 1] >> 6,
        _ => bytes[ip + 1] >> 2,
    }
}

/// Sets CE where the packet says that it may be: whether it did. The IPv4 header checksum is brought up to date (RFC 1624).
pub fn mark(bytes: &mut [u8], ip: usize) -> bool {
    if bytes[ip] >> 4 == 6 {
        let ecn = bytes[ip + 1] >> 4 & 3;
        if ecn == NOT_ECT {
            return false;
        }
        bytes[ip + 1] |= CE << 4;
        return true;
    }
    if bytes[ip + 1] & 3 == NOT_ECT {
        return false;
    }
    let marked = bytes[ip + 1] | CE;
    set_word(bytes, ip, ip, [bytes[ip], marked]);
    true
}

/// Sets the time to live of a packet of IPv4.
pub fn set_time_to_live(bytes: &mut [u8], ip: usize, value: u8) {
    if bytes[ip] >> 4 == 4 {
        set_word(bytes, ip, ip + 8, [value, bytes[ip + 9]]);
    }
}

/// Changes a word of an IPv4 header, and the checksum with it. RFC 1624, equation 3: the old word out, the new word in, in ones'
/// complement.
fn set_word(bytes: &mut [u8], ip: usize, at: usize, word: [u8; 2]) {
    let number = |word: [u8; 2]| u16::from_be_bytes(word);
    let (sum, old) = (number([bytes[ip + 10], bytes[ip + 11]]), number([bytes[at], bytes[at + 1]]));
    let mut new = (!sum) as u32 + (!old) as u32 + number(word) as u32;
    while new > 0xffff {
        new = (new & 0xffff) + (new >> 16);
    }
    bytes[at..at + 2].copy_from_slice(&word);
    bytes[ip + 10..ip + 12].copy_from_slice(&(!(new as u16)).to_be_bytes());
}

/// Changes a bit of a packet behind its BTH, where there is one: its ICRC is wrong then.
pub fn corrupt(bytes: &mut [u8], bth: usize) {
    if let Some(byte) = bytes.get_mut(bth + Bth::LEN) {
        *byte ^= 0x10;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;
    use tailback_proto::wire::*;

    fn write(ecn: u8) -> Vec<u8> {
        let frame = Frame {
            destination: MacAddress([2; 6]),
            source: MacAddress([4; 6]),
            tag: None,
            ip: Ip::V4(Ipv4 {
                dscp: 26,
                ecn,
                identification: 0,
                dont_fragment: true,
                time_to_live: 64,
                protocol: 17,
                source: Ipv4Addr::new(10, 0, 0, 1),
                destination: Ipv4Addr::new(10, 0, 0, 2),
            }),
            udp: Udp { source_port: 0xc000, destination_port: Udp::ROCE_PORT, checksum: 0 },
            headers: TransportHeaders {
                bth: Bth::new(Opcode::WriteMiddle, 0x11, 77, 1024),
                extension: Extension::None,
            },
            payload: &[7; 1024],
        };
        let mut bytes = vec![0; frame.frame_len()];
        frame.emit(&mut bytes).unwrap();
        bytes
    }

    #[test]
    fn a_mark_leaves_a_packet_whole_and_what_is_damaged_is_seen() {
        let mut bytes = write(2);
        let found = layout(&bytes);
        assert_eq!(found.request.map(|(qp, psn, _)| (qp, psn)), Some((0x11, 77)));
        assert!(mark(&mut bytes, found.ip.unwrap()));
        // The checksum and the ICRC are checked by it.
        let marked = Frame::parse(&bytes).unwrap();
        assert_eq!(marked.ip.ecn(), 3);
        corrupt(&mut bytes, found.request.unwrap().2);
        assert_eq!(Frame::parse(&bytes), Err(Error::Icrc));
        let mut bytes = write(0);
        assert!(!mark(&mut bytes, 14), "it does not say that it may be marked");
    }

    #[test]
    fn no_frame_makes_it_panic() {
        let whole = write(2);
        for end in 0..whole.len() {
            layout(&whole[..end]);
        }
        for at in 0..64 {
            for bit in 0..8 {
                let mut bytes = whole.clone();
                bytes[at] ^= 1 << bit;
                let found = layout(&bytes);
                if let Some(ip) = found.ip {
                    mark(&mut bytes, ip);
                }
            }
        }
    }
}
