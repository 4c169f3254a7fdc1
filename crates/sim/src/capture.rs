//! Captures of links as pcapng: frames in the formats of RoCEv2, PFC and TCP, for Wireshark and for analysis.
//!
//! A direction of a link is an interface, named as its port is (`h0:sw0`: from h0). A frame's time is when its first bit leaves
//! that port, exact to the picosecond (`if_tsresol` 12). What is dropped there or behind it is in an interface of its own
//! (`h0:sw0 dropped`), at the time of the drop, with the reason as a comment; so each interface has what its link carried, and
//! nothing twice. A frame that a switch marks CE as it leaves has a comment with the queue that was left.
//!
//! Fields that a run does not know are made up, alike in all captures: addresses by the host's number, queue pairs by the connection's,
//! with the same number at both ends, and payload that counts up from the PSN.
//!
//! Format: PCAP Next Generation (draft-ietf-opsawg-pcapng).
//!
//! Leaves out: the FCS; VLAN tags, which the simulator's frames do not have either; veth pairs.

use pcap_file::pcapng::blocks::enhanced_packet::{EnhancedPacketBlock, EnhancedPacketOption};
use pcap_file::pcapng::blocks::interface_description::{
    InterfaceDescriptionBlock, InterfaceDescriptionOption,
};
use pcap_file::pcapng::blocks::name_resolution::{Ipv4Record, NameResolutionBlock, Record};
use pcap_file::pcapng::blocks::section_header::{SectionHeaderBlock, SectionHeaderOption};
use pcap_file::pcapng::{PcapNgBlock, PcapNgWriter};
use pcap_file::{DataLink, Endianness, PcapError};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::io;
use std::io::Write;
use std::net::Ipv4Addr;
use std::time::Duration;
use tailback_proto::nic::Messages;
use tailback_proto::units::Time;
use tailback_proto::wire::bth::cnp;
use tailback_proto::wire::ip::PROTOCOL_UDP;
use tailback_proto::wire::{
    Aeth, Bth, EtherType, Ethernet, Extension, Frame, Ip, Ipv4, MacAddress, NakCode, Opcode, Pfc, Reth,
    Syndrome, TransportHeaders, Udp, FCS_BYTES, TCP_BYTES, TCP_TIMESTAMP_BYTES,
};

use crate::fabric::packet::{Packet, PacketKind, ACK_REQUEST, CE, CE_ECHO, CWR, ECT};
use crate::fabric::port::CaptureNote;
use crate::world::World;

pub type Output = Box<dyn Write + Send + Sync>;

/// Powers of ten of a second that times are in, negative: picoseconds.
const TIME_RESOLUTION: u8 = 12;

#[derive(Clone, Debug)]
pub struct CaptureSettings {
    /// Links by their ends (`sw0:h4`, both directions), nodes (all links of theirs), or `all`.
    pub links: Vec<String>,
    /// Only frames from this time on.
    pub start: Time,
    /// Only frames before this time.
    pub stop: Time,
    /// Bytes kept of each frame.
    pub snap_bytes: u32,
}

/// A capture under way.
pub(crate) struct Capture {
    out: PcapNgWriter<Output>,
    settings: CaptureSettings,
    code_points: Vec<u8>,
    /// By port, and whether it is of what is dropped: its interface.
    interfaces: BTreeMap<(usize, bool), u32>,
    /// Frames of bridges, whose devices take packets ahead: they leave later.
    later: BTreeMap<(Time, u64), Captured>,
    later_count: u64,
    frame: Vec<u8>,
    error: Option<io::Error>,
}

/// A frame, and what is said of it.
struct Captured {
    port: usize,
    dropped: bool,
    frame: Vec<u8>,
    comment: Option<String>,
}

