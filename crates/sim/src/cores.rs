//! A CPU core: it does one piece of work after another, and shares its time between softirqs and threads.
//!
//! Source: Linux `kernel/softirq.c`: under load softirqs run in `ksoftirqd`, a thread that shares its core equally with the
//! others.
//!
//! A piece of work has an end, and takes time for one or several purposes. What it is, and when it takes
//! effect, is up to the owner of the core. Hosts that speak TCP (`host`) do a batch of work at its beginning,
//! by a clock of the batch's own. Bridges and veth pairs (`linux`) do a unit of work at its end. Neither way
//! suits both: with a unit per packet, hosts would need an event for each packet; a batch would hide what
//! bridges are measured by, namely when each packet of a poll goes on, and where an interrupt comes in
//! between.

use std::collections::VecDeque;
use tailback_proto::units::Time;

/// The purpose of a core's work, in the words of `mpstat`: %irq, %soft, %sys, %guest. The rest is %idle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Purpose {
    Irq,
    Soft,
    Sys,
    Guest,
}

/// Kinds of [`Purpose`].
pub(crate) const PURPOSES: usize = 4;

/// The share of the core that a piece of work counts against.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Share {
    /// Nobody's: a hard interrupt.
    Nobodys,
    Softirqs,
    Threads,
}

/// A core, and what it does in its owner's terms.
#[derive(Debug)]
pub(crate) struct Core<Work> {
    /// The work under way. None: the core sleeps, or is between two pieces of work.
    work: Option<Work>,
    /// The owner is choosing the next piece of work, and need not be notified of more.
    entered: bool,
    busy_until: Time,
    /// Time of the latest piece of work, by [`Purpose`].
    latest: [Time; PURPOSES],
    /// Time so far, by [`Purpose`], the piece of work under way included.
    spent: [Time; PURPOSES],
    /// The same for all purposes together.
    busy: Time,
    /// Threads that want the core.
    pub threads: VecDeque<u32>,
    /// How much more time softirqs have had than threads since both have wanted the core, picoseconds.
    lead: i64,
}

impl<Work> Default for Core<Work> {
    fn default() -> Self {
        Core {
            work: None,
            entered: false,
            busy_until: Time::ZERO,
            latest: [Time::ZERO; PURPOSES],
            spent: [Time::ZERO; PURPOSES],
            busy: Time::ZERO,
            threads: VecDeque::new(),
            lead: 0,
        }
    }
}

impl<Work: Copy> Core<Work> {
    /// The work under way. None: the core sleeps, or is between two pieces of work.
    pub fn work(&self) -> Option<Work> {
        self.work
    }

    /// True if the core is idle, so that new work begins at once.
    pub fn is_free(&self) -> bool {
        self.work.is_none() && !self.entered
    }

    /// The owner begins to choose the next piece of work.
    pub fn enter(&mut self) {
        self.entered = true;
    }

    /// The owner has chosen. Returns when the work ends, if there is any.
    pub fn leave(&mut self) -> Option<Time> {
        self.entered = false;
        self.work.is_some().then_some(self.busy_until)
    }

    /// True if softirqs come next, if some are `pending`. `shared`: threads want the core, too.
    pub fn softirqs_are_next(&mut self, pending: bool, shared: bool) -> bool {
        if !shared {
            self.lead = 0;
        }
        pending && self.lead <= 0
    }

    /// Begins a piece of work that takes the given time for each [`Purpose`].
    pub fn begin(&mut self, start: Time, work: Work, share: Share, takes: [Time; PURPOSES]) {
        debug_assert!(self.work.is_none());
        self.work = Some(work);
        let mut whole = Time::ZERO;
        for (sum, time) in self.spent.iter_mut().zip(takes) {
            *sum += time;
            whole += time;
        }
        self.busy += whole;
        self.lead += match share {
            Share::Nobodys => 0,
            Share::Softirqs => whole.0 as i64,
            Share::Threads => -(whole.0 as i64),
        };
        self.latest = takes;
        self.busy_until = start + whole;
    }

    /// The piece of work that ends now. None: this is when one that was cut short would have ended.
    pub fn end(&mut self, now: Time) -> Option<Work> {
        if self.busy_until != now {
            return None;
        }
        self.work.take()
    }

