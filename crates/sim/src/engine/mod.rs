//! The event engine: a queue of events in order of (time, place at that time), packets by number, and one random stream for
//! each entity.

mod arena;
mod barrier;
mod beside;
mod heap;
mod lists;
mod numbers;
mod place;
mod prefetch;
mod queue;
mod random;
mod turns;
mod wheel;

pub(crate) use arena::{Arena, Fifo, Linked, NONE};
pub use barrier::Barrier;
pub(crate) use numbers::NumberMap;
pub use place::Place;
pub(crate) use prefetch::prefetch;
pub use queue::EventQueue;
pub use random::{mix, splitmix64, stream, uniform, Stream};
pub use turns::Turns;
