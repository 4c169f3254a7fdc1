//! SimAI's front end (aliyun/SimAI, commit b5ff47c): a workload of layers on GPUs, and its collectives.
//!
//! Each GPU goes through the layers ([`rank`]). Tensor, data and expert parallelism divide the GPUs into groups, and rings
//! pass the servers of a group. A collective is a graph of messages on these rings, or between all pairs
//! of ranks. Each message has its own queue pair, which begins a fixed time after the message was asked for.
//!
//! Leaves out: NVLS, where switches reduce on the way; pipeline parallelism, for which SimAI sends nothing either; and
//! NVSwitches as nodes of the logical topology, where all they do is wait forever.

pub mod plan;
mod rank;

use std::collections::VecDeque;
use tailback_proto::units::Time;

use self::rank::Exchange;
use self::rank::Members;
use super::history::TimeSpent;
use crate::history::History;
use plan::{LayerPart, SimaiPlan};
use rank::{Context, Outgoing, Rank};
use tailback_sim::engine::NumberMap;
use tailback_sim::plan::PlanError;
use tailback_sim::work::DomainLinks;
use tailback_sim::work::{Finished, JobRecord, LayerRecord, Message, Network, Passage, Work};

/// The largest message: sizes are 32 bits in the network.
const MOST_BYTES: u64 = u32::MAX as u64;

/// A run's GPUs, and what is under way between them.
#[derive(Debug)]
pub struct Simai {
    plan: SimaiPlan,
    ranks: Vec<Rank>,
    /// Messages whose queue pairs have not begun, in the order in which they will.
    latent: VecDeque<Outgoing>,
    /// Messages inside servers that the network does not carry, in the order of their times: those that have not reached
    /// their receiver's link, and those on it.
    inside: [Vec<(Time, Outgoing)>; 2],
    links: DomainLinks,
    /// Messages in the network, and whether they have left their NICs.
    sent: NumberMap<u32, (Outgoing, bool)>,
    outgoing: Vec<Outgoing>,
    history: History,
    finished: Vec<Finished>,
    layers: Vec<LayerRecord>,
}

/// Timers beside those of the ranks: a queue pair begins; a message inside a server reaches its receiver's link, or
/// arrives.
#[derive(Clone, Copy)]
enum Extra {
    Begin,
    Comes,
    IsThere,
}

impl Simai {
    /// Checks a plan.
    ///
    /// # Errors
    /// One line, where it is impossible.
    pub fn new(plan: SimaiPlan) -> Result<Self, PlanError> {
        plan.check()?;
        for (number, layer) in plan.layers.iter().enumerate() {
            for part in [LayerPart::Forward, LayerPart::Input, LayerPart::Weight] {
                let asked = layer.parts[part as usize].collective;
                let (Some(asked), Some(_)) = (asked, plan.dimension(part)) else { continue };
                let impossible = |problem: String| {
                    let place = format!("{}: layer {number} ({}), {}", plan.file, layer.name, part.name());
                    Err(PlanError::Impossible { place, problem })
                };
                for rank in 0..plan.gpus {
                    let Some(members) = Members::of(&plan, asked.group, rank) else {
                        return impossible(
                            "expected a group of two or more ranks, as many in each of its servers".into(),
                        );
                    };
                    let bytes = Exchange::message_bytes(asked.kind, &members, asked.bytes);
                    if bytes > MOST_BYTES {
                        return impossible(format!(
                            "expected messages of at most {MOST_BYTES} B, found {} B, which sends {bytes} B in one",
                            asked.bytes
                        ));
                    }
                }
            }
        }
        Ok(Simai {
            ranks: (0..plan.gpus).map(Rank::new).collect(),
            plan,
            latent: VecDeque::new(),
            inside: Default::default(),
            links: DomainLinks::default(),
            sent: NumberMap::default(),
            outgoing: Vec::new(),
            history: History::default(),
            finished: Vec::new(),
            layers: Vec::new(),
        })
    }

    /// Lets a rank act, and sends what it asks for.
    fn with(&mut self, rank: u32, network: &mut dyn Network, act: impl FnOnce(&mut Rank, &mut Context)) {
        if self.is_over() {
            return;
        }
        let records = (rank == 0).then_some(&mut self.layers);
        let one = &mut self.ranks[rank as usize];
        let was_finished = one.is_finished();
        let (plan, outgoing, history) = (&self.plan, &mut self.outgoing, &mut self.history);
        act(one, &mut Context { plan, network, outgoing, history, records });
        if one.is_finished() && !was_finished {
            let computed = Time(one.computed_ns.saturating_mul(1000));
            self.finished.push(Finished { rank, at: network.now(), computed });
        }
        let outgoing = std::mem::take(&mut self.outgoing);
        for &message in &outgoing {
            if self.plan.send_latency_ns == 0 {
                self.send(message, network);
            } else {
                self.latent.push_back(message);
                let latency = Time(self.plan.send_latency_ns.saturating_mul(1000));
                network.call_after(latency, self.timer(Extra::Begin));
            }
        }
        self.outgoing = outgoing;
        self.outgoing.clear();
    }

