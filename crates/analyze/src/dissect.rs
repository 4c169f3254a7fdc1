//! What a frame is, as far as it was kept: captures are often cut behind the headers, and mirror ports and fabrics put others' headers ahead.
//!
//! Every frame is exactly one [`Frame`]: RoCEv2, a pause, known to be something else, or not read and why.

use tailback_proto::wire::{icrc, Opcode, Pfc, TransportHeaders, Udp};

use crate::reader as link;

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
    /// ECN field of its own IP header.
    pub ecn: u8,
    /// Whether an IP header of a tunnel around it carries CE.
    pub outer_ce: bool,
    /// Identification of IPv4; IPv6 has none.
    pub identification: Option<u16>,
    /// A sum over what was kept of it and what no hop changes.
    pub digest: u32,
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
    /// A pause of the whole link (IEEE 802.3, annex 31B), in quanta.
    Pause(u16),
    /// Known, and not RoCE.
    Known(&'static str),
    /// Not read, and why.
    NotRead(Why),
}

/// Why a frame was not read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Why {
    /// Fewer bytes were kept than its headers have.
    CutShort,
    /// RoCEv2 whose payload a switch trimmed.
    Trimmed,
    /// RoCEv2 whose ICRC is wrong.
    WrongIcrc,
    /// RoCEv2 of a queue pair beyond the most that are followed.
    TooManyQueuePairs,
    /// It contradicts itself, or ends before its headers do.
    Broken(&'static str),
    /// A protocol that is not looked into.
    Protocol(&'static str),
    EtherType(u16),
    IpProtocol(u8),
    LinkType(i32),
    RoceOpcode(u8),
}

impl std::fmt::Display for Why {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match *self {
            Why::CutShort => f.write_str("cut short"),
            Why::Trimmed => f.write_str("payload trimmed by a switch"),
            Why::WrongIcrc => f.write_str("wrong ICRC"),
            Why::TooManyQueuePairs => f.write_str("queue pairs beyond the 65,536 that are followed"),
            Why::Broken(what) | Why::Protocol(what) => f.write_str(what),
            Why::EtherType(number) => write!(f, "unknown ethertype 0x{number:04x}"),
            Why::IpProtocol(number) => write!(f, "unknown IP protocol {number}"),
            Why::RoceOpcode(number) => write!(f, "RoCEv2 with the unknown opcode 0x{number:02x}"),
            Why::LinkType(number) => match link_name(number) {
                Some(name) => write!(f, "link type {number} ({name})"),
                None => write!(f, "link type {number}"),
            },
        }
    }
}

fn link_name(number: i32) -> Option<&'static str> {
    Some(match number {
        9 => "PPP",
        105 => "802.11",
        127 => "802.11 with radiotap",
        189 | 220 => "USB",
        197 => "ERF",
        247 => "InfiniBand",
        253 => "netlink",
        _ => return None,
    })
}

const MAPPED: u128 = 0xffff << 32;
/// Headers ahead of a packet that are followed: a frame of anybody's making may nest them without end.
const MAX_LAYERS: usize = 16;
/// EtherTypes below are lengths (IEEE 802.3, 3.2.6).
const LEAST_ETHER_TYPE: u16 = 0x600;
const CE: u8 = 0b11;

/// What a part of a frame begins with.
#[derive(Clone, Copy, Debug)]
enum Layer {
    Ethernet,
    /// What an EtherType announces.
    Typed(u16),
    Ip,
    Mpls,
    Gre,
    Vxlan,
    Geneve,
}

/// A layer that lies within another, or the frame itself.
enum Step {
    Inner(Layer, usize),
    Is(Frame),
}

use Step::{Inner, Is};

/// What is known of the headers ahead.
#[derive(Default)]
struct Outer {
    ce: bool,
    /// The headers ahead are a mirror's: a mark on them is not the packet's.
    mirrored: bool,
}

fn known(name: &'static str) -> Step {
    Is(Frame::Known(name))
}

fn not_read(why: Why) -> Step {
    Is(Frame::NotRead(why))
}

fn unread(protocol: &'static str) -> Step {
    not_read(Why::Protocol(protocol))
}

fn broken(what: &'static str) -> Step {
    not_read(Why::Broken(what))
}