impl Capture {
    /// Begins a capture: the ports are tapped from now on. `dscps`: by code point.
    ///
    /// # Errors
    /// A name that is neither a link nor a node, with what there is.
    pub fn new(
        world: &mut World,
        hosts: &[String],
        dscps: Vec<u8>,
        settings: CaptureSettings,
        out: Output,
    ) -> Result<Capture, String> {
        let ports = ports_of(world, &settings.links)?;
        let section = SectionHeaderBlock {
            endianness: Endianness::Little, // the same bytes on every machine
            options: vec![SectionHeaderOption::UserApplication("Tailback, simulated".into())],
            ..SectionHeaderBlock::default()
        };
        let (out, error) = match PcapNgWriter::with_section_header(out, section) {
            Ok(out) => (out, None),
            Err(error) => return Err(error.to_string()),
        };
        let mut capture = Capture {
            out,
            settings,
            code_points: dscps,
            interfaces: BTreeMap::new(),
            later: BTreeMap::new(),
            later_count: 0,
            frame: Vec::new(),
            error,
        };
        capture.write_names(hosts);
        for port in ports {
            world.fabric.tap(port);
            capture.interface(world, port, false);
        }
        Ok(capture)
    }

    /// Takes what was noted in the event that just happened.
    #[inline]
    pub fn take(&mut self, world: &mut World) {
        if !world.fabric.taps.is_empty() {
            self.write_noted(world);
        }
    }

    fn write_noted(&mut self, world: &mut World) {
        let now = world.fabric.run.now;
        while let Some(entry) = self.later.first_entry().filter(|entry| entry.key().0 < now) {
            let (at, _) = *entry.key();
            let later = entry.remove();
            self.write(world, at, &later);
        }
        let mut taps = std::mem::take(&mut world.fabric.taps);
        for noted in taps.drain(..) {
            let (at, captured) = self.captured(world, noted);
            if self.error.is_none() && (self.settings.start..self.settings.stop).contains(&at) {
                if at > now {
                    self.later_count += 1;
                    self.later.insert((at, self.later_count), captured);
                    continue;
                }
                self.write(world, at, &captured);
            }
            self.frame = captured.frame;
        }
        world.fabric.taps = taps;
    }

    /// A frame as it is on the wire, and when.
    fn captured(&mut self, world: &World, noted: CaptureNote) -> (Time, Captured) {
        let now = world.fabric.run.now;
        let mut frame = std::mem::take(&mut self.frame);
        frame.clear();
        match noted {
            CaptureNote::Sent { port, index, at, marked } => {
                let packet = &world.fabric.packets[index];
                self.put_frame(world, packet, index, &mut frame);
                let marks = packet.flags & CE != 0 && !marked;
                let comment = marks.then(|| {
                    let left = world.fabric.queues[(port, packet.class)].bytes;
                    let name = &world.fabric.links[port].name;
                    format!("marked CE: {left} B wait in {name}/tc{}", packet.class)
                });
                (at, Captured { port, dropped: false, frame, comment })
            }
            CaptureNote::Dropped { port, index, packet, reason } => {
                self.put_frame(world, &packet, index, &mut frame);
                let comment = Some(format!("dropped: {}", reason.text()));
                (now, Captured { port, dropped: true, frame, comment })
            }
            CaptureNote::Pause { port, named, paused } => {
                let quanta = world.fabric.pfc_quanta[port];
                frame.resize(Pfc::LEN, 0);
                let time = std::array::from_fn(|class| if paused & 1 << class != 0 { quanta } else { 0 });
                Pfc { source: port_mac(port), class_enable_vector: named, time }.emit(&mut frame);
                (now, Captured { port, dropped: false, frame, comment: None })
            }
        }
    }

    fn put_frame(&self, world: &World, packet: &Packet, index: u32, frame: &mut Vec<u8>) {
        if packet.kind.is_tcp() {
            put_tcp(world, packet, index, self.dscp(packet), frame);
        } else {
            put_roce(world, packet, self.dscp(packet), frame);
        }
        // What carries telemetry is longer than its headers and payload: that follows the packet, as what pads a frame does.
        frame.resize((packet.frame_bytes() - FCS_BYTES) as usize, 0);
    }

