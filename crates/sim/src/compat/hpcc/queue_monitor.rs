//! The queue-length file: how often each port of each switch was found with how many bytes waiting.

use super::calendar::Place;
use super::plan::{HpccPlan, QueueMonitor};
use super::port::LANES;
use super::world::World;

/// Between two samples, in ns.
const INTERVAL_NS: u64 = 100;
/// The counts are written where this divides the time, in ns.
const DUMP_NS: u64 = 100_000_000;
/// Width of a count, in bytes.
const BIN_BYTES: u32 = 1000;

/// After all that happens.
const NEVER: Place = Place::LAST;

/// Samples of all ports of switches.
#[derive(Debug, Default)]
pub(super) struct QueueLengths {
    start_ns: u64,
    /// The last instant that writes the counts, and the first that is not before the end: samples after either leave no trace.
    last_ns: Option<u64>,
    until_ns: u64,
    /// The next instant that writes them.
    dump_ns: u64,
    /// Ports of switches: node, number, place.
    ports: Vec<(u32, u16, usize)>,
    /// The next sample, in ps; none: at the end of time. It is no event: what the next one finds is as it was.
    pub next: Place,
    /// Samples so far.
    samples: u32,
    /// By port: up to which of them it is counted. What waits there has not changed since.
    counted: Vec<u32>,
    /// By port: how many samples found that many bytes, from [`BIN_BYTES`] on. All others found fewer.
    counts: Vec<Vec<u32>>,
    /// Priorities that flows have. Queue 0 does not count.
    priorities: Vec<usize>,
    /// The file so far.
    pub text: String,
}

