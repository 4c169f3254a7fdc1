//! A whole RoCEv2 frame, from its Ethernet header to its ICRC (annex A17, "RoCEv2 packet format").

use super::ipv4::PROTOCOL_UDP;
use super::{bth, icrc, Error, EtherType, Ethernet, Ipv4, Ipv6, MacAddress, TransportHeaders, Udp, Vlan};

/// An IP header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ip {
    V4(Ipv4),
    V6(Ipv6),
}

impl Ip {
    fn parse(ether_type: EtherType, bytes: &[u8]) -> Result<(Ip, &[u8]), Error> {
        match ether_type {
            EtherType::IPV4 => Ipv4::parse(bytes).map(|(ip, payload)| (Ip::V4(ip), payload)),
            EtherType::IPV6 => Ipv6::parse(bytes).map(|(ip, payload)| (Ip::V6(ip), payload)),
            _ => Err(Error::Unsupported),
        }
    }

    /// Bytes that it takes.
    pub const fn header_len(&self) -> usize {
        match self {
            Ip::V4(_) => Ipv4::LEN,
            Ip::V6(_) => Ipv6::LEN,
        }
    }

    /// What follows.
    pub const fn protocol(&self) -> u8 {
        match self {
            Ip::V4(ip) => ip.protocol,
            Ip::V6(ip) => ip.next_header,
        }
    }

    /// Explicit congestion notification, 2 bits.
    pub const fn ecn(&self) -> u8 {
        match self {
            Ip::V4(ip) => ip.ecn,
            Ip::V6(ip) => ip.ecn,
        }
    }

    const fn ether_type(&self) -> EtherType {
        match self {
            Ip::V4(_) => EtherType::IPV4,
            Ip::V6(_) => EtherType::IPV6,
        }
    }
}

/// A VLAN tag's priority, drop eligibility and VLAN.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tag {
    /// Priority code point, 3 bits.
    pub pcp: u8,
    /// Drop eligible indicator.
    pub dei: bool,
    /// VLAN identifier, 12 bits.
    pub vid: u16,
}

/// A RoCEv2 frame without its FCS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame<'a> {
    /// Destination address.
    pub destination: MacAddress,
    /// Source address.
    pub source: MacAddress,
    /// VLAN tag.
    pub tag: Option<Tag>,
    /// IP header.
    pub ip: Ip,
    /// UDP header.
    pub udp: Udp,
    /// BTH and extended headers.
    pub headers: TransportHeaders,
    /// Message bytes, without pad.
    pub payload: &'a [u8],
}

impl<'a> Frame<'a> {
    /// Reads a frame and checks its ICRC. What pads it to Ethernet's least length is ignored.
    ///
    /// # Errors
    /// [`Error::Unsupported`] where it is no RoCEv2 frame; the others where it is a broken one.
    pub fn parse(bytes: &'a [u8]) -> Result<Frame<'a>, Error> {
        let (ethernet, rest) = Ethernet::parse(bytes)?;
        let (tag, ether_type, packet) = if ethernet.ether_type == EtherType::VLAN {
            let (Vlan { pcp, dei, vid, ether_type }, rest) = Vlan::parse(rest)?;
            (Some(Tag { pcp, dei, vid }), ether_type, rest)
        } else {
            (None, ethernet.ether_type, rest)
        };
        let (ip, datagram) = Ip::parse(ether_type, packet)?;
        if ip.protocol() != PROTOCOL_UDP {
            return Err(Error::Unsupported);
        }
        let (udp, transport) = Udp::parse(datagram)?;
        if udp.destination_port != Udp::ROCE_PORT {
            return Err(Error::Unsupported);
        }
        let (transport, icrc) = transport.split_last_chunk().ok_or(Error::Truncated)?;
        let covered = ip.header_len() + Udp::LEN + transport.len();
        if icrc::icrc(&packet[..covered])? != u32::from_le_bytes(*icrc) {
            return Err(Error::Icrc);
        }
        let (headers, padded) = TransportHeaders::parse(transport)?;
        let payload_len = padded.len().checked_sub(headers.bth.pad_cnt as usize).ok_or(Error::Length)?;
        Ok(Frame {
            destination: ethernet.destination,
            source: ethernet.source,
            tag,
            ip,
            udp,
            headers,
            payload: &padded[..payload_len],
        })
    }

    /// Bytes that it takes, without FCS, padded to the least that Ethernet takes.
    pub fn frame_len(&self) -> usize {
        self.unpadded_len().max(Ethernet::MIN_FRAME_LEN - Ethernet::FCS_LEN)
    }

    fn unpadded_len(&self) -> usize {
        let tag = if self.tag.is_some() { Vlan::LEN } else { 0 };
        Ethernet::LEN + tag + self.ip.header_len() + Udp::LEN + self.transport_len()
    }

    fn transport_len(&self) -> usize {
        self.headers.header_len() + self.payload.len().next_multiple_of(4) + icrc::LEN
    }

    /// Writes the frame, with lengths, header checksum, pads and ICRC, into the front of a buffer: the bytes written.
    ///
    /// # Errors
    /// [`Error::BufferTooShort`]; [`Error::Opcode`]; [`Error::Length`] where the BTH's pad count is not that of the payload,
    /// or the payload is longer than a packet can be.
    pub fn emit(&self, buffer: &mut [u8]) -> Result<usize, Error> {
        if self.headers.bth.pad_cnt != bth::pad_cnt(self.payload.len()) {
            return Err(Error::Length);
        }
        let transport_len = self.transport_len();
        let udp_len = u16::try_from(transport_len).map_err(|_| Error::Length)?;
        let ip_len = udp_len.checked_add(Udp::LEN as u16).ok_or(Error::Length)?;
        if ip_len > u16::MAX - Ipv4::LEN as u16 {
            return Err(Error::Length);
        }
        let len = self.frame_len();
        let bytes = buffer.get_mut(..len).ok_or(Error::BufferTooShort)?;
        let (bytes, ethernet_pad) = bytes.split_at_mut(self.unpadded_len());
        ethernet_pad.fill(0);

        let ether_type = if self.tag.is_some() { EtherType::VLAN } else { self.ip.ether_type() };
        Ethernet { destination: self.destination, source: self.source, ether_type }.emit(bytes);
        let mut packet = &mut bytes[Ethernet::LEN..];
        if let Some(Tag { pcp, dei, vid }) = self.tag {
            Vlan { pcp, dei, vid, ether_type: self.ip.ether_type() }.emit(packet);
            packet = &mut packet[Vlan::LEN..];
        }
        match self.ip {
            Ip::V4(ip) => ip.emit(ip_len, packet),
            Ip::V6(ip) => ip.emit(ip_len, packet),
        }
        let datagram = &mut packet[self.ip.header_len()..];
        self.udp.emit(udp_len, datagram);
        let transport = &mut datagram[Udp::LEN..];
        self.headers.emit(transport)?;
        let padded = &mut transport[self.headers.header_len()..transport_len - icrc::LEN];
        let (payload, pad) = padded.split_at_mut(self.payload.len());
        payload.copy_from_slice(self.payload);
        pad.fill(0);
        let covered = packet.len() - icrc::LEN;
        let icrc = icrc::icrc(&packet[..covered])?;
        packet[covered..].copy_from_slice(&icrc.to_le_bytes());
        Ok(len)
    }
}
