//! Linux bridges: two ends against each other, what limits them, and their books.

mod common;
use common::bridge::*;
use common::*;
use tailback_proto::units::{Bytes, Rate, Time};
use tailback_sim::plan::*;
use tailback_sim::record::Recording;

/// A packet costs 1.5 us + 0.5 us, and each poll of 64 another 0.2 us: 499.2 k packets/s.
const PACKETS_PER_SECOND: f64 = 1e9 / (2_000.0 + 200.0 / 64.0);

fn bandwidth(model: BridgeModelPlan, milliseconds: u64) -> Recording {
    let mut plan = bridged(model);
    plan.run.duration = Time(milliseconds * MS);
    plan.writers = vec![write_bw()];
    run(plan)
}

/// Packets that h1 took in order.
fn packets(recording: &Recording) -> f64 {
    recording.flows[0].bytes_delivered as f64 / 4096.0
}

fn core(recording: &Recording, number: u32) -> f64 {
    let core = recording.meta.bridge_cores.iter().find(|core| core.core == number).expect("it is there");
    core.softirq + core.irq
}

fn largest(recording: &Recording, entity: &str) -> f64 {
    let series = &recording.series;
    let Some(entity) = series.entities.iter().position(|name| name == entity) else { return 0.0 };
    let column = series.columns().find(|column| column.0 == entity && column.1 == "queue_max_bytes");
    column.map_or(0.0, |column| column.2.iter().copied().fold(0.0, f64::max))
}

#[test]
fn one_core_limits_the_throughput() {
    let recording = bandwidth(model(), 40);
    let (packets, expected) = (packets(&recording), PACKETS_PER_SECOND * 0.04);
    assert!((packets / expected - 1.0).abs() < 0.01, "{packets}, expected {expected}");
    assert!(core(&recording, 0) > 0.99, "{}", core(&recording, 0));
    assert!(core(&recording, 1) < 0.7, "ACKs and completions are less work");
    assert_eq!(total(&recording, "rx_out_of_buffer"), 0, "the window of 2048 packets fits the ring");
    assert_eq!(total(&recording, "packet_seq_err"), 0);
}

