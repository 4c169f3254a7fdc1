//! The HPCC RDMA simulator on ns-3 (github.com/alibaba-edu/High-Precision-Congestion-Control, commit 9f4be2a), as it
//! behaves: an engine of its own whose results are that simulator's, to the nanosecond and to the random number.
//!
//! Two things make results equal. Events of one instant happen in the order in which they were scheduled, so every
//! handler schedules what the handler there schedules, in its order; handlers call each other directly as there. And
//! the random numbers are ns-3's, drawn in the same order (`random`).
//!
//! Leaves out: the packet trace; the limit of 1000 MiB of a port's queue; timers of queue pairs that are
//! done, which have no visible effect.

mod calendar;
pub mod cc;
mod host;
mod packet;
pub mod plan;
mod random;
mod recording;
mod routing;
mod switch;
mod work;
mod world;

pub use self::recording::{fct_text, FCT_FILE};
pub use plan::HpccPlan;
pub use routing::address;
pub use world::{Fct, PfcEvent};

use std::io;
use std::path::PathBuf;
use tailback_proto::units::Time;

use self::recording::readings;
use self::recording::FctFile;
use packet::EntryKind;
use recording::recording;
use tailback_sim::plan::PlanError;
use tailback_sim::record::Detail;
use tailback_sim::record::Readings;
use tailback_sim::record::{Recording, BLOCK_ROWS};
use tailback_sim::work::{Finished, Work};
use tailback_sim::Progress;
use world::{port_of, Event, World, INDEX_LIMIT};

/// A run under way.
pub struct HpccSimulation {
    world: World,
    read: Readings<World>,
    detail: Detail,
    executed: u64,
    /// Nothing that a bin would show can happen any more.
    still: bool,
    fct_file: Option<FctFile>,
}

/// Counters of a run, under that simulator's own names.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    pub host_data: u64,
    pub host_ack: u64,
    pub host_nack: u64,
    pub switch_data: u64,
    pub switch_ack: u64,
    pub switch_nack: u64,
    pub switch_pfc: u64,
    pub packet_hops: u64,
    pub byte_hops: u64,
    /// Packets of any kind that a switch marked.
    pub ecn_marked: u64,
    pub ecn_random_draws: u64,
    /// Flagged ACKs that senders received.
    pub cnp_echo_rx: u64,
    /// Packets that switches dropped for want of buffer.
    pub drops: u64,
}

/// The outputs of a run.
#[derive(Debug)]
pub struct HpccRecording {
    /// As of any run; its times count from `origin_ns`.
    pub recording: Recording,
    /// Messages in the order in which they finished; none where they are in a file.
    pub fct: Vec<Fct>,
    /// PFC frames in the order in which they came in.
    pub pfc: Vec<PfcEvent>,
    /// The queue-length file; empty where the plan asks for none.
    pub qlen: String,
    /// When the first flow starts: where the recording's time begins.
    pub origin_ns: u64,
    /// Totals of the run.
    pub totals: Totals,
    /// Ranks of the work that have finished, in this order.
    pub finished: Vec<Finished>,
}

impl HpccSimulation {
    /// Builds the world of a plan.
    ///
    /// # Errors
    /// Where the plan is impossible.
    pub fn new(plan: &HpccPlan) -> Result<Self, PlanError> {
        Self::of(plan, None)
    }

    /// As [`Self::new`], with work that sends messages during the run; it ends with the work.
    ///
    /// # Errors
    /// Where the plan is impossible.
    pub fn with_work(plan: &HpccPlan, work: Box<dyn Work>) -> Result<Self, PlanError> {
        Self::of(plan, Some(work))
    }

    fn of(plan: &HpccPlan, work: Option<Box<dyn Work>>) -> Result<Self, PlanError> {
        plan.check()?;
        let impossible =
            |place: &str, problem: String| PlanError::Impossible { place: place.into(), problem };
        if plan.flows.len() >= INDEX_LIMIT {
            return Err(impossible("flows", format!("{INDEX_LIMIT} or more")));
        }
        let mut world = World::new(plan, work);
        for (index, flow) in plan.flows.iter().enumerate() {
            if world.pairs[index].rate == 0 {
                let text = format!("no way from {} to {}", flow.0, flow.1);
                return Err(impossible(&format!("flows[{index}]"), text));
            }
        }
        world.begin();
        let (read, detail) = readings(&world);
        world.schedule(read.bins.next().0, Event::Sample, 0);
        Ok(HpccSimulation { world, read, detail, executed: 0, still: false, fct_file: None })
    }

    /// Messages that are over leave memory for files in this folder, in runs with many of them: [`FCT_FILE`], and one without a
    /// name. Before the run.
    pub fn keep_in(&mut self, folder: PathBuf) {
        self.world.over.rows.keep_in(folder.clone());
        self.fct_file = Some(FctFile::new(folder));
    }

    /// Why these cannot be written any further.
    pub fn failed(&mut self) -> Option<io::Error> {
        let of_fct = self.fct_file.as_mut().and_then(FctFile::failed);
        of_fct.or_else(|| self.world.over.rows.failed())
    }

    /// Ends [`FCT_FILE`], and says where it is; none where there are so few messages that [`Self::finish`] gives them.
    ///
    /// # Errors
    /// It could not be written to its end.
    pub fn end_fct(&mut self) -> io::Result<Option<PathBuf>> {
        self.fct_file.as_mut().map_or(Ok(None), |file| file.finish(&mut self.world.fct))
    }

