//! RHCC against its paper: worked examples with the arithmetic shown, bounds under any input, and a closed loop.

use proptest::prelude::*;
use tailback_proto::congestion::rhcc::{Law, RhccParameters, Sender, SenderParameters};
use tailback_proto::congestion::rhcc::{Receiver, ReceiverParameters};
use tailback_proto::congestion::{Controller, Link};
use tailback_proto::parameters::{Declared, FallingRates};
use tailback_proto::units::{Bytes, Rate, Time};

const LINE: Rate = Rate::from_gbps(100);
/// Section 4: without and with congestion.
const IDLE_NS: u64 = 120;
const CONGESTED_NS: u64 = 900;

/// The paper's values; floor and idle probe are ours.
fn parameters() -> SenderParameters {
    SenderParameters {
        line_rate: LINE,
        floor: 100e6,
        probe_bytes: 32_000,
        threshold: Time::from_ns(200),
        law: Law::Pid { alpha: 0.0005, beta: 0.0005 },
        idle_probe: Some(Time::from_us(100)),
    }
}

fn fed(p: &SenderParameters, delays_ns: &[u64]) -> Sender {
    let mut sender = Sender::new(p);
    for &delay in delays_ns {
        sender.on_probe_answer(p, Time::from_ns(delay));
    }
    sender
}

/// Whether a probe follows the packet.
fn sent(sender: &mut Sender, p: &SenderParameters, now: Time, bytes: u64) -> bool {
    sender.on_sent(p, now, bytes);
    sender.takes_probe()
}

fn due(sender: &mut Sender, p: &SenderParameters, now: Time) -> bool {
    sender.on_timeout(p, now);
    sender.takes_probe()
}

fn close(found: f64, expected: f64) {
    assert!((found - expected).abs() <= expected.abs() * 1e-9, "found {found}, expected {expected}");
}

#[test]
fn an_idle_receiver_leaves_the_line_rate() {
    let p = parameters();
    // 1 - 0.0005 * (120 - 200) = 1.04, and no more than the line.
    assert_eq!(fed(&p, &[]).rate(), 100e9);
    assert_eq!(fed(&p, &[IDLE_NS, IDLE_NS]).rate(), 100e9);
    assert_eq!(fed(&p, &[IDLE_NS]).next_timeout(&p), None, "nothing to recover from");
}

#[test]
fn equation_1_step_by_step() {
    let p = parameters();
    // 120 to 900 ns: 1 - 0.0005 * 700 - 0.0005 * 780 = 1 - 0.35 - 0.39 = 0.26.
    close(fed(&p, &[IDLE_NS, CONGESTED_NS]).rate(), 26e9);
    // It stays at 900: 1 - 0.35 = 0.65 each time.
    close(fed(&p, &[IDLE_NS, CONGESTED_NS, CONGESTED_NS]).rate(), 16.9e9);
    // Back to 120: 1 + 0.04 + 0.39 = 1.43, then 1.04.
    close(fed(&p, &[IDLE_NS, CONGESTED_NS, CONGESTED_NS, IDLE_NS]).rate(), 16.9e9 * 1.43);
    close(fed(&p, &[IDLE_NS, CONGESTED_NS, CONGESTED_NS, IDLE_NS, IDLE_NS]).rate(), 16.9e9 * 1.43 * 1.04);
    // At the threshold and unchanged: the fixed point.
    close(fed(&p, &[IDLE_NS, CONGESTED_NS, 200, 200]).rate(), 26e9 * 1.35);
    close(fed(&p, &[IDLE_NS, CONGESTED_NS, 200, 200, 200]).rate(), 26e9 * 1.35);
}

#[test]
fn the_first_answer_has_no_difference() {
    let p = parameters();
    // 1 - 0.0005 * 700 = 0.65.
    close(fed(&p, &[CONGESTED_NS]).rate(), 65e9);
    assert_eq!(fed(&p, &[CONGESTED_NS]).delay(), Some(Time::from_ns(CONGESTED_NS)));
}

