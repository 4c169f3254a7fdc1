//! Direct cache access of I/O: which writes find their line in the cache.
//!
//! Sources: Farshin et al., "Reexamining direct cache access", USENIX ATC 2020 (I/O allocates in a few ways only; what is
//! evicted before it is written again costs memory bandwidth: leaky DMA); Wang et al., "Understanding I/O direct cache
//! access performance", SIGMETRICS 2022 (hit rate from the reuse distance).
//!
//! A line of a buffer is written again when the whole working set was. Whatever is allocated in the I/O ways in between,
//! by writes that miss and by cores, takes the place of a random line of them, so that a line is still there with
//! probability exp(-allocated / capacity). A write that hits costs no memory bandwidth; one that misses evicts a line that
//! is dirty, because I/O wrote it, and waits for room in the memory controller.
//!
//! Leaves out: sets and slices (misses by conflict), reads of the buffers by cores, the two inclusive ways.

use tailback_proto::units::Bytes;

use super::settings::WAN;

tailback_proto::parameters! {
    /// Direct cache access: writes of the NIC go to some ways of the last-level cache.
    pub struct DdioParameters {
        /// What these ways hold.
        capacity: Bytes = Bytes(4_000_000), in CACHE, source format!("{WAN}, section 2.2");
        /// Share of the cores' cache lines that are allocated in these ways.
        cpu_share: f64 = 0.181818, in 0.0..=1.0,
            source "assumption: fills spread evenly, and I/O has 2 of 11 ways (Intel IIO_LLC_WAYS 0x600)";
        /// Bytes that are written before the first of them is written again; null: messages outstanding times their size,
        /// over all queue pairs to the host.
        working_set: Option<Bytes> = None, in CACHE,
            source "assumption: applications use their buffers in turn, and no more of them than are outstanding";
    }
}

const CACHE: std::ops::RangeInclusive<Bytes> = Bytes(1)..=Bytes(1_000_000_000_000);

/// Bytes of a cache line.
pub(crate) const LINE_BYTES: u64 = 64;

/// The part of the last-level cache that I/O may allocate in.
#[derive(Debug)]
pub(crate) struct Ddio {
    capacity: f64,
    cpu_share: f64,
    /// Bytes that are written before the first of them is written again.
    working_set: f64,
    /// Whether the plan gave it.
    given: bool,
}

impl Ddio {
    pub fn new(plan: &DdioParameters) -> Self {
        Ddio {
            capacity: plan.capacity.0 as f64,
            cpu_share: plan.cpu_share,
            working_set: plan.working_set.map_or(0.0, |bytes| bytes.0 as f64),
            given: plan.working_set.is_some(),
        }
    }

    /// Another `bytes` are written in turn, unless the plan says how many are.
    pub fn add_working_set(&mut self, bytes: u64) {
        if !self.given {
            self.working_set += bytes as f64;
        }
    }

    /// Share of writes that miss, where so far a share of `before` did, at these rates in bytes/s.
    pub fn miss_share(&self, before: f64, written: f64, cores: f64) -> f64 {
        if written <= 0.0 {
            return before; // nothing is written
        }
        let allocated = self.working_set * (before + self.cpu_share * cores / written);
        1.0 - libm::exp(-allocated / self.capacity)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settled(working_set: u64, cores: f64) -> f64 {
        let ddio = Ddio::new(&DdioParameters {
            capacity: Bytes(4_000_000),
            cpu_share: 0.18,
            working_set: Some(Bytes(working_set)),
        });
        (0..2000).fold(1.0, |share, _| ddio.miss_share(share, 10e9, cores))
    }

    #[test]
    fn a_working_set_that_fits_hits_and_a_larger_one_leaks() {
        assert!(settled(1_000_000, 0.0) < 1e-6);
        // 1 - x = exp(-2 x) at twice the capacity.
        assert!((settled(8_000_000, 0.0) - 0.7968).abs() < 1e-3, "{}", settled(8_000_000, 0.0));
        assert!(settled(128_000_000, 0.0) > 0.999);
    }

    #[test]
    fn traffic_of_cores_evicts_what_io_wrote() {
        assert!(settled(1_000_000, 10e9) > 0.04);
        assert!(settled(8_000_000, 20e9) > settled(8_000_000, 10e9));
    }
}
