//! Captures as a stream of frames: pcap and pcapng of either byte order, any resolution of time. Memory is bounded: what is read
//! of a file at once, and a name and a clock for each interface.

use std::collections::BTreeMap;
use std::fmt;
use std::io::{self, BufReader, Read};
use std::net::Ipv4Addr;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::Arc;

use flate2::bufread::MultiGzDecoder;
use pcap_parser::traits::PcapNGPacketBlock;
use pcap_parser::traits::PcapReaderIterator;
use pcap_parser::{create_reader, Block, OptionCode, PcapBlockOwned, PcapError, PcapNGOption};

/// Bytes of a file that are held at once, and so the longest block.
const BUFFER_BYTES: usize = 4 << 20;
/// Most interfaces of a file: sections and their descriptions may come without end.
const MAX_INTERFACES: usize = 1 << 16;
/// From the begin of an enhanced packet block to its frame, and of a simple and an old one.
const PACKET_AHEAD_BYTES: usize = 28;
const SIMPLE_AHEAD_BYTES: usize = 12;
const OLD_PACKET: u32 = 2;
/// Options that count frames which were not captured (draft-ietf-opsawg-pcapng, 4.3 and 4.6).
const EPB_DROPCOUNT: OptionCode = OptionCode(4);
const ISB_IFDROP: OptionCode = OptionCode(5);
const ISB_OSDROP: OptionCode = OptionCode(7);
const GZIP_MAGIC: [u8; 2] = [0x1f, 0x8b];
const PS_PER_SECOND: u128 = 1_000_000_000_000;

/// Link types (tcpdump.org, "Link-layer header types").
pub const ETHERNET: i32 = 1;
/// An IP packet without a link header: of OpenBSD, of others, of either version, IPv4, IPv6.
pub const RAW_IP: [i32; 5] = [12, 14, 101, 228, 229];
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
    /// The header of another capture at this byte, where the format goes on with its own blocks.
    Joined(u64),
    /// gzip that cannot be undone.
    BrokenGzip,
    /// The system cannot read it.
    Io,
}

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ReadError::Joined(at) => {
                return write!(f, "found the header of another capture at byte {at}, as cat joins files");
            }
            ReadError::NotACapture => "found neither pcap nor pcapng",
            ReadError::CutShort => "found the end of the file within a block",
            ReadError::Broken => "found a block that is broken or longer than 4 MiB",
            ReadError::NoInterface => "found a packet of an interface that is not described",
            ReadError::TooManyInterfaces => "found more than 65,536 interfaces",
            ReadError::BrokenGzip => "found gzip that is broken",
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
    /// Number of the first interface of its section of the file.
    pub section: usize,
    /// Step of its clock, seconds.
    pub clock_step_s: f64,
    /// Frames that were not captured: by the statistics at the end, and by the packets' own counts.
    lost: (u64, u64),
    snap_bytes: u32,
    units_per_second: u128,
    offset_s: i64,
}

/// A frame of a capture.
#[derive(Clone, Copy, Debug)]
pub struct Captured<'a> {
    /// Number of its interface in the file.
    pub interface: u32,
    /// What it begins with.
    pub link_type: i32,
    /// Since 1970, picoseconds; none: the file does not say when (simple packet blocks).
    pub at_ps: Option<i128>,
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
    source: Arc<SourceState>,
    names: BTreeMap<String, String>,
    /// Of pcap: units of a second.
    legacy_units: u64,
    big_endian: bool,
}

/// What became of the file below the blocks, which know only that it ended.
#[derive(Default)]
struct SourceState {
    /// Bytes of the file, compressed or not.
    read_bytes: AtomicU64,
    gzip_ended_early: AtomicBool,
    gzip_broken: AtomicBool,
}

/// A file that gives as many bytes as are asked for unless it ends: a pipe gives fewer.
struct Source<R> {
    from: R,
    state: Arc<SourceState>,
}

impl<R: Read> Read for Source<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let mut filled = 0;
        while filled < into.len() {
            match self.from.read(&mut into[filled..]) {
                Ok(0) => break,
                Ok(read) => filled += read,
                Err(error) => match error.kind() {
                    io::ErrorKind::Interrupted => {}
                    io::ErrorKind::UnexpectedEof => {
                        self.state.gzip_ended_early.store(true, Relaxed);
                        break;
                    }
                    io::ErrorKind::InvalidInput | io::ErrorKind::InvalidData => {
                        self.state.gzip_broken.store(true, Relaxed);
                        break;
                    }
                    _ => return Err(error),
                },
            }
        }
        Ok(filled)
    }
}

