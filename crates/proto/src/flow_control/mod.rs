//! Flow control: who tells whom to wait.

pub mod pfc;
pub mod watchdog;
