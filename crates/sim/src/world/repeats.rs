//! Whether a world is as it was some time ago: see `tailback_proto::repeats`.

use tailback_proto::repeats::Walk;

use crate::event::Event;
use crate::fabric::CLASSES;
use crate::world::World;

impl World {
    /// Hands out its state, except for streams of random numbers. `used`: the classes that have packets.
    ///
    /// Left out of what is pending: times of the plan and of the recorder, and transport timers. While ACKs come in time a timer
    /// finds nothing to do but to set itself anew.
    pub fn walk(&mut self, used: &[bool; CLASSES], by: &mut impl Walk) {
        let World {
            fabric,
            deadlocks: _, // it looks at pauses
            link_changes: _,
            nics,
            agents,
            tcp: _,   // nothing is skipped with it
            linux: _, // nor with it
        } = self;
        if !agents.is_empty() {
            by.unlike();
        }
        nics.walk(by);
        if by.is_over() {
            return;
        }
        let una: Vec<u64> = nics.send_qps.iter().map(|s| s.half.requester.acknowledged()).collect();
        fabric.walk(&una, used, by);
        if by.is_over() {
            return;
        }
        let mut pending: Vec<_> = (fabric.run.events.pending())
            .filter(|(_, code)| {
                let event = Event::decode(*code);
                !(event.is_of_plan() || matches!(event, Event::Sample | Event::TransportTimer(_)))
            })
            .map(|(place, code)| (place.time(), code))
            .collect();
        pending.sort_unstable();
        for (mut time, code) in pending {
            if matches!(Event::decode(code), Event::ProbeAnswer(_) | Event::DelayedNak(_)) {
                by.unlike();
            }
            by.at(&mut time);
            by.state(code as u64);
        }
    }
}
