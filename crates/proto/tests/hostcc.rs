//! hostCC against its authors' module: worked examples with the arithmetic shown, and its rules under any input.

use proptest::prelude::*;
use tailback_proto::congestion::host::{HostCc, HostCcParameters};
use tailback_proto::parameters::Declared;
use tailback_proto::units::{Rate, Time};

/// The module's constants.
fn parameters() -> HostCcParameters {
    HostCcParameters {
        sample_interval: Time::from_us(1),
        iio_clock_mhz: 500,
        iio_threshold: 70.0,
        iio_weight: 1.0 / 8.0,
        pcie_threshold: Rate::from_gbps(84),
        pcie_weight: 1.0 / 256.0,
        levels: [200, 140, 80, 20, 1].map(Rate::from_gbps).into(),
        write_time: Time::ZERO,
        raise_interval: Time::from_us(150),
        mark: true,
    }
}

/// Counters read each microsecond: 500 cycles of the IIO, and a Gbit/s is 125 B.
struct Host {
    p: HostCcParameters,
    cc: HostCc,
    now: Time,
    iio: u64,
    pcie: u64,
}

impl Host {
    fn new(p: HostCcParameters) -> Self {
        let mut host = Host { p, cc: HostCc::default(), now: Time::ZERO, iio: 0, pcie: 0 };
        assert_eq!(host.cc.on_sample(&host.p, host.now, 0, 0), None);
        host
    }

    fn sample(&mut self, lines: u64, gbps: u64) -> Option<u64> {
        self.now += Time::from_us(1);
        self.iio += lines * 500;
        self.pcie += gbps * 125;
        self.cc.on_sample(&self.p, self.now, self.iio, self.pcie).map(|rate| rate.0 / 1_000_000_000)
    }
}

fn close(found: f64, expected: f64) {
    assert!((found - expected).abs() <= expected.abs() * 1e-9, "found {found}, expected {expected}");
}

#[test]
fn averages_move_by_their_weights() {
    let mut host = Host::new(parameters());
    host.sample(80, 100);
    close(host.cc.occupancy(), 10.0);
    close(host.cc.bandwidth(), 100e9 / 256.0);
    // 10 + (80 - 10) / 8 = 18.75; 100 * (1 - (255/256)^2).
    host.sample(80, 100);
    close(host.cc.occupancy(), 18.75);
    close(host.cc.bandwidth(), 100e9 * (1.0 - (255.0f64 / 256.0) * (255.0 / 256.0)));
}

#[test]
fn congestion_below_the_promised_bandwidth_takes_levels_and_marks() {
    let mut host = Host::new(parameters());
    // 90 * (1 - (7/8)^n) is above 70 from n = 12 on: 90 * (1 - 0.2014) = 71.9; n = 11 gives 69.3.
    let changes: Vec<_> = (1..=16).filter_map(|n| host.sample(90, 40).map(|level| (n, level))).collect();
    assert_eq!(changes, [(12, 140), (13, 80), (14, 20), (15, 1)]);
    assert!(host.cc.marks());
    // (7/8)^n * 81 is below 70 two samples later at 0 lines: 90 * (1 - 0.1181) = 79.4, then 69.5, 60.8.
    host.sample(0, 40);
    assert!(!host.cc.marks());
}

#[test]
fn with_the_promised_bandwidth_levels_come_back_one_each_150_us() {
    let mut host = Host::new(parameters());
    for _ in 0..16 {
        host.sample(90, 40);
    }
    assert_eq!(host.cc.level(), 4);
    let rising: Vec<_> =
        (0..1500).filter_map(|_| host.sample(60, 95).map(|level| (host.now.0 / 1_000_000, level))).collect();
    let times: Vec<_> = rising.iter().map(|(at, _)| *at).collect();
    assert_eq!(rising.iter().map(|(_, level)| *level).collect::<Vec<_>>(), [20, 80, 140, 200]);
    assert!(times.windows(2).all(|pair| pair[1] - pair[0] == 150), "{times:?}");
    // The bandwidth, from 40 * (1 - (255/256)^16) = 2.43, passes 84 when 92.57 * (255/256)^n < 11: n = 545.
    assert_eq!(times[0], 16 + 545);
}

/// The two cases in which the signals disagree.
#[test]
fn disagreeing_signals_change_nothing() {
    // A full buffer while the network has what it was promised: marks, no level.
    let mut p = parameters();
    (p.iio_weight, p.pcie_weight) = (1.0, 1.0);
    let mut host = Host::new(p);
    assert_eq!((0..100).find_map(|_| host.sample(90, 90)), None);
    assert!(host.cc.marks());
    // Once a level down: little traffic and an empty buffer leave it there.
    assert_eq!(host.sample(90, 50), Some(140));
    assert_eq!((0..1000).find_map(|_| host.sample(20, 10)), None);
    assert!(!host.cc.marks());
    assert_eq!(host.cc.level(), 1);
}

#[test]
fn marking_can_be_off() {
    let mut host = Host::new(HostCcParameters { mark: false, ..parameters() });
    for _ in 0..50 {
        host.sample(90, 40);
    }
    assert!(host.cc.occupancy() > 70.0 && !host.cc.marks());
}

#[test]
fn impossible_parameters_are_named() {
    let p = parameters();
    assert_eq!(p.check(), Ok(()));
    let refused = |p: HostCcParameters| p.check().unwrap_err().field;
    assert_eq!(refused(HostCcParameters { iio_weight: 0.0, ..p }), "iio_weight");
    assert_eq!(refused(HostCcParameters { pcie_weight: 1.1, ..p }), "pcie_weight");
    assert_eq!(refused(HostCcParameters { iio_threshold: -1.0, ..p }), "iio_threshold");
    assert_eq!(refused(HostCcParameters { iio_clock_mhz: 0, ..p }), "iio_clock_mhz");
}

proptest! {
    /// Averages stay within what was seen, marks follow the occupancy alone, and a level goes down only with both
    /// signals bad, up only with both good.
    #[test]
    fn the_rules_hold_for_any_readings(
        readings in prop::collection::vec((0..100u64, 0..130u64), 1..400), write_us in 0..4u64,
    ) {
        let mut p = parameters();
        p.pcie_weight = 1.0 / 4.0;
        p.write_time = Time::from_us(write_us);
        p.raise_interval = Time::from_us(10);
        let mut host = Host::new(p);
        let mut signals = Vec::new();
        let mut level = 0;
        for (lines, gbps) in readings {
            let changed = host.sample(lines, gbps).is_some();
            prop_assert!((0.0..=99.0).contains(&host.cc.occupancy()));
            prop_assert!((0.0..=129e9).contains(&host.cc.bandwidth()));
            prop_assert_eq!(host.cc.marks(), host.cc.occupancy() > 70.0);
            signals.push((host.cc.occupancy(), host.cc.bandwidth()));
            prop_assert_eq!(changed, host.cc.level() != level);
            if changed {
                let (occupancy, bandwidth) = signals[signals.len() - 1 - write_us as usize];
                if host.cc.level() > level {
                    prop_assert!(occupancy > 70.0 && bandwidth < 84e9);
                } else {
                    prop_assert!(occupancy < 70.0 && bandwidth > 84e9);
                }
                level = host.cc.level();
            }
        }
    }
}
