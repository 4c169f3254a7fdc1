//! Captures as a stream of frames: pcap and pcapng of either byte order, any resolution of time. Memory is bounded: what is read
//! of a file at once, and a name and a clock for each interface.

use std::collections::BTreeMap;
use std::fmt;
use std::io::Read;
use std::net::Ipv4Addr;

use pcap_parser::traits::PcapNGPacketBlock;
use pcap_parser::traits::PcapReaderIterator;
use pcap_parser::{create_reader, Block, OptionCode, PcapBlockOwned, PcapError};

/// Bytes of a file that are held at once, and so the longest block.
const BUFFER_BYTES: usize = 4 << 20;
/// Most interfaces of a file: sections and their descriptions may come without end.
const MAX_INTERFACES: usize = 1 << 16;
/// From the begin of an enhanced packet block to its frame.
const PACKET_AHEAD_BYTES: usize = 28;
const PS_PER_SECOND: u128 = 1_000_000_000_000;

/// Link types (tcpdump.org, "Link-layer header types").
pub const ETHERNET: i32 = 1;
/// An IP packet without a link header.
pub const RAW_IP: i32 = 101;
/// `tcpdump -i any`: 16 bytes ahead of the packet, the last two an EtherType.
pub const LINUX_SLL: i32 = 113;
/// The same, second version: 20 bytes, the first two an EtherType.
pub const LINUX_SLL2: i32 = 276;

/// Why a file cannot be read any further.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadError {
    /// Neither pcap nor pcapng.
    NotACapture,
    /// It ends within a block.
    CutShort,
    /// A block that is broken, or too long to be held.
    Broken,
    /// A packet of an interface that was not described.
    NoInterface,
    /// More interfaces than are followed.
    TooManyInterfaces,
    /// The system cannot read it.
    Io,
}

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ReadError::NotACapture => "found neither pcap nor pcapng",
            ReadError::CutShort => "found the end of the file within a block",
            ReadError::Broken => "found a block that is broken or longer than 4 MiB",
            ReadError::NoInterface => "found a packet of an interface that is not described",
            ReadError::TooManyInterfaces => "found more than 65,536 interfaces",
            ReadError::Io => "cannot be read",
        })
    }
}

impl std::error::Error for ReadError {}

/// An interface of a capture.
#[derive(Clone, Debug)]
pub struct Interface {
    /// Its name, where the file has one.
    pub name: Option<String>,
    /// What its frames begin with.
    pub link_type: i32,
    /// Its rate, where the file has it, bit/s.
    pub speed_bps: Option<u64>,
    units_per_second: u64,
    offset_s: i64,
}

/// A frame of a capture.
#[derive(Clone, Copy, Debug)]
pub struct Captured<'a> {
    /// Number of its interface in the file.
    pub interface: u32,
    /// What it begins with.
    pub link_type: i32,
    /// Since 1970, picoseconds.
    pub at_ps: i128,
    /// Its length on the wire, as the capture has it.
    pub length: u32,
    /// What was kept of it.
    pub bytes: &'a [u8],
}

/// A capture that is being read.
pub struct Reader {
    blocks: Box<dyn PcapReaderIterator + Send>,
    interfaces: Vec<Interface>,
    /// Of the current section.
    first_interface: usize,
    /// Bytes of the frame that was handed out.
    taken: usize,
    read_bytes: u64,
    names: BTreeMap<String, String>,
    /// Of pcap: units of a second.
    legacy_units: u64,
}

impl Reader {
    /// Begins to read.
    ///
    /// # Errors
    /// [`ReadError::NotACapture`].
    pub fn new(file: impl Read + Send + 'static) -> Result<Reader, ReadError> {
        let blocks = create_reader(BUFFER_BYTES, file).map_err(|error| match error {
            PcapError::ReadError => ReadError::Io,
            _ => ReadError::NotACapture,
        })?;
        Ok(Reader {
            blocks,
            interfaces: Vec::new(),
            first_interface: 0,
            taken: 0,
            read_bytes: 0,
            names: BTreeMap::new(),
            legacy_units: 1_000_000,
        })
    }

    /// All interfaces so far.
    pub fn interfaces(&self) -> &[Interface] {
        &self.interfaces
    }

    /// Names of addresses, where the file has them.
    pub fn names(&self) -> &BTreeMap<String, String> {
        &self.names
    }

    /// Bytes of the file that were read.
    pub fn read_bytes(&self) -> u64 {
        self.read_bytes
    }

    fn consume(&mut self) {
        self.read_bytes += self.taken as u64;
        self.blocks.consume(self.taken);
        self.taken = 0;
    }

