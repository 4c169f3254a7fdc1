//! Everything that exists in a run, in arenas; entities are named by index. Each model adds its own methods.

mod look_ahead;
mod traffic;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use tailback_proto::congestion::builtin::{Congestion, Settings};
use tailback_proto::congestion::dcqcn::NotificationPoint;
use tailback_proto::congestion::external::ExternalControl;
use tailback_proto::congestion::parameters::Refused;
use tailback_proto::congestion::rhcc::sender::Sender;
use tailback_proto::congestion::{Controller, Link as SendersLink};
use tailback_proto::flow_control::pfc::PauseSink;
use tailback_proto::scheduling::ets::Ets;
use tailback_proto::units::{Rate, Time};

use crate::engine::{stream, EventQueue, Stream};
use crate::event::{Event, MAX_INDEX};
use crate::fabric::deadlock::Deadlocks;
use crate::fabric::packet::{Arena, Fifo, ECT, KINDS};
use crate::fabric::pause::{PauseFrames, PauseLogs, Pausing};
use crate::fabric::port::{ClassQueue, Drops, Link, Port, BRIDGE, LOSSY, RECLASSIFIES};
use crate::fabric::routing::Routes;
use crate::fabric::storm::Watchdogs;
use crate::fabric::switch::{IngressGroup, Marking, Switch};
use crate::fabric::telemetry::Telemetry;
use crate::fabric::wiring::Wiring;
use crate::fabric::{class_table, mask, ClassOf, Lanes, CLASSES};
use crate::host::agent::Agent;
use crate::host::path::{HostPath, LoadChange, IDEAL};
use crate::host::{Cpus, Sockets, TxRings};
use crate::linux::Linux;
use crate::nic::{Nic, NicCounters, NicModel, RecvQp, SendQp};
use crate::plan::{Plan, PlanError, MAX_CODE_POINTS};
use crate::workload::latency::LatencyTest;
use crate::workload::Writer;

/// What became of data packets.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct DataTally {
    pub sent: u64,
    pub delivered: u64,
    pub duplicate: u64,
    pub out_of_sequence: u64,
    pub dropped: u64,
}

/// External controllers, by their numbers in the plan.
pub(crate) type Controls = [Arc<dyn ExternalControl>];

/// The state of a run.
pub(crate) struct World {
    pub now: Time,
    pub events: EventQueue,
    pub packets: Arena,
    pub telemetry: Telemetry,
    pub ports: Vec<Port>,
    pub links: Vec<Link>,
    /// By port: how long a PFC frame takes from the end of its propagation to its effect at the peer.
    pub pfc_response_delay: Vec<Time>,
    /// By port: quanta in its pause frames.
    pub pfc_quanta: Vec<u16>,
    pub ecn_streams: Vec<Stream>,
    pub marking: Marking,
    /// By port: its scheduler, where classes have weights; empty where no port's do.
    pub ets: Vec<Ets>,
    /// By lane: egress queues, ingress groups, pauses received, drops.
    pub queues: Lanes<ClassQueue>,
    /// By lane: packets marked CE.
    pub marked: Lanes<u64>,
    pub groups: Lanes<IngressGroup>,
    pub pausing: Lanes<Pausing>,
    pub pauses: Lanes<PauseSink>,
    pub drops: Lanes<Drops>,
    /// By lane: packets dropped by its egress queue and by its ingress group.
    pub dropped: Lanes<[u64; 2]>,
    pub pause_logs: PauseLogs,
    pub pause_frames: PauseFrames,
    pub watchdogs: Watchdogs,
    pub switches: Vec<Switch>,
    pub routes: Routes,
    /// Link failures and repairs: a port of the link, and whether it is up from then on.
    pub link_changes: Vec<(u32, bool)>,
    /// By port: how often its link failed, to tell apart what was on it.
    pub link_epochs: Vec<u8>,
    pub nics: Vec<Nic>,
    pub nic_models: Vec<NicModel>,
    /// Data paths of the hosts that have one.
    pub paths: Vec<HostPath>,
    /// Generators of memory traffic that begin or end.
    pub memory_loads: Vec<LoadChange>,
    pub send_qps: Vec<SendQp>,
    pub recv_qps: Vec<RecvQp>,
    /// One for each span of receivers that the minimum interval between CNPs holds for.
    pub notification_points: Vec<NotificationPoint>,
    /// What watches the counters of receiving hosts.
    pub agents: Vec<Agent>,
    /// What each queue pair sends: perftest-like writers first, then single messages.
    pub writers: Vec<Writer>,
    pub latency_tests: Vec<LatencyTest>,
    /// By single message, which is also its writer: its completion time in an empty network.
    pub ideal_fct: Vec<Time>,
    /// First queue pair of the single messages.
    pub first_flow_qp: u32,
    pub cpus: Cpus,
    pub sockets: Sockets,
    pub tx_rings: TxRings,
    /// Cores and bridges of Linux hosts that forward.
    pub linux: Linux,
    /// Queue pairs and TCP connections not yet done.
    pub active_qps: usize,
    /// Nothing more can happen that anybody waits for.
    pub finished: bool,
    pub transmissions: [u64; KINDS],
    pub data: DataTally,
    /// By lane of a lossless group that overflowed: the headroom that would have been enough.
    pub lossless_drops: BTreeMap<usize, u64>,
    pub deadlocks: Deadlocks,
}

