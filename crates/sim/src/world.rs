//! Everything that exists in a run, in arenas; entities are named by index. Each model adds its own methods.

use std::collections::HashMap;
use std::sync::Arc;
use tailback_proto::congestion::builtin::{Congestion, Settings};
use tailback_proto::congestion::dcqcn::{CnpInterval, NotificationPoint};
use tailback_proto::congestion::external::ExternalControl;
use tailback_proto::congestion::parameters::Refused;
use tailback_proto::congestion::rhcc::Sender;
use tailback_proto::congestion::{Controller, Link as SendersLink};
use tailback_proto::units::{Rate, Time};

use crate::engine::{prefetch, splitmix64, stream, uniform};
use crate::event::{Event, MAX_INDEX};
use crate::fabric::link::{End, RoutePorts, Wiring};
use crate::fabric::packet::{Telemetry, ECT};
use crate::fabric::pfc::Deadlocks;
use crate::fabric::switch::Switch;
use crate::fabric::{class_table, Classes, Fabric, NewPort, CLASSES, ONE_CLASS};
use crate::host::agent::{agents, Agent};
use crate::host::path::{HostPath, LoadChange, IDEAL, LINE_BYTES};
use crate::host::Tcp;
use crate::linux::Linux;
use crate::nic::queue_pair::{put, RecvQp, SendQp, GONE};
use crate::nic::{Nic, NicModel, Nics, PairCounts};
use crate::plan::{FlowPlan, LinkChange, Plan, PlanError};
use crate::workload::{number, start_time, LatencyTest, Writer};
use tailback_proto::aqm::red::EcnParameters;
use tailback_proto::flow_control::shared_buffer::class_bits;

/// External controllers, by their numbers in the plan.
pub(crate) type Controls = [Arc<dyn ExternalControl>];

/// The state of a run.
pub(crate) struct World {
    pub fabric: Fabric,
    pub deadlocks: Deadlocks,
    /// Failures and repairs of links, each with a port of the link.
    pub link_changes: Vec<(u32, LinkChange)>,
    pub nics: Nics,
    /// Agents that watch the counters of receiving hosts.
    pub agents: Vec<Agent>,
    pub tcp: Tcp,
    /// Cores and bridges of Linux hosts that forward.
    pub linux: Linux,
}

