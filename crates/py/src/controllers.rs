//! What the engine declares of its controllers, for the front.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use tailback_proto::congestion::builtin::{beside, descriptions, Settings};
use tailback_proto::congestion::Link;
use tailback_proto::units::Rate;

/// All controllers as JSON: those that a queue pair may run, then those that act beside one.
#[pyfunction]
pub fn controllers() -> PyResult<String> {
    serde_json::to_string(&[descriptions(), beside()])
        .map_err(|error| PyValueError::new_err(error.to_string()))
}

/// All sections of settings as JSON.
#[pyfunction]
pub fn settings() -> PyResult<String> {
    serde_json::to_string(&tailback_sim::settings::sections())
        .map_err(|error| PyValueError::new_err(error.to_string()))
}

/// Whether a controller can be set so, on a link: none, or the parameter that is wrong and what was expected.
#[pyfunction]
pub fn check_controller(
    settings_json: &str,
    rate_bps: u64,
    mtu_bytes: u32,
) -> PyResult<Option<(&'static str, String)>> {
    let settings: Settings =
        serde_json::from_str(settings_json).map_err(|error| PyValueError::new_err(error.to_string()))?;
    let refused = settings.on(Link { rate: Rate(rate_bps), mtu_bytes }).err();
    Ok(refused.map(|refused| (refused.field, refused.expected)))
}
