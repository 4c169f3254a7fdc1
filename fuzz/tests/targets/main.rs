//! Fuzz targets. `make fuzz` runs them; `cargo bolero test -p tailback-fuzz --sanitizer NONE congestion::dcqcn` runs one by
//! coverage for as long as one lets it.

mod congestion;
mod flow_control;
mod scheduling;
mod transport;