    /// The next frame; none: the file ends.
    ///
    /// # Errors
    /// Why there is no further one.
    pub fn next_frame(&mut self) -> Result<Option<Captured<'_>>, ReadError> {
        loop {
            self.consume();
            let (taken, found) = match self.blocks.next() {
                Ok((taken, block)) => {
                    let first = self.first_interface;
                    let found = match block {
                        PcapBlockOwned::LegacyHeader(header) => {
                            self.legacy_units =
                                if header.is_nanosecond_precision() { 1_000_000_000 } else { 1_000_000 };
                            Found::Interface(Interface {
                                name: None,
                                link_type: header.network.0,
                                speed_bps: None,
                                units_per_second: 1_000_000,
                                offset_s: 0,
                            })
                        }
                        PcapBlockOwned::Legacy(frame) => {
                            let fraction = frame.ts_usec as u128 * PS_PER_SECOND / self.legacy_units as u128;
                            let at_ps = (frame.ts_sec as u128 * PS_PER_SECOND + fraction) as i128;
                            let kept = (frame.caplen as usize).min(frame.data.len());
                            let ahead = taken - frame.data.len();
                            Found::Frame { interface: 0, at_ps, length: frame.origlen, ahead, kept }
                        }
                        PcapBlockOwned::NG(Block::SectionHeader(_)) => Found::Section,
                        PcapBlockOwned::NG(Block::InterfaceDescription(described)) => {
                            Found::Interface(interface(&described))
                        }
                        PcapBlockOwned::NG(Block::EnhancedPacket(packet)) => {
                            let interface = first + packet.if_id as usize;
                            let clock = self.interfaces.get(interface).ok_or(ReadError::NoInterface)?;
                            let units = (packet.ts_high as u64) << 32 | packet.ts_low as u64;
                            Found::Frame {
                                interface,
                                at_ps: clock.picoseconds(units),
                                length: packet.origlen,
                                ahead: PACKET_AHEAD_BYTES,
                                kept: packet.packet_data().len(),
                            }
                        }
                        PcapBlockOwned::NG(Block::NameResolution(block)) => {
                            for record in &block.nr {
                                add_name(&mut self.names, record.record_type.0, record.record_value);
                            }
                            Found::Nothing
                        }
                        // A simple packet has no time; the rest are no packets.
                        PcapBlockOwned::NG(_) => Found::Nothing,
                    };
                    (taken, found)
                }
                Err(PcapError::Eof) => return Ok(None),
                Err(PcapError::Incomplete(_)) => {
                    self.blocks.refill().map_err(|_| ReadError::Io)?;
                    continue;
                }
                Err(PcapError::UnexpectedEof) => return Err(ReadError::CutShort),
                Err(PcapError::ReadError) => return Err(ReadError::Io),
                Err(PcapError::HeaderNotRecognized) => return Err(ReadError::NotACapture),
                Err(_) => return Err(ReadError::Broken),
            };
            if taken == 0 {
                return Err(ReadError::Broken);
            }
            self.taken = taken;
            match found {
                Found::Nothing => {}
                Found::Section => self.first_interface = self.interfaces.len(),
                Found::Interface(interface) => {
                    if self.interfaces.len() == MAX_INTERFACES {
                        return Err(ReadError::TooManyInterfaces);
                    }
                    self.interfaces.push(interface);
                }
                Found::Frame { interface, at_ps, length, ahead, kept } => {
                    let bytes = &self.blocks.data()[ahead..ahead + kept];
                    let link_type = self.interfaces[interface].link_type;
                    return Ok(Some(Captured {
                        interface: interface as u32,
                        link_type,
                        at_ps,
                        length,
                        bytes,
                    }));
                }
            }
        }
    }
}

enum Found {
    Nothing,
    Section,
    Interface(Interface),
    Frame { interface: usize, at_ps: i128, length: u32, ahead: usize, kept: usize },
}

impl Interface {
    fn picoseconds(&self, units: u64) -> i128 {
        let units_per_second = self.units_per_second as u128;
        // 2^64 units of a second times 10^12 fit 128 bits.
        (units as u128 * PS_PER_SECOND / units_per_second) as i128
            + self.offset_s as i128 * PS_PER_SECOND as i128
    }
}

/// An IPv4 record: the address, and names with a 0 behind each (draft-ietf-opsawg-pcapng, 4.5).
fn add_name(names: &mut BTreeMap<String, String>, kind: u16, value: &[u8]) {
    let (Some((address, rest)), true) = (value.split_first_chunk::<4>(), kind == 1) else { return };
    let name = rest.split(|&byte| byte == 0).next().and_then(|name| std::str::from_utf8(name).ok());
    if let Some(name) = name.filter(|name| !name.is_empty() && names.len() < MAX_INTERFACES) {
        names.insert(Ipv4Addr::from(*address).to_string(), name.chars().take(64).collect());
    }
}

fn interface(described: &pcap_parser::InterfaceDescriptionBlock) -> Interface {
    // A power of two where the first bit is set, else of ten (draft-ietf-opsawg-pcapng, 4.2); the library knows those of ten.
    let resolution = described.if_tsresol;
    let exponent = (resolution & 0x7f) as u32;
    let units = if resolution & 0x80 == 0 { 10u64.checked_pow(exponent) } else { 1u64.checked_shl(exponent) };
    let speed = described.options.iter().find(|option| option.code == OptionCode::IfSpeed);
    let big_endian = described.block_type != pcap_parser::IDB_MAGIC;
    let speed_bps = speed.and_then(|option| {
        let bytes: [u8; 8] = option.value().get(..8)?.try_into().ok()?;
        Some(if big_endian { u64::from_be_bytes(bytes) } else { u64::from_le_bytes(bytes) })
    });
    Interface {
        name: described.if_name().and_then(Result::ok).map(|name| name.chars().take(64).collect()),
        link_type: described.linktype.0,
        speed_bps: speed_bps.filter(|&speed| speed > 0),
        units_per_second: units.unwrap_or(1_000_000),
        offset_s: described.if_tsoffset,
    }
}