impl World {
    /// Builds the world of a checked plan.
    pub fn new(plan: &Plan, controls: &Controls) -> Result<World, PlanError> {
        let impossible =
            |place: &str, problem: String| PlanError::Impossible { place: place.into(), problem };
        let hosts = plan.hosts.len();
        let first_bridge = hosts + plan.switches.len();
        let nodes = first_bridge + plan.bridges.len();
        let node_names: Vec<&str> = (plan.hosts.iter().map(|h| h.name.as_str()))
            .chain(plan.switches.iter().map(|s| s.name.as_str()))
            .chain(plan.bridges.iter().map(|b| b.name.as_str()))
            .collect();
        let names: HashMap<&str, usize> = node_names.iter().copied().zip(0..).collect();
        let wiring = Wiring::new(&plan.links, &node_names, &names);
        let ports_count = wiring.ends.len();
        if ports_count * CLASSES > MAX_INDEX as usize {
            return Err(impossible("links", format!("{} are too many", plan.links.len())));
        }

        let mut nic_models = Vec::new();
        let mut model_of: HashMap<(usize, Rate), u32> = HashMap::new();
        let mut nics = Vec::with_capacity(hosts);
        let mut host_paths: Vec<HostPath> = Vec::new();
        for (index, host) in plan.hosts.iter().enumerate() {
            let port = wiring.first_port[index];
            let rate = plan.links[wiring.ends[port].link].rate;
            let model = match model_of.get(&(host.nic, rate)) {
                Some(&model) => model,
                None => {
                    let model =
                        nic_model(&plan.nics[host.nic], rate, controls).map_err(|(part, problem)| {
                            impossible(&format!("nics[{}].{part}", host.nic), problem.to_string())
                        })?;
                    nic_models.push(model);
                    model_of.insert((host.nic, rate), nic_models.len() as u32 - 1);
                    nic_models.len() as u32 - 1
                }
            };
            let host_path = plan.nics[host.nic].host_path.as_ref().map_or(IDEAL, |host_path| {
                host_paths.push(HostPath::new(host_path, index as u32, port as u32, plan.run.seed));
                host_paths.len() as u32 - 1
            });
            nics.push(Nic {
                port: port as u32,
                model,
                marks_ce: false,
                arbiter: Default::default(),
                backlog_bytes: [0; CLASSES],
                counters: Default::default(),
                goodput_tx_bytes: 0,
                goodput_rx_bytes: 0,
                host_path,
                data_ready: Time::ZERO,
            });
        }

        let mut switches = Vec::with_capacity(plan.switches.len());
        for (index, switch) in plan.switches.iter().enumerate() {
            let first_port = wiring.first_port[hosts + index] as u32;
            switches.push(Switch::new(
                &plan.switch_models[switch.model],
                first_port,
                plan.run.seed,
                switches.len(),
            ));
        }

        let mut classes = Classes::default();
        nics.iter().for_each(|nic| classes.add(&nic_models[nic.model as usize].class_of));
        switches.iter().for_each(|switch| classes.add(&switch.cold.class_of));
        plan.bridges.iter().for_each(|_| classes.add(&ONE_CLASS));

        let new_port = |end: &End| {
            let link = &plan.links[end.link];
            let peer_node = wiring.ends[end.peer].node;
            let latency = match peer_node.checked_sub(hosts) {
                Some(_) if peer_node >= first_bridge => {
                    plan.bridge_models[plan.bridges[peer_node - first_bridge].model].host.rx_latency
                }
                Some(switch) => plan.switch_models[plan.switches[switch].model].latency,
                None => plan.nics[plan.hosts[peer_node].nic].rx_latency,
            };
            let (strict, weights) = match end.node.checked_sub(hosts) {
                Some(_) if end.node >= first_bridge => (0, None),
                Some(switch) => (switches[switch].cold.strict, switches[switch].cold.weights),
                None => {
                    let model = &nic_models[nics[end.node].model as usize];
                    (model.strict, model.weights)
                }
            };
            let switch = end.node.checked_sub(hosts).and_then(|switch| plan.switches.get(switch));
            let switch = switch.map(|switch| &plan.switch_models[switch.model]);
            let nic = plan.hosts.get(end.node).and_then(|host| plan.nics[host.nic].host_path.as_ref());
            let (pfc_response_delay, pfc_quanta) = match (switch, nic) {
                (Some(model), _) => (model.pause.response_delay, model.pause.quanta),
                (None, Some(host_path)) => (host_path.pause.response_delay, host_path.pause.quanta),
                (None, None) => (Time::ZERO, 0),
            };
            NewPort {
                name: end.name.clone(),
                owner: end.node,
                peer: end.peer,
                stream: end.stream,
                rate: link.rate,
                clock_ppm: plan.run.clock_ppm
                    * (2.0 * uniform(&mut stream(plan.run.seed, "clock", end.stream)) - 1.0),
                delay: link.delay,
                latency,
                loss: link.loss,
                headroom_bytes: link.headroom_bytes,
                strict,
                weights,
                pfc_response_delay,
                pfc_quanta,
                ecn: std::array::from_fn(|class| EcnParameters::of(&switch?.ecn, link.rate, class as u8)),
            }
        };
        let new_ports = wiring.ends.iter().map(new_port).collect();
        let slowest = plan.links.iter().map(|link| link.rate.serialization(4200)).max();
        let streams = wiring.ends.iter().map(|end| end.stream);
        let controllers = nic_models.iter().flat_map(|model| &model.congestion);
        let telemetry = Telemetry::asked_for(controllers, plan.run.seed, streams)
            .map_err(|problem| impossible("nics", problem.into()))?;
        let mut fabric = Fabric::new(plan.run.seed, hosts, switches, classes, new_ports, telemetry)
            .map_err(|(place, problem)| impossible(place, problem.into()))?;
        fabric.routes.salt = if plan.run.ecmp_by_seed { splitmix64(plan.run.seed) } else { 0 };
        let mut world = World {
            fabric,
            deadlocks: Deadlocks::new(slowest.unwrap_or(Time::ZERO)),
            link_changes: Vec::new(),
            nics: Nics {
                pair_counts: PairCounts::new(nics.len()),
                nics,
                models: nic_models,
                host_paths,
                ..Nics::default()
            },
            agents: Vec::new(),
            tcp: Tcp::default(),
            linux: Linux::default(),
        };
        world.linux.add_bridges(
            &mut world.fabric,
            (&plan.bridges, &plan.bridge_models),
            plan.run.seed,
            &wiring.first_port[first_bridge..nodes],
        )?;
        let port_of: HashMap<usize, u32> =
            wiring.ends.iter().enumerate().map(|(port, end)| (end.link, port as u32)).collect();
        world.link_changes =
            plan.link_changes().into_iter().map(|change| (port_of[&change.link], change)).collect();
        world.add_writers(plan, &names)?;
        world.add_flows(plan)?;
        world.add_receivers(plan);
        world.fabric.run.active_flows = world.nics.send_qps.len();
        world.add_latency_tests(plan);
        let nic_of = |host: usize| {
            let kind = plan.hosts[host].nic;
            (kind, &plan.nics[kind])
        };
        world.agents = agents(|host| nic_of(host).1, &mut world.fabric.run, &world.nics);
        world.add_memory_loads(plan, &names);
        let connections = (&plan.tcp_connections[..], plan.run.seed);
        world.tcp.add_connections(&mut world.fabric, &mut world.nics, connections, nic_of, &names)?;
        if let Some(veth) = &plan.veth {
            world.linux.add_veths(veth, plan.run.seed)?;
        }
        Ok(world)
    }

