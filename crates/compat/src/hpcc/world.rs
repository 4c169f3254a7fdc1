//! Everything that a run consists of.

use super::calendar::{Calendar, EventKey};
use super::cc::{dcqcn, AckControl};
use super::host::{RecvQp, SendQp};
use super::packet::{serialization, Rounding};
use super::packet::{EntryKind, Packet, NONE};
use super::plan::{Cc, Flow, HpccPlan, Link};
use super::random::{streams_before_start, FirstNumbers, Stream};
use super::recording::QueueLengths;
use super::routing::HashOrder;
use super::routing::{Pair, Routes};
use super::switch::{Heard, HostCounters, Lane, LaneCounters, Nic, Port, Switch, LANES, RESERVE_BYTES};
use super::work::FinishedMessages;
use tailback_sim::engine::{prefetch, Arena, NumberMap};
use tailback_sim::gauge::PauseLogs;
use tailback_sim::work::Work;

/// The explicit stream that all error models draw from.
const ERROR_STREAM: u64 = 50;

/// What can happen; an index beside it says where.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(super) enum Event {
    /// DCQCN looks for a cut.
    CutTimer,
    /// DCQCN increases.
    IncreaseTimer,
    /// The flow list is read on.
    FlowInput,
    /// A flow's application is set up.
    AppStart,
    /// A flow's queue pair starts.
    QpStart,
    /// The plan's link fails.
    LinkDown,
    /// A departure: nothing was sent or acknowledged for long.
    RetransmissionTimer,
    /// A bin of the time series ends.
    Sample,
    /// A time that the work waits for has come.
    Work,
    /// A message is out of its sender's NIC.
    WorkSent,
    /// The run ends.
    Stop,
}

/// By number; the last several times, so that any four bits are one.
const EVENTS: [Event; 16] = [
    Event::CutTimer,
    Event::IncreaseTimer,
    Event::FlowInput,
    Event::AppStart,
    Event::QpStart,
    Event::LinkDown,
    Event::RetransmissionTimer,
    Event::Sample,
    Event::Work,
    Event::WorkSent,
    Event::Stop,
    Event::Stop,
    Event::Stop,
    Event::Stop,
    Event::Stop,
    Event::Stop,
];
/// Flows must stay below this.
pub(super) const INDEX_LIMIT: usize = 1 << 28;

/// The places among the packets of a port's events: it has sent its packet, and it wakes. Before them stands the packet that is none.
#[inline]
pub(super) fn sent_event(port: u32) -> u32 {
    2 * port + 1
}

#[inline]
pub(super) fn wake_event(port: u32) -> u32 {
    2 * port + 2
}

/// The port that has this event.
#[inline]
pub(super) fn port_of(event: u32) -> u32 {
    (event - 1) / 2
}

impl Event {
    /// True if nothing is ever sent because of it: timers of controllers, samples, the end.
    #[inline]
    pub fn is_idle(self) -> bool {
        use Event::*;
        matches!(self, CutTimer | IncreaseTimer | Sample | Stop)
    }

    /// The kind of an event of the calendar, and its index.
    #[inline]
    pub fn of(event: &Packet) -> (Event, u32) {
        (EVENTS[event.route as usize % EVENTS.len()], event.flow)
    }
}

/// A finished message, as in that simulator's fct file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fct {
    pub src: u32,
    pub dst: u32,
    pub sport: u16,
    pub dport: u16,
    pub bytes: u64,
    pub start_ns: u64,
    pub fct_ns: u64,
    /// By formula, in an empty network.
    pub standalone_ns: u64,
}

/// A PFC frame received, as in that simulator's pfc file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PfcEvent {
    pub t_ns: u64,
    pub node: u32,
    pub is_switch: bool,
    pub port: u16,
    pub pause: bool,
}

/// Fabrics with fewer ports fit the second-level cache.
const MANY_PORTS: usize = 512;

