//! Driving a run: take the next event, let the model that it belongs to act on it.

#[cfg(test)]
mod by_node;
mod skipping;
mod threads;
mod windows;
mod work;

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use tailback_proto::congestion::external::ExternalControl;
use tailback_proto::units::Time;

use crate::capture::{Capture, CaptureSettings, Output};
use crate::event::Event;
use crate::fabric::Arrived;
use crate::plan::{Plan, PlanError, Skip};
use crate::record::{FlowRows, ListedQueues, Recorder, Recording};
use crate::world::World;

/// A run under way.
pub struct Simulation {
    world: World,
    recorder: Recorder,
    plan: Plan,
    events: u64,
    capture: Option<Capture>,
    work: Option<work::RunningWork>,
    /// Where nodes take turns.
    windows: Option<windows::Windows>,
    /// Where it runs on several cores.
    others: threads::OtherParts,
    /// Where it skips what is steady.
    skipping: Option<Box<skipping::Skipping>>,
    /// There are controllers that are not built in, which may see the order of what happens at different nodes.
    external: bool,
    /// Rows of messages that have left their slots.
    rows: FlowRows,
    listed: ListedQueues,
}

/// How far a run is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Simulated time.
    pub time: Time,
    /// Packets put on a link so far.
    pub packet_hops: u64,
    /// Events executed so far.
    pub events: u64,
    pub done: bool,
}

impl Simulation {
    /// Builds the world of a plan.
    ///
    /// # Errors
    /// Where the plan is impossible.
    pub fn new(plan: Plan) -> Result<Self, PlanError> {
        Simulation::with_controls(plan, &[])
    }

    /// As [`Self::new`], with controllers that are not built in, by their numbers in the plan.
    ///
    /// # Errors
    /// Where the plan is impossible.
    pub fn with_controls(plan: Plan, controls: &[Arc<dyn ExternalControl>]) -> Result<Self, PlanError> {
        plan.check()?;
        let mut world = World::new(&plan, controls)?;
        let recorder = Recorder::new(&plan, &world);
        let first = recorder.next_sample(world.fabric.run.skips.total);
        world.fabric.run.schedule(first, Event::Sample);
        world.schedule(&plan);
        crate::host::schedule(&mut world.fabric.run, &plan.tcp_connections, plan.run.seed);
        if let Some(veth) = &plan.veth {
            world.linux.start_veths(&mut world.fabric.run, veth);
        }
        let mut simulation = Simulation {
            world,
            recorder,
            plan,
            events: 0,
            capture: None,
            work: None,
            windows: None,
            others: threads::OtherParts::default(),
            skipping: None,
            external: !controls.is_empty(),
            rows: FlowRows::default(),
            listed: ListedQueues::default(),
        };
        simulation.carry_jobs()?;
        simulation.begin_skipping()?;
        simulation.begin_windows();
        Ok(simulation)
    }

    /// Many rows of the flow table leave memory for a file without a name in this folder.
    pub fn keep_in(&mut self, folder: PathBuf) {
        self.rows.keep_in(folder);
    }

    /// Writes what links carry from now on as pcapng; once, before the run.
    ///
    /// # Errors
    /// A link has no such name, or the file cannot be written.
    pub fn capture(&mut self, settings: CaptureSettings, out: Output) -> Result<(), String> {
        if self.plan.run.skip != Skip::Never {
            return Err(self.plan.not_skipped("a capture, which has every frame").to_string());
        }
        self.end_windows(); // a capture has frames in order of time
        if let Some(work) = &mut self.work {
            work.keep_slots(); // its frames have what their queue pairs know
        }
        let hosts: Vec<String> = self.plan.hosts.iter().map(|host| host.name.clone()).collect();
        let dscps = self.plan.code_points.iter().map(|code_point| code_point.dscp).collect();
        self.capture = Some(Capture::new(&mut self.world, &hosts, dscps, settings, out)?);
        Ok(())
    }

    /// Ends what [`Self::capture`] began. Without it a capture ends with the run, and its errors are lost.
    ///
    /// # Errors
    /// It could not be written to its end.
    pub fn end_capture(&mut self) -> io::Result<()> {
        self.capture.take().map_or(Ok(()), |capture| capture.finish(&self.world))
    }