    /// The ports by which a connection's packets leave, sender first, as the routes are now. `None`: no way.
    pub fn route(&self, src: u16, dst: u16, qp: u32) -> Option<Vec<usize>> {
        self.fabric.route(self.nics[src as usize].port as usize, dst, qp)
    }

    /// Finds all ports that they may leave by, where switches divide packets. `false`: no way.
    pub fn find_ways(&self, (src, dst): (u16, u16), qp: u32, ways: &mut RoutePorts) -> bool {
        self.fabric.find_ways(self.nics[src as usize].port as usize, dst, qp, ways)
    }

    /// Packets put on a link so far, of any kind.
    pub fn packet_hops(&self) -> u64 {
        self.fabric.packet_hops() + self.linux.veths.hops
    }

    /// Lets a port send if it can, now or when its transmitter is free.
    #[inline]
    pub fn kick(&mut self, port: usize) {
        if let Some(host) = self.fabric.kick(port) {
            self.nics.transmit(&mut self.fabric, &mut self.tcp, host);
        }
    }

    /// A link, named by one of its ports, fails or is repaired.
    pub fn on_link_change(&mut self, change: u32) {
        let (port, change) = self.link_changes[change as usize];
        let ends = [port as usize, self.fabric.ports[port as usize].peer as usize];
        if let Some(works) = change.works {
            ends.into_iter().for_each(|port| self.fabric.set_works(port, works));
        }
        if !change.is_noticed {
            return;
        }
        let up = self.fabric.links[ends[0]].works;
        for port in ends {
            if !self.fabric.set_up(port, up) {
                continue;
            }
            if up {
                self.fabric.recall_pauses(port);
                continue;
            }
            self.fabric.lose_link(port);
            let owner = self.fabric.ports[port].owner as usize;
            if owner < self.fabric.hosts {
                self.tcp.fail_rings(&mut self.fabric, &mut self.nics, owner);
            }
            self.fabric.empty_port(port);
        }
        self.fabric.find_routes();
        if up {
            ends.into_iter().for_each(|port| self.kick(port));
        }
    }
}

/// Errors name the part of the plan.
fn nic_model(
    plan: &crate::plan::NicPlan,
    rate: Rate,
    controls: &Controls,
) -> Result<NicModel, (&'static str, Refused)> {
    let link = SendersLink { rate, mtu_bytes: plan.mtu.0 as u32 };
    let on_link = |settings: &Settings| {
        let mut congestion = settings.on(link)?;
        congestion.install(controls)?;
        Ok(congestion)
    };
    let cnp_interval =
        |settings: &Settings| Time::from_us(settings.cnp_interval().map_or(0, |(us, _)| us as u64));
    let congestion: Result<Vec<Congestion>, Refused> = plan.congestion.iter().map(on_link).collect();
    Ok(NicModel {
        rc: plan.transport.connection(),
        congestion: congestion.map_err(|problem| ("congestion", problem))?,
        rhcc: plan
            .rhcc
            .as_ref()
            .and_then(|rhcc| rhcc.sender.as_ref())
            .map(|sender| Sender::law(sender, link))
            .transpose()
            .map_err(|problem| ("rhcc.sender", problem))?,
        min_time_between_cnps: plan.congestion.iter().map(cnp_interval).collect(),
        data_flags: if plan.ect { ECT } else { 0 },
        class_of: class_table(&plan.class_of),
        cnp_code_point: plan.cnp_code_point,
        strict: class_bits(&plan.strict),
        weights: plan.weights,
        line_rate: rate.0 as f64,
    })
}