    fn dscp(&self, packet: &Packet) -> u8 {
        self.code_points[packet.code_point as usize]
    }

    fn write(&mut self, world: &World, at: Time, captured: &Captured) {
        let interface_id = self.interface(world, captured.port, captured.dropped);
        let kept = captured.frame.len().min(self.settings.snap_bytes as usize);
        let options = captured.comment.as_deref();
        let block = EnhancedPacketBlock {
            interface_id,
            // The library writes the nanoseconds as they are: here they are units of the interface's resolution.
            timestamp: Duration::from_nanos(at.0),
            original_len: captured.frame.len() as u32,
            data: Cow::Borrowed(&captured.frame[..kept]),
            options: options.map(|text| EnhancedPacketOption::Comment(text.into())).into_iter().collect(),
        };
        self.write_block(block);
    }

    /// Number of an interface, which is described when it is first used.
    fn interface(&mut self, world: &World, port: usize, dropped: bool) -> u32 {
        if let Some(&number) = self.interfaces.get(&(port, dropped)) {
            return number;
        }
        let link = &world.fabric.links[port];
        let name = if dropped { format!("{} dropped", link.name) } else { link.name.clone() };
        let number = self.interfaces.len() as u32;
        self.interfaces.insert((port, dropped), number);
        self.write_block(InterfaceDescriptionBlock {
            linktype: DataLink::ETHERNET,
            snaplen: self.settings.snap_bytes,
            options: vec![
                InterfaceDescriptionOption::IfName(name.into()),
                InterfaceDescriptionOption::IfSpeed(link.rate.0),
                InterfaceDescriptionOption::IfTsResol(TIME_RESOLUTION),
                InterfaceDescriptionOption::IfFcsLen(0),
            ],
        });
        number
    }

    fn write_names(&mut self, hosts: &[String]) {
        let record = |(host, name): (usize, &String)| {
            let ip_addr = Cow::Owned(address(host).octets().to_vec());
            Record::Ipv4(Ipv4Record { ip_addr, names: vec![Cow::Owned(name.clone())] })
        };
        let records = hosts.iter().enumerate().map(record).chain([Record::End]).collect();
        self.write_block(NameResolutionBlock { records, options: Vec::new() });
    }

    fn write_block<'a>(&mut self, block: impl PcapNgBlock<'a>) {
        if self.error.is_none() {
            self.error = self.out.write_pcapng_block(block).err().map(|error| match error {
                PcapError::IoError(error) => error,
                other => io::Error::other(other),
            });
        }
    }

    /// True if it cannot be written any further.
    pub fn failed(&self) -> bool {
        self.error.is_some()
    }

    /// Ends the capture.
    ///
    /// # Errors
    /// The frame could not be written.
    pub fn finish(mut self, world: &World) -> io::Result<()> {
        for ((at, _), later) in std::mem::take(&mut self.later) {
            if at <= world.fabric.run.now {
                self.write(world, at, &later);
            }
        }
        match self.error {
            Some(error) => Err(error),
            None => self.out.into_inner().flush(),
        }
    }
}

/// The ports of links that are named by their ends, by a node, or all.
fn ports_of(world: &World, names: &[String]) -> Result<Vec<usize>, String> {
    let links = &world.fabric.links;
    let mut chosen = vec![false; links.len()];
    for name in names {
        let mut found = false;
        for (port, link) in links.iter().enumerate() {
            let node = link.name.split(':').next();
            if name == "all" || *name == link.name || node == Some(name) {
                let peer = world.fabric.ports[port].peer as usize;
                (chosen[port], chosen[peer], found) = (true, true, true);
            }
        }
        if !found {
            let some: Vec<&str> = links.iter().take(3).map(|link| link.name.as_str()).collect();
            return Err(match some.len() {
                0 => format!("found {name}, and the scenario has no links to capture"),
                _ => format!("found {name}, expected all, a node, or a link such as {}", some.join(", ")),
            });
        }
    }
    Ok((0..links.len()).filter(|&port| chosen[port]).collect())
}

