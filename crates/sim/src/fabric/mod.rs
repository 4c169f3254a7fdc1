//! Links, ports and switches.
//!
//! What leaves the fabric is handed over as a value: a packet that has reached a node ([`Arrived`]), or a host whose port may
//! send. Nothing here knows what a host does with either.

pub(crate) mod admit;
pub(crate) mod balancing;
pub(crate) mod build;
pub(crate) mod classes;
pub(crate) mod cut;
pub(crate) mod deadlock;
pub(crate) mod drops;
pub(crate) mod lanes;
pub(crate) mod link;
pub(crate) mod packet;
pub(crate) mod pause;
pub(crate) mod pause_storm;
pub(crate) mod pfc;
pub(crate) mod port;
pub(crate) mod routing;
pub(crate) mod switch;
pub(crate) mod taps;
pub(crate) mod telemetry;
pub(crate) mod transmit;
pub(crate) mod trimming;
pub(crate) mod wiring;

#[cfg(test)]
pub(crate) mod tests;

pub(crate) use lanes::{lane, port_and_class, CLASSES};

use std::collections::{BTreeMap, BTreeSet};
use tailback_proto::flow_control::pfc::PauseSink;
use tailback_proto::flow_control::watchdog::Watchdog;
use tailback_proto::scheduling::ets::Ets;
use tailback_proto::units::Time;

use crate::engine::{Arena, Stream};
use crate::run::Run;
use classes::Classes;
use cut::Cut;
use drops::DropsByLane;
use lanes::Lanes;
use packet::{DataTally, Packet, KINDS};
use pause::{PauseFrames, PauseLogs, Pausing};
use port::{ClassQueue, Link, Port};
use routing::Routes;
use switch::{IngressGroup, Marking, Switch};
use taps::Noted;
use telemetry::Telemetry;

/// The fabric, and the packets and the time of the run that it is in.
#[derive(Debug)]
pub(crate) struct Fabric {
    pub run: Run,
    pub packets: Arena<Packet>,
    pub telemetry: Telemetry,
    /// Where it is cut in parts that have a core each.
    pub cut: Cut,
    /// What ports that are captured did in this event.
    pub taps: Vec<Noted>,
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

    /// Whether a port is a bridge's.
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
                    .any(|group| group.rx_packets | group.rx_bytes | group.bytes() as u64 > 0)
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
