//! RHCC and hostCC in the whole system: two hosts on a switch, 100 Gbit/s, the receiver's memory under load.

mod common;

use common::host::*;
use common::*;
use proptest::prelude::*;
use tailback_proto::congestion::dctcp::DctcpParameters;
use tailback_proto::congestion::hpcc::HpccParameters;
use tailback_proto::congestion::parameters::RoundTrip;
use tailback_proto::congestion::rhcc::LawName;
use tailback_proto::units::{Bytes, Rate, Time};
use tailback_sim::plan::*;
use tailback_sim::record::Recording;

/// Two hosts of Wan et al., section 2.2, with four queue pairs: their buffers are far more than DDIO holds.
fn loaded(cores: u32, rhcc: Option<RhccPlan>, hostcc: Option<HostCcParameters>) -> Plan {
    let mut plan = memory_pair(true, 65_536, 4, 0);
    plan.nics.remove(0);
    plan.hosts[1].nic = 0;
    let nic = &mut plan.nics[0];
    (nic.rhcc, nic.hostcc) = (rhcc, hostcc);
    plan.run.duration = Time(20 * MS);
    if cores > 0 {
        plan.memory_loads = vec![MemoryLoadPlan {
            item: "mlc".into(),
            host: "h1".into(),
            start: Time(MS),
            stop: None,
            cores,
            lines_per_core: 10,
            read_share: 0.5,
        }];
    }
    plan
}

fn sender() -> RhccParameters {
    RhccParameters::default()
}

fn halves(send: bool, receive: bool) -> Option<RhccPlan> {
    Some(RhccPlan { sender: send.then(sender), receiver: receive.then(|| receiver(39.0)) })
}

fn goodput_gbps(recording: &Recording) -> f64 {
    mean(recording, "h1", "goodput_rx_bps", 0.5) / 1e9
}

fn of_h1(recording: &Recording, metric: &str, from: f64) -> f64 {
    mean(recording, "h1", metric, from)
}

/// The rate that RHCC's sender gives the first queue pair, Gbit/s.
fn receiver_rate_gbps(recording: &Recording, from: f64) -> f64 {
    mean(recording, "h0-h1/qp0", "receiver_rate_bps", from) / 1e9
}

fn packets(recording: &Recording, kind: &str) -> u64 {
    recording.meta.packets.get(kind).copied().unwrap_or(0)
}

/// Nothing to slow down for: probes cost their own bytes, 98 in 32,000 of data and its headers, and no more.
#[test]
fn on_an_idle_host_probes_cost_only_their_bytes() {
    let without = run(loaded(0, None, None));
    let with = run(loaded(0, halves(true, false), None));
    let sent = |flow: &tailback_sim::record::Flow| flow.packets_sent * 4096 / 32_000;
    let probes = counter(&with, "h0", "rhcc_probes_sent");
    assert_eq!(probes, with.flows.iter().map(sent).sum::<u64>());
    let unanswered = probes - counter(&with, "h0", "rhcc_probe_answers");
    assert!(unanswered < 8, "{unanswered} of the last few us");
    assert_eq!(total(&without, "rhcc_probes_sent"), 0);
    let share = goodput_gbps(&with) / goodput_gbps(&without);
    println!("idle: {share:.5} of the goodput without probes");
    assert!((share - (1.0 - 98.0 / 32_000.0)).abs() < 0.001, "{share}");
    let allowed = receiver_rate_gbps(&with, 0.0);
    assert!((98.0..=100.0).contains(&allowed), "{allowed}");
    // 113 ns of IIO and memory, and what is left of the packet in front: up to 4,096 B at 33.2 GB/s, 123 ns.
    let delay = mean(&with, "h0-h1/qp0", "receiver_delay_ns", 0.5);
    assert!((110.0..200.0).contains(&delay), "{delay}");
}

/// An ideal host answers at once, and nobody needs a timer: events grow by no more than those of the probes themselves.
#[test]
fn an_ideal_host_answers_probes_at_once() {
    let plan = |rhcc| {
        let mut plan = loaded(0, rhcc, None);
        plan.nics[0].host_path = None;
        plan
    };
    let (without, with) = (run(plan(None)), run(plan(halves(true, false))));
    assert_eq!(mean(&with, "h0-h1/qp0", "receiver_delay_ns", 0.0), 0.0);
    assert_eq!(receiver_rate_gbps(&with, 0.0), 100.0);
    let hops = packets(&with, "probe") + packets(&with, "probe_ack");
    assert!(with.meta.events < without.meta.events + 2 * hops, "{} {hops}", with.meta.events);
}

