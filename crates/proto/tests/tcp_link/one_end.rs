//! One end of a connection, fed by hand; positions are counted in segments.

use super::{parameters, MSS};
use tailback_proto::transport::tcp::*;
use tailback_proto::units::Time;

pub const SEGMENT: u64 = MSS as u64;

pub fn reno() -> TcpParameters {
    parameters(ControlParameters::NewReno)
}

pub fn ms(n: u64) -> Time {
    Time::from_ms(n)
}

pub fn segment(number: u64) -> DataSegment {
    DataSegment {
        position: number * SEGMENT,
        bytes: MSS,
        segments: 1,
        ce: false,
        cwr: false,
        sent_at: Time::ZERO,
    }
}

/// An ACK of the first `segments`, with SACK blocks in segments.
pub fn ack(segments: u64, blocks: &[(u64, u64)]) -> AckSegment {
    let mut sack = SackBlocks::default();
    blocks.iter().for_each(|&(start, end)| assert!(sack.push(start * SEGMENT, end * SEGMENT)));
    AckSegment { ack: segments * SEGMENT, window: 1 << 30, sack, ece: false, echo: Time::ZERO }
}

/// Everything that the sender may send now: first segment, segments, whether again.
pub fn drain(sender: &mut TcpSender, p: &TcpParameters, now: Time) -> Vec<(u64, u64, bool)> {
    std::iter::from_fn(|| sender.poll_transmit(p, now, u32::MAX))
        .map(|burst| (burst.position / SEGMENT, burst.bytes as u64 / SEGMENT, burst.retransmission))
        .collect()
}

/// A sender that has sent its first window of `window` segments.
pub fn sender(p: &TcpParameters, window: u64) -> (TcpSender, TcpParameters) {
    let p = TcpParameters { initial_window: window * SEGMENT, ..*p };
    p.check().unwrap();
    let mut sender = TcpSender::new(&p);
    sender.write(u64::MAX);
    drain(&mut sender, &p, Time::ZERO);
    assert_eq!(sender.in_flight(), window * SEGMENT);
    (sender, p)
}
