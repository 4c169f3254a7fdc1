//! Quantities of queue pairs: their rates, and the signals that their congestion controllers show.

use std::collections::HashMap;
use tailback_proto::congestion::rhcc::Sender;
use tailback_proto::congestion::{shown, Controller, Merged, SignalInfo};
use tailback_proto::units::Time;

use super::quantity::{quantities, recorded, Bin, ValueKind};
use super::recording::Entity;
use super::series::ShownSignal;
use crate::nic::queue_pair::{QpState, SendQp};
use crate::nic::NicModel;
use crate::plan::Plan;
use crate::workload::Writer;
use crate::world::World;

recorded! {
    quantities {
        /// Rate that a queue pair may send at.
        RATE of ["queue-pair", "message"] always, |bin, qp| {
            "rate_bps": Now, "bit/s", "its rate at the end of the bin; the line rate without a limiter"
                = rate(bin.world, qp, bin.world.fabric.run.now);
        }
    }

    quantities {
        /// Rate at which it delivers.
        DELIVERED of ["queue-pair", "message"], |bin, qp| {
            "goodput_bps": Rate, "bit/s", "payload delivered in order" = bin.world.nics.recv_qps[qp].bytes_delivered;
        }
    }

    quantities {
        /// Of a traffic item.
        ITEM of ["item"] always, |bin, item| {
            "goodput_rx_bps": Rate, "bit/s", "what of it reached memory, at all receivers together"
                = bin.items.map_or(0, |items| items.of_item(item as u32));
        }
    }

    quantities {
        /// Of a traffic item at one of its senders.
        ITEM_AT_SENDER of ["item-at-sender"] always, |bin, index| {
            "goodput_tx_bps": Rate, "bit/s", "what of it reached memory, a part of that of the host"
                = bin.items.map_or(0, |items| items.at_sender(index));
        }
    }
}

/// Most signals of a controller: `at` is of the queue pair and the number of the signal.
const SIGNALS: usize = 256;

fn signal(bin: &mut Bin<World>, at: usize, _: &mut [u64], values: &mut [f64]) {
    let (s, model) = queue_pair(bin.world, at / SIGNALS);
    values[0] = s.half.pacer.flow.signal(&model.congestion[s.congestion as usize], bin.now, at % SIGNALS);
}

fn beside(bin: &mut Bin<World>, at: usize, _: &mut [u64], values: &mut [f64]) {
    let (s, model) = queue_pair(bin.world, at / SIGNALS);
    values[0] = match (&s.prober, &model.rhcc) {
        (Some(prober), Some(law)) => (Sender::SIGNALS[at % SIGNALS].read)(&prober.sender, law),
        _ => 0.0,
    };
}

/// Signals of a queue pair's controller, and of those that act beside it.
pub(super) fn signals(world: &World, qp: usize) -> (Vec<ShownSignal<World>>, Vec<ShownSignal<World>>) {
    let (s, model) = queue_pair(world, qp);
    let signals = |shown: Vec<SignalInfo>, read| {
        let signal = |(number, shown): (usize, SignalInfo)| ShownSignal {
            name: shown.name,
            kind: match shown.merged {
                Merged::Mean => ValueKind::Now,
                Merged::Last => ValueKind::Last,
            },
            read,
            at: qp * SIGNALS + number,
        };
        shown.into_iter().enumerate().map(signal).collect()
    };
    let besides = if s.prober.is_some() { shown::<Sender>() } else { Vec::new() };
    (signals(model.congestion[s.congestion as usize].signals(), signal), signals(besides, beside))
}

fn queue_pair(world: &World, qp: usize) -> (&SendQp, &NicModel) {
    let s = &world.nics.send_qps[qp];
    (s, &world.nics.models[world.nics[s.src as usize].model as usize])
}

/// The rate of a queue pair at an instant after all that has happened to it.
pub(super) fn rate(world: &World, qp: usize, at: Time) -> f64 {
    let (s, model) = queue_pair(world, qp);
    let rate = s.half.pacer.flow.rate_at(&model.congestion[s.congestion as usize], at);
    s.prober.as_ref().map_or(rate, |prober| prober.sender.limit(rate))
}

pub(super) fn entity(plan: &Plan, world: &World, qp: usize) -> Entity {
    let s = &world.nics.send_qps[qp];
    let (kind, short, number, item) = match qp.checked_sub(world.nics.first_flow_qp as usize) {
        Some(message) => {
            let flow = &plan.flows.list[message];
            ("message", "flow", message, &plan.flows.items[flow.item()])
        }
        None => {
            let number = world.nics.writers[s.writer as usize].number_of(qp as u32) as usize;
            ("queue-pair", "qp", number, &plan.writers[s.writer as usize].item)
        }
    };
    let (src, dst) = (&plan.hosts[s.src as usize].name, &plan.hosts[s.dst as usize].name);
    Entity::new(format!("{src}-{dst}/{short}{number}"), kind, src).towards(dst).of_item(item)
}

// What each traffic item delivers, in runs that have several.
//
// Bytes are summed when a bin ends, over the queue pairs and connections at work. Those that have not
// started or are done cost nothing, so a long list of messages does not slow the run down. Nothing is done
// per packet.

/// One traffic item at one sending host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct ItemAtSender {
    pub item: u32,
    pub host: u16,
}

