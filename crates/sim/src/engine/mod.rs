//! The event engine: a queue of events in order of (time, sequence), and one random stream for each entity.

mod queue;
mod random;

pub use queue::EventQueue;
pub use random::{stream, uniform, Stream};
