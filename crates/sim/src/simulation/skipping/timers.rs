//! Transport timers in time that repeats. Their events find nothing to do, since ACKs come in time, but
//! schedule themselves again at the deadline of that moment. So they are out of step with the rest, and their
//! number is counted here.

use tailback_proto::units::Time;

use crate::event::Event;
use crate::nic::qp::QpState;
use crate::world::World;

/// When deadlines change within a period.
#[derive(Debug)]
pub(super) struct Deadlines {
    start: Time,
    length: Time,
    /// For each host: its queue pairs.
    of_host: Vec<Vec<u32>>,
    /// For each queue pair: the deadline.
    now: Vec<Time>,
    /// For each queue pair: when in the period the deadline changes, and how much later the new deadline is.
    /// `NEVER`: there is none.
    changes: Vec<Vec<(Time, Time)>>,
}

impl Deadlines {
    /// Watches deadlines from now on, for a period.
    pub fn new(world: &World, length: Time) -> Deadlines {
        let nics = &world.nics;
        let mut of_host = vec![Vec::new(); nics.nics.len()];
        for (qp, s) in nics.send_qps.iter().enumerate().filter(|(_, s)| s.state == QpState::Running) {
            of_host[s.src as usize].push(qp as u32);
        }
        let now = nics.send_qps.iter().map(|s| deadline(s.half.requester.next_timeout())).collect();
        let changes = vec![Vec::new(); nics.send_qps.len()];
        Deadlines { start: world.fabric.run.now, length, of_host, now, changes }
    }

    /// Notes the deadlines that an event has changed.
    pub fn look(&mut self, world: &World, event: Event) {
        let host = match event {
            Event::Arrival(port) => world.fabric.ports[port as usize].peer_owner,
            Event::PortWake(port) => world.fabric.ports[port as usize].owner,
            Event::PacingDue(qp) => world.nics.send_qps[qp as usize].src as u32,
            _ => return,
        };
        let at = world.fabric.run.now - self.start;
        for &qp in self.of_host.get(host as usize).into_iter().flatten() {
            let qp = qp as usize;
            let new = deadline(world.nics.send_qps[qp].half.requester.next_timeout());
            if std::mem::replace(&mut self.now[qp], new) != new {
                let later = if new == Time::NEVER { new } else { new - world.fabric.run.now };
                self.changes[qp].push((at, later));
            }
        }
    }

    /// Whether each deadline is moved before it is reached.
    pub fn are_met(&self) -> bool {
        let meets = |changes: &Vec<(Time, Time)>| {
            let first = changes.first().map_or(self.length, |(at, _)| *at + self.length);
            let next = changes.iter().skip(1).map(|(at, _)| *at).chain([first]);
            changes.iter().zip(next).all(|((at, later), next)| *later == Time::NEVER || *at + *later > next)
        };
        self.changes.iter().all(meets)
    }

    /// A queue pair's deadline at a time in any period.
    fn at(&self, qp: usize, time: Time) -> Time {
        let changes = &self.changes[qp];
        let phase = self.phase(time);
        let known = changes.partition_point(|(at, _)| *at <= phase);
        // Before the first change in a period, the last change of the period before holds.
        let (found, began) = match known.checked_sub(1) {
            Some(last) => (changes.get(last), time.0 - phase.0),
            None => (changes.last(), time.0.wrapping_sub(phase.0).wrapping_sub(self.length.0)),
        };
        match found {
            Some((at, later)) if *later != Time::NEVER => Time(began.wrapping_add(at.0 + later.0)),
            _ => Time::NEVER,
        }
    }

    fn phase(&self, time: Time) -> Time {
        Time((time - self.start).0 % self.length.0)
    }

    /// When a queue pair without a deadline next gets one after a time, and that deadline. None: never.
    fn next(&self, qp: usize, time: Time) -> Option<(Time, Time)> {
        let (phase, changes) = (self.phase(time), &self.changes[qp]);
        let is_set = |(_, later): &&(Time, Time)| *later != Time::NEVER;
        let began = time - phase;
        let found = |began: Time, (at, later): (Time, Time)| (began + at, began + at + later);
        let after = changes.iter().filter(is_set).find(|(at, _)| *at > phase).map(|set| found(began, *set));
        after.or_else(|| changes.iter().find(is_set).map(|set| found(began + self.length, *set)))
    }

    /// Follows the pending event of a queue pair's timer from `from` to before `to`. Returns when it is due
    /// then (`NEVER`: it is not pending), and how often it fired.
    pub fn fire(&self, qp: usize, due: Time, from: Time, to: Time) -> (Time, u64) {
        let (mut due, mut at, mut fired) = (due, from, 0);
        loop {
            if due == Time::NEVER {
                match self.next(qp, at) {
                    Some((set, deadline)) if set < to => due = deadline,
                    _ => return (due, fired),
                }
            } else if due >= to {
                return (due, fired);
            } else {
                fired += 1;
                at = due;
                due = self.at(qp, at);
            }
        }
    }
}

fn deadline(due: Option<Time>) -> Time {
    due.unwrap_or(Time::NEVER)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A deadline of 100 is set 2 after the start of each period of 10. In the second case it is also taken
    /// back at 5.
    #[test]
    fn timers_fire_at_the_deadline_that_they_find() {
        let deadlines = |changes| Deadlines {
            start: Time(1000),
            length: Time(10),
            of_host: vec![],
            now: vec![],
            changes: vec![changes],
        };
        let lasting = deadlines(vec![(Time(2), Time(100))]);
        // At 1061 the deadline set at 1052 holds, at 1152 the one set at 1152, and at 1252 likewise.
        assert_eq!(lasting.fire(0, Time(1061), Time(1020), Time(1300)), (Time(1352), 3));
        assert_eq!(lasting.fire(0, Time(1300), Time(1020), Time(1300)), (Time(1300), 0));
        let taken_back = deadlines(vec![(Time(2), Time(100)), (Time(5), Time::NEVER)]);
        // At 1066 there is none, and the next is set at 1072.
        assert_eq!(taken_back.fire(0, Time(1066), Time(1020), Time(1180)), (Time(1272), 2));
        assert_eq!(taken_back.fire(0, Time(1066), Time(1020), Time(1072)), (Time::NEVER, 1));
        assert!(lasting.are_met() && taken_back.are_met());
        assert!(!deadlines(vec![(Time(2), Time(10))]).are_met());
        assert!(deadlines(vec![(Time(2), Time(4)), (Time(5), Time::NEVER)]).are_met());
        // A queue pair that is done.
        assert_eq!(deadlines(vec![]).fire(0, Time(1066), Time(1020), Time(1180)), (Time::NEVER, 1));
    }
}