/// Counts what is read.
struct Counting<R> {
    from: R,
    state: Arc<SourceState>,
}

impl<R: Read> Read for Counting<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let read = self.from.read(into)?;
        self.state.read_bytes.fetch_add(read as u64, Relaxed);
        Ok(read)
    }
}

/// The bytes of a capture: of the file, or of what gzip made it from.
fn source(file: impl Read + Send + 'static, state: &Arc<SourceState>) -> io::Result<Box<dyn Read + Send>> {
    let mut file = Counting { from: file, state: Arc::clone(state) };
    let mut begin = Vec::with_capacity(GZIP_MAGIC.len());
    file.by_ref().take(GZIP_MAGIC.len() as u64).read_to_end(&mut begin)?;
    let zipped = begin == GZIP_MAGIC;
    let file = io::Cursor::new(begin).chain(file);
    let state = Arc::clone(state);
    Ok(if zipped {
        Box::new(Source { from: MultiGzDecoder::new(BufReader::with_capacity(1 << 16, file)), state })
    } else {
        Box::new(Source { from: file, state })
    })
}

impl Reader {
    /// Begins to read.
    ///
    /// # Errors
    /// [`ReadError::NotACapture`].
    pub fn new(file: impl Read + Send + 'static) -> Result<Reader, ReadError> {
        let state = Arc::default();
        let from = source(file, &state).map_err(|_| ReadError::Io)?;
        let blocks = create_reader(BUFFER_BYTES, from).map_err(|error| match error {
            _ if state.gzip_broken.load(Relaxed) => ReadError::BrokenGzip,
            PcapError::ReadError => ReadError::Io,
            _ => ReadError::NotACapture,
        })?;
        Ok(Reader {
            blocks,
            interfaces: Vec::new(),
            first_interface: 0,
            taken: 0,
            read_bytes: 0,
            source: state,
            names: BTreeMap::new(),
            legacy_units: 1_000_000,
            big_endian: false,
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

    /// Frames that the program which captured lost, as the file says.
    pub fn lost_by_capture(&self) -> u64 {
        self.interfaces.iter().map(|interface| interface.lost.0.max(interface.lost.1)).sum()
    }

    /// Bytes of the capture that were read, without compression.
    pub fn read_bytes(&self) -> u64 {
        self.read_bytes
    }

    /// Bytes of the file that were read; some may be ahead of [`Self::read_bytes`].
    pub fn source_bytes(&self) -> u64 {
        self.source.read_bytes.load(Relaxed)
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
            let read_bytes = self.read_bytes;
            let (taken, found) = match self.blocks.next() {
                Ok((taken, block)) => {
                    let first = self.first_interface;
                    let found = match block {
                        PcapBlockOwned::LegacyHeader(header) => {
                            self.legacy_units =
                                if header.is_nanosecond_precision() { 1_000_000_000 } else { 1_000_000 };
                            Found::Interface(Interface {
                                name: None,
                                // What lies above is the length of the FCS (draft-ietf-opsawg-pcap, 4).
                                link_type: header.network.0 & 0xffff,
                                speed_bps: None,
                                section: 0,
                                lost: (0, 0),
                                clock_step_s: 1.0 / self.legacy_units as f64,
                                snap_bytes: 0,
                                units_per_second: self.legacy_units as u128,
                                offset_s: 0,
                            })
                        }
                        PcapBlockOwned::Legacy(frame)
                            if begins_pcap(frame.ts_sec, frame.ts_usec) && frame.caplen == 0 =>
                        {
                            return Err(ReadError::Joined(read_bytes));
                        }
                        PcapBlockOwned::Legacy(frame) => {
                            // Both are powers of ten, and the product is less than 2^64.
                            let fraction = frame.ts_usec as u64 * (PS_PER_SECOND as u64 / self.legacy_units);
                            let at_ps = (frame.ts_sec as u128 * PS_PER_SECOND + fraction as u128) as i128;
                            let kept = (frame.caplen as usize).min(frame.data.len());
                            let ahead = taken - frame.data.len();
                            Found::Frame {
                                interface: 0,
                                at_ps: Some(at_ps),
                                length: frame.origlen,
                                ahead,
                                kept,
                            }
                        }
                        PcapBlockOwned::NG(Block::SectionHeader(header)) => {
                            self.big_endian = header.big_endian();
                            Found::Section
                        }
                        PcapBlockOwned::NG(Block::InterfaceDescription(described)) => {
                            Found::Interface(interface(&described))
                        }
                        PcapBlockOwned::NG(Block::EnhancedPacket(packet)) => {
                            let interface = first + packet.if_id as usize;
                            let clock = self.interfaces.get_mut(interface).ok_or(ReadError::NoInterface)?;
                            if !packet.options.is_empty() {
                                let lost = eight_bytes(&packet.options, EPB_DROPCOUNT, self.big_endian);
                                clock.lost.1 = clock.lost.1.saturating_add(lost.unwrap_or(0));
                            }
                            let units = (packet.ts_high as u64) << 32 | packet.ts_low as u64;
                            Found::Frame {
                                interface,
                                at_ps: Some(clock.picoseconds(units)),
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
                        PcapBlockOwned::NG(Block::SimplePacket(packet)) => {
                            let described = self.interfaces.get(first).ok_or(ReadError::NoInterface)?;
                            let snap = match described.snap_bytes {
                                0 => usize::MAX,
                                bytes => bytes as usize,
                            };
                            Found::Frame {
                                interface: first,
                                at_ps: None,
                                length: packet.origlen,
                                ahead: SIMPLE_AHEAD_BYTES,
                                kept: packet.packet_data().len().min(snap),
                            }
                        }
                        PcapBlockOwned::NG(Block::Unknown(block))
                            if block_type(&block, self.big_endian) == OLD_PACKET =>
                        {
                            let packet = OldPacket::parse(block.data, self.big_endian)?;
                            let interface = first + packet.interface as usize;
                            let clock = self.interfaces.get(interface).ok_or(ReadError::NoInterface)?;
                            Found::Frame {
                                interface,
                                at_ps: Some(clock.picoseconds(packet.units)),
                                length: packet.length,
                                ahead: PACKET_AHEAD_BYTES,
                                kept: packet.kept,
                            }
                        }
                        PcapBlockOwned::NG(Block::InterfaceStatistics(statistics)) => {
                            let lost = [ISB_IFDROP, ISB_OSDROP].map(|code| {
                                eight_bytes(&statistics.options, code, self.big_endian).unwrap_or(0)
                            });
                            if let Some(interface) =
                                self.interfaces.get_mut(first + statistics.if_id as usize)
                            {
                                interface.lost.0 = lost[0].saturating_add(lost[1]);
                            }
                            Found::Nothing
                        }
                        // The rest are no packets.
                        PcapBlockOwned::NG(_) => Found::Nothing,
                    };
                    (taken, found)
                }
                Err(PcapError::Eof | PcapError::UnexpectedEof) if self.source.gzip_broken.load(Relaxed) => {
                    return Err(ReadError::BrokenGzip)
                }
                Err(PcapError::Eof) if self.source.gzip_ended_early.load(Relaxed) => {
                    return Err(ReadError::CutShort)
                }
                Err(PcapError::Eof) => return Ok(None),
                Err(PcapError::Incomplete(_)) => {
                    self.blocks.refill().map_err(|_| ReadError::Io)?;
                    continue;
                }
                Err(PcapError::ReadError) => return Err(ReadError::Io),
                Err(error) => {
                    let why = match error {
                        PcapError::UnexpectedEof => ReadError::CutShort,
                        PcapError::HeaderNotRecognized => ReadError::NotACapture,
                        _ => ReadError::Broken,
                    };
                    let joined = read_bytes > 0 && begins_capture(self.blocks.data());
                    return Err(if joined { ReadError::Joined(read_bytes) } else { why });
                }
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
                    self.interfaces.push(Interface { section: self.first_interface, ..interface });
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

/// Whether these are the first two words of a pcap: its magic number (of microseconds, nanoseconds, or Kuznetzov's format)
/// and version 2.4, in the byte order of the reader or in the other.
fn begins_pcap(magic: u32, version: u32) -> bool {
    const MAGIC: [u32; 3] = [0xa1b2_c3d4, 0xa1b2_3c4d, 0xa1b2_cd34];
    // Two fields of 16 bits each, so that what is one word here depends on the byte order.
    MAGIC.iter().any(|&one| one == magic || one.swap_bytes() == magic)
        && [0x0004_0002, 0x0002_0004, 0x0400_0200, 0x0200_0400].contains(&version)
}

/// Whether a pcap or a section of pcapng begins here.
fn begins_capture(data: &[u8]) -> bool {
    const SECTION: [u8; 4] = [0x0a, 0x0d, 0x0d, 0x0a];
    const BYTE_ORDER: u32 = 0x1a2b_3c4d;
    let Some(words) = data.first_chunk::<12>() else { return false };
    let word = |at: usize| u32::from_le_bytes([words[at], words[at + 1], words[at + 2], words[at + 3]]);
    let is_section = words[..4] == SECTION && (word(8) == BYTE_ORDER || word(8).swap_bytes() == BYTE_ORDER);
    is_section || begins_pcap(word(0), word(4))
}

enum Found {
    Nothing,
    Section,
    Interface(Interface),
    Frame { interface: usize, at_ps: Option<i128>, length: u32, ahead: usize, kept: usize },
}

impl Interface {
    fn picoseconds(&self, units: u64) -> i128 {
        // 2^64 units of a second times 10^12 fit 128 bits.
        let product = units as u128 * PS_PER_SECOND;
        // 128-bit division is slow, and most clocks tick in nanoseconds or microseconds.
        let fraction = match (u64::try_from(self.units_per_second), units.checked_mul(1000)) {
            (Ok(1_000_000_000), Some(ps)) => ps as u128,
            (Ok(1_000_000), _) => units as u128 * 1_000_000,
            _ => product / self.units_per_second,
        };
        fraction as i128 + self.offset_s as i128 * PS_PER_SECOND as i128
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

/// The first option of this code. The library reads those of 8 bytes as little-endian in every file.
fn eight_bytes(options: &[PcapNGOption], code: OptionCode, big_endian: bool) -> Option<u64> {
    let option = options.iter().find(|option| option.code == code)?;
    let bytes: [u8; 8] = option.value().get(..8)?.try_into().ok()?;
    Some(if big_endian { u64::from_be_bytes(bytes) } else { u64::from_le_bytes(bytes) })
}

/// The type of a block that the library does not know.
fn block_type(block: &pcap_parser::UnknownBlock, big_endian: bool) -> u32 {
    if big_endian {
        block.block_type.swap_bytes()
    } else {
        block.block_type
    }
}

/// The fields of a packet block, the predecessor of the enhanced one (draft-ietf-opsawg-pcapng, appendix A).
struct OldPacket {
    interface: u16,
    units: u64,
    length: u32,
    kept: usize,
}

impl OldPacket {
    const FIELDS_BYTES: usize = 20;

    fn parse(body: &[u8], big_endian: bool) -> Result<OldPacket, ReadError> {
        let fields: [u8; OldPacket::FIELDS_BYTES] = *body.first_chunk().ok_or(ReadError::Broken)?;
        let word = |at: usize| {
            let bytes = [fields[at], fields[at + 1], fields[at + 2], fields[at + 3]];
            if big_endian {
                u32::from_be_bytes(bytes)
            } else {
                u32::from_le_bytes(bytes)
            }
        };
        let kept = word(12) as usize;
        if kept > body.len() - OldPacket::FIELDS_BYTES {
            return Err(ReadError::Broken);
        }
        let interface = [fields[0], fields[1]];
        Ok(OldPacket {
            interface: if big_endian { u16::from_be_bytes(interface) } else { u16::from_le_bytes(interface) },
            units: (word(4) as u64) << 32 | word(8) as u64,
            length: word(16),
            kept,
        })
    }
}

fn interface(described: &pcap_parser::InterfaceDescriptionBlock) -> Interface {
    let big_endian = described.block_type != pcap_parser::IDB_MAGIC;
    let option = |code: OptionCode| eight_bytes(&described.options, code, big_endian);
    // A power of two where the first bit is set, else of ten (draft-ietf-opsawg-pcapng, 4.2).
    let exponent = (described.if_tsresol & 0x7f) as u32;
    let (base, two) =
        (if described.if_tsresol & 0x80 == 0 { 10.0f64 } else { 2.0 }, described.if_tsresol & 0x80 != 0);
    // Of more units than fit, 2^64 are less than a picosecond.
    let units = if two { 1u128.checked_shl(exponent) } else { 10u128.checked_pow(exponent) };
    Interface {
        name: described.if_name().and_then(Result::ok).map(|name| name.chars().take(64).collect()),
        link_type: described.linktype.0,
        section: 0,
        speed_bps: option(OptionCode::IfSpeed).filter(|&speed| speed > 0),
        lost: (0, 0),
        clock_step_s: base.powi(-(exponent as i32)),
        snap_bytes: described.snaplen,
        units_per_second: units.unwrap_or(u128::MAX),
        offset_s: option(OptionCode::IfTsoffset).unwrap_or(0) as i64,
    }
}
