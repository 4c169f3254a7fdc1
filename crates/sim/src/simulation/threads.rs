//! One run on several cores: each core has a part of the network, and acts on its nodes in the windows in
//! which nodes take turns.
//!
//! A packet that crosses from one part to another in a window arrives after that window. So in each window, all parts
//! act on their own nodes, post what has crossed, meet at a barrier, and fetch. Then every part knows when
//! the next window begins, and each works out the same end of it. Every part has the whole world, but only
//! the state of its own nodes counts: no part ever waits for another's memory, and nothing is shared but the
//! mail. The order of events at a node follows from what happens there, so results are those of one core, to
//! the byte, wherever the network is cut.

use std::cmp::Reverse;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::Mutex;
use tailback_proto::units::Time;

use super::windows::{node_of, turns_until, Windows};
use super::Simulation;
use crate::engine::Barrier;
use crate::event::Event;
use crate::fabric::cut::{Cut, Mail};
use crate::fabric::port::LOSSY;
use crate::fabric::Fabric;
use crate::plan::Plan;
use crate::record::Recorder;
use crate::world::World;

/// Parts beyond the first, which is the simulation's own.
#[derive(Default)]
pub(super) struct OtherParts(Vec<OtherPart>);

struct OtherPart {
    world: World,
    recorder: Recorder,
    windows: Windows,
    events: u64,
}

/// A part at work.
struct RunningPart<'a> {
    world: &'a mut World,
    recorder: &'a mut Recorder,
    windows: &'a mut Windows,
    events: &'a mut u64,
    /// Packets and counts for each other part.
    mail: Vec<Mail>,
    /// True if the part has a bin to close.
    sampling: bool,
}

/// Why parts stop.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stop {
    /// Enough events for now.
    Paused,
    /// The end of the run.
    Finished,
    /// The last queue pair may end next: from here on, events run in order of time.
    Ending,
    /// There may be a deadlock across parts.
    Stuck,
}

/// Report of a part to the others at a barrier.
#[derive(Default)]
#[repr(align(128))]
struct PartReport {
    /// When something next happens at the part's nodes, or to what it posted.
    next: AtomicU64,
    /// Until when the part knows of a queue pair that goes on.
    lasts: AtomicU64,
    events: AtomicU64,
}

/// State shared by all parts.
struct Shared<'a> {
    barrier: Barrier,
    plan: &'a Plan,
    parts: usize,
    last_event: u64,
    /// By odd or even window, and by part: the next value is written while the last may still be read.
    reports: [Vec<PartReport>; 2],
    /// By odd or even window, and by receiving and sending part.
    mail: [Vec<Mutex<Mail>>; 2],
    /// True if there may be a deadlock.
    stuck: AtomicBool,
}

impl Simulation {
    /// Runs on this many cores; call before the run begins, and after [`Self::capture`]. None: all cores that
    /// there are, if that is worth it. Returns how many cores it takes, and why not more. Results are the
    /// same.
    pub fn use_threads(&mut self, wanted: Option<usize>) -> (usize, Option<String>) {
        match self.cut(wanted) {
            Ok(threads) => (threads, None),
            Err(why) => (1, Some(why)),
        }
    }

    fn cut(&mut self, wanted: Option<usize>) -> Result<usize, String> {
        let threads = match wanted {
            Some(wanted) => wanted.min(u8::MAX as usize),
            None => std::thread::available_parallelism().map_or(1, usize::from),
        };
        if threads < 2 {
            return match wanted {
                Some(_) => Ok(1),
                None => Err("there is one core".into()),
            };
        }
        if self.events > 0 || self.is_cut() {
            return Err("it has begun".into());
        }
        if self.windows.is_none() {
            let length = self.window_length()?;
            match wanted {
                Some(_) => self.take_turns(length),
                None => return Err("its network is small".into()),
            }
        }
        let Some(windows) = self.windows.as_mut().filter(|windows| windows.has_only_samples()) else {
            return Err("links fail".into());
        };
        let Some(part_of) = cut(&self.world.fabric, threads) else {
            return Err(format!("its switches cannot be cut in {threads} parts that all have hosts"));
        };
        let (plan, windows) = (&self.plan, &*windows);
        let recorders = self.recorder.cut(threads, |node| part_of[node] as usize, &self.world);
        let build = |own: usize, recorder| {
            let mut world = World::new(plan, &[]).expect("the plan was built before");
            world.schedule(plan);
            world.fabric.cut(Cut::new(part_of.clone(), own as u8));
            let windows = windows.of_part(plan, &mut world);
            OtherPart { world, recorder, windows, events: 0 }
        };
        let others = std::thread::scope(|scope| {
            let build = &build;
            let built: Vec<_> = (1..)
                .zip(recorders)
                .map(|(own, recorder)| scope.spawn(move || build(own, recorder)))
                .collect();
            built.into_iter().map(|one| one.join().expect("the plan was built before")).collect()
        });
        self.others = OtherParts(others);
        self.world.fabric.cut(Cut::new(part_of, 0));
        let Fabric { run, cut, .. } = &mut self.world.fabric;
        run.turns.keep(|node| cut.owns(node));
        Ok(threads)
    }

