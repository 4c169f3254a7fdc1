//! What the hosts want sent.

mod perftest;

pub(crate) use perftest::{schedule, Writer};
