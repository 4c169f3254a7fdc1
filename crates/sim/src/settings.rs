//! What the engine declares of its settings, for the front: its fields, their schema and their reference are made from it.

use tailback_proto::flow_control::pfc::PfcParameters;
use tailback_proto::flow_control::watchdog::WatchdogParameters;
use tailback_proto::parameters::Section;
use tailback_proto::transport::rc::TransportParameters;
use tailback_proto::transport::tcp::TcpSettings;

use crate::host::{CpuParameters, DdioParameters, ReadsParameters};
use crate::linux::costs::{BqlParameters, BridgeCosts};
use crate::linux::moderation::CoalescingParameters;

/// All sections.
pub fn sections() -> Vec<Section> {
    vec![
        Section::of::<PfcParameters>("Pfc"),
        Section::of::<WatchdogParameters>("Watchdog"),
        Section::of::<TransportParameters>("Transport"),
        Section::of::<TcpSettings>("Tcp"),
        Section::of::<CpuParameters>("Cpu"),
        Section::of::<DdioParameters>("Ddio"),
        Section::of::<ReadsParameters>("Reads"),
        Section::of::<CoalescingParameters>("Coalescing"),
        Section::of::<BridgeCosts>("Costs"),
        Section::of::<BqlParameters>("Bql"),
    ]
}
