//! The host behind the NIC.

pub(crate) mod path;