    /// Cuts the piece of a thread's work short. The thread gets the core back after the interruption.
    pub fn interrupt_thread(&mut self, now: Time, thread: u32) {
        self.lead += self.left(now).0 as i64;
        for purpose in 0..PURPOSES {
            let ahead = Time(self.ahead(purpose, now).round() as u64);
            self.spent[purpose] = self.spent[purpose] - ahead;
            self.busy = self.busy - ahead;
        }
        (self.work, self.busy_until, self.latest) = (None, now, [Time::ZERO; PURPOSES]);
        self.threads.push_front(thread);
    }

    /// Time busy up to `now`, for all purposes.
    pub fn busy(&self, now: Time) -> Time {
        self.busy - self.left(now)
    }

    /// Time spent for a purpose up to `now`.
    pub fn spent(&self, purpose: Purpose, now: Time) -> Time {
        Time(self.spent_ps(purpose, now).round() as u64)
    }

    /// The same as a share of the time up to `now`.
    pub fn share(&self, purpose: Purpose, now: Time) -> f64 {
        self.spent_ps(purpose, now) / (now.0 as f64).max(1.0)
    }

    /// The same in picoseconds. A piece of work with several purposes serves them side by side.
    fn spent_ps(&self, purpose: Purpose, now: Time) -> f64 {
        self.spent[purpose as usize].0 as f64 - self.ahead(purpose as usize, now)
    }

    /// Remaining time of the current work.
    fn left(&self, now: Time) -> Time {
        // Most of the cores that are looked at do nothing.
        if self.busy_until <= now {
            return Time::ZERO;
        }
        (self.busy_until - now).min(self.length())
    }

    fn length(&self) -> Time {
        Time(self.latest.iter().map(|time| time.0).sum())
    }

    /// Remaining work under way for one purpose, picoseconds.
    fn ahead(&self, purpose: usize, now: Time) -> f64 {
        let left = self.left(now).0 as f64 / self.length().0.max(1) as f64;
        self.latest[purpose].0 as f64 * left
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NS: fn(u64) -> Time = Time::from_ns;

    fn takes(purpose: Purpose, time: Time) -> [Time; PURPOSES] {
        let mut takes = [Time::ZERO; PURPOSES];
        takes[purpose as usize] = time;
        takes
    }

    #[test]
    fn what_is_under_way_counts_as_far_as_it_is_done() {
        let mut core = Core::default();
        core.begin(NS(100), (), Share::Softirqs, [NS(10), NS(30), NS(0), NS(0)]);
        assert_eq!(core.busy(NS(120)), NS(20));
        assert_eq!(
            [Purpose::Irq, Purpose::Soft].map(|purpose| core.spent(purpose, NS(120))),
            [NS(5), NS(15)]
        );
        assert_eq!(core.share(Purpose::Soft, NS(120)), 0.125);
        assert_eq!((core.end(NS(139)), core.end(NS(140))), (None, Some(())));
        assert_eq!(core.busy(NS(500)), NS(40));
    }

    #[test]
    fn softirqs_and_threads_that_both_want_it_have_half_each() {
        let mut core = Core::default();
        let (mut now, mut softirqs) = (Time::ZERO, Time::ZERO);
        for _ in 0..1000 {
            let (share, took) = match core.softirqs_are_next(true, true) {
                true => (Share::Softirqs, NS(70)),
                false => (Share::Threads, NS(20)),
            };
            core.begin(now, (), share, takes(Purpose::Soft, took));
            now += took;
            core.end(now);
            softirqs += if share == Share::Softirqs { took } else { Time::ZERO };
        }
        assert!(softirqs.0.abs_diff(now.0 / 2) <= NS(70).0, "{softirqs} of {now}");
        // A class that is alone on the core owes nothing afterwards.
        assert!(core.softirqs_are_next(true, false) && core.softirqs_are_next(true, true));
    }

    #[test]
    fn an_interrupted_thread_has_had_what_it_had() {
        let mut core = Core::default();
        core.begin(NS(0), 7, Share::Threads, takes(Purpose::Guest, NS(1000)));
        core.interrupt_thread(NS(300), 7);
        assert_eq!((core.spent(Purpose::Guest, NS(900)), core.busy(NS(900))), (NS(300), NS(300)));
        assert_eq!((core.is_free(), core.threads.pop_front(), core.end(NS(1000))), (true, Some(7), None));
    }
}
