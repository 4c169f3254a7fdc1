//! Congestion control: whatever is heard, rates and windows stay within their bounds.

use std::num::NonZeroU16;

use bolero::{check, TypeGenerator};
use serde_json::{json, Value};
use tailback_fuzz::{Clock, Magnitude, Share, Span};
use tailback_proto::congestion::builtin::{self, Description, Settings};
use tailback_proto::congestion::dcqcn::NotificationPoint;
use tailback_proto::congestion::host::LadderParameters;
use tailback_proto::congestion::host::{HostCc, HostCcParameters};
use tailback_proto::congestion::parameters::{Parameter, Plain};
use tailback_proto::congestion::rhcc::{Receiver, ReceiverParameters};
use tailback_proto::congestion::rhcc::{RhccParameters, Sender};
use tailback_proto::congestion::{AckInfo, Controller, HopTelemetry, Link, Loss};
use tailback_proto::parameters::{Declared, FallingRates};
use tailback_proto::units::{Rate, Time};

/// A link of 1 Mbit/s to 100 Tbit/s: what a plan takes.
#[derive(Clone, Copy, Debug, TypeGenerator)]
struct AnyRate(Magnitude<47>);

impl AnyRate {
    fn rate(self) -> Rate {
        Rate(self.0.get().clamp(1_000_000, 100_000_000_000_000))
    }

    fn link(self) -> Link {
        Link { rate: self.rate(), mtu_bytes: 4096 }
    }
}

/// A value for any parameter.
#[derive(Clone, Copy, Debug, TypeGenerator)]
struct AnyValue {
    default: bool,
    whole: Magnitude<48>,
    share: Share,
    flag: bool,
}

impl AnyValue {
    /// Within the parameter's bounds, mostly.
    fn of(self, parameter: &Parameter) -> Value {
        let whole = |plain: &Option<Plain>, none| match plain {
            Some(Plain::Whole(whole)) => *whole,
            _ => none,
        };
        let number = |plain: &Option<Plain>, none| match plain {
            Some(Plain::Number(number)) => *number,
            _ => none,
        };
        let any = self.whole.get();
        match parameter.quantity {
            _ if parameter.optional && self.flag => Value::Null,
            "choice" => json!(parameter.choices[any as usize % parameter.choices.len()]),
            "flag" => json!(self.flag),
            "number" => {
                let (least, most) = (number(&parameter.least, 0.0), number(&parameter.most, 1e9));
                json!(least + self.share.get() * (most - least))
            }
            _ => json!(any.clamp(whole(&parameter.least, 0), whole(&parameter.most, u64::MAX))),
        }
    }
}

/// Values of a controller's parameters, as a plan has them.
fn set(description: &Description, values: &[AnyValue]) -> Value {
    let mut set = serde_json::Map::new();
    for (index, parameter) in description.parameters.iter().enumerate() {
        let value = match values.get(index) {
            Some(value) if !value.default => value.of(parameter),
            // A plan has a time where a scenario has `auto`.
            _ if parameter.default == Plain::Word("auto") => json!(13_000_000),
            _ => json!(parameter.default),
        };
        set.insert(parameter.name.into(), value);
    }
    set.into()
}

/// The lowest rate that parameters ask for, bit/s.
fn lowest(parameters: &Value) -> f64 {
    let rate = |name: &str, unit: f64| parameters[name].as_f64().map(|rate| rate * unit);
    rate("min_rate", 1.0).or(rate("floor", 1.0)).or(rate("rpg_min_rate", 1e6)).unwrap_or(1.0)
}

/// What a flow may hear. Positions never go back, but what was sent may (go-back-N).
#[derive(Debug, TypeGenerator)]
enum Input {
    Sent(Span, u16),
    Ack(Span, Box<Ack>),
    Cnp(Span),
    Loss(Span, bool),
    Timer(Span),
    Look(Span),
    /// The answer to a probe, where it sends any.
    Answer(Span),
}

#[derive(Debug, TypeGenerator)]
struct Ack {
    rtt: Span,
    receiver_delay: Span,
    completes_burst: bool,
    acked: Magnitude<32>,
    ahead: Magnitude<32>,
    marked: bool,
    digest: u16,
    #[generator(bolero::produce::<Vec<Hop>>().with().len(0..=7usize))]
    hops: Vec<Hop>,
}

#[derive(Debug, TypeGenerator)]
struct Hop {
    at: Span,
    tx_bytes: Magnitude<63>,
    queue_bytes: Magnitude<40>,
    rate: AnyRate,
}

