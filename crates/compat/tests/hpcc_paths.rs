//! What none of the simulator's cases goes through, against figures by hand.
//!
//! At 100 Gbit/s a packet of 1048 B takes 83 ns, 49 B take 3 ns and an ACK of 60 B 4 ns; at 100 Mbit/s 1048 B take
//! 83,839 ns and an ACK 4799 ns. Links are 1 us long. So data crosses one switch in 2 * (83 + 1000) = 2166 ns, and an
//! ACK in 2 * (4 + 1000) = 2008 ns. Random numbers were worked out apart from the engine, with a few lines of
//! Python after L'Ecuyer et al. 2002.

#[path = "common/hpcc.rs"]
mod common;

use common::{plan, run};
use tailback_compat::hpcc::plan::*;
use tailback_compat::hpcc::{HpccRecording, HpccSimulation};

const START: u64 = 2_000_000_000;
const DATA: u64 = 2166;
const ACK: u64 = 2008;

/// Hosts 1 to `hosts` at switch 0, no congestion control, no marking.
fn star(hosts: u32, flows: Vec<Flow>) -> HpccPlan {
    HpccPlan {
        nodes: hosts + 1,
        switches: vec![0],
        inner_switches: Vec::new(),
        links: (1..=hosts).map(|host| Link(0, host, 100_000_000_000, 1000, 0.0)).collect(),
        flows,
        cc: Cc::None {},
        ecn: Ecn { enabled: false, thresholds: Vec::new() },
        ..plan("single_flow")
    }
}

/// A flow from host 1 to host 2.
fn flow(bytes: u64) -> Flow {
    Flow(1, 2, 3, 100, bytes, START)
}

/// Completion times in the order of completion.
fn times(recording: &HpccRecording) -> Vec<u64> {
    recording.fct.iter().map(|fct| fct.fct_ns).collect()
}

#[test]
fn the_smallest_flows() {
    // 49 B: 3 ns a hop. The second packet of 1001 B follows at 83 ns and catches up with the first one at the switch;
    // 3 ns behind it, its ACK waits for 1 ns.
    for (bytes, fct) in [(1, 2 * 1003 + ACK), (1000, DATA + ACK), (1001, DATA + 4 + ACK)] {
        assert_eq!(times(&run(&star(2, vec![flow(bytes)]))), [fct], "{bytes} B");
    }
}

/// Queue pairs that start together take turns; the first goes first.
#[test]
fn flows_that_start_together() {
    let recording = run(&star(3, vec![flow(2000), Flow(1, 3, 3, 100, 2000, START)]));
    assert_eq!(times(&recording), [2 * 83 + DATA + ACK, 3 * 83 + DATA + ACK]);
}

/// The threshold counts bytes of the message so far, and beyond it every packet is acknowledged.
#[test]
fn acknowledgement_interval() {
    let with = |bytes, interval, chunk| {
        let plan =
            HpccPlan { l2_ack_interval_bytes: interval, l2_chunk_bytes: chunk, ..star(2, vec![flow(bytes)]) };
        let recording = run(&plan);
        (recording.totals.host_ack, times(&recording))
    };
    assert_eq!(with(5000, 2500, 100_000), (3, vec![4 * 83 + DATA + ACK]));
    // Below it only whole chunks are: this message is never acknowledged,
    assert_eq!(with(1500, 2500, 1000), (1, vec![]));
    // and this one is.
    assert_eq!(with(2000, 2500, 1000), (2, vec![83 + DATA + ACK]));
    // Nobody asks for chunks where no packet is below it.
    assert_eq!(with(2000, 1000, 0), (2, vec![83 + DATA + ACK]));
    let below = HpccPlan { l2_ack_interval_bytes: 1000, l2_chunk_bytes: 0, ..star(2, vec![flow(999)]) };
    assert!(below.check().is_err_and(|error| error.to_string().contains("l2_chunk_bytes")));
}

/// Senders round what is acknowledged down to a chunk: a message that is not whole chunks never ends.
#[test]
fn back_to_zero_without_loss() {
    let with = |bytes| {
        let plan = HpccPlan { back_to_zero: true, l2_chunk_bytes: 4000, ..star(2, vec![flow(bytes)]) };
        times(&run(&plan))
    };
    assert_eq!(with(12_000), [11 * 83 + DATA + ACK]);
    assert!(with(10_000).is_empty());
}

/// Number `5` of stream 50 in run 38 is 0.00966, the others up to the 40th are above 0.0104.
fn lost_sixth_packet(bytes: u64) -> HpccPlan {
    let mut plan = HpccPlan { rng: Rng { seed: 1, run: 38 }, ..star(2, vec![flow(bytes)]) };
    plan.links[0].4 = 0.01;
    plan
}

