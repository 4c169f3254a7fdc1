//! Base transport header (IBTA 9.2).

use super::{number, put, split, Error};
use crate::units::Time;

/// A base transport header: on every RoCEv2 packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bth {
    /// What the packet is, and which headers follow.
    pub opcode: Opcode,
    /// Solicited event (SE).
    pub solicited_event: bool,
    /// Migration state (MigReq).
    pub mig_req: bool,
    /// Bytes that pad the payload to a multiple of 4 (PadCnt), 2 bits.
    pub pad_cnt: u8,
    /// Transport header version (TVer), 4 bits: 0.
    pub t_ver: u8,
    /// Partition key.
    pub p_key: u16,
    /// Forward explicit congestion notification.
    pub fecn: bool,
    /// Backward explicit congestion notification: set on a CNP (annex A17).
    pub becn: bool,
    /// Destination queue pair, 24 bits.
    pub dest_qp: u32,
    /// True if an acknowledgement is asked for (AckReq).
    pub ack_req: bool,
    /// Packet sequence number, 24 bits.
    pub psn: u32,
}

/// Partition key of everyone who was given none: the default partition, full member (IBTA 10.9.2).
pub const DEFAULT_P_KEY: u16 = 0xffff;

/// Largest 24-bit number, for queue pairs and sequence numbers.
pub const MAX_24_BITS: u32 = 0xff_ffff;

impl Bth {
    /// Bytes that it takes.
    pub const LEN: usize = 12;

    /// The header of a packet with `payload_len` bytes of payload, in the default partition, with no flag set.
    pub fn new(opcode: Opcode, dest_qp: u32, psn: u32, payload_len: usize) -> Bth {
        Bth {
            opcode,
            solicited_event: false,
            mig_req: false,
            pad_cnt: pad_cnt(payload_len),
            t_ver: 0,
            p_key: DEFAULT_P_KEY,
            fecn: false,
            becn: false,
            dest_qp,
            ack_req: false,
            psn,
        }
    }

    /// Reads the header: it, and what follows.
    ///
    /// # Errors
    /// [`Error::Truncated`].
    pub fn parse(bytes: &[u8]) -> Result<(Bth, &[u8]), Error> {
        let (header, rest) = split::<{ Bth::LEN }>(bytes)?;
        let bth = Bth {
            opcode: Opcode::from(header[0]),
            solicited_event: header[1] & 0x80 != 0,
            mig_req: header[1] & 0x40 != 0,
            pad_cnt: header[1] >> 4 & 3,
            t_ver: header[1] & 0xf,
            p_key: number::<2>(header, 2) as u16,
            fecn: header[4] & 0x80 != 0,
            becn: header[4] & 0x40 != 0,
            dest_qp: number::<3>(header, 5) as u32,
            ack_req: header[8] & 0x80 != 0,
            psn: number::<3>(header, 9) as u32,
        };
        Ok((bth, rest))
    }

    /// Writes the header into the first [`Self::LEN`] bytes; panics if there are fewer.
    pub fn emit(&self, bytes: &mut [u8]) {
        bytes[0] = self.opcode.into();
        bytes[1] = (self.solicited_event as u8) << 7
            | (self.mig_req as u8) << 6
            | (self.pad_cnt & 3) << 4
            | self.t_ver & 0xf;
        put::<2>(bytes, 2, self.p_key as u64);
        bytes[4] = (self.fecn as u8) << 7 | (self.becn as u8) << 6;
        put::<3>(bytes, 5, self.dest_qp as u64);
        bytes[8] = (self.ack_req as u8) << 7;
        put::<3>(bytes, 9, self.psn as u64);
    }
}

/// Bytes that pad the payload to a multiple of 4.
pub const fn pad_cnt(payload_len: usize) -> u8 {
    (payload_len.wrapping_neg() % 4) as u8
}

// Opcodes of the BTH (IBTA 9.2, "OpCode field"): the service in the upper three bits, the operation in the lower five.