fn number(bytes: &[u8], at: usize) -> Option<u16> {
    bytes.get(at..at + 2).map(|pair| u16::from_be_bytes([pair[0], pair[1]]))
}

/// Reads a frame of an interface of this link type, of `length` bytes on the wire.
pub fn dissect(link_type: i32, bytes: &[u8], length: u32) -> Frame {
    // None: bytes are missing.
    find(link_type, bytes).unwrap_or(Frame::NotRead(if bytes.len() < length as usize {
        Why::CutShort
    } else {
        Why::Broken("shorter than its headers")
    }))
}

fn find(link_type: i32, bytes: &[u8]) -> Option<Frame> {
    let (mut layer, mut at) = match link_type {
        link::ETHERNET => (Layer::Ethernet, 0),
        link::LINUX_SLL => (Layer::Typed(number(bytes, 14)?), 16),
        link::LINUX_SLL2 => (Layer::Typed(number(bytes, 0)?), 20),
        other if link::RAW_IP.contains(&other) => (Layer::Ip, 0),
        other => return Some(Frame::NotRead(Why::LinkType(other))),
    };
    let mut outer = Outer::default();
    for _ in 0..MAX_LAYERS {
        let rest = bytes.get(at..)?;
        let step = match layer {
            Layer::Ethernet => Inner(Layer::Typed(number(rest, 12)?), 14),
            Layer::Typed(ether_type) => typed(ether_type, rest)?,
            Layer::Ip => ip(rest, &mut outer)?,
            Layer::Mpls => mpls(rest)?,
            Layer::Gre => gre(rest, &mut outer)?,
            Layer::Vxlan => match rest.get(..8)?[0] & 0x08 {
                0 => broken("VXLAN without a network identifier"),
                _ => Inner(Layer::Ethernet, 8),
            },
            Layer::Geneve => Inner(Layer::Typed(number(rest, 2)?), 8 + 4 * (*rest.first()? & 0x3f) as usize),
        };
        match step {
            Inner(inner, ahead) => (layer, at) = (inner, at + ahead),
            Is(frame) => return Some(frame),
        }
    }
    Some(Frame::NotRead(Why::Broken("more than 16 headers")))
}

/// What an EtherType announces (IEEE's registry of EtherTypes).
fn typed(ether_type: u16, rest: &[u8]) -> Option<Step> {
    Some(match ether_type {
        0x0800 | 0x86dd => Inner(Layer::Ip, 0),
        0x8100 | 0x88a8 | 0x9100 | 0x9200 => Inner(Layer::Typed(number(rest, 2)?), 4),
        0x8847 | 0x8848 => Inner(Layer::Mpls, 0),
        0x6558 => Inner(Layer::Ethernet, 0),
        0x8808 => mac_control(rest)?,
        0x8915 => unread("RoCE v1"),
        0x0806 => known("ARP"),
        0x8035 => known("RARP"),
        0x8809 => known("LACP and other slow protocols"),
        0x888e => known("802.1X"),
        0x88cc => known("LLDP"),
        0x88f7 => known("PTP"),
        0x8902 => known("802.1ag"),
        0x8906 | 0x8914 => known("FCoE"),
        0x9000 => known("loopback"),
        0x8863 | 0x8864 => unread("PPPoE"),
        0x88e5 => unread("MACsec"),
        0x88e7 => unread("802.1ah"),
        0x8926 => unread("VN-Tag"),
        0x893f => unread("802.1BR E-Tag"),
        0x894f => unread("NSH"),
        length if length < LEAST_ETHER_TYPE => match rest.get(..3)? {
            // SNAP with the EtherType's own organisation (RFC 1042).
            [0xaa, 0xaa, 3] if rest.get(3..6)? == [0, 0, 0] => Inner(Layer::Typed(number(rest, 6)?), 8),
            _ => known("802.2 (STP, IS-IS and others)"),
        },
        other => not_read(Why::EtherType(other)),
    })
}

/// A MAC control frame behind its EtherType (IEEE 802.3, annex 31; 802.1Qbb).
fn mac_control(rest: &[u8]) -> Option<Step> {
    const PAUSE: u16 = 1;
    Some(match number(rest, 0)? {
        PAUSE => Is(Frame::Pause(number(rest, 2)?)),
        tailback_proto::wire::ethernet::PFC_OPCODE => {
            let fields = rest.get(2..20)?;
            Is(Frame::Pfc(Pfc {
                source: tailback_proto::wire::MacAddress([0; 6]),
                class_enable_vector: fields[1],
                time: std::array::from_fn(|priority| {
                    u16::from_be_bytes([fields[2 + 2 * priority], fields[3 + 2 * priority]])
                }),
            }))
        }
        _ => known("other MAC control frames"),
    })
}

