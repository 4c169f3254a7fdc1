//! The RoCEv2 path as a whole: exact goodput, losses, pauses, faults, determinism.

mod common;

use common::*;
use proptest::prelude::*;
use tailback_proto::congestion::dcqcn::CnpInterval;
use tailback_proto::units::{Bytes, Rate, Time};
use tailback_proto::wire::{write_frame_bytes, PREAMBLE_AND_GAP_BYTES};
use tailback_sim::plan::{CongestionPlan, LinkPlan, Plan, SwitchPlan, WatchdogParameters, WriterPlan};

/// One flow without contention: payload over payload plus exact overhead, of the line rate, to 0.1 %.
#[test]
fn goodput_is_the_payload_share_of_the_line_rate() {
    for mtu in [1024, 4096] {
        for gbps in [25u64, 100, 400] {
            let mut plan = star(2);
            plan.nics[0].mtu = Bytes(mtu as u64);
            for link in &mut plan.links {
                link.rate = Rate(gbps * 1_000_000_000);
            }
            plan.writers = vec![writer(0, 1, 1)];
            plan.writers[0].message = Bytes(65536);
            plan.run.duration = Time(20 * MS);
            let recording = run(plan);
            // 65,536 B are 64 or 16 packets, the first with a RETH.
            let packets = 65536 / mtu;
            let wire: u32 =
                (0..packets).map(|i| write_frame_bytes(mtu, i == 0) + PREAMBLE_AND_GAP_BYTES).sum();
            let expected = gbps as f64 * 1e9 * 65536.0 / wire as f64;
            let found = recording.flows[0].goodput_bps;
            assert!((found / expected - 1.0).abs() < 1e-3, "{gbps}G MTU {mtu}: {found} of {expected}");
            assert_eq!(total(&recording, "np_cnp_sent"), 0, "nothing was marked");
        }
    }
}

/// The time of one message, to the picosecond.
#[test]
fn one_message_takes_exactly_its_path() {
    let mut plan = star(2);
    plan.writers = vec![writer(0, 1, 1)];
    plan.writers[0].messages = Some(1);
    let recording = run(plan);
    // Data: 1024 + 98 B on the wire twice at 80 ps a byte, two links of 500 ns, 300 ns in the switch and 300 ns in
    // the NIC. ACK: 66 + 20 B on the wire, the same way back.
    let data = 2 * 1122 * 80 + 2 * 500_000 + 300_000 + 300_000;
    let ack = 2 * 86 * 80 + 2 * 500_000 + 300_000 + 300_000;
    assert_eq!(recording.flows[0].end_ps, Some(data + ack));
    assert_eq!(recording.meta.end_ps, data + ack, "the run ends with its last message");
    assert_eq!(recording.meta.packet_hops, 4);
    assert!(recording.meta.complete);
}

#[test]
fn two_senders_share_fairly_and_a_bidirectional_pair_gets_both_ways() {
    let mut plan = star(3);
    plan.writers = vec![writer(0, 2, 4), writer(1, 2, 4), writer(2, 0, 4)];
    plan.run.duration = Time(20 * MS);
    let recording = run(plan);
    let rate = |src: &str| -> f64 {
        let own = recording.flows.iter().filter(|flow| flow.src == src);
        own.map(|flow| flow.bytes_delivered as f64 * 8.0 / 20e-3).sum()
    };
    let full = 100e9 * 1024.0 / 1122.0;
    assert!(rate("h0") + rate("h1") > 0.9 * full, "{} + {}", rate("h0"), rate("h1"));
    assert!(rate("h2") > 0.97 * full, "the other way is not disturbed: {}", rate("h2"));
}

