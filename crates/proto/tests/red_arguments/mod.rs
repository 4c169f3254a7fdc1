//! RED as a kernel ran it in `red_rxe.rs`; the bandwidth is the one that `tc` takes where none is given.

use tailback_proto::aqm::red::RedArguments;
use tailback_proto::units::{Bytes, Rate};

pub const RED: RedArguments = RedArguments {
    limit: Bytes(2_000_000),
    min: Bytes(50_000),
    max: Bytes(200_000),
    avpkt: Bytes(1500),
    burst: 60,
    bandwidth: Rate(10_000_000),
    probability: 0.5,
    ecn: true,
    harddrop: false,
    whole_us: false,
};