impl QueueLengths {
    pub fn new(plan: &HpccPlan) -> Self {
        let Some(QueueMonitor(start_ns, end_ns)) = plan.queue_monitor else {
            return QueueLengths { next: NEVER, ..Self::default() };
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
        QueueLengths {
            start_ns,
            last_ns: writes.then_some(last),
            until_ns: last.min(end_ns),
            dump_ns: start_ns.div_ceil(DUMP_NS).saturating_mul(DUMP_NS),
            priorities,
            next: NEVER,
            ..Self::default()
        }
    }

    /// Whether there is another sample to come.
    pub fn goes_on(&self) -> bool {
        self.next != NEVER
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
        self.queue_lengths.counts = vec![Vec::new(); self.ports.len()];
        self.queue_lengths.counted = vec![0; self.ports.len()];
        self.sample_next(self.queue_lengths.start_ns.saturating_mul(1000));
    }

    /// Samples queues at a time, unless it lies past the end of the run.
    fn sample_next(&mut self, at: u64) {
        self.queue_lengths.next = if at <= self.stop { self.events.reserve(at) } else { NEVER };
    }

    /// The queue at a switch's port is about to change: all samples since its last change found it as it is now.
    #[inline]
    pub fn count_samples(&mut self, port: usize) {
        let counted = self.queue_lengths.counted.get(port);
        if counted.is_some_and(|&counted| counted != self.queue_lengths.samples) {
            self.count(port);
        }
    }

    #[inline(never)]
    fn count(&mut self, port: usize) {
        let all = &mut self.queue_lengths;
        let samples = all.samples - std::mem::replace(&mut all.counted[port], all.samples);
        let waiting = |&priority: &usize| self.lanes[port * LANES + priority].egress;
        let bin = (all.priorities.iter().map(waiting).fold(0, u32::wrapping_add) / BIN_BYTES) as usize;
        let counts = &mut all.counts[port];
        if counts.len() < bin {
            counts.resize(bin, 0);
        }
        if bin > 0 {
            counts[bin - 1] += samples;
        }
    }

    /// All samples before the event that was taken now. `bookkeeping` is how many events there are that change no queue.
    #[inline(never)]
    pub fn sample_queues(&mut self, bookkeeping: usize) {
        while self.events.is_past(self.queue_lengths.next) {
            self.sample(bookkeeping);
        }
    }

    fn sample(&mut self, bookkeeping: usize) {
        let now = self.queue_lengths.next.time / 1000;
        self.queue_lengths.samples += 1;
        if now == self.queue_lengths.dump_ns {
            self.write_lengths(now);
            self.queue_lengths.dump_ns += DUMP_NS;
        }
        let all = &mut self.queue_lengths;
        if now >= all.until_ns {
            all.next = NEVER;
            return;
        }
        let mut next = now + INTERVAL_NS;
        // The one that was taken is to come, too.
        if self.events.len() < bookkeeping {
            // Nothing happens until the next instant that writes: the samples until then are like this one.
            next = all.dump_ns;
            all.samples += ((next - now) / INTERVAL_NS - 1) as u32;
        }
        self.sample_next(next * 1000);
    }

    fn write_lengths(&mut self, now: u64) {
        for at in 0..self.queue_lengths.ports.len() {
            self.count_samples(self.queue_lengths.ports[at].2);
        }
        let all = &mut self.queue_lengths;
        all.text += &format!("time: {now}\n");
        for &(node, number, port) in &all.ports {
            let counts = &all.counts[port];
            let others = all.samples - counts.iter().sum::<u32>();
            all.text += &format!("{node} {number} {others}");
            for count in counts {
                all.text += &format!(" {count}");
            }
            all.text.push('\n');
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::plan::{Flow, Link, LinkDown};
    use super::super::routing::tests::network;
    use super::super::HpccSimulation;
    use super::*;

    /// Counts that are kept by change are those that each sample finds: five senders, two priorities, marks, and a link that
    /// goes down and leaves its queues counted.
    #[test]
    fn every_sample_counts() {
        const HOSTS: u32 = 6;
        let links = (0..HOSTS).map(|host| Link(host, HOSTS, 100_000_000_000, 1000, 0.0));
        let mut plan = network(HOSTS + 1, vec![HOSTS], links.collect());
        plan.stop_ns = 1_000_000_000;
        plan.flows = (1..HOSTS)
            .map(|host| Flow(host, 0, 1 + host % 2, 100, 50_000 * host as u64, 99_960_000))
            .collect();
        plan.queue_monitor = Some(QueueMonitor(99_961_000, 100_000_000));
        for down in [None, Some(LinkDown(99_970_000, 0, HOSTS))] {
            plan.link_down = down;
            let mut simulation = HpccSimulation::new(&plan).expect("it is possible");
            let mut found = vec![vec![0; 1]; HOSTS as usize];
            let mut samples = 0;
            loop {
                // Samples between two events find what was there before the second.
                let world = &simulation.world;
                let waiting = |port: usize| {
                    let of = |priority: usize| world.lanes[port * LANES + priority].egress;
                    of(1) + of(2)
                };
                let ports = world.queue_lengths.ports.iter();
                let before: Vec<(u16, u32)> =
                    ports.map(|&(_, number, port)| (number, waiting(port))).collect();
                let done = simulation.advance(1).done;
                let more = simulation.world.queue_lengths.samples - samples;
                samples += more;
                for (number, bytes) in before.into_iter().filter(|_| more > 0) {
                    let bin = (bytes / BIN_BYTES) as usize;
                    let counts = &mut found[number as usize - 1];
                    counts.resize(counts.len().max(bin + 1), 0);
                    counts[bin] += more;
                }
                if done {
                    break;
                }
            }
            assert_eq!(samples, 391);
            let lines = found.iter().enumerate().map(|(port, counts)| {
                let words: Vec<String> = counts.iter().map(u32::to_string).collect();
                format!("{HOSTS} {} {}\n", port + 1, words.join(" "))
            });
            let expected = format!("time: 100000000\n{}", lines.collect::<String>());
            assert!(found[0].len() > 100, "no queue to speak of: {expected}");
            assert_eq!(simulation.finish().qlen, expected);
        }
    }
}