    /// True if the run is on several cores.
    pub(super) fn is_cut(&self) -> bool {
        !self.others.0.is_empty()
    }

    /// Executes `max_events` events and the rest of their window, or all that are left.
    pub(super) fn run_parts(&mut self, max_events: u64) {
        let Some(windows) = &mut self.windows else { return };
        let parts = self.others.0.len() + 1;
        let mail = || (0..parts * parts).map(|_| Mutex::default()).collect();
        let reports = || (0..parts).map(|_| PartReport::default()).collect();
        let own_events = self.events + self.others.0.iter().map(|other| other.events).sum::<u64>();
        let shared = Shared {
            barrier: Barrier::new(parts),
            plan: &self.plan,
            parts,
            last_event: own_events.saturating_add(max_events),
            reports: [reports(), reports()],
            mail: [mail(), mail()],
            stuck: AtomicBool::new(false),
        };
        let empty = || (0..parts).map(|_| Mail::default()).collect();
        let mut first = RunningPart {
            world: &mut self.world,
            recorder: &mut self.recorder,
            windows,
            events: &mut self.events,
            mail: empty(),
            sampling: false,
        };
        let stop = std::thread::scope(|scope| {
            for (own, other) in (1..).zip(&mut self.others.0) {
                let OtherPart { world, recorder, windows, events } = other;
                let mut part =
                    RunningPart { world, recorder, windows, events, mail: empty(), sampling: false };
                let shared = &shared;
                scope.spawn(move || part.run(own, shared));
            }
            first.run(0, &shared)
        });
        match stop {
            Stop::Paused => {}
            Stop::Finished => self.world.fabric.run.finished = true,
            Stop::Ending => self.join(),
            Stop::Stuck if self.is_deadlocked() => {
                self.join();
                self.world.fabric.run.finished = true;
            }
            Stop::Stuck => {} // they go on where they stand
        }
    }

    /// True if there is a deadlock across parts. They have stopped for this.
    fn is_deadlocked(&mut self) -> bool {
        let World { deadlocks, fabric, .. } = &mut self.world;
        let fabrics: Vec<&Fabric> =
            std::iter::once(&*fabric).chain(self.others.0.iter().map(|other| &other.world.fabric)).collect();
        let mut stuck: Vec<usize> = fabrics.iter().flat_map(|part| deadlocks.stuck(part)).collect();
        stuck.sort_unstable();
        let found = deadlocks.look_at(&stuck, |node| fabrics[fabric.cut.part_of(node as usize)]);
        let now = fabric.run.now;
        deadlocks.looked(now);
        self.others.0.iter_mut().for_each(|other| other.world.deadlocks.looked(now));
        found
    }

    /// Puts the parts together again.
    pub(super) fn join(&mut self) {
        let others = std::mem::take(&mut self.others.0);
        if others.is_empty() {
            return;
        }
        let mut recorders = Vec::new();
        for mut other in others {
            self.absorb(&mut other);
            self.events += other.events;
            recorders.push(other.recorder);
        }
        self.recorder.join(recorders, &self.plan, &self.world);
        self.world.fabric.end_cut();
        if let Some(windows) = &mut self.windows {
            windows.of_whole(&self.world, self.recorder.next_sample(Time::ZERO));
        }
    }

