//! Which class of a port goes next.

pub mod ets;
