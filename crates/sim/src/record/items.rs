//! What each traffic item delivers, in runs that have several.
//!
//! Summed when a bin ends, over the queue pairs that are at work: those that have not started or are done cost nothing,
//! so that a long list of messages does not slow the run down. Nothing is done per packet.

use std::collections::HashMap;

use tailback_proto::units::Time;

use crate::nic::QpState;
use crate::plan::Plan;
use crate::workload::start_time;
use crate::world::World;

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
    /// Queue pairs that have not started, the first last, with the index of their part.
    waiting: Vec<(Time, u32, u32)>,
    /// Queue pairs at work.
    running: Vec<(u32, u32)>,
    /// Bytes of queue pairs that are done, by part.
    done: Vec<u64>,
    /// Bytes in all, by part, as of the last update.
    delivered: Vec<u64>,
}

impl Items {
    /// None where all traffic is of one item: the hosts' series then say it all.
    pub fn new(plan: &Plan, world: &World) -> Option<Self> {
        let mut names: Vec<String> = Vec::new();
        let mut number_of: HashMap<&str, u32> = HashMap::new();
        let listed = plan.flows.list.iter().map(|flow| plan.flows.tags[flow.tag()].as_str());
        let of_writers: Vec<u32> = (plan.writers.iter().map(|writer| writer.name.as_str()))
            .chain(listed)
            .map(|name| {
                *number_of.entry(name).or_insert_with(|| {
                    names.push(name.into());
                    names.len() as u32 - 1
                })
            })
            .collect();
        if names.len() < 2 {
            return None;
        }
        let mut parts: Vec<Part> = Vec::new();
        let mut part_of: HashMap<Part, u32> = HashMap::new();
        let starts: Vec<Time> = (plan.writers.iter().enumerate())
            .map(|(index, writer)| start_time(writer, plan.seed, index))
            .chain(plan.flows.list.iter().map(|flow| flow.start()))
            .collect();
        let mut waiting: Vec<(Time, u32, u32)> = (world.send_qps.iter().enumerate())
            .map(|(qp, s)| {
                let part = Part { item: of_writers[s.writer as usize], host: s.src };
                let part = *part_of.entry(part).or_insert_with(|| {
                    parts.push(part);
                    parts.len() as u32 - 1
                });
                (starts[s.writer as usize], qp as u32, part)
            })
            .collect();
        waiting.sort_unstable();
        waiting.reverse();
        let none = vec![0; parts.len()];
        Some(Items { names, parts, waiting, running: Vec::new(), done: none.clone(), delivered: none })
    }

    /// Adds up what has been delivered until now.
    pub fn update(&mut self, world: &World) {
        while self.waiting.last().is_some_and(|&(start, ..)| start <= world.now) {
            self.running.extend(self.waiting.pop().map(|(_, qp, part)| (qp, part)));
        }
        self.delivered.copy_from_slice(&self.done);
        let (delivered, done) = (&mut self.delivered, &mut self.done);
        self.running.retain(|&(qp, part)| {
            let bytes = world.recv_qps[qp as usize].bytes_delivered;
            delivered[part as usize] += bytes;
            // What a failed one had on its way may still arrive.
            let ended = world.send_qps[qp as usize].state == QpState::Done;
            if ended {
                done[part as usize] += bytes;
            }
            !ended
        });
    }

    /// Bytes of an item, of all hosts together.
    pub fn of_item(&self, item: u32) -> u64 {
        let own = self.parts.iter().zip(&self.delivered).filter(|(part, _)| part.item == item);
        own.map(|(_, bytes)| bytes).sum()
    }

    /// Bytes of one part.
    pub fn of_part(&self, part: usize) -> u64 {
        self.delivered[part]
    }
}