    fn absorb(&mut self, other: &mut OtherPart) {
        let turns = std::mem::take(&mut other.world.fabric.run.turns);
        for (place, code) in turns.into_events() {
            let event = Event::decode(code);
            let node = node_of(&other.world, event).expect("parts have only what happens at nodes");
            let mut adopted = |world: &mut World, packet| world.fabric.adopt(&mut other.world.fabric, packet);
            let event = match event {
                Event::ProbeAnswer(packet) => Event::ProbeAnswer(adopted(&mut self.world, packet)),
                Event::DelayedNak(packet) => Event::DelayedNak(adopted(&mut self.world, packet)),
                event => event,
            };
            self.world.fabric.run.turns.push_to(node, place, event.encode());
        }
        self.world.nics.absorb(&mut other.world.nics, &other.world.fabric.cut);
        let flows = self.world.nics.send_qps.len();
        self.world.fabric.run.active_flows -= flows - other.world.fabric.run.active_flows;
        self.world.fabric.absorb(&mut other.world.fabric);
    }

    /// Packet hops and events of all parts together.
    pub(super) fn in_parts(&self) -> (u64, u64) {
        let add =
            |(hops, events), other: &OtherPart| (hops + other.world.packet_hops(), events + other.events);
        self.others.0.iter().fold((self.world.packet_hops(), self.events), add)
    }
}

impl RunningPart<'_> {
    fn run(&mut self, own: usize, shared: &Shared) -> Stop {
        let _guard = shared.barrier.guard();
        let end = shared.plan.run.duration;
        for window in 0usize.. {
            let odd = window % 2;
            let posted = self.post(own, shared, odd);
            let run = &self.world.fabric.run;
            let report = &shared.reports[odd][own];
            report.next.store(run.turns.next().min(posted).0, Ordering::Relaxed);
            report.lasts.store(self.windows.lasts_until(self.world).0, Ordering::Relaxed);
            report.events.store(*self.events, Ordering::Relaxed);
            if !shared.barrier.wait() {
                return Stop::Paused;
            }
            self.fetch(own, shared, odd);
            if std::mem::take(&mut self.sampling) {
                *self.events += (own == 0) as u64;
                self.recorder.sample(self.world);
                if self.world.deadlocks.is_due(self.world.fabric.run.now) {
                    if !self.world.deadlocks.stuck(&self.world.fabric).is_empty() {
                        shared.stuck.store(true, Ordering::Relaxed);
                    }
                    if !shared.barrier.wait() {
                        return Stop::Paused;
                    }
                    if shared.stuck.load(Ordering::Relaxed) {
                        return Stop::Stuck;
                    }
                    self.world.deadlocks.looked(self.world.fabric.run.now);
                }
            } else if self.world.fabric.run.now == end {
                return Stop::Finished;
            }
            let of_all = |value: fn(&PartReport) -> &AtomicU64| {
                shared.reports[odd].iter().map(move |report| value(report).load(Ordering::Relaxed))
            };
            if of_all(|report| &report.events).sum::<u64>() >= shared.last_event {
                return Stop::Paused;
            }
            let next = of_all(|report| &report.next).min().unwrap_or(u64::MAX);
            let sample = self.recorder.next_sample(Time::ZERO);
            let last = self.windows.end_of(Time(next)).min(sample).min(end);
            if of_all(|report| &report.lasts).max().unwrap_or(0) < last.0 {
                return Stop::Ending;
            }
            *self.events += turns_until(self.world, last);
            self.sampling = last == sample;
        }
        Stop::Paused
    }

    /// Posts what has crossed. Returns when the first of it arrives.
    fn post(&mut self, own: usize, shared: &Shared, odd: usize) -> Time {
        let first = self.world.fabric.send_mail(&mut self.mail);
        if self.sampling {
            self.world.nics.send_mail(&self.world.fabric.cut, &mut self.mail);
            if own != 0 {
                self.recorder.send_mail(self.world, &mut self.mail);
            }
        }
        for (to, mail) in self.mail.iter_mut().enumerate().filter(|&(to, _)| to != own) {
            let mut there = shared.mail[odd][to * shared.parts + own].lock().expect("nobody panics with it");
            std::mem::swap(mail, &mut there);
        }
        first
    }

    fn fetch(&mut self, own: usize, shared: &Shared, odd: usize) {
        for from in (0..shared.parts).filter(|&from| from != own) {
            let mut mail = shared.mail[odd][own * shared.parts + from].lock().expect("nobody panics with it");
            self.world.fabric.take_mail(&mut mail);
            self.world.nics.take_mail(&mut mail);
            self.recorder.take_mail(&mut mail);
        }
    }
}

// Cuts a network into parts, one for each core.
//
// A host stays with its switch. So do the two ends of a link that loses packets, since the receiver counts a loss at the
// sender's port. Switches with hosts are dealt out in their order, which is that of pods and rows. Each of the others goes
// to the part that most of its links lead to, among parts that have not got their share. The cut does not change results.

