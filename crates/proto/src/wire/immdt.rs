//! Immediate data (IBTA 9.3): on the last or only packet of a SEND or WRITE with immediate.

use super::{number, put, split, Error};

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