    /// True if a capture cannot be written any further: [`Self::end_capture`] says why.
    pub fn capture_failed(&self) -> bool {
        self.capture.as_ref().is_some_and(Capture::failed)
    }

    /// Executes `max_events` events, or all that are left; where nodes take turns, the rest of the last turns, too.
    pub fn advance(&mut self, max_events: u64) -> Progress {
        if self.is_cut() {
            self.run_parts(max_events);
            return self.progress();
        }
        if self.windows.is_some() {
            return self.run_windows(max_events);
        }
        if self.skipping.is_some() {
            return self.run_skipping(max_events);
        }
        self.world.fabric.run.keeps_beside = self.capture.is_none();
        self.run_events(max_events);
        self.world.fabric.run.keeps_beside = false;
        self.world.fabric.run.events.leave_beside();
        self.progress()
    }

    fn run_events(&mut self, max_events: u64) {
        // A loop of its own: a capture that is not made, and looking ahead where that does not pay, cost nothing.
        if self.capture.is_none() && !self.world.looks_ahead() {
            self.run_plain_or_not::<true>(max_events);
        } else {
            self.run_plain_or_not::<false>(max_events);
        }
    }

    #[inline(never)]
    fn run_plain_or_not<const PLAIN: bool>(&mut self, max_events: u64) {
        let end = self.plan.run.duration - self.world.fabric.run.skips.total;
        let mut left = max_events;
        while left > 0 && !self.world.fabric.run.finished {
            let (time, code) = self.world.fabric.run.events.pop_first();
            if time > end {
                self.world.fabric.run.now = end;
                self.world.fabric.run.finished = true;
                break;
            }
            left -= 1;
            self.world.fabric.run.now = time;
            if !PLAIN {
                self.world.look_ahead();
            }
            if let Some(port) = Event::arrival(code) {
                arrive(&mut self.world, port); // as every other event does: a comparison, where the others take a jump by kind
            } else {
                self.dispatch(Event::decode(code));
            }
            if !PLAIN {
                self.capture.iter_mut().for_each(|capture| capture.take(&mut self.world));
            }
        }
        self.events += max_events - left;
    }

    #[inline(always)] // it is the event loop's
    fn dispatch(&mut self, event: Event) {
        if !act(&mut self.world, event) {
            self.act_on_rest(event);
        }
    }

    /// Acts on an event that concerns more than the world.
    #[inline(never)] // most events are the world's
    fn act_on_rest(&mut self, event: Event) {
        match event {
            Event::MessageDone(qp) => self.on_message_done(qp),
            Event::MessageArrived(qp) => self.on_message_arrived(qp),
            Event::Work(timer) => self.on_work(timer),
            Event::Sample => {
                let world = &mut self.world;
                self.recorder.sample(world);
                let next = self.recorder.next_sample(world.fabric.run.skips.total);
                world.fabric.run.schedule(next, Event::Sample);
                world.fabric.run.finished |= world.deadlocks.look(&world.fabric);
            }
            event => unreachable!("{event:?} is the world's"),
        }
    }

    #[cfg(test)]
    pub(crate) fn world_mut(&mut self) -> &mut World {
        &mut self.world
    }

    pub fn progress(&self) -> Progress {
        let (packet_hops, events) = self.in_parts();
        Progress {
            time: self.world.fabric.run.simulated(),
            packet_hops,
            events,
            done: self.world.fabric.run.finished,
        }
    }

    /// Ends the run where it stands, checks the books and returns what was recorded.
    pub fn finish(mut self) -> Recording {
        let complete = self.world.fabric.run.finished && self.world.deadlocks.found.is_none();
        self.join();
        let skipped = self.skipped();
        self.recorder.close(&mut self.world);
        let mut recording = crate::record::recording(
            &self.plan,
            &mut self.world,
            self.recorder,
            self.events,
            complete,
            self.rows,
            self.listed,
        );
        recording
            .meta
            .faults
            .extend(self.work.iter().filter(|_| complete).flat_map(|work| work.faults(&self.plan)));
        recording.meta.skipped = skipped;
        recording.meta.jobs = self.work.map_or(Vec::new(), |work| work.jobs(&self.plan));
        recording
    }
}