/// The part of each node, by node. None: the network cannot be cut into `parts`.
pub(super) fn cut(fabric: &Fabric, parts: usize) -> Option<Vec<u8>> {
    let cluster = clusters(fabric);
    let count = cluster.iter().max()? + 1;
    // Nearly all events are of packets at ports.
    let mut weight = vec![0usize; count];
    let mut links = vec![Vec::new(); count];
    for port in &fabric.ports {
        let (own, other) = (cluster[port.owner as usize], cluster[port.peer_owner as usize]);
        weight[own] += 1;
        if own != other {
            links[own].push(other);
        }
    }
    let mut hosts = vec![0usize; count];
    cluster.iter().take(fabric.hosts).for_each(|&own| hosts[own] += 1);
    let with_hosts: Vec<usize> = (0..count).filter(|&own| hosts[own] > 0).collect();
    if with_hosts.len() < parts {
        return None;
    }
    let mut part_of: Vec<Option<u8>> = vec![None; count];
    let mut load = vec![0usize; parts];
    let (mut dealt, mut open) = (0, 0);
    for (at, &own) in with_hosts.iter().enumerate() {
        // The part that its middle host falls into, as long as no part stays empty.
        let middle = (2 * dealt + hosts[own]) * parts / (2 * fabric.hosts);
        let least = (parts + at).saturating_sub(with_hosts.len());
        let part = middle.min(open).max(least);
        dealt += hosts[own];
        part_of[own] = Some(part as u8);
        load[part] += weight[own];
        open = part + 1;
    }
    // There is always a next one with a link to a switch that has its part.
    while let Some(own) = (0..count)
        .find(|&own| part_of[own].is_none() && links[own].iter().any(|&other| part_of[other].is_some()))
    {
        let mut leads = vec![0usize; parts];
        links[own].iter().filter_map(|&other| part_of[other]).for_each(|part| leads[part as usize] += 1);
        let share = fabric.ports.len().div_ceil(parts);
        let has_room = |part: usize| load[part] + weight[own] <= share;
        let part = (0..parts).max_by_key(|&part| (has_room(part), leads[part], Reverse(load[part])))?;
        part_of[own] = Some(part as u8);
        load[part] += weight[own];
    }
    if load.contains(&0) {
        return None;
    }
    Some(cluster.iter().map(|&own| part_of[own].unwrap_or(0)).collect())
}