pub(super) struct World {
    pub plan: HpccPlan,
    pub now: u64,
    pub stop: u64,
    pub events: Calendar,
    pub packets: Arena<Packet>,
    /// The fabric is so large that memory is asked for before it is needed.
    looks_ahead: bool,
    pub ports: Vec<Port>,
    /// By node: its port of the first link.
    first_ports: Vec<u32>,
    pub lanes: Vec<Lane>,
    pub lane_counters: Vec<LaneCounters>,
    pub heard: Vec<Heard>,
    pub switches: Vec<Switch>,
    pub nics: Vec<Nic>,
    /// By number among the hosts.
    pub hosts: Vec<u32>,
    pub host_counters: Vec<HostCounters>,
    pub send: Vec<SendQp>,
    pub recv: Vec<RecvQp>,
    pub reaction: Option<dcqcn::Parameters>,
    pub acks: Option<AckControl>,
    pub routes: Routes,
    /// By flow: figures of the way from its sender to its receiver.
    pub pairs: Vec<Pair>,
    /// Largest round trip (ns) and bandwidth-delay product (bytes) of all pairs of hosts, where the plan goes by them.
    pub largest_rtt: u64,
    pub largest_bdp: u64,
    /// Ports that flows leave switches by, route after route.
    pub route_ports: Vec<u32>,
    /// At the end of the run: packets and bytes on their way to a lane.
    pub on_wire: std::collections::HashMap<usize, (u64, u64)>,
    /// A link has failed: packets under way no longer follow their route.
    pub rerouted: bool,
    /// By host: where a link will go down, its queue pairs that are not done.
    pub qp_tables: Vec<HashOrder>,
    pub queue_lengths: QueueLengths,
    pub streams: FirstNumbers,
    pub times: Vec<u64>,
    pub error_models: Vec<(f64, Stream)>,
    /// Messages that have finished and are not in a file yet.
    pub fct: Vec<Fct>,
    pub completed: usize,
    pub pfc: Vec<PfcEvent>,
    pub pause_logs: PauseLogs,
    /// When the first flow starts: where the recording's time begins.
    pub origin: u64,
    /// Transmissions by kind: hosts' and switches'.
    pub transmissions: [[u64; 4]; 2],
    pub ecn_draws: u64,
    /// Data packets delivered in order, and dropped or lost anywhere.
    pub delivered: u64,
    pub data_lost: u64,
    pub next_flow: usize,
    pub over: FinishedMessages,
    /// What sends messages during the run.
    pub work: Option<Box<dyn Work>>,
    /// By place of a message of work: what its port had sent when its queue pair started, bytes, and how long it had been
    /// paused, ps.
    pub at_start: Vec<(u64, u64)>,
    /// The run is over.
    pub done: bool,
    /// Events to come that are idle.
    pub idle_events: usize,
    /// The last place of an event that was cancelled: until then that simulator has something to come.
    pub cancelled: EventKey,
    /// Flow numbers seen per pair, for the source ports.
    pub sports: NumberMap<(u32, u32), u16>,
    pub rounding: Rounding,
    pub data_overhead: u32,
    pub ack_bytes: u32,
    /// Lines of the controllers' and of the switches' log.
    #[cfg(test)]
    pub log: [Vec<String>; 2],
}

