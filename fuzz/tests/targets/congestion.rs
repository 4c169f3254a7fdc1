//! Congestion control: whatever is heard, rates and windows stay within their bounds.

use bolero::{check, TypeGenerator};
use tailback_fuzz::{Clock, Magnitude, Share, Span};
use tailback_proto::congestion::dcqcn::{
    MlnxParameters, NotificationPoint, ReactionParameters, ReactionPoint,
};
use tailback_proto::congestion::dctcp::{Dctcp, DctcpParameters};
use tailback_proto::congestion::host::LadderParameters;
use tailback_proto::congestion::hostcc::{HostCc, HostCcParameters};
use tailback_proto::congestion::hpcc::{Hpcc, HpccParameters};
use tailback_proto::congestion::rhcc::receiver::{Receiver, ReceiverParameters};
use tailback_proto::congestion::rhcc::sender::{Law, Sender, SenderParameters};
use tailback_proto::congestion::timely::{Timely, TimelyParameters};
use tailback_proto::congestion::{AckInfo, HopTelemetry};
use tailback_proto::units::{Rate, Time};

/// A link of 1 Mbit/s to 100 Tbit/s: what a plan takes.
#[derive(Clone, Copy, Debug, TypeGenerator)]
struct Link(Magnitude<47>);

impl Link {
    fn rate(self) -> Rate {
        Rate(self.0.get().clamp(1_000_000, 100_000_000_000_000))
    }
}

#[derive(Debug, TypeGenerator)]
struct Dcqcn {
    link: Link,
    #[generator(0..=1024)]
    g: u32,
    alpha_period: Magnitude<32>,
    #[generator(0..=1024)]
    initial_alpha: u32,
    first: Magnitude<32>,
    #[generator(0..=100)]
    min_dec_fac: u32,
    min_rate: Magnitude<32>,
    #[generator(10..=30)]
    gd: u32,
    cut_period: Magnitude<32>,
    clamp: bool,
    clamp_after_timer: bool,
    increase_period: Magnitude<32>,
    increase_bytes: Magnitude<32>,
    threshold: Magnitude<32>,
    additive: Magnitude<32>,
    hyper: Magnitude<32>,
    max_rate: Magnitude<32>,
    unit_64: bool,
    release: bool,
}

impl Dcqcn {
    fn parameters(&self) -> Result<ReactionParameters, String> {
        let bits = |number: Magnitude<32>| number.get().min(u32::MAX as u64) as u32;
        let mlnx = MlnxParameters {
            dce_tcp_g: self.g,
            dce_tcp_rtt: bits(self.alpha_period),
            initial_alpha_value: self.initial_alpha,
            rate_to_set_on_first_cnp: bits(self.first),
            rpg_min_dec_fac: self.min_dec_fac,
            rpg_min_rate: bits(self.min_rate),
            rpg_gd: self.gd,
            rate_reduce_monitor_period: bits(self.cut_period),
            clamp_tgt_rate: self.clamp,
            clamp_tgt_rate_after_time_inc: self.clamp_after_timer,
            rpg_time_reset: bits(self.increase_period),
            rpg_byte_reset: bits(self.increase_bytes),
            rpg_threshold: bits(self.threshold),
            rpg_ai_rate: bits(self.additive),
            rpg_hai_rate: bits(self.hyper),
            rpg_max_rate: bits(self.max_rate),
            byte_reset_unit_bytes: if self.unit_64 { 64 } else { 1 },
            release_at_max_rate: self.release,
        };
        ReactionParameters::new(&mlnx, self.link.rate())
    }
}

#[derive(Debug, TypeGenerator)]
enum DcqcnInput {
    Cnp(Span),
    Sent(Span, u16),
    CatchUp(Span),
}

