//! What each traffic item delivers, in runs that have several.
//!
//! Summed when a bin ends, over the queue pairs and connections that are at work: those that have not started or are done cost nothing,
//! so that a long list of messages does not slow the run down. Nothing is done per packet.

use std::collections::HashMap;

use tailback_proto::units::Time;

use super::quantity::quantities;
use crate::nic::qp::QpState;
use crate::plan::Plan;
use crate::world::World;

quantities! {
    /// Of a traffic item.
    ITEM of ["item"] always, |bin, item| {
        "goodput_rx_bps": Rate, "bit/s", "what of it arrived in order, at all receivers together"
            = bin.items.map_or(0, |items| items.of_item(item as u32));
    }
}

quantities! {
    /// Of a traffic item at one of its senders.
    PART of ["item-at-sender"] always, |bin, part| {
        "goodput_tx_bps": Rate, "bit/s", "what of it arrived in order, a part of that of the host"
            = bin.items.map_or(0, |items| items.of_part(part));
    }
}

/// One traffic item at one sending host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Part {
    pub item: u32,
    pub host: u16,
}

/// Payload delivered in order, by traffic item and sending host.
#[derive(Debug)]
pub(crate) struct Items {
    /// Names of the items, in the order of the plan.
    pub names: Vec<String>,
    /// Items by host, in the order in which they appear.
    pub parts: Vec<Part>,
    /// Queue pairs, and TCP connections counted on from them, that have not started: the first last, with the earliest
    /// start and the index of their part.
    waiting: Vec<(Time, u32, u32)>,
    /// Those at work.
    running: Vec<(u32, u32)>,
    /// Bytes of those that are done, by part.
    done: Vec<u64>,
    /// Bytes in all, by part, as of the last update.
    delivered: Vec<u64>,
    /// The same by item.
    delivered_of_item: Vec<u64>,
}

impl Items {
    /// None where all traffic is of one item: the hosts' series then say it all.
    pub fn new(plan: &Plan, world: &World) -> Option<Self> {
        let mut names: Vec<String> = Vec::new();
        let mut number_of: HashMap<&str, u32> = HashMap::new();
        let mut number = |name| {
            *number_of.entry(name).or_insert_with(|| {
                names.push(String::from(name));
                names.len() as u32 - 1
            })
        };
        let listed = plan.flows.list.iter().map(|flow| (plan.flows.tags[flow.tag()].as_str(), flow.start()));
        let writers: Vec<(u32, Time)> = (plan.writers.iter())
            .map(|writer| (writer.name.as_str(), Time(writer.start_ps)))
            .chain(listed)
            .map(|(name, start)| (number(name), start))
            .collect();
        let sockets: Vec<(u32, Time)> = (plan.tcp_connections.iter())
            .map(|item| (number(item.name.as_str()), Time(item.start_ps)))
            .collect();
        if names.len() < 2 {
            return None;
        }
        let mut parts: Vec<Part> = Vec::new();
        let mut part_of: HashMap<Part, u32> = HashMap::new();
        let qps = world.nics.send_qps.iter().map(|s| (writers[s.writer as usize], s.src));
        let connections = world.tcp.sockets.connections.iter().map(|c| (sockets[c.item as usize], c.src));
        let mut waiting: Vec<(Time, u32, u32)> = (qps.chain(connections).enumerate())
            .map(|(flow, ((item, start), host))| {
                let part = Part { item, host };
                let part = *part_of.entry(part).or_insert_with(|| {
                    parts.push(part);
                    parts.len() as u32 - 1
                });
                (start, flow as u32, part)
            })
            .collect();
        waiting.sort_unstable();
        waiting.reverse();
        let none = vec![0; parts.len()];
        let delivered_of_item = vec![0; names.len()];
        Some(Items {
            names,
            parts,
            waiting,
            running: Vec::new(),
            done: none.clone(),
            delivered: none,
            delivered_of_item,
        })
    }

    /// Adds up what has been delivered until now.
    pub fn update(&mut self, world: &World) {
        while self.waiting.last().is_some_and(|&(start, ..)| start <= world.fabric.run.now) {
            self.running.extend(self.waiting.pop().map(|(_, qp, part)| (qp, part)));
        }
        self.delivered.copy_from_slice(&self.done);
        let (delivered, done) = (&mut self.delivered, &mut self.done);
        self.running.retain(|&(flow, part)| {
            let (bytes, state) = match (flow as usize).checked_sub(world.nics.send_qps.len()) {
                None => (
                    world.nics.recv_qps[flow as usize].bytes_delivered,
                    world.nics.send_qps[flow as usize].state,
                ),
                Some(connection) => {
                    let c = &world.tcp.sockets.connections[connection];
                    (c.bytes_read, c.state)
                }
            };
            delivered[part as usize] += bytes;
            // What a failed one had on its way may still arrive.
            let ended = state == QpState::Done;
            if ended {
                done[part as usize] += bytes;
            }
            !ended
        });
        self.delivered_of_item.fill(0);
        for (part, bytes) in self.parts.iter().zip(&self.delivered) {
            self.delivered_of_item[part.item as usize] += bytes;
        }
    }

    /// Bytes of an item, of all hosts together.
    pub fn of_item(&self, item: u32) -> u64 {
        self.delivered_of_item[item as usize]
    }

    /// Bytes of one part.
    pub fn of_part(&self, part: usize) -> u64 {
        self.delivered[part]
    }
}