// Memory asked for ahead of the events that will touch it.

/// Ports from which on a fabric does not fit the nearest cache.
const MANY_PORTS: usize = 2048;

impl World {
    /// Asks for the memory that the next events will touch. In a large fabric little of it is in the nearest cache, and
    /// waiting for it would take most of the time. What an event touches is found step by step, from what was asked
    /// for one event earlier.
    #[inline(always)] // the test alone: a call for each event would cost small fabrics 2 % of all instructions
    pub fn look_ahead(&self) {
        if self.looks_ahead() {
            self.ask_ahead();
        }
    }

    /// True if the fabric is so large that prefetching pays.
    #[inline]
    pub fn looks_ahead(&self) -> bool {
        self.fabric.ports.len() >= MANY_PORTS
    }

    #[inline(never)]
    fn ask_ahead(&self) {
        let event = |ahead| self.fabric.run.events.upcoming(ahead).map(Event::decode);
        event(4).into_iter().for_each(|event| self.ask_first(event));
        event(3).into_iter().for_each(|event| self.ask_second(event));
        event(2).into_iter().for_each(|event| self.ask_third(event));
        event(1).into_iter().for_each(|event| self.ask_fourth(event));
    }

    #[inline]
    fn ask_first(&self, event: Event) {
        match event {
            Event::Arrival(port) | Event::PortWake(port) => prefetch(&self.fabric.ports, port as usize),
            Event::PacingDue(qp) => prefetch(&self.nics.send_qps, self.nics.slots.of(qp) as usize),
            _ => {}
        }
    }

    #[inline]
    fn ask_second(&self, event: Event) {
        match event {
            Event::Arrival(port) => {
                self.fabric.packets.prefetch(self.fabric.ports[port as usize].in_flight.head())
            }
            Event::PortWake(port) => self.fabric.queues.prefetch(port as usize, self.first_class(port)),
            Event::PacingDue(qp) => {
                let s = &self.nics.send_qps[self.nics.slots.of(qp) as usize];
                prefetch(&self.nics.nics, s.src as usize);
                prefetch(&self.nics.writers, s.writer as usize);
            }
            _ => {}
        }
    }

    #[inline]
    fn ask_third(&self, event: Event) {
        match event {
            Event::Arrival(port) => {
                let port = &self.fabric.ports[port as usize];
                let Some(head) = port.in_flight.head() else { return };
                let packet = &self.fabric.packets[head];
                self.fabric.groups.prefetch(port.peer as usize, packet.class);
                self.fabric.packets.prefetch(Some(packet.next));
                match (port.peer_owner as usize).checked_sub(self.fabric.hosts) {
                    Some(switch) => self.fabric.routes.prefetch(switch, packet.dst),
                    None => {
                        let qp = self.nics.slots.of(packet.qp) as usize;
                        prefetch(&self.nics.recv_qps, qp);
                        prefetch(&self.nics.send_qps, qp);
                    }
                }
            }
            Event::PortWake(port) => {
                let class = self.first_class(port);
                if (class as usize) < CLASSES {
                    self.fabric.packets.prefetch(self.fabric.queues[(port as usize, class)].fifo.head());
                }
            }
            Event::PacingDue(qp) => {
                let qp = self.nics.slots.of(qp) as usize;
                let nic = &self.nics[self.nics.send_qps[qp].src as usize];
                prefetch(&self.fabric.ports, nic.port as usize);
            }
            _ => {}
        }
    }