/// Payload delivered in order, by traffic item and sending host.
#[derive(Clone, Debug)]
pub(crate) struct Items {
    /// Names of the items, in the order of the plan.
    pub names: Vec<String>,
    /// Items by sender, in the order in which they appear.
    pub at_senders: Vec<ItemAtSender>,
    /// Queue pairs of the plan.
    planned: u32,
    /// Queue pairs that have not started, and TCP connections, numbered after them: start, number, and index
    /// of the item at its sender. The earliest start comes last.
    waiting: Vec<(Time, u32, u32)>,
    /// Queue pairs and connections at work.
    running: Vec<(u32, u32)>,
    /// Bytes of queue pairs and connections that are done, by item and sender.
    done: Vec<u64>,
    /// Bytes that other parts of a divided network reported, by item and sender; and the bytes that this part
    /// reported.
    elsewhere: Vec<u64>,
    reported_bytes: Vec<u64>,
    /// Bytes in all, by item and sender, as of the last update.
    delivered: Vec<u64>,
    /// The same by item alone.
    delivered_of_item: Vec<u64>,
}

impl Items {
    /// None if all traffic is of one item: then the hosts' series say everything.
    pub fn new(plan: &Plan, world: &World) -> Option<Self> {
        let mut names: Vec<String> = Vec::new();
        let mut number_of: HashMap<&str, u32> = HashMap::new();
        let mut number = |name| {
            *number_of.entry(name).or_insert_with(|| {
                names.push(String::from(name));
                names.len() as u32 - 1
            })
        };
        let listed =
            plan.flows.list.iter().map(|flow| (plan.flows.items[flow.item()].as_str(), flow.start()));
        let writers: Vec<(u32, Time)> = (plan.writers.iter())
            .map(|writer| (writer.item.as_str(), writer.start))
            .chain(listed)
            .map(|(name, start)| (number(name), start))
            .collect();
        let sockets: Vec<(u32, Time)> =
            (plan.tcp_connections.iter()).map(|item| (number(item.item.as_str()), item.start)).collect();
        if names.len() < 2 {
            return None;
        }
        let mut at_senders: Vec<ItemAtSender> = Vec::new();
        let mut place_of: HashMap<ItemAtSender, u32> = HashMap::new();
        let qps = world.nics.send_qps.iter().map(|s| (writers[s.writer as usize], s.src));
        let connections = world.tcp.sockets.connections.iter().map(|c| (sockets[c.group as usize], c.src));
        let mut waiting: Vec<(Time, u32, u32)> = (qps.chain(connections).enumerate())
            .map(|(flow, ((item, start), host))| {
                let one = ItemAtSender { item, host };
                let place = *place_of.entry(one).or_insert_with(|| {
                    at_senders.push(one);
                    at_senders.len() as u32 - 1
                });
                (start, flow as u32, place)
            })
            .collect();
        waiting.sort_unstable();
        waiting.reverse();
        let none = vec![0; at_senders.len()];
        let delivered_of_item = vec![0; names.len()];
        Some(Items {
            names,
            at_senders,
            planned: world.nics.send_qps.len() as u32,
            waiting,
            running: Vec::new(),
            done: none.clone(),
            elsewhere: none.clone(),
            reported_bytes: none.clone(),
            delivered: none,
            delivered_of_item,
        })
    }

    /// Adds up what has been delivered so far.
    pub fn update(&mut self, world: &World) {
        while self.waiting.last().is_some_and(|&(start, ..)| start <= world.fabric.run.simulated()) {
            self.running.extend(self.waiting.pop().map(|(_, qp, place)| (qp, place)));
        }
        let known = self.done.iter().zip(&self.elsewhere).map(|(done, elsewhere)| done + elsewhere);
        self.delivered.clear();
        self.delivered.extend(known);
        let (planned, delivered, done) = (&self.planned, &mut self.delivered, &mut self.done);
        self.running.retain(|&(flow, place)| {
            // Packets that a failed one had on their way may still arrive.
            let (bytes, ended) = match flow.checked_sub(*planned) {
                None => {
                    let (s, r) = (&world.nics.send_qps[flow as usize], &world.nics.recv_qps[flow as usize]);
                    let Writer { messages, writes, .. } = &world.nics.writers[s.writer as usize];
                    let packets = messages.map(|messages| messages * writes.packets_per_message);
                    // If the sender is on another core, its state is unknown.
                    let ended = s.state == QpState::Done || packets == Some(r.half.responder.received());
                    (r.bytes_delivered, ended)
                }
                Some(connection) => {
                    let c = &world.tcp.sockets.connections[connection as usize];
                    (c.bytes_read, c.state == QpState::Done)
                }
            };
            delivered[place as usize] += bytes;
            if ended {
                done[place as usize] += bytes;
            }
            !ended
        });
        self.delivered_of_item.fill(0);
        for (one, bytes) in self.at_senders.iter().zip(&self.delivered) {
            self.delivered_of_item[one.item as usize] += bytes;
        }
    }

    /// Keeps only some queue pairs, for a part that reports its sums to another.
    pub fn keep(&mut self, keep: impl Fn(usize) -> bool) {
        self.waiting.retain(|&(_, qp, _)| keep(qp as usize));
    }

    /// Bytes delivered so far and not reported before, by item and sender.
    pub fn tell(&mut self, world: &World) -> impl Iterator<Item = (u32, u64)> + '_ {
        self.update(world);
        let new = self.reported_bytes.iter_mut().zip(&self.delivered);
        let new = new.map(|(reported, bytes)| bytes - std::mem::replace(reported, *bytes));
        (0..).zip(new).filter(|&(_, bytes)| bytes > 0)
    }

    /// Another part reports what it delivered.
    pub fn hear(&mut self, (place, bytes): (u32, u64)) {
        self.elsewhere[place as usize] += bytes;
    }

    /// Bytes of an item, over all hosts.
    pub fn of_item(&self, item: u32) -> u64 {
        self.delivered_of_item[item as usize]
    }

    /// Bytes of an item at one sender.
    pub fn at_sender(&self, index: usize) -> u64 {
        self.delivered[index]
    }
}
