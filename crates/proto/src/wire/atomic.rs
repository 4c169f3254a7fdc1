//! Extended headers of atomic operations (IBTA 9.3): AtomicETH on the request, AtomicAckETH on its answer.

use super::{number, put, split, Error};

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
