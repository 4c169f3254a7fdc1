//! What a capture of RoCEv2 traffic tells: queue pairs and their rates, marks and CNPs, gaps, NAKs and how senders recover, pauses,
//! round trips. It reads a stream in bounded memory, and nothing of what it reads makes it panic.
//!
//! Each point of capture is analyzed by itself: an interface, or both directions of a link where two are named by its ends
//! (`h0:sw0`, `sw0:h0`). A queue pair that passes several points has a row for each.
//!
//! A packet names only the queue pair that it goes to. Which one it is from is found by its answers: see [`connections`].
//!
//! Sources: those of `tailback_proto::wire`; draft-ietf-opsawg-pcapng.
//!
//! Every frame is in one class ([`report::Classes`]): read, a pause, known to be something else, or not read and why.
//!
//! Leaves out: the answers of READs (counted, not followed); unreliable and datagram services, fragments, RoCE v1 (not read).

mod analysis;
mod bins;
pub mod clock;
pub mod connections;
pub mod copies;
pub mod dissect;
pub mod pauses;
pub mod reader;
pub mod report;
pub mod requests;
mod spread;

pub use analysis::Analysis;
