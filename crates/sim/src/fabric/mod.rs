//! Links, ports and switches.

pub(crate) mod deadlock;
pub(crate) mod link;
pub(crate) mod packet;
pub(crate) mod pause;
pub(crate) mod port;
pub(crate) mod routing;
pub(crate) mod storm;
pub(crate) mod switch;
pub(crate) mod telemetry;
pub(crate) mod wiring;

use crate::plan::MAX_CODE_POINTS;

/// Traffic classes, priorities and priority groups: 802.1Q has eight of each.
pub const CLASSES: usize = 8;

/// A node's classification: the class of each code point, by its index in the plan.
pub(crate) type ClassOf = [u8; MAX_CODE_POINTS];

/// A plan's classification as a table of fixed size.
pub(crate) fn class_table(plan: &[u8]) -> ClassOf {
    let mut table = [0; MAX_CODE_POINTS];
    table[..plan.len()].copy_from_slice(plan);
    table
}

/// A set of classes, a bit for each.
pub(crate) fn mask(classes: &[u8]) -> u8 {
    classes.iter().fold(0, |mask, class| mask | 1 << class)
}

/// Index of a (port, class) pair in the tables that hold one entry for each.
pub(crate) fn lane(port: usize, class: u8) -> usize {
    port * CLASSES + class as usize
}

/// The (port, class) pair of a lane.
pub(crate) fn port_and_class(lane: usize) -> (usize, u8) {
    (lane / CLASSES, (lane % CLASSES) as u8)
}