/// A stack of labels (RFC 3032), and what lies behind the last by its first four bits (RFC 4385, 4928).
fn mpls(rest: &[u8]) -> Option<Step> {
    let mut at = 0;
    while rest.get(at + 2)? & 1 == 0 {
        at += 4;
    }
    at += 4;
    Some(match rest.get(at)? >> 4 {
        4 | 6 => Inner(Layer::Ip, at),
        0 => Inner(Layer::Ethernet, at + 4),
        _ => unread("MPLS around neither IP nor Ethernet with a control word"),
    })
}

/// GRE (RFC 2784, 2890) and ERSPAN in it (draft-foschiano-erspan).
fn gre(rest: &[u8], outer: &mut Outer) -> Option<Step> {
    const CHECKSUM: u16 = 0x8000;
    const ROUTING: u16 = 0x4000;
    const KEY: u16 = 0x2000;
    const SEQUENCE: u16 = 0x1000;
    let (flags, protocol) = (number(rest, 0)?, number(rest, 2)?);
    if flags & 7 != 0 || flags & ROUTING != 0 {
        return Some(unread("GRE of version 1 or with source routes"));
    }
    let options = [CHECKSUM, KEY, SEQUENCE].iter().filter(|&&bit| flags & bit != 0).count();
    let ahead = 4 + 4 * options;
    let mirror = |at: usize| rest.get(ahead..).and_then(|header| header.get(at)).copied();
    outer.mirrored |= protocol == 0x88be || protocol == 0x22eb;
    Some(match protocol {
        // Type I has neither a sequence number nor a header.
        0x88be if flags & SEQUENCE == 0 => Inner(Layer::Ethernet, ahead),
        0x88be if mirror(0)? >> 4 == 1 => Inner(Layer::Ethernet, ahead + 8),
        0x22eb if mirror(0)? >> 4 == 2 => {
            let platform = if mirror(11)? & 1 == 0 { 0 } else { 8 };
            match mirror(10)? >> 2 & 0x1f {
                0 => Inner(Layer::Ethernet, ahead + 12 + platform),
                2 => Inner(Layer::Ip, ahead + 12 + platform),
                _ => unread("ERSPAN around neither Ethernet nor IP"),
            }
        }
        0x88be | 0x22eb => unread("ERSPAN of an unknown version"),
        other => Inner(Layer::Typed(other), ahead),
    })
}

/// An IP header, and what follows.
fn ip(packet: &[u8], outer: &mut Outer) -> Option<Step> {
    let header = match packet.first()? >> 4 {
        4 => ipv4(packet)?,
        6 => ipv6(packet)?,
        _ => return Some(broken("IP of neither version 4 nor 6")),
    };
    let header = match header {
        Ok(header) => header,
        Err(step) => return Some(step),
    };
    let after = header.header_len;
    let inner = |layer| if header.fragment { header.fragmented() } else { Inner(layer, after) };
    let step = match header.protocol {
        17 if header.fragment => header.fragmented(),
        17 => return udp(packet, &header, outer),
        4 | 41 => inner(Layer::Ip),
        47 => inner(Layer::Gre),
        97 if header.fragment => header.fragmented(),
        97 => Inner(Layer::Ethernet, after + 2), // EtherIP (RFC 3378)
        137 => inner(Layer::Mpls),
        1 => known("ICMP"),
        2 => known("IGMP"),
        6 => known("TCP"),
        50 => unread("IPsec ESP"),
        58 => known("ICMPv6"),
        88 => known("EIGRP"),
        89 => known("OSPF"),
        103 => known("PIM"),
        112 => known("VRRP"),
        132 => known("SCTP"),
        other => not_read(Why::IpProtocol(other)),
    };
    outer.ce |= header.traffic_class & 3 == CE;
    Some(step)
}