#[test]
fn lossless_incast_pauses_and_drops_nothing() {
    let recording = run(incast(16));
    assert!(total(&recording, "rx_prio3_pause") > 0);
    assert!(recording.meta.drops.is_empty());
    assert_eq!(total(&recording, "packet_seq_err"), 0);
    // Both ends count the same frames; at most those on their way at the end differ.
    let hosts = recording.counters.iter().filter(|row| row.port.is_empty());
    let received: u64 =
        hosts.clone().filter(|row| row.counter == "rx_prio3_pause").map(|row| row.value).sum();
    let sent: u64 = total(&recording, "tx_prio3_pause");
    assert!(sent - received <= 16, "{sent} sent, {received} received");
}

#[test]
fn lossy_incast_drops_with_a_reason_and_recovers() {
    let mut plan = incast(16);
    plan.switch_models[0].lossless.clear();
    plan.switch_models[0].shared_bytes = 2_000_000;
    plan.run.duration = Time(20 * MS);
    let recording = run(plan);
    assert!(total(&recording, "packet_seq_err") > 0);
    assert_eq!(total(&recording, "rx_prio3_pause"), 0);
    assert!(recording.meta.drops.iter().all(|drop| drop.reason.contains("share of the free buffer")));
    let dropped: u64 = recording.meta.drops.iter().map(|drop| drop.packets).sum();
    assert_eq!(dropped, recording.meta.conservation.data_packets.dropped);
    assert!(recording.flows.iter().all(|flow| flow.bytes_delivered > 0));
}

/// The headroom that each fault says is enough.
fn enough(recording: &tailback_sim::record::Recording) -> Vec<u64> {
    let figure = |text: &str| {
        let words: Vec<&str> = text.split(' ').collect();
        let are = words.iter().position(|&word| word == "are").expect(text);
        words[are - 2].parse().expect(text)
    };
    recording.meta.faults.iter().map(|fault| figure(&fault.text)).collect()
}

#[test]
fn too_little_headroom_is_a_fault_that_names_what_is_enough() {
    for (headroom, xoff) in
        [(0, None), (2_000, None), (20_000, None), (0, Some(10_000)), (5_000, Some(10_000))]
    {
        let mut plan = incast(16);
        plan.switch_models[0].pfc.xoff = xoff.map(Bytes);
        for link in &mut plan.links {
            link.headroom_bytes = headroom;
        }
        let recording = run_with_faults(plan.clone());
        let fault = recording.meta.faults.first().expect("a lossless drop");
        assert_eq!(fault.kind, "lossless_drop");
        assert!(
            fault.r#where.starts_with("sw0:h") && fault.text.contains("sw0:h"),
            "names the port: {fault:?}"
        );
        let most = *enough(&recording).iter().max().unwrap();
        // What the link carries in the round trip, the response and the switch, and two packets, is 24 KB here.
        assert!((20_000..60_000).contains(&most), "headroom {headroom}, xoff {xoff:?}: {most}");
        for link in &mut plan.links {
            link.headroom_bytes = most;
        }
        assert!(run_with_faults(plan).meta.faults.is_empty(), "{most} B were said to be enough");
    }
}

/// Five switches in a ring, each host sending two switches on, every class lossless: all wait for all.
fn ring() -> Plan {
    let mut plan = star(5);
    plan.nics[0].congestion = vec![CongestionPlan::None(Default::default())];
    plan.switches = (0..5).map(|i| SwitchPlan { name: format!("sw{i}"), model: 0 }).collect();
    plan.switch_models[0].buffer = Bytes(600_000);
    plan.switch_models[0].shared_bytes = 300_000;
    for (i, link) in plan.links.iter_mut().enumerate() {
        link.b = format!("sw{i}");
    }
    for i in 0..5 {
        let (a, b) = (format!("sw{i}"), format!("sw{}", (i + 1) % 5));
        plan.links.push(LinkPlan { a, b, ..plan.links[0].clone() });
        plan.writers.push(writer(i, (i + 2) % 5, 4));
    }
    plan.run.duration = Time(500 * MS);
    plan
}

const CYCLE: &str = "sw0:sw1/tc3 -> sw1:sw2/tc3 -> sw2:sw3/tc3 -> sw3:sw4/tc3 -> sw4:sw0/tc3 -> sw0:sw1/tc3";

