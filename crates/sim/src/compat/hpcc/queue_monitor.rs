//! The queue-length file: how often each port of each switch was found with how many bytes waiting.

use super::plan::{HpccPlan, QueueMonitor};
use super::port::LANES;
use super::world::{Event, World};

/// Between two samples, in ns.
const INTERVAL_NS: u64 = 100;
/// The counts are written where this divides the time, in ns.
const DUMP_NS: u64 = 100_000_000;
/// Width of a count, in bytes.
const BIN_BYTES: u32 = 1000;

/// Samples of all ports of switches.
#[derive(Debug, Default)]
pub(super) struct QueueLengths {
    start_ns: u64,
    end_ns: u64,
    /// The last instant that writes the counts; samples after it leave no trace.
    last_ns: Option<u64>,
    /// Ports of switches: node, number, place.
    ports: Vec<(u32, u16, usize)>,
    counts: Vec<Vec<u32>>,
    /// Priorities that flows have. Queue 0 does not count.
    priorities: Vec<usize>,
    /// The file so far.
    pub text: String,
}

impl QueueLengths {
    pub fn new(plan: &HpccPlan) -> Self {
        let Some(QueueMonitor(start_ns, end_ns)) = plan.queue_monitor else {
            return QueueLengths::default();
        };
        // Samples go on until one is not before the end.
        let samples = end_ns.saturating_sub(start_ns).div_ceil(INTERVAL_NS);
        let last = start_ns.saturating_add(samples.saturating_mul(INTERVAL_NS)).min(plan.stop_ns);
        let last = last / DUMP_NS * DUMP_NS;
        let writes = start_ns <= last && (last - start_ns).is_multiple_of(INTERVAL_NS);
        let mut priorities: Vec<usize> = plan.flows.iter().map(|flow| flow.2 as usize).collect();
        priorities.sort_unstable();
        priorities.dedup();
        priorities.retain(|&priority| priority != 0);
        QueueLengths { start_ns, end_ns, last_ns: writes.then_some(last), priorities, ..Self::default() }
    }
}

impl World {
    /// The first sample, if any will be written.
    pub fn begin_queue_monitor(&mut self) {
        if self.queue_lengths.last_ns.is_none() {
            return;
        }
        let ports = self.ports.iter().enumerate().filter(|(_, port)| port.is_switch);
        self.queue_lengths.ports = ports.map(|(at, port)| (port.node, port.number, at)).collect();
        self.queue_lengths.ports.sort_unstable();
        self.queue_lengths.counts = vec![Vec::new(); self.queue_lengths.ports.len()];
        self.schedule(self.queue_lengths.start_ns.saturating_mul(1000), Event::QueueSample, 0);
    }

    /// Counts what waits now as this number of samples.
    fn count(&mut self, samples: u32) {
        let all = &mut self.queue_lengths;
        for (&(_, _, port), counts) in all.ports.iter().zip(&mut all.counts) {
            let waiting = |&priority: &usize| self.lanes[port * LANES + priority].egress;
            let bin = (all.priorities.iter().map(waiting).fold(0, u32::wrapping_add) / BIN_BYTES) as usize;
            if counts.len() <= bin {
                counts.resize(bin + 1, 0);
            }
            counts[bin] += samples;
        }
    }

    /// A sample. `bookkeeping` is how many events there are that change no queue.
    pub fn on_queue_sample(&mut self, bookkeeping: usize) {
        let now = self.now / 1000;
        self.count(1);
        let all = &mut self.queue_lengths;
        let goes_on = now < all.end_ns && all.last_ns.is_some_and(|last| now < last);
        if now.is_multiple_of(DUMP_NS) {
            all.text += &format!("time: {now}\n");
            for (&(node, number, _), counts) in all.ports.iter().zip(&all.counts) {
                all.text += &format!("{node} {number}");
                for count in counts {
                    all.text += &format!(" {count}");
                }
                all.text.push('\n');
            }
        }
        if !goes_on {
            return;
        }
        let mut next = now + INTERVAL_NS;
        if self.events.len() <= bookkeeping {
            // Nothing happens until the next instant that writes: the samples until then are like this one.
            next = (now / DUMP_NS + 1) * DUMP_NS;
            self.count(((next - now) / INTERVAL_NS - 1) as u32);
        }
        self.schedule(next * 1000, Event::QueueSample, 0);
    }
}
