//! The host behind the NIC: the data path to its memory and the agent that watches it; its CPU, its sockets, and the
//! rings between them and the NIC.
//!
//! RoCE packets never come to the CPU: an RDMA WRITE costs the CPUs of both ends nothing.

pub(crate) mod agent;
mod cpu;
mod gauge;
mod gro;
pub(crate) mod path;
mod rings;
mod socket;

pub use cpu::CpuParameters;
pub(crate) use cpu::Cpus;
pub(crate) use gauge::Gauge;
pub use path::{DdioParameters, GpuParameters, MemoryParameters, PathParameters};
pub use path::{ReadsParameters, StallsParameters};
pub(crate) use rings::{TxRings, ETHERNET};
pub(crate) use socket::{schedule, Connection, Sockets};
