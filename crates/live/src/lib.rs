//! Real packets on Linux interfaces, in user space. Elsewhere the crate is empty.
//!
//! [`direction`] decides, and has no clock and no I/O; [`socket`] has the packet sockets, and all that is unsafe; [`point`] joins them.

#![cfg(target_os = "linux")]

pub mod capture;
pub mod clock;
pub mod counted;
pub mod direction;
pub mod events;
pub mod frame;
pub mod host;
pub mod mirror;
pub mod network;
pub mod pair;
pub mod pattern;
pub mod plan;
pub mod point;
pub mod reactor;
pub mod series;
pub mod settings;
mod socket;
pub mod switch;
pub mod turns;
