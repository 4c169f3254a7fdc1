//! The host behind the NIC: its data path, and the agent that watches it.

pub(crate) mod agent;
pub(crate) mod path;