/// An opcode: those of the reliable connection, and that of a CNP.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Opcode {
    SendFirst,
    SendMiddle,
    SendLast,
    SendLastWithImmediate,
    SendOnly,
    SendOnlyWithImmediate,
    WriteFirst,
    WriteMiddle,
    WriteLast,
    WriteLastWithImmediate,
    WriteOnly,
    WriteOnlyWithImmediate,
    ReadRequest,
    ReadResponseFirst,
    ReadResponseMiddle,
    ReadResponseLast,
    ReadResponseOnly,
    Acknowledge,
    AtomicAcknowledge,
    CompareSwap,
    FetchAdd,
    /// Congestion notification packet (annex A17, "RoCEv2 congestion management").
    Cnp,
    /// Any other: an unreliable or datagram service, an invalidation, a vendor's own.
    Other(u8),
}

/// Which extended headers lie between a BTH and its payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExtensionKind {
    None,
    Reth,
    RethImmDt,
    ImmDt,
    Aeth,
    AtomicAck,
    AtomicEth,
    CnpReserved,
}

impl Opcode {
    /// Those of the reliable connection, in the order of their numbers from 0 on.
    pub const RELIABLE_CONNECTION: [Opcode; 21] = [
        Opcode::SendFirst,
        Opcode::SendMiddle,
        Opcode::SendLast,
        Opcode::SendLastWithImmediate,
        Opcode::SendOnly,
        Opcode::SendOnlyWithImmediate,
        Opcode::WriteFirst,
        Opcode::WriteMiddle,
        Opcode::WriteLast,
        Opcode::WriteLastWithImmediate,
        Opcode::WriteOnly,
        Opcode::WriteOnlyWithImmediate,
        Opcode::ReadRequest,
        Opcode::ReadResponseFirst,
        Opcode::ReadResponseMiddle,
        Opcode::ReadResponseLast,
        Opcode::ReadResponseOnly,
        Opcode::Acknowledge,
        Opcode::AtomicAcknowledge,
        Opcode::CompareSwap,
        Opcode::FetchAdd,
    ];
    const CNP: u8 = 0x81;

    /// The extended headers that follow the BTH (IBTA 9.2, table of opcodes).
    pub const fn extension(self) -> ExtensionKind {
        use Opcode::*;
        match self {
            WriteFirst | WriteOnly | ReadRequest => ExtensionKind::Reth,
            WriteOnlyWithImmediate => ExtensionKind::RethImmDt,
            SendLastWithImmediate | SendOnlyWithImmediate | WriteLastWithImmediate => ExtensionKind::ImmDt,
            ReadResponseFirst | ReadResponseLast | ReadResponseOnly | Acknowledge => ExtensionKind::Aeth,
            AtomicAcknowledge => ExtensionKind::AtomicAck,
            CompareSwap | FetchAdd => ExtensionKind::AtomicEth,
            Cnp => ExtensionKind::CnpReserved,
            SendFirst | SendMiddle | SendLast | SendOnly | WriteMiddle | WriteLast | ReadResponseMiddle
            | Other(_) => ExtensionKind::None,
        }
    }

    /// True if it is a request, which takes a PSN of its requester.
    pub fn is_request(self) -> bool {
        self <= Opcode::ReadRequest || matches!(self, Opcode::CompareSwap | Opcode::FetchAdd)
    }
}

impl From<u8> for Opcode {
    fn from(number: u8) -> Opcode {
        match Opcode::RELIABLE_CONNECTION.get(number as usize) {
            Some(&opcode) => opcode,
            None if number == Opcode::CNP => Opcode::Cnp,
            None => Opcode::Other(number),
        }
    }
}

impl From<Opcode> for u8 {
    fn from(opcode: Opcode) -> u8 {
        match opcode {
            Opcode::Cnp => Opcode::CNP,
            Opcode::Other(number) => number,
            known => Opcode::RELIABLE_CONNECTION.iter().position(|&o| o == known).expect("listed") as u8,
        }
    }
}

// The headers of a RoCEv2 packet: the BTH and the extended headers that its opcode calls for.

