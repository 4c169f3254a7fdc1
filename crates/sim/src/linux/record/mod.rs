//! The recording of Linux: bridges, veth pairs and their queueing disciplines.

pub(crate) mod bridges;
pub(crate) mod qdisc;
pub(crate) mod veth;
