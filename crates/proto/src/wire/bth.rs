//! Base transport header (IBTA 9.2).

use super::{number, put, split, Error, Opcode};

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
    /// Whether an acknowledgement is asked for (AckReq).
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