    #[inline]
    fn ask_fourth(&self, event: Event) {
        if let Event::Arrival(port) = event {
            let port = &self.fabric.ports[port as usize];
            let Some(head) = port.in_flight.head() else { return };
            let packet = &self.fabric.packets[head];
            if let Some(switch) = (port.peer_owner as usize).checked_sub(self.fabric.hosts) {
                if let Some(out) = self.fabric.routes.next_port(switch, packet.dst, packet.qp) {
                    prefetch(&self.fabric.ports, out);
                    self.fabric.queues.prefetch(out, packet.class);
                }
            }
        }
    }

    /// Prefetches at the beginning of a node's turn: for its known events up to `last`, and for the node whose turn is
    /// next.
    #[inline]
    pub fn look_ahead_in_turn(&self, last: Time, next: Option<usize>) {
        if !self.looks_ahead() {
            return;
        }
        let turns = &self.fabric.run.turns;
        if let Some(next) = next {
            turns.prefetch(next);
        }
        for step in [World::ask_first, World::ask_second, World::ask_third, World::ask_fourth] {
            turns.coming(last).for_each(|code| step(self, Event::decode(code)));
        }
    }

    /// The first class of a port with a packet in its queue; past the last class where there is none.
    fn first_class(&self, port: u32) -> u8 {
        self.fabric.ports[port as usize].backlogged.trailing_zeros() as u8
    }
}

// What a plan's traffic is built from: queue pairs, writers, messages, and traffic of cores.

/// With what the receiver of a queue pair shares its notification point.
fn shares_point(plan: &Plan, s: &SendQp) -> CnpInterval {
    let at_receiver = &plan.nics[plan.hosts[s.dst as usize].nic].congestion[s.congestion as usize];
    at_receiver.cnp_interval().map_or(CnpInterval::Qp, |(_, per)| per)
}

impl World {
    /// Memory traffic, and what the queue pairs to each host write to.
    fn add_memory_loads(&mut self, plan: &Plan, names: &HashMap<&str, usize>) {
        for load in &plan.memory_loads {
            let change = |at, begins| LoadChange {
                host_path: self.nics[names[load.host.as_str()]].host_path,
                at,
                begins,
                outstanding_bytes: load.cores as u64 * load.lines_per_core as u64 * LINE_BYTES,
                read_share: load.read_share,
            };
            let ends = load.stop.map(|stop| change(stop, false));
            self.nics.memory_loads.extend([Some(change(load.start, true)), ends].into_iter().flatten());
        }
        for s in &self.nics.send_qps {
            if let Some(host_path) =
                self.nics.host_paths.get_mut(self.nics.nics[s.dst as usize].host_path as usize)
            {
                let writer = &self.nics.writers[s.writer as usize];
                host_path.add_working_set(writer.writes.message_bytes.saturating_mul(writer.tx_depth));
            }
        }
    }

    /// The receiving half of a queue pair whose sending half is there, and the notification point that it may share.
    fn add_receiver(&mut self, plan: &Plan, slot: u32) {
        let nics = &mut self.nics;
        let s = &nics.send_qps[slot as usize];
        let next = nics.free_points.last().copied().unwrap_or(nics.notification_points.len() as u32);
        let notification_point = match shares_point(plan, s) {
            CnpInterval::Qp => next,
            CnpInterval::Destination => {
                *nics.shared_points.entry((s.dst, s.congestion, Some(s.src))).or_insert(next)
            }
            CnpInterval::Port => *nics.shared_points.entry((s.dst, s.congestion, None)).or_insert(next),
        };
        if notification_point == next {
            nics.free_points.pop();
            put(&mut nics.notification_points, next, NotificationPoint::default());
        }
        // It has as many places as the sender's window, which is by the sender's link.
        let model = &nics.models[nics.nics[s.src as usize].model as usize];
        let receiver = RecvQp {
            src: s.src,
            notification_point,
            sends_cnps: s.half.uses.cnps,
            echoes: s.half.uses.acks,
            telemetry_bytes: s.telemetry_bytes,
            congestion: s.congestion,
            ..RecvQp::new(model)
        };
        put(&mut nics.recv_qps, slot, receiver);
    }

    /// The receiving halves of all queue pairs.
    fn add_receivers(&mut self, plan: &Plan) {
        for slot in 0..self.nics.send_qps.len() as u32 {
            self.add_receiver(plan, slot);
        }
    }

