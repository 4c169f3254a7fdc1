//! What time series belong to.

use crate::plan::Plan;
use crate::world::World;

/// Kinds of entities, and what each is.
pub const KINDS: [(&str, &str); 24] = [
    ("host", "a host, as `h3`"),
    ("namespace", "a network namespace of a veth pair, as `producer`"),
    ("item", "a traffic item, as `item:write0`; only in runs with two or more"),
    ("item-at-sender", "a traffic item at one of its senders, as `h3/write0`; only in runs with two or more"),
    ("queue-pair", "a queue pair, as `h3-h16/qp5`; `record.qps` of them have series, spread evenly over all"),
    ("message", "a queue pair with a single message, as `h3-h16/flow5`; as many"),
    ("connection", "a TCP connection, as `h3-h16/tcp5`; as many"),
    ("ping", "a ping between namespaces"),
    ("core", "a core of a Linux bridge, as `br0/cpu1`"),
    ("send", "queue of a class at a host, as `h3/sq3`: what its queue pairs posted and did not yet send"),
    ("egress", "egress queue of a switch's port, as `sw0:h16/tc3`"),
    ("ingress", "ingress group of a switch's port, as `sw0:h3/pg3`: the same bytes as in the egress queues, by where they came in"),
    ("receive", "receive rings of a host whose CPU serves TCP, as `h16/rx`"),
    ("nic-rx", "receive buffer of the NIC, of a host with `host.path`, as `h16/nic-rx`"),
    ("pcie", "PCIe link of such a host, as `h16/pcie`"),
    ("iio", "IIO of such a host, as `h16/iio`"),
    ("memory", "memory of such a host, as `h16/memory`"),
    ("gpu", "GPU's memory in its place, as `h16/gpu`"),
    ("tx-ring", "transmit rings of a Linux bridge's port, as `br0:h1/tx-ring`"),
    ("qdisc", "queueing disciplines of a Linux bridge's port, as `br0:h1/qdisc`"),
    ("rx-ring", "receive rings of a Linux bridge's port, as `br0:h1/rx-ring`"),
    ("veth-napi", "packets that the NAPI instance of a veth end has taken from the ring, as `producer-consumer/napi`"),
    ("veth-ring", "ring of a veth end, as `producer-consumer/ring`"),
    ("veth-qdisc", "queueing discipline of a veth end, as `producer-consumer/qdisc`"),
];

/// A host, a queue, a queue pair or whatever else has time series: a row of the table of entities. It is compared and shown
/// by its name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Entity {
    /// Unique among all.
    pub name: String,
    /// One of [`KINDS`].
    pub kind: &'static str,
    /// Host, switch, bridge or namespace; of what lies between two, the sender. Empty for an item.
    pub node: String,
    /// The node at the other end of a port, or the receiver; empty: there is none.
    pub peer: String,
    /// Traffic item; empty: of all or of none.
    pub item: String,
}

impl Entity {
    /// Of a node.
    pub fn new(name: impl Into<String>, kind: &'static str, node: impl Into<String>) -> Self {
        Entity { name: name.into(), kind, node: node.into(), ..Entity::default() }
    }

    /// The same towards another node.
    pub fn towards(self, peer: impl Into<String>) -> Self {
        Entity { peer: peer.into(), ..self }
    }

    /// The same of a traffic item.
    pub fn of_item(self, item: impl Into<String>) -> Self {
        Entity { item: item.into(), ..self }
    }
}

impl std::ops::Deref for Entity {
    type Target = str;
    fn deref(&self) -> &str {
        &self.name
    }
}

impl PartialEq<str> for Entity {
    fn eq(&self, name: &str) -> bool {
        self.name == name
    }
}

impl PartialEq<&str> for Entity {
    fn eq(&self, name: &&str) -> bool {
        self.name == *name
    }
}

impl std::fmt::Display for Entity {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.name)
    }
}

/// The name of a node, counted over hosts, switches and bridges.
pub(super) fn node_name(plan: &Plan, node: usize) -> &str {
    let (hosts, switches) = (plan.hosts.len(), plan.switches.len());
    match node.checked_sub(hosts) {
        None => &plan.hosts[node].name,
        Some(switch) if switch < switches => &plan.switches[switch].name,
        Some(other) => &plan.bridges[other - switches].name,
    }
}

/// Something at a port, towards its peer.
pub(super) fn at_port(plan: &Plan, world: &World, name: String, kind: &'static str, port: usize) -> Entity {
    let port = &world.fabric.ports[port];
    Entity::new(name, kind, node_name(plan, port.owner as usize))
        .towards(node_name(plan, port.peer_owner as usize))
}

/// The name of the node at the other end of a port.
pub(super) fn peer_name(plan: &Plan, world: &World, port: usize) -> String {
    node_name(plan, world.fabric.ports[port].peer_owner as usize).to_string()
}
