//! TCP through the whole path: sockets, CPU, rings, NIC, switch.

mod common;

use common::tcp::*;
use common::*;
use proptest::prelude::*;
use tailback_proto::units::{Bytes, Rate, Time};
use tailback_sim::plan::{CpuParameters, NicPlan, Plan, TcpControl};
use tailback_sim::record::Recording;

/// One connection between two hosts.
fn pair(sender: CpuParameters, receiver: CpuParameters) -> Plan {
    let mut plan = tcp_star(2);
    plan.nics.push(NicPlan { cpu: Some(receiver), ..plan.nics[0].clone() });
    plan.nics[0].cpu = Some(sender);
    plan.hosts[1].nic = 1;
    plan.tcp_connections = vec![connections(0, 1, 1)];
    plan
}

/// A counter of a host.
fn counter(recording: &Recording, node: &str, name: &str) -> u64 {
    let row = recording.counters.iter().find(|row| row.node == node && row.counter == name);
    row.expect("the host has it").value
}

/// A connection whose CPU costs nothing: payload over payload plus exact overhead, of the line rate.
#[test]
fn goodput_is_the_payload_share_of_the_line_rate() {
    for (mtu, gbps) in [(1500, 10u64), (1500, 100), (9000, 100)] {
        let mut plan = tcp_star(2);
        let tcp = plan.nics[0].tcp.as_mut().unwrap();
        tcp.mtu = Bytes(mtu);
        plan.nics[0].cpu = Some(free_cpu());
        for link in &mut plan.links {
            link.rate = Rate(gbps * 1_000_000_000);
        }
        let mut connection = connections(0, 1, 1);
        connection.bytes = Some(Bytes(gbps * 10_000_000));
        plan.tcp_connections = vec![connection];
        plan.run.duration = Time(200 * MS);
        let recording = run(plan);
        let flow = &recording.flows[0];
        assert_eq!(flow.state, "done");
        assert_eq!(flow.retransmitted_segments, 0);
        let expected = gbps as f64 * 1e9 * (mtu - 52) as f64 / (mtu + 38) as f64;
        let found = flow.goodput_bps;
        assert!((found / expected - 1.0).abs() < 5e-3, "{gbps}G MTU {mtu}: {found} of {expected}");
    }
}

/// A receiver whose copying takes all of its one core: the core's speed is the rate, and the window closes instead of
/// the ring overflowing.
#[test]
fn a_slow_receiver_sets_the_rate() {
    let mut slow = free_cpu();
    slow.cores = 1;
    slow.cycles_per_byte = 1.0;
    let mut plan = pair(free_cpu(), slow);
    plan.run.duration = Time(50 * MS);
    let recording = run(plan);
    let found = recording.flows[0].goodput_bps;
    // 2.6 G cycles a second and one cycle a byte; the window closes only after 6 MiB.
    assert!((found / (2.6e9 * 8.0) - 1.0).abs() < 0.03, "{found}");
    assert_eq!(total(&recording, "rx_out_of_buffer"), 0);
    let core = recording.meta.cpu[1].cores[0];
    assert!(core.system > 0.97 && core.system <= 1.001, "{core:?}");
    assert!(recording.meta.cpu[0].cores.iter().all(|core| core.irq + core.softirq + core.system == 0.0));
}

/// A sender whose copying takes all of its core.
#[test]
fn a_slow_sender_sets_the_rate() {
    let mut slow = free_cpu();
    slow.cycles_per_byte = 2.0;
    let mut plan = pair(slow, free_cpu());
    plan.run.duration = Time(50 * MS);
    let found = run(plan).flows[0].goodput_bps;
    assert!((found / (2.6e9 * 8.0 / 2.0) - 1.0).abs() < 0.03, "{found}");
}