#[test]
fn a_ring_shorter_than_the_window_overflows_and_go_back_n_gets_over_it() {
    let recording = bandwidth(BridgeModelPlan { host: BridgeParameters::default(), ..model() }, 40);
    let dropped = at(&recording, "br0:h0", "rx_out_of_buffer");
    assert!(dropped > 0);
    let of_ring: u64 = recording.meta.drops.iter().map(|drop| drop.packets).sum();
    assert_eq!(of_ring, dropped, "nothing else drops: {:?}", recording.meta.drops);
    assert_eq!(recording.meta.drops[0].r#where, "br0:h0/rx-ring");
    assert!(total(&recording, "packet_seq_err") > 0);
    let share = packets(&recording) / (PACKETS_PER_SECOND * 0.04);
    assert!((0.05..0.9).contains(&share), "goodput is {share} of what the core forwards");
    assert!(largest(&recording, "br0:h0/rx-ring") <= 1024.0 * 4174.0);
}

#[test]
fn both_directions_share_a_core_that_has_both_interrupts() {
    let mut shared = model();
    for port in &mut shared.ports {
        port.irq_cores = vec![0];
    }
    let both_ways = |model| {
        let mut plan = bridged(model);
        plan.run.duration = Time(20 * MS);
        // ACKs wait behind the data of the other direction.
        plan.nics[0].transport.adaptive_timeout = None;
        plan.writers = vec![write_bw(), WriterPlan { src: "h1".into(), dst: "h0".into(), ..write_bw() }];
        let recording = run(plan);
        (recording.flows[0].bytes_delivered + recording.flows[1].bytes_delivered) as f64 / 4096.0
    };
    let (one, two) = (both_ways(shared), both_ways(model()));
    assert!(one / two < 0.62, "one core {one}, two {two} packets");
    assert!(one / (PACKETS_PER_SECOND * 0.02) > 0.8, "{one}");
}

#[test]
fn a_core_on_another_numa_node_is_slower() {
    let mut remote = model();
    remote.costs.remote_factor = 1.5;
    remote.ports[0].numa = 1;
    let (near, far) = (packets(&bandwidth(model(), 20)), packets(&bandwidth(remote, 20)));
    // Receiving is half as dear again, sending by the near port is not: 2.75 us for 2 us.
    assert!((far / near - 2.0 / 2.75).abs() < 0.02, "{far} of {near}");
}

#[test]
fn the_latency_is_the_sum_of_its_parts() {
    let at_once = CoalescingParameters { adaptive: false, usecs: 0, frames: 1 };
    let never = CoalescingParameters { adaptive: false, usecs: 60_000, frames: 60_000 };
    let mut plan = bridged(BridgeModelPlan { rx: at_once, tx: never, bql: None, ..model() });
    plan.writers = write_lat(200);
    let recording = run(plan);
    let latency = &recording.meta.latency[0];
    assert_eq!(latency.iterations, 200);
    assert!(recording.flows.iter().all(|flow| flow.state == "done" && flow.messages_completed == 200));
    // On the wire an ACK takes 86 B and the message 100 B, at 25 Gbit/s, over 5 ns. The ACK of a message goes before its
    // answer and wakes the core, so the answer comes behind: wake 1, interrupt 0.5, poll 0.2, completions of the two packets
    // before 0.2, ACK 2, answer 2 us. Bridge 0.5 us on either side, NIC 0.3 us.
    let wire = (86 + 100) * 320 + 2 * 5_000;
    let expected = wire + (1_000 + 500 + 200 + 200 + 2_000 + 2_000 + 500 + 500 + 300) * NS;
    let off = latency.median_ps.abs_diff(expected);
    assert!(off < 100 * NS, "{latency:?}, expected {expected}");
}

#[test]
fn bql_keeps_the_transmit_ring_short() {
    let at_ten = |bql, multiqueue| {
        // The core outruns a link of 10 Gbit/s.
        let qdisc = QdiscPlan::Pfifo(PfifoParameters { limit: 5000 });
        let mut plan = bridged(BridgeModelPlan { bql, qdisc, multiqueue, ..model() });
        plan.links[1].rate = Rate(10_000_000_000);
        plan.run.duration = Time(60 * MS);
        plan.writers = vec![write_bw()];
        run(plan)
    };
    let (with, without) = (at_ten(model().bql, true), at_ten(None, true));
    let (short, long) = (largest(&with, "br0:h1/tx-ring"), largest(&without, "br0:h1/tx-ring"));
    assert!(short * 2.0 < long, "{short} B with BQL, {long} B without");
    assert!(at(&with, "br0:h1", "bql_stopped") > 0 && at(&without, "br0:h1", "tx_queue_stopped") > 0);
    // A discipline for several rings takes a packet to find that its ring is stopped. With a ring of its own it does not:
    // only a packet that bypasses it goes back.
    let requeues = |multiqueue| at(&at_ten(model().bql, multiqueue), "br0:h1", "qdisc_requeues");
    let (of_all, of_one) = (requeues(false), requeues(true));
    assert!(of_one * 10 < of_all, "{of_one} before one ring, {of_all} before two");
    // The link is busy either way.
    for recording in [&with, &without] {
        let expected = 10e9 / 8.0 / 4178.0 * 0.06;
        assert!((packets(recording) / expected - 1.0).abs() < 0.08, "{} {expected}", packets(recording));
    }
}

#[test]
fn red_marks_where_the_link_is_the_bottleneck_and_every_mark_is_a_cnp() {
    let mut plan = bridged(BridgeModelPlan { qdisc: QdiscPlan::Red(RED), multiqueue: false, ..model() });
    plan.links[1].rate = Rate(10_000_000_000);
    plan.run.duration = Time(200 * MS); // the first CNPs cut deep: what is posted takes its time
    plan.writers = vec![WriterPlan { stop: Some(Time(40 * MS)), ..write_bw() }];
    let recording = run(plan);
    assert_eq!(recording.flows[0].state, "done", "nothing is on its way");
    let marked = at(&recording, "br0:h1", "red_marked");
    assert!(marked > 0);
    assert_eq!(total(&recording, "np_ecn_marked_roce_packets"), marked);
    assert!(total(&recording, "np_cnp_sent") <= marked);
    assert!(total(&recording, "rp_cnp_handled") > 0);
    assert_eq!(at(&recording, "br0:h1", "red_early") + at(&recording, "br0:h1", "red_pdrop"), 0);
}

#[test]
fn a_short_queueing_discipline_drops_and_says_so() {
    let mut plan =
        bridged(BridgeModelPlan { qdisc: QdiscPlan::Pfifo(PfifoParameters { limit: 8 }), ..model() });
    plan.links[1].rate = Rate(5_000_000_000);
    plan.run.duration = Time(20 * MS);
    plan.writers = vec![write_bw()];
    let recording = run(plan);
    let dropped = at(&recording, "br0:h1", "qdisc_dropped");
    assert!(dropped > 0);
    assert_eq!(at(&recording, "br0:h1", "qdisc_dropped_overlimit"), dropped);
    let row = recording.meta.drops.iter().find(|drop| drop.r#where == "br0:h1/qdisc").expect("a row");
    assert_eq!((row.packets, row.reason), (dropped, "dropped by the queueing discipline"));
}

#[test]
fn a_guest_has_its_core_and_leaves_the_others_alone() {
    let mut with = model();
    with.cores.push(BridgeCorePlan { cpu: 42, numa: 0, guest: true });
    let recording = bandwidth(with, 10);
    let guest = recording.meta.bridge_cores.iter().find(|core| core.core == 42).expect("it is there");
    assert!(guest.guest > 0.999 && guest.softirq == 0.0, "{guest:?}");
    assert_eq!(packets(&recording), packets(&bandwidth(model(), 10)));
}

#[test]
fn a_guest_on_the_forwarding_core_takes_half_of_it_from_ksoftirqd() {
    let mut with = model();
    with.cores[0].guest = true;
    let recording = bandwidth(with, 40);
    let core = &recording.meta.bridge_cores[0];
    assert!((core.guest - 0.5).abs() < 0.1, "{core:?}");
    assert!((core.softirq - 0.5).abs() < 0.1, "{core:?}");
}

#[test]
fn the_same_seed_gives_the_same_run() {
    let counters =
        || bandwidth(BridgeModelPlan { host: BridgeParameters::default(), ..model() }, 10).counters;
    assert_eq!(counters(), counters());
}

#[test]
fn what_cannot_be_is_refused() {
    let refused = |change: &dyn Fn(&mut BridgeModelPlan)| {
        let mut model = model();
        change(&mut model);
        let json = serde_json::to_string(&bridged(model)).expect("it can be written");
        Plan::from_json(&json).expect_err("it should be refused").to_string()
    };
    assert!(refused(&|m| m.ports[0].irq_cores = vec![9]).contains("not in cores"));
    assert!(refused(&|m| m.ports[1].rss = vec![2]).contains("no such channel"));
    assert!(refused(&|m| m.costs.transmit = Time::ZERO).contains("costs nothing"));
    assert!(refused(&|m| drop(m.ports.pop())).contains("describes 1 ports"));
    assert!(refused(&|m| m.qdisc = QdiscPlan::Noqueue).contains("needs a queue"));
}

/// A timer interrupts the core that armed it: one that serves no interrupt of the ports has nothing to do with a shaper.
#[test]
fn a_shaper_goes_on_where_it_stopped() {
    let rate_bps = 1_000_000_000;
    let qdisc = QdiscPlan::Tbf {
        own: TbfParameters { rate: Rate(rate_bps), burst: Bytes(100_000), limit: Some(Bytes(100_000_000)) },
        child: None,
    };
    let mut with = BridgeModelPlan { qdisc, multiqueue: false, ..model() };
    with.cores.push(BridgeCorePlan { cpu: 3, ..with.cores[0] });
    for port in &mut with.ports {
        port.irq_cores.iter_mut().for_each(|core| *core += 1);
    }
    let recording = bandwidth(with, 20);
    let expected = rate_bps as f64 / 8.0 / 4174.0 * 0.02;
    assert!((packets(&recording) / expected - 1.0).abs() < 0.1, "{} of {expected}", packets(&recording));
    assert_eq!(core(&recording, 0), 0.0);
}

/// A message comes again where its ACK and its answer were lost. It is not answered again: one is on its way, each round trip
/// is one's own, and as many are measured as were sent.
#[test]
fn a_latency_test_answers_no_message_twice() {
    let mut plan = bridged(model());
    plan.run.duration = Time(4_000 * MS);
    plan.links[0].loss = 0.1;
    plan.writers = write_lat(1_000);
    let recording = run(plan);
    assert!(total(&recording, "duplicate_request") > 5, "ACKs were lost");
    assert_eq!(recording.meta.latency[0].iterations, 1_000);
    assert!(recording.flows.iter().all(|flow| flow.state == "done" && flow.messages_completed == 1_000));
    // The quickest and the median are of messages that came through at once.
    let latency = &recording.meta.latency[0];
    assert!(latency.min_ps > 5_000 * NS && latency.median_ps < 20_000 * NS, "{latency:?}");
}

/// Messages of 32 packets, one at a time, each polled in one go. Where 8 frames make an interrupt, a message waits for its
/// first 8 packets, however many came while the one before was polled; and its ACK waits for the timer.
#[test]
fn frames_that_were_polled_do_not_count_for_the_next_interrupt() {
    let period_ps = |frames| {
        let rx = CoalescingParameters { adaptive: false, usecs: 50, frames };
        let tx = CoalescingParameters { adaptive: false, usecs: 60_000, frames: 60_000 };
        let mut plan = bridged(BridgeModelPlan { rx, tx, bql: None, ..model() });
        plan.run.duration = Time(100 * MS);
        plan.nics[0].transport.ack_every = 32;
        plan.writers =
            vec![WriterPlan { message: Bytes(32 * 4096), depth: 1, messages: Some(100), ..write_bw() }];
        let recording = run(plan);
        let end = recording.flows[0].end_ps.expect("it is done");
        end / 100
    };
    // A packet of 4178 B takes 1.337 us on the wire.
    let expected = 50_000 * NS + 7 * 1_337 * NS;
    let found = period_ps(8) - period_ps(1);
    assert!(found.abs_diff(expected) < 500 * NS, "{found}, expected {expected}");
}

/// A virtual CPU does not keep an interrupt waiting until the scheduler's tick: a core with one is not even asleep.
#[test]
fn a_guest_is_interrupted_at_once() {
    let median = |guest| {
        let at_once = CoalescingParameters { adaptive: false, usecs: 0, frames: 1 };
        let never = CoalescingParameters { adaptive: false, usecs: 60_000, frames: 60_000 };
        let mut with = BridgeModelPlan { rx: at_once, tx: never, bql: None, ..model() };
        with.cores.iter_mut().for_each(|core| core.guest = guest);
        let mut plan = bridged(with);
        plan.writers = write_lat(200);
        let recording = run(plan);
        for core in &recording.meta.bridge_cores {
            let busy = core.guest + core.irq + core.softirq;
            assert!(!guest || (busy - 1.0).abs() < 1e-3, "a core with a guest is never idle: {core:?}");
        }
        recording.meta.latency[0].median_ps
    };
    // Half a round trip wakes a core up once, which takes 1 us.
    let (without, with) = (median(false), median(true));
    assert!((without - with).abs_diff(1_000 * NS) < 100 * NS, "{without} without a guest, {with} with");
}