    /// A message that is sent during the run, which the plan gets, too: both halves of its queue pair. Their slot, and how long
    /// the message takes to its receiver's memory in an empty network.
    ///
    /// # Errors
    /// There is no way, or there are too many.
    pub(crate) fn add_message(&mut self, plan: &mut Plan, flow: FlowPlan) -> Result<(u32, Time), PlanError> {
        let (slot, ideal) = self.add_flow(|| "the work".into(), plan, &flow)?;
        self.add_receiver(plan, slot);
        put(&mut plan.flows.list, slot - self.nics.first_flow_qp, flow);
        Ok((slot, ideal))
    }

    /// A message that was sent during the run, and all that hangs on it, leaves its slot to another.
    pub(crate) fn remove_message(&mut self, plan: &Plan, slot: u32) {
        let nics = &mut self.nics;
        let (s, r) = (&mut nics.send_qps[slot as usize], &nics.recv_qps[slot as usize]);
        nics.slots.give_back(std::mem::replace(&mut s.number, GONE));
        nics.gone_bytes += r.bytes_delivered;
        if shares_point(plan, s) == CnpInterval::Qp {
            nics.free_points.push(r.notification_point);
        }
    }

    fn add_writers(&mut self, plan: &Plan, names: &HashMap<&str, usize>) -> Result<(), PlanError> {
        let mut numbers: HashMap<(usize, usize), u32> = HashMap::new();
        for (index, writer) in plan.writers.iter().enumerate() {
            let (src, dst) = (names[writer.src.as_str()], names[writer.dst.as_str()]);
            let nic = &plan.nics[plan.hosts[src].nic];
            let mut built = Writer::new(writer, nic.mtu.0 as u32, self.nics.send_qps.len() as u32);
            let way = self.route(src as u16, dst as u16, built.first_qp);
            self.check_connection(&built, way.as_deref(), (src, dst), plan)
                .map_err(|problem| PlanError::Impossible { place: format!("writers[{index}]"), problem })?;
            let number = numbers.entry((src, dst)).or_default();
            built.first_number = *number;
            *number += writer.qps;
            let congestion = writer.congestion.unwrap_or(plan.hosts[src].congestion);
            for _ in 0..writer.qps {
                let slot = self.nics.send_qps.len() as u32;
                self.add_qp(slot, (src, dst), writer.code_point, index as u32, congestion);
            }
            self.nics.writers.push(built);
        }
        Ok(())
    }

    fn add_flows(&mut self, plan: &Plan) -> Result<(), PlanError> {
        self.nics.first_flow_qp = self.nics.send_qps.len() as u32;
        self.nics.messages = vec![0; plan.flows.items.len()];
        self.nics.ideal_fct.reserve_exact(plan.flows.list.len());
        for (index, flow) in plan.flows.list.iter().enumerate() {
            self.add_flow(|| format!("flows[{index}]"), plan, flow)?;
        }
        Ok(())
    }

    /// The sending half of a message's queue pair. Its slot, and how long the message takes to its receiver's memory in an empty
    /// network.
    fn add_flow(
        &mut self,
        place: impl FnOnce() -> String,
        plan: &Plan,
        flow: &FlowPlan,
    ) -> Result<(u32, Time), PlanError> {
        let nic = &plan.nics[plan.hosts[flow.src()].nic];
        let slots = self.nics.send_qps.len();
        let (qp, slot) = (self.nics.slots.numbers(slots), self.nics.slots.next(slots));
        let built = Writer::of_flow(flow.bytes(), nic.mtu.0 as u32, slot, self.nics.messages[flow.item()]);
        let (src, dst) = (flow.src() as u16, flow.dst() as u16);
        let route = self.route(src, dst, qp);
        let route = self
            .check_connection(&built, route.as_deref(), (flow.src(), flow.dst()), plan)
            .map_err(|problem| PlanError::Impossible { place: place(), problem })?;
        let own = plan.flows.congestion.get(flow.item()).copied().flatten();
        let congestion = own.unwrap_or(plan.hosts[flow.src()].congestion);
        let model = &self.nics.models[self.nics[flow.src()].model as usize];
        let telemetry_bytes = model.congestion[congestion].telemetry_bytes();
        let back = self.route(dst, src, qp).expect("links have two ends");
        let (arrived, acknowledged) = self.fabric.ideal_completion(
            route,
            (dst, qp),
            &back,
            built.writes.packets_per_message,
            built.frames(telemetry_bytes),
        );
        put(&mut self.nics.ideal_fct, slot - self.nics.first_flow_qp, acknowledged);
        let gone = self.nics.send_qps.get(slot as usize);
        let writer = gone.map_or(self.nics.writers.len() as u32, |gone| gone.writer);
        self.add_qp(slot, (flow.src(), flow.dst()), flow.code_point(), writer, congestion);
        put(&mut self.nics.writers, writer, built);
        self.nics.messages[flow.item()] += 1;
        Ok((slot, arrived))
    }

