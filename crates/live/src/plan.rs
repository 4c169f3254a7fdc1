//! A live run in numbers: hosts, switches and flows, with no default left. Times are picoseconds of the run.

use std::net::Ipv4Addr;
use std::sync::Arc;

use serde::Deserialize;
use tailback_proto::aqm::red::EcnParameters;
use tailback_proto::congestion::builtin::{Congestion, Settings};
use tailback_proto::congestion::external::ExternalControl;
use tailback_proto::congestion::parameters::Refused;
use tailback_proto::congestion::Link;
use tailback_proto::flow_control::shared_buffer::SharedBufferSettings;
use tailback_proto::transport::rc::TransportParameters;
use tailback_proto::units::{Rate, Time};

/// Classes of a port.
pub const CLASSES: usize = 8;
/// Class of each DSCP.
pub type ClassOf = [u8; 64];

/// A live run.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LivePlan {
    /// Seed of its random numbers and first PSNs.
    pub seed: u64,
    /// Its end.
    pub duration_ps: u64,
    /// Seconds of real time that a second of the run takes.
    pub slowdown: f64,
    /// Length of a bin of the series.
    pub bin_ps: u64,
    /// Hosts.
    pub hosts: Vec<HostPlan>,
    /// Switches.
    pub switches: Vec<SwitchPlan>,
    /// Cables to make: veth pairs.
    pub cables: Vec<[EndPlan; 2]>,
    /// Queue pairs and their messages.
    pub flows: Vec<FlowPlan>,
}

/// A host: a NIC at an interface.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HostPlan {
    /// Its name.
    pub name: String,
    /// An existing interface. `None`: it has a cable, or is on another machine.
    pub interface: Option<String>,
    /// Its MAC address. Not the interface's, so that the kernel leaves its frames alone.
    pub mac: [u8; 6],
    /// Its address.
    pub ip: Ipv4Addr,
    /// Payload of a full packet.
    pub mtu: u32,
    /// From a packet's last bit to the transport.
    pub rx_latency_ps: u64,
    /// True if its data is sent with ECT(0).
    pub ect: bool,
    /// Its connections.
    pub transport: TransportParameters,
    /// Its controller.
    pub congestion: Settings,
    /// DSCP of its CNPs; `None`: that of the data.
    pub cnp_dscp: Option<u8>,
    /// Class of each DSCP, for pauses.
    pub class_of: Vec<(u8, u8)>,
    /// Its link.
    pub link: LinkPlan,
}

impl HostPlan {
    /// Its controller on its link.
    ///
    /// # Errors
    /// Its settings are refused, or it is not among `controls`.
    pub fn controller(&self, controls: &[Arc<dyn ExternalControl>]) -> Result<Congestion, Refused> {
        let mut made = self.congestion.on(Link { rate: self.link.rate(), mtu_bytes: self.mtu })?;
        made.install(controls)?;
        Ok(made)
    }
}

/// An end of a link.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LinkPlan {
    /// Its rate.
    pub rate_bps: u64,
    /// Its delay.
    pub delay_ps: u64,
    /// Probability that a frame is lost before it arrives here.
    pub loss: f64,
    /// Bytes that a lossless group of the port may hold above xoff.
    pub headroom_bytes: u64,
    /// From a pause frame's arrival until nothing more is sent.
    pub response_delay_ps: u64,
}

impl LinkPlan {
    /// The rate.
    pub fn rate(&self) -> Rate {
        Rate(self.rate_bps.max(1))
    }
}

/// A switch.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SwitchPlan {
    pub name: String,
    pub latency_ps: u64,
    pub buffer: SharedBufferSettings,
    pub strict: Vec<u8>,
    pub class_of: Vec<(u8, u8)>,
    pub ecn: Vec<EcnParameters>,
    /// Quanta of its pause frames.
    pub quanta: u16,
    pub ports: Vec<PortPlan>,
    /// Port of each host, by its MAC address.
    pub routes: Vec<([u8; 6], usize)>,
}

/// A port of a switch.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PortPlan {
    /// Name of the node at the other end.
    pub peer: String,
    /// Its link.
    pub link: LinkPlan,
}

/// An end of a cable.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EndPlan {
    /// The port of a host.
    Host(usize),
    /// A port of a switch.
    Port(usize, usize),
}

/// A queue pair that keeps messages outstanding, as `ib_write_bw` does.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FlowPlan {
    /// Host that posts messages.
    pub src: usize,
    /// Host at the other end.
    pub dst: usize,
    /// Bytes of a message.
    pub message: u32,
    /// Messages posted at a time.
    pub depth: u64,
    /// Messages in all; `None`: until the end of the run.
    pub messages: Option<u64>,
    /// When it begins.
    pub start_ps: u64,
    /// Nothing is posted from here on.
    pub stop_ps: Option<u64>,
    /// DSCP of its packets.
    pub dscp: u8,
    /// The verb that carries its messages.
    #[serde(default)]
    pub verb: Verb,
    /// The end at another program; `None` where both ends are this plan's.
    #[serde(default)]
    pub remote: Option<RemotePlan>,
}

/// The verb that carries messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verb {
    /// WRITE, to the memory of `dst`.
    #[default]
    Write,
    /// SEND, to a receive that `dst` has posted.
    Send,
    /// READ: `src` asks, and the payload comes from the memory of `dst`.
    Read,
}

/// The end of a flow at another program, as the two programs told each other.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RemotePlan {
    /// MAC address that its packets go to.
    pub mac: [u8; 6],
    /// Its address.
    pub ip: Ipv4Addr,
    /// Its queue pair.
    pub qpn: u32,
    /// First PSN of what it sends.
    pub psn: u32,
    /// First PSN of what is sent to it.
    pub own_psn: u32,
    /// Key of its memory.
    pub r_key: u32,
    /// Where its memory begins.
    pub address: u64,
}

/// The class of each DSCP, from a list of pairs; class 0 where it names none.
pub fn class_table(pairs: &[(u8, u8)]) -> ClassOf {
    let mut table = [0; 64];
    for &(dscp, class) in pairs {
        table[dscp as usize & 63] = class & 7;
    }
    table
}

impl LivePlan {
    /// Its end.
    pub fn duration(&self) -> Time {
        Time(self.duration_ps)
    }
}
