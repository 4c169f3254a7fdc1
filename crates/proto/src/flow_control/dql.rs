//! Dynamic queue limits: how much a driver lets into its ring, as BQL uses it.
//!
//! Source: Linux lib/dynamic_queue_limits.c, include/linux/dynamic_queue_limits.h. The limit grows when the queue was
//! starved: it was stopped at the limit and then ran empty before the completion was told. It shrinks by the least slack
//! that was seen over a hold time. What is counted (bytes, or packets) is the caller's choice.
//!
//! Leaves out: jiffies (the hold time is exact here) and the detection of stalls.

use crate::units::Time;

/// Most that can be queued at once: `DQL_MAX_OBJECT`.
const MAX_OBJECT: u32 = u32::MAX / 16;
/// Greatest limit: `DQL_MAX_LIMIT`.
pub const MAX_LIMIT: u32 = u32::MAX / 2 - MAX_OBJECT;
/// How long the least slack is looked for: 1 s (net/core/dev.c, `netdev_init_one_queue`: HZ).
pub const HOLD_TIME: Time = Time::from_ms(1000);

/// Parameters: the files limit_min, limit_max and hold_time of /sys/class/net/DEV/queues/tx-N/byte_queue_limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DqlParameters {
    /// The limit is not below this.
    pub min_limit: u32,
    /// Nor above this, which is at most `MAX_LIMIT`.
    pub max_limit: u32,
    /// How long the least slack is looked for.
    pub hold_time: Time,
}

impl Default for DqlParameters {
    fn default() -> Self {
        DqlParameters { min_limit: 0, max_limit: MAX_LIMIT, hold_time: HOLD_TIME }
    }
}

/// State. Counts wrap, as the kernel's do.
#[derive(Clone, Debug)]
pub struct Dql {
    parameters: DqlParameters,
    limit: u32,
    num_queued: u32,
    num_completed: u32,
    /// What was queued last.
    last_object: u32,
    /// At the completion before: what had been queued, by how much that was above the limit, and what was queued last.
    prev_num_queued: u32,
    prev_over_limit: u32,
    prev_last_object: u32,
    lowest_slack: u32,
    slack_start: Time,
}

/// `a - b`, or 0 where that is below 0 as a difference of counts that wrap.
fn positive(a: u32, b: u32) -> u32 {
    let difference = a.wrapping_sub(b);
    if difference as i32 > 0 {
        difference
    } else {
        0
    }
}

impl Dql {
    /// Nothing queued, and a limit of 0: the first that is queued is over it.
    pub fn new(parameters: DqlParameters, now: Time) -> Self {
        Dql {
            parameters,
            limit: 0,
            num_queued: 0,
            num_completed: 0,
            last_object: 0,
            prev_num_queued: 0,
            prev_over_limit: 0,
            prev_last_object: 0,
            lowest_slack: u32::MAX,
            slack_start: now,
        }
    }

    /// The limit.
    pub fn limit(&self) -> u32 {
        self.limit
    }

    /// Queued and not completed (`inflight`).
    pub fn in_flight(&self) -> u32 {
        self.num_queued.wrapping_sub(self.num_completed)
    }

    /// What may still be queued; the queue is stopped while this is below 0.
    pub fn available(&self) -> i64 {
        self.limit as i64 - self.in_flight() as i64
    }

    /// `count` was queued. The queue must be stopped if `available` is now below 0.
    pub fn queued(&mut self, count: u32) {
        debug_assert!(count <= MAX_OBJECT);
        self.last_object = count;
        self.num_queued = self.num_queued.wrapping_add(count);
    }

    /// `count` was completed; the queue may go on if `available` is not below 0 now. A count of 0 is no completion (the
    /// driver's `netdev_tx_completed_queue` returns at once).
    ///
    /// # Panics
    /// More was completed than was queued.
    pub fn completed(&mut self, count: u32, now: Time) {
        assert!(count <= self.in_flight(), "{count} completed of {}", self.in_flight());
        if count == 0 {
            return;
        }
        let completed = self.num_completed.wrapping_add(count);
        let over_limit = positive(self.in_flight(), self.limit);
        let left = self.num_queued.wrapping_sub(completed);
        let beyond = positive(completed, self.prev_num_queued);

        // All that was queued at the completion before is done (`AFTER_EQ`: also when nothing was queued since).
        let all_of_then = completed.wrapping_sub(self.prev_num_queued) as i32 >= 0;

        let mut limit = self.limit;
        if (over_limit > 0 && left == 0) || (self.prev_over_limit > 0 && all_of_then) {
            limit = limit.wrapping_add(beyond).wrapping_add(self.prev_over_limit);
            self.restart(now);
        } else if left > 0 && !all_of_then {
            // Busy throughout: now, and at the completion before, since all that is completed now was there then.
            let slack = positive(limit.wrapping_add(self.prev_over_limit), count.wrapping_mul(2));
            let of_last_object = match self.prev_over_limit {
                0 => 0,
                over => positive(self.prev_last_object, over),
            };
            self.lowest_slack = self.lowest_slack.min(slack.max(of_last_object));
            if now.saturating_sub(self.slack_start) > self.parameters.hold_time {
                limit = positive(limit, self.lowest_slack);
                self.restart(now);
            }
        }
        limit = limit.clamp(self.parameters.min_limit, self.parameters.max_limit);
        self.prev_over_limit = if limit == self.limit { over_limit } else { 0 };
        self.limit = limit;
        self.prev_last_object = self.last_object;
        self.num_completed = completed;
        self.prev_num_queued = self.num_queued;
    }

    fn restart(&mut self, now: Time) {
        self.slack_start = now;
        self.lowest_slack = u32::MAX;
    }
}
