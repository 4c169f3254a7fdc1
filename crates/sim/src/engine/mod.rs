//! The event engine: a queue of events in order of (time, place at that time), packets by number, and one random stream for
//! each entity.

mod arena;
mod prefetch;
mod queue;
mod random;
mod turns;

pub use crate::engine::arena::NumberMap;
pub use crate::engine::queue::EventKey;
pub use crate::engine::turns::Barrier;
pub use arena::{Arena, Fifo, Linked, NONE};
pub use prefetch::prefetch;
pub use queue::EventQueue;
pub use random::{mix, splitmix64, stream, uniform, Stream};
pub use turns::Turns;
