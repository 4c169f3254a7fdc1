//! The receiver's side of DCQCN: marks become congestion notification packets (CNPs).
//!
//! Source: Zhu et al., "Congestion Control for Large-Scale RDMA Deployments", SIGCOMM 2015, section 3.1.

use crate::choice;
use crate::units::Time;

choice! {
    /// What the least time between two CNPs holds for.
    pub enum CnpInterval {
        /// Each queue pair.
        Qp = "qp",
        /// All queue pairs whose CNPs go to one host together.
        Destination = "destination",
        /// All queue pairs of a port together.
        Port = "port",
    }
}

/// Turns CE marks into CNPs, never two closer than the minimum interval.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NotificationPoint {
    next_at: Time,
}

impl NotificationPoint {
    /// A packet with a CE mark arrived. Returns whether to send a CNP.
    pub fn on_ecn_marked(&mut self, now: Time, min_time_between_cnps: Time) -> bool {
        if now < self.next_at {
            return false;
        }
        self.next_at = now + min_time_between_cnps;
        true
    }
}