impl ExtensionKind {
    /// Bytes that they take.
    pub const fn header_len(self) -> usize {
        match self {
            ExtensionKind::None => 0,
            ExtensionKind::Reth => Reth::LEN,
            ExtensionKind::RethImmDt => Reth::LEN + ImmDt::LEN,
            ExtensionKind::ImmDt => ImmDt::LEN,
            ExtensionKind::Aeth => Aeth::LEN,
            ExtensionKind::AtomicAck => Aeth::LEN + AtomicAckEth::LEN,
            ExtensionKind::AtomicEth => AtomicEth::LEN,
            ExtensionKind::CnpReserved => CNP_RESERVED_BYTES,
        }
    }
}

/// The extended headers of a packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Extension {
    #[default]
    None,
    Reth(Reth),
    RethImmDt(Reth, ImmDt),
    ImmDt(ImmDt),
    Aeth(Aeth),
    AtomicAck(Aeth, AtomicAckEth),
    AtomicEth(AtomicEth),
    CnpReserved,
}

impl Extension {
    /// Which they are.
    pub const fn kind(&self) -> ExtensionKind {
        match self {
            Extension::None => ExtensionKind::None,
            Extension::Reth(_) => ExtensionKind::Reth,
            Extension::RethImmDt(..) => ExtensionKind::RethImmDt,
            Extension::ImmDt(_) => ExtensionKind::ImmDt,
            Extension::Aeth(_) => ExtensionKind::Aeth,
            Extension::AtomicAck(..) => ExtensionKind::AtomicAck,
            Extension::AtomicEth(_) => ExtensionKind::AtomicEth,
            Extension::CnpReserved => ExtensionKind::CnpReserved,
        }
    }

    fn parse(kind: ExtensionKind, bytes: &[u8]) -> Result<(Extension, &[u8]), Error> {
        Ok(match kind {
            ExtensionKind::None => (Extension::None, bytes),
            ExtensionKind::Reth => {
                let (reth, rest) = Reth::parse(bytes)?;
                (Extension::Reth(reth), rest)
            }
            ExtensionKind::RethImmDt => {
                let (reth, rest) = Reth::parse(bytes)?;
                let (immediate, rest) = ImmDt::parse(rest)?;
                (Extension::RethImmDt(reth, immediate), rest)
            }
            ExtensionKind::ImmDt => {
                let (immediate, rest) = ImmDt::parse(bytes)?;
                (Extension::ImmDt(immediate), rest)
            }
            ExtensionKind::Aeth => {
                let (aeth, rest) = Aeth::parse(bytes)?;
                (Extension::Aeth(aeth), rest)
            }
            ExtensionKind::AtomicAck => {
                let (aeth, rest) = Aeth::parse(bytes)?;
                let (atomic, rest) = AtomicAckEth::parse(rest)?;
                (Extension::AtomicAck(aeth, atomic), rest)
            }
            ExtensionKind::AtomicEth => {
                let (atomic, rest) = AtomicEth::parse(bytes)?;
                (Extension::AtomicEth(atomic), rest)
            }
            ExtensionKind::CnpReserved => {
                let (_, rest) = split::<{ CNP_RESERVED_BYTES }>(bytes)?;
                (Extension::CnpReserved, rest)
            }
        })
    }

    fn emit(&self, bytes: &mut [u8]) {
        match self {
            Extension::None => {}
            Extension::Reth(reth) => reth.emit(bytes),
            Extension::RethImmDt(reth, immediate) => {
                reth.emit(bytes);
                immediate.emit(&mut bytes[Reth::LEN..]);
            }
            Extension::ImmDt(immediate) => immediate.emit(bytes),
            Extension::Aeth(aeth) => aeth.emit(bytes),
            Extension::AtomicAck(aeth, atomic) => {
                aeth.emit(bytes);
                atomic.emit(&mut bytes[Aeth::LEN..]);
            }
            Extension::AtomicEth(atomic) => atomic.emit(bytes),
            Extension::CnpReserved => bytes[..CNP_RESERVED_BYTES].fill(0),
        }
    }
}

/// The headers of a RoCEv2 packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TransportHeaders {
    /// Base transport header.
    pub bth: Bth,
    /// What its opcode calls for.
    pub extension: Extension,
}