struct IpHeader {
    version: u8,
    header_len: usize,
    /// Of header and payload; of IPv6 without a length, of a jumbogram, of what was kept.
    ip_len: usize,
    protocol: u8,
    traffic_class: u8,
    addresses: Addresses,
    identification: Option<u16>,
    fragment: bool,
}

impl IpHeader {
    fn fragmented(&self) -> Step {
        unread(if self.version == 4 { "IPv4 fragment" } else { "IPv6 fragment" })
    }
}

fn ipv4(packet: &[u8]) -> Option<Result<IpHeader, Step>> {
    let header_len = (packet[0] & 0xf) as usize * 4;
    if header_len < 20 {
        return Some(Err(broken("IPv4 header shorter than 20 bytes")));
    }
    packet.get(..header_len)?;
    let address = |at: usize| {
        let bytes: [u8; 4] = packet.get(at..at + 4)?.try_into().ok()?;
        Some(MAPPED | u32::from_be_bytes(bytes) as u128)
    };
    Some(Ok(IpHeader {
        version: 4,
        header_len,
        ip_len: number(packet, 2)? as usize,
        protocol: packet[9],
        traffic_class: packet[1],
        addresses: Addresses { source: address(12)?, destination: address(16)? },
        identification: number(packet, 4),
        // An offset, or more fragments.
        fragment: number(packet, 6)? & 0x3fff != 0,
    }))
}

/// With its extension headers (RFC 8200, 4).
fn ipv6(packet: &[u8]) -> Option<Result<IpHeader, Step>> {
    const HOP_BY_HOP: u8 = 0;
    const ROUTING: u8 = 43;
    const FRAGMENT: u8 = 44;
    const AUTHENTICATION: u8 = 51;
    const OPTIONS: u8 = 60;
    packet.get(..40)?;
    let (mut header_len, mut protocol, mut fragment) = (40, packet[6], false);
    while matches!(protocol, HOP_BY_HOP | ROUTING | FRAGMENT | AUTHENTICATION | OPTIONS) {
        let extension = packet.get(header_len..header_len + 8)?;
        header_len += match protocol {
            // An atomic fragment is whole (RFC 6946).
            FRAGMENT => {
                fragment |= number(extension, 2)? & 0xfff9 != 0;
                8
            }
            AUTHENTICATION => 8 + 4 * extension[1] as usize,
            _ => 8 + 8 * extension[1] as usize,
        };
        protocol = extension[0];
        if fragment {
            break;
        }
    }
    let address = |at: usize| Some(u128::from_be_bytes(packet.get(at..at + 16)?.try_into().ok()?));
    Some(Ok(IpHeader {
        version: 6,
        header_len,
        ip_len: number(packet, 4)? as usize + 40,
        protocol,
        traffic_class: packet[0] << 4 | packet[1] >> 4,
        addresses: Addresses { source: address(8)?, destination: address(24)? },
        identification: None,
        fragment,
    }))
}

fn udp(packet: &[u8], header: &IpHeader, outer: &mut Outer) -> Option<Step> {
    let datagram = packet.get(header.header_len..)?;
    let inner = |layer, outer: &mut Outer| {
        outer.ce |= header.traffic_class & 3 == CE;
        Inner(layer, header.header_len + Udp::LEN)
    };
    Some(match number(datagram, 2)? {
        Udp::ROCE_PORT => Is(roce(packet, header, number(datagram, 4)? as usize, outer)?),
        4789 | 8472 => inner(Layer::Vxlan, outer), // 8472: Linux, before the port was assigned
        6081 => inner(Layer::Geneve, outer),
        6635 => inner(Layer::Mpls, outer),
        4790 => unread("VXLAN-GPE"),
        37008 => unread("TZSP"),
        _ => known("UDP"),
    })
}