#[test]
fn a_delay_that_would_make_the_rate_negative_leaves_the_floor() {
    let p = parameters();
    // 1 - 0.0005 * 4800 = -1.4. From 0 nothing would ever come back; from the floor, 4 % a probe do:
    // 1000 = 1.04^176.1, less the first step's beta * 4880 ns = 2.44.
    let mut sender = fed(&p, &[5000]);
    close(sender.rate(), 100e6);
    sender.on_probe_answer(&p, Time::from_ns(IDLE_NS));
    close(sender.rate(), 100e6 * (1.04 + 2.44));
    for _ in 0..144 {
        sender.on_probe_answer(&p, Time::from_ns(IDLE_NS));
    }
    // 3.48 * 1.04^144 = 986.9 times the floor.
    assert!((0.98e11..0.99e11).contains(&sender.rate()), "{}", sender.rate());
    sender.on_probe_answer(&p, Time::from_ns(IDLE_NS));
    assert_eq!(sender.rate(), 100e9);
}

#[test]
fn the_slower_of_two_controllers_decides() {
    let p = parameters();
    let sender = fed(&p, &[IDLE_NS, CONGESTED_NS]);
    close(sender.limit(100e9), 26e9);
    close(sender.limit(5e9), 5e9);
}

#[test]
fn a_probe_follows_every_32_kb() {
    let p = parameters();
    let mut sender = Sender::new(&p);
    // Packets of 1,024 B: the 32nd is the first past 32,000 B; 768 B are over, so that the 63rd ends the second 32,000.
    let probes: Vec<u64> = (1..=100).filter(|&n| sent(&mut sender, &p, Time::from_us(n), 1024)).collect();
    assert_eq!(probes, [32, 63, 94]);
}

#[test]
fn a_slow_queue_pair_is_probed_by_a_timer() {
    let p = parameters();
    let mut sender = fed(&p, &[CONGESTED_NS]);
    for n in 1..=32 {
        sent(&mut sender, &p, Time::from_us(n), 1024);
    }
    assert_eq!(sender.next_timeout(&p), Some(Time::from_us(132)));
    assert!(!due(&mut sender, &p, Time::from_us(131)));
    assert!(due(&mut sender, &p, Time::from_us(132)));
    assert_eq!(sender.next_timeout(&p), Some(Time::from_us(232)));
    let without = SenderParameters { idle_probe: None, ..p };
    assert_eq!(sender.next_timeout(&without), None);
}

#[test]
fn aimd_takes_fixed_steps() {
    let p = SenderParameters { law: Law::Aimd { additive: 40e6, decrease: 0.5 }, ..parameters() };
    // However far above the threshold: half. At the threshold: 40 Mbit/s more.
    close(fed(&p, &[201]).rate(), 50e9);
    close(fed(&p, &[100_000, CONGESTED_NS]).rate(), 25e9);
    close(fed(&p, &[CONGESTED_NS, 200, IDLE_NS]).rate(), 50.08e9);
}

#[test]
fn impossible_parameters_are_named() {
    let refused =
        |p: RhccParameters| Sender::law(&p, Link { rate: LINE, mtu_bytes: 1024 }).unwrap_err().field;
    let p = RhccParameters::default();
    assert_eq!(Sender::law(&p, Link { rate: LINE, mtu_bytes: 1024 }), Ok(parameters()));
    assert_eq!(refused(RhccParameters { floor: Rate(0), ..p }), "floor");
    assert_eq!(refused(RhccParameters { floor: Rate::from_gbps(101), ..p }), "floor");
    assert_eq!(refused(RhccParameters { probe_bytes: Bytes(0), ..p }), "probe_bytes");
    assert_eq!(refused(RhccParameters { idle_probe: Some(Time::ZERO), ..p }), "idle_probe");
    assert_eq!(refused(RhccParameters { alpha: -1.0, ..p }), "alpha");
    assert_eq!(refused(RhccParameters { decrease: 2.0, ..p }), "decrease");
}

/// The IIO's clock of a Cascade Lake (hostCC's module), the paper's levels, a threshold of its own.
fn receiver_parameters() -> ReceiverParameters {
    ReceiverParameters {
        sample_interval: Time::from_us(1),
        iio_clock_mhz: 500,
        iio_threshold: 39.0,
        // 33.2, 26.5, 20, 15 and 10 GB/s.
        levels: [265_600, 212_000, 160_000, 120_000, 80_000].map(Rate::from_mbps).into(),
        write_time: Time::ZERO,
        raise_interval: Time::from_us(10),
    }
}