/// The first packet on the link behind a port arrives.
#[inline(always)] // it is the event loop's
fn arrive(world: &mut World, port: u32) {
    let fabric = &mut world.fabric;
    let Some(Arrived { node, port, packet }) = fabric.on_arrival(port as usize) else { return };
    match node.checked_sub(fabric.hosts) {
        None => world.nics.receive(fabric, &mut world.tcp, node, packet),
        Some(switch) if switch < fabric.switches.len() => fabric.switch_receive(switch, port, packet),
        Some(_) => world.linux.receive(fabric, port, packet),
    }
}

/// Has the world act on an event, if that concerns it alone.
#[inline(always)] // it is the event loop's
fn act(world: &mut World, event: Event) -> bool {
    match event {
        Event::Arrival(port) => arrive(world, port),
        Event::PortWake(port) => {
            if let Some(host) = world.fabric.on_port_wake(port as usize) {
                world.nics.transmit(&mut world.fabric, &mut world.tcp, host);
            }
        }
        Event::PacingDue(qp) => world.nics.on_pacing_due(&mut world.fabric, &mut world.tcp, qp),
        Event::TransportTimer(qp) => world.nics.on_transport_timer(&mut world.fabric, &mut world.tcp, qp),
        Event::PauseEffect(port) => {
            let Some(frame) = world.fabric.on_pause_effect(port as usize) else { return true };
            for class in frame.classes() {
                if let Some(host) = world.fabric.take_pause(port as usize, class, frame) {
                    world.nics.transmit(&mut world.fabric, &mut world.tcp, host);
                }
            }
        }
        Event::PauseExpiry(lane) => {
            if let Some(host) = world.fabric.on_pause_expiry(lane as usize) {
                world.nics.transmit(&mut world.fabric, &mut world.tcp, host);
            }
        }
        Event::PauseRefresh(lane) => world.fabric.on_pause_refresh(lane as usize),
        Event::Watchdog(lane) => world.fabric.on_watchdog(lane as usize),
        Event::WriterStart(writer) => world.nics.on_writer_start(&mut world.fabric, &mut world.tcp, writer),
        Event::WriterStop(writer) => world.nics.on_writer_stop(&mut world.fabric, writer),
        Event::FlowStart(qp) => world.nics.on_flow_start(&mut world.fabric, &mut world.tcp, qp),
        Event::LinkChange(change) => world.on_link_change(change),
        Event::ControllerTimer(qp) => world.nics.on_controller_timer(&mut world.fabric, &mut world.tcp, qp),
        Event::ProbeAnswer(packet) => world.nics.on_probe_answer(&mut world.fabric, &mut world.tcp, packet),
        Event::DelayedNak(packet) => world.nics.on_delayed_nak(&mut world.fabric, &mut world.tcp, packet),
        Event::AgentSample(agent) => {
            world.agents[agent as usize].on_sample(&mut world.fabric.run, &mut world.nics, agent)
        }
        Event::HostPathDrain(host_path) => {
            world.nics.on_host_path_drain(&mut world.fabric, &mut world.tcp, host_path)
        }
        Event::MemoryLoad(change) => world.nics.on_memory_load(world.fabric.run.now, change),
        Event::Core(core) => world.tcp.on_core(&mut world.fabric, &mut world.nics, core),
        Event::RingDue(ring) => world.tcp.on_ring_due(&mut world.fabric, &mut world.nics, ring),
        Event::TcpTimer(timer) => world.tcp.on_tcp_timer(&mut world.fabric, &mut world.nics, timer),
        Event::TcpStart(group) => world.tcp.on_tcp_start(&mut world.fabric, &mut world.nics, group),
        Event::TcpStop(group) => world.tcp.on_tcp_stop(&mut world.fabric, group),
        Event::LinuxCore(core) => world.linux.on_linux_core(&mut world.fabric, core),
        Event::LinuxIrq(napi) => world.linux.on_linux_irq(&mut world.fabric, napi),
        Event::LinuxTimer(timer) => world.linux.on_linux_timer(&mut world.fabric, timer),
        Event::MessageDone(_) | Event::MessageArrived(_) | Event::Work(_) | Event::Sample => return false,
    }
    true
}
