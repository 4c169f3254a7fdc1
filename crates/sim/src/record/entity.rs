//! What time series belong to.

use crate::plan::Plan;
use crate::world::World;

/// A host, a queue, a queue pair or whatever else has time series: a row of the table of entities. It is compared and shown
/// by its name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Entity {
    /// Unique among all.
    pub name: String,
    /// `host`, `namespace`, `item`, `item-at-sender`, `queue-pair`, `message`, `connection`, `ping`, `core`, or a kind of queue
    /// as in [`super::Queue::kind`].
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
