//! Events of single packets of a queue pair: dropped, marked, damaged, delayed or overtaken, by their number or PSN. So
//! experiments with losses that are chosen are run, in the manner of Lumina (Yu et al., NSDI 2023), which has a programmable
//! switch for it.

use serde::{Deserialize, Serialize};
use tailback_proto::units::Time;

/// The action.
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
    /// The action.
    pub action: Action,
    /// Direction: 0 is from the first interface to the second. None: either.
    pub direction: Option<usize>,
    /// Destination queue pair; none: any.
    pub qp: Option<u32>,
    /// Number of the request among the new ones of its queue pair, from 1: what comes again has none.
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

/// New requests of a queue pair that passed.
#[derive(Clone, Copy, Debug)]
struct Passed {
    number: u64,
    newest: u32,
}

/// Events of a direction that are still to come, and how many requests of each queue pair passed.
#[derive(Debug, Default)]
pub struct Events {
    direction: usize,
    waiting: Vec<(usize, EventSettings)>,
    passed: std::collections::BTreeMap<u32, Passed>,
    /// Events so far.
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
        let number = self.number(qp, psn);
        let fits = |event: &EventSettings| {
            event.qp.is_none_or(|of| of == qp)
                && event.nth.is_none_or(|nth| number == Some(nth))
                && event.psn.is_none_or(|of| of == psn)
        };
        let at = self.waiting.iter().position(|(_, event)| fits(event))?;
        let (event, settings) = self.waiting.remove(at);
        self.happened.push(Happened { at_ps: now.ps(), event, direction: self.direction, qp, psn });
        Some(settings)
    }

    /// Of a request, if it is a new one: PSNs are 24 bits, and half of them are ahead (InfiniBand, section 9.7.2).
    fn number(&mut self, qp: u32, psn: u32) -> Option<u64> {
        if self.passed.len() >= MAX_QPS && !self.passed.contains_key(&qp) {
            return None;
        }
        let first = Passed { number: 0, newest: psn.wrapping_sub(1) };
        let passed = self.passed.entry(qp).or_insert(first);
        let ahead = psn.wrapping_sub(passed.newest) & 0xff_ffff;
        if ahead == 0 || ahead >= 1 << 23 {
            return None;
        }
        *passed = Passed { number: passed.number + 1, newest: psn };
        Some(passed.number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_comes_again_is_not_counted() {
        let event = |nth| EventSettings {
            action: Action::Drop,
            direction: None,
            qp: None,
            nth: Some(nth),
            psn: None,
            delay_ps: 0,
            packets: 1,
        };
        let mut events = Events::new(0, &[event(3), event(4)]);
        // The second is lost elsewhere, and comes again with the third.
        let psns = [0xff_fffe, 0, 0xff_ffff, 0, 1, 2];
        let hit: Vec<u32> =
            psns.into_iter().filter(|&psn| events.on_request(Time::ZERO, 7, psn).is_some()).collect();
        assert_eq!(hit, [1, 2]);
    }
}
