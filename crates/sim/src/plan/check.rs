//! What a part of a plan may not be, whatever the rest is.

use super::{impossible, EcnPlan, NicPlan, PlanError, PoolsPlan, SwitchModelPlan, TransportPlan};
use super::{WatchdogPlan, WriterPlan};
use super::{MAX_MESSAGE_BYTES, PATH_MTUS};
use crate::engine::EventQueue;
use crate::fabric::CLASSES;

/// Refuses a classification that does not name a class for every code point.
fn check_classes(place: &str, class_of: &[u8], marks: usize) -> Result<(), PlanError> {
    if class_of.len() != marks {
        return Err(impossible(place, format!("class_of has not one entry for each of {marks} code points")));
    }
    if class_of.iter().any(|&class| class > 7) {
        return Err(impossible(place, "a class is above 7"));
    }
    Ok(())
}

/// Refuses shares that a scheduler cannot count.
fn check_weights(place: &str, weights: Option<[u32; CLASSES]>) -> Result<(), PlanError> {
    match weights {
        Some(weights) if weights.iter().any(|&weight| weight > 100) => {
            Err(impossible(place, "a weight is above 100"))
        }
        _ => Ok(()),
    }
}

impl NicPlan {
    pub(super) fn check(&self, place: &str, marks: usize) -> Result<(), PlanError> {
        if !PATH_MTUS.contains(&self.mtu_bytes) {
            return Err(impossible(
                place,
                format!("mtu_bytes is {}, not one of {PATH_MTUS:?}", self.mtu_bytes),
            ));
        }
        check_classes(place, &self.class_of, marks)?;
        if self.cnp_code_point.is_some_and(|mark| mark as usize >= marks) {
            return Err(impossible(place, "cnp_code_point is not in code_points"));
        }
        if self.strict.iter().any(|&class| class > 7) {
            return Err(impossible(place, "a priority is above 7"));
        }
        check_weights(place, self.weights)?;
        if self.transport.ack_every_packets == 0 {
            return Err(impossible(place, "ack_every_packets must be above 0"));
        }
        let TransportPlan { ack_timeout_ps, adaptive_timeout_ps, retry_count, .. } = self.transport;
        if ack_timeout_ps == 0 || ack_timeout_ps > EventQueue::HORIZON.0 / 64 {
            return Err(impossible(place, "ack_timeout_ps must be above 0 and below 18 min"));
        }
        if adaptive_timeout_ps.is_some_and(|first| first == 0 || first > ack_timeout_ps) {
            return Err(impossible(place, "adaptive_timeout_ps must be above 0 and up to ack_timeout_ps"));
        }
        if self.transport.nak_reaction_ps > ack_timeout_ps {
            return Err(impossible(place, "nak_reaction_ps is above ack_timeout_ps"));
        }
        if retry_count > 7 {
            return Err(impossible(place, "retry_count is above 7 (3 bits)"));
        }
        if let Some(problem) = self.host_path.as_ref().and_then(|path| path.problem()) {
            return Err(impossible(format!("{place}.host_path"), problem));
        }
        if self.congestion.needs_each_ack() && self.transport.ack_every_packets != 1 {
            return Err(impossible(place, "with hpcc and dctcp, ack_every_packets must be 1"));
        }
        let receiver = self.rhcc.as_ref().and_then(|rhcc| rhcc.receiver.as_ref());
        if (receiver.is_some() || self.hostcc.is_some()) && self.host_path.is_none() {
            return Err(impossible(
                place,
                "rhcc.receiver or hostcc needs host_path: there is nothing to watch",
            ));
        }
        if receiver.is_some() && self.hostcc.is_some() {
            return Err(impossible(place, "rhcc.receiver and hostcc both set the CPUs' memory bandwidth"));
        }
        if let Some(tcp) = &self.tcp {
            tcp.check(&format!("{place}.tcp"))?;
        }
        if let Some(cpu) = &self.cpu {
            cpu.check(&format!("{place}.cpu"))?;
        }
        Ok(())
    }
}

