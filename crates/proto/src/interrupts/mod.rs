//! When a device interrupts.

pub mod dim;