/// A receiver whose counter is fed with occupancies, a sample each microsecond: 500 cycles.
struct Host {
    p: ReceiverParameters,
    receiver: Receiver,
    now: Time,
    counter: u64,
}

impl Host {
    fn new(p: ReceiverParameters) -> Self {
        let mut host = Host { p, receiver: Receiver::default(), now: Time::ZERO, counter: 7 };
        assert_eq!(host.receiver.on_sample(&host.p, host.now, 7), None, "one reading is no occupancy");
        host.now = Time::ZERO;
        host
    }

    fn sample(&mut self, lines: u64) -> Option<u64> {
        self.now += Time::from_us(1);
        self.counter += lines * 500;
        self.receiver.on_sample(&self.p, self.now, self.counter).map(|rate| rate.0 / 1_000_000)
    }
}

#[test]
fn occupancy_is_the_counters_difference_over_the_cycles() {
    let mut host = Host::new(receiver_parameters());
    // 12,500 line-cycles in 1 us: 500 cycles, so 25 lines on average.
    host.sample(25);
    assert_eq!(host.receiver.occupancy(), 25.0);
    // A reading at the same time says nothing.
    host.receiver.on_sample(&host.p.clone(), host.now, host.counter + 99);
    assert_eq!(host.receiver.occupancy(), 25.0);
}

#[test]
fn levels_fall_under_congestion_and_rise_after_it() {
    let mut host = Host::new(receiver_parameters());
    assert_eq!(host.sample(39), None, "at the threshold is not above it");
    let falling: Vec<_> = (0..6).map(|_| host.sample(40)).collect();
    assert_eq!(falling, [Some(212_000), Some(160_000), Some(120_000), Some(80_000), None, None]);
    // The last congested sample was at 7 us: up from 17 us, a level each 10 us.
    let rising: Vec<_> =
        (0..60).filter_map(|_| host.sample(10).map(|rate| (host.now.0 / 1_000_000, rate))).collect();
    assert_eq!(rising, [(17, 120_000), (27, 160_000), (37, 212_000), (47, 265_600)]);
    assert_eq!(host.receiver.level(), 0);
}

#[test]
fn a_level_takes_effect_when_it_is_written() {
    let mut p = receiver_parameters();
    p.write_time = Time::from_us(3);
    let mut host = Host::new(p);
    // Decided at 1, 4 and 7 us, in effect 3 us later; what is seen meanwhile decides nothing.
    let seen: Vec<_> = (0..8).map(|_| host.sample(90)).collect();
    assert_eq!(seen, [None, None, None, Some(212_000), None, None, Some(160_000), None]);
}

#[test]
fn impossible_levels_are_refused() {
    let refused = |gbps: &[u64]| {
        let rates: Vec<Rate> = gbps.iter().map(|&gbps| Rate::from_gbps(gbps)).collect();
        FallingRates::try_from(rates).is_err()
    };
    assert!(refused(&[]) && refused(&[10; 17]) && refused(&[10, 20]) && refused(&[10, 10]));
    assert!(!refused(&[10]) && !refused(&[20, 10]));
    let p = receiver_parameters();
    assert_eq!(p.check(), Ok(()));
    let refused = |p: ReceiverParameters| p.check().unwrap_err().field;
    assert_eq!(refused(ReceiverParameters { levels: [Rate(1), Rate(0)].into(), ..p }), "levels");
    assert_eq!(refused(ReceiverParameters { iio_clock_mhz: 0, ..p }), "iio_clock_mhz");
    assert_eq!(refused(ReceiverParameters { iio_threshold: f64::NAN, ..p }), "iio_threshold");
}

/// A receiving host in simulated time: the data path holds what its credits allow, a line in it waits for those before
/// it, and what does not fit waits in the NIC, where no probe sees it.
struct Path {
    /// Bytes a ns that memory takes.
    bytes_per_ns: f64,
    waiting: f64,
}