/// A core that spends its time on packets and segments: what it has time for arrives, the rest is dropped at its ring,
/// counted, and sent again.
#[test]
fn a_full_receive_ring_drops_and_tcp_recovers() {
    let mut slow = free_cpu();
    slow.cores = 1;
    slow.rx_ring = 256;
    slow.gro = Bytes(0);
    slow.cycles_per_packet = 2000.0;
    slow.cycles_per_segment = 3000.0;
    let mut plan = pair(free_cpu(), slow);
    plan.tcp_connections[0].bytes = Some(Bytes(100_000_000));
    plan.run.duration = Time(5_000 * MS);
    let recording = run(plan);
    let flow = &recording.flows[0];
    assert_eq!((flow.state, flow.bytes_delivered), ("done", 100_000_000));
    let dropped = total(&recording, "rx_out_of_buffer");
    assert!(dropped > 0);
    let [drop] = &recording.meta.drops[..] else { panic!("{:?}", recording.meta.drops) };
    assert_eq!((drop.r#where.as_str(), drop.reason), ("h1/rx", "receive ring of its core full"));
    assert_eq!(drop.packets, dropped);
    assert!(flow.retransmitted_segments >= dropped, "{} of {dropped}", flow.retransmitted_segments);
    // While it was busy, the core took a packet each 2000 + 3000 cycles, and an ACK (3000) for two of them.
    let per_packet = 2000.0 + 3000.0 + 1500.0;
    let busy = recording.meta.cpu[1].cores[0].softirq * recording.meta.end_ps as f64 / 1e12;
    let packets = (flow.packets_sent - dropped) as f64;
    assert!((packets * per_packet / (busy * 2.6e9) - 1.0).abs() < 0.05, "{packets} in {busy} s");
    assert_eq!(counter(&recording, "h1", "rx_packets"), flow.packets_sent);
}

/// The time of two segments and their ACK, to the picosecond, with interrupts held back and not.
#[test]
fn two_segments_take_exactly_their_path_and_the_interrupts() {
    // Data: 1538 B on the wire twice at 80 ps a byte, two links of 500 ns, 300 ns in the switch and 300 ns in the NIC.
    let data = 2 * 1538 * 80 + 2 * 500_000 + 300_000 + 300_000;
    let second = 1538 * 80;
    // ACK: 70 + 20 B on the wire, the same way back.
    let ack = 2 * 90 * 80 + 2 * 500_000 + 300_000 + 300_000;
    for (packets, expected) in [(32, data + 8 * US + ack + 8 * US), (1, data + second + ack)] {
        let mut cpu = free_cpu();
        cpu.interrupt_packets = packets;
        let mut plan = pair(cpu, cpu);
        plan.tcp_connections[0].bytes = Some(Bytes(2 * 1448));
        let recording = run(plan);
        assert_eq!(recording.flows[0].fct_ps, Some(expected), "interrupts each {packets} packets");
        assert_eq!(recording.meta.packet_hops, 6);
    }
}

/// With every other cost zero, what is left counts the interrupts: at most one for each 32 packets of a stream that
/// comes faster than one in 8 us.
#[test]
fn interrupts_are_held_back() {
    let mut counting = free_cpu();
    counting.cycles_per_interrupt = 1.0;
    let mut plan = pair(free_cpu(), counting);
    plan.run.duration = Time(20 * MS);
    let recording = run(plan);
    let cores = &recording.meta.cpu[1].cores;
    let interrupts = cores.iter().map(|core| core.irq).sum::<f64>() * 2.6e9 * 20e-3;
    let packets = counter(&recording, "h1", "rx_packets") as f64;
    assert!((10.0..=33.0).contains(&(packets / interrupts)), "{packets} packets, {interrupts} interrupts");
}

#[test]
fn rss_spreads_connections_over_cores() {
    let mut plan = tcp_star(2);
    plan.tcp_connections = vec![connections(0, 1, 256)];
    plan.run.duration = Time(10 * MS);
    let recording = run(plan);
    let busy: Vec<f64> =
        recording.meta.cpu[1].cores.iter().map(|core| core.irq + core.softirq + core.system).collect();
    let mean = busy.iter().sum::<f64>() / 16.0;
    assert_eq!(busy.len(), 16);
    assert!(busy.iter().all(|&core| core > 0.2 * mean && core < 3.0 * mean), "{busy:?}");
    let share = recording
        .series
        .columns()
        .find(|column| recording.series.entities[column.0] == "h1" && column.1 == "cpu_share");
    let share = &share.expect("the receiver has a CPU").2;
    let recorded = share.iter().sum::<f64>() / share.len() as f64;
    assert!((recorded / mean - 1.0).abs() < 0.05, "series {recorded}, meta {mean}");
}

/// Two queue pairs and one core's connections share a class of a NIC in turns of a packet each.
#[test]
fn rings_and_queue_pairs_take_turns() {
    let mut plan = tcp_star(4);
    plan.nics[0].cpu = Some(free_cpu());
    plan.nics[0].congestion = vec![tailback_sim::plan::CongestionPlan::None(Default::default())];
    plan.switch_models[0].lossless.clear();
    plan.writers = vec![writer(0, 1, 1), writer(0, 2, 1)];
    for writer in &mut plan.writers {
        writer.code_point = 0;
        writer.message = Bytes(65536);
    }
    plan.tcp_connections = vec![connections(0, 3, 1)];
    plan.run.duration = Time(50 * MS);
    let recording = run(plan);
    let sent: Vec<f64> = recording.flows.iter().map(|flow| flow.packets_sent as f64).collect();
    assert!((sent[0] / sent[1] - 1.0).abs() < 0.01, "{sent:?}");
    assert!((sent[2] / sent[1] - 1.0).abs() < 0.05, "{sent:?}");
}

/// The receiver's only core is full of TCP; RDMA WRITEs to the same host do not notice.
#[test]
fn rdma_to_a_host_whose_cpu_is_full_keeps_its_rate() {
    let alone = |with_tcp: bool| {
        let mut plan = tcp_star(3);
        plan.nics[0].congestion = vec![tailback_sim::plan::CongestionPlan::None(Default::default())];
        let mut slow = cpu();
        slow.cores = 1;
        slow.cycles_per_byte = 8.0; // 2.6 Gbit/s
        plan.nics.push(NicPlan { cpu: Some(slow), ..plan.nics[0].clone() });
        // Windows that fit the ring: nothing is lost.
        plan.nics.iter_mut().for_each(|nic| nic.tcp.as_mut().unwrap().receive_buffer = Bytes(256 << 10));
        plan.hosts[2].nic = 1;
        plan.writers = vec![writer(0, 2, 4)];
        plan.writers[0].message = Bytes(65536);
        if with_tcp {
            plan.tcp_connections = vec![connections(1, 2, 4)];
        }
        plan.run.duration = Time(50 * MS);
        run(plan)
    };
    let rdma = |recording: &Recording| -> f64 {
        recording.flows.iter().filter(|flow| flow.protocol == "roce").map(|flow| flow.goodput_bps).sum()
    };
    let (with, without) = (alone(true), alone(false));
    assert!(without.meta.cpu.is_empty(), "no packet of an RDMA WRITE needs a CPU");
    let core = with.meta.cpu.iter().find(|cpu| cpu.host == "h2").expect("it receives TCP").cores[0];
    assert!(core.irq + core.softirq + core.system > 0.95, "{core:?}");
    // What TCP takes of the wire, at 1024 of 1122 B.
    let tcp_wire = with.meta.packets["tcp_data"] as f64 / 2.0 * 1538.0 * 8.0 / 50e-3;
    let left = rdma(&without) - tcp_wire * 1024.0 / 1122.0;
    assert!(tcp_wire > 1e9 && rdma(&with) > 0.97 * left, "{} of {left}", rdma(&with));
}

#[test]
fn a_lossy_incast_keeps_its_books() {
    let mut plan = tcp_incast(8);
    plan.switch_models[0].shared_bytes = 1_000_000;
    plan.run.duration = Time(50 * MS);
    let recording = run(plan);
    let dropped: u64 = recording.meta.drops.iter().map(|drop| drop.packets).sum();
    assert!(dropped > 0);
    let data = &recording.meta.conservation.data_packets;
    assert!(data.dropped > 0 && data.dropped <= dropped && data.delivered > 0);
    assert!(total(&recording, "TcpRetransSegs") > 0);
}

/// RFC 8257 and the DCTCP paper (SIGCOMM 2010, 3.3): two flows keep the queue around K; a loss-based control fills what
/// buffer there is.
#[test]
fn dctcp_keeps_the_queue_near_k() {
    // 65 packets at 10 Gbit/s, as in the paper's section 3.5.
    const K: u64 = 65 * 1518;
    let queue = |control, ecn| {
        let mut plan = tcp_star(3);
        let tcp = plan.nics[0].tcp.as_mut().unwrap();
        (tcp.control, tcp.ecn) = (control, ecn);
        for link in &mut plan.links {
            link.rate = Rate(10_000_000_000);
        }
        let ecn = &mut plan.switch_models[0].ecn[0];
        (ecn.k_min, ecn.k_max, ecn.p_max) = (Bytes(K), Bytes(K), 1.0);
        plan.switch_models[0].shared_bytes = 2_000_000;
        plan.tcp_connections = vec![connections(0, 2, 1), connections(1, 2, 1)];
        plan.run.duration = Time(400 * MS);
        let recording = run(plan);
        let column = recording.series.columns().find(|column| {
            recording.series.entities[column.0] == "sw0:h2/tc0" && column.1 == "queue_mean_bytes"
        });
        let values = &column.expect("the bottleneck").2;
        let late = &values[values.len() / 2..];
        let rate: f64 = recording.flows.iter().map(|flow| flow.goodput_bps).sum();
        (late.iter().sum::<f64>() / late.len() as f64, rate)
    };
    let (mean, rate) = queue(TcpControl::Dctcp, true);
    assert!((0.4..1.2).contains(&(mean / K as f64)), "{mean} B, K is {K} B");
    assert!(rate > 0.93 * 10e9 * 1448.0 / 1538.0, "{rate}");
    let (deep, _) = queue(TcpControl::Cubic, false);
    assert!(deep > 3.0 * mean, "CUBIC {deep} B, DCTCP {mean} B");
}

/// RoCE and TCP to one receiver, in one class and in two.
#[test]
fn tcp_and_roce_share_a_wire() {
    for roce_class in [3, 0] {
        let mut plan = tcp_star(9);
        if roce_class == 0 {
            plan.switch_models[0].lossless.clear();
        }
        plan.writers = (0..4).map(|src| writer(src, 8, 8)).collect();
        for writer in &mut plan.writers {
            writer.code_point = roce_class;
        }
        plan.tcp_connections = (4..8).map(|src| connections(src, 8, 8)).collect();
        plan.run.duration = Time(100 * MS);
        let recording = run(plan);
        let rate = |protocol: &str| -> f64 {
            let own = recording.flows.iter().filter(|flow| flow.protocol == protocol);
            own.map(|flow| flow.goodput_bps).sum()
        };
        let (roce, tcp) = (rate("roce"), rate("tcp"));
        println!("class {roce_class}: RoCE {:.1}, TCP {:.1} Gbit/s", roce / 1e9, tcp / 1e9);
        assert!(roce > 10e9 && tcp > 1e9 && roce + tcp > 60e9, "class {roce_class}: {roce} and {tcp}");
    }
}

/// A link that fails in the middle loses what is on it; the timer brings the rest.
#[test]
fn a_connection_outlives_a_link_failure_and_losses() {
    let mut plan = tcp_star(2);
    plan.links[0].loss = 1e-4;
    plan.failures = vec![failure(1, 3 * MS, Some(20 * MS))];
    plan.tcp_connections = vec![connections(0, 1, 4)];
    plan.tcp_connections[0].bytes = Some(Bytes(30_000_000));
    plan.run.duration = Time(20_000 * MS);
    let recording = run(plan);
    assert!(recording.meta.complete);
    assert!(recording.flows.iter().all(|flow| flow.bytes_delivered == 30_000_000));
    assert!(total(&recording, "TcpExtTCPTimeouts") > 0);
}

#[test]
fn applications_that_stop_writing_end_their_connections() {
    let mut plan = tcp_star(2);
    plan.tcp_connections = vec![connections(0, 1, 2), connections(0, 1, 1)];
    plan.tcp_connections[0].stop = Some(Time(2 * MS));
    // This one is stopped before its spread lets it start, if it is drawn late.
    plan.tcp_connections[1].start_spread = Time(2 * MS);
    plan.tcp_connections[1].stop = Some(Time(1));
    let recording = run(plan);
    assert!(recording.meta.complete && recording.meta.end_ps < 5 * MS);
    assert!(recording.flows.iter().all(|flow| flow.state == "done"), "{:?}", recording.flows);
    assert!(recording.flows[0].bytes_delivered > 0);
    assert_eq!(recording.flows[2].qp, 2, "numbered among the connections of its hosts");
}

#[test]
fn a_seed_gives_the_same_bytes_and_another_one_others() {
    let text = |seed: u64| {
        let mut plan = tcp_incast(4);
        plan.run.seed = seed;
        plan.switch_models[0].shared_bytes = 1_000_000;
        plan.run.duration = Time(10 * MS);
        for connection in &mut plan.tcp_connections {
            connection.start_spread = Time(MS);
        }
        format!("{:?}", run(plan))
    };
    let first = text(1);
    assert_eq!(first, text(1));
    assert_ne!(first, text(2));
}

#[test]
fn impossible_plans_are_refused_with_the_place() {
    let refuse = |change: &dyn Fn(&mut Plan)| {
        let mut plan = tcp_star(2);
        plan.tcp_connections = vec![connections(0, 1, 1)];
        change(&mut plan);
        plan.check().expect_err("it is impossible").to_string()
    };
    let item = "tcp_connections[0]: ";
    assert_eq!(refuse(&|p| p.nics[0].cpu = None), format!("{item}h0 has no tcp or no cpu"));
    assert_eq!(refuse(&|p| p.tcp_connections[0].dst = "sw0".into()), format!("{item}sw0 is not a host"));
    assert!(refuse(&|p| p.tcp_connections[0].dst = "h0".into()).contains("the same host"));
    assert!(refuse(&|p| p.tcp_connections[0].connections = 0)
        .contains("tcp_connections[0].connections: expected 1 to 65536"));
    assert!(refuse(&|p| p.tcp_connections[0].code_point = 8).contains("code_points"));
    assert!(refuse(&|p| p.tcp_connections[0].bytes = Some(Bytes(0))).contains("bytes"));
    assert!(refuse(&|p| p.tcp_connections[0].stop = Some(Time(0))).contains("stop"));
    assert!(refuse(&|p| p.nics[0].tcp.as_mut().unwrap().mtu = Bytes(60)).starts_with("nics[0].tcp.mtu"));
    assert!(refuse(&|p| p.nics[0].tcp.as_mut().unwrap().control = TcpControl::Dctcp).contains("ecn"));
    assert!(refuse(&|p| p.nics[0].cpu.as_mut().unwrap().cores = 0).starts_with("nics[0].cpu.cores"));
    assert!(
        refuse(&|p| p.nics[0].cpu.as_mut().unwrap().cycles_per_byte = f64::NAN).contains("cycles_per_byte")
    );
    let other = |p: &mut Plan| {
        let mut nic = p.nics[0].clone();
        nic.tcp.as_mut().unwrap().mtu = Bytes(9000);
        p.nics.push(nic);
        p.hosts[1].nic = 1;
    };
    assert!(refuse(&other).contains("differ in mtu"));
}

/// Share of the line rate that many connections reach with congestion control, queues and CPUs.
#[test]
fn an_incast_fills_the_link() {
    let mut plan = tcp_incast(16);
    plan.run.duration = Time(100 * MS);
    let recording = run(plan);
    let rate: f64 = recording.flows.iter().map(|flow| flow.goodput_bps).sum();
    let most = 100e9 * 1448.0 / 1538.0;
    assert!(rate > 0.9 * most && rate < most, "{rate}");
    let receiver = recording.meta.cpu.iter().find(|cpu| cpu.host == "h16").expect("it receives");
    let share: f64 =
        receiver.cores.iter().map(|core| core.irq + core.softirq + core.system).sum::<f64>() / 16.0;
    // Copying alone is 0.32 cycles a byte of 16 cores.
    let copying = rate / 8.0 * 0.32 / (16.0 * 2.6e9);
    let system: f64 = receiver.cores.iter().map(|core| core.system).sum::<f64>() / 16.0;
    assert!((system / copying - 1.0).abs() < 0.05, "{system} of {copying}");
    assert!(share > 2.0 * copying && share < 0.8, "{share}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// Whatever the configuration, the books add up, and what a finite connection sends arrives in full where there is
    /// time.
    #[test]
    fn any_configuration_keeps_its_books(
        seed in 0..=i64::MAX as u64,
        control in 0usize..3,
        switches in any::<(bool, bool, bool, bool)>(),
        buffers in (10_000u64..2_000_000, 3_000u64..4_000_000, 1u32..600),
        sizes in (1u32..200_000, 1_500u32..65_536, 0u32..70_000),
        interrupts in (0u64..20_000_000, 1u32..64, 1u32..80),
        costs in (0.0f64..1e4, 0.0f64..3e3, 0.0f64..1e4, 0.0f64..4.0),
        cores in 1u32..5,
        loss in prop::option::of(0.0f64..0.05),
        bytes in prop::option::of(1u64..200_000),
    ) {
        let (sack, ecn, lossless, fails) = switches;
        let mut plan = tcp_star(4);
        plan.run.seed = seed;
        let tcp = plan.nics[0].tcp.as_mut().unwrap();
        tcp.control = [TcpControl::NewReno, TcpControl::Cubic, TcpControl::Dctcp][control];
        tcp.sack = sack;
        tcp.ecn = ecn || control == 2;
        (tcp.small_queue, tcp.tso) = (Bytes(sizes.0 as u64), Bytes(sizes.1 as u64));
        tcp.receive_buffer = Bytes(buffers.1);
        (tcp.min_rto, tcp.initial_rto, tcp.delayed_ack) = (Time(MS), None, Time(MS / 4));
        let cpu = plan.nics[0].cpu.as_mut().unwrap();
        cpu.cores = cores;
        cpu.rx_ring = buffers.2;
        cpu.gro = Bytes(sizes.2 as u64);
        (cpu.interrupt_packets, cpu.napi_budget) = (interrupts.1, interrupts.2);
        cpu.interrupt_delay = Time(interrupts.0);
        cpu.cycles_per_interrupt = costs.0;
        cpu.cycles_per_packet = costs.1;
        cpu.cycles_per_segment = costs.2;
        cpu.cycles_per_byte = costs.3;
        let model = &mut plan.switch_models[0];
        model.shared_bytes = buffers.0;
        model.lossless = if lossless { vec![0, 3] } else { vec![] };
        for link in &mut plan.links {
            link.loss = loss.unwrap_or(0.0);
            link.headroom_bytes = 60_000;
        }
        if fails {
            plan.failures = vec![failure(0, MS / 2, Some(2 * MS))];
        }
        plan.tcp_connections = vec![connections(0, 3, 3), connections(1, 3, 2), connections(3, 0, 2)];
        for item in &mut plan.tcp_connections {
            item.bytes = bytes.map(Bytes);
            item.start_spread = Time(MS);
        }
        plan.writers = vec![writer(2, 3, 2)];
        plan.writers[0].messages = Some(50);
        plan.run.duration = Time(if bytes.is_some() { 20_000 * MS } else { 4 * MS });
        let recording = run_with_faults(plan);
        if let Some(bytes) = bytes {
            let tcp = recording.flows.iter().filter(|flow| flow.protocol == "tcp");
            let late: Vec<_> = tcp.filter(|flow| flow.bytes_delivered != bytes).collect();
            prop_assert!(late.is_empty(), "{:?}", late);
        }
    }
}