#[test]
fn a_ring_of_lossless_switches_ends_in_a_deadlock_and_not_in_a_hang() {
    let recording = run_with_faults(ring());
    let fault = recording.meta.faults.first().expect("a deadlock");
    assert_eq!(fault.kind, "deadlock");
    assert!(fault.text.starts_with("PFC deadlock"), "{}", fault.text);
    assert!(fault.text.ends_with(CYCLE), "the cycle in the order of waiting: {}", fault.text);
    assert!(!recording.meta.complete && recording.meta.end_ps < 100 * MS);
}

/// The queues in a deadlock are found although other traffic still moves, and without those that only wait for it: the
/// ports of hosts, which are no part of the cycle.
#[test]
fn a_deadlock_is_found_while_another_class_still_moves() {
    let mut plan = ring();
    plan.writers.extend((0..5).map(|i| WriterPlan { code_point: 1, ..writer(i, (i + 1) % 5, 1) }));
    let recording = run_with_faults(plan);
    assert!(recording.meta.faults[0].text.ends_with(CYCLE), "{}", recording.meta.faults[0].text);
    assert!(recording.meta.end_ps < 100 * MS);
    let sent = recording.counters.iter().filter(|c| c.node == "h0" && c.counter == "tx_prio1_packets");
    assert!(sent.map(|c| c.value).sum::<u64>() > 100_000, "the other class went on");
}

/// With traffic both ways round there are two cycles. A queue waits for those that hold packets of the same ingress group,
/// not for all that stand at the next switch.
#[test]
fn a_cycle_follows_the_packets() {
    let mut plan = ring();
    plan.writers.extend((0..5).map(|i| writer(i, (i + 3) % 5, 4)));
    // Fast enough to fill the ring both ways.
    for link in &mut plan.links[..5] {
        (link.rate.0, link.headroom_bytes) = (link.rate.0 * 4, 100_000);
    }
    let recording = run_with_faults(plan);
    let text = &recording.meta.faults.first().expect("a deadlock").text;
    let other = "sw0:sw4/tc3 -> sw4:sw3/tc3 -> sw3:sw2/tc3 -> sw2:sw1/tc3 -> sw1:sw0/tc3 -> sw0:sw4/tc3";
    assert!(text.ends_with(CYCLE) || text.ends_with(other), "{text}");
}

/// Pauses that one slow receiver causes, however long they last, are no deadlock.
#[test]
fn a_long_tree_of_pauses_is_no_deadlock() {
    let mut plan = incast(4);
    plan.nics[0].congestion = vec![CongestionPlan::None(Default::default())];
    plan.links[16].rate = Rate(10_000_000);
    plan.switch_models[0].shared_bytes = 300_000;
    plan.run.duration = Time(200 * MS);
    let recording = run(plan);
    assert!(recording.meta.complete);
    let longest = recording.meta.pauses.iter().map(|pause| pause.max_share_of_a_second).fold(0.0, f64::max);
    assert!(longest > 0.1, "{longest}");
}

