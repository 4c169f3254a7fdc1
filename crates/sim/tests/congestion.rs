//! Controllers in the whole system: sixteen senders, one receiver, one switch, at 100 Gbit/s.

mod common;

use common::fabric::FatTree;
use common::*;
use proptest::prelude::*;
use tailback_proto::congestion::dctcp::DctcpParameters;
use tailback_proto::congestion::hpcc::HpccParameters;
use tailback_proto::congestion::parameters::RoundTrip;
use tailback_proto::congestion::timely::TimelyParameters;
use tailback_proto::units::{Bytes, Rate, Time};
use tailback_sim::plan::*;
use tailback_sim::record::Recording;
use tailback_sim::Simulation;

fn hpcc() -> HpccParameters {
    HpccParameters { base_rtt: RoundTrip(Time(13 * US)), ..Default::default() }
}

fn timely() -> TimelyParameters {
    TimelyParameters::default()
}

fn dctcp() -> DctcpParameters {
    DctcpParameters { window_rtt: Some(RoundTrip(Time(13 * US))), ..Default::default() }
}

/// A queue pair of long messages from each of `senders` hosts.
fn long_incast(senders: usize, congestion: CongestionPlan) -> Plan {
    let mut plan = star(senders + 1);
    plan.writers = (0..senders).map(|src| writer(src, senders, 1)).collect();
    for (index, writer) in plan.writers.iter_mut().enumerate() {
        writer.message = Bytes(1 << 20);
        writer.depth = 4;
        writer.start = Time(index as u64 * US);
    }
    plan.nics[0].transport.ack_every = 1;
    plan.nics[0].congestion = vec![congestion];
    plan.run.duration = Time(20 * MS);
    plan
}

/// The mean of a series over the second half of the run, and its largest value there.
fn second_half(recording: &Recording, entity: &str, quantity: &str) -> (f64, f64) {
    let series = &recording.series;
    let index = series.entities.iter().position(|name| name == entity).expect(entity);
    let column = series.columns().find(|(of, name, _)| (*of, &**name) == (index, quantity)).expect(quantity);
    let half = &column.2[series.bins / 2..series.bins];
    (half.iter().sum::<f64>() / half.len() as f64, half.iter().fold(0.0, |a, &b| f64::max(a, b)))
}

fn fairness(recording: &Recording) -> f64 {
    let rates: Vec<f64> = recording.flows.iter().map(|flow| flow.goodput_bps).collect();
    let (sum, squares) = (rates.iter().sum::<f64>(), rates.iter().map(|r| r * r).sum::<f64>());
    sum * sum / (rates.len() as f64 * squares)
}

/// Li et al., SIGCOMM 2019: near-zero queues with the link at eta.
#[test]
fn hpcc_runs_the_link_at_eta_with_hardly_a_queue() {
    let recording = run(long_incast(16, CongestionPlan::Hpcc(hpcc())));
    let (wire, _) = second_half(&recording, "h16", "wire_rx_bps");
    let (mean, _) = second_half(&recording, "sw0:h16/tc3", "queue_mean_bytes");
    let (_, max) = second_half(&recording, "sw0:h16/tc3", "queue_max_bytes");
    println!(
        "HPCC: {:.2} Gbit/s, queue {mean:.0} B, at most {max} B, fairness {:.4}",
        wire / 1e9,
        fairness(&recording)
    );
    // eta, and N * W_AI over the bytes of T: 16 * 80 / 162,500 = 0.8 %.
    assert!((94e9..97e9).contains(&wire), "{wire}");
    // Packets of 1,128 B: one or two on average, less than one of each sender at most.
    assert!(mean < 2.0 * 1128.0, "{mean}");
    assert!(max < 16.0 * 1128.0, "{max}");
    assert!(fairness(&recording) > 0.99, "{}", fairness(&recording));
    assert_eq!(total(&recording, "np_cnp_sent"), 0);
}

/// Measures of the second half of an incast of sixteen under TIMELY.
struct TimelySeen {
    /// Share of the receiver's link, on the wire.
    utilisation: f64,
    /// Round-trip times that the senders went by, sorted: the last of each bin of each, us.
    rtts: Vec<f64>,
    /// Share of them between T_low and T_high.
    between: f64,
    fairness: f64,
}

