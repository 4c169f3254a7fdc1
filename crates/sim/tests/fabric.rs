//! Fabrics of several switches: paths, ideal completion times, links that fail.

mod common;

use common::{ecn, failure, run, star, total, MS, US};
use tailback_proto::units::{Rate, Time};
use tailback_sim::plan::*;

/// `leaves` x `hosts` hosts, every leaf linked to every spine. Fabric links are `fabric_gbps` fast.
fn leaf_spine(leaves: usize, hosts: usize, spines: usize, fabric_gbps: u64) -> Plan {
    let mut plan = star(leaves * hosts);
    let leaf = |index: usize| format!("leaf{index}");
    plan.switches = (0..leaves)
        .map(leaf)
        .chain((0..spines).map(|spine| format!("spine{spine}")))
        .map(|name| SwitchPlan { name, model: 0 })
        .collect();
    for (host, link) in plan.links.iter_mut().enumerate() {
        link.b = leaf(host / hosts);
    }
    let template = plan.links[0].clone();
    for at in 0..leaves * spines {
        plan.links.push(LinkPlan {
            a: leaf(at / spines),
            b: format!("spine{}", at % spines),
            rate: Rate(fabric_gbps * 1_000_000_000),
            ..template.clone()
        });
    }
    plan.flows.items = vec!["flows".into()];
    plan.run.duration = Time(100 * MS);
    plan
}

#[test]
fn a_message_alone_takes_its_ideal_time() {
    for (bytes, fabric_gbps, host_gbps) in [
        (1, 100, 100),
        (1024, 100, 25),
        (1025, 25, 100),
        (5000, 40, 100),
        (100_000, 400, 100),
        (10_000_000, 25, 100),
    ] {
        let mut plan = leaf_spine(2, 2, 2, fabric_gbps);
        plan.nics[0].congestion = vec![CongestionPlan::None(Default::default())];
        plan.links[0].rate = Rate(host_gbps * 1_000_000_000);
        plan.flows.list = vec![FlowPlan(0, 3, 0, 3, bytes, 7 * US), FlowPlan(2, 3, 0, 3, bytes, 50 * MS)];
        let recording = run(plan);
        for flow in &recording.flows {
            assert_eq!(flow.state, "done");
            assert_eq!(flow.fct_ps, flow.ideal_fct_ps, "{bytes} B at {host_gbps} and {fabric_gbps} Gbit/s");
        }
    }
}

#[test]
fn one_small_message_by_hand() {
    let mut plan = leaf_spine(2, 1, 1, 100);
    plan.flows.list = vec![FlowPlan(0, 1, 0, 3, 100, 0)];
    let recording = run(plan);
    // Data: 100 B payload, 14 Ethernet, 20 IP, 8 UDP, 12 BTH, 16 RETH, 4 ICRC, 4 FCS, 20 preamble and gap: 198 B.
    // ACK: no payload and RETH, 4 AETH: 86 B. Four links of 500 ns, four nodes of 300 ns each way.
    let expected = 4 * (198 * 80 + 500_000 + 300_000) + 4 * (86 * 80 + 500_000 + 300_000);
    assert_eq!(recording.flows[0].fct_ps, Some(expected));
}

/// Each of 64 connections between two leaves; the link of the first leaf to the first spine fails.
fn plan_with_events(failures: Vec<FailurePlan>) -> Plan {
    let mut plan = leaf_spine(2, 8, 2, 100);
    plan.flows.list = (0..64).map(|flow| FlowPlan(flow % 8, 8 + flow / 8, 0, 3, 1_000_000, 0)).collect();
    plan.nics[0].congestion = vec![CongestionPlan::None(Default::default())];
    plan.failures = failures;
    plan
}

fn with_events(failures: Vec<FailurePlan>) -> tailback_sim::record::Recording {
    run(plan_with_events(failures))
}

/// The link from leaf 0 to spine 0, behind the 16 links of the hosts.
const UPLINK: usize = 16;

#[test]
fn connections_take_the_paths_that_are_left() {
    let whole = with_events(vec![]);
    let failed = with_events(vec![failure(UPLINK, 100 * US, None)]);
    assert!(failed.flows.iter().all(|flow| flow.state == "done"));
    let last = |recording: &tailback_sim::record::Recording| {
        recording.flows.iter().map(|flow| flow.end_ps.unwrap()).max().unwrap()
    };
    assert!(last(&failed) > last(&whole) * 3 / 2, "half the capacity is gone");
    let reasons: Vec<&str> = failed.meta.drops.iter().map(|drop| drop.reason).collect();
    assert!(reasons.contains(&"on a link that had failed"), "{reasons:?}");
    assert!(reasons.contains(&"waiting at a port whose link failed"), "{reasons:?}");
    assert!(total(&failed, "local_ack_timeout_err") + total(&failed, "packet_seq_err") > 0);
    let sent_by = |name: &str| {
        let rows = failed.counters.iter().filter(|row| row.port == name && row.counter == "tx_prio3_packets");
        rows.map(|row| row.value).sum::<u64>()
    };
    assert!(sent_by("leaf0:spine1") > 4 * sent_by("leaf0:spine0"));
}

