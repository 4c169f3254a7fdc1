//! The host behind the NIC: the data path to its memory and the agent that watches it; its CPU, its sockets, and the
//! rings between them and the NIC.
//!
//! RoCE packets never come to the CPU: an RDMA WRITE costs the CPUs of both ends nothing.

pub(crate) mod agent;
mod backlog;
mod cpu;
mod gro;
pub(crate) mod path;
mod rings;
mod socket;

pub(crate) use backlog::Backlog;
pub(crate) use cpu::Cpus;
pub(crate) use rings::{TxRings, ETHERNET};
pub(crate) use socket::{schedule, Connection, Sockets};