impl TimelySeen {
    fn rtt(&self, q: f64) -> f64 {
        self.rtts[((self.rtts.len() - 1) as f64 * q) as usize]
    }
}

fn timely_incast(gbps: u64, segment_bytes: u64, duration_ps: u64) -> TimelySeen {
    let settings = TimelyParameters { segment: Bytes(segment_bytes), ..timely() };
    let (t_low, t_high) = (settings.t_low.0 as f64 / 1e6, settings.t_high.0 as f64 / 1e6);
    let mut plan = long_incast(16, CongestionPlan::Timely(settings));
    plan.nics[0].transport.ack_every = 16;
    for link in &mut plan.links {
        link.rate = Rate(gbps * 1_000_000_000);
    }
    plan.run.duration = Time(duration_ps);
    let recording = run(plan);
    let series = &recording.series;
    let samples = series.columns().filter(|(_, name, _)| *name == "rtt_ps");
    let mut rtts: Vec<f64> = samples
        .flat_map(|(_, _, values)| &values[series.bins / 2..series.bins])
        .map(|&rtt| rtt / 1e6)
        .collect();
    assert!(rtts.len() > 16 * 300, "{} samples", rtts.len());
    rtts.sort_unstable_by(f64::total_cmp);
    let between = rtts.iter().filter(|&rtt| (t_low..=t_high).contains(rtt)).count() as f64;
    let seen = TimelySeen {
        utilisation: second_half(&recording, "h16", "wire_rx_bps").0 / (gbps as f64 * 1e9),
        between: between / rtts.len() as f64,
        rtts,
        fairness: fairness(&recording),
    };
    println!(
        "TIMELY, {gbps} Gbit/s, segments of {segment_bytes} B: {:.3} of the link, RTT mean {:.1} us, 1 % {:.1}, 50 % {:.1}, \
         99 % {:.1}, most {:.1}; {:.3} between the thresholds, fairness {:.4}",
        seen.utilisation,
        seen.rtts.iter().sum::<f64>() / seen.rtts.len() as f64,
        seen.rtt(0.01),
        seen.rtt(0.5),
        seen.rtt(0.99),
        seen.rtt(1.0),
        seen.between,
        seen.fairness
    );
    seen
}

/// Mittal et al., SIGCOMM 2015, at its link rate and its segment: the RTT stays around T_low, most of the time between
/// the thresholds and never above T_high, with the link nearly full. Where packets are paced and not segments, it does
/// not.
#[test]
fn timely_with_bursts_holds_the_rtt_between_its_thresholds_at_10_gbit() {
    let bursts = timely_incast(10, 16_000, 400 * MS);
    assert!(bursts.utilisation > 0.95, "{}", bursts.utilisation);
    assert!(bursts.between > 0.5, "{}", bursts.between);
    assert!((50.0..65.0).contains(&bursts.rtt(0.5)), "{}", bursts.rtt(0.5));
    assert!((100.0..150.0).contains(&bursts.rtt(0.99)), "{}", bursts.rtt(0.99));
    assert!(bursts.rtt(1.0) < 500.0, "{}", bursts.rtt(1.0));
    assert!(bursts.fairness > 0.99, "{}", bursts.fairness);
    let packets = timely_incast(10, 0, 400 * MS);
    assert!(packets.between < 0.4, "{}", packets.between);
}

/// At ten times that rate T_low is far above what sixteen segments take on the link: all senders grow until the RTT
/// crosses it, fall together, and the queue is empty. Only peaks are above T_low.
#[test]
fn timely_reaches_t_low_only_with_its_peaks_at_100_gbit() {
    let seen = timely_incast(100, 16_000, 120 * MS);
    assert!(seen.utilisation > 0.88, "{}", seen.utilisation);
    assert!(seen.between < 0.15, "{}", seen.between);
    assert!(seen.rtt(0.5) < 25.0, "{}", seen.rtt(0.5));
    assert!((50.0..100.0).contains(&seen.rtt(1.0)), "{}", seen.rtt(1.0));
    assert!(seen.fairness > 0.9, "{}", seen.fairness);
}

