//! RHCC and hostCC in a plan.

use serde::{Deserialize, Serialize};
use tailback_proto::congestion::host::LadderParameters;
use tailback_proto::congestion::hostcc::HostCcParameters;
use tailback_proto::congestion::rhcc::receiver::ReceiverParameters;
use tailback_proto::congestion::rhcc::sender::RhccParameters;
use tailback_proto::units::{Rate, Time};

/// RHCC; a half that is none is off.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs)]
pub struct RhccPlan {
    pub sender: Option<RhccParameters>,
    pub receiver: Option<RhccReceiverPlan>,
}

/// RHCC's receiver; see [`ReceiverParameters`].
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs)]
pub struct RhccReceiverPlan {
    pub sample_interval_ps: u64,
    pub iio_clock_hz: u64,
    pub iio_threshold_lines: f64,
    pub ladder: LadderPlan,
}

/// hostCC; see [`HostCcParameters`].
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs)]
pub struct HostCcPlan {
    pub sample_interval_ps: u64,
    pub iio_clock_hz: u64,
    pub iio_threshold_lines: f64,
    pub iio_weight: f64,
    pub pcie_threshold_bps: u64,
    pub pcie_weight: f64,
    pub ladder: LadderPlan,
    pub mark: bool,
}

/// Levels of the CPUs' memory bandwidth; see [`LadderParameters`].
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs)]
pub struct LadderPlan {
    pub levels_bps: Vec<u64>,
    pub write_time_ps: u64,
    pub raise_interval_ps: u64,
}

impl LadderPlan {
    fn parameters(&self) -> LadderParameters {
        LadderParameters {
            levels: self.levels_bps.iter().map(|&rate| Rate(rate)).collect(),
            write_time: Time(self.write_time_ps),
            raise_interval: Time(self.raise_interval_ps),
        }
    }
}

impl RhccReceiverPlan {
    /// Parameters of a host.
    ///
    /// # Errors
    /// One line naming what makes no sense.
    pub fn parameters(&self) -> Result<ReceiverParameters, String> {
        let parameters = ReceiverParameters {
            clock_hz: self.iio_clock_hz,
            threshold: self.iio_threshold_lines,
            ladder: self.ladder.parameters(),
        };
        check_interval(self.sample_interval_ps)?;
        parameters.check().map(|()| parameters)
    }
}

impl HostCcPlan {
    /// Parameters of a host.
    ///
    /// # Errors
    /// One line naming what makes no sense.
    pub fn parameters(&self) -> Result<HostCcParameters, String> {
        let parameters = HostCcParameters {
            clock_hz: self.iio_clock_hz,
            iio_threshold: self.iio_threshold_lines,
            iio_weight: self.iio_weight,
            pcie_threshold: Rate(self.pcie_threshold_bps),
            pcie_weight: self.pcie_weight,
            ladder: self.ladder.parameters(),
            mark: self.mark,
        };
        check_interval(self.sample_interval_ps)?;
        parameters.check().map(|()| parameters)
    }
}

/// An agent that reads its counters more often than this would take most of a run's events.
const MIN_SAMPLE_INTERVAL_PS: u64 = 10_000;

fn check_interval(ps: u64) -> Result<(), String> {
    if ps < MIN_SAMPLE_INTERVAL_PS {
        return Err("sample_interval_ps is below 10 ns".into());
    }
    Ok(())
}