#[test]
fn a_repaired_link_is_used_again() {
    let repaired = with_events(vec![failure(UPLINK, 100 * US, Some(400 * US))]);
    let failed = with_events(vec![failure(UPLINK, 100 * US, None)]);
    let ends = |recording: &tailback_sim::record::Recording| {
        recording.flows.iter().map(|flow| flow.end_ps.unwrap()).sum::<u64>()
    };
    assert!(ends(&repaired) < ends(&failed));
}

/// How many packets of one long flow the failed link lost, when the flow ended, and over which spines it went afterwards.
fn through_a_hole(detection: u64, repair: Option<u64>) -> (u64, u64) {
    let mut failure = failure(UPLINK, 100 * US, repair);
    failure.detection = Time(detection);
    let mut plan = plan_with_events(vec![failure]);
    plan.run.duration = Time(1000 * MS);
    let recording = run(plan);
    let on_link = recording.meta.drops.iter().filter(|drop| drop.reason == "on a link that had failed");
    let packets = on_link.map(|drop| drop.packets).sum();
    assert!(recording.flows.iter().all(|flow| flow.state == "done"), "nothing stays behind");
    (packets, recording.flows.iter().map(|flow| flow.end_ps.unwrap()).max().unwrap())
}

#[test]
fn until_routing_notices_packets_are_sent_into_a_failed_link() {
    let (at_once, first) = through_a_hole(0, None);
    let (in_ten, second) = through_a_hole(10 * MS, None);
    let (in_fifty, third) = through_a_hole(50 * MS, None);
    assert!(at_once < in_ten && in_ten < in_fifty, "{at_once} {in_ten} {in_fifty}");
    assert!(first < second && second < third, "{first} {second} {third}");
    assert!(second > 100 * US + 10 * MS && third > 100 * US + 50 * MS, "no message gets through before");
}

#[test]
fn a_flap_that_is_shorter_than_its_detection_is_never_routed_around() {
    let repaired = 2 * MS;
    let (lost, end) = through_a_hole(100 * MS, Some(repaired));
    let (_, noticed) = through_a_hole(100 * MS, None);
    assert!(lost > 0);
    assert!(repaired < end && end < 100 * MS, "{end}");
    assert!(noticed > 100 * MS, "{noticed}");
}

#[test]
fn a_host_cut_off_recovers_when_its_link_does() {
    let mut plan = leaf_spine(2, 1, 1, 100);
    plan.flows.list = vec![FlowPlan(0, 1, 0, 3, 10_000_000, 0), FlowPlan(1, 0, 0, 3, 10_000_000, 0)];
    // The receiver's link, by its number, while packets are everywhere on the path; twice.
    plan.failures = vec![failure(1, 100 * US, Some(3 * MS)), failure(1, 3 * MS + 100, Some(9 * MS))];
    let recording = run(plan);
    assert!(recording.flows.iter().all(|flow| flow.state == "done" && flow.bytes_delivered == 10_000_000));
    assert!(recording.meta.drops.iter().any(|drop| drop.reason == "no route to its host"));
}

#[test]
fn the_same_list_gives_the_same_run() {
    let ends = || with_events(vec![]).flows.iter().map(|flow| flow.end_ps).collect::<Vec<_>>();
    assert_eq!(ends(), ends());
}

#[test]
fn impossible_flows_are_refused() {
    let refused = |flow: FlowPlan| {
        let mut plan = leaf_spine(2, 1, 1, 100);
        plan.flows.list = vec![flow];
        plan.check().unwrap_err().to_string()
    };
    assert_eq!(refused(FlowPlan(0, 2, 0, 3, 1, 0)), "flows[0]: src or dst is not a host");
    assert_eq!(refused(FlowPlan(1, 1, 0, 3, 1, 0)), "flows[0]: src and dst are the same host");
    assert_eq!(refused(FlowPlan(0, 1, 1, 3, 1, 0)), "flows[0]: its item is not in items");
    assert_eq!(refused(FlowPlan(0, 1, 0, 8, 1, 0)), "flows[0]: its code_point is not in code_points");
    assert!(refused(FlowPlan(0, 1, 0, 3, 0, 0)).contains("bytes is not in 1 to 2^31"));
}