    /// How long a message on this queue pair takes its sender's link.
    pub(crate) fn time_on_link(&self, slot: u32) -> Time {
        let s = &self.nics.send_qps[slot as usize];
        let writer = &self.nics.writers[s.writer as usize];
        let port = self.nics[s.src as usize].port as usize;
        let frames = writer.frames(s.telemetry_bytes as u32);
        let on_link = |bytes: u32| self.fabric.serialization(port, bytes).0;
        let packets = writer.writes.packets_per_message;
        let first = if packets > 1 { on_link(frames[0]) } else { 0 };
        Time(first + packets.saturating_sub(2) * on_link(frames[1]) + on_link(frames[2]))
    }

    /// The route of a connection, or why it cannot be.
    fn check_connection<'a>(
        &self,
        writer: &Writer,
        route: Option<&'a [usize]>,
        (src, dst): (usize, usize),
        plan: &Plan,
    ) -> Result<&'a [usize], String> {
        if writer.writes.packets_per_message * writer.tx_depth > 1 << 22 {
            // Half the space of PSNs may be outstanding; a quarter leaves no doubt about what is old.
            return Err("more than 2^22 packets would be outstanding on a queue pair".into());
        }
        let no_route = || format!("no route from {} to {}", plan.hosts[src].name, plan.hosts[dst].name);
        let route = route.ok_or_else(no_route)?;
        if self.nics.slots.numbers(self.nics.send_qps.len()) + writer.qps > MAX_INDEX {
            return Err("too many queue pairs in all".into());
        }
        Ok(route)
    }

    fn add_qp(
        &mut self,
        slot: u32,
        (src, dst): (usize, usize),
        code_point: u8,
        writer: u32,
        congestion: usize,
    ) {
        let nics = &mut self.nics;
        let model = &nics.models[nics.nics[src].model as usize];
        let number = nics.slots.numbers(nics.send_qps.len());
        let qp = SendQp::new(model, number, congestion, writer, (src as u16, dst as u16), code_point);
        put(&mut nics.send_qps, slot, qp);
        nics.slots.take(slot);
    }

    /// Ties the queue pairs of latency tests together.
    fn add_latency_tests(&mut self, plan: &Plan) {
        for (index, writer) in plan.writers.iter().enumerate() {
            let Some(partner) = writer.partner else { continue };
            let (own, other) =
                (self.nics.writers[index].first_qp, self.nics.writers[partner.writer].first_qp);
            self.nics.recv_qps[own as usize].answered_by = number(other);
            if partner.begins {
                self.nics.latency_tests.push(LatencyTest {
                    qp: own,
                    sent_at: Time::ZERO,
                    round_trips: Vec::new(),
                });
            }
        }
    }

    /// Schedules the starts and stops of all writers, all single messages, and what happens to links.
    pub(crate) fn schedule(&mut self, plan: &Plan) {
        let (run, nics) = (&mut self.fabric.run, &self.nics);
        for (index, writer) in plan.writers.iter().enumerate() {
            let start = start_time(writer, plan.run.seed, index);
            run.schedule(start, Event::WriterStart(index as u32));
            if let Some(stop) = writer.stop {
                run.schedule(stop.max(start + Time(1)), Event::WriterStop(index as u32));
            }
        }
        for (qp, flow) in (nics.first_flow_qp..).zip(&plan.flows.list) {
            run.schedule(flow.start(), Event::FlowStart(qp));
        }
        for change in 0..nics.memory_loads.len() {
            let at = nics.memory_loads[change].at;
            run.schedule(at, Event::MemoryLoad(change as u32));
        }
        for (number, change) in plan.link_changes().into_iter().enumerate() {
            run.schedule(change.at, Event::LinkChange(number as u32));
        }
    }
}