/// With a watchdog the ports get out of it, at the price of packets, and into it again.
#[test]
fn a_watchdog_ends_a_deadlock_and_counts_what_it_drops() {
    let mut plan = ring();
    let (detect_ps, restore_ps) = (20 * MS, 5 * MS);
    plan.switch_models[0].watchdog =
        Some(WatchdogParameters { detection_time: Time(detect_ps), restoration_time: Time(restore_ps) });
    let recording = run(plan);
    assert!(recording.meta.complete);
    let storms = &recording.meta.pause_storms;
    assert_eq!(storms.len(), 5, "each port of the cycle: {storms:?}");
    for storm in storms {
        assert!(storm.detected >= 2 && storm.restored + 1 >= storm.detected, "{storm:?}");
        assert!((detect_ps..detect_ps + MS).contains(&storm.first_ps), "{storm:?}");
    }
    let of = |reason: &str| {
        let drops = recording.meta.drops.iter().filter(|drop| drop.reason.contains(reason));
        drops.map(|drop| drop.packets).sum::<u64>()
    };
    assert!(of("waiting at the port in a pause storm") > 1000);
    let (tx, rx) = (of("waiting at the port") + of("came for the port"), of("came from the port"));
    assert_eq!(total(&recording, "PFC_WD_QUEUE_STATS_TX_DROPPED_PACKETS:3"), tx);
    assert_eq!(total(&recording, "PFC_WD_QUEUE_STATS_RX_DROPPED_PACKETS:3"), rx);
    assert_eq!(
        total(&recording, "PFC_WD_QUEUE_STATS_DEADLOCK_DETECTED:3"),
        storms.iter().map(|storm| storm.detected).sum::<u64>()
    );
    let without = run_with_faults(ring());
    for (flow, stuck) in recording.flows.iter().zip(&without.flows) {
        assert!(flow.bytes_delivered > 10 * stuck.bytes_delivered, "it goes on each time: {flow:?}");
    }
}

/// A pause that nobody refreshes ends by itself; with short quanta it is refreshed and holds.
#[test]
fn short_quanta_are_refreshed() {
    let mut plan = incast(16);
    plan.run.duration = Time(2 * MS);
    let long = run(plan.clone());
    plan.switch_models[0].pause.quanta = 400; // 2 us at 100 Gbit/s
    let short = run(plan);
    assert!(short.meta.drops.is_empty() && long.meta.drops.is_empty());
    assert!(total(&short, "tx_prio3_pause") > 2 * total(&long, "tx_prio3_pause"), "refreshes");
}

#[test]
fn a_dead_link_ends_the_queue_pair_in_an_error() {
    let mut plan = star(2);
    plan.links[1].loss = 0.999_999;
    plan.nics[0].transport.ack_timeout = Time(100 * US);
    plan.nics[0].transport.adaptive_timeout = None;
    plan.writers = vec![writer(0, 1, 1)];
    plan.run.duration = Time(50 * MS);
    let recording = run(plan);
    let flow = &recording.flows[0];
    assert_eq!(flow.state, "error");
    assert!(flow.error.as_ref().unwrap().contains("retry counter exceeded"));
    assert_eq!(total(&recording, "req_transport_retries_exceeded"), 1);
    assert_eq!(flow.local_ack_timeout_err, 8, "seven retries, and the timeout that gave up");
}

#[test]
fn random_loss_delivers_every_message() {
    for seed in 0..5 {
        let mut plan = star(3);
        plan.run.seed = seed;
        for link in &mut plan.links {
            link.loss = 0.02;
        }
        plan.nics[0].transport.adaptive_timeout = Some(Time(50 * US));
        plan.run.duration = Time(2_000 * MS);
        plan.writers = vec![writer(0, 2, 3), writer(1, 2, 3), writer(2, 0, 2)];
        for writer in &mut plan.writers {
            writer.message = Bytes(5_000); // five packets, the last short
            writer.messages = Some(200);
        }
        let recording = run(plan);
        for flow in &recording.flows {
            assert_eq!((flow.state, flow.messages_completed), ("done", 200));
            assert_eq!(flow.bytes_delivered, 200 * 5_000);
            assert!(flow.packets_retransmitted > 0);
        }
    }
}

#[test]
fn cnps_have_a_class_of_their_own() {
    let recording = run(incast(4));
    let cnp_frame = 78; // 74 B and the FCS
    let receiver = |counter: &str| {
        let mut rows = recording.counters.iter();
        rows.find(|row| row.node == "h16" && row.counter == counter).map_or(0, |row| row.value)
    };
    assert!(receiver("np_cnp_sent") > 0);
    assert_eq!(receiver("tx_prio6_bytes"), receiver("tx_prio6_packets") * cnp_frame);
    // All that were sent were handled, except for those on their way at the end.
    let handled = total(&recording, "rp_cnp_handled");
    assert!(receiver("np_cnp_sent") - handled < 200);
}