/// The packet behind the lost one brings one NACK, and all goes again from the lost one on.
#[test]
fn go_back_n() {
    let recording = run(&lost_sixth_packet(10_000));
    let nack = 6 * 83 + DATA + ACK;
    assert_eq!(times(&recording), [nack + 4 * 83 + DATA + ACK]);
    assert_eq!((recording.totals.host_nack, recording.totals.host_data), (1, 15));
}

/// The receiver goes back to the chunk's start, so that the next packet brings a second NACK. It finds the fifth
/// packet sent again, which is sent once more.
#[test]
fn back_to_zero_after_loss() {
    let plan = HpccPlan { back_to_zero: true, l2_chunk_bytes: 4000, ..lost_sixth_packet(12_000) };
    let recording = run(&plan);
    let second_nack = 7 * 83 + DATA + ACK;
    assert_eq!(times(&recording), [second_nack + 7 * 83 + DATA + ACK]);
    assert_eq!((recording.totals.host_nack, recording.totals.host_data), (2, 12 + 1 + 8));
}

/// The first NACK is lost; for 500 us nothing follows it. At 100 Mbit/s the second packet's loss shows at the third.
#[test]
fn a_nack_is_repeated_after_500_us() {
    // Numbers 1 and 5 of run 212 are below 0.053, the others of the first 34 above 0.07: the second packet, and after
    // the first ACK, the third and the fourth packet the NACK.
    let mut plan = HpccPlan { rng: Rng { seed: 1, run: 212 }, ..star(2, vec![flow(10_000)]) };
    for link in &mut plan.links {
        link.2 = 100_000_000;
    }
    plan.links[0].4 = 0.06;
    let recording = run(&plan);
    let (send, ack) = (83_839, 2 * (4799 + 1000));
    // The third packet is there at 337,356 ns, the ninth at 840,390 ns; the eighth was too early by 80 us.
    let second_nack = 10 * send + 2000 + ack;
    assert_eq!(times(&recording), [second_nack + 10 * send + 2000 + ack]);
    assert_eq!((recording.totals.host_nack, recording.totals.host_data), (2, 19));
}

/// A lost last packet, or its ACK, hangs a flow for ever. Stream 50 of run 1 starts with
/// 0.460 0.057 0.094 0.716 0.591 0.708 0.967 0.444 0.194 0.084 0.426 0.410 0.079 0.334 0.442 0.442 0.662 0.581 0.138
/// 0.163 0.871 0.626 0.887 0.111; below 0.3 is lost.
#[test]
fn losses_are_the_numbers_of_stream_50() {
    let flows = (0..10).map(|i| Flow(1, 2, 3, 100, 1000, START + i * 100_000)).collect();
    let finished = |own: f64, all: f64| -> Vec<u16> {
        let mut plan = HpccPlan { error_rate_per_link: all, ..star(2, Vec::clone(&flows)) };
        plan.links[0].4 = own;
        run(&plan).fct.iter().map(|fct| fct.sport - 10_000).collect()
    };
    // Two numbers a message, where both directions of one link lose packets.
    assert_eq!(finished(0.3, 0.0), [2, 3, 6, 8, 9]);
    // Four, where all links do: they share a stream.
    assert_eq!(finished(0.0, 0.3), [2, 6]);
    // A link with a rate of its own has a stream of its own, of the same numbers.
    assert_eq!(finished(0.3, 0.3)[0], 4);
}

/// The window is the pair's bandwidth-delay product, or the largest of all pairs.
#[test]
fn windows() {
    let sent = |global, stop| {
        let mut plan = star(3, vec![flow(30_000)]);
        plan.links[1].2 = 25_000_000_000;
        plan.window = Window { enabled: true, global, variable: false };
        plan.stop_ns = START + stop;
        run(&plan).totals.host_data
    };
    // To host 2: 4000 ns, and 80 ns and 320 ns for 1000 B, at 25 Gbit/s: 13,750 B. The first ACK comes after
    // 83 + 335 + 2000 + 19 + 4 + 2000 ns.
    assert_eq!((sent(false, 4440), sent(false, 4450)), (14, 15));
    // Between hosts 1 and 3: 4160 ns at 100 Gbit/s, 52,000 B.
    assert_eq!(sent(true, 4440), 30);
}

/// Headroom and reserve above the buffer leave nearly 4 GiB: nobody is paused. A little less leaves a small buffer.
#[test]
fn a_buffer_that_is_too_small_wraps() {
    let frames = |delay_ns| {
        let mut plan =
            star(3, vec![Flow(1, 3, 3, 100, 1_000_000, START), Flow(2, 3, 3, 100, 1_000_000, START)]);
        plan.buffer_mib = 1;
        for link in &mut plan.links {
            link.3 = delay_ns;
        }
        let recording = run(&plan);
        assert_eq!((recording.fct.len(), recording.totals.drops), (2, 0));
        recording.pfc.len()
    };
    // 3 * (3 * 12.5 B/ns * 10,000 ns + 4096 B) = 1,137,288 B of 1,048,576 B; 912,288 B.
    assert_eq!(frames(10_000), 0);
    assert!(frames(8_000) > 0);
}