/// A Linux bridge looks at no code point.
const ONE_CLASS: ClassOf = [0; MAX_CODE_POINTS];

impl World {
    /// Builds the world of a checked plan.
    pub fn new(plan: &Plan, controls: &Controls) -> Result<World, PlanError> {
        let impossible =
            |place: &str, problem: String| PlanError::Impossible { place: place.into(), problem };
        let hosts = plan.hosts.len();
        let first_bridge = hosts + plan.switches.len();
        let nodes = first_bridge + plan.bridges.len();
        let names: HashMap<&str, usize> = plan
            .hosts
            .iter()
            .map(|h| h.name.as_str())
            .chain(plan.switches.iter().map(|s| s.name.as_str()))
            .chain(plan.bridges.iter().map(|b| b.name.as_str()))
            .enumerate()
            .map(|(index, name)| (name, index))
            .collect();

        let wiring = Wiring::new(plan, &names, nodes);
        let ports_count = wiring.ends.len();
        if ports_count * CLASSES > MAX_INDEX as usize {
            return Err(impossible("links", format!("{} are too many", plan.links.len())));
        }

        let mut nic_models = Vec::new();
        let mut model_of: HashMap<(usize, u64), u32> = HashMap::new();
        let mut nics = Vec::with_capacity(hosts);
        let mut paths: Vec<HostPath> = Vec::new();
        for (index, host) in plan.hosts.iter().enumerate() {
            let port = wiring.first_port[index];
            let rate = plan.links[wiring.ends[port].link].rate_bps;
            let model = match model_of.get(&(host.nic, rate)) {
                Some(&model) => model,
                None => {
                    let model = nic_model(&plan.nics[host.nic], Rate(rate), controls).map_err(
                        |(part, problem)| {
                            impossible(&format!("nics[{}].{part}", host.nic), problem.to_string())
                        },
                    )?;
                    nic_models.push(model);
                    model_of.insert((host.nic, rate), nic_models.len() as u32 - 1);
                    nic_models.len() as u32 - 1
                }
            };
            let path = plan.nics[host.nic].host_path.as_ref().map_or(IDEAL, |path| {
                paths.push(HostPath::new(path, index as u32, port as u32, plan.seed));
                paths.len() as u32 - 1
            });
            nics.push(Nic {
                port: port as u32,
                model,
                marks_ce: false,
                ready: Default::default(),
                ready_classes: 0,
                backlog_bytes: [0; CLASSES],
                counters: NicCounters::default(),
                path,
                data_ready: Time::ZERO,
            });
        }

        let mut switches = Vec::with_capacity(plan.switches.len());
        for (index, switch) in plan.switches.iter().enumerate() {
            let first_port = wiring.first_port[hosts + index] as u32;
            switches.push(Switch::new(&plan.switch_models[switch.model], first_port));
        }

        let mut ports = Vec::with_capacity(ports_count);
        let mut links = Vec::with_capacity(ports_count);
        let mut pfc_response_delay = Vec::with_capacity(ports_count);
        let mut pfc_quanta = Vec::with_capacity(ports_count);
        let mut marking = Marking::new();
        let mut ets = Vec::with_capacity(ports_count);
        for end in &wiring.ends {
            let link = &plan.links[end.link];
            let rate = Rate(link.rate_bps);
            let peer_node = wiring.ends[end.peer].node;
            let bridge = |node: usize| node.checked_sub(first_bridge).map(|bridge| &plan.bridges[bridge]);
            let latency = match peer_node.checked_sub(hosts) {
                Some(_) if peer_node >= first_bridge => {
                    bridge(peer_node).map_or(0, |bridge| plan.bridge_models[bridge.model].host.rx_latency.0)
                }
                Some(switch) => plan.switch_models[plan.switches[switch].model].latency_ps,
                None => plan.nics[plan.hosts[peer_node].nic].rx_latency_ps,
            };
            let (strict, weights) = match end.node.checked_sub(hosts) {
                Some(_) if end.node >= first_bridge => (0, None),
                Some(switch) => (switches[switch].cold.strict, switches[switch].cold.weights),
                None => {
                    let model = &nic_models[nics[end.node].model as usize];
                    (model.strict, model.weights)
                }
            };
            ets.push(Ets::new(strict, weights.unwrap_or_default()));
            ports.push(Port {
                busy_until: Time::ZERO,
                wake_at: Time::NEVER,
                arrival_delay: Time(link.delay_ps + latency),
                in_flight: Fifo::EMPTY,
                wire_bytes: 0,
                peer: end.peer as u32,
                owner: end.node as u32,
                peer_owner: peer_node as u32,
                ps_per_byte: if 8_000_000_000_000 % link.rate_bps == 0 {
                    (8_000_000_000_000 / link.rate_bps) as u32
                } else {
                    0
                },
                backlogged: 0,
                paused: 0,
                strict,
                last_class: 7,
                pfc_pending: 0,
                behind: if link.loss > 0.0 { LOSSY } else { 0 }
                    | if peer_node >= first_bridge { BRIDGE } else { 0 },
                up: true,
                weighted: weights.is_some(),
            });
            links.push(Link {
                name: end.name.clone(),
                rate,
                delay: Time(link.delay_ps),
                loss: link.loss,
                headroom_bytes: link.headroom_bytes,
                loss_stream: stream(plan.seed, "link loss", end.stream),
            });
            let switch = end.node.checked_sub(hosts).and_then(|switch| plan.switches.get(switch));
            let switch = switch.map(|switch| switch.model);
            let switch = switch.map(|model| &plan.switch_models[model]);
            let nic = plan.hosts.get(end.node).and_then(|host| plan.nics[host.nic].host_path.as_ref());
            let (delay, quanta) = match (switch, nic) {
                (Some(model), _) => (model.pause.response_delay, model.pause.quanta),
                (None, Some(path)) => (path.pause.response_delay, path.pause.quanta),
                (None, None) => (Time::ZERO, 0),
            };
            pfc_response_delay.push(delay);
            pfc_quanta.push(quanta);
            for class in 0..CLASSES as u8 {
                marking
                    .add(switch.and_then(|model| model.ecn_of(link.rate_bps, class)))
                    .map_err(|problem| impossible("switch_models", problem))?;
            }
        }

        let class_of = |node: usize| match node.checked_sub(hosts) {
            Some(_) if node >= first_bridge => &ONE_CLASS,
            Some(switch) => &switches[switch].cold.class_of,
            None => &nic_models[nics[node].model as usize].class_of,
        };
        for port in &mut ports {
            let differs = class_of(port.owner as usize) != class_of(port.peer_owner as usize);
            port.behind |= if differs { RECLASSIFIES } else { 0 };
        }
        let slowest_packet =
            links.iter().map(|link| link.rate.serialization(4200)).fold(Time::ZERO, Time::max);
        if !ports.iter().any(|port| port.weighted) {
            ets = Vec::new();
        }
        let used = |congestion: &Congestion| congestion.uses().telemetry || congestion.uses().hop_count;
        let needs_hops = |model: &NicModel| model.congestion.iter().any(used);
        let telemetry = Telemetry::new(nic_models.iter().any(needs_hops));
        let mut world = World {
            now: Time::ZERO,
            events: EventQueue::for_ports(ports_count),
            packets: Arena::new(),
            telemetry,
            ecn_streams: wiring.ends.iter().map(|end| stream(plan.seed, "ecn", end.stream)).collect(),
            marking,
            ets,
            queues: Lanes::new(ports_count, ClassQueue::EMPTY),
            marked: Lanes::new(ports_count, 0),
            groups: Lanes::new(ports_count, IngressGroup::EMPTY),
            pausing: Lanes::new(ports_count, Pausing::IDLE),
            pauses: Lanes::new(ports_count, PauseSink::default()),
            drops: Lanes::new(ports_count, Drops::default()),
            dropped: Lanes::new(ports_count, [0; 2]),
            pause_logs: PauseLogs::new(),
            pause_frames: PauseFrames::default(),
            watchdogs: Watchdogs::new(),
            ports,
            links,
            pfc_response_delay,
            pfc_quanta,
            switches,
            routes: Routes::default(),
            link_changes: Vec::new(),
            link_epochs: vec![0; ports_count],
            nics,
            nic_models,
            paths,
            memory_loads: Vec::new(),
            send_qps: Vec::new(),
            recv_qps: Vec::new(),
            notification_points: Vec::new(),
            agents: Vec::new(),
            writers: Vec::new(),
            latency_tests: Vec::new(),
            ideal_fct: Vec::new(),
            first_flow_qp: 0,
            cpus: Cpus::default(),
            sockets: Sockets::default(),
            tx_rings: TxRings::default(),
            linux: Linux::default(),
            active_qps: 0,
            finished: false,
            transmissions: [0; KINDS],
            data: DataTally::default(),
            lossless_drops: BTreeMap::new(),
            deadlocks: Deadlocks::new(slowest_packet),
        };
        world.add_bridges(plan, &wiring.first_port[first_bridge..nodes])?;
        let too_many = || impossible("links", "too many ports lie on shortest paths".into());
        world.routes = Routes::new(hosts, &world.adjacency()).ok_or_else(too_many)?;
        let port_of: HashMap<usize, u32> =
            wiring.ends.iter().enumerate().map(|(port, end)| (end.link, port as u32)).collect();
        world.link_changes = plan.link_events.iter().map(|event| (port_of[&event.1], event.2)).collect();
        world.add_writers(plan, &names)?;
        world.add_flows(plan)?;
        world.add_receivers(plan);
        world.active_qps = world.send_qps.len();
        world.add_latency_tests(plan);
        world.add_agents(plan)?;
        world.add_memory_loads(plan, &names);
        world.add_connections(plan, &names)?;
        if let Some(veth) = &plan.veth {
            world.linux.add_veths(veth, plan.seed)?;
        }
        Ok(world)
    }

