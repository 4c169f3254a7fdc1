//! Network namespaces joined by a veth pair: round trips under a flood, and books that add up whatever is sent.

use proptest::prelude::*;
use tailback_proto::units::{Bytes, Rate, Time};
use tailback_sim::plan::*;
use tailback_sim::record::{Pings, Recording, VethEnd};
use tailback_sim::Simulation;

const NS: u64 = 1_000;
const US: u64 = 1_000_000;
const MS: u64 = 1_000_000_000;

/// A packet's cost in the consumer, ns: 13,000 rules at 7.5 ns and what is paid without any.
const PACKET_NS: u64 = 13_000 * 15 / 2 + 600;

fn polling(threaded: bool) -> Polling {
    if threaded {
        Polling::Threaded
    } else {
        Polling::Softirq
    }
}

fn namespace(name: &str, rules: u32) -> NamespacePlan {
    NamespacePlan {
        name: name.into(),
        costs: ConsumerParameters {
            stack: Time(300 * NS),
            rules,
            rule: Time(7_500),
            jitter: 0.077,
            ..ConsumerParameters::default()
        },
    }
}

fn fq_codel(stale: bool) -> QdiscPlan {
    QdiscPlan::FqCodel {
        own: FqCodelParameters {
            limit: 10_240,
            flows: 1024,
            quantum: Bytes(1514),
            ecn: true,
            memory_limit: Bytes(32 << 20),
            drop_batch: 64,
        },
        codel: CodelParameters { stale, ..CodelParameters::default() },
    }
}

fn tbf(rate_bps: u64, child: Option<QdiscPlan>) -> QdiscPlan {
    let limit = Some(Bytes(1_000_000));
    let own = TbfParameters { rate: Rate(rate_bps), burst: Bytes(10_000), limit };
    QdiscPlan::Tbf { own, child: child.map(Box::new) }
}

fn plan(qdisc: QdiscPlan, bql: VethBql, tx_usecs: u64) -> Plan {
    let veth = VethNetworkPlan {
        namespaces: vec![namespace("a", 0), namespace("b", 13_000)],
        veths: vec![VethPlan {
            a: "a".into(),
            b: "b".into(),
            veth: VethSettings { bql, tx_usecs: Time(tx_usecs * US), ..VethSettings::default() },
            frame_bytes: 1514,
            qdisc,
        }],
        datagrams: vec![DatagramsPlan {
            item: "flood".into(),
            src: "a".into(),
            dst: "b".into(),
            frame_bytes: 1442,
            send: Time(1_500 * NS),
            interval: Time(0),
            sndbuf: Bytes(2 << 20),
            blocking: false,
            start: Time(0),
            stop: None,
        }],
        pings: vec![PingsPlan {
            item: "ping".into(),
            src: "a".into(),
            dst: "b".into(),
            frame_bytes: 98,
            interval: Time(51 * MS),
            spread: Time(4 * MS),
            start: Time(100 * MS),
            stop: None,
        }],
        frames: vec![],
    };
    Plan {
        name: "veth".into(),
        run: RunParameters {
            duration: Time(3_000 * MS),
            seed: 1,
            ecmp_by_seed: false,
            clock_ppm: 0.0,
            skip: tailback_sim::plan::Skip::Never,
            skip_error: 0.01,
        },
        hosts: vec![],
        nics: vec![],
        switches: vec![],
        switch_models: vec![],
        links: vec![],
        bridges: vec![],
        bridge_models: vec![],
        code_points: vec![],
        writers: vec![],
        flows: FlowsPlan::default(),
        jobs: vec![],
        memory_loads: vec![],
        tcp_connections: vec![],
        failures: vec![],
        veth: Some(veth),
        record: RecordParameters { max_bins: 100, qps: 0, queues: None },
    }
}

fn network(plan: &mut Plan) -> &mut VethNetworkPlan {
    plan.veth.as_mut().expect("it has one")
}

