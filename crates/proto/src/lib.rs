//! What an RDMA end point or a queue *decides*.
//!
//! Every type here is a pure state machine: it has no clock, does no I/O and draws no random numbers.
//! Time, decoded headers and random draws are handed in; actions and rates are handed out. The simulator
//! drives these types on simulated time; a data path over real interfaces can drive the same ones.

// `#[inline(never)]` without a reason beside it: the function is for what most runs never need. Inlined, it would take
// registers and cache lines from the code around it, which every packet passes.

pub mod aqm;
pub mod congestion;
pub mod flow_control;
pub mod interrupts;
pub mod nic;
pub mod parameters;
pub mod scheduling;
pub mod transport;
pub mod units;
pub mod wire;