impl TransportHeaders {
    /// Reads the headers: them, and what follows, which is the payload and its pad.
    ///
    /// # Errors
    /// [`Error::Truncated`].
    pub fn parse(bytes: &[u8]) -> Result<(TransportHeaders, &[u8]), Error> {
        let (bth, rest) = Bth::parse(bytes)?;
        let (extension, rest) = Extension::parse(bth.opcode.extension(), rest)?;
        Ok((TransportHeaders { bth, extension }, rest))
    }

    /// Bytes that they take.
    pub const fn header_len(&self) -> usize {
        Bth::LEN + self.bth.opcode.extension().header_len()
    }

    /// Writes the headers into the first [`Self::header_len`] bytes; panics if there are fewer.
    ///
    /// # Errors
    /// [`Error::Opcode`] where the extended headers are not those of the opcode.
    pub fn emit(&self, bytes: &mut [u8]) -> Result<(), Error> {
        if self.extension.kind() != self.bth.opcode.extension() {
            return Err(Error::Opcode);
        }
        self.bth.emit(bytes);
        self.extension.emit(&mut bytes[Bth::LEN..]);
        Ok(())
    }
}

// RDMA extended transport header (IBTA 9.3): on the first or only packet of a WRITE, and on a READ request.

/// An RDMA extended transport header.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reth {
    /// Virtual address of the remote memory.
    pub va: u64,
    /// Remote key.
    pub r_key: u32,
    /// Length of the message (DMALen), bytes.
    pub dma_len: u32,
}

impl Reth {
    /// Bytes that it takes.
    pub const LEN: usize = 16;

    /// Reads the header: it, and what follows.
    ///
    /// # Errors
    /// [`Error::Truncated`].
    pub fn parse(bytes: &[u8]) -> Result<(Reth, &[u8]), Error> {
        let (header, rest) = split::<{ Reth::LEN }>(bytes)?;
        let reth = Reth {
            va: number::<8>(header, 0),
            r_key: number::<4>(header, 8) as u32,
            dma_len: number::<4>(header, 12) as u32,
        };
        Ok((reth, rest))
    }

    /// Writes the header into the first [`Self::LEN`] bytes; panics if there are fewer.
    pub fn emit(&self, bytes: &mut [u8]) {
        put::<8>(bytes, 0, self.va);
        put::<4>(bytes, 8, self.r_key as u64);
        put::<4>(bytes, 12, self.dma_len as u64);
    }
}

// ACK extended transport header (IBTA 9.3, and 9.7.5.2 for the syndrome): on ACKs, NAKs and READ responses.

/// An ACK extended transport header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Aeth {
    /// What the packet says of the request.
    pub syndrome: Syndrome,
    /// Message sequence number, 24 bits: messages that the responder has completed, modulo 2^24.
    pub msn: u32,
}

/// What an acknowledgement says (IBTA 9.7.5.2, table of AETH syndromes).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Syndrome {
    /// All is well. The code of the receiver's credits, 5 bits: [`Syndrome::NO_CREDIT_LIMIT`] where it gives none.
    Ack {
        /// Credit count, as its code.
        credit_count: u8,
    },
    /// Receiver not ready: try again after [`rnr_timer`] of this code, 5 bits.
    RnrNak {
        /// Code of the time.
        timer: u8,
    },
    /// The request was refused.
    Nak(NakCode),
    /// A byte that the specification reserves.
    Reserved(u8),
}

/// Why a request was refused (IBTA 9.7.5.2, table of NAK codes).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum NakCode {
    /// A packet is missing. The BTH's PSN is the expected one.
    PsnSequenceError = 0,
    /// The request does not fit the queue pair or its own length.
    InvalidRequest = 1,
    /// The remote key, the address range or the access rights do not fit.
    RemoteAccessError = 2,
    /// The responder could not carry it out.
    RemoteOperationalError = 3,
    /// An invalid request of a reliable datagram.
    InvalidRdRequest = 4,
}

