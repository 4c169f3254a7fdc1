//! Shared by the declarations of all settings: refusals, the longest times, and when traffic begins and ends.

use std::ops::RangeInclusive;
use tailback_proto::parameters::{Declared, Refused};
use tailback_proto::units::Time;

/// Why a plan cannot run: one line.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum PlanError {
    /// Not JSON, or not this structure.
    #[error("the plan is not readable: {0}")]
    Format(String),
    /// Something in it is impossible.
    #[error("{place}: {problem}")]
    Impossible {
        /// Where in the plan.
        place: String,
        /// The problem, and the expected value.
        problem: String,
    },
}

/// Refuses settings outside of their bounds.
pub(crate) fn in_bounds<D: Declared>(place: &str, section: &D) -> Result<(), PlanError> {
    section.check().map_err(|Refused { field, expected }| {
        impossible(format!("{place}.{field}"), format!("expected {expected}"))
    })
}

pub(crate) fn impossible(place: impl Into<String>, problem: impl Into<String>) -> PlanError {
    PlanError::Impossible { place: place.into(), problem: problem.into() }
}

/// Ten hours: half of what the event queue can schedule.
pub(crate) const LONGEST_TIME: Time = Time::from_ms(36_000_000);
/// When something begins, or how much later.
pub(crate) const INSTANTS: RangeInclusive<Time> = Time(0)..=LONGEST_TIME;
/// When something ends, or how long it takes.
pub(crate) const ENDS: RangeInclusive<Time> = Time(1)..=LONGEST_TIME;

/// Declares a kind of traffic: its own settings, and after them when it begins and ends. `spread`: there may be many, each
/// of which draws a start of its own.
macro_rules! traffic {
    (spread $($own:tt)*) => {
        $crate::declare::traffic! {
            @timed $($own)* {
                /// Each pair of hosts of writers, and each TCP connection, also draws a delay of its own, uniformly from 0 to this.
                start_spread: Time = Time::ZERO, in INSTANTS, source "assumption: none";
            }
        }
    };
    (
        @timed $(#[doc = $about:literal])+ pub struct $Name:ident { $($own:tt)* } worked out { $($other:tt)* } { $($spread:tt)* }
    ) => {
        tailback_proto::parameters! {
            $(#[doc = $about])+
            pub struct $Name {
                $($own)*
                /// When it begins, at the earliest.
                start: Time = Time::ZERO, in INSTANTS, source "assumption: at once";
                $($spread)*
                /// When it ends, and nothing more is posted or written; null: with the run.
                stop: Option<Time> = None, in ENDS, source "assumption: never";
            }
            worked out {
                /// Its traffic item.
                item: String;
                $($other)*
            }
        }
    };
    ($($own:tt)*) => { $crate::declare::traffic! { @timed $($own)* {} } };
}
pub(crate) use traffic;
