//! The host behind the NIC: the data path to its memory and the agent that watches it; its CPU, its sockets, and the
//! rings between them and the NIC.
//!
//! RoCE packets never come to the CPU: an RDMA WRITE costs the CPUs of both ends nothing.

pub(crate) mod agent;
pub(crate) mod build;
pub(crate) mod connection;
mod cores;
pub(crate) mod cpu;
mod gro;
pub(crate) mod path;
pub(crate) mod rings;
mod socket;
mod turns;

use connection::Sockets;
use cpu::Cpus;
use rings::TxRings;

/// The TCP of all hosts: their CPUs, their connections, and their transmit rings.
#[derive(Debug, Default)]
pub(crate) struct Tcp {
    pub cpus: Cpus,
    pub sockets: Sockets,
    pub rings: TxRings,
}
