//! Links and switches in a plan.

use serde::{Deserialize, Serialize};
use std::ops::{Bound, RangeInclusive};
use tailback_proto::flow_control::pfc::WatchdogParameters;
use tailback_proto::flow_control::pfc::{PauseParameters, PfcParameters};
use tailback_proto::parameters::DELAYS;
use tailback_proto::units::{Bytes, Rate, Time};

use super::traffic::{ENDS, INSTANTS};
use crate::fabric::CLASSES;

tailback_proto::parameters! {
    /// A full-duplex link.
    pub struct LinkPlan {
        /// Rate of each direction.
        rate: Rate = Rate::from_gbps(100), in RATES,
            source format!("assumption: {ROCKS} gives none; its ConnectX-4 and SN2700 have ports of 100 Gbit/s");
        /// Propagation, one way.
        delay: Time = Time::from_ns(500), in DELAYS,
            source "assumption: 100 m of fibre at 5 ns/m, the longest in a row of racks";
        /// Probability that a packet is lost on the link, in each direction. PFC frames are never lost.
        loss: f64 = 0.0, in 0.0..1.0, source "assumption: a clean link";
    }
    worked out {
        /// Name of one end.
        a: String;
        /// Name of the other end.
        b: String;
        /// Headroom of each lossless priority group at the switch ends.
        headroom_bytes: u64;
    }
}

tailback_proto::parameters! {
    /// A link that fails, both ways at once, and may be repaired.
    pub struct FailurePlan {
        /// When it fails.
        at: Time, in INSTANTS;
        /// When it is repaired; null: never.
        repair: Option<Time> = None, in ENDS, source "assumption: never";
    }
    worked out {
        /// The link's number.
        link: usize;
    }
}

/// A switch.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SwitchPlan {
    /// Unique name.
    pub name: String,
    /// Index into [`super::Plan::switch_models`].
    pub model: usize,
}

tailback_proto::choice! {
    /// How a switch divides packets among ports that lie on equally short routes.
    pub enum LoadBalancing {
        /// By a hash of the connection.
        Ecmp = "ecmp",
        /// By chance, once a flowlet.
        Flowlet = "flowlet",
        /// By chance, each packet.
        Spray = "spray",
        /// To the emptiest queue, each packet.
        Adaptive = "adaptive",
    }
}

tailback_proto::parameters! {
    /// The switch: output queues behind one shared buffer.
    pub struct SwitchModelPlan {
        /// Packet memory, headroom included.
        buffer: Bytes = Bytes(16_000_000), in Bytes(1)..=Bytes(64 << 30),
            source format!("assumption: {ROCKS} gives none; Spectrum (SN2700) has 16 MB");
        /// From a packet's last bit at the ingress to the egress queue.
        latency: Time = Time::from_ns(300), in DELAYS,
            source "assumption: no document separates it; the order of a data centre switch's port-to-port latency";
        /// An ingress priority group may hold this many times the free buffer.
        ingress_alpha: f64 = 1.0, in ALPHAS,
            source "Linux mlxsw spectrum_buffers.c, Spectrum-1: ingress threshold 8 = alpha 1";
        /// A lossy egress queue may hold this many times the free buffer.
        egress_alpha: f64 = 2.0, in ALPHAS,
            source "Linux mlxsw spectrum_buffers.c, Spectrum-1: egress threshold 9 = alpha 2";
        /// Which of several shortest routes data takes. ecmp: by a hash of the connection; flowlet: a random one
        /// whenever the connection was silent for flowlet_gap; spray: a random one for each RoCE packet; adaptive:
        /// for each RoCE packet the port with the shortest queue. ACKs, NAKs, CNPs, and TCP except with flowlet, keep
        /// to the hash.
        load_balancing: LoadBalancing = LoadBalancing::Ecmp, of LoadBalancing::ALL,
            source "what switches do unless adaptive routing is switched on";
        /// Silence after which data of a connection may take another route, with load_balancing: flowlet.
        flowlet_gap: Time = Time::from_us(500), in DELAYS,
            source "Alizadeh et al., \"CONGA\", SIGCOMM 2014: its default, which LetFlow tests, too";
    }
    worked out {
        /// Bytes of the buffer that all queues share. These and the headroom of all lossless groups fit the buffer.
        shared_bytes: u64;
        /// Class of each code point.
        class_of: Vec<u8>;
        /// Priorities under PFC.
        lossless: Vec<u8>;
        /// Classes with strict priority, highest number first.
        strict: Vec<u8>;
        /// Shares of the other classes' bandwidth, 0: served last; none: they take turns, a packet each.
        weights: Option<[u32; CLASSES]>;
        /// Two pools, for lossless and for lossy priorities; none: one pool for all.
        pools: Option<PoolsPlan>;
        /// ECN marking: a class of a port has the entry of its rate, or else the one without a rate, if there is one.
        ecn: Vec<EcnPlan>;
        /// Priority flow control.
        pfc: PfcParameters;
        /// The pauses that it asks for.
        pause: PauseParameters;
        /// The PFC watchdog of lossless priorities.
        watchdog: Option<WatchdogParameters>;
        /// Trimming of lossy priorities.
        trimming: Option<TrimmingPlan>;
    }
}

