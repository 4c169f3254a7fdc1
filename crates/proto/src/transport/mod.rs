//! Reliable delivery.

pub mod rc;
pub mod tcp;
