//! Judges whether the observed windows are steady, how fast everything goes then, and how certain that is.
//!
//! Source: the method of batch means (Law and Kelton, "Simulation Modeling and Analysis", section 9.5): the
//! latter half of a run is cut into batches, and the spread of their means gives the confidence interval of
//! the whole. Queue pairs to the same receiver count as members of one population as far as their batches
//! cannot tell them apart (Efron and Morris, "Stein's estimation rule and its competitors", 1973).

use std::collections::BTreeMap;
use tailback_proto::units::Time;

use super::observed::{Observed, Window};
use crate::world::World;

/// Batches of a sample.
const BATCHES: usize = 8;
/// Student's t for 95 % on both sides and 7 degrees of freedom.
const T_OF_BATCHES: f64 = 2.365;
/// Windows to wait for: the latter half of them is the sample.
pub(super) const FEWEST_WINDOWS: usize = 16;
/// Errors of queues and of signals may be larger than those of goodput by these factors.
const QUEUES: f64 = 2.0;
const SIGNALS: f64 = 20.0;
/// The smallest error that is stated. Assumption, from measurements: what a sample does not see, such as a
/// rare pause, moved the goodput of runs by up to 0.07 % where their batches suggested 0.0001 %.
const LEAST_STATED: f64 = 1e-3;
/// A receiver with a smaller share of all packets than this says nothing about the run.
const SMALL_SHARE: f64 = 0.01;
/// A queue shorter than this, in bytes, counts as empty: it is one packet of the largest MTU. Errors of
/// queues shorter than four such packets are relative to four packets.
const SHORT_QUEUE: f64 = 4096.0;
const SMALL_QUEUE: f64 = 4.0 * SHORT_QUEUE;

/// What a steady run does from now on.
#[derive(Debug)]
pub(super) struct Estimate {
    /// The windows of the sample, merged.
    pub sample: Window,
    /// For each queue pair: packets per picosecond, and their relative error (half of a 95 % confidence
    /// interval).
    pub rates: Vec<(f64, f64)>,
    /// Relative errors: the largest of the receivers that matter, the largest of the queues that matter, and
    /// in `qp_error` the root mean square of the queue pairs.
    pub goodput_error: f64,
    pub queue_error: f64,
    /// The larger of the relative errors of CNPs and of marks.
    pub signal_error: f64,
    /// CNPs and marks of the whole run, per picosecond.
    pub of_signals: [f64; 2],
    pub qp_error: f64,
    /// Whether nothing is marked and no controller hears ACKs.
    pub is_calm: bool,
    /// For each receiver that matters: packets per picosecond, and their standard deviation from batch to
    /// batch.
    pub of_receivers: Vec<(usize, f64, f64)>,
    /// For each column of a queue that matters: its mean length in bytes, and the standard deviation from
    /// batch to batch.
    pub of_queues: Vec<(usize, f64, f64)>,
}

/// The mean of batches, half of its confidence interval, and the standard deviation of the batches.
fn of_batches(batches: &[f64]) -> (f64, f64, f64) {
    let count = batches.len() as f64;
    let mean = batches.iter().sum::<f64>() / count;
    let variance = batches.iter().map(|batch| (batch - mean).powi(2)).sum::<f64>() / (count - 1.0);
    (mean, T_OF_BATCHES * (variance / count).sqrt(), variance.sqrt())
}

