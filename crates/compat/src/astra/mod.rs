//! ASTRA-sim's system layer (commit 518bd51): traces of operations, and their collectives.
//!
//! Each rank works through its Chakra trace ([`trace`], [`rank`]). A collective is cut into chunks, each a stream of
//! phases, one for each dimension of the logical topology; streams take turns in queues; a
//! phase is an algorithm among the ranks of its dimension ([`collective`]). What an algorithm does with a network
//! is to send, to expect, and to wait for the memory of its rank.
//!
//! Times are whole nanoseconds, which ASTRA-sim calls cycles. All that a rank does at one instant is one event, in the place
//! of the first that was noted. This order, and the order of calls, decide who sends first.

mod collective;
pub mod plan;
mod rank;
mod trace;

use std::path::PathBuf;

use self::rank::{Context, Receiver, Sent};
use super::history::Matching;
use super::history::TimeSpent;
use crate::history::History;
use plan::AstraPlan;
use rank::Rank;
use tailback_sim::engine::NumberMap;
use tailback_sim::plan::PlanError;
use tailback_sim::work::{Finished, JobRecord, Network, Work};

/// A run's ranks, and what is under way between them.
#[derive(Debug)]
pub struct Astra {
    plan: AstraPlan,
    ranks: Vec<Rank>,
    matching: Matching<Receiver>,
    /// Messages under way.
    sent: NumberMap<u32, Sent>,
    history: History,
    finished: Vec<Finished>,
    problem: Option<String>,
}

impl Astra {
    /// `traces`: the files of the ranks' traces, in the order of ranks. They are read as the run goes on, and must stay.
    ///
    /// # Errors
    /// One line with file, node and field, where a trace or the plan is impossible.
    pub fn new(plan: AstraPlan, traces: &[PathBuf]) -> Result<Self, PlanError> {
        plan.check(traces.len())?;
        let mut ranks = Vec::new();
        for (rank, path) in traces.iter().enumerate() {
            let impossible =
                |problem: String| PlanError::Impossible { place: plan.files[rank].clone(), problem };
            let trace = trace::open(path, &plan, rank as u32).map_err(impossible)?;
            ranks.push(Rank::new(rank as u32, trace, &plan).map_err(impossible)?);
        }
        Ok(Astra {
            plan,
            ranks,
            matching: Matching::default(),
            sent: NumberMap::default(),
            history: History::default(),
            finished: Vec::new(),
            problem: None,
        })
    }

    /// Lets a rank act, and notes the result.
    fn with(&mut self, rank: u32, network: &mut dyn Network, act: impl FnOnce(&mut Rank, &mut Context)) {
        if self.is_over() {
            return;
        }
        let rank = &mut self.ranks[rank as usize];
        let mut context = Context {
            plan: &self.plan,
            network,
            matching: &mut self.matching,
            sent: &mut self.sent,
            history: &mut self.history,
            problem: &mut self.problem,
        };
        act(rank, &mut context);
        if let Some(finished) = rank.take_finished() {
            self.finished.push(finished);
        }
    }
}

impl Work for Astra {
    fn begin(&mut self, network: &mut dyn Network) {
        for rank in 0..self.ranks.len() as u32 {
            self.with(rank, network, |rank, context| rank.begin(context));
        }
    }

    fn on_timer(&mut self, timer: u32, network: &mut dyn Network) {
        self.with(timer, network, |rank, context| rank.on_timers(context));
    }

    fn on_done(&mut self, message: u32, network: &mut dyn Network) {
        let Some(sent) = self.sent.remove(&message) else { return };
        let took = TimeSpent::Message(sent.to, sent.bytes, network.passage(message));
        self.history.chains.happens(sent.cause, sent.from, network.now(), took);
        if let Some(node) = sent.node {
            self.with(sent.from, network, |rank, context| rank.on_node_done(node, context));
        }
        match self.matching.arrived((sent.tag, sent.from, sent.to), sent.bytes) {
            Some(Receiver::Node(node)) => {
                self.with(sent.to, network, |rank, context| rank.on_node_done(node, context));
            }
            Some(Receiver::Stream(stream)) => {
                self.with(sent.to, network, |rank, context| rank.on_received(stream, context));
            }
            None => {}
        }
        self.history.chains.over();
    }

    fn finished(&self) -> &[Finished] {
        &self.finished
    }

    fn is_over(&self) -> bool {
        self.problem.is_some() || self.finished.len() == self.ranks.len()
    }

    fn problem(&self) -> Option<&str> {
        self.problem.as_deref()
    }

    fn waiting(&self) -> Vec<(u32, String)> {
        (0..).zip(&self.ranks).filter_map(|(host, rank)| Some((host, rank.waiting(&self.plan)?))).collect()
    }

    fn jobs(&self) -> Vec<JobRecord> {
        vec![self.history.job(self.plan.name(), self.ranks.len(), &self.finished)]
    }
}
