//! Flow control: who tells whom to wait.

pub mod byte_queue_limits;
pub mod pcie_credits;
pub mod pfc;
pub mod shared_buffer;