fn run(plan: &Plan) -> Recording {
    let mut simulation = Simulation::new(plan.clone()).expect("the plan is possible");
    while !simulation.advance(1_000_000).done {}
    let recording = simulation.finish();
    assert_eq!(recording.meta.faults.iter().map(|f| &f.text).collect::<Vec<_>>(), Vec::<&String>::new());
    recording
}

fn ping(recording: &Recording) -> &Pings {
    &recording.meta.veth.as_ref().expect("recorded").pings[0]
}

fn end(recording: &Recording) -> &VethEnd {
    &recording.meta.veth.as_ref().expect("recorded").ends[0]
}

/// Mean round trip in packets' costs at the consumer.
fn mean_rtt(recording: &Recording) -> f64 {
    let rtts: Vec<f64> = ping(recording).samples.iter().filter_map(|s| Some(s.1? as f64)).collect();
    assert!(rtts.len() > 20, "{} answers", rtts.len());
    rtts.iter().sum::<f64>() / rtts.len() as f64 / (PACKET_NS * NS) as f64
}

fn limits(recording: &Recording) -> Vec<f64> {
    let series = &recording.series;
    let found = series.columns().find(|c| series.entities[c.0] == "a-b/ring" && c.1 == "bql_limit");
    found.expect("it is recorded").2.to_vec()
}

/// An echo request waits for the end of the poll under way, half a poll on average, then for three whole ones: 224 packets, and
/// for those of nine that the qdisc has handed over.
#[test]
fn without_bql_a_sparse_flow_waits_three_and_a_half_polls() {
    let recording = run(&plan(fq_codel(false), VethBql::Off, 0));
    let rtt = mean_rtt(&recording);
    assert!((rtt / 224.0 - 1.0).abs() < 0.05, "{rtt}");
    assert_eq!(ping(&recording).lost, 0);
    assert!(end(&recording).counters["drv_xoff"] > 100);
}

#[test]
fn with_bql_the_ring_stays_short_and_throughput_is_the_same() {
    let off = run(&plan(fq_codel(false), VethBql::Off, 0));
    let on = run(&plan(fq_codel(false), VethBql::Packets, 100));
    assert!(mean_rtt(&on) < mean_rtt(&off) / 8.0, "{}", mean_rtt(&on));
    assert_eq!(ping(&on).lost, 0);
    let delivered = |recording: &Recording| end(recording).counters["delivered_packets"] as f64;
    assert!((delivered(&on) / delivered(&off) - 1.0).abs() < 0.01);
}

#[test]
fn completions_one_by_one_settle_at_a_limit_of_two() {
    let limits = limits(&run(&plan(fq_codel(false), VethBql::Packets, 0)));
    assert_eq!(limits[limits.len() / 2..].iter().copied().fold(0.0, f64::max), 2.0);
}

/// Nine packets leave the qdisc at once. Those that a stopped queue leaves go before a ping: up to 9 with each completion told,
/// where the limit stops the queue after each packet. A queue that goes on gets all nine, up to 8 past its limit.
#[test]
fn a_qdisc_of_a_device_with_several_queues_hands_over_nine_packets_at_once() {
    let rtt = |multiqueue, tx_usecs| {
        let mut plan = plan(fq_codel(false), VethBql::Packets, tx_usecs);
        network(&mut plan).veths[0].veth.multiqueue = multiqueue;
        let recording = run(&plan);
        assert_eq!(ping(&recording).lost, 0);
        mean_rtt(&recording)
    };
    for (tx_usecs, most) in [(0, 9.0), (100, 17.0), (1000, 17.0)] {
        let (one, several) = (rtt(false, tx_usecs), rtt(true, tx_usecs));
        assert!((3.0..=most).contains(&(several - one)), "tx-usecs {tx_usecs}: {several} and {one} packets");
    }
}

