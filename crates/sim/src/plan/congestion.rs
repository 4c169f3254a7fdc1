//! Congestion control in a plan: one kind a NIC.

use serde::{Deserialize, Serialize};
use tailback_proto::congestion::dcqcn::{MlnxParameters, ReactionParameters};
use tailback_proto::congestion::dctcp::DctcpParameters;
use tailback_proto::congestion::hpcc::HpccParameters;
use tailback_proto::congestion::timely::TimelyParameters;
use tailback_proto::units::{Rate, Time};

/// The congestion control of a kind of NIC: `"none"`, or one key with its settings.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase", deny_unknown_fields)]
pub enum CongestionPlan {
    /// Line rate.
    None,
    /// Notification packets and rates.
    Dcqcn(DcqcnPlan),
    /// Telemetry of each hop, window and rate.
    Hpcc(HpccPlan),
    /// Gradient of the round-trip time, rate.
    Timely(TimelyPlan),
    /// Share of marked packets, rate and window.
    Dctcp(DctcpPlan),
}

impl CongestionPlan {
    /// Whether the controller takes an ACK of each packet: a window must not wait for an ACK that none asked for, and
    /// a share of marks is one of all packets.
    pub fn needs_each_ack(&self) -> bool {
        matches!(self, CongestionPlan::Hpcc(_) | CongestionPlan::Dctcp(_))
    }

    /// What it adds to each data packet and each ACK.
    pub fn telemetry_bytes(&self) -> u32 {
        match self {
            CongestionPlan::Hpcc(hpcc) => hpcc.telemetry_bytes,
            CongestionPlan::Timely(timely) => timely.telemetry_bytes,
            CongestionPlan::None | CongestionPlan::Dcqcn(_) | CongestionPlan::Dctcp(_) => 0,
        }
    }
}

/// HPCC; see [`HpccParameters`].
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs)]
pub struct HpccPlan {
    pub base_rtt_ps: u64,
    pub eta: f64,
    pub max_stage: u32,
    pub additive_bytes: u64,
    pub min_rate_bps: u64,
    /// What telemetry adds to each data packet and each ACK.
    pub telemetry_bytes: u32,
}

/// TIMELY; see [`TimelyParameters`].
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs)]
pub struct TimelyPlan {
    pub alpha: f64,
    pub beta: f64,
    pub additive_bps: u64,
    pub hyper_additive_bps: u64,
    pub hyper_after: u32,
    pub t_low_ps: u64,
    pub t_high_ps: u64,
    pub min_rtt_ps: u64,
    pub segment_bytes: u64,
    pub min_rate_bps: u64,
    /// What a timestamp adds to each data packet and each ACK.
    pub telemetry_bytes: u32,
}

/// DCTCP; see [`DctcpParameters`].
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs)]
pub struct DctcpPlan {
    pub g: f64,
    pub additive_bps: u64,
    pub min_rate_bps: u64,
    pub window_rtt_ps: Option<u64>,
}

/// Most bytes that telemetry may add: the largest packet stays below the 16 bits of its size.
const MAX_TELEMETRY_BYTES: u32 = 1024;

fn checked<P>(parameters: P, check: Result<(), String>, telemetry_bytes: u32) -> Result<P, String> {
    check?;
    if telemetry_bytes > MAX_TELEMETRY_BYTES {
        return Err(format!("telemetry_bytes is above {MAX_TELEMETRY_BYTES}"));
    }
    Ok(parameters)
}

impl HpccPlan {
    /// The controller's parameters on a link of `line_rate`.
    pub fn parameters(&self, line_rate: Rate) -> Result<HpccParameters, String> {
        let parameters = HpccParameters {
            base_rtt: Time(self.base_rtt_ps),
            line_rate,
            eta: self.eta,
            max_stage: self.max_stage,
            additive_bytes: self.additive_bytes as f64,
            min_rate: self.min_rate_bps as f64,
        };
        checked(parameters, parameters.check(), self.telemetry_bytes)
    }
}

impl TimelyPlan {
    /// The controller's parameters on a link of `line_rate`.
    pub fn parameters(&self, line_rate: Rate) -> Result<TimelyParameters, String> {
        let parameters = TimelyParameters {
            line_rate,
            min_rate: self.min_rate_bps as f64,
            alpha: self.alpha,
            beta: self.beta,
            additive: self.additive_bps as f64,
            hyper_additive: self.hyper_additive_bps as f64,
            hyper_after: self.hyper_after,
            t_low: Time(self.t_low_ps),
            t_high: Time(self.t_high_ps),
            min_rtt: Time(self.min_rtt_ps),
            segment_bytes: self.segment_bytes,
        };
        checked(parameters, parameters.check(), self.telemetry_bytes)
    }
}

impl DctcpPlan {
    /// The controller's parameters on a link of `line_rate`.
    pub fn parameters(&self, line_rate: Rate) -> Result<DctcpParameters, String> {
        let parameters = DctcpParameters {
            line_rate,
            min_rate: self.min_rate_bps as f64,
            g: self.g,
            additive: self.additive_bps as f64,
            window_rtt: self.window_rtt_ps.map(Time),
        };
        checked(parameters, parameters.check(), 0)
    }
}

/// DCQCN: the reaction point of queue pairs that send, and the notification point of those that receive.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DcqcnPlan {
    /// By their mlnx names.
    pub reaction: MlnxParameters,
    /// us, by its mlnx name: CNPs are at least this far apart.
    pub min_time_between_cnps: u32,
    /// Reading: what that holds for.
    pub cnp_interval_per: CnpInterval,
}

/// What the minimum interval between CNPs holds for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CnpInterval {
    /// Each queue pair.
    Qp,
    /// All queue pairs whose CNPs go to one host together.
    Destination,
    /// All queue pairs of a port together.
    Port,
}

impl DcqcnPlan {
    /// The reaction point's parameters in base units, for a NIC on a link of `line_rate`.
    pub fn reaction(&self, line_rate: Rate) -> Result<ReactionParameters, String> {
        if ![1, 64].contains(&self.reaction.byte_reset_unit_bytes) {
            return Err("byte_reset_unit_bytes must be 1 or 64".into());
        }
        ReactionParameters::new(&self.reaction, line_rate)
    }
}