tailback_proto::parameters! {
    /// Packet trimming: RoCE's data that a lossy priority has no room for loses its payload, and its headers go on.
    pub struct TrimmingPlan {
        /// Trimmed packets are cut to this, from address to FCS.
        size: Bytes = Bytes(64), in Bytes(64)..=Bytes(1024),
            source "Handley et al., \"NDP\", SIGCOMM 2017: headers of 64 B; SAI's default is 128 B, that of Cumulus Linux 256 B";
        /// Packets are trimmed where the egress queue would hold more. null: where the buffer refuses them.
        queue: Option<Bytes> = None, in Bytes(1)..=Bytes(u32::MAX as u64),
            source "SAI, \"Packet Trimming\": upon a failed admission to the shared buffer; NDP has 8 packets";
    }
    worked out {
        /// What trimmed packets are marked with: index into the plan's code points.
        code_point: u8;
    }
}

tailback_proto::parameters! {
    /// What of the buffer is shared: `shared_bytes` of a model.
    pub struct SharedParameters {
        /// The part of the buffer that all queues share. auto: all that headroom leaves.
        shared: Bytes, or auto, in Bytes(1).., source "Linux mlxsw spectrum_buffers.c: MLXSW_SP_SB_REST";
    }
}

tailback_proto::parameters! {
    /// The shared buffer in two: lossless priorities draw on one part, all others on the other.
    pub struct PoolParameters {
        /// What lossless priorities share.
        lossless: Bytes = Bytes(4 << 20), in Bytes(1)..,
            source "Mellanox community DOC-2591: a pool of 4 MiB for RoCE";
        /// What all others share. auto: the rest of what is shared.
        lossy: Bytes, or auto, in Bytes(1).., source "Linux mlxsw spectrum_buffers.c: MLXSW_SP_SB_REST";
    }
}

/// How the shared buffer is divided: [`PoolParameters`] worked out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PoolsPlan {
    pub lossless_bytes: u64,
    pub lossy_bytes: u64,
}

tailback_proto::parameters! {
    /// Thresholds of ECN marking.
    pub struct EcnPlan {
        /// No marks up to this queue; for all ports, or by the port's rate.
        k_min: Bytes = Bytes(150_000), source format!("{ROCKS}, section 3.1");
        /// Every packet is marked above this queue; for all ports, or by the port's rate.
        k_max: Bytes = Bytes(1_500_000), source format!("{ROCKS}, section 3.1");
        /// Probability of a mark at k_max; it grows in a straight line from 0 at k_min. For all ports, or by the port's rate.
        p_max: f64 = 1.0, in 0.0..=1.0,
            source "Mellanox community DOC-2500: always marked above the maximum, linear between";
    }
    worked out {
        /// Rate of the ports that it is for, bit/s; none: all ports whose rate has no entry.
        rate_bps: Option<u64>;
        /// Priorities that it is for.
        priorities: Vec<u8>;
    }
}

const ROCKS: &str = "\"RoCE Rocks without PFC\"";
const RATES: RangeInclusive<Rate> = Rate::from_mbps(1)..=Rate::from_gbps(100_000);
const ALPHAS: (Bound<f64>, Bound<f64>) = (Bound::Excluded(0.0), Bound::Included(1024.0));
