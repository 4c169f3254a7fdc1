//! What links carry, as pcapng: frames as real ones of RoCEv2, PFC and TCP are, for Wireshark and for analysis.
//!
//! A direction of a link is an interface, named as its port is (`h0:sw0`: from h0). A frame's time is when its first bit leaves
//! that port, exact to the picosecond (`if_tsresol` 12). What is dropped there or behind it is in an interface of its own
//! (`h0:sw0 dropped`), at the time of the drop, with the reason as a comment; so each interface has what its link carried, and
//! nothing twice. A frame that a switch marks CE as it leaves has a comment with the queue that was left.
//!
//! What a run does not know is made up, alike in all captures: addresses by the host's number, queue pairs by the connection's,
//! with the same number at both ends, and payload that counts up from the PSN.
//!
//! Format: PCAP Next Generation (draft-ietf-opsawg-pcapng).
//!
//! Leaves out: the FCS; VLAN tags, which the simulator's frames do not have either; veth pairs.

mod roce;
mod tcp;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::io::{self, Write};
use std::net::Ipv4Addr;
use std::time::Duration;

use pcap_file::pcapng::blocks::enhanced_packet::{EnhancedPacketBlock, EnhancedPacketOption};
use pcap_file::pcapng::blocks::interface_description::{
    InterfaceDescriptionBlock, InterfaceDescriptionOption,
};
use pcap_file::pcapng::blocks::name_resolution::{Ipv4Record, NameResolutionBlock, Record};
use pcap_file::pcapng::blocks::section_header::{SectionHeaderBlock, SectionHeaderOption};
use pcap_file::pcapng::{PcapNgBlock, PcapNgWriter};
use pcap_file::{DataLink, Endianness, PcapError};
use tailback_proto::units::Time;
use tailback_proto::wire::{Ipv4, MacAddress, Pfc, FCS_BYTES};

use crate::fabric::packet::{Packet, CE, ECT};
use crate::fabric::taps::Noted;
use crate::world::World;

/// Where a capture goes.
pub type Output = Box<dyn Write + Send + Sync>;

/// Powers of ten of a second that times are in, negative: picoseconds.
const TIME_RESOLUTION: u8 = 12;

/// What to capture.
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
    fn captured(&mut self, world: &World, noted: Noted) -> (Time, Captured) {
        let now = world.fabric.run.now;
        let mut frame = std::mem::take(&mut self.frame);
        frame.clear();
        match noted {
            Noted::Sent { port, index, at, marked } => {
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
            Noted::Dropped { port, index, packet, reason } => {
                self.put_frame(world, &packet, index, &mut frame);
                let comment = Some(format!("dropped: {}", reason.text()));
                (now, Captured { port, dropped: true, frame, comment })
            }
            Noted::Pause { port, named, paused } => {
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
            tcp::put(world, packet, index, self.dscp(packet), frame);
        } else {
            roce::put(world, packet, self.dscp(packet), frame);
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

    /// Whether it cannot be written any further.
    pub fn failed(&self) -> bool {
        self.error.is_some()
    }

    /// Ends the capture.
    ///
    /// # Errors
    /// What could not be written.
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
    use tailback_proto::wire::ipv4;
    Ipv4 {
        dscp,
        ecn: match packet.flags & (CE | ECT) {
            0 => ipv4::NOT_ECT,
            ECT => ipv4::ECT_0,
            _ => ipv4::CE,
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
