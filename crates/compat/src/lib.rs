//! Engines that behave as another simulator does, habits included, so that its users can compare like with like.

pub mod astra;
pub mod history;
pub mod hpcc;
pub mod simai;

#[cfg(test)]
extern crate self as tailback_compat;
