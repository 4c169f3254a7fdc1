//! What the engine declares of its settings, for the front: its fields, their schema and their reference are made from it.

use tailback_proto::flow_control::pfc::PfcParameters;
use tailback_proto::flow_control::watchdog::WatchdogParameters;
use tailback_proto::parameters::Section;

/// All sections.
pub fn sections() -> Vec<Section> {
    vec![Section::of::<PfcParameters>("Pfc"), Section::of::<WatchdogParameters>("Watchdog")]
}
