//! Engines that behave as another simulator does, habits included, so that its users can compare like with like.

pub mod astra;
mod chain;
mod history;
pub mod hpcc;
pub mod matching;
pub mod simai;
mod timers;
