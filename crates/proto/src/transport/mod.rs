//! Reliable delivery.

pub mod rc;
