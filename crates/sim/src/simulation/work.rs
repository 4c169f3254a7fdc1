//! Messages that are sent during the run, because others are done.

use tailback_proto::units::Time;

use crate::event::Event;
use crate::plan::{FlowPlan, Plan, PlanError};
use crate::record::Fault;
use crate::simulation::Simulation;
use crate::work::{Network, Work};
use crate::world::World;

/// Work under way, and how much of it the network is to come back to.
#[derive(Debug)]
pub(super) struct Carried {
    work: Box<dyn Work>,
    /// Messages and times that it waits for.
    awaited: usize,
    problem: Option<String>,
}

impl Carried {
    /// Hosts that wait for what never comes.
    pub fn faults(&self, plan: &Plan) -> Vec<Fault> {
        let fault = |(host, text): (u32, String)| {
            let node = plan.hosts[host as usize].name.clone();
            Fault { kind: "unfinished", r#where: node.clone(), node, peer: String::new(), text }
        };
        self.work.waiting().into_iter().map(fault).collect()
    }
}

/// A world as work sees it: a network that carries messages between hosts, by their numbers in the plan.
struct Carrier<'a> {
    world: &'a mut World,
    plan: &'a mut Plan,
    awaited: &'a mut usize,
    problem: &'a mut Option<String>,
}

impl Network for Carrier<'_> {
    fn now(&self) -> Time {
        self.world.fabric.run.now
    }

    fn send(&mut self, from: u32, to: u32, bytes: u64) -> u32 {
        let qp = self.world.nics.send_qps.len() as u32;
        let flow = FlowPlan(from, to, WORK_ITEM, WORK_CODE_POINT, bytes, self.now().0);
        match self.world.add_message(self.plan, &flow) {
            Ok(()) => {
                self.plan.flows.list.push(flow);
                self.world.fabric.run.active_flows += 1;
                *self.awaited += 1;
                self.world.fabric.run.schedule(self.world.fabric.run.now, Event::FlowStart(qp));
            }
            Err(problem) => {
                self.problem.get_or_insert(problem.to_string());
            }
        }
        qp
    }

    fn call_after(&mut self, delay: Time, timer: u32) {
        *self.awaited += 1;
        let at = Time(self.now().0.saturating_add(delay.0));
        self.world.fabric.run.schedule(at, Event::Work(timer));
    }
}

/// Traffic item and code point of what work sends.
const WORK_ITEM: u32 = 0;
const WORK_CODE_POINT: u8 = 0;

impl Simulation {
    /// Builds the world of a plan without traffic of its own, in which work sends messages during the run; it ends with
    /// the work. They are of the plan's first traffic item and have its first code point.
    ///
    /// # Errors
    /// Where the plan is impossible.
    pub fn with_work(plan: Plan, work: Box<dyn Work>) -> Result<Self, PlanError> {
        let own = plan.writers.len() + plan.flows.list.len() + plan.tcp_connections.len();
        if own > 0 || !plan.flows.of_work || plan.flows.items.is_empty() || plan.code_points.is_empty() {
            let problem = "expected of_work, an item, a code point, and no other traffic".into();
            return Err(PlanError::Impossible { place: "flows".into(), problem });
        }
        let mut simulation = Simulation::new(plan)?;
        // The work itself, so that a moment without messages is not the end.
        simulation.world.fabric.run.active_flows += 1;
        simulation.world.nics.tells_ends = true;
        simulation.work = Some(Carried { work, awaited: 0, problem: None });
        simulation.let_work(|work, network| work.begin(network));
        Ok(simulation)
    }

    /// The work, with what it came to.
    pub fn work(&self) -> Option<&dyn Work> {
        self.work.as_ref().map(|carried| &*carried.work)
    }

    /// Why the work cannot go on: one line.
    pub fn problem(&self) -> Option<&str> {
        let carried = self.work.as_ref()?;
        carried.work.problem().or(carried.problem.as_deref())
    }

    pub(super) fn on_work(&mut self, timer: u32) {
        self.come_back();
        self.let_work(|work, network| work.on_timer(timer, network));
    }

    fn come_back(&mut self) {
        if let Some(carried) = &mut self.work {
            carried.awaited -= 1;
        }
    }

    pub(super) fn on_message_done(&mut self, qp: u32) {
        self.come_back();
        self.let_work(|work, network| work.on_done(qp, network));
    }

    /// Lets the work act. The run ends with it, and where it waits for what never comes.
    fn let_work(&mut self, act: impl FnOnce(&mut dyn Work, &mut dyn Network)) {
        let Some(Carried { work, awaited, problem }) = &mut self.work else { return };
        let mut carrier = Carrier { world: &mut self.world, plan: &mut self.plan, awaited, problem };
        act(&mut **work, &mut carrier);
        self.world.fabric.run.finished |= work.is_over() || problem.is_some() || *awaited == 0;
    }
}