const NAK_CODES: [NakCode; 5] = [
    NakCode::PsnSequenceError,
    NakCode::InvalidRequest,
    NakCode::RemoteAccessError,
    NakCode::RemoteOperationalError,
    NakCode::InvalidRdRequest,
];

impl Syndrome {
    /// The credit code of a responder that does no end-to-end flow control.
    pub const NO_CREDIT_LIMIT: u8 = 0x1f;
    /// An ACK without credits.
    pub const ACK: Syndrome = Syndrome::Ack { credit_count: Syndrome::NO_CREDIT_LIMIT };
}

impl From<u8> for Syndrome {
    fn from(byte: u8) -> Syndrome {
        let low = byte & 0x1f;
        match byte >> 5 {
            0b000 => Syndrome::Ack { credit_count: low },
            0b001 => Syndrome::RnrNak { timer: low },
            0b011 => {
                NAK_CODES.get(low as usize).map_or(Syndrome::Reserved(byte), |&code| Syndrome::Nak(code))
            }
            _ => Syndrome::Reserved(byte),
        }
    }
}

impl From<Syndrome> for u8 {
    fn from(syndrome: Syndrome) -> u8 {
        match syndrome {
            Syndrome::Ack { credit_count } => credit_count & 0x1f,
            Syndrome::RnrNak { timer } => 0x20 | timer & 0x1f,
            Syndrome::Nak(code) => 0x60 | code as u8,
            Syndrome::Reserved(byte) => byte,
        }
    }
}

impl Aeth {
    /// Bytes that it takes.
    pub const LEN: usize = 4;

    /// Reads the header: it, and what follows.
    ///
    /// # Errors
    /// [`Error::Truncated`].
    pub fn parse(bytes: &[u8]) -> Result<(Aeth, &[u8]), Error> {
        let (header, rest) = split::<{ Aeth::LEN }>(bytes)?;
        Ok((Aeth { syndrome: Syndrome::from(header[0]), msn: number::<3>(header, 1) as u32 }, rest))
    }

    /// Writes the header into the first [`Self::LEN`] bytes; panics if there are fewer.
    pub fn emit(&self, bytes: &mut [u8]) {
        bytes[0] = self.syndrome.into();
        put::<3>(bytes, 1, self.msn as u64);
    }
}

/// How long to wait after an RNR NAK with this 5-bit code (IBTA 9.7.5.2, table of RNR NAK timer codes; Linux,
/// `ib_verbs.h`, `enum ib_rnr_timeout`).
pub const fn rnr_timer(code: u8) -> Time {
    const TENS_OF_US: [u16; 31] = [
        1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 1536, 2048, 3072,
        4096, 6144, 8192, 12288, 16384, 24576, 32768, 49152,
    ];
    match code & 0x1f {
        0 => Time::from_us(655_360),
        code => Time::from_us(10 * TENS_OF_US[code as usize - 1] as u64),
    }
}

// Immediate data (IBTA 9.3): on the last or only packet of a SEND or WRITE with immediate.

/// Immediate data: four bytes for the receiver's completion, as they are on the wire.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ImmDt(pub u32);

impl ImmDt {
    /// Bytes that it takes.
    pub const LEN: usize = 4;

    /// Reads it: it, and what follows.
    ///
    /// # Errors
    /// [`Error::Truncated`].
    pub fn parse(bytes: &[u8]) -> Result<(ImmDt, &[u8]), Error> {
        let (header, rest) = split::<{ ImmDt::LEN }>(bytes)?;
        Ok((ImmDt(number::<4>(header, 0) as u32), rest))
    }

    /// Writes it into the first [`Self::LEN`] bytes; panics if there are fewer.
    pub fn emit(&self, bytes: &mut [u8]) {
        put::<4>(bytes, 0, self.0 as u64);
    }
}

// Extended headers of atomic operations (IBTA 9.3): AtomicETH on the request, AtomicAckETH on its answer.

/// Atomic extended transport header: on CompareSwap and FetchAdd.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AtomicEth {
    /// Virtual address of the remote eight bytes.
    pub va: u64,
    /// Remote key.
    pub r_key: u32,
    /// What to write, or to add (SwapDt, AddDt).
    pub swap_dt: u64,
    /// What to compare with (CmpDt).
    pub cmp_dt: u64,
}

