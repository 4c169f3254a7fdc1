//! Everything that exists in a run, in arenas; entities are named by index. Each model adds its own methods.

mod look_ahead;
mod traffic;

use std::collections::HashMap;
use std::sync::Arc;
use tailback_proto::congestion::builtin::{Congestion, Settings};
use tailback_proto::congestion::external::ExternalControl;
use tailback_proto::congestion::parameters::Refused;
use tailback_proto::congestion::rhcc::sender::Sender;
use tailback_proto::congestion::{Controller, Link as SendersLink};
use tailback_proto::units::{Rate, Time};

use crate::engine::{splitmix64, stream, uniform};
use crate::event::MAX_INDEX;
use crate::fabric::build::NewPort;
use crate::fabric::classes::{class_table, mask, Classes, ONE_CLASS};
use crate::fabric::deadlock::Deadlocks;
use crate::fabric::link::Ways;
use crate::fabric::packet::ECT;
use crate::fabric::switch::Switch;
use crate::fabric::telemetry::Telemetry;
use crate::fabric::wiring::{End, Wiring};
use crate::fabric::{Fabric, CLASSES};
use crate::host::agent::{agents, Agent};
use crate::host::path::{HostPath, IDEAL};
use crate::host::Tcp;
use crate::linux::Linux;
use crate::nic::pair_counts::PairCounts;
use crate::nic::{Nic, NicModel, Nics};
use crate::plan::{Plan, PlanError};

/// External controllers, by their numbers in the plan.
pub(crate) type Controls = [Arc<dyn ExternalControl>];

/// The state of a run.
pub(crate) struct World {
    pub fabric: Fabric,
    pub deadlocks: Deadlocks,
    /// Link failures and repairs: a port of the link, and whether it is up from then on.
    pub link_changes: Vec<(u32, bool)>,
    pub nics: Nics,
    /// What watches the counters of receiving hosts.
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
                ecn: std::array::from_fn(|class| switch?.ecn_of(link.rate, class as u8)),
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
        world.linux.add_bridges(&mut world.fabric, plan, &wiring.first_port[first_bridge..nodes])?;
        let port_of: HashMap<usize, u32> =
            wiring.ends.iter().enumerate().map(|(port, end)| (end.link, port as u32)).collect();
        world.link_changes =
            plan.link_changes().into_iter().map(|(_, link, up)| (port_of[&link], up)).collect();
        world.add_writers(plan, &names)?;
        world.add_flows(plan)?;
        world.add_receivers(plan);
        world.fabric.run.active_flows = world.nics.send_qps.len();
        world.add_latency_tests(plan);
        world.agents = agents(plan, &mut world.fabric.run, &world.nics);
        world.add_memory_loads(plan, &names);
        world.tcp.add_connections(&mut world.fabric, &mut world.nics, plan, &names)?;
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
    pub fn find_ways(&self, (src, dst): (u16, u16), qp: u32, ways: &mut Ways) -> bool {
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
        let (port, up) = self.link_changes[change as usize];
        let ends = [port as usize, self.fabric.ports[port as usize].peer as usize];
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
        strict: mask(&plan.strict),
        weights: plan.weights,
        line_rate: rate.0 as f64,
    })
}