/// The receiver half: memory bandwidth goes from the cores to the network, and back when the load is over.
#[test]
fn the_receiver_half_takes_bandwidth_from_cores() {
    let without = run(loaded(24, None, None));
    let mut plan = loaded(24, halves(false, true), None);
    let with = run(plan.clone());
    println!(
        "receiver half: {:.1} to {:.1} Gbit/s, cores {:.1} to {:.1} GB/s, level {:.2}",
        goodput_gbps(&without),
        goodput_gbps(&with),
        mean(&without, "h1/memory", "memory_cpu_bps", 0.5) / 8e9,
        mean(&with, "h1/memory", "memory_cpu_bps", 0.5) / 8e9,
        of_h1(&with, "mba_level", 0.5)
    );
    assert!(goodput_gbps(&with) > 1.5 * goodput_gbps(&without));
    assert!(of_h1(&with, "mba_level", 0.5) >= 1.0);
    assert!(mean(&with, "h1/memory", "memory_cpu_bps", 0.5) <= 212e9);
    plan.memory_loads[0].stop = Some(Time(10 * MS));
    let after = run(plan);
    // 150 us a level.
    let left = of_h1(&after, "mba_level", 0.6);
    assert!(left < 0.1, "{left}");
}

/// The sender half finds what the memory takes beside the cores, and leaves no queue: a write's wait is that queue alone.
#[test]
fn the_sender_half_uses_what_the_memory_drains() {
    let seen = |rhcc| {
        let mut plan = loaded(8, rhcc, None);
        plan.writers[0].qps = 1;
        let recording = run(plan);
        (goodput_gbps(&recording), mean(&recording, "h1/pcie", "stalled_share", 0.5))
    };
    let (without, with) = (seen(None), seen(halves(true, false)));
    assert!(with.0 > 0.8 * without.0, "{with:?} of {without:?}");
    assert!(without.1 > 0.5 && with.1 < 0.02 * without.1, "{with:?} of {without:?}");
}

/// The sender half slows down, and comes back when the load is over; the timer of idle probes is what is quick about it.
#[test]
fn the_sender_half_slows_down_and_comes_back() {
    let recovered = |idle_probe_ps: Option<u64>| {
        let idle_probe = idle_probe_ps.map(Time);
        let rhcc = RhccPlan { sender: Some(RhccParameters { idle_probe, ..sender() }), receiver: None };
        let mut plan = loaded(48, Some(rhcc), None);
        plan.nics[0].congestion = vec![CongestionPlan::None(Default::default())];
        let slow = run(plan.clone());
        assert!(receiver_rate_gbps(&slow, 0.5) < 50.0, "{}", receiver_rate_gbps(&slow, 0.5));
        plan.memory_loads[0].stop = Some(Time(5 * MS));
        plan.run.duration = Time(300 * MS);
        let recording = run(plan);
        let allowed = receiver_rate_gbps(&recording, 0.9);
        assert!(allowed > 97.0, "{allowed}");
        let series = mean(&recording, "h0-h1/qp0", "receiver_rate_bps", 0.0);
        println!("idle probe {idle_probe_ps:?}: {:.1} Gbit/s allowed on average", series / 1e9);
        series
    };
    assert!(recovered(Some(100 * US)) > recovered(None));
}

/// hostCC's marks reach the notification point as if a switch had made them, and DCQCN acts on them.
#[test]
fn hostcc_marks_what_the_transport_sees() {
    let low = HostCcParameters { iio_threshold: 1.0, ..hostcc() };
    let marked = run(loaded(0, None, Some(low)));
    let [delivered, marks] =
        ["rx_prio3_packets", "np_ecn_marked_roce_packets"].map(|name| counter(&marked, "h1", name));
    println!("hostCC at 1 line: {marks} of {delivered} marked, {:.1} Gbit/s", goodput_gbps(&marked));
    assert!(counter(&marked, "h0", "rp_cnp_handled") > 0);
    assert!(goodput_gbps(&marked) < 90.0);
    let silent = run(loaded(0, None, Some(HostCcParameters { mark: false, ..low })));
    assert_eq!(total(&silent, "np_ecn_marked_roce_packets"), 0);
    // Its own threshold is not reached on an idle host.
    let idle = run(loaded(0, None, Some(hostcc())));
    assert_eq!(total(&idle, "np_ecn_marked_roce_packets"), 0);
    assert_eq!(of_h1(&idle, "mba_level", 0.0), 0.0);
}

