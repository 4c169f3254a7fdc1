//! Flow control: who tells whom to wait.

pub mod dql;
pub mod pcie_credits;
pub mod pfc;
pub mod veth_queue;
pub mod watchdog;