/// How far the latter half of batches is above the former.
fn drift(batches: &[f64]) -> f64 {
    let (former, latter) = batches.split_at(batches.len() / 2);
    mean(latter) - mean(former)
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// A quantity that was measured in batches.
struct Quantity {
    mean: f64,
    deviation: f64,
    /// Half of the confidence interval of the mean, or half of the observed change, whichever is larger;
    /// relative.
    error: f64,
}

/// A quantity, if its mean is known to the relative `error` and is the same as before the sample. Errors of a
/// mean below `least` are relative to `least`.
fn steady(batches: &[f64], least: f64, error: f64) -> Option<Quantity> {
    let (before, sample) = batches.split_at(batches.len() - BATCHES);
    let (found, half, deviation) = of_batches(sample);
    let changes = (found - mean(before)).abs().max(drift(sample).abs());
    let of = found.max(least);
    (half <= error * of && changes <= 2.0 * error * of).then(|| Quantity {
        mean: found,
        deviation,
        error: half.max(changes / 2.0) / of,
    })
}

/// Cuts what was seen into batches of equally many windows. The latter half of the windows is the sample, and
/// half as many batches precede it. None: too few windows.
fn batches(observed: &Observed) -> Option<Vec<Window>> {
    let seen = &observed.windows;
    let each = seen.len() / 2 / BATCHES;
    let windows = each * (BATCHES + BATCHES / 2);
    (seen.len() >= FEWEST_WINDOWS).then(|| {
        seen[seen.len() - windows..].chunks(each).map(|windows| observed.together(windows)).collect()
    })
}

/// What to expect from now on, if what was seen is steady. `queues` are the columns with the mean lengths of
/// egress queues. `error` is the largest error of goodput that may be stated; see [`QUEUES`] and [`SIGNALS`]
/// for the others.
pub(super) fn judge(observed: &Observed, world: &World, queues: &[usize], error: f64) -> Option<Estimate> {
    let batches = batches(observed)?;
    if batches.iter().any(|batch| batch.counts.disturbances() > 0) {
        return None;
    }
    let in_sample = &batches[BATCHES / 2..];
    let sample = observed.together(in_sample);
    let qps = world.nics.send_qps.len();
    // Packets per picosecond of a queue pair in a batch.
    let rate = |batch: &Window, qp| batch.counts.of_qp(qp).packets as f64 / batch.span.0 as f64;
    let mut receivers: BTreeMap<u16, Vec<f64>> = BTreeMap::new();
    let mut populations: BTreeMap<(u16, u8, u8), Vec<usize>> = BTreeMap::new();
    let mut signals = [vec![0.0; batches.len()], vec![0.0; batches.len()]];
    for (qp, s) in world.nics.send_qps.iter().enumerate() {
        if sample.counts.of_qp(qp).packets == 0 {
            continue;
        }
        let of_receiver = receivers.entry(s.dst).or_insert_with(|| vec![0.0; batches.len()]);
        for (at, batch) in batches.iter().enumerate() {
            let span = batch.span.0 as f64;
            let counts = batch.counts.of_qp(qp);
            of_receiver[at] += rate(batch, qp);
            signals[0][at] += counts.cnps as f64 / span;
            signals[1][at] += counts.marks as f64 / span;
        }
        populations.entry((s.dst, s.class, s.congestion)).or_default().push(qp);
    }
    let whole: f64 = receivers.values().map(|batches| mean(batches)).sum();
    let (mut goodput_error, mut of_receivers) = (0.0f64, Vec::new());
    for (receiver, batches) in receivers {
        if mean(&batches) > SMALL_SHARE * whole {
            let goodput = steady(&batches, 0.0, error)?;
            goodput_error = goodput_error.max(goodput.error);
            of_receivers.push((receiver as usize, goodput.mean, goodput.deviation));
        }
    }
    let mut signal_error = 0.0f64;
    let of_signals = [0, 1].map(|which| mean(&signals[which][BATCHES / 2..]));
    for of_signal in signals.iter().filter(|batches| batches.iter().any(|signals| *signals > 0.0)) {
        signal_error = signal_error.max(steady(of_signal, 0.0, SIGNALS * error)?.error);
    }
    let (mut queue_error, mut of_queues) = (0.0f64, Vec::new());
    for &column in queues.iter().filter(|&&column| sample.gauges[column] > SHORT_QUEUE) {
        let lengths: Vec<f64> = batches.iter().map(|batch| batch.gauges[column]).collect();
        let length = steady(&lengths, SMALL_QUEUE, QUEUES * error)?;
        queue_error = queue_error.max(length.error);
        of_queues.push((column, length.mean, length.deviation));
    }
    let mut rates = vec![(0.0, 0.0); qps];
    for members in populations.values() {
        let rates_of = |&qp: &usize| -> Vec<f64> { in_sample.iter().map(|batch| rate(batch, qp)).collect() };
        estimate(members, rates_of, &mut rates);
    }
    let hears_acks = world.nics.send_qps.iter().any(|s| s.half.uses.acks);
    let is_calm = !hears_acks && signals.iter().flatten().all(|signals| *signals == 0.0);
    let running = rates.iter().filter(|(rate, _)| *rate > 0.0);
    let (count, squares) =
        running.fold((0, 0.0), |(count, sum), (_, error)| (count + 1, sum + error * error));
    let qp_error = (squares / f64::from(count.max(1))).sqrt();
    Some(Estimate {
        sample,
        rates,
        goodput_error,
        queue_error,
        signal_error,
        of_signals,
        qp_error,
        is_calm,
        of_receivers,
        of_queues,
    })
}

/// Estimates the rates of the queue pairs of one population, and their errors. The part of their differences
/// that is chance is taken out, so that their sum stays the same.
fn estimate(members: &[usize], rates_of: impl Fn(&usize) -> Vec<f64>, rates: &mut [(f64, f64)]) {
    let count = members.len() as f64;
    let of_members: Vec<(f64, f64)> = members
        .iter()
        .map(|qp| {
            let batches = rates_of(qp);
            let (mean, half, _) = of_batches(&batches);
            // The variance by batches, or by halves, which show what is slower than a batch.
            (mean, (half / T_OF_BATCHES).powi(2).max(drift(&batches).powi(2) / 4.0))
        })
        .collect();
    let mean = of_members.iter().map(|(mean, _)| mean).sum::<f64>() / count;
    let noise = of_members.iter().map(|(_, variance)| variance).sum::<f64>() / count;
    let squares: f64 = of_members.iter().map(|(own, _)| (own - mean).powi(2)).sum();
    // Two queue pairs teach nothing about a population.
    let of_their_own = if members.len() > 2 {
        (1.0 - noise * (count - 1.0) / squares.max(f64::MIN_POSITIVE)).max(0.0)
    } else {
        1.0
    };
    for (&qp, (own, _)) in members.iter().zip(&of_members) {
        let rate = mean + of_their_own * (own - mean);
        let variance = of_their_own * noise + noise / count;
        rates[qp] = (rate, T_OF_BATCHES * variance.sqrt() / rate.max(f64::MIN_POSITIVE));
    }
}

/// How far apart two figures are, relative to the smaller one or to `least`. If both of these are 0, 1 stands
/// for any difference.
fn apart(one: f64, other: f64, least: f64) -> f64 {
    let (smaller, larger) = (one.min(other).max(least), one.max(other));
    match smaller > 0.0 {
        true => (one - other).abs() / smaller,
        false => f64::from(u8::from(larger > 0.0)),
    }
}

impl Estimate {
    /// The errors to state for a step of this length. The sample's figures are known to within its errors,
    /// and what would have happened in the step differs from them by chance, too: the longer the step, the
    /// less.
    pub fn errors_of_step(&self, length: Time) -> [f64; 4] {
        let more = (1.0 + self.sample.span.0 as f64 / length.0 as f64).sqrt();
        [self.goodput_error, self.queue_error, self.signal_error, self.qp_error]
            .map(|error| (error * more).max(LEAST_STATED))
    }
}

/// How far the windows since a step are from what it expected, as relative differences of goodput, of queues
/// and of signals, and whether they contradict it.
pub(super) fn compare(
    expected: &Estimate,
    since: &Window,
    packets_to: impl Fn(usize) -> f64,
    batches: f64,
    error: f64,
) -> ([f64; 3], bool) {
    // How far the mean of `batches` batches may be from that of the sample, in standard deviations.
    let chance = 3.0 * (1.0 / batches + 1.0 / BATCHES as f64).sqrt();
    let mut contradicts = since.counts.disturbances() > 0;
    let mut judge = |found: f64, mean: f64, deviation: f64, least: f64, error: f64| {
        let (off, of) = ((found - mean).abs(), mean.max(least));
        contradicts |= off > (chance * deviation).max(2.0 * error * of);
        apart(found, mean, least)
    };
    let mut off = [0.0f64; 3];
    for &(receiver, mean, deviation) in &expected.of_receivers {
        let found = packets_to(receiver) / since.span.0 as f64;
        off[0] = off[0].max(judge(found, mean, deviation, 0.0, error));
    }
    for &(column, mean, deviation) in &expected.of_queues {
        off[1] = off[1].max(judge(since.gauges[column], mean, deviation, SMALL_QUEUE, QUEUES * error));
    }
    // Signals contradict nothing: their effect shows in goodput and queues.
    let mut found = [0.0; 2];
    for qp in 0..expected.rates.len() {
        let counts = since.counts.of_qp(qp);
        found[0] += counts.cnps as f64 / since.span.0 as f64;
        found[1] += counts.marks as f64 / since.span.0 as f64;
    }
    for (found, mean) in found.into_iter().zip(expected.of_signals) {
        off[2] = off[2].max(apart(found, mean, 0.0));
    }
    (off, contradicts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_apart_by_a_share_of_the_smaller_one() {
        assert_eq!([apart(2.0, 3.0, 0.0), apart(3.0, 2.0, 0.0)], [0.5; 2]);
        assert_eq!(apart(1.0, 3.0, 4.0), 0.5);
        assert_eq!([apart(0.0, 3.0, 0.0), apart(0.0, 0.0, 0.0)], [1.0, 0.0]);
    }

    /// A step as long as the sample adds as much uncertainty again; a far longer one adds next to nothing.
    #[test]
    fn a_short_step_is_less_sure() {
        let estimate = Estimate {
            sample: Window { span: Time(100), counts: Default::default(), gauges: vec![] },
            rates: vec![],
            goodput_error: 0.0,
            queue_error: 0.01,
            signal_error: 0.1,
            of_signals: [0.0; 2],
            qp_error: 0.02,
            is_calm: false,
            of_receivers: vec![],
            of_queues: vec![],
        };
        let [goodput, queue, signals, _] = estimate.errors_of_step(Time(100));
        assert_eq!((goodput, queue), (LEAST_STATED, 0.01 * 2f64.sqrt()));
        assert_eq!(signals, 0.1 * 2f64.sqrt());
        assert!(estimate.errors_of_step(Time(10_000))[1] < 0.0101);
    }
}