impl Ack {
    fn hear(&self, now: Time, acknowledged: &mut u64, on_ack: impl FnOnce(&AckInfo)) {
        let hop = |hop: &Hop| HopTelemetry {
            at: hop.at.time(),
            tx_bytes: hop.tx_bytes.get(),
            queue_bytes: hop.queue_bytes.get(),
            rate: hop.rate.rate(),
        };
        let hops: Vec<HopTelemetry> = self.hops.iter().map(hop).collect();
        let newly_acked_bytes = self.acked.get();
        *acknowledged += newly_acked_bytes;
        let rtt = self.rtt.time().min(now);
        on_ack(&AckInfo {
            now,
            rtt,
            receiver_delay: self.receiver_delay.time().min(rtt),
            completes_burst: self.completes_burst,
            newly_acked_bytes,
            acknowledged_bytes: *acknowledged,
            sent_bytes: *acknowledged + self.ahead.get(),
            marked: self.marked,
            hop_count: hops.len() as u32,
            hops: &hops,
            digest: NonZeroU16::new(self.digest),
        });
    }
}

fn assert_rate(rate: f64, lowest: f64, link: Link) {
    assert!(rate >= lowest && rate <= link.rate.bps(), "{rate} bit/s is not in {lowest} to {}", link.rate.0);
}

/// Every controller that a plan can name.
#[test]
fn controllers() {
    type Case = (u8, AnyRate, Vec<AnyValue>, Vec<Input>);
    let all = builtin::descriptions();
    check!().with_type::<Case>().for_each(|(number, rate, values, inputs)| {
        let description = &all[*number as usize % all.len()];
        let parameters = set(description, values);
        let lowest = lowest(&parameters);
        let named = json!({ description.name.as_str(): parameters });
        // A plan refuses a number that its integer cannot be, too.
        let Ok(settings) = serde_json::from_value::<Settings>(named) else { return };
        let link = rate.link();
        let Ok(congestion) = settings.on(link) else { return };
        let uses = congestion.uses();
        let mut flow = congestion.flow();
        let (mut clock, mut acknowledged) = (Clock::default(), 0);
        for input in inputs {
            match input {
                Input::Sent(span, bytes) => {
                    let rate = flow.on_sent(&congestion, clock.pass(*span), *bytes as u64);
                    assert_eq!(rate, flow.rate());
                }
                Input::Ack(span, ack) => {
                    ack.hear(clock.pass(*span), &mut acknowledged, |ack| flow.on_ack(&congestion, ack));
                }
                Input::Cnp(span) => flow.on_cnp(&congestion, clock.pass(*span)),
                Input::Loss(span, nak) => {
                    let loss = if *nak { Loss::Nak } else { Loss::Timeout };
                    flow.on_loss(&congestion, clock.pass(*span), loss);
                }
                Input::Timer(span) => {
                    let now = clock.pass(*span);
                    flow.on_timeout(&congestion, now);
                    assert!(flow.next_timeout(&congestion).is_none_or(|at| at > now), "the timer stays due");
                }
                Input::Look(span) => {
                    // What is seen now is what the next packet finds.
                    let seen = flow.rate_at(&congestion, clock.pass(*span));
                    assert_eq!(flow.on_sent(&congestion, clock.now(), 0), seen);
                }
                Input::Answer(_) => {}
            }
            assert_rate(flow.rate(), lowest, link);
            // With nothing in flight and no timer it would wait for ever.
            let closed = flow.window_bytes() == Some(0);
            assert!(!closed || flow.next_timeout(&congestion).is_some(), "a window of nothing");
            assert!(
                uses.window && uses.acks || flow.window_bytes().is_none(),
                "a window that it does not name"
            );
            assert!(uses.timer || flow.next_timeout(&congestion).is_none(), "a timer that it does not name");
            for (number, signal) in congestion.signals().iter().enumerate() {
                let value = flow.signal(&congestion, clock.now(), number);
                assert!(!value.is_infinite(), "{} is {value}", signal.name);
            }
        }
    });
}

/// RHCC's sender, which acts beside one of them: probes follow data and its timer.
#[test]
fn rhcc_sender() {
    let all = builtin::beside();
    check!().with_type::<(AnyRate, Vec<AnyValue>, Vec<Input>)>().for_each(|(rate, values, inputs)| {
        let parameters = set(&all[0], values);
        let lowest = lowest(&parameters);
        let p: RhccParameters = serde_json::from_value(parameters).expect("values are of their types");
        let link = rate.link();
        let Ok(law) = Sender::law(&p, link) else { return };
        let mut sender = Sender::new(&law);
        let mut clock = Clock::default();
        let (mut sent, mut probes) = (0, 0);
        for input in inputs {
            match input {
                Input::Sent(span, bytes) => {
                    sent += *bytes as u64;
                    sender.on_sent(&law, clock.pass(*span), *bytes as u64);
                    probes += sender.takes_probe() as u64;
                    assert!(probes <= sent / p.probe_bytes.0, "{probes} probes for {sent} B");
                }
                Input::Timer(span) => {
                    let now = clock.pass(*span);
                    let due = sender.next_timeout(&law).is_some_and(|at| at <= now);
                    sender.on_timeout(&law, now);
                    assert_eq!(sender.takes_probe(), due);
                    assert!(sender.next_timeout(&law).is_none_or(|at| at > now), "the timer stays due");
                }
                Input::Answer(delay) => sender.on_probe_answer(&law, delay.time()),
                _ => {}
            }
            assert_rate(sender.rate(), lowest, link);
            let slowed = sender.rate() < link.rate.bps();
            assert_eq!(sender.next_timeout(&law).is_some(), slowed && p.idle_probe.is_some());
            assert!(!sender.takes_probe(), "a probe is taken once");
        }
    });
}

