//! RDMA extended transport header (IBTA 9.3): on the first or only packet of a WRITE, and on a READ request.

use super::{number, put, split, Error};

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