impl World {
    pub fn new(plan: &HpccPlan, work: Option<Box<dyn Work>>) -> World {
        let mut is_switch = vec![NONE; plan.nodes as usize];
        for (number, &id) in plan.switches.iter().enumerate() {
            is_switch[id as usize] = number as u32;
        }
        let hosts: Vec<u32> = (0..plan.nodes).filter(|&id| is_switch[id as usize] == NONE).collect();
        let tables = if plan.link_down.is_some() { hosts.len() } else { 0 };
        let rounding = match (plan.departures.exact_time, plan.variant.rounds_to_nearest()) {
            (true, _) => Rounding::Exact,
            (false, true) => Rounding::Nearest,
            (false, false) => Rounding::Down,
        };
        let data_overhead = plan.data_overhead();
        let ack_bytes = plan.ack_bytes();
        let largest = (plan.payload_bytes + data_overhead).max(ack_bytes).max(plan.variant.pfc_bytes());
        let own_errors = plan.links.iter().filter(|link| link.4 > 0.0).count() as u64;
        let error_stream = || Stream::explicit(plan.rng.seed, plan.rng.run, ERROR_STREAM);
        let mut routes = Routes::new(plan, None);
        let ends = |flow: &Flow| (routes.host(flow.0), routes.host(flow.1));
        let ends: Vec<_> = plan.flows.iter().map(ends).collect();
        let pairs = ends.into_iter().map(|(src, dst)| routes.pair(src, dst)).collect();
        let needs_largest = plan.window.global || matches!(plan.cc, Cc::Pint(_));
        let (largest_rtt, largest_bdp) = if needs_largest { routes.largest() } else { (0, 0) };
        let mut world = World {
            now: 0,
            stop: plan.stop_ns * 1000,
            events: Calendar::default(),
            packets: Arena::default(),
            looks_ahead: plan.links.len() * 2 >= MANY_PORTS,
            ports: Vec::with_capacity(plan.links.len() * 2),
            first_ports: vec![NONE; plan.nodes as usize],
            lanes: vec![Lane::default(); plan.links.len() * 2 * LANES],
            lane_counters: vec![LaneCounters::default(); plan.links.len() * 2 * LANES],
            heard: vec![Heard::default(); plan.links.len() * 2 * LANES],
            switches: (plan.switches.iter())
                .map(|id| Switch { inner: plan.inner_switches.contains(id), ..Switch::default() })
                .collect(),
            nics: Vec::new(),
            host_counters: vec![HostCounters::default(); hosts.len()],
            hosts,
            send: Vec::new(),
            recv: Vec::new(),
            reaction: match &plan.cc {
                Cc::Dcqcn(cc) => Some(cc.into()),
                _ => None,
            },
            acks: AckControl::new(&plan.cc, plan.payload_bytes, largest_rtt),
            routes,
            pairs,
            largest_rtt,
            largest_bdp,
            route_ports: Vec::new(),
            on_wire: Default::default(),
            rerouted: false,
            qp_tables: vec![HashOrder::default(); tables],
            queue_lengths: QueueLengths::new(plan),
            streams: FirstNumbers::new(
                plan.rng.seed,
                plan.rng.run,
                streams_before_start(plan.variant.streams_per_node() * plan.nodes as u64, own_errors),
            ),
            times: Vec::new(),
            error_models: vec![(plan.error_rate_per_link, error_stream())],
            fct: Vec::new(),
            completed: 0,
            pfc: Vec::new(),
            pause_logs: PauseLogs::default(),
            origin: plan.flows.first().map_or(0, Flow::start_ps),
            transmissions: [[0; 4]; 2],
            ecn_draws: 0,
            delivered: 0,
            data_lost: 0,
            next_flow: 0,
            over: FinishedMessages::default(),
            work,
            at_start: Vec::new(),
            done: false,
            idle_events: 0,
            cancelled: EventKey::default(),
            sports: Default::default(),
            rounding,
            data_overhead,
            ack_bytes,
            #[cfg(test)]
            log: Default::default(),
            plan: plan.clone(),
        };
        let mut numbers = vec![0u16; plan.nodes as usize];
        let mut known_rates: Vec<(u64, u32)> = Vec::new();
        for (index, &Link(a, b, rate, delay_ns, error)) in plan.links.iter().enumerate() {
            let times = match known_rates.iter().find(|known| known.0 == rate) {
                Some(known) => known.1,
                None => {
                    let at = world.times.len() as u32;
                    world.times.extend((0..=largest).map(|bytes| serialization(bytes, rate, rounding)));
                    known_rates.push((rate, at));
                    at
                }
            };
            let error_model = if error > 0.0 {
                world.error_models.push((error, error_stream()));
                world.error_models.len() as u32 - 1
            } else if plan.error_rate_per_link > 0.0 {
                0
            } else {
                NONE
            };
            let threshold = plan.ecn.thresholds.iter().rev().find(|known| known.0 == rate);
            for (end, node) in [(0, a), (1, b)] {
                numbers[node as usize] += 1;
                if numbers[node as usize] == 1 {
                    world.first_ports[node as usize] = world.ports.len() as u32;
                }
                let owner = match is_switch[node as usize] {
                    NONE => {
                        world.nics.push(Nic::default());
                        world.nics.len() as u32 - 1
                    }
                    switch => switch,
                };
                world.ports.push(Port {
                    busy: false,
                    awaited: false,
                    free_at: EventKey::default(),
                    up: true,
                    is_switch: is_switch[node as usize] != NONE,
                    paused: 0,
                    waiting: 0,
                    last_served: 0,
                    shift: 3,
                    peer: (index * 2 + 1 - end) as u32,
                    node,
                    owner,
                    times,
                    delay: delay_ns * 1000,
                    headroom: ((rate as u128 * delay_ns as u128 / 8 / 1_000_000_000) as u32)
                        .wrapping_mul(plan.headroom_factor),
                    kmin: threshold.map_or(0, |t| t.1 * 1000),
                    kmax: threshold.map_or(0, |t| t.2 * 1000),
                    pmax: threshold.map_or(0.0, |t| t.3),
                    queued: 0,
                    tx_bytes: 0,
                    rate,
                    error_model,
                    number: numbers[node as usize],
                });
            }
        }
        world.packets.add(Packet::new(EntryKind::Event, 0));
        for port in 0..world.ports.len() {
            let sent = world.packets.add(Packet::new(EntryKind::Sent, 0));
            let wake = world.packets.add(Packet::new(EntryKind::Wake, 0));
            debug_assert_eq!((sent, wake), (sent_event(port as u32), wake_event(port as u32)));
        }
        world.size_buffers();
        world
    }

