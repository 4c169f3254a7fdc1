//! ACK extended transport header (IBTA 9.3, and 9.7.5.2 for the syndrome): on ACKs, NAKs and READ responses.

use super::{number, put, split, Error};
use crate::units::Time;

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

#[cfg(test)]
mod tests {
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
