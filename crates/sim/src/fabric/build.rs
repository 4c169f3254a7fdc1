//! A fabric is built from its ports, which say what they are joined to, and its switches.

use std::collections::{BTreeMap, BTreeSet};
use tailback_proto::flow_control::pfc::PauseSink;
use tailback_proto::scheduling::ets::Ets;
use tailback_proto::units::{Rate, Time};

use super::classes::Classes;
use super::cut::Cut;
use super::drops::DropsByLane;
use super::lanes::{Lanes, CLASSES};
use super::packet::{DataTally, KINDS};
use super::pause::{PauseFrames, Pausing};
use super::port::{byte_time, ClassQueue, Link, Port, LOSSY, RECLASSIFIES, WEIGHTED};
use super::routing::Routes;
use super::switch::{IngressGroup, Marking, Switch};
use super::telemetry::Telemetry;
use super::Fabric;
use crate::engine::{stream, Arena, Fifo};
use crate::plan::EcnPlan;
use crate::run::Run;

/// What a port is built from. Those of a node lie next to each other.
pub(crate) struct NewPort<'a> {
    /// `node:peer`.
    pub name: String,
    /// Node that it belongs to.
    pub owner: usize,
    /// Port at the other end of its link.
    pub peer: usize,
    /// Number of its random streams.
    pub stream: u64,
    pub rate: Rate,
    /// How fast its clock is, in millionths.
    pub clock_ppm: f64,
    /// Propagation, and what the node at the other end takes until it has the packet.
    pub delay: Time,
    pub latency: Time,
    /// Probability that a packet is lost behind it.
    pub loss: f64,
    /// Headroom of each lossless group of what comes in.
    pub headroom_bytes: u64,
    /// Classes with strict priority, and the shares of the others; none: packets in turns.
    pub strict: u8,
    pub weights: Option<[u32; CLASSES]>,
    /// From the last bit of a pause frame of its peer to the moment that this port is quiet; quanta of its own frames.
    pub pfc_response_delay: Time,
    pub pfc_quanta: u16,
    /// By class: where its egress queue marks.
    pub ecn: [Option<&'a EcnPlan>; CLASSES],
}

impl Fabric {
    /// A fabric at rest. Nodes are hosts, then switches, then bridges, each with a classification.
    ///
    /// # Errors
    /// A part of the plan, and what is too much there.
    pub fn new(
        seed: u64,
        hosts: usize,
        switches: Vec<Switch>,
        classes: Classes,
        new_ports: Vec<NewPort>,
        telemetry: Telemetry,
    ) -> Result<Fabric, (&'static str, &'static str)> {
        let count = new_ports.len();
        let nodes = classes.nodes();
        let mut ports = Vec::with_capacity(count);
        let mut links = Vec::with_capacity(count);
        let mut marking = Marking::new();
        let owners: Vec<usize> = new_ports.iter().map(|port| port.owner).collect();
        let weighted = new_ports.iter().any(|port| port.weights.is_some());
        let scheduler = |new: &NewPort| Ets::new(new.strict, new.weights.unwrap_or_default());
        let ets = if weighted { new_ports.iter().map(scheduler).collect() } else { Vec::new() };
        let pfc_response_delay = new_ports.iter().map(|new| new.pfc_response_delay).collect();
        let pfc_quanta = new_ports.iter().map(|new| new.pfc_quanta).collect();
        let ecn_streams = new_ports.iter().map(|new| stream(seed, "ecn", new.stream)).collect();
        for new in new_ports {
            let peer_owner = owners[new.peer];
            let reclassifies = classes.of(new.owner) != classes.of(peer_owner);
            for ecn in new.ecn {
                marking.add(ecn).map_err(|problem| ("switch_models", problem))?;
            }
            let (ps_per_byte, byte_shift) = byte_time(new.rate, new.clock_ppm);
            let flag = |is_set, flag| if is_set { flag } else { 0 };
            let flags = flag(new.loss > 0.0, LOSSY)
                | flag(reclassifies, RECLASSIFIES)
                | flag(new.weights.is_some(), WEIGHTED);
            ports.push(Port {
                busy_until: Time::ZERO,
                wake_at: Time::NEVER,
                arrival_delay: new.delay + new.latency,
                in_flight: Fifo::EMPTY,
                wire_bytes: 0,
                peer: new.peer as u32,
                owner: new.owner as u32,
                peer_owner: peer_owner as u32,
                ps_per_byte,
                backlogged: 0,
                paused: 0,
                strict: new.strict,
                last_class: 7,
                pfc_pending: 0,
                flags,
                up: true,
                byte_shift,
            });
            links.push(Link {
                name: new.name,
                rate: new.rate,
                delay: new.delay,
                loss: new.loss,
                headroom_bytes: new.headroom_bytes,
                loss_stream: stream(seed, "link loss", new.stream),
            });
        }
        let mut fabric = Fabric {
            run: Run::new(count),
            packets: Arena::default(),
            telemetry,
            cut: Cut::default(),
            taps: Vec::new(),
            hosts,
            nodes,
            classes,
            ports,
            links,
            pfc_response_delay,
            pfc_quanta,
            ecn_streams,
            marking,
            ets,
            queues: Lanes::new(count, ClassQueue::EMPTY),
            marked: Lanes::new(count, 0),
            groups: Lanes::new(count, IngressGroup::EMPTY),
            pausing: Lanes::new(count, Pausing::IDLE),
            pauses: Lanes::new(count, PauseSink::default()),
            drops: DropsByLane::default(),
            dropped: Lanes::new(count, [0; 2]),
            pause_logs: BTreeMap::new(),
            pause_frames: PauseFrames::default(),
            watchdogs: BTreeMap::new(),
            switches,
            routes: Routes::default(),
            link_epochs: vec![0; count],
            transmissions: [0; KINDS],
            data: DataTally::default(),
            lossless_drops: BTreeSet::new(),
        };
        let routes = Routes::new(hosts, &fabric.adjacency());
        fabric.routes = routes.ok_or(("links", "too many ports lie on shortest routes"))?;
        Ok(fabric)
    }
}
