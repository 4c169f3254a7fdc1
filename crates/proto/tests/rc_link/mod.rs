//! A requester and a responder on simulated time, on a link with a delay.

use std::collections::BTreeMap;
use tailback_proto::transport::rc::*;
use tailback_proto::units::Time;

pub const PARAMETERS: RcParameters = RcParameters {
    ack_every: 4,
    ack_timeout: Time::from_us(1000),
    first_timeout: Time::from_us(100),
    retry_count: 7,
    slow_restart: SlowRestart::Never,
    nak_reaction: Time::ZERO,
    nak_delay: Time::ZERO,
    losses_are_cnps: false,
    discarded_cause_cnps: true,
    selective: None,
};
/// One way.
pub const DELAY: Time = Time::from_us(5);
/// Between two packets of the requester.
pub const GAP: Time = Time::from_us(1);

/// Both ends, and what is on the link.
pub trait Exchange {
    type Packet;
    fn requester(&self) -> &Requester;
    /// Packets on the link, by their arrival and their number.
    fn on_link(&mut self) -> &mut BTreeMap<(Time, usize), Self::Packet>;
    fn has_failed(&self) -> bool;
    fn arrive(&mut self, now: Time, packet: Self::Packet);
    /// The requester's timer has expired.
    fn time_out(&mut self, now: Time);
    /// The requester sends a packet.
    fn send(&mut self, now: Time);
}

/// Runs until everything is acknowledged or the connection is in error; panics where it hangs.
pub fn run(exchange: &mut impl Exchange) -> Time {
    let mut now = Time::ZERO;
    let mut may_send_at = Time::ZERO;
    for _ in 0..200_000 {
        if exchange.requester().is_idle() || exchange.has_failed() {
            return now;
        }
        let next = [
            exchange.on_link().keys().next().map(|key| key.0),
            exchange.requester().next_timeout(),
            exchange.requester().has_work().then_some(may_send_at.max(now)),
        ];
        now = next.into_iter().flatten().min().expect("the exchange hangs: nothing will ever happen");
        if let Some(entry) = exchange.on_link().first_entry().filter(|entry| entry.key().0 == now) {
            let packet = entry.remove();
            exchange.arrive(now, packet);
        } else if exchange.requester().next_timeout() == Some(now) {
            exchange.time_out(now);
        } else {
            exchange.send(now);
            may_send_at = now + GAP;
        }
    }
    panic!("the exchange does not end");
}
