//! Fuzz targets. `make fuzz` runs them; `cargo bolero test -p tailback-fuzz --sanitizer NONE congestion::dcqcn` runs one by
//! coverage for as long as one lets it.

mod aqm;
mod captures;
#[path = "../../../crates/sim/tests/common/mod.rs"]
mod common;
mod congestion;
mod flow_control;
#[cfg(target_os = "linux")]
mod hostile;
#[path = "../../../crates/compat/tests/common/seeds.rs"]
mod hpcc_seeds;
#[cfg(target_os = "linux")]
mod live;
mod plans;
mod scheduling;
mod transport;