/// Ports of one switch mark by their rates: at those without an entry, nothing is marked.
#[test]
fn ecn_thresholds_follow_the_rate_of_the_port() {
    let marks = |entries: Vec<EcnParameters>| {
        let mut plan = star(5);
        plan.switch_models[0].lossless.clear();
        plan.nics[0].congestion = vec![CongestionPlan::None(Default::default())];
        plan.links[4].rate = Rate(25_000_000_000);
        plan.switch_models[0].ecn = entries;
        plan.flows.items = vec!["flows".into()];
        // Two to one at a port of 100 Gbit/s, and one to a port of 25 Gbit/s: queues of at most 150 and 450 packets.
        let flow = |src, dst, packets: u64| FlowPlan(src, dst, 0, 3, packets * 1024, 0);
        plan.flows.list = vec![flow(0, 3, 300), flow(1, 3, 300), flow(2, 4, 600)];
        let recording = run(plan);
        ["sw0:h3", "sw0:h4"].map(|port| {
            let marked = recording.counters.iter().find(|c| c.port == port && c.counter == "ecn_marked_tc_3");
            let queue = recording.meta.queues.iter().find(|q| q.port == port && q.kind == "egress");
            (marked.map_or(0, |c| c.value), queue.expect("on a path").k_min_bytes)
        })
    };
    let (hundred, slow) = (Some(100_000_000_000), Some(25_000_000_000));
    let [(fast, fast_k), (none, none_k)] = marks(vec![ecn(hundred, 50_000)]);
    assert!((200..600).contains(&fast), "{fast}");
    assert_eq!((fast_k, none, none_k), (Some(50_000), 0, None));
    // As deep a threshold as no queue reaches, and the other order.
    let [(fast, fast_k), (marked, slow_k)] = marks(vec![ecn(slow, 50_000), ecn(None, 1_000_000)]);
    assert_eq!((fast, fast_k, slow_k), (0, Some(1_000_000), Some(50_000)));
    assert!((400..600).contains(&marked), "{marked}");
}

#[test]
fn two_thresholds_for_one_rate_are_refused() {
    let mut plan = star(2);
    let again = plan.switch_models[0].ecn[0].clone();
    plan.switch_models[0].ecn.push(again);
    let error = plan.check().unwrap_err().to_string();
    assert_eq!(error, "switch_models[0]: two entries of ecn have the same rate_bps and priority");
}

/// The value of a switch's or a host's counter at the port to a neighbour.
fn at_port(recording: &tailback_sim::record::Recording, port: &str, counter: &str) -> u64 {
    let row = recording.counters.iter().find(|row| row.port == port && row.counter == counter);
    row.map_or(0, |row| row.value)
}

/// A link that fails is no PFC frame.
#[test]
fn a_failed_link_counts_no_pauses() {
    for lossless in [vec![], vec![3]] {
        let mut plan = leaf_spine(2, 1, 1, 100);
        plan.switch_models[0].lossless = lossless;
        plan.flows.list = vec![FlowPlan(0, 1, 0, 3, 100_000, 0)];
        plan.failures = vec![failure(1, 3 * US, None)];
        plan.run.duration = Time(MS);
        let recording = run(plan);
        let named = recording.counters.iter().filter(|row| row.counter.ends_with("_pause") && row.value > 0);
        assert_eq!(named.count(), 0);
    }
}

/// `tc_no_buffer_discard` is of packets that found no buffer, not of those that the wire lost.
#[test]
fn what_the_wire_loses_is_no_discard() {
    let discards = |loss: f64, senders: usize| {
        let mut plan = star(5);
        plan.run.duration = Time(2 * MS);
        plan.nics[0].congestion = vec![CongestionPlan::None(Default::default())];
        plan.switch_models[0].lossless.clear();
        plan.switch_models[0].ecn.clear();
        plan.switch_models[0].shared_bytes = 200_000;
        plan.links[4].loss = loss;
        plan.writers = (0..senders).map(|src| common::writer(src, 4, 1)).collect();
        let recording = run(plan);
        let dropped: u64 = recording.meta.drops.iter().map(|drop| drop.packets).sum();
        (at_port(&recording, "sw0:h4", "tc_no_buffer_discard_uc_tc_3"), dropped)
    };
    let (found, dropped) = discards(0.01, 1);
    assert!(found == 0 && dropped > 10, "{found} of {dropped}");
    let (found, dropped) = discards(0.0, 4);
    assert!(found == dropped && dropped > 50, "{found} of {dropped}");
}

/// A sender that gave up before what it had on the way arrived: no more counts than was acknowledged by then.
#[test]
fn goodput_of_a_failed_flow_is_at_most_its_link() {
    let mut plan = star(5);
    plan.run.duration = Time(5 * MS);
    plan.nics[0].congestion = vec![CongestionPlan::None(Default::default())];
    plan.nics[0].transport.ack_timeout = Time(20 * US);
    plan.nics[0].transport.adaptive_timeout = None;
    plan.nics[0].transport.retry_count = 0;
    plan.links[4].rate = Rate(10_000_000_000);
    plan.flows.items = vec!["flows".into()];
    plan.flows.list = (0..4).map(|src| FlowPlan(src, 4, 0, 3, 1_000_000, 0)).collect();
    plan.flows.list.push(FlowPlan(0, 1, 0, 3, 1000, 4 * MS)); // until then the run goes on
    let recording = run(plan);
    for flow in &recording.flows[..4] {
        assert_eq!(flow.state, "error");
        assert!(flow.bytes_delivered as f64 * 8.0 / 20e-6 > 10e9, "more than the link carries until then");
        assert!(flow.goodput_bps <= 10e9, "{} bit/s", flow.goodput_bps);
    }
}
