//! Links inside of servers, such as NVLink: a rank sends at one rate, one message after the other, and receives so, too.
//!
//! Leaves out: packets, and whatever a switch between them does. A message takes its latency and its bytes at the rate, and
//! waits for those before it at both ends.

use std::collections::HashMap;
use tailback_proto::units::Time;

use crate::plan::DomainPlan;

/// Until when the links of each host are taken: sending, and receiving.
#[derive(Debug, Default)]
pub(crate) struct Links(HashMap<u32, (Time, Time)>);

impl Links {
    /// A message is sent, behind those before it: when its first bit arrives.
    pub fn send(&mut self, domain: &DomainPlan, now: Time, from: u32, bytes: u64) -> Time {
        let sending = &mut self.0.entry(from).or_default().0;
        let begun = now.max(*sending);
        *sending = begun + domain.rate.serialization(bytes);
        begun + domain.latency
    }

    /// Its first bit has arrived: when the last one does, behind the messages that came before it.
    pub fn receive(&mut self, domain: &DomainPlan, now: Time, to: u32, bytes: u64) -> Time {
        let receiving = &mut self.0.entry(to).or_default().1;
        *receiving = now.max(*receiving) + domain.rate.serialization(bytes);
        *receiving
    }
}