/// Kernels up to 6.1, and all without a qdisc: the ring is full of the flood, and most echo requests find no room.
#[test]
fn where_a_full_ring_frees_packets_are_lost_and_the_qdisc_never_sees_a_backlog() {
    let mut old = plan(fq_codel(false), VethBql::Off, 0);
    network(&mut old).veths[0].veth.kernel = Kernel::Frees;
    // 100,000 packets a second for a consumer of 10,000: nine of ten find the ring full.
    network(&mut old).datagrams[0].interval = Time(10 * US);
    network(&mut old).pings[0].interval = Time(5 * MS);
    let recording = run(&old);
    let ping = ping(&recording);
    assert!(ping.lost as f64 > 0.8 * ping.sent as f64, "{} of {}", ping.lost, ping.sent);
    assert_eq!(end(&recording).counters["qdisc_drops"], 0);
    assert!(end(&recording).counters["tx_dropped"] > 100_000);
    let rtt = mean_rtt(&recording);
    assert!((rtt / 256.0 - 1.0).abs() < 0.05, "{rtt}");
}

/// The kernels before commit 815980fe6dbb drop echo requests that follow another one that waited too long.
#[test]
fn the_old_codel_loses_pings_and_the_new_one_does_not() {
    let lost = |old| {
        let mut plan = plan(fq_codel(old), VethBql::Off, 0);
        plan.run.duration = Time(30_000 * MS);
        network(&mut plan).pings[0].interval = Time(200 * MS);
        // A poll takes 7.1 ms, 2.1 ms longer than CoDel's target.
        network(&mut plan).namespaces[1].costs.rule = Time(8_500);
        ping(&run(&plan)).lost
    };
    assert_eq!(lost(false), 0);
    assert!(lost(true) > 0);
}

/// 20 Mbit/s are a packet of 1442 B each 577 us, six times what it costs the consumer: in threads and in softirqs the shaper
/// goes on by itself where a flood has filled it and waits.
#[test]
fn a_shaper_lets_go_at_its_rate() {
    for threaded in [true, false] {
        let mut plan = plan(tbf(20_000_000, None), VethBql::Packets, 0);
        let network = network(&mut plan);
        network.pings.clear();
        network.datagrams[0].sndbuf = Bytes(100_000);
        network.namespaces.iter_mut().for_each(|space| space.costs.napi = polling(threaded));
        let recording = run(&plan);
        let counters = &end(&recording).counters;
        let delivered = counters["delivered_packets"] as f64;
        let expected = 3.0 * 20e6 / 8.0 / 1442.0;
        assert!(counters["qdisc_overlimits"] as f64 / delivered < 5.0, "it is looked at again and again");
        assert!((delivered / expected - 1.0).abs() < 0.01, "{delivered} packets, expected {expected}");
    }
}

/// Frames come in batches of 64 to a ring of 30, and to one of 256: the first drops more than half.
#[test]
fn a_small_ring_drops_xdp_frames() {
    let dropped = |ring| {
        let mut plan = plan(fq_codel(false), VethBql::Off, 0);
        plan.run.duration = Time(100 * MS);
        let network = network(&mut plan);
        network.veths[0].veth.ring = ring;
        network.datagrams.clear();
        network.namespaces[1].costs.rules = 0;
        network.frames.push(FramesPlan {
            item: "xdp".into(),
            src: "a".into(),
            dst: "b".into(),
            frame_bytes: 60,
            batch: 64,
            interval: Time(MS),
            start: Time(0),
            stop: None,
        });
        let recording = run(&plan);
        let sender = &recording.meta.veth.as_ref().expect("recorded").senders[0];
        sender.dropped as f64 / sender.sent as f64
    };
    assert_eq!(dropped(256), 0.0);
    assert!(dropped(30) > 0.5, "{}", dropped(30));
}

