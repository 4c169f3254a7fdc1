//! Settings of links and switches.

use serde::{Deserialize, Serialize};
use std::ops::RangeInclusive;
use tailback_proto::aqm::red::EcnParameters;
use tailback_proto::flow_control::pfc::{PauseParameters, PfcParameters, WatchdogParameters};
use tailback_proto::flow_control::shared_buffer::{PoolSizes, SharedBufferSettings, ALPHAS};
use tailback_proto::parameters::DELAYS;
use tailback_proto::units::{Bytes, Rate, Time};

use crate::declare::{impossible, in_bounds, PlanError, ENDS, INSTANTS};

/// Traffic classes, priorities and priority groups: 802.1Q has eight of each.
pub const CLASSES: usize = 8;

/// Most code points of a plan.
pub const MAX_CODE_POINTS: usize = 64;

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
        /// From a failure, or a repair, until routing has noticed it: BFD, BGP or a fast failover. Until then packets go on
        /// being sent into a failed link and are lost, and a repaired link carries none. One that is repaired before it was
        /// noticed is never routed around.
        detection: Time = Time::ZERO, in INSTANTS,
            source "assumption: all switches know at once; a routing protocol takes from 50 ms (BFD) to 180 s (RFC 4271: \
                BGP's hold time is 90 s, and often 180)";
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
    /// Index into the plan's `switch_models`.
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
        pools: Option<PoolSizes>;
        /// ECN marking: a class of a port has the entry of its rate, or else the one without a rate, if there is one.
        ecn: Vec<EcnParameters>;
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

impl SwitchModelPlan {
    /// Settings of its buffer.
    pub fn buffer_settings(&self) -> SharedBufferSettings {
        SharedBufferSettings {
            shared_bytes: self.shared_bytes,
            pools: self.pools,
            ingress_alpha: self.ingress_alpha,
            egress_alpha: self.egress_alpha,
            lossless: self.lossless.clone(),
            pfc: self.pfc,
        }
    }
}

impl SwitchModelPlan {
    pub(crate) fn check(&self, place: &str, code_points: usize) -> Result<(), PlanError> {
        in_bounds(place, self)?;
        check_classes(place, &self.class_of, code_points)?;
        let marked = self.ecn.iter().flat_map(|ecn| &ecn.priorities);
        if self.lossless.iter().chain(&self.strict).chain(marked).any(|&priority| priority > 7) {
            return Err(impossible(place, "a priority is above 7"));
        }
        for (index, ecn) in self.ecn.iter().enumerate() {
            let same = |other: &EcnParameters| {
                other.rate_bps == ecn.rate_bps
                    && other.priorities.iter().any(|priority| ecn.priorities.contains(priority))
            };
            if self.ecn[..index].iter().any(same) {
                return Err(impossible(place, "two entries of ecn have the same rate_bps and priority"));
            }
            in_bounds(&format!("{place}.ecn[{index}]"), ecn)?;
            if ecn.k_min > ecn.k_max {
                return Err(impossible(place, "k_min is above k_max"));
            }
        }
        if let (Some(xoff), Some(xon)) = (self.pfc.xoff, self.pfc.xon) {
            if xon >= xoff {
                return Err(impossible(place, "xon is not below xoff"));
            }
        }
        check_weights(place, self.weights)?;
        if let Some(PoolSizes { lossless_bytes, lossy_bytes }) = self.pools {
            let fit = lossless_bytes.checked_add(lossy_bytes).is_some_and(|sum| sum <= self.shared_bytes);
            if lossless_bytes == 0 || lossy_bytes == 0 || !fit {
                return Err(impossible(place, "pools are empty or do not fit shared_bytes"));
            }
        }
        in_bounds(&format!("{place}.pfc"), &self.pfc)?;
        in_bounds(&format!("{place}.pause"), &self.pause)?;
        if let Some(trimming) = &self.trimming {
            in_bounds(&format!("{place}.trimming"), trimming)?;
            if trimming.code_point as usize >= code_points {
                return Err(impossible(place, "trimming.code_point is not in code_points"));
            }
        }
        self.watchdog.map_or(Ok(()), |watchdog| in_bounds(&format!("{place}.watchdog"), &watchdog))
    }
}

/// Refuses a classification that does not name a class for every code point.
pub(crate) fn check_classes(place: &str, class_of: &[u8], code_points: usize) -> Result<(), PlanError> {
    if class_of.len() != code_points {
        return Err(impossible(
            place,
            format!("class_of has not one entry for each of {code_points} code points"),
        ));
    }
    if class_of.iter().any(|&class| class > 7) {
        return Err(impossible(place, "a class is above 7"));
    }
    Ok(())
}

/// Refuses shares that a scheduler cannot count.
pub(crate) fn check_weights(place: &str, weights: Option<[u32; CLASSES]>) -> Result<(), PlanError> {
    match weights {
        Some(weights) if weights.iter().any(|&weight| weight > 100) => {
            Err(impossible(place, "a weight is above 100"))
        }
        _ => Ok(()),
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
        /// Code point of trimmed packets: index into the plan's code points.
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

const ROCKS: &str = "\"RoCE Rocks without PFC\"";
const RATES: RangeInclusive<Rate> = Rate::from_mbps(1)..=Rate::from_gbps(100_000);