#[test]
fn dcqcn() {
    check!().with_type::<(Dcqcn, Vec<DcqcnInput>)>().for_each(|(parameters, inputs)| {
        let Ok(p) = parameters.parameters() else { return };
        let mut point = ReactionPoint::new(&p);
        let mut clock = Clock::default();
        for input in inputs {
            let before = point.rate();
            match *input {
                DcqcnInput::Cnp(span) => {
                    point.on_cnp(&p, clock.pass(span));
                    assert!(point.is_limited(), "a CNP switches the limiter on");
                }
                DcqcnInput::Sent(span, bytes) => point.on_sent(&p, clock.pass(span), bytes as u64),
                DcqcnInput::CatchUp(span) => point.catch_up(&p, clock.pass(span)),
            }
            let (rate, target, alpha) = (point.rate(), point.target(), point.alpha());
            let bounds = p.min_rate()..=p.max_rate();
            assert!(bounds.contains(&rate), "rate {rate} is not in {bounds:?}; it was {before}");
            assert!(bounds.contains(&target), "target {target} is not in {bounds:?}");
            assert!((0.0..=1.0).contains(&alpha), "alpha is {alpha}");
            assert!(point.is_limited() || rate == p.max_rate(), "{rate} without a limiter");
            // Looking changes nothing.
            let mut seen = point.clone();
            seen.catch_up(&p, clock.now());
            assert_eq!((seen.rate(), seen.target(), seen.alpha()), {
                point.catch_up(&p, clock.now());
                (point.rate(), point.target(), point.alpha())
            });
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

/// An acknowledgement as a flow may get it: positions never go back, but what was sent may (go-back-N).
#[derive(Debug, TypeGenerator)]
struct Ack {
    after: Span,
    rtt: Span,
    completes_burst: bool,
    acked: Magnitude<32>,
    ahead: Magnitude<32>,
    marked: bool,
    #[generator(bolero::produce::<Vec<Hop>>().with().len(0..=7usize))]
    hops: Vec<Hop>,
}

#[derive(Debug, TypeGenerator)]
struct Hop {
    at: Span,
    tx_bytes: Magnitude<63>,
    queue_bytes: Magnitude<40>,
    link: Link,
}

fn acknowledge(acks: &[Ack], mut on_ack: impl FnMut(&AckInfo)) {
    let mut clock = Clock::default();
    let mut acknowledged_bytes = 0;
    for ack in acks {
        let now = clock.pass(ack.after);
        let hop = |hop: &Hop| HopTelemetry {
            at: hop.at.time(),
            tx_bytes: hop.tx_bytes.get(),
            queue_bytes: hop.queue_bytes.get(),
            rate: hop.link.rate(),
        };
        let hops: Vec<HopTelemetry> = ack.hops.iter().map(hop).collect();
        let newly_acked_bytes = ack.acked.get();
        acknowledged_bytes += newly_acked_bytes;
        on_ack(&AckInfo {
            now,
            rtt: ack.rtt.time().min(now),
            completes_burst: ack.completes_burst,
            newly_acked_bytes,
            acknowledged_bytes,
            sent_bytes: acknowledged_bytes + ack.ahead.get(),
            marked: ack.marked,
            hops: &hops,
        });
    }
}

/// Up to 18 s: windows stay below 2^53 B, and so are whole numbers of bytes as floats, too.
type RoundTrip = Magnitude<44>;

fn assert_rate(rate: f64, min: f64, line: Rate) {
    assert!((min..=line.0 as f64).contains(&rate), "{rate} bit/s is not in {min} to {}", line.0);
}

#[derive(Debug, TypeGenerator)]
struct DctcpCase {
    link: Link,
    min_rate: Magnitude<47>,
    g: Share,
    additive: Magnitude<47>,
    window_rtt: Option<RoundTrip>,
}

#[test]
fn dctcp() {
    check!().with_type::<(DctcpCase, Vec<Ack>)>().for_each(|(case, acks)| {
        let p = DctcpParameters {
            line_rate: case.link.rate(),
            min_rate: case.min_rate.get() as f64,
            g: case.g.get(),
            additive: case.additive.get() as f64,
            window_rtt: case.window_rtt.map(|rtt| Time(rtt.get())),
        };
        if p.check().is_err() {
            return;
        }
        let mut dctcp = Dctcp::new(&p);
        acknowledge(acks, |ack| {
            let before = dctcp.rate();
            dctcp.on_ack(&p, ack);
            assert_rate(dctcp.rate(), p.min_rate, p.line_rate);
            assert!((0.0..=1.0).contains(&dctcp.alpha()), "alpha is {}", dctcp.alpha());
            assert!(ack.marked || dctcp.rate() >= before, "cut without a mark");
            match (p.window_rtt, dctcp.window_bytes()) {
                (None, None) => {}
                (Some(rtt), Some(window)) => {
                    let most = p.line_rate.bytes_in(rtt).max(1);
                    assert!(
                        (1..=most).contains(&window),
                        "a window of {window} B where {most} B fill the line"
                    );
                }
                (rtt, window) => panic!("a window of {window:?} with {rtt:?}"),
            }
        });
    });
}

#[derive(Debug, TypeGenerator)]
struct HpccCase {
    link: Link,
    base_rtt: RoundTrip,
    eta: Share,
    max_stage: Magnitude<32>,
    additive: Magnitude<40>,
    min_rate: Magnitude<47>,
}

#[test]
fn hpcc() {
    check!().with_type::<(HpccCase, Vec<Ack>)>().for_each(|(case, acks)| {
        let p = HpccParameters {
            base_rtt: Time(case.base_rtt.get()),
            line_rate: case.link.rate(),
            eta: case.eta.get(),
            max_stage: case.max_stage.get() as u32,
            additive_bytes: case.additive.get() as f64,
            min_rate: case.min_rate.get() as f64,
        };
        if p.check().is_err() {
            return;
        }
        let mut hpcc = Hpcc::new(&p);
        acknowledge(acks, |ack| {
            let before = hpcc.rate();
            hpcc.on_ack(&p, ack);
            assert_rate(hpcc.rate(), p.min_rate, p.line_rate);
            let window = hpcc.window_bytes().expect("it has a window");
            let most = p.line_rate.bytes_in(p.base_rtt).max(1);
            assert!((1..=most).contains(&window), "a window of {window} B where {most} B fill the line");
            assert!(hpcc.load() >= 0.0 && hpcc.load().is_finite(), "a load of {}", hpcc.load());
            assert!(!ack.hops.is_empty() || hpcc.rate() == before, "moves without telemetry");
        });
    });
}

#[derive(Debug, TypeGenerator)]
struct TimelyCase {
    link: Link,
    min_rate: Magnitude<47>,
    alpha: Share,
    beta: Share,
    additive: Magnitude<47>,
    hyper_additive: Magnitude<47>,
    hyper_after: Magnitude<32>,
    t_low: Span,
    t_high: Span,
    min_rtt: Span,
    segment: Magnitude<32>,
}

#[test]
fn timely() {
    check!().with_type::<(TimelyCase, Vec<Ack>)>().for_each(|(case, acks)| {
        let p = TimelyParameters {
            line_rate: case.link.rate(),
            min_rate: case.min_rate.get() as f64,
            alpha: case.alpha.get(),
            beta: case.beta.get(),
            additive: case.additive.get() as f64,
            hyper_additive: case.hyper_additive.get() as f64,
            hyper_after: case.hyper_after.get() as u32,
            t_low: case.t_low.time(),
            t_high: case.t_high.time(),
            min_rtt: case.min_rtt.time(),
            segment_bytes: case.segment.get(),
        };
        if p.check().is_err() {
            return;
        }
        let mut timely = Timely::new(&p);
        acknowledge(acks, |ack| {
            let before = (timely.rate(), timely.rtt());
            timely.on_ack(&p, ack);
            assert_rate(timely.rate(), p.min_rate, p.line_rate);
            assert!(timely.gradient(&p).is_finite());
            // The first RTT has nothing to be compared with.
            let decides = before.1.is_some() && timely.rtt() == Some(ack.rtt);
            assert!(decides || timely.rate() == before.0);
            if decides && ack.rtt < p.t_low {
                assert!(timely.rate() >= before.0, "slower although the RTT is below T_low");
            }
            if decides && ack.rtt > p.t_high {
                assert!(timely.rate() <= before.0, "faster although the RTT is above T_high");
            }
        });
    });
}

#[derive(Debug, TypeGenerator)]
struct RhccSender {
    link: Link,
    floor: Magnitude<47>,
    probe_bytes: Magnitude<32>,
    threshold: Span,
    /// Equation (1), or fixed steps.
    pid: bool,
    alpha: Share,
    beta: Share,
    additive: Magnitude<47>,
    idle_probe: Option<Span>,
}

#[derive(Debug, TypeGenerator)]
enum RhccInput {
    Sent(Span, u16),
    Answer(Span),
    Timer(Span),
}

#[test]
fn rhcc_sender() {
    check!().with_type::<(RhccSender, Vec<RhccInput>)>().for_each(|(case, inputs)| {
        let law = match case.pid {
            true => Law::Pid { alpha: case.alpha.get(), beta: case.beta.get() },
            false => Law::Aimd { additive: case.additive.get() as f64, decrease: case.beta.get() },
        };
        let p = SenderParameters {
            line_rate: case.link.rate(),
            floor: case.floor.get() as f64,
            probe_bytes: case.probe_bytes.get(),
            threshold: case.threshold.time(),
            law,
            idle_probe: case.idle_probe.map(Span::time),
        };
        if p.check().is_err() {
            return;
        }
        let mut sender = Sender::new(&p);
        let mut clock = Clock::default();
        let (mut sent, mut probes) = (0, 0);
        for input in inputs {
            match *input {
                RhccInput::Sent(span, bytes) => {
                    sent += bytes as u64;
                    probes += sender.on_sent(&p, clock.pass(span), bytes as u64) as u64;
                    assert!(probes <= sent / p.probe_bytes, "{probes} probes for {sent} B");
                }
                RhccInput::Answer(delay) => sender.on_answer(&p, delay.time()),
                RhccInput::Timer(span) => {
                    let now = clock.pass(span);
                    let due = sender.next_timeout(&p).is_some_and(|at| at <= now);
                    assert_eq!(sender.on_timeout(&p, now), due);
                    assert!(sender.next_timeout(&p).is_none_or(|at| at > now), "the timer stays due");
                }
            }
            assert_rate(sender.rate(), p.floor, p.line_rate);
            assert!(sender.limit(p.floor) <= p.floor);
            let slowed = sender.rate() < p.line_rate.0 as f64;
            assert_eq!(sender.next_timeout(&p).is_some(), slowed && p.idle_probe.is_some());
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
    fn parameters(&self) -> LadderParameters {
        let mut levels: Vec<Rate> = self.levels.iter().map(|level| Rate(level.get())).collect();
        levels.sort_by(|a, b| b.cmp(a));
        levels.dedup();
        LadderParameters {
            levels,
            write_time: self.write_time.time(),
            raise_interval: self.raise_interval.time(),
        }
    }
}

/// Readings of counters that may wrap, as hardware's do.
type Readings = Vec<(Span, u64, u64)>;

/// A level at a time, and the bandwidth that is told is that of the level.
fn assert_step(p: &LadderParameters, before: usize, after: usize, told: Option<Rate>) {
    assert!(after < p.levels.len());
    // A write that ends and one that takes no time may fall on one reading.
    let most = if p.write_time == Time::ZERO { 2 } else { 1 };
    assert!(before.abs_diff(after) <= most, "from level {before} to {after}");
    assert!(before == after || told == Some(p.levels[after]), "level {after} is told as {told:?}");
}

#[test]
fn rhcc_receiver() {
    check!().with_type::<(Magnitude<40>, Magnitude<20>, Levels, Readings)>().for_each(
        |(clock_hz, threshold, levels, readings)| {
            let (threshold, ladder) = (threshold.get() as f64, levels.parameters());
            let p = ReceiverParameters { clock_hz: clock_hz.get(), threshold, ladder };
            if p.check().is_err() {
                return;
            }
            let mut receiver = Receiver::default();
            let mut clock = Clock::default();
            for &(span, counter, _) in readings {
                let before = receiver.level();
                let told = receiver.on_sample(&p, clock.pass(span), counter);
                assert!(receiver.occupancy() >= 0.0 && receiver.occupancy().is_finite());
                assert_step(&p.ladder, before, receiver.level(), told);
            }
        },
    );
}

#[test]
fn hostcc() {
    type Weights = (Share, Share, Magnitude<47>, bool);
    check!().with_type::<(Magnitude<40>, Magnitude<20>, Weights, Levels, Readings)>().for_each(
        |(clock_hz, threshold, weights, levels, readings)| {
            let p = HostCcParameters {
                clock_hz: clock_hz.get(),
                iio_threshold: threshold.get() as f64,
                iio_weight: weights.0.get(),
                pcie_threshold: Rate(weights.2.get()),
                pcie_weight: weights.1.get(),
                ladder: levels.parameters(),
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
                assert_step(&p.ladder, before, host.level(), told);
            }
        },
    );
}