    /// Executes up to `max_events` events.
    pub fn advance(&mut self, max_events: u64) -> Progress {
        for _ in 0..max_events {
            if self.world.done {
                break;
            }
            let world = &mut self.world;
            let Some((time, at)) = world.events.pop(&mut world.packets) else {
                self.world.done = true;
                break;
            };
            self.executed += 1;
            if time >= world.queue_lengths.next.time {
                let bin_ends = self.read.bins.next().0 <= world.stop;
                world.sample_queues(1 + bin_ends as usize);
            }
            world.look_ahead();
            world.now = time;
            // The most frequent ones first.
            match world.packets[at].kind {
                EntryKind::Sent => world.on_sent(port_of(at)),
                EntryKind::Wake => world.on_wake(port_of(at)),
                EntryKind::Event => self.on_event(at),
                _ => world.on_arrival(at),
            }
        }
        if let Some(file) = self.fct_file.as_mut().filter(|_| self.world.fct.len() >= BLOCK_ROWS) {
            file.put(&mut self.world.fct);
        }
        self.progress()
    }

    #[inline]
    fn on_event(&mut self, at: u32) {
        let world = &mut self.world;
        let (event, index) = Event::of(&world.packets[at]);
        world.packets.remove(at);
        world.idle_events -= event.is_idle() as usize;
        match event {
            Event::CutTimer => world.on_cut_timer(index),
            Event::IncreaseTimer => world.on_increase_timer(index),
            Event::FlowInput => world.on_flow_input(),
            Event::AppStart => world.on_app_start(index),
            Event::QpStart => world.on_qp_start(index),
            Event::LinkDown => world.on_link_down(),
            Event::RetransmissionTimer => world.on_retransmission_timer(index),
            Event::Sample => self.on_sample(),
            Event::Work => world.on_work(index),
            Event::WorkSent => world.let_work(|work, world| work.on_sent(index, world)),
            Event::Stop => world.done = true,
        }
    }

    /// Ends a bin; and the run, once every flow is done and nothing but its end is still to come.
    fn on_sample(&mut self) {
        let now = Time(self.world.now);
        if self.still && !cfg!(debug_assertions) {
            self.read.bins.close_still(now);
        } else {
            self.read.close_bin(&mut self.world, (now, now));
            debug_assert!(!self.still || self.read.bins.last().iter().all(|&value| value == 0.0));
        }
        self.still = self.still || self.world.is_still();
        self.read.bins.merge_if_full();
        self.world.done = self.world.is_at_rest();
        self.world.schedule(self.read.bins.next().0, Event::Sample, 0);
    }

    /// Why the work cannot go on: one line.
    pub fn problem(&self) -> Option<&str> {
        self.world.work.as_ref().and_then(|work| work.problem())
    }

    /// What sends messages during the run.
    pub fn work(&self) -> Option<&dyn Work> {
        self.world.work.as_deref()
    }

    pub fn progress(&self) -> Progress {
        Progress {
            time: Time(self.world.now),
            packet_hops: self.world.transmissions.iter().flatten().sum(),
            events: self.executed,
            done: self.world.done,
        }
    }

    /// Next hops of a node towards a host, as (node, port) pairs in the order in which the hash chooses among them.
    pub fn next_hops(&mut self, node: u32, host: u32) -> Vec<(u32, u16)> {
        let world = &mut self.world;
        let host = world.routes.host(host);
        let ports = world.routes.next_ports(node, host).iter();
        ports
            .map(|&port| &world.ports[port as usize])
            .map(|port| (world.ports[port.peer as usize].node, port.number))
            .collect()
    }

    /// Ends the run where it stands and hands over what was recorded.
    pub fn finish(mut self) -> HpccRecording {
        let complete = self.world.done;
        let recording = recording(&mut self.world, (self.read, self.detail), self.executed, complete);
        let world = &self.world;
        let [hosts, switches] = &world.transmissions;
        let lanes = world.lane_counters.iter();
        let totals = Totals {
            host_data: hosts[EntryKind::Data as usize],
            host_ack: hosts[EntryKind::Ack as usize],
            host_nack: hosts[EntryKind::Nack as usize],
            switch_data: switches[EntryKind::Data as usize],
            switch_ack: switches[EntryKind::Ack as usize],
            switch_nack: switches[EntryKind::Nack as usize],
            switch_pfc: switches[EntryKind::Pfc as usize],
            packet_hops: world.transmissions.iter().flatten().sum(),
            byte_hops: world.ports.iter().map(|port| port.tx_bytes).sum(),
            ecn_marked: lanes.clone().map(|lane| lane.marked).sum(),
            ecn_random_draws: world.ecn_draws,
            cnp_echo_rx: world.host_counters.iter().map(|host| host.cnp_handled).sum(),
            drops: lanes.map(|lane| lane.dropped).sum(),
        };
        let origin_ns = world.origin / 1000;
        let World { fct, pfc, queue_lengths, work, .. } = self.world;
        let finished = work.map_or_else(Vec::new, |work| work.finished().to_vec());
        HpccRecording { recording, fct, pfc, qlen: queue_lengths.text, origin_ns, totals, finished }
    }
}