    /// A node's port of the first link, if it has one.
    pub fn first_port(&self, node: u32) -> Option<usize> {
        Some(self.first_ports[node as usize] as usize).filter(|&port| port != NONE as usize)
    }

    /// Round trip that a flow's controller goes by: its pair's, or the largest of all.
    pub fn base_rtt(&self, flow: usize) -> u64 {
        if self.plan.window.global {
            self.largest_rtt
        } else {
            self.pairs[flow].rtt_ns
        }
    }

    /// Headroom and reserve come off the buffer; thresholds follow a port's rate against the first host's NIC.
    fn size_buffers(&mut self) {
        let first = self.hosts.first().copied().unwrap_or_default();
        let nic_rate = self.first_port(first).map_or(u64::MAX, |port| self.ports[port].rate);
        for switch in &mut self.switches {
            switch.shareable = (self.plan.buffer_mib as u64 * 1024 * 1024) as u32;
        }
        for port in self.ports.iter_mut().filter(|port| port.is_switch) {
            let mut rate = port.rate;
            while rate > nic_rate && port.shift > 0 {
                port.shift -= 1;
                rate /= 2;
            }
            let switch = &mut self.switches[port.owner as usize];
            switch.shareable = switch.shareable.wrapping_sub(port.headroom).wrapping_sub(RESERVE_BYTES);
        }
    }

    /// Schedules an event. What lies past the end of the run never happens.
    #[inline]
    pub fn schedule(&mut self, at: u64, event: Event, index: u32) {
        if at <= self.stop {
            self.idle_events += event.is_idle() as usize;
            let event = Packet { route: event as u32, flow: index, ..Packet::new(EntryKind::Event, 0) };
            let event = self.packets.add(event);
            self.events.push(&mut self.packets, at, event);
        }
    }

    /// Starts the list of flows and what else stands in the calendar from the beginning.
    pub fn begin(&mut self) {
        if let Some(flow) = self.plan.flows.first() {
            self.schedule(flow.start_ps(), Event::FlowInput, 0);
        }
        if let Some(down) = self.plan.link_down {
            self.schedule(down.0 * 1000, Event::LinkDown, 0);
        }
        self.begin_queue_monitor();
        self.schedule(self.stop, Event::Stop, 0);
        self.let_work(|work, world| work.begin(world));
    }

    #[inline]
    pub fn serialization(&self, port: u32, bytes: u16) -> u64 {
        self.times[self.ports[port as usize].times as usize + bytes as usize]
    }

    /// Asks for the memory that the next events will need: the second one's packet, and the next one's port.
    #[inline]
    pub fn look_ahead(&self) {
        if !self.looks_ahead {
            return;
        }
        let [next, second] = self.events.upcoming(&self.packets);
        self.packets.prefetch(Some(second));
        prefetch(&self.ports, self.packets[next].ingress as usize);
    }
}
