//! The HPCC profile against results of the simulator itself: equal, not similar.

#[path = "common/hpcc.rs"]
mod common;

use common::*;
use std::collections::HashMap;
use tailback_compat::hpcc::cc::dcqcn::{Parameters, ReactionPoint};
use tailback_compat::hpcc::plan::{Cc, Flow};
use tailback_compat::hpcc::{fct_text, HpccSimulation};

/// Asserts that two texts are equal and names the first line that is not.
fn assert_same(case: &str, file: &str, ours: &str, theirs: &str) {
    for (number, (our, their)) in ours.lines().zip(theirs.lines()).enumerate() {
        assert_eq!(our, their, "{case}/{file}, line {}", number + 1);
    }
    assert_eq!(ours.lines().count(), theirs.lines().count(), "{case}/{file}: lines");
}

fn assert_equal(case: &str, files: &[&str]) {
    let recording = run(&plan(case));
    let t = recording.totals;
    for file in files {
        let ours = if *file == "pfc.txt" { pfc_text(&recording) } else { fct_text(&recording.fct) };
        assert_same(case, file, &ours, &text(case, file));
    }
    for (name, value) in [
        ("tx_host_data", t.host_data),
        ("tx_host_ack", t.host_ack),
        ("tx_host_nack", t.host_nack),
        ("tx_switch_data", t.switch_data),
        ("tx_switch_ack", t.switch_ack),
        ("tx_switch_nack", t.switch_nack),
        ("tx_switch_pfc", t.switch_pfc),
        ("packet_hops_total", t.packet_hops),
        ("byte_hops_total", t.byte_hops),
        ("ecn_marked", t.ecn_marked),
        ("ecn_random_draws", t.ecn_random_draws),
        ("cnp_echo_rx", t.cnp_echo_rx),
        ("drops", t.drops),
    ] {
        assert_eq!(value, counted(case, name), "{case}: {name}");
    }
}

#[test]
fn single_flow() {
    assert_equal("single_flow", &["fct.txt"]);
}

/// Serialization times that would be whole nanoseconds.
#[test]
fn rounding() {
    assert_equal("rounding_952", &["fct.txt"]);
    assert_equal("rounding_4048", &["fct.txt"]);
}

/// 2970 PFC frames, no chance.
#[test]
fn incast_with_pfc_only() {
    assert_equal("incast16_4MB_pfconly", &["fct.txt", "pfc.txt"]);
}

#[test]
fn two_flows() {
    assert_equal("two_flows", &["fct.txt"]);
}

#[test]
fn incast_with_dcqcn() {
    assert_equal("incast16_4MB_noqlen", &["fct.txt"]);
}

#[test]
fn incast_with_dcqcn_and_window() {
    assert_equal("incast16_4MB_vwin", &["fct.txt"]);
}

/// 256 queue pairs that never finish.
#[test]
fn many_queue_pairs() {
    assert_equal("qpscale2_128", &["pfc.txt"]);
}

/// 561 messages over five hops, equal-cost routes, ten million packet-hops.
#[test]
fn fat_tree() {
    assert_equal("fatk4_16h_ws50_10ms", &["fct.txt"]);
}

/// The next hops of every node towards every host, and the order in which the hash chooses among them.
#[test]
fn next_hops_are_in_the_order_of_the_simulator() {
    for case in ["two_flows", "incast16_4MB_vwin", "fatk4_16h_ws50_10ms"] {
        let mut simulation = HpccSimulation::new(&plan(case)).expect("the plan is possible");
        let routes = text(case, "routes.txt");
        for line in routes.lines() {
            let mut words = line.split(' ');
            let mut node = || words.next().and_then(|word| word.parse().ok()).expect("a node");
            let (from, to) = (node(), node());
            let ours: Vec<String> =
                simulation.next_hops(from, to).iter().map(|(node, port)| format!("{node}:{port}")).collect();
            assert_eq!(ours, words.collect::<Vec<_>>(), "{case}: from {from} to {to}");
        }
    }
}