/// CNPs are never closer than their interval, and none that may go is kept back.
#[test]
fn notification_point() {
    check!().with_type::<(Span, Vec<Span>)>().for_each(|(interval, marks)| {
        let mut point = NotificationPoint::default();
        let mut clock = Clock::default();
        let mut last: Option<Time> = None;
        for &span in marks {
            let now = clock.pass(span);
            let due = last.is_none_or(|last| now - last >= interval.time());
            assert_eq!(point.on_ecn_marked(now, interval.time()), due);
            if due {
                last = Some(now);
            }
        }
    });
}

#[derive(Debug, TypeGenerator)]
struct Levels {
    #[generator(bolero::produce::<Vec<Magnitude<40>>>().with().len(0..=20usize))]
    levels: Vec<Magnitude<40>>,
    write_time: Span,
    raise_interval: Span,
}

impl Levels {
    /// None: there are no levels, or too many.
    fn rates(&self) -> Option<FallingRates> {
        let mut levels: Vec<Rate> = self.levels.iter().map(|level| Rate(level.get())).collect();
        levels.sort_by(|a, b| b.cmp(a));
        levels.dedup();
        levels.try_into().ok()
    }
}

/// Readings of counters that may wrap, as hardware's do.
type Readings = Vec<(Span, u64, u64)>;

/// A level at a time, and the bandwidth that is told is that of the level.
fn assert_step(p: LadderParameters, before: usize, after: usize, told: Option<Rate>) {
    assert!(after < p.levels.len());
    // A write that ends and one that takes no time may fall on one reading.
    let most = if p.write_time == Time::ZERO { 2 } else { 1 };
    assert!(before.abs_diff(after) <= most, "from level {before} to {after}");
    assert!(before == after || told == Some(p.levels[after]), "level {after} is told as {told:?}");
}

#[test]
fn rhcc_receiver() {
    check!().with_type::<(Magnitude<17>, Magnitude<20>, Levels, Readings)>().for_each(
        |(clock_mhz, threshold, levels, readings)| {
            let Some(rates) = levels.rates() else { return };
            let p = ReceiverParameters {
                sample_interval: Time::from_us(1),
                iio_clock_mhz: clock_mhz.get() as u32,
                iio_threshold: threshold.get() as f64,
                levels: rates,
                write_time: levels.write_time.time(),
                raise_interval: levels.raise_interval.time(),
            };
            if p.check().is_err() {
                return;
            }
            let mut receiver = Receiver::default();
            let mut clock = Clock::default();
            for &(span, counter, _) in readings {
                let before = receiver.level();
                let told = receiver.on_sample(&p, clock.pass(span), counter);
                assert!(receiver.occupancy() >= 0.0 && receiver.occupancy().is_finite());
                assert_step(p.ladder(), before, receiver.level(), told);
            }
        },
    );
}

#[test]
fn hostcc() {
    type Weights = (Share, Share, Magnitude<47>, bool);
    check!().with_type::<(Magnitude<17>, Magnitude<20>, Weights, Levels, Readings)>().for_each(
        |(clock_mhz, threshold, weights, levels, readings)| {
            let Some(rates) = levels.rates() else { return };
            let p = HostCcParameters {
                sample_interval: Time::from_us(1),
                iio_clock_mhz: clock_mhz.get() as u32,
                iio_threshold: threshold.get() as f64,
                iio_weight: weights.0.get(),
                pcie_threshold: Rate(weights.2.get()),
                pcie_weight: weights.1.get(),
                levels: rates,
                write_time: levels.write_time.time(),
                raise_interval: levels.raise_interval.time(),
                mark: weights.3,
            };
            if p.check().is_err() {
                return;
            }
            let mut host = HostCc::default();
            let mut clock = Clock::default();
            for &(span, iio, pcie) in readings {
                let before = host.level();
                let told = host.on_sample(&p, clock.pass(span), iio, pcie);
                for average in [host.occupancy(), host.bandwidth()] {
                    assert!(average >= 0.0 && average.is_finite(), "an average of {average}");
                }
                assert_eq!(host.marks(), p.mark && host.occupancy() > p.iio_threshold);
                assert_step(p.ladder(), before, host.level(), told);
            }
        },
    );
}
