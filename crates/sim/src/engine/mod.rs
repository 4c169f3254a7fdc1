//! The event engine: a queue of events in order of (time, sequence), and one random stream for each entity.

mod prefetch;
mod queue;
mod random;

pub(crate) use prefetch::prefetch;
pub use queue::EventQueue;
pub use random::{stream, uniform, Stream};
