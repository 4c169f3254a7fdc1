//! Kinds of NIC in a plan.

use tailback_proto::congestion::builtin::Settings as CongestionPlan;
use tailback_proto::parameters::DELAYS;
use tailback_proto::transport::rc::TransportParameters;
use tailback_proto::transport::tcp::TcpSettings;
use tailback_proto::units::{Bytes, Time};

use super::{HostCcParameters, HostPathPlan, RhccPlan};
use crate::fabric::CLASSES;
use crate::host::cpu::CpuParameters;

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