/// For each node the number of its cluster, whose nodes must stay together; clusters are numbered in the order of nodes.
fn clusters(fabric: &Fabric) -> Vec<usize> {
    let mut first: Vec<usize> = (0..fabric.nodes).collect();
    fn of(first: &[usize], mut node: usize) -> usize {
        while first[node] != node {
            node = first[node];
        }
        node
    }
    for port in &fabric.ports {
        let (own, other) = (port.owner as usize, port.peer_owner as usize);
        if own < fabric.hosts || port.flags & LOSSY != 0 {
            let (own, other) = (of(&first, own), of(&first, other));
            first[own.max(other)] = own.min(other);
        }
    }
    let mut number = vec![usize::MAX; fabric.nodes];
    let mut count = 0;
    (0..fabric.nodes)
        .map(|node| {
            let first = of(&first, node);
            if number[first] == usize::MAX {
                number[first] = count;
                count += 1;
            }
            number[first]
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::super::by_node::{ask_for_telemetry, text, two_switches};
    use super::*;
    use crate::plan::{FlowPlan, LinkPlan, SwitchPlan};
    use proptest::prelude::*;
    use tailback_proto::congestion::builtin::Settings;

    const US: u64 = 1_000_000;

    /// Two hosts on each of three switches, with links between these switches and to a fourth.
    fn switches(writers: &[(usize, usize, u32)], loss: f64, seed: u64) -> Plan {
        let mut plan = two_switches(writers, loss, seed);
        let name = |switch: usize| format!("sw{switch}");
        plan.switches = (0..4).map(|at| SwitchPlan { name: name(at), model: 0 }).collect();
        let host_link = plan.links[0].clone();
        let link = LinkPlan { loss: 0.0, ..host_link.clone() };
        let hosts = (0..6).map(|at| LinkPlan { a: format!("h{at}"), b: name(at / 2), ..host_link.clone() });
        let ends = (1..4).flat_map(|b| (0..b).map(move |a| (a, b)));
        let between = ends.map(|(a, b)| LinkPlan { a: name(a), b: name(b), ..link.clone() });
        plan.links = hosts.chain(between).collect();
        plan
    }

    #[test]
    fn no_part_is_left_without_a_switch_that_has_hosts() {
        let mut plan = switches(&[(0, 5, 2), (3, 1, 1)], 0.0, 1);
        for (link, switch) in plan.links.iter_mut().zip([0, 0, 0, 0, 1, 2]) {
            link.b = format!("sw{switch}");
        }
        let (expected, _) = recorded(&plan, 1, 1000);
        assert_eq!(recorded(&plan, 3, 1000), (expected, 3));
    }

    /// The recording of a plan, and the number of cores that ran it.
    fn recorded(plan: &Plan, threads: usize, step: u64) -> (String, usize) {
        let mut simulation = Simulation::new(plan.clone()).expect("the plan is possible");
        let (had, _) = simulation.use_threads(Some(threads));
        while !simulation.advance(step).done {}
        (text(&simulation.finish()), had)
    }

    /// A slow receiver makes everybody wait for longer than a look for deadlocks allows. There is no
    /// deadlock, and all cores go on.
    #[test]
    fn a_look_that_finds_no_deadlock_leaves_it_cut() {
        let mut plan = switches(&[(0, 5, 2), (2, 3, 2), (4, 1, 1)], 0.0, 1);
        plan.nics[0].congestion = vec![Settings::None(Default::default())];
        plan.links[5].rate = tailback_proto::units::Rate(10_000_000);
        plan.run.duration = Time(60_000 * US);
        let mut looks = 0;
        for threads in [2, 3] {
            let mut simulation = Simulation::new(plan.clone()).expect("the plan is possible");
            assert_eq!(simulation.use_threads(Some(threads)).0, threads);
            while !simulation.advance(u64::MAX >> 1).done {
                looks += 1;
                assert!(simulation.is_cut());
            }
            assert!(text(&simulation.finish()) == recorded(&plan, 1, 1 << 20).0);
        }
        assert!(looks > 2, "{looks}");
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 100, failure_persistence: None, ..ProptestConfig::default() })]

        /// Any run, cut anywhere, whether it goes on to its end or ends with its last queue pair.
        #[test]
        fn cuts_change_nothing(
            writers in prop::collection::vec((0usize..6, 1usize..6, 1u32..5), 0..6),
            (messages, stop) in (prop::option::of(1u64..4), prop::option::of(1u64..100)),
            flows in prop::collection::vec((0u32..6, 1u32..6, 1u64..200_000, 0u64..60), 1..9),
            loss in prop::sample::select(vec![0.0, 1e-3, 0.2]),
            (patience_us, retries) in (prop::sample::select(vec![8u64, 60_000]), 0u32..2),
            nak_delay_us in prop::sample::select(vec![0u64, 5]),
            (delay_ns, step) in (prop::sample::select(vec![500u64, 7_000]), 1u64..3000),
            (telemetry, small, items) in any::<(bool, bool, bool)>(),
            seed in 0u64..100,
        ) {
            let mut plan = switches(&writers, loss, seed);
            for writer in &mut plan.writers {
                (writer.messages, writer.stop) = (messages, stop.map(|at| Time(at * US)));
            }
            plan.links.iter_mut().for_each(|link| link.delay = Time::from_ns(delay_ns));
            if small {
                plan.switch_models[0].shared_bytes = 60_000;
            }
            let flow = |&(src, to, bytes, at): &(u32, u32, u64, u64)| {
                FlowPlan(src, (src + to) % 6, 0, 0, bytes, at * US)
            };
            if items {
                plan.flows.items = vec!["flows".into()];
                plan.flows.list = flows.iter().map(flow).collect();
            }
            let nic = &mut plan.nics[0];
            let patience = Time(patience_us * US);
            (nic.transport.ack_timeout, nic.transport.retry_count) = (patience, retries);
            nic.transport.adaptive_timeout = None;
            nic.transport.nak_delay = Time(nak_delay_us * US);
            if telemetry {
                ask_for_telemetry(&mut plan);
            }
            let (expected, one) = recorded(&plan, 1, step);
            prop_assert_eq!(one, 1);
            for threads in 2..4 {
                let (found, had) = recorded(&plan, threads, step);
                prop_assert_eq!(had, threads);
                prop_assert!(found == expected);
            }
        }
    }
}
