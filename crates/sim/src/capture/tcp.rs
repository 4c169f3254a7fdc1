//! Frames of TCP (RFC 9293) with timestamps and SACK blocks (RFC 7323, RFC 2018).
//!
//! There is no SYN in a run that could tell the window's scale: windows are in units of 16 KiB, the largest scale that
//! there is (RFC 7323, 2.3). Timestamps count microseconds.

use tailback_proto::units::Time;
use tailback_proto::wire::{EtherType, Ethernet, Ipv4, TCP_BYTES, TCP_TIMESTAMP_BYTES};

use super::{host_mac, ipv4, put_pattern};
use crate::fabric::packet::{Kind, Packet, CE_ECHO, CWR};
use crate::world::World;

const PROTOCOL_TCP: u8 = 6;
/// Where iperf3 listens.
const SERVER_PORT: u16 = 5201;
/// First of the dynamic ports (RFC 6335, 6).
const FIRST_CLIENT_PORT: u32 = 0xc000;
const WINDOW_SCALE: u32 = 14;
/// Sequence number of a stream's first byte: the SYN had 0.
const FIRST_BYTE: u32 = 1;

/// Flags (RFC 9293, 3.1; RFC 3168, 6.1).
const ACK: u8 = 0x10;
const ECE: u8 = 0x40;
const CWR_FLAG: u8 = 0x80;

/// Writes the frame of a packet.
pub(super) fn put(world: &World, packet: &Packet, index: u32, dscp: u8, bytes: &mut Vec<u8>) {
    let sockets = &world.tcp.sockets;
    let connection = packet.qp - sockets.first_flow;
    let c = &sockets.connections[connection as usize];
    let is_data = packet.kind == Kind::Tcp;
    let src = if is_data { c.src } else { c.dst } as usize;
    let client = (FIRST_CLIENT_PORT + connection % 0x4000) as u16;
    let server = SERVER_PORT + (connection / 0x4000) as u16;
    let (position, stamp) = sockets.headers.stamp(index);
    let number = FIRST_BYTE.wrapping_add(position as u32);
    let (window, sack) = if is_data { (1 << 30, Default::default()) } else { sockets.headers.ack(index) };
    let blocks = sack.as_slice();
    let options = TCP_TIMESTAMP_BYTES as usize + if blocks.is_empty() { 0 } else { 4 + 8 * blocks.len() };

    let mut segment = Vec::with_capacity(TCP_BYTES as usize + options + packet.payload_bytes() as usize);
    let ports = if is_data { [client, server] } else { [server, client] };
    let numbers = if is_data { [number, FIRST_BYTE] } else { [FIRST_BYTE, number] };
    ports.iter().for_each(|port| segment.extend(port.to_be_bytes()));
    numbers.iter().for_each(|number| segment.extend(number.to_be_bytes()));
    segment.push((((TCP_BYTES as usize + options) / 4) as u8) << 4);
    let echo = if packet.flags & CE_ECHO != 0 { ECE } else { 0 };
    segment.push(ACK | echo | if packet.flags & CWR != 0 { CWR_FLAG } else { 0 });
    segment.extend(u16::try_from(window >> WINDOW_SCALE).unwrap_or(u16::MAX).to_be_bytes());
    segment.extend([0; 4]); // checksum, urgent pointer
    segment.extend([1, 1, 8, 10]); // two NOPs, timestamps
                                   // When an ACK was made is not known; what it says is the same on every link.
    let stamps = if is_data { [stamp, Time::ZERO] } else { [stamp, stamp] };
    stamps.iter().for_each(|at| segment.extend(((at.0 / 1_000_000) as u32).to_be_bytes()));
    if !blocks.is_empty() {
        segment.extend([1, 1, 5, 2 + 8 * blocks.len() as u8]);
        let ends = blocks.iter().flat_map(|&(start, end)| [start, end]);
        ends.for_each(|end| segment.extend(FIRST_BYTE.wrapping_add(end as u32).to_be_bytes()));
    }
    put_pattern(&mut segment, position as u8, packet.payload_bytes() as usize);

    let ip = ipv4(packet, src, dscp, PROTOCOL_TCP);
    let sum = checksum(&ip, &segment);
    segment[16..18].copy_from_slice(&sum.to_be_bytes());
    let destination = host_mac(packet.dst as usize);
    bytes.resize(Ethernet::LEN + Ipv4::LEN, 0);
    Ethernet { destination, source: host_mac(src), ether_type: EtherType::IPV4 }.emit(bytes);
    ip.emit(segment.len() as u16, &mut bytes[Ethernet::LEN..]);
    bytes.extend(segment);
}

/// Checksum of a segment with its pseudo header (RFC 9293, 3.1).
fn checksum(ip: &Ipv4, segment: &[u8]) -> u16 {
    let length = (segment.len() as u16).to_be_bytes();
    let pseudo = [&ip.source.octets()[..], &ip.destination.octets(), &[0, PROTOCOL_TCP], &length].concat();
    let word = |pair: &[u8]| (pair[0] as u32) << 8 | *pair.get(1).unwrap_or(&0) as u32;
    let mut sum: u32 = pseudo.chunks(2).chain(segment.chunks(2)).map(word).sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}