/// Bytes that credits let into the path: 900 ns at 4.75 GB/s, which is the paper's 62 % less than 100 Gbit/s.
const CREDIT_BYTES: f64 = 4275.0;

impl Path {
    /// Takes what senders sent in a microsecond; how much went through, and what a probe now sees.
    fn step(&mut self, sent: f64) -> (f64, Time) {
        self.waiting += sent;
        let through = self.waiting.min(self.bytes_per_ns * 1e3);
        self.waiting -= through;
        let inside = self.waiting.min(CREDIT_BYTES);
        (through, Time(((IDLE_NS as f64 + inside / self.bytes_per_ns) * 1e3) as u64))
    }
}

/// Senders on one path for `us` microseconds, their answers a round trip of 5 us late. Throughput in bytes a ns over the
/// second half, mean bytes waiting there, and the bytes that each sender sent.
fn share(p: &SenderParameters, starts: &[f64], bytes_per_ns: f64, us: usize) -> (f64, f64, Vec<f64>) {
    let mut senders: Vec<Sender> = starts.iter().map(|_| Sender::new(p)).collect();
    let mut begun = vec![false; starts.len()];
    let mut path = Path { bytes_per_ns, waiting: 0.0 };
    let (mut through, mut waiting, mut sent) = (0.0, 0.0, vec![0.0; starts.len()]);
    let mut answers: Vec<(usize, usize, Time)> = Vec::new();
    for step in 0..us {
        let now = Time::from_us(step as u64);
        answers.retain(|&(due, sender, delay)| {
            if due == step {
                senders[sender].on_probe_answer(p, delay);
            }
            due != step
        });
        let mut probing = Vec::new();
        let mut offered = 0.0;
        for (index, sender) in senders.iter_mut().enumerate() {
            begun[index] |= step as f64 >= starts[index];
            if !begun[index] {
                continue;
            }
            let bytes =
                sender.limit(p.line_rate.0 as f64 / begun.iter().filter(|b| **b).count() as f64) / 8e6;
            offered += bytes;
            if step >= us / 2 {
                sent[index] += bytes;
            }
            if self::sent(sender, p, now, bytes as u64) || due(sender, p, now) {
                probing.push(index);
            }
        }
        let (taken, delay) = path.step(offered);
        answers.extend(probing.into_iter().map(|sender| (step + 5, sender, delay)));
        if step >= us / 2 {
            through += taken;
            waiting += path.waiting;
        }
    }
    let half = (us - us / 2) as f64;
    (through / half / 1e3, waiting / half, sent)
}

/// One sender on a path that takes 38 Gbit/s, what the paper measured under load.
#[test]
fn one_sender_finds_what_memory_takes() {
    let (through, waiting, _) = share(&parameters(), &[0.0], 4.75, 100_000);
    println!("equation 1: {:.3} of the path, {waiting:.0} B wait", through / 4.75);
    assert!(through / 4.75 > 0.95, "{through}");
    // D_thr is 80 ns above the idle delay: 80 ns * 4.75 B/ns = 380 B.
    assert!((250.0..450.0).contains(&waiting), "{waiting}");
}

/// The paper says that RHCC gives max-min fair shares. Equation (1) multiplies every sender's rate by the same factor, so
/// it keeps the shares that there are; and a faster sender, which probes more often, moves more often.
#[test]
fn equation_1_does_not_make_senders_equal() {
    let (through, _, sent) = share(&parameters(), &[0.0, 1000.0], 4.75, 100_000);
    let ratio = sent[0].min(sent[1]) / sent[0].max(sent[1]);
    println!("equation 1, two senders: {:.3} of the path, shares {ratio:.3} to 1", through / 4.75);
    assert!(through / 4.75 > 0.95, "{through}");
    assert!(ratio < 0.2, "{ratio}");
}

/// Additive increase does, and pays with a part of the path.
#[test]
fn aimd_makes_senders_equal_and_wastes_a_part() {
    let p = SenderParameters { law: Law::Aimd { additive: 40e6, decrease: 0.5 }, ..parameters() };
    let (through, _, sent) = share(&p, &[0.0, 1000.0], 4.75, 100_000);
    let ratio = sent[0].min(sent[1]) / sent[0].max(sent[1]);
    println!("AIMD, two senders: {:.3} of the path, shares {ratio:.3} to 1", through / 4.75);
    assert!(ratio > 0.85, "{ratio}");
    assert!(through / 4.75 < 0.85, "{through}");
}