#[test]
fn impossible_settings_name_their_place() {
    let refuse = |change: fn(&mut NicPlan)| {
        let mut plan = loaded(0, halves(true, true), None);
        change(&mut plan.nics[0]);
        plan.check().err().or_else(|| tailback_sim::Simulation::new(plan).err()).expect("refused").to_string()
    };
    assert!(refuse(|nic| nic.hostcc = Some(hostcc())).contains("rhcc.receiver and hostcc"));
    assert!(refuse(|nic| nic.host_path = None).contains("needs host_path"));
    fn half(nic: &mut NicPlan) -> (&mut RhccParameters, &mut RhccReceiverParameters) {
        let RhccPlan { sender, receiver } = nic.rhcc.as_mut().unwrap();
        (sender.as_mut().unwrap(), receiver.as_mut().unwrap())
    }
    assert!(refuse(|nic| half(nic).0.floor = Rate(0)).contains("nics[0].rhcc.sender: floor"));
    assert!(refuse(|nic| half(nic).1.sample_interval = Time(1))
        .contains("nics[0].rhcc.receiver.sample_interval: expected 10ns to 1s"));
    assert!(refuse(|nic| half(nic).1.levels = [Rate(0)].into()).contains("nics[0].rhcc.receiver.levels"));
    assert!(refuse(|nic| {
        nic.rhcc = None;
        nic.hostcc = Some(HostCcParameters { iio_weight: 0.0, ..hostcc() });
    })
    .contains("nics[0].hostcc.iio_weight"));
}

fn congestion(kind: usize) -> CongestionPlan {
    match kind {
        0 => CongestionPlan::None(Default::default()),
        1 => CongestionPlan::Dcqcn(connectx()),
        2 => {
            CongestionPlan::Hpcc(HpccParameters { base_rtt: RoundTrip(Time(13 * US)), ..Default::default() })
        }
        _ => CongestionPlan::Dctcp(DctcpParameters {
            window_rtt: Some(RoundTrip(Time(13 * US))),
            ..Default::default()
        }),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Whatever the controller, the load, the loss and the settings: every message arrives, the books add up, and the
    /// same seed gives the same run.
    #[test]
    fn every_message_arrives(
        kind in 0..4usize, cores in 0u32..40, loss in prop_oneof![Just(0.0), 0.0f64..0.01], seed in 0..=i64::MAX as u64,
        send in any::<bool>(), agent in 0..3, aimd in any::<bool>(), probe_bytes in 1_000u64..100_000,
        idle in prop_oneof![Just(None), (10u64..1000).prop_map(|us| Some(us * US))],
        lines in 0.0..100.0f64, write_us in 0u64..40, raise_us in 0u64..200, interval_ns in 200u64..5_000,
    ) {
        let (write_time, raise_interval) = (Time(write_us * US), Time(raise_us * US));
        let (sample_interval, iio_threshold) = (Time::from_ns(interval_ns), lines);
        let law = match aimd {
            true => LawName::Aimd,
            false => LawName::Pid,
        };
        let rhcc = RhccPlan {
            sender: send.then(|| RhccParameters {
                probe_bytes: Bytes(probe_bytes), idle_probe: idle.map(Time), law, ..sender()
            }),
            receiver: (agent == 1).then(|| RhccReceiverParameters {
                sample_interval, write_time, raise_interval, ..receiver(iio_threshold)
            }),
        };
        let hostcc = (agent == 2).then(|| HostCcParameters {
            sample_interval, iio_threshold, write_time, raise_interval, ..hostcc()
        });
        let mut plan = loaded(cores, Some(rhcc), hostcc);
        plan.nics[0].congestion = vec![congestion(kind)];
        plan.nics[0].transport.ack_every = 1;
        plan.links.iter_mut().for_each(|link| link.loss = loss);
        plan.writers[0].messages = Some(4);
        plan.memory_loads.iter_mut().for_each(|load| load.start = Time(0));
        plan.run.seed = seed;
        plan.run.duration = Time(60_000 * MS);
        let first = run(plan.clone());
        prop_assert!(first.meta.complete);
        for flow in &first.flows {
            prop_assert_eq!(flow.bytes_delivered, 4 * 65_536, "{:?}", flow);
        }
        prop_assert_eq!(counter(&first, "h0", "rhcc_probes_sent") > 0, send && 16 * 4096 * 4 >= probe_bytes);
        let again = run(plan);
        prop_assert_eq!(format!("{:?}", first.flows), format!("{:?}", again.flows));
        prop_assert_eq!(first.meta.events, again.meta.events);
    }
}