#[test]
fn cnps_keep_their_least_time_for_a_queue_pair_a_destination_or_the_port() {
    let sent = |per| {
        let mut plan = star(3);
        plan.writers = vec![writer(0, 2, 16), writer(1, 2, 16)];
        plan.switch_models[0].ecn = vec![ecn(None, 1)];
        plan.run.duration = Time(2 * MS);
        let mut dcqcn = connectx();
        // A packet a queue pair each 3 us or so, and nearly all are marked.
        dcqcn.rpg_min_rate = 3_000;
        dcqcn.cnp_interval_per = per;
        plan.nics[0].congestion = vec![CongestionPlan::Dcqcn(dcqcn)];
        total(&run(plan), "np_cnp_sent")
    };
    let most = 2_000 / 4 + 1; // one each 4 us
    assert!((most * 9 / 10..=most).contains(&sent(CnpInterval::Port)));
    assert!((2 * most * 8 / 10..=2 * most).contains(&sent(CnpInterval::Destination)));
    assert!((10 * most..=32 * most).contains(&sent(CnpInterval::Qp)));
}

#[test]
fn stop_ends_posting_and_drains() {
    let mut plan = star(2);
    plan.writers = vec![writer(0, 1, 2)];
    plan.writers[0].start = Time(MS);
    plan.writers[0].stop = Some(Time(2 * MS));
    let recording = run(plan);
    assert!(recording.meta.complete && recording.meta.end_ps < 3 * MS);
    for flow in &recording.flows {
        assert_eq!((flow.state, flow.start_ps), ("done", Some(MS)));
        assert_eq!(flow.messages_completed, flow.messages_posted);
    }
}

#[test]
fn the_same_seed_gives_the_same_recording_and_another_does_not() {
    let recording = |seed| {
        let mut plan = incast(8);
        plan.run.seed = seed;
        plan.writers.iter_mut().for_each(|writer| writer.start_spread = Time(MS));
        format!("{:?}", run(plan))
    };
    let first = recording(1);
    assert!(first == recording(1));
    assert!(first != recording(2));
}

/// Looking does not change what is seen: the step in which a run is advanced, and what is recorded of it.
#[test]
fn recording_changes_nothing() {
    let flows = |bins, tracked, step| {
        let mut plan = incast(8);
        plan.record.max_bins = bins;
        plan.record.qps = tracked;
        let mut simulation = tailback_sim::Simulation::new(plan).unwrap();
        while !simulation.advance(step).done {}
        format!("{:?}", simulation.finish().flows)
    };
    assert!(flows(2048, 64, 100_000) == flows(20, 0, 7));
}

/// Nor does the step in which events are taken, whatever a packet's leaving brings about: the end of a pause, an arrival where no
/// other packet is on the link, nothing since the link has failed.
#[test]
fn events_taken_one_by_one_are_the_same() {
    let recording = |change: &dyn Fn(&mut Plan), step| {
        let mut plan = incast(8);
        plan.run.duration = Time(MS);
        change(&mut plan);
        let mut simulation = tailback_sim::Simulation::new(plan).unwrap();
        while !simulation.advance(step).done {}
        simulation.finish()
    };
    let pauses = |plan: &mut Plan| plan.switch_models[0].pfc.xoff = Some(Bytes(20_000));
    let no_delay = |plan: &mut Plan| {
        plan.links.iter_mut().for_each(|link| link.delay = Time(0));
        (plan.nics[0].rx_latency, plan.switch_models[0].latency) = (Time(0), Time(0));
    };
    let fails = |plan: &mut Plan| plan.failures = vec![failure(16, MS / 2, Some(MS / 2 + MS / 100))];
    let changes: [&dyn Fn(&mut Plan); 5] = [&|_| {}, &pauses, &no_delay, &fails, &|plan| {
        pauses(plan);
        no_delay(plan);
        fails(plan);
    }];
    for (number, change) in changes.into_iter().enumerate() {
        let whole = recording(change, u64::MAX);
        assert_eq!(total(&whole, "tx_prio3_pause") > 20, number == 1 || number == 4);
        let whole = format!("{whole:?}");
        for step in [1, 2, 1001] {
            assert!(whole == format!("{:?}", recording(change, step)), "{number}, in steps of {step}");
        }
    }
}

