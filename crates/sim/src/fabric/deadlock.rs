//! Deadlocks: pauses that wait for each other.
//!
//! A queue that is paused waits for an ingress group of the next switch, which waits for the queues that its packets
//! stand in. Where these are paused too, and the chain comes back to where it began, nothing on it ever moves again
//! (Hu et al., "Deadlocks in Datacenter Networks: Why Do They Form, and How to Avoid Them", HotNets 2016).

use std::collections::BTreeMap;
use tailback_proto::units::Time;

use super::lanes::{lane, port_and_class};
use super::Fabric;

/// A cycle counts as a deadlock when all its queues have been paused with packets waiting for this long: ten times the
/// longest pause that one frame can ask for at 25 Gbit/s, far longer than any queue here takes to drain.
const STANDSTILL: Time = Time::from_ms(13);
/// On slow links: for the time of this many packets of 4,096 B on the slowest of them.
const PACKETS_OF_STANDSTILL: u64 = 10;
/// Looks for a deadlock in this time.
const LOOKS: u64 = 4;

/// When to look for deadlocks, and what was found.
#[derive(Debug)]
pub(crate) struct Deadlocks {
    standstill: Time,
    next_look: Time,
    /// Lanes, each waiting for the next and the last for the first, and since when.
    pub found: Option<(Vec<usize>, Time)>,
}

impl Deadlocks {
    /// `slowest_packet`: time of a packet of 4,096 B on the slowest link.
    pub fn new(slowest_packet: Time) -> Self {
        let standstill = STANDSTILL.max(Time(PACKETS_OF_STANDSTILL * slowest_packet.0));
        Deadlocks { standstill, next_look: standstill, found: None }
    }

    /// Whether there is a deadlock that no watchdog will end.
    pub fn look(&mut self, fabric: &Fabric) -> bool {
        if !self.is_due(fabric.run.now) {
            return false;
        }
        self.looked(fabric.run.now);
        self.look_at(&self.stuck(fabric), |_| fabric)
    }

    /// Whether there is one among the lanes that are `stuck`, where `of` says which fabric has the state of a node.
    pub fn look_at<'a>(&mut self, stuck: &[usize], of: impl Fn(u32) -> &'a Fabric) -> bool {
        let at = |port: usize| of(of(0).ports[port].owner);
        let waits_for = |lane: usize| {
            let peer = of(0).ports[port_and_class(lane).0].peer;
            at(peer as usize).waits_for(lane, stuck)
        };
        let Some(cycle) = cycle(stuck, waits_for) else { return false };
        let since =
            cycle.iter().filter_map(|&lane| at(port_and_class(lane).0).pauses[lane].paused_since()).max();
        self.found = since.map(|since| (cycle, since));
        true
    }

    /// Whether it is time to look.
    pub fn is_due(&self, now: Time) -> bool {
        now >= self.next_look
    }

    /// There was none.
    pub fn looked(&mut self, now: Time) {
        self.next_look = now + Time(self.standstill.0 / LOOKS);
    }

    /// The lanes that wait for long: without any there is no deadlock.
    pub fn stuck(&self, fabric: &Fabric) -> Vec<usize> {
        let long_ago = fabric.run.now.saturating_sub(self.standstill);
        let is_stuck = |lane: &usize| {
            !fabric.queues[*lane].fifo.is_empty()
                && fabric.pauses[*lane].paused_since().is_some_and(|since| since <= long_ago)
                && !fabric.is_watched(*lane)
        };
        (0..fabric.queues.len()).filter(is_stuck).collect()
    }
}

/// A cycle of lanes, each waiting for the next, among those that are `stuck`; from its lowest lane on.
fn cycle(stuck: &[usize], waits_for: impl Fn(usize) -> Vec<usize>) -> Option<Vec<usize>> {
    /// What is known of a lane.
    #[derive(Clone, Copy, PartialEq)]
    enum Seen {
        OnPath,
        LeadsNowhere,
    }
    let mut seen: BTreeMap<usize, Seen> = BTreeMap::new();
    for &start in stuck {
        // Lanes on the path, each with those that it waits for and that were not looked at yet.
        let mut path: Vec<(usize, Vec<usize>)> = Vec::new();
        let mut next = Some(start).filter(|start| !seen.contains_key(start));
        while next.is_some() || !path.is_empty() {
            if let Some(lane) = next.take() {
                seen.insert(lane, Seen::OnPath);
                path.push((lane, waits_for(lane)));
            }
            let (lane, ahead) = path.last_mut().expect("it is not empty");
            match ahead.pop() {
                Some(other) if seen.get(&other) == Some(&Seen::OnPath) => {
                    let lanes = path.iter().map(|(lane, _)| *lane);
                    let mut cycle: Vec<usize> = lanes.skip_while(|&lane| lane != other).collect();
                    let lowest = (0..cycle.len()).min_by_key(|&at| cycle[at])?;
                    cycle.rotate_left(lowest);
                    return Some(cycle);
                }
                Some(other) => next = Some(other).filter(|other| !seen.contains_key(other)),
                None => {
                    seen.insert(*lane, Seen::LeadsNowhere);
                    path.pop();
                }
            }
        }
    }
    None
}

impl Fabric {
    /// The stuck lanes where packets stand that keep a lane's pause up.
    fn waits_for(&self, at: usize, stuck: &[usize]) -> Vec<usize> {
        let (port, class) = port_and_class(at);
        let peer = self.ports[port].peer as usize;
        let Some(switch) = self.switch_of(peer) else { return Vec::new() };
        let own = self.ports_of(switch);
        let first = own.start;
        own.map(|port| lane(port, class))
            .filter(|lane| stuck.binary_search(lane).is_ok())
            .filter(|&lane| {
                let mut packets = self.queues[lane].fifo.iter(&self.packets);
                packets.any(|packet| first + packet.ingress as usize == peer)
            })
            .collect()
    }
}
