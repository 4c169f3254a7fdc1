//! Work: messages that wait for messages. Whoever plans it, such as a training job, is told when a message is done or a
//! time has come, and answers with new messages; a network carries them. Nothing here happens once a packet.

use tailback_proto::units::Time;

/// A network that carries messages between hosts during a run.
pub trait Network {
    /// Simulated time.
    fn now(&self) -> Time;
    /// Sends a message of `bytes` on a queue pair of its own, from now on; hosts by their node. Its number.
    fn send(&mut self, from: u32, to: u32, bytes: u64) -> u32;
    /// Calls [`Work::on_timer`] with `timer` after `delay`.
    fn call_after(&mut self, delay: Time, timer: u32);
}

/// A rank that has done all it had to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Finished {
    /// Its number.
    pub rank: u32,
    /// When.
    pub at: Time,
    /// How long it computed.
    pub computed: Time,
}

/// What ranks have to do, and how far they are.
pub trait Work: Send + Sync + std::fmt::Debug {
    /// The run begins.
    fn begin(&mut self, network: &mut dyn Network);
    /// A time has come.
    fn on_timer(&mut self, timer: u32, network: &mut dyn Network);
    /// A message is acknowledged to its last byte.
    fn on_done(&mut self, message: u32, network: &mut dyn Network);
    /// Ranks that have finished, in this order.
    fn finished(&self) -> &[Finished];
    /// Whether nothing is left to do, or nothing can be done.
    fn is_over(&self) -> bool;
    /// Why the work cannot go on: one line.
    fn problem(&self) -> Option<&str>;
    /// Each rank that has not finished: its host, and in a line what it waits for.
    fn waiting(&self) -> Vec<(u32, String)>;
}