#[test]
fn a_recording_stays_within_its_bins() {
    // The last two end in a short bin that fills the table, or nearly.
    let cases = [(MS, 20), (3 * MS, 100), (5 * MS, 2048), (MS, 2048), (19_001_000, 20), (19_500_000, 20)];
    for (duration_ps, bins) in cases {
        let mut plan = incast(1);
        plan.run.duration = Time(duration_ps);
        plan.record.max_bins = bins;
        let recording = run(plan);
        let series = &recording.series;
        let bins = bins as usize;
        assert!(series.bins <= bins && series.bins * 5 >= bins.min(1000), "{} of {bins}", series.bins);
        let goodput: f64 = series
            .columns()
            .filter(|(_, metric, _)| *metric == "goodput_rx_bps")
            .flat_map(|(_, _, values)| values.iter().enumerate())
            .map(|(bin, rate)| {
                let start = bin as u64 * series.bin.ps();
                let end = (start + series.bin.ps()).min(recording.meta.end_ps);
                rate * (end - start) as f64 / 8e12
            })
            .sum();
        let delivered: u64 = recording.flows.iter().map(|flow| flow.bytes_delivered).sum();
        assert!((goodput - delivered as f64).abs() < 1.0, "{goodput} recorded, {delivered} delivered");
    }
}

#[test]
fn an_interrupted_run_keeps_its_books() {
    let mut simulation = tailback_sim::Simulation::new(incast(8)).unwrap();
    simulation.advance(12_345);
    let recording = simulation.finish();
    assert!(!recording.meta.complete && recording.meta.conservation.ok);
    assert!(recording.meta.end_ps < 5 * MS);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// Whatever the configuration, the books add up, and a lossless class with enough headroom drops nothing.
    #[test]
    fn any_configuration_keeps_its_books(
        seed in 0..=i64::MAX as u64,
        lossless in any::<bool>(),
        shared in 100_000u64..4_000_000,
        alphas in (0.05f64..8.0, 0.05f64..8.0),
        k in (0u64..200_000, 0u64..400_000),
        message in 1u64..20_000,
        mtu in 0usize..3,
        depth in 1u32..200,
        rates in (1u64..5, 1u64..5),
        dcqcn in any::<bool>(),
        loss in prop::option::of(0.0f64..0.05),
    ) {
        let mut plan = star(5);
        plan.run.seed = seed;
        plan.run.duration = Time(MS / 2);
        plan.nics[0].mtu = Bytes([256, 1024, 4096][mtu] as u64);
        if !dcqcn {
            plan.nics[0].congestion = vec![CongestionPlan::None(Default::default())];
        }
        let model = &mut plan.switch_models[0];
        model.shared_bytes = shared;
        (model.ingress_alpha, model.egress_alpha) = alphas;
        model.ecn[0].k_min = Bytes(k.0);
        model.ecn[0].k_max = Bytes(k.0 + k.1);
        if !lossless {
            model.lossless.clear();
        }
        for (index, link) in plan.links.iter_mut().enumerate() {
            link.rate = Rate(25_000_000_000 * if index < 2 { rates.0 } else { rates.1 });
            link.loss = loss.unwrap_or(0.0);
            link.headroom_bytes = 60_000;
        }
        plan.writers = vec![writer(0, 4, 5), writer(1, 4, 3), writer(2, 4, 2), writer(3, 0, 2), writer(4, 3, 1)];
        for writer in &mut plan.writers {
            writer.message = Bytes(message);
            writer.depth = depth;
        }
        let recording = run_with_faults(plan);
        if lossless {
            prop_assert!(recording.meta.faults.is_empty(), "{:?}", recording.meta.faults);
        }
    }
}