    /// Hosts, switches and bridges together.
    pub fn nodes(&self) -> usize {
        self.nics.len() + self.switches.len() + self.linux.bridges.len()
    }

    /// A port's switch; none: it is a host's or a bridge's.
    pub fn switch_of(&self, port: usize) -> Option<usize> {
        let switch = (self.ports[port].owner as usize).checked_sub(self.nics.len())?;
        (switch < self.switches.len()).then_some(switch)
    }

    /// The ports of a switch.
    pub fn ports_of(&self, switch: usize) -> std::ops::Range<usize> {
        let node = (self.nics.len() + switch) as u32;
        let first = self.switches[switch].first_port as usize;
        let own = self.ports[first..].iter().take_while(|port| port.owner == node);
        first..first + own.count()
    }

    /// Whether a port is a bridge's.
    pub fn is_bridge(&self, port: usize) -> bool {
        self.ports[port].owner as usize >= self.nics.len() + self.switches.len()
    }

    /// A node's classification.
    pub fn class_of(&self, node: usize) -> &ClassOf {
        match node.checked_sub(self.nics.len()) {
            Some(switch) => self.switches.get(switch).map_or(&ONE_CLASS, |switch| &switch.cold.class_of),
            None => &self.nic_models[self.nics[node].model as usize].class_of,
        }
    }

    /// Schedules an event.
    #[inline]
    pub fn schedule(&mut self, time: Time, event: Event) {
        // What lies past the horizon, twice the longest run, never happens.
        self.events.push_by_payload(time.min(EventQueue::HORIZON), event.encode());
    }

    /// Packets put on a link so far, of any kind.
    pub fn packet_hops(&self) -> u64 {
        self.transmissions.iter().sum::<u64>() + self.pause_frames.sent + self.linux.veths.hops
    }

    /// A lossless group overflowed; `enough`: the headroom that would have held it.
    #[cold]
    pub fn lossless_drop(&mut self, port: usize, class: u8, enough: u64) {
        let worst = self.lossless_drops.entry(crate::fabric::lane(port, class)).or_default();
        *worst = enough.max(*worst);
    }
}

/// Errors name the part of the plan.
fn nic_model(
    plan: &crate::plan::NicPlan,
    rate: Rate,
    controls: &Controls,
) -> Result<NicModel, (&'static str, Refused)> {
    let link = SendersLink { rate, mtu_bytes: plan.mtu_bytes };
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
        nak_reaction: plan.transport.nak_reaction,
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
        strict: mask(&plan.strict),
        weights: plan.weights,
        line_rate: rate.0 as f64,
    })
}