/// A pause of no time is read as a resume: the sender does not stop, and the switch drops.
#[test]
fn a_pause_of_no_time() {
    let drops = |pause_time_us| {
        let flows = vec![Flow(1, 3, 3, 100, 1_000_000, START), Flow(2, 3, 3, 100, 1_000_000, START)];
        let plan = HpccPlan { buffer_mib: 1, pause_time_us, ..star(3, flows) };
        let recording = run(&plan);
        assert!(recording.recording.meta.conservation.ok);
        assert_eq!(recording.pfc.iter().any(|frame| frame.pause), pause_time_us > 0);
        recording.totals.drops
    };
    assert_eq!(drops(5), 0);
    assert!(drops(0) > 0);
}

/// A host with two NICs chooses by the 32-bit murmur3 of addresses and ports, seeded with 0x8BADF00D.
#[test]
fn several_nics() {
    // By switch 2 all links are 1 us; to switch 3 it is 3 us. Next hops stand in falling order, so a hash that is
    // even goes by 3: on the way there those of the host, on the way back those of switch 4.
    let rate = 100_000_000_000;
    let link = |a, b, delay_ns| Link(a, b, rate, delay_ns, 0.0);
    let plan = HpccPlan {
        nodes: 5,
        switches: vec![2, 3, 4],
        inner_switches: Vec::new(),
        links: vec![link(0, 2, 1000), link(0, 3, 3000), link(2, 4, 1000), link(3, 4, 1000), link(4, 1, 1000)],
        flows: (0..8).map(|i| Flow(0, 1, 3, 100, 1000, START + i * 100_000)).collect(),
        ..star(2, Vec::new())
    };
    let there = [0, 0, 0, 0, 1, 1, 0, 1];
    let back = [1, 1, 1, 0, 0, 1, 1, 0];
    let extra = |hash: u64| 2000 * (1 - hash);
    let expected: Vec<u64> = there
        .iter()
        .zip(back)
        .map(|(&there, back)| 3 * (83 + 4 + 2000) + extra(there) + extra(back))
        .collect();
    assert_eq!(times(&run(&plan)), expected);
}

/// After a link went down a host's queue pairs take turns in the order of a hash table: of a few, the last first.
#[test]
fn the_order_after_a_link_went_down() {
    let flows: Vec<Flow> = (2..5).map(|to| Flow(1, to, 3, 100, 100_000, START)).collect();
    let mut plan = star(5, flows);
    let order = |plan: &HpccPlan| -> Vec<(u32, u64)> {
        run(plan).fct.iter().map(|fct| (fct.dst, fct.fct_ns)).collect()
    };
    let last = |slot: u64| slot * 83 + DATA + ACK;
    assert_eq!(order(&plan), [(2, last(297)), (3, last(298)), (4, last(299))]);
    // The 33rd packet, which is the third flow's, is on its way out.
    plan.link_down = Some(LinkDown(START + 32 * 83 + 40, 0, 5));
    assert_eq!(order(&plan), [(4, last(297)), (3, last(298)), (2, last(299))]);
}

/// Two senders fill a queue by a packet every 83 ns. From 917 ns after the first two packets came in it is looked at
/// eleven times, each 100 ns; the last time is when the counts are written.
#[test]
fn the_queue_length_file() {
    let at = 99_997_000;
    let flows = vec![Flow(1, 3, 3, 100, 100_000, at), Flow(2, 3, 3, 100, 100_000, at)];
    let mut plan = star(3, flows);
    plan.queue_monitor = Some(QueueMonitor(at + 2000, at + 3000));
    let mut counts = [0; 26];
    for sample in 0..11 {
        let packets = (917 + 100 * sample) / 83 + 1;
        counts[packets * 1048 / 1000] += 1;
    }
    let words = counts.map(|count| count.to_string()).join(" ");
    let expected = format!("time: 100000000\n0 1 11\n0 2 11\n0 3 {words}\n");
    assert_eq!(run(&plan).qlen, expected);
    // A tenth of a second is not among the samples: nothing is written, and nothing sampled.
    plan.queue_monitor = Some(QueueMonitor(at + 2001, at + 3000));
    assert_eq!(run(&plan).qlen, "");
    // The samples change nothing else, and are no events.
    let events = |monitor| {
        let plan = HpccPlan { queue_monitor: monitor, ..plan.clone() };
        let mut simulation = HpccSimulation::new(&plan).expect("the plan is possible");
        while !simulation.advance(1_000_000).done {}
        simulation.progress().events
    };
    assert_eq!(events(Some(QueueMonitor(at + 2000, at + 3000))), events(None));
}
