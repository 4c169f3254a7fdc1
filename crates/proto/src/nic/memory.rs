//! Memory regions: which addresses a key opens, and to what (IBTA 10.6).

use std::collections::BTreeMap;

/// What a region may be used for by a peer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Access {
    /// WRITE.
    pub remote_write: bool,
    /// READ.
    pub remote_read: bool,
}

/// A memory region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Region {
    /// Where it begins.
    pub address: u64,
    /// Bytes.
    pub length: u64,
    /// What peers may do.
    pub access: Access,
}

/// The regions of a NIC by their keys; local and remote key of a region are one here, as in Linux' rxe.
#[derive(Clone, Debug, Default)]
pub(super) struct Regions(BTreeMap<u32, Region>);

impl Regions {
    pub fn insert(&mut self, key: u32, region: Region) {
        self.0.insert(key, region);
    }

    /// Whether a key opens all of a range. An empty range needs no key (IBTA 9.7.4.1.3).
    pub fn allow(&self, key: u32, address: u64, length: u32, access: impl Fn(Access) -> bool) -> bool {
        if length == 0 {
            return true;
        }
        let Some(region) = self.0.get(&key) else { return false };
        let offset = address.checked_sub(region.address);
        access(region.access)
            && offset.is_some_and(|offset| offset.saturating_add(length as u64) <= region.length)
    }
}