fn roce(packet: &[u8], header: &IpHeader, udp_len: usize, outer: &Outer) -> Option<Frame> {
    const BROKEN: Frame = Frame::NotRead(Why::Broken("RoCEv2 whose lengths contradict each other"));
    let &IpHeader { header_len, ip_len, .. } = header;
    // A switch that trims a packet makes the length of IP right (SAI, "Packet Trimming"); UDP's is as it was.
    if udp_len > ip_len.saturating_sub(header_len) {
        // Where the whole datagram is there, nothing was cut off, and the length of IP is wrong.
        let whole = packet.len() >= header_len + udp_len;
        return Some(if whole { BROKEN } else { Frame::NotRead(Why::Trimmed) });
    }
    let Some(transport_len) = ip_len.checked_sub(header_len + Udp::LEN + icrc::LEN) else {
        return Some(BROKEN);
    };
    let end = header_len + Udp::LEN + transport_len;
    let kept = packet.get(header_len + Udp::LEN..end.min(packet.len()))?;
    let Ok((headers, _)) = TransportHeaders::parse(kept) else {
        // Its headers are cut, or longer than it is.
        return if kept.len() < transport_len { None } else { Some(BROKEN) };
    };
    if let Some(frame) = unfollowed(&headers) {
        return Some(frame);
    }
    let invalidated = if is_send_with_invalidate(headers.bth.opcode) { 4 } else { 0 };
    let ahead = headers.header_len() + invalidated + headers.bth.pad_cnt as usize;
    let Some(payload_bytes) = transport_len.checked_sub(ahead) else { return Some(BROKEN) };
    // Options and extension headers are not part of the sum.
    let plain = header_len == if header.version == 4 { 20 } else { 40 };
    let whole = packet.get(end..end + icrc::LEN).filter(|_| plain);
    let sum = whole.and_then(|_| icrc::icrc(&packet[..end]).ok());
    Some(Frame::Roce(Roce {
        addresses: header.addresses,
        ecn: header.traffic_class & 3,
        outer_ce: outer.ce && !outer.mirrored,
        identification: header.identification,
        digest: sum.unwrap_or_else(|| digest(header, number(packet, header_len).unwrap_or(0), kept)),
        headers,
        payload_bytes: payload_bytes as u32,
        icrc_ok: whole.zip(sum).map(|(found, sum)| sum.to_le_bytes() == found),
    }))
}

/// Of a packet whose ICRC was not kept: over what no hop changes of its headers, and the first bytes behind them.
fn digest(header: &IpHeader, source_port: u16, transport: &[u8]) -> u32 {
    const DIGESTED: usize = 96;
    const ODD: u64 = 0x9e37_79b9_7f4a_7c15;
    let mix = |sum: u64, word: u64| (sum.rotate_left(23) ^ word).wrapping_mul(ODD);
    let begin = (header.identification.unwrap_or(0) as u64) << 48
        | (source_port as u64) << 32
        | header.ip_len as u64 & 0xffff_ffff;
    let mut sum = mix(0, begin);
    let (words, _) = transport[..transport.len().min(DIGESTED)].as_chunks::<8>();
    for (at, &word) in words.iter().enumerate() {
        // FECN, BECN.
        let unchanged = if at == 0 { !0xff_0000_0000 } else { !0 };
        sum = mix(sum, u64::from_le_bytes(word) & unchanged);
    }
    (sum >> 32) as u32
}

/// SEND with an invalidation, last and only (IBTA 9.2): requests like others, with a key of 4 bytes ahead of the payload.
pub fn is_send_with_invalidate(opcode: Opcode) -> bool {
    matches!(opcode, Opcode::Other(0x16 | 0x17))
}

/// Packets whose gaps and retransmissions are not looked for; by the service in the upper three bits (IBTA 9.2).
fn unfollowed(headers: &TransportHeaders) -> Option<Frame> {
    use Opcode::*;
    const CONNECTION_MANAGEMENT_QP: u32 = 1;
    let opcode = headers.bth.opcode;
    let why = match opcode {
        ReadResponseFirst | ReadResponseMiddle | ReadResponseLast | ReadResponseOnly => return None,
        Other(0x60..=0x7f) if headers.bth.dest_qp == CONNECTION_MANAGEMENT_QP => {
            return Some(Frame::Known("RoCEv2 connection management"))
        }
        Other(0x20..=0x3f) => Why::Protocol("RoCEv2 unreliable connection"),
        Other(0x40..=0x5f) => Why::Protocol("RoCEv2 reliable datagram"),
        Other(0x60..=0x7f) => Why::Protocol("RoCEv2 unreliable datagram"),
        Other(0xa0..=0xbf) => Why::Protocol("RoCEv2 extended reliable connection"),
        Other(number) if !is_send_with_invalidate(opcode) => Why::RoceOpcode(number),
        _ => return None,
    };
    Some(Frame::NotRead(why))
}
