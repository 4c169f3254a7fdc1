//! Packet trimming: what a switch has no room for loses its payload, and its headers go on in a class of their own.
//!
//! Sources: Handley et al., "Re-architecting datacenter networks and stacks for low latency and high performance" (NDP), SIGCOMM
//! 2017, section 3 (a short queue of packets, and headers before them); SAI, "Packet Trimming" (1.14: a packet that is refused the
//! buffer is dropped and counted as dropped, a copy cut to a size goes on in another queue, with another DSCP and the IP length
//! and checksum made right).
//!
//! Trimmed is RoCE's data in lossy classes. Trimmed headers keep to the hash where data is sprayed; where there is no room for
//! them either, they are dropped.
//!
//! Leaves out: NDP's choice between the packet that comes and the last one that waits, headers returned to their sender, pulls.

use tailback_proto::wire::PREAMBLE_AND_GAP_BYTES;

use super::drops::DropReason;
use super::packet::{Amount, Kind, Packet};
use super::Fabric;
use crate::plan::TrimmingPlan;

impl Fabric {
    /// A packet of a lossy class has come, and the switch trims: whether it is to be trimmed for the queue that it would join.
    #[inline(never)] // what most runs never need stays out of the way of what they do
    pub(super) fn trims_at(&self, switch: usize, out_port: usize, index: u32) -> bool {
        let packet = &self.packets[index];
        let s = &self.switches[switch];
        let limit = s.cold.trimming.as_ref().and_then(|trimming| trimming.queue);
        let queued = self.queues[(out_port, packet.class)].bytes + packet.frame_bytes();
        let lossless = s.lossless & (1 << packet.class) != 0;
        limit.is_some_and(|limit| !lossless && queued as u64 > limit.0) && self.can_trim(switch, packet)
    }

    /// The buffer has no room for a packet of a lossy class: its headers go on, or it is dropped.
    #[cold]
    pub(super) fn refuse(
        &mut self,
        switch: usize,
        in_port: usize,
        out_port: usize,
        index: u32,
        reason: DropReason,
    ) {
        if self.can_trim(switch, &self.packets[index]) {
            self.trim(switch, out_port, index);
            self.admit(switch, in_port, out_port, index);
        } else {
            self.drop_packet(out_port, index, reason);
        }
    }

    fn can_trim(&self, switch: usize, packet: &Packet) -> bool {
        let trimming = self.switches[switch].cold.trimming.as_ref();
        trimming.is_some_and(|trimming| {
            packet.kind == Kind::Data && packet.frame_bytes() as u64 > trimming.size.0
        })
    }

    /// The payload is dropped, and the headers take the packet's place.
    pub(super) fn trim(&mut self, switch: usize, out_port: usize, index: u32) {
        self.count_drop(out_port, index, DropReason::Trimmed);
        let cold = &self.switches[switch].cold;
        let &TrimmingPlan { size, code_point, .. } = cold.trimming.as_ref().expect("the switch trims");
        let class = cold.class_of[code_point as usize];
        let packet = &mut self.packets[index];
        packet.kind = Kind::Trimmed;
        packet.wire_bytes = size.0 as u16 + PREAMBLE_AND_GAP_BYTES as u16;
        packet.amount = Amount::NONE;
        (packet.class, packet.code_point) = (class, code_point);
    }
}