impl AtomicEth {
    /// Bytes that it takes.
    pub const LEN: usize = 28;

    /// Reads the header: it, and what follows.
    ///
    /// # Errors
    /// [`Error::Truncated`].
    pub fn parse(bytes: &[u8]) -> Result<(AtomicEth, &[u8]), Error> {
        let (header, rest) = split::<{ AtomicEth::LEN }>(bytes)?;
        let atomic = AtomicEth {
            va: number::<8>(header, 0),
            r_key: number::<4>(header, 8) as u32,
            swap_dt: number::<8>(header, 12),
            cmp_dt: number::<8>(header, 20),
        };
        Ok((atomic, rest))
    }

    /// Writes the header into the first [`Self::LEN`] bytes; panics if there are fewer.
    pub fn emit(&self, bytes: &mut [u8]) {
        put::<8>(bytes, 0, self.va);
        put::<4>(bytes, 8, self.r_key as u64);
        put::<8>(bytes, 12, self.swap_dt);
        put::<8>(bytes, 20, self.cmp_dt);
    }
}

/// Atomic ACK extended transport header: on an AtomicAcknowledge, after its AETH.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AtomicAckEth {
    /// What the remote memory held before (OrigRemDt).
    pub orig_rem_dt: u64,
}

impl AtomicAckEth {
    /// Bytes that it takes.
    pub const LEN: usize = 8;

    /// Reads the header: it, and what follows.
    ///
    /// # Errors
    /// [`Error::Truncated`].
    pub fn parse(bytes: &[u8]) -> Result<(AtomicAckEth, &[u8]), Error> {
        let (header, rest) = split::<{ AtomicAckEth::LEN }>(bytes)?;
        Ok((AtomicAckEth { orig_rem_dt: number::<8>(header, 0) }, rest))
    }

    /// Writes the header into the first [`Self::LEN`] bytes; panics if there are fewer.
    pub fn emit(&self, bytes: &mut [u8]) {
        put::<8>(bytes, 0, self.orig_rem_dt);
    }
}

// Congestion notification packet (annex A17.9.3): a BTH with BECN, and 16 reserved bytes.

/// Reserved bytes after the BTH of a CNP: 0.
pub const CNP_RESERVED_BYTES: usize = 16;

/// Headers of a CNP to the queue pair whose packet was marked: BECN set, PSN 0, no ACK asked for.
pub fn cnp(dest_qp: u32) -> TransportHeaders {
    TransportHeaders {
        bth: Bth { becn: true, ..Bth::new(Opcode::Cnp, dest_qp, 0, 0) },
        extension: Extension::CnpReserved,
    }
}

#[cfg(test)]
mod opcode_tests {
    use super::*;

    #[test]
    fn every_number_is_an_opcode_and_comes_back() {
        for number in 0..=u8::MAX {
            assert_eq!(u8::from(Opcode::from(number)), number);
        }
    }
}

#[cfg(test)]
mod aeth_tests {
    use super::*;

    #[test]
    fn every_byte_is_a_syndrome_and_comes_back() {
        for byte in 0..=u8::MAX {
            assert_eq!(u8::from(Syndrome::from(byte)), byte);
        }
        assert_eq!(Syndrome::from(0x1f), Syndrome::ACK);
        assert_eq!(Syndrome::from(0x60), Syndrome::Nak(NakCode::PsnSequenceError));
        assert_eq!(Syndrome::from(0x63), Syndrome::Nak(NakCode::RemoteOperationalError));
    }

    #[test]
    fn rnr_timers_are_those_of_the_table() {
        for (code, us) in [
            (0, 655_360),
            (1, 10),
            (4, 40),
            (5, 60),
            (6, 80),
            (7, 120),
            (8, 160),
            (14, 1_280),
            (20, 10_240),
            (31, 491_520),
        ] {
            assert_eq!(rnr_timer(code), Time::from_us(us), "code {code}");
        }
    }
}
