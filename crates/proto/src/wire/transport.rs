//! The headers of a RoCEv2 packet: the BTH and the extended headers that its opcode calls for.

use super::opcode::ExtensionKind;
use super::{cnp, split, Aeth, AtomicAckEth, AtomicEth, Bth, Error, ImmDt, Reth};

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
            ExtensionKind::CnpReserved => cnp::RESERVED_LEN,
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
                let (_, rest) = split::<{ cnp::RESERVED_LEN }>(bytes)?;
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
            Extension::CnpReserved => bytes[..cnp::RESERVED_LEN].fill(0),
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