proptest! {
    /// Whatever the answers, the rate is between floor and line; a longer delay never gives a higher rate.
    #[test]
    fn the_rate_never_leaves_its_bounds(
        delays in prop::collection::vec(0..10_000_000_000u64, 1..100), last in any::<u64>(), more in any::<u64>(),
        alpha in 0.0..1.0f64, beta in 0.0..1.0f64, aimd in any::<bool>(), floor in 1.0..100e9f64,
    ) {
        let law = if aimd { Law::Aimd { additive: beta * 1e9, decrease: alpha } } else { Law::Pid { alpha, beta } };
        let p = SenderParameters { law, floor, ..parameters() };
        let mut sender = Sender::new(&p);
        for delay in delays {
            sender.on_probe_answer(&p, Time(delay));
            prop_assert!(sender.rate() >= floor && sender.rate() <= 100e9, "{}", sender.rate());
        }
        let mut slower = sender.clone();
        sender.on_probe_answer(&p, Time(last));
        slower.on_probe_answer(&p, Time(last.saturating_add(more)));
        prop_assert!(slower.rate() <= sender.rate());
    }

    /// From wherever it is, an idle receiver brings the line rate back: the floor is no trap.
    #[test]
    fn the_floor_is_no_trap(delays in prop::collection::vec(0..100_000u64, 0..50), idle in 0..199u64) {
        let p = parameters();
        let mut sender = fed(&p, &delays);
        // At least 2 ns below the threshold, 0.001 a probe: ln(1000) / ln(1.001) = 6,911, and one for the first, whose
        // difference may point down.
        for _ in 0..6_912 {
            sender.on_probe_answer(&p, Time::from_ns(idle));
        }
        prop_assert_eq!(sender.rate(), 100e9);
    }

    /// Data is probed at one packet in each `probe_bytes`, whatever the packets' sizes.
    #[test]
    fn probes_keep_count(packets in prop::collection::vec(1..4096u64, 1..400), probe_bytes in 4096..100_000u64) {
        let p = SenderParameters { probe_bytes, ..parameters() };
        let mut sender = Sender::new(&p);
        let probes = packets.iter().filter(|&&bytes| sent(&mut sender, &p, Time::ZERO, bytes)).count() as u64;
        prop_assert_eq!(probes, packets.iter().sum::<u64>() / probe_bytes);
    }

    /// Whatever the counter says, levels change one at a time, never faster than they are written, and upwards never
    /// within the interval of the last congested sample.
    #[test]
    fn levels_change_one_at_a_time(
        lines in prop::collection::vec(0..100u64, 1..300), write_us in 0..5u64, raise_us in 1..20u64,
    ) {
        let mut p = receiver_parameters();
        p.write_time = Time::from_us(write_us);
        p.raise_interval = Time::from_us(raise_us);
        let levels = p.levels;
        let mut host = Host::new(p);
        let (mut level, mut changed_at) = (0usize, None::<Time>);
        let mut congested: Vec<Time> = Vec::new();
        for lines in lines {
            let changed = host.sample(lines);
            if lines > 39 {
                congested.push(host.now);
            }
            if let Some(rate) = changed {
                let new = host.receiver.level();
                prop_assert_eq!(levels[new].0 / 1_000_000, rate);
                prop_assert_eq!(new.abs_diff(level), 1);
                // It was decided a write earlier.
                let decided = host.now - Time::from_us(write_us);
                prop_assert!(changed_at.is_none_or(|changed| changed <= decided));
                let before = congested.iter().rev().find(|&&at| at <= decided);
                if new < level {
                    prop_assert!(before.is_none_or(|&at| decided >= at + Time::from_us(raise_us)));
                } else {
                    prop_assert_eq!(before, Some(&decided));
                }
                (level, changed_at) = (new, Some(host.now));
            }
            prop_assert_eq!(host.receiver.level(), level);
        }
    }
}