/// A burst of a flow alone goes out at line rate, and is all that is paced: ACKs come at its end, and its RTT is the
/// path's, without the burst's own time.
#[test]
fn a_burst_goes_out_at_line_rate_and_its_rtt_is_the_paths() {
    let mut plan = star(2);
    plan.nics[0].transport.ack_every = 65_536;
    plan.nics[0].congestion =
        vec![CongestionPlan::Timely(TimelyParameters { segment: Bytes(4096), ..timely() })];
    plan.writers = vec![writer(0, 1, 1)];
    (plan.writers[0].message, plan.writers[0].depth) = (Bytes(1 << 20), 1);
    plan.run.duration = Time(MS);
    let recording = run(plan);
    let rtts = &recording.series.columns().find(|(_, name, _)| *name == "rtt_ps").unwrap().2;
    // Data of 1,130 B over the second link, or 1,146 B of a first packet, which waits there for none; its ACK of 94 B over
    // two: 80 ps a byte; four links of 500 ns and four latencies of 300 ns.
    let path = ((1130 + 2 * 94) * 80 + 4 * 500_000 + 4 * 300_000) as f64;
    assert!(rtts.len() > 100);
    for &rtt in &rtts[10..] {
        assert!((path..path + 16.0 * 80.0 + 4.0).contains(&rtt), "{rtt}, path {path}");
    }
}

/// Alizadeh et al., SIGCOMM 2010, section 3.3: the queue swings below K + N packets, and the link is full.
#[test]
fn dctcp_holds_the_queue_at_k() {
    const K: u64 = 300_000;
    let mut plan = long_incast(16, CongestionPlan::Dctcp(dctcp()));
    plan.switch_models[0].ecn = vec![ecn(None, K)];
    let recording = run(plan);
    let (wire, _) = second_half(&recording, "h16", "wire_rx_bps");
    let (mean, _) = second_half(&recording, "sw0:h16/tc3", "queue_mean_bytes");
    let (_, max) = second_half(&recording, "sw0:h16/tc3", "queue_max_bytes");
    println!(
        "DCTCP: {:.2} Gbit/s, queue {mean:.0} B, at most {max} B, fairness {:.4}",
        wire / 1e9,
        fairness(&recording)
    );
    assert!(wire > 99.9e9, "{wire}");
    assert!((mean / K as f64 - 1.0).abs() < 0.05, "{mean}");
    assert!(max < (K + 16 * 1086) as f64, "{max}");
    assert_eq!(total(&recording, "np_cnp_sent"), 0);
    assert!(total(&recording, "np_ecn_marked_roce_packets") > 0);
}

/// A flow alone under HPCC takes eta of its path, whichever of five switches is the most loaded: all tell of themselves.
#[test]
fn hpcc_hears_of_every_switch_on_the_path() {
    let mut plan = FatTree::k_ary(4).plan();
    plan.nics[0].transport.ack_every = 1;
    // Six links of 1 us and five switches, there and back, take 16 us: T must not be below.
    plan.nics[0].congestion =
        vec![CongestionPlan::Hpcc(HpccParameters { base_rtt: RoundTrip(Time(18 * US)), ..hpcc() })];
    plan.flows.items = vec!["alone".into()];
    plan.flows.list = vec![serde_json::from_str("[0, 15, 0, 3, 10000000, 0]").unwrap()];
    plan.run.duration = Time(100 * MS);
    let sender = plan.hosts[0].name.clone();
    // One link of the path after the other has a quarter of the rate; the path's other links come in equal pairs.
    let mut slow_hops = 0;
    for slow in [None].into_iter().chain((0..plan.links.len()).map(Some)) {
        let mut slowed = plan.clone();
        if let Some(slow) = slow {
            slowed.links[slow].rate.0 /= 4;
        }
        let recording = run(slowed);
        let flow = &recording.flows[0];
        let slowdown = flow.fct_ps.unwrap() as f64 / flow.ideal_fct_ps.unwrap() as f64;
        slow_hops += (flow.ideal_fct_ps.unwrap() > 1500 * US) as u32;
        // The first link is the sender's own: no switch tells of it, and the NIC cannot overrun it.
        let own = slow.is_some_and(|slow| [&plan.links[slow].a, &plan.links[slow].b].contains(&&sender));
        let expected = if own { 0.99..1.01 } else { 1.04..1.07 };
        assert!(expected.contains(&slowdown), "{slow:?}: {slowdown}");
    }
    assert_eq!(slow_hops, 6, "the path has six links");
}

