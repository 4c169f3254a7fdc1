//! RHCC: congestion inside the receiving host, controlled from both ends.
//!
//! Source: Wan et al., "Rethinking Intra-host Congestion Control in RDMA Networks", APNet 2024, section 3.
//!
//! The *receiver* watches the IIO's buffer and takes memory bandwidth from its CPUs while it is full ([`receiver`]). The
//! *sender* probes how long the receiver's data path takes and limits its rate by that ([`sender`]), below whatever
//! controller it has for the network: `R = min(R_rev, R_cc)` (equation 2). Each half works without the other.

pub mod receiver;
pub mod sender;
