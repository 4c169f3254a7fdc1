//! What a NIC asks of its host's data path, and what is read of that. 0 without a path.

use tailback_proto::units::Time;

use super::Nics;
use crate::host::path::HostPath;

impl Nics {
    fn host_path_of(&self, host: usize) -> Option<&HostPath> {
        self.host_paths.get(self.nics[host].host_path as usize)
    }

    /// Occupancy of a host's IIO added up since the start of the run, byte-picoseconds, exact at this instant; what the
    /// CPU counts in cache lines and cycles of the IIO's clock.
    pub fn iio_occupancy_counter(&self, host: usize, now: Time) -> u128 {
        self.host_path_of(host).map_or(0, |host_path| host_path.iio.byte_time(now))
    }

    /// Payload that crossed a host's PCIe link as writes since the start of the run.
    pub fn pcie_write_bytes(&self, host: usize) -> u64 {
        self.host_path_of(host).map_or(0, |host_path| host_path.pcie.write_bytes)
    }

    /// Limits the memory traffic of a host's cores (MBA); none: no limit.
    pub fn limit_cpu_memory(&mut self, host: usize, now: Time, limit_bps: Option<u64>) {
        if let Some(host_path) = self.host_paths.get_mut(self.nics[host].host_path as usize) {
            if let Some(memory) = host_path.target.as_memory() {
                memory.limit_cores(now, limit_bps);
            }
        }
    }

    /// A generator of memory traffic begins or ends.
    pub fn on_memory_load(&mut self, now: Time, change: u32) {
        let change = self.memory_loads[change as usize];
        if let Some(memory) = self.host_paths[change.host_path as usize].target.as_memory() {
            memory.change_load(now, change.outstanding_bytes, change.read_share, change.begins);
        }
    }

    /// The NIC put a packet on the wire: its next data waits until it has been fetched.
    #[inline(never)] // what most runs never need stays out of the way of what they do
    pub(super) fn fetch_next(&mut self, now: Time, host: usize, payload: u32) {
        let nic = &mut self.nics[host];
        nic.data_ready = self.host_paths[nic.host_path as usize].fetch(now, payload as u64);
    }
}
