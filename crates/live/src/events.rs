//! What happens to single packets of a queue pair: dropped, marked, damaged, delayed or overtaken, by their number or PSN. So
//! experiments with losses that are chosen are run, in the manner of Lumina (Yu et al., NSDI 2023), which has a programmable
//! switch for it.

use serde::{Deserialize, Serialize};
use tailback_proto::units::Time;

/// What to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Action {
    /// It is gone.
    Drop,
    /// Its ECN field says CE.
    Mark,
    /// A bit of its payload changes, and its ICRC is wrong.
    Corrupt,
    /// It leaves later.
    Delay,
    /// Others of its queue pair leave before it.
    Reorder,
}

/// To which packet, once.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EventSettings {
    /// What to do.
    pub action: Action,
    /// Direction: 0 is from the first interface to the second. None: either.
    pub direction: Option<usize>,
    /// Destination queue pair; none: any.
    pub qp: Option<u32>,
    /// Number of the request among those of its queue pair, from 1.
    pub nth: Option<u64>,
    /// PSN of the request, at its first coming.
    pub psn: Option<u32>,
    /// How long it is delayed.
    pub delay_ps: u64,
    /// How many packets overtake it.
    pub packets: u32,
}

/// An event that happened.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Happened {
    /// When, picoseconds since the begin.
    pub at_ps: u64,
    /// Number of the event in its file.
    pub event: usize,
    /// Direction.
    pub direction: usize,
    /// Queue pair.
    pub qp: u32,
    /// PSN.
    pub psn: u32,
}

/// Events of a direction that are still to come, and how many requests of each queue pair passed.
#[derive(Debug, Default)]
pub struct Events {
    direction: usize,
    waiting: Vec<(usize, EventSettings)>,
    passed: std::collections::BTreeMap<u32, u64>,
    /// What happened.
    pub happened: Vec<Happened>,
}

/// Most queue pairs whose requests are numbered.
const MAX_QPS: usize = 65_536;

impl Events {
    /// Of one direction.
    pub fn new(direction: usize, all: &[EventSettings]) -> Events {
        let own = all.iter().cloned().enumerate();
        let waiting = own.filter(|(_, event)| event.direction.is_none_or(|of| of == direction)).collect();
        Events { direction, waiting, ..Events::default() }
    }

    /// A request passes: what is to happen to it.
    pub fn on_request(&mut self, now: Time, qp: u32, psn: u32) -> Option<EventSettings> {
        if self.waiting.is_empty() {
            return None;
        }
        if self.passed.len() < MAX_QPS || self.passed.contains_key(&qp) {
            *self.passed.entry(qp).or_insert(0) += 1;
        }
        let number = self.passed.get(&qp).copied()?;
        let fits = |event: &EventSettings| {
            event.qp.is_none_or(|of| of == qp)
                && event.nth.is_none_or(|nth| nth == number)
                && event.psn.is_none_or(|of| of == psn)
        };
        let at = self.waiting.iter().position(|(_, event)| fits(event))?;
        let (event, settings) = self.waiting.remove(at);
        self.happened.push(Happened { at_ps: now.ps(), event, direction: self.direction, qp, psn });
        Some(settings)
    }
}