    fn timer(&self, extra: Extra) -> u32 {
        self.plan.gpus + extra as u32
    }

    fn send(&mut self, message: Outgoing, network: &mut dyn Network) {
        let Outgoing { from, to, bytes, .. } = message;
        let server = |rank: u32| rank / self.plan.gpus_per_server;
        if let Some(domain) = self.plan.inside.filter(|_| server(from) == server(to)) {
            let at = self.links.send(&domain, network.now(), from, bytes);
            self.note(Extra::Comes, at, message, network);
            return;
        }
        let number = network.send(&Message { from, to, bytes, item: 0, code_point: 0, channel: None });
        self.sent.insert(number, (message, false));
    }

    /// Notes what happens to a message inside a server, and when.
    fn note(&mut self, extra: Extra, at: Time, message: Outgoing, network: &mut dyn Network) {
        network.call_after(Time(at.0 - network.now().0), self.timer(extra));
        let list = &mut self.inside[extra as usize - 1];
        let place = list.partition_point(|(time, _)| *time > at);
        // The next one is last; among equal times it is the one noted first.
        list.insert(place, (at, message));
    }

    fn tell_sent(&mut self, number: u32, network: &mut dyn Network) {
        if let Some((message, is_sent @ false)) = self.sent.get_mut(&number) {
            *is_sent = true;
            let Outgoing { from, to, bytes, stream, cause, .. } = *message;
            let passage = network.passage(number);
            let took = TimeSpent::Message(to, bytes, Passage { ideal: passage.link, ..passage });
            let cause = self.history.chains.again(cause);
            self.history.chains.happens(cause, from, network.now(), took);
            self.with(from, network, |rank, context| rank.on_sent(stream, context));
            self.history.chains.over();
        }
    }

    fn tell_received(&mut self, message: Outgoing, network: &mut dyn Network) {
        let Outgoing { to, stream, label, .. } = message;
        self.with(to, network, |rank, context| rank.on_received(stream, label, context));
    }
}

impl Work for Simai {
    fn begin(&mut self, network: &mut dyn Network) {
        for rank in 0..self.plan.gpus {
            self.with(rank, network, |rank, context| rank.step(context));
        }
    }

    fn on_timer(&mut self, timer: u32, network: &mut dyn Network) {
        match timer.checked_sub(self.plan.gpus) {
            None => self.with(timer, network, |rank, context| rank.on_timers(context)),
            Some(extra) if extra == Extra::Begin as u32 => {
                if let Some(message) = self.latent.pop_front() {
                    self.history.chains.happens(message.cause, message.from, network.now(), TimeSpent::Delay);
                    let cause = self.history.chains.cause();
                    self.send(Outgoing { cause, ..message }, network);
                    self.history.chains.over();
                }
            }
            Some(extra) if extra == Extra::Comes as u32 => {
                let (Some((now, message)), Some(domain)) = (self.inside[0].pop(), self.plan.inside) else {
                    return;
                };
                let at = self.links.receive(&domain, now, message.to, message.bytes);
                self.note(Extra::IsThere, at, message, network);
            }
            Some(_) => {
                let Some((_, message)) = self.inside[1].pop() else { return };
                let Outgoing { from, to, bytes, stream, cause, .. } = message;
                self.history.chains.happens(cause, from, network.now(), TimeSpent::Inside(to, bytes));
                self.with(from, network, |rank, context| rank.on_sent(stream, context));
                self.tell_received(message, network);
                self.history.chains.over();
            }
        }
    }

    fn on_sent(&mut self, message: u32, network: &mut dyn Network) {
        self.tell_sent(message, network);
    }

    fn on_done(&mut self, message: u32, network: &mut dyn Network) {
        self.tell_sent(message, network);
        let passage = network.passage(message);
        if let Some((message, _)) = self.sent.remove(&message) {
            let took = TimeSpent::Message(message.to, message.bytes, passage);
            self.history.chains.happens(message.cause, message.from, network.now(), took);
            self.tell_received(message, network);
            self.history.chains.over();
        }
    }

    fn finished(&self) -> &[Finished] {
        &self.finished
    }

    fn is_over(&self) -> bool {
        self.finished.len() == self.ranks.len()
    }

    fn problem(&self) -> Option<&str> {
        None
    }

    fn waiting(&self) -> Vec<(u32, String)> {
        (0..).zip(&self.ranks).filter_map(|(host, rank)| Some((host, rank.waiting(&self.plan)?))).collect()
    }

    fn jobs(&self) -> Vec<JobRecord> {
        vec![self.history.job(self.plan.name(), self.ranks.len(), &self.finished)]
    }

    fn layers(&self) -> &[LayerRecord] {
        &self.layers
    }
}