/// Bytes of telemetry are on the wire, and in the ideal completion time: a message alone takes exactly that.
#[test]
fn telemetry_takes_its_bytes_on_the_wire() {
    let mut plan = star(2);
    plan.nics[0].transport.ack_every = 1;
    plan.nics[0].congestion = vec![CongestionPlan::Hpcc(hpcc())];
    plan.flows.items = vec!["one".into()];
    plan.flows.list = vec![serde_json::from_str("[0, 1, 0, 3, 1024, 0]").unwrap()];
    let recording = run(plan);
    // 1,024 + 98 + 42 B of data and 86 + 42 B of ACK, each over two links: 1,164 and 128 B at 80 ps.
    let expected = 2 * (1164 + 128) * 80 + 4 * 500_000 + 4 * 300_000;
    assert_eq!(recording.flows[0].fct_ps, Some(expected));
    assert_eq!(recording.flows[0].ideal_fct_ps, Some(expected));
}

#[test]
fn impossible_settings_name_their_place() {
    let refuse = |congestion, ack_every| {
        let mut plan = long_incast(2, congestion);
        plan.nics[0].transport.ack_every = ack_every;
        plan.check().err().or_else(|| Simulation::new(plan).err()).expect("refused").to_string()
    };
    assert!(refuse(CongestionPlan::Hpcc(HpccParameters { eta: 0.0, ..hpcc() }), 1)
        .contains("nics[0].congestion: eta"));
    assert!(refuse(CongestionPlan::Timely(TimelyParameters { alpha: 2.0, ..timely() }), 1).contains("alpha"));
    assert!(refuse(CongestionPlan::Dctcp(DctcpParameters { min_rate: Rate(0), ..dctcp() }), 1)
        .contains("min_rate"));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Whatever is lost and however small the window, every message arrives, and the same seed gives the same run.
    #[test]
    fn every_message_arrives_under_every_controller(
        kind in 0..3, senders in 1usize..5, loss in prop_oneof![Just(0.0), 0.0f64..0.02], seed in 0..=i64::MAX as u64,
        rtt_us in 0u64..20, bytes in 1u64..200_000, ack_every in 1u32..32, lossless in any::<bool>(),
    ) {
        let rtt = RoundTrip(Time(rtt_us * US + 1));
        let mut plan = long_incast(senders, match kind {
            0 => CongestionPlan::Hpcc(HpccParameters { base_rtt: rtt, ..hpcc() }),
            1 => CongestionPlan::Timely(TimelyParameters { segment: Bytes(rtt_us * 1000), ..timely() }),
            _ => CongestionPlan::Dctcp(DctcpParameters { window_rtt: Some(rtt), ..dctcp() }),
        });
        plan.run.seed = seed;
        if kind == 1 {
            plan.nics[0].transport.ack_every = ack_every;
        }
        if !lossless {
            plan.switch_models[0].lossless.clear();
        }
        for link in &mut plan.links {
            link.loss = loss;
        }
        for writer in &mut plan.writers {
            (writer.message, writer.messages) = (Bytes(bytes), Some(6));
        }
        plan.run.duration = Time(60_000 * MS);
        let first = run(plan.clone());
        prop_assert!(first.meta.complete);
        for flow in &first.flows {
            prop_assert_eq!(flow.messages_completed, 6, "{:?}", flow);
            prop_assert_eq!(flow.bytes_delivered, 6 * bytes);
        }
        let again = run(plan);
        prop_assert_eq!(format!("{:?}", first.flows), format!("{:?}", again.flows));
    }
}