/// Address of a host.
fn address(host: usize) -> Ipv4Addr {
    Ipv4Addr::from_bits(u32::from(Ipv4Addr::new(10, 0, 0, 1)) + host as u32)
}

/// Address of a host's port: locally administered, with the host's number.
fn host_mac(host: usize) -> MacAddress {
    let [_, a, b, c] = (host as u32).to_be_bytes();
    MacAddress([2, 0, 0, a, b, c])
}

/// Address that a port's PFC frames are from.
fn port_mac(port: usize) -> MacAddress {
    let [_, a, b, c] = (port as u32).to_be_bytes();
    MacAddress([2, 0, 1, a, b, c])
}

fn ipv4(packet: &Packet, src: usize, dscp: u8, protocol: u8) -> Ipv4 {
    use tailback_proto::wire::ip;
    Ipv4 {
        dscp,
        ecn: match packet.flags & (CE | ECT) {
            0 => ip::NOT_ECT,
            ECT => ip::ECT_0,
            _ => ip::CE,
        },
        identification: 0,
        dont_fragment: true,
        time_to_live: 64,
        protocol,
        source: address(src),
        destination: address(packet.dst as usize),
    }
}

/// Payload of a packet: bytes that count up from its PSN or position, so that a byte out of place is seen.
fn put_pattern(frame: &mut Vec<u8>, first: u8, bytes: usize) {
    frame.extend((0..bytes).map(|at| first.wrapping_add(at as u8)));
}

// Frames of RoCEv2, from what the simulator's packets say and what their connection knows.

/// Number of the first queue pair: 0 and 1 have a meaning of their own (IBTA 3.9), and low numbers are often taken.
const FIRST_QP: u32 = 0x100;

/// Where the memory begins that is written to.
const FIRST_ADDRESS: u64 = 0x7f00_0000_0000;

/// Opcodes of RHCC's probe and of its answer, whose format is not published; assumption: two of a vendor's own.
const PROBE: Opcode = Opcode::Other(0xc0);

const PROBE_ANSWER: Opcode = Opcode::Other(0xc1);

/// Bytes of their payload: they are as long as a CNP.
const PROBE_PAYLOAD_BYTES: usize = 16;

/// Number of a queue pair, at both of its ends.
fn qp_number(qp: u32) -> u32 {
    (FIRST_QP + qp) & 0xff_ffff
}

/// Writes the frame of a packet.
fn put_roce(world: &World, packet: &Packet, dscp: u8, bytes: &mut Vec<u8>) {
    let s = &world.nics.send_qps[world.nics.slots.of(packet.qp) as usize];
    let src = if matches!(packet.kind, PacketKind::Data | PacketKind::Trimmed | PacketKind::Probe) {
        s.src
    } else {
        s.dst
    } as usize;
    let mut payload = Vec::new();
    let headers = headers(world, packet, &mut payload);
    let frame = Frame {
        destination: host_mac(packet.dst as usize),
        source: host_mac(src),
        tag: None,
        ip: Ip::V4(ipv4(packet, src, dscp, PROTOCOL_UDP)),
        // What ECMP hashes: a number of the connection's own among the dynamic ports, as Linux's rxe has it.
        udp: Udp {
            source_port: 0xc000 | (packet.qp & 0x3fff) as u16,
            destination_port: Udp::ROCE_PORT,
            checksum: 0,
        },
        headers,
        payload: &payload,
    };
    bytes.resize(frame.frame_len(), 0);
    frame.emit(bytes).expect("headers are those of their opcode, and a packet is no longer than an MTU");
    if packet.kind == PacketKind::Trimmed {
        // Cut, with the IP length and checksum made right (SAI, "Packet Trimming"); UDP tells the length that it had.
        bytes.truncate((packet.frame_bytes() - FCS_BYTES) as usize);
        let ip_len = (bytes.len() - Ethernet::LEN - Ipv4::LEN) as u16;
        ipv4(packet, src, dscp, PROTOCOL_UDP).emit(ip_len, &mut bytes[Ethernet::LEN..]);
    }
}

