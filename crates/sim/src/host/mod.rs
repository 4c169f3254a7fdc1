//! Inside the host.

pub(crate) mod agent;

// Stub of the data path until it is there.
impl crate::world::World {
    fn iio_occupancy_counter(&mut self, _host: usize) -> u128 {
        0
    }
    fn pcie_write_bytes(&mut self, _host: usize) -> u64 {
        0
    }
    fn limit_cpu_memory(&mut self, _host: usize, _limit: Option<u64>) {}
}
