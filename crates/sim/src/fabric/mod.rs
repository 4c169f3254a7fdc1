//! Links, ports and switches.

pub(crate) mod link;
pub(crate) mod packet;
pub(crate) mod pause;
pub(crate) mod port;
pub(crate) mod routing;
pub(crate) mod switch;
pub(crate) mod telemetry;
pub(crate) mod wiring;

/// Traffic classes, priorities and priority groups: 802.1Q has eight of each.
pub const CLASSES: usize = 8;

/// Index of a (port, class) pair in the tables that hold one entry for each.
pub(crate) fn lane(port: usize, class: u8) -> usize {
    port * CLASSES + class as usize
}

/// The (port, class) pair of a lane.
pub(crate) fn port_and_class(lane: usize) -> (usize, u8) {
    (lane / CLASSES, (lane % CLASSES) as u8)
}
