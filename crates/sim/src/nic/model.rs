//! What a kind of NIC is set to.

use tailback_proto::congestion::builtin::Congestion;
use tailback_proto::congestion::rhcc::sender::SenderParameters;
use tailback_proto::nic::Common;
use tailback_proto::transport::rc::RcParameters;
use tailback_proto::units::Time;

use crate::fabric::classes::ClassOf;
use crate::fabric::lanes::CLASSES;

/// A NIC's settings, one for each kind of NIC and link rate.
#[derive(Debug)]
pub(crate) struct NicModel {
    pub rc: RcParameters,
    /// By number: what its queue pairs may run.
    pub congestion: Vec<Congestion>,
    /// Where queue pairs probe their receivers.
    pub rhcc: Option<SenderParameters>,
    /// By number of the congestion control.
    pub min_time_between_cnps: Vec<Time>,
    /// `ECT`, if data packets say so.
    pub data_flags: u8,
    /// Class of each code point.
    pub class_of: ClassOf,
    /// Code point of CNPs, if not that of the packet that was marked.
    pub cnp_code_point: Option<u8>,
    /// Classes with strict priority.
    pub strict: u8,
    /// Shares of the other classes; none: packets in turns.
    pub weights: Option<[u32; CLASSES]>,
    /// Line rate, bit/s.
    pub line_rate: f64,
}

impl NicModel {
    /// What queue pairs with this congestion control have in common.
    #[inline]
    pub fn common(&self, congestion: u8) -> Common<'_> {
        Common { rc: &self.rc, congestion: &self.congestion[congestion as usize], line_rate: self.line_rate }
    }
}
