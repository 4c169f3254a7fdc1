//! Settings of a NIC.

use tailback_proto::congestion::builtin::Settings as CongestionPlan;
use tailback_proto::congestion::host::HostCcParameters;
use tailback_proto::parameters::DELAYS;
use tailback_proto::transport::rc::TransportParameters;
use tailback_proto::transport::tcp::TcpSettings;
use tailback_proto::units::{Bytes, Time};

use crate::declare::{impossible, in_bounds, PlanError};
use crate::fabric::settings::{check_classes, check_weights, CLASSES};
use crate::host::settings::{check_stack, CpuParameters, HostPathPlan, RhccPlan};

tailback_proto::parameters! {
    /// The NIC of every host.
    pub struct NicPlan {
        /// RoCE path MTU: payload of a full packet.
        mtu: Bytes = Bytes(1024), of PATH_MTUS,
            source "the largest path MTU of the IB specification that fits into an Ethernet MTU of 1500 B";
        /// From a packet's last bit on the wire to the transport.
        rx_latency: Time = Time::from_ns(300), in DELAYS,
            source "assumption: no vendor document says; the same order as a switch";
        /// RoCE data packets carry ECT(0), so queues may mark them. false: Not-ECT, as soft-RoCE sends without a
        /// traffic class; RED drops the packets that it would mark.
        ect: bool = true,
            source "NVIDIA: a ConnectX with ECN on for the priority (ecn/roce_rp/enable) sets ECT(0)";
    }
    worked out {
        /// Class of each code point, for what arrives and for what is sent.
        class_of: Vec<u8>;
        /// Code point of CNPs; none: that of the marked packet.
        cnp_code_point: Option<u8>;
        /// Classes with strict priority, highest number first.
        strict: Vec<u8>;
        /// Shares of the other classes' bandwidth, 0: served last; none: they take turns, a packet each.
        weights: Option<[u32; CLASSES]>;
        /// Reliable connections.
        transport: TransportParameters;
        /// The congestion controls that queue pairs from here or to here may run, by index; the same ones in each NIC.
        congestion: Vec<CongestionPlan>;
        /// RHCC, beside the congestion control; none: off.
        rhcc: Option<RhccPlan>;
        /// hostCC; none: off.
        hostcc: Option<HostCcParameters>;
        /// The host path behind its port; none: memory takes every byte at once.
        host_path: Option<HostPathPlan>;
        /// TCP stack of the host behind it; none: it has none.
        tcp: Option<TcpSettings>;
        /// CPU of the host behind it; none: its cost is not modelled.
        cpu: Option<CpuParameters>;
    }
}

/// IB specification 9.6.3: 256 to 4096 in powers of two.
const PATH_MTUS: [Bytes; 5] = [Bytes(256), Bytes(512), Bytes(1024), Bytes(2048), Bytes(4096)];

impl NicPlan {
    pub(crate) fn check(&self, place: &str, code_points: usize) -> Result<(), PlanError> {
        in_bounds(place, self)?;
        check_classes(place, &self.class_of, code_points)?;
        if self.cnp_code_point.is_some_and(|number| number as usize >= code_points) {
            return Err(impossible(place, "cnp_code_point is not in code_points"));
        }
        if self.strict.iter().any(|&class| class > 7) {
            return Err(impossible(place, "a priority is above 7"));
        }
        check_weights(place, self.weights)?;
        in_bounds(&format!("{place}.transport"), &self.transport)?;
        let TransportParameters { ack_timeout, adaptive_timeout, nak_reaction, nak_delay, .. } =
            self.transport;
        if adaptive_timeout.is_some_and(|first| first > ack_timeout) {
            return Err(impossible(place, "adaptive_timeout is above ack_timeout"));
        }
        if nak_reaction > ack_timeout {
            return Err(impossible(place, "nak_reaction is above ack_timeout"));
        }
        if nak_delay > ack_timeout {
            return Err(impossible(place, "nak_delay is above ack_timeout"));
        }
        if self.transport.is_selective() && self.transport.window_packets.is_none() {
            return Err(impossible(place, "loss_recovery: selective-repeat needs window_packets"));
        }
        if let Some(host_path) = &self.host_path {
            host_path.check_settings(&format!("{place}.host_path"))?;
        }
        if let Some(problem) = self.host_path.as_ref().and_then(|host_path| host_path.problem()) {
            return Err(impossible(format!("{place}.host_path"), problem));
        }
        let receiver = self.rhcc.as_ref().and_then(|rhcc| rhcc.receiver.as_ref());
        if let Some(receiver) = receiver {
            in_bounds(&format!("{place}.rhcc.receiver"), receiver)?;
        }
        if let Some(hostcc) = &self.hostcc {
            in_bounds(&format!("{place}.hostcc"), hostcc)?;
        }
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
            check_stack(&format!("{place}.tcp"), tcp)?;
        }
        if let Some(cpu) = &self.cpu {
            in_bounds(&format!("{place}.cpu"), cpu)?;
        }
        Ok(())
    }
}
