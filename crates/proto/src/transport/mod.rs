//! Reliable delivery.

pub mod rc;
pub mod selective;
mod settings;
pub mod tcp;
