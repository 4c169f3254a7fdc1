//! Controllers in the whole system: sixteen senders, one receiver, one switch, at 100 Gbit/s.

mod common;

use common::fabric::FatTree;
use common::*;
use proptest::prelude::*;
use tailback_sim::plan::*;
use tailback_sim::record::Recording;
use tailback_sim::Simulation;

fn hpcc() -> HpccPlan {
    HpccPlan {
        base_rtt_ps: 13 * US,
        eta: 0.95,
        max_stage: 5,
        additive_bytes: 80,
        min_rate_bps: 100_000_000,
        telemetry_bytes: 42,
    }
}

fn timely() -> TimelyPlan {
    TimelyPlan {
        alpha: 0.875,
        beta: 0.8,
        additive_bps: 10_000_000,
        hyper_additive_bps: 50_000_000,
        hyper_after: 5,
        t_low_ps: 50 * US,
        t_high_ps: 500 * US,
        min_rtt_ps: 20 * US,
        segment_bytes: 16_000,
        min_rate_bps: 100_000_000,
        telemetry_bytes: 8,
    }
}

fn dctcp() -> DctcpPlan {
    DctcpPlan {
        g: 1.0 / 16.0,
        additive_bps: 615_000_000,
        min_rate_bps: 100_000_000,
        window_rtt_ps: Some(13 * US),
    }
}

/// A queue pair of long messages from each of `senders` hosts.
fn long_incast(senders: usize, congestion: CongestionPlan) -> Plan {
    let mut plan = star(senders + 1);
    plan.writers = (0..senders).map(|src| writer(src, senders, 1)).collect();
    for (index, writer) in plan.writers.iter_mut().enumerate() {
        writer.message_bytes = 1 << 20;
        writer.tx_depth = 4;
        writer.start_ps = index as u64 * US;
    }
    plan.nics[0].transport.ack_every_packets = 1;
    plan.nics[0].congestion = congestion;
    plan.duration_ps = 20 * MS;
    plan
}

/// The mean of a series over the second half of the run, and its largest value there.
fn second_half(recording: &Recording, entity: &str, quantity: &str) -> (f64, f64) {
    let series = &recording.series;
    let index = series.entities.iter().position(|name| name == entity).expect(entity);
    let column =
        series.columns.iter().find(|(of, name, _)| (*of, *name) == (index, quantity)).expect(quantity);
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

/// Mittal et al., SIGCOMM 2015: the RTT's peaks stay between T_low and T_high. The way there takes 50 ms: all senders
/// fall to their lowest rate at first, and delta is 10 Mbit/s.
#[test]
fn timely_holds_the_peaks_of_the_rtt_just_above_t_low() {
    let mut plan = long_incast(16, CongestionPlan::Timely(timely()));
    plan.duration_ps = 120 * MS;
    let recording = run(plan);
    let (wire, _) = second_half(&recording, "h16", "wire_rx_bps");
    let (mean, _) = second_half(&recording, "sw0:h16/tc3", "queue_mean_bytes");
    let (_, max) = second_half(&recording, "sw0:h16/tc3", "queue_max_bytes");
    // Without queues: data 2 * 1,130 B at 80 ps, ACK 2 * 94 B, four links of 500 ns, four latencies of 300 ns.
    let rtt_us = |queue: f64| (2.0 * (1130.0 + 94.0) * 80.0 + 3_200_000.0 + queue * 80.0) / 1e6;
    println!(
        "TIMELY: {:.2} Gbit/s, RTT {:.1} us, at most {:.1} us, fairness {:.4}",
        wire / 1e9,
        rtt_us(mean),
        rtt_us(max),
        fairness(&recording)
    );
    assert!(wire > 88e9, "{wire}");
    assert!((50.0..100.0).contains(&rtt_us(max)), "{}", rtt_us(max));
    assert!(fairness(&recording) > 0.95, "{}", fairness(&recording));
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
    plan.nics[0].transport.ack_every_packets = 1;
    // Six links of 1 us and five switches, there and back, take 16 us: T must not be below.
    plan.nics[0].congestion = CongestionPlan::Hpcc(HpccPlan { base_rtt_ps: 18 * US, ..hpcc() });
    plan.flows.tags = vec!["alone".into()];
    plan.flows.list = vec![serde_json::from_str("[0, 15, 0, 3, 10000000, 0]").unwrap()];
    plan.duration_ps = 100 * MS;
    let sender = plan.hosts[0].name.clone();
    // One link of the path after the other has a quarter of the rate; the path's other links come in equal pairs.
    let mut slow_hops = 0;
    for slow in [None].into_iter().chain((0..plan.links.len()).map(Some)) {
        let mut slowed = plan.clone();
        if let Some(slow) = slow {
            slowed.links[slow].rate_bps /= 4;
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

/// What telemetry adds is on the wire, and in the ideal completion time: a message alone takes exactly that.
#[test]
fn telemetry_takes_its_bytes_on_the_wire() {
    let mut plan = star(2);
    plan.nics[0].transport.ack_every_packets = 1;
    plan.nics[0].congestion = CongestionPlan::Hpcc(hpcc());
    plan.flows.tags = vec!["one".into()];
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
        plan.nics[0].transport.ack_every_packets = ack_every;
        plan.check().err().or_else(|| Simulation::new(plan).err()).expect("refused").to_string()
    };
    assert!(refuse(CongestionPlan::Hpcc(hpcc()), 16).contains("ack_every_packets"));
    assert!(
        refuse(CongestionPlan::Hpcc(HpccPlan { eta: 0.0, ..hpcc() }), 1).contains("nics[0].congestion: eta")
    );
    assert!(refuse(CongestionPlan::Timely(TimelyPlan { alpha: 2.0, ..timely() }), 1).contains("alpha"));
    assert!(refuse(CongestionPlan::Dctcp(DctcpPlan { min_rate_bps: 0, ..dctcp() }), 1).contains("min_rate"));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Whatever is lost and however small the window, every message arrives, and the same seed gives the same run.
    #[test]
    fn every_message_arrives_under_every_controller(
        kind in 0..3, senders in 1usize..5, loss in prop_oneof![Just(0.0), 0.0f64..0.02], seed in any::<u64>(),
        rtt_us in 0u64..20, bytes in 1u64..200_000, ack_every in 1u32..32, lossless in any::<bool>(),
    ) {
        let rtt_ps = rtt_us * US + 1;
        let mut plan = long_incast(senders, match kind {
            0 => CongestionPlan::Hpcc(HpccPlan { base_rtt_ps: rtt_ps, ..hpcc() }),
            1 => CongestionPlan::Timely(TimelyPlan { segment_bytes: rtt_us * 1000, ..timely() }),
            _ => CongestionPlan::Dctcp(DctcpPlan { window_rtt_ps: Some(rtt_ps), ..dctcp() }),
        });
        plan.seed = seed;
        if kind == 1 {
            plan.nics[0].transport.ack_every_packets = ack_every;
        }
        if !lossless {
            plan.switch_models[0].lossless.clear();
        }
        for link in &mut plan.links {
            link.loss = loss;
        }
        for writer in &mut plan.writers {
            (writer.message_bytes, writer.messages) = (bytes, Some(6));
        }
        plan.duration_ps = 60_000 * MS;
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