impl SwitchModelPlan {
    /// ECN thresholds of a class of a port.
    pub fn ecn_of(&self, rate_bps: u64, class: u8) -> Option<&EcnPlan> {
        let with = |rate| self.ecn.iter().find(|ecn| ecn.rate_bps == rate && ecn.priorities.contains(&class));
        with(Some(rate_bps)).or_else(|| with(None))
    }

    pub(super) fn check(&self, place: &str, marks: usize) -> Result<(), PlanError> {
        check_classes(place, &self.class_of, marks)?;
        if self.buffer_bytes > u32::MAX as u64 {
            return Err(impossible(place, "buffer_bytes is above 4 GiB"));
        }
        let marked = self.ecn.iter().flat_map(|ecn| &ecn.priorities);
        if self.lossless.iter().chain(&self.strict).chain(marked).any(|&priority| priority > 7) {
            return Err(impossible(place, "a priority is above 7"));
        }
        for (index, ecn) in self.ecn.iter().enumerate() {
            let same = |other: &EcnPlan| {
                other.rate_bps == ecn.rate_bps
                    && other.priorities.iter().any(|priority| ecn.priorities.contains(priority))
            };
            if self.ecn[..index].iter().any(same) {
                return Err(impossible(place, "two entries of ecn have the same rate_bps and priority"));
            }
            if ecn.k_min_bytes > ecn.k_max_bytes {
                return Err(impossible(place, "k_min_bytes is above k_max_bytes"));
            }
            if !(0.0..=1.0).contains(&ecn.p_max) {
                return Err(impossible(place, "p_max is not in 0 to 1"));
            }
        }
        for (name, alpha) in [("ingress_alpha", self.ingress_alpha), ("egress_alpha", self.egress_alpha)] {
            if !(alpha > 0.0 && alpha <= 1024.0) {
                return Err(impossible(place, format!("{name} is not above 0 and up to 1024")));
            }
        }
        if let (Some(xoff), Some(xon)) = (self.pfc.xoff_bytes, self.pfc.xon_bytes) {
            if xon >= xoff {
                return Err(impossible(place, "xon_bytes is not below xoff_bytes"));
            }
        }
        check_weights(place, self.weights)?;
        if let Some(PoolsPlan { lossless_bytes, lossy_bytes }) = self.pools {
            let fit = lossless_bytes.checked_add(lossy_bytes).is_some_and(|sum| sum <= self.shared_bytes);
            if lossless_bytes == 0 || lossy_bytes == 0 || !fit {
                return Err(impossible(place, "pools are empty or do not fit shared_bytes"));
            }
        }
        if let Some(WatchdogPlan { detect_ps, restore_ps }) = self.watchdog {
            if [detect_ps, restore_ps].iter().any(|&span| span == 0 || span > EventQueue::HORIZON.0 / 4) {
                return Err(impossible(place, "detect_ps and restore_ps must be above 0 and below 4 h"));
            }
        }
        if !self.lossless.is_empty() && self.pfc.quanta < 2 {
            return Err(impossible(place, "quanta must be above 1"));
        }
        Ok(())
    }
}

impl WriterPlan {
    pub(super) fn check(&self, place: &str, marks: usize) -> Result<(), PlanError> {
        if self.src == self.dst {
            return Err(impossible(place, "src and dst are the same host"));
        }
        if self.code_point as usize >= marks {
            return Err(impossible(place, "its code_point is not in code_points"));
        }
        if self.qps == 0 || self.tx_depth == 0 {
            return Err(impossible(place, "qps and tx_depth must be above 0"));
        }
        if self.message_bytes == 0 || self.message_bytes > MAX_MESSAGE_BYTES {
            return Err(impossible(place, "message_bytes is not in 1 to 2^31 (IB specification 9.7.6)"));
        }
        if self.stop_ps.is_some_and(|stop| stop <= self.start_ps) {
            return Err(impossible(place, "stop_ps is not after start_ps"));
        }
        Ok(())
    }
}