/// A consumer that takes 250 ms a packet empties a poll in 16 s, and is not taken for dead; one of 300 ms is.
#[test]
fn the_watchdog_fires_where_a_poll_takes_longer_than_16_s() {
    let timeouts = |rule_ps| {
        let mut plan = plan(QdiscPlan::Pfifo(PfifoParameters::default()), VethBql::Off, 0);
        network(&mut plan).namespaces[1].costs.rule = Time(rule_ps);
        network(&mut plan).pings.clear();
        plan.run.duration = Time(60_000 * MS);
        end(&run(&plan)).counters["tx_timeout"]
    };
    assert_eq!(timeouts(240 * MS / 13_000), 0);
    assert!(timeouts(300 * MS / 13_000) > 0);
}

#[test]
fn more_than_half_the_watchdog_is_refused() {
    let refused = |us| plan(fq_codel(false), VethBql::Packets, us).check().is_err();
    assert!(!refused(8_000_000));
    assert!(refused(8_000_001));
}

fn any_qdisc() -> impl Strategy<Value = QdiscPlan> {
    prop_oneof![
        Just(QdiscPlan::Noqueue),
        (1u32..300).prop_map(|limit| QdiscPlan::Pfifo(PfifoParameters { limit })),
        any::<bool>().prop_map(fq_codel),
        Just(QdiscPlan::Sfq(SfqParameters {
            limit: 127,
            depth: 127,
            flows: 128,
            divisor: 1024,
            quantum: Bytes(1514)
        })),
        (1u64..20, prop_oneof![Just(None), any::<bool>().prop_map(fq_codel).prop_map(Some)])
            .prop_map(|(gbps, child)| tbf(gbps * 1_000_000_000, child)),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// Nothing is lost from the books, and what was stopped goes on: the consumer is busy all the time.
    #[test]
    fn books_add_up_and_the_queue_never_hangs(
        qdisc in any_qdisc(),
        bql in prop_oneof![Just(VethBql::Off), Just(VethBql::Packets), Just(VethBql::Bytes)],
        tx_usecs in prop_oneof![Just(0u64), 1u64..5_000],
        ring in 1u32..400,
        (stops, threaded, blocks) in any::<(bool, bool, bool)>(),
        (rules, gro_batch, send_ns, sndbuf) in (0u32..2_000, 1u32..20, 200u64..4_000, 2_000u64..600_000),
    ) {
        let mut plan = plan(qdisc, bql, tx_usecs);
        plan.run.duration = Time(60 * MS);
        let network = network(&mut plan);
        network.veths[0].veth.ring = ring;
        network.veths[0].veth.kernel = if stops { Kernel::Stops } else { Kernel::Frees };
        for namespace in &mut network.namespaces {
            (namespace.costs.napi, namespace.costs.gro_batch) = (polling(threaded), gro_batch);
        }
        network.namespaces[1].costs.rules = rules;
        let flood = &mut network.datagrams[0];
        (flood.send, flood.sndbuf, flood.blocking) = (Time(send_ns * NS), Bytes(sndbuf), blocks);
        network.pings[0].start = Time(MS);
        network.pings[0].interval = Time(MS);
        network.pings[0].spread = Time(0);
        network.frames.push(FramesPlan {
            item: "xdp".into(),
            src: "a".into(),
            dst: "b".into(),
            frame_bytes: 60,
            batch: 16,
            interval: Time(7 * MS),
            start: Time(0),
            stop: None,
        });
        let recording = run(&plan);
        let end = end(&recording);
        let packet_ps = 600 * NS + rules as u64 * 7_500;
        // The slower of the two and a wake-up for each packet: if the queue hung, far less would come through.
        let slowest = packet_ps + send_ns * NS + 20 * US;
        let expected = plan.run.duration.0 / slowest;
        prop_assert!(end.counters["delivered_packets"] > expected / 2, "{} of {expected}", end.counters["delivered_packets"]);
        prop_assert_eq!(end.teardown.inflight_after, 0);
        prop_assert!(!end.teardown.stopped_after);
        prop_assert_eq!(run(&plan).series.values, recording.series.values);
    }
}
