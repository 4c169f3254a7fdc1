//! Links, ports and switches.
//!
//! Whatever leaves the fabric is returned as a value: a packet that has reached a node ([`Arrived`]), or a host whose port may
//! send. Nothing here knows what a host does with either.

pub(crate) mod cut;
pub(crate) mod link;
pub(crate) mod packet;
pub(crate) mod pfc;
pub(crate) mod port;
pub(crate) mod routing;
pub(crate) mod settings;
pub(crate) mod switch;
#[cfg(test)]
pub(crate) mod tests;

use std::collections::{BTreeMap, BTreeSet};
use tailback_proto::aqm::red::EcnParameters;
use tailback_proto::flow_control::pfc::{PauseSink, Watchdog};
use tailback_proto::scheduling::Ets;
use tailback_proto::units::{Rate, Time};

use crate::engine::{stream, Arena, Fifo, Stream};
use crate::fabric::cut::Cut;
use crate::fabric::packet::{DataTally, Packet, Telemetry, KINDS};
use crate::fabric::pfc::{PauseFrames, Pausing};
use crate::fabric::port::{
    byte_time, CaptureNote, ClassQueue, DropsByLane, Link, Port, LOSSY, RECLASSIFIES, WEIGHTED,
};
use crate::fabric::routing::Routes;
pub use crate::fabric::settings::{CLASSES, MAX_CODE_POINTS};
use crate::fabric::switch::{IngressGroup, Marking, Switch};
use crate::gauge::PauseLogs;

use crate::run::Run;

/// The fabric, and the packets and the time of the run that it is in.
#[derive(Debug)]
pub(crate) struct Fabric {
    pub run: Run,
    pub packets: Arena<Packet>,
    pub telemetry: Telemetry,
    /// Where it is cut in parts that have a core each.
    pub cut: Cut,
    /// Frames of captured ports in this event.
    pub taps: Vec<CaptureNote>,
    /// Hosts: the first nodes. Switches come next, then bridges.
    pub hosts: usize,
    pub nodes: usize,
    /// How each node puts packets in classes.
    pub classes: Classes,
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
    pub drops: DropsByLane,
    /// By lane: packets dropped by its egress queue and by its ingress group.
    pub dropped: Lanes<[u64; 2]>,
    pub pause_logs: PauseLogs,
    pub pause_frames: PauseFrames,
    /// PFC watchdogs by lane, for those lanes that were ever paused.
    pub watchdogs: BTreeMap<usize, Watchdog>,
    pub switches: Vec<Switch>,
    pub routes: Routes,
    /// By port: how often its link failed, to tell apart what was on it.
    pub link_epochs: Vec<u8>,
    /// Transmissions by kind of packet.
    pub transmissions: [u64; KINDS],
    pub data: DataTally,
    /// Lanes of lossless groups that overflowed.
    pub lossless_drops: BTreeSet<usize>,
}

/// A packet that has reached a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Arrived {
    pub node: usize,
    /// The node's port.
    pub port: usize,
    pub packet: u32,
}

impl Fabric {
    /// A port's switch; none: it is a host's or a bridge's.
    pub fn switch_of(&self, port: usize) -> Option<usize> {
        let switch = (self.ports[port].owner as usize).checked_sub(self.hosts)?;
        (switch < self.switches.len()).then_some(switch)
    }

    /// The ports of a switch.
    pub fn ports_of(&self, switch: usize) -> std::ops::Range<usize> {
        let node = (self.hosts + switch) as u32;
        let first = self.switches[switch].first_port as usize;
        let own = self.ports[first..].iter().take_while(|port| port.owner == node);
        first..first + own.count()
    }

    /// True if a port is a bridge's.
    pub fn is_bridge(&self, port: usize) -> bool {
        self.ports[port].owner as usize >= self.hosts + self.switches.len()
    }

    /// Classes that any port ever had a packet or a pause of, or counts anything of.
    pub fn classes_in_use(&self) -> [bool; CLASSES] {
        let mut used: [bool; CLASSES] = std::array::from_fn(|class| {
            let class = class as u8;
            self.queues.of_class(class).iter().any(|queue| !queue.is_untouched())
                || self
                    .groups
                    .of_class(class)
                    .iter()
                    .any(|group| group.rx_packets | group.rx_bytes | group.held.bytes() as u64 > 0)
                || self.pauses.of_class(class).iter().any(|pause| pause.frames > 0)
                || self.pausing.of_class(class).iter().any(|pausing| pausing.frames > 0)
        });
        self.drops.iter().for_each(|(lane, _)| used[port_and_class(lane).1 as usize] = true);
        used
    }

