//! What the hosts want sent.

pub(crate) mod latency;
mod perftest;

pub(crate) use perftest::{start_time, Writer};