fn headers(world: &World, packet: &Packet, payload: &mut Vec<u8>) -> TransportHeaders {
    let s = &world.nics.send_qps[world.nics.slots.of(packet.qp) as usize];
    let writer = &world.nics.writers[s.writer as usize];
    let number = qp_number(packet.qp);
    let per_message = writer.writes.packets_per_message;
    match packet.kind {
        PacketKind::Data | PacketKind::Trimmed => {
            let psn = packet.psn();
            let sequence = s.half.requester.sequence_of(psn).unwrap_or(psn as u64);
            let position = sequence % per_message;
            let opcode = match (position == 0, position + 1 == per_message) {
                (true, true) => Opcode::WriteOnly,
                (true, false) => Opcode::WriteFirst,
                (false, false) => Opcode::WriteMiddle,
                (false, true) => Opcode::WriteLast,
            };
            let payload_bytes = writer.writes.segment(sequence).payload_bytes;
            put_pattern(payload, psn as u8, payload_bytes as usize);
            let mut bth = Bth::new(opcode, number, psn, payload.len());
            bth.ack_req = packet.flags & ACK_REQUEST != 0;
            bth.mig_req = true; // as ConnectX NICs send it
            let extension = if position == 0 {
                Extension::Reth(Reth {
                    va: FIRST_ADDRESS,
                    r_key: number,
                    dma_len: u32::try_from(writer.writes.message_bytes).unwrap_or(u32::MAX),
                })
            } else {
                Extension::None
            };
            TransportHeaders { bth, extension }
        }
        PacketKind::Ack | PacketKind::Nak => {
            let psn = packet.psn();
            let sequence = s.half.requester.sequence_of(psn).unwrap_or(psn as u64);
            // A NAK's PSN is the one that is expected: all before it arrived.
            let (syndrome, arrived) = match packet.kind {
                PacketKind::Ack => (Syndrome::ACK, sequence + 1),
                _ => (Syndrome::Nak(NakCode::PsnSequenceError), sequence),
            };
            let bth = Bth { mig_req: true, ..Bth::new(Opcode::Acknowledge, number, psn, 0) };
            let msn = (arrived / per_message) as u32 & 0xff_ffff;
            TransportHeaders { bth, extension: Extension::Aeth(Aeth { syndrome, msn }) }
        }
        PacketKind::Cnp => cnp(number),
        PacketKind::Probe | PacketKind::ProbeAck => {
            let opcode = if packet.kind == PacketKind::Probe { PROBE } else { PROBE_ANSWER };
            payload.resize(PROBE_PAYLOAD_BYTES, 0);
            TransportHeaders {
                bth: Bth::new(opcode, number, 0, PROBE_PAYLOAD_BYTES),
                extension: Extension::None,
            }
        }
        PacketKind::Tcp | PacketKind::TcpAck => unreachable!("they have frames of their own"),
    }
}

// Frames of TCP (RFC 9293) with timestamps and SACK blocks (RFC 7323, RFC 2018).
//
// There is no SYN in a run that could tell the window's scale: windows are in units of 16 KiB, the largest scale that
// there is (RFC 7323, 2.3). Timestamps count microseconds.

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
fn put_tcp(world: &World, packet: &Packet, index: u32, dscp: u8, bytes: &mut Vec<u8>) {
    let sockets = &world.tcp.sockets;
    let connection = packet.qp - sockets.first_flow;
    let c = &sockets.connections[connection as usize];
    let is_data = packet.kind == PacketKind::Tcp;
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
