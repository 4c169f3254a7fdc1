//! Reliable delivery.

pub mod rc;
mod round_trips;
pub mod tcp;