    /// Packets put on a link so far, of any kind.
    pub fn packet_hops(&self) -> u64 {
        self.transmissions.iter().sum::<u64>() + self.pause_frames.sent
    }

    /// A lossless group overflowed.
    #[cold]
    pub fn lossless_drop(&mut self, port: usize, class: u8) {
        self.lossless_drops.insert(lane(port, class));
    }
}

// Traffic classes, and tables with an entry for each port and class.

/// Index of a (port, class) pair in the tables that hold one entry for each.
pub(crate) fn lane(port: usize, class: u8) -> usize {
    port * CLASSES + class as usize
}

/// A table with one entry for each (port, class) pair. Those of a class lie side by side, because most classes have no
/// packets: what is used is dense, and neither falls into a few sets of the caches nor takes a page for each few ports.
#[derive(Debug)]
pub(crate) struct Lanes<T>([Vec<T>; CLASSES]);

impl<T: Clone> Lanes<T> {
    pub fn new(ports: usize, value: T) -> Self {
        Lanes(std::array::from_fn(|_| vec![value.clone(); ports]))
    }
}

impl<T> Lanes<T> {
    pub fn len(&self) -> usize {
        self.0[0].len() * CLASSES
    }

    /// In order of lanes.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        (0..self.len()).map(|lane| &self[lane])
    }

    /// All ports of a class.
    pub fn of_class(&self, class: u8) -> &[T] {
        &self.0[class as usize]
    }

    /// All classes of a port.
    pub fn of_port(&self, port: usize) -> impl Iterator<Item = &T> {
        self.0.iter().map(move |entries| &entries[port])
    }

    /// Asks for an entry's memory; a class that there is none of is ignored.
    #[inline]
    pub fn prefetch(&self, port: usize, class: u8) {
        if let Some(entries) = self.0.get(class as usize) {
            crate::engine::prefetch(entries, port);
        }
    }
}

impl<T> std::ops::Index<(usize, u8)> for Lanes<T> {
    type Output = T;
    #[inline]
    fn index(&self, (port, class): (usize, u8)) -> &T {
        &self.0[class as usize % CLASSES][port]
    }
}

impl<T> std::ops::IndexMut<(usize, u8)> for Lanes<T> {
    #[inline]
    fn index_mut(&mut self, (port, class): (usize, u8)) -> &mut T {
        &mut self.0[class as usize % CLASSES][port]
    }
}

impl<T> std::ops::Index<usize> for Lanes<T> {
    type Output = T;
    #[inline]
    fn index(&self, lane: usize) -> &T {
        &self[port_and_class(lane)]
    }
}

impl<T> std::ops::IndexMut<usize> for Lanes<T> {
    #[inline]
    fn index_mut(&mut self, lane: usize) -> &mut T {
        &mut self[port_and_class(lane)]
    }
}

/// The (port, class) pair of a lane.
pub(crate) fn port_and_class(lane: usize) -> (usize, u8) {
    (lane / CLASSES, (lane % CLASSES) as u8)
}

// How nodes put packets in classes.

/// A node's classification: the class of each code point, by its index in the plan.
pub(crate) type ClassOf = [u8; MAX_CODE_POINTS];

/// A plan's classification as a table of fixed size.
pub(crate) fn class_table(plan: &[u8]) -> ClassOf {
    let mut table = [0; MAX_CODE_POINTS];
    table[..plan.len()].copy_from_slice(plan);
    table
}

/// A Linux bridge looks at no code point.
pub(crate) const ONE_CLASS: ClassOf = [0; MAX_CODE_POINTS];

/// The classifications of all nodes. Nodes are many and classifications few, so a node has a number.
#[derive(Debug, Default)]
pub(crate) struct Classes {
    tables: Vec<ClassOf>,
    /// By node.
    number: Vec<u32>,
}

impl Classes {
    /// Adds the next node.
    pub fn add(&mut self, table: &ClassOf) {
        let known = self.tables.iter().position(|known| known == table);
        if known.is_none() {
            self.tables.push(*table);
        }
        self.number.push(known.unwrap_or(self.tables.len() - 1) as u32);
    }

    /// How many nodes there are.
    pub fn nodes(&self) -> usize {
        self.number.len()
    }

    /// A node's.
    pub fn of(&self, node: usize) -> &ClassOf {
        &self.tables[self.number[node] as usize]
    }
}

// A fabric is built from its ports, which say what they are joined to, and its switches.

/// The plan of a port. The ports of a node are adjacent.
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
    pub ecn: [Option<&'a EcnParameters>; CLASSES],
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
                works: true,
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
