//! The host behind the NIC: its CPU, its sockets, and the rings between them and the NIC.
//!
//! RoCE packets never come here: an RDMA WRITE costs the CPUs of both ends nothing.

mod cpu;
mod gro;
mod rings;
mod socket;

pub(crate) use cpu::Cpus;
pub(crate) use rings::{TxRings, ETHERNET};
pub(crate) use socket::{schedule, Connection, Sockets};