/// Every line of the log of rates from the flagged ACKs in it alone: alpha to the last bit, rates to the bit/s.
#[test]
fn the_reaction_point_replays_the_log_of_rates() {
    for case in ["two_flows", "incast16_4MB_vwin"] {
        let plan = plan(case);
        let Cc::Dcqcn(cc) = &plan.cc else { panic!("{case} runs DCQCN") };
        let p = Parameters::from(cc);
        let line_rate = plan.links[0].2;
        // An ACK's last hop: 4 ns to send, 1 us to arrive.
        let hop = 1_004_000;
        let mut points: HashMap<(String, String), ReactionPoint> = HashMap::new();
        let mut lines = 0;
        for line in text(case, "rp_log.txt").lines() {
            let w: Vec<&str> = line.split(' ').collect();
            let now = w[0].parse::<u64>().expect("a time") * 1000;
            let point =
                points.entry((w[2].into(), w[4].into())).or_insert_with(|| ReactionPoint::new(line_rate));
            match w[1] {
                "FIRST" => assert!(point.on_cnp(&p, now, now - hop), "{case}: {line}"),
                "CNP" => assert!(!point.on_cnp(&p, now, now - hop), "{case}: {line}"),
                "DEC" => assert!(point.on_cut_timer(&p, now), "{case}: {line}"),
                "INC" => {
                    point.on_increase_timer(&p, line_rate);
                    point.update_alpha(&p, now);
                }
                other => panic!("event {other}"),
            }
            lines += 1;
            if w[1] == "CNP" {
                continue; // the log has alpha as updated, the point has it as last needed
            }
            let alpha: f64 = w[5].parse().expect("alpha");
            assert_eq!(
                (point.alpha, format!("{} {} {}", point.target, point.rate, point.stage)),
                (alpha, w[6..].join(" ")),
                "{case}: {line}"
            );
        }
        assert!(lines > 500, "{case}");
    }
}

/// What the recording says of a run agrees with that simulator's files, and the books add up.
#[test]
fn the_recording_agrees_with_the_files() {
    let plan = plan("incast16_4MB_pfconly");
    let recording = run(&plan);
    let recorded = &recording.recording;
    let meta = &recorded.meta;
    assert!(meta.complete && meta.conservation.ok, "{:?}", meta.faults);
    assert_eq!(meta.conservation.data_packets.delivered, 64_000);
    assert_eq!(meta.conservation.data_packets.in_flight, 0);
    assert_eq!(recording.origin_ns, plan.flows[0].5);
    for fct in &recording.fct {
        let row = recorded
            .flows
            .iter()
            .find(|row| row.src == format!("h{}", fct.src) && row.dst == format!("h{}", fct.dst))
            .expect("a row");
        assert_eq!(row.fct_ps, Some(fct.fct_ns * 1000));
        assert_eq!(row.ideal_fct_ps, Some(fct.standalone_ns * 1000));
        assert_eq!(row.end_ps, Some((fct.start_ns + fct.fct_ns - recording.origin_ns) * 1000));
        assert_eq!(row.bytes_delivered, fct.bytes);
    }
    let received: u64 = meta.pauses.iter().map(|pause| pause.rx_frames).sum();
    assert_eq!(received, recording.pfc.len() as u64);
    // Goodput over all bins is what was sent.
    let bin = recorded.series.bin.as_secs_f64();
    let goodput = recorded.series.columns().filter(|column| column.1 == "goodput_rx_bps");
    let bits: f64 = goodput.flat_map(|column| column.2).sum::<f64>() * bin;
    assert!((bits / 8.0 / 64e6 - 1.0).abs() < 1e-3, "{} B", bits / 8.0);
    let counted = |name: &str| -> u64 {
        recorded.counters.iter().filter(|row| row.counter == name).map(|row| row.value).sum()
    };
    assert_eq!(counted("tx_prio3_pause"), 2970);
    assert_eq!(counted("rx_prio3_pause"), 2970);
}

/// A run that is cut short balances, too.
#[test]
fn the_books_add_up_at_any_time() {
    for case in ["two_flows", "incast16_4MB_pfconly", "qpscale2_128"] {
        let plan = plan(case);
        for events in [1, 1_000, 10_007, 100_003] {
            let mut simulation = HpccSimulation::new(&plan).expect("the plan is possible");
            simulation.advance(events);
            let meta = simulation.finish().recording.meta;
            assert!(meta.conservation.ok && !meta.complete, "{case}: {:?}", meta.faults);
        }
    }
}

/// That simulator's clock holds 292 years, ours weeks: a flow after the end of the run never starts, however late it is.
#[test]
fn a_start_past_our_clock_is_no_start() {
    // The second one is 384 ps, if 64 bits were all that is kept of it.
    for start in [999_999_999_000_000_000, 18_446_744_073_709_552, i64::MAX as u64] {
        let mut plan = plan("single_flow");
        let late = Flow(plan.flows[0].1, plan.flows[0].0, 3, 100, 1000, start);
        plan.flows.push(late);
        assert_eq!(run(&plan).fct.len(), 1, "{start} ns");
        plan.flows = vec![late];
        assert_eq!(run(&plan).fct.len(), 0, "{start} ns");
    }
}
