//! RHCC and hostCC in a plan.

use serde::{Deserialize, Serialize};

pub use tailback_proto::congestion::hostcc::HostCcParameters;
pub use tailback_proto::congestion::rhcc::receiver::ReceiverParameters as RhccReceiverParameters;
pub use tailback_proto::congestion::rhcc::sender::RhccParameters;

/// RHCC; a half that is none is off.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RhccPlan {
    pub sender: Option<RhccParameters>,
    pub receiver: Option<RhccReceiverParameters>,
}
