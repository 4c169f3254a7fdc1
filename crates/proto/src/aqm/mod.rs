//! Active queue management: what a queue decides about a packet.

pub mod ecn;
