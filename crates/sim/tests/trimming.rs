//! Packet trimming: what a switch has no room for loses its payload, and its sender hears of it at once.

mod common;

use common::{run, star, total, MS};
use tailback_proto::units::{Bytes, Time};
use tailback_sim::plan::*;
use tailback_sim::record::Recording;

const SENDERS: usize = 8;

/// Eight hosts send a message each to a ninth, through a switch that holds 100 KB: less than their windows.
fn incast(change: impl Fn(&mut Plan)) -> Plan {
    let mut plan = star(SENDERS + 1);
    let transport = &mut plan.nics[0].transport;
    (transport.loss_recovery, transport.window_packets) = (LossRecovery::SelectiveRepeat, Some(100));
    plan.nics[0].congestion = vec![CongestionPlan::None(Default::default())];
    let model = &mut plan.switch_models[0];
    model.lossless.clear();
    model.shared_bytes = 100_000;
    plan.links.iter_mut().for_each(|link| link.headroom_bytes = 0);
    plan.flows.items = vec!["flows".into()];
    plan.flows.list =
        (0..SENDERS).map(|host| FlowPlan(host as u32, SENDERS as u32, 0, 3, 500_000, 0)).collect();
    plan.run.duration = Time(100 * MS);
    change(&mut plan);
    plan
}

/// Trimmed packets go as CNPs do, in a strict class of their own.
fn trimming() -> TrimmingPlan {
    TrimmingPlan { size: Bytes(64), queue: None, code_point: 6 }
}

fn trimmed(recording: &Recording) -> u64 {
    let trimmed = recording.meta.drops.iter().filter(|drop| drop.reason.starts_with("trimmed"));
    trimmed.map(|drop| drop.packets).sum()
}

fn done_at(recording: &Recording) -> Time {
    assert!(recording.flows.iter().all(|flow| (flow.state, flow.bytes_delivered) == ("done", 500_000)));
    Time(recording.flows.iter().filter_map(|flow| flow.end_ps).max().expect("there are flows"))
}

#[test]
fn senders_hear_of_each_trimmed_packet_and_nothing_waits_for_a_timer() {
    let with = run(incast(|plan| plan.switch_models[0].trimming = Some(trimming())));
    let without = run(incast(|_| {}));
    assert!(with.meta.conservation.ok && without.meta.conservation.ok);
    let packets = trimmed(&with);
    assert!(packets > 1000 && trimmed(&without) == 0, "{packets}");
    assert_eq!(with.meta.conservation.data_packets.dropped, packets, "nothing else is dropped");
    assert_eq!(total(&with, "SAI_QUEUE_STAT_TRIM_PACKETS:3"), packets);
    assert_eq!(total(&with, "SAI_QUEUE_STAT_DROPPED_PACKETS:3"), packets, "as SAI has it");
    // Each goes again, and nothing else does.
    assert_eq!(with.flows.iter().map(|flow| flow.packets_retransmitted).sum::<u64>(), packets);
    assert_eq!([&with, &without].map(|one| total(one, "local_ack_timeout_err") > 0), [false, true]);
    // 4 MB at the 92.6 Gbit/s that headers leave take 346 us. Of eight packets that come at once seven are trimmed, and each
    // takes 84 B of the wire for 1,126: 1.52 times as long, 527 us. Nobody slows the senders down.
    let end = done_at(&with);
    assert!((Time::from_us(500)..Time::from_us(540)).contains(&end), "{end}");
    assert!(end < done_at(&without));
}

#[test]
fn a_queue_of_its_own_length_is_kept_short() {
    let longest = |queue| {
        let trimming = TrimmingPlan { queue, ..trimming() };
        let recording = run(incast(|plan| plan.switch_models[0].trimming = Some(trimming.clone())));
        done_at(&recording);
        let is_it = |row: &&tailback_sim::record::Counter| {
            row.counter == "SAI_INGRESS_PRIORITY_GROUP_STAT_SHARED_WATERMARK_BYTES:3"
        };
        let groups = recording.counters.iter().filter(is_it);
        groups.map(|row| row.value).max().expect("there are groups")
    };
    // NDP's: 8 packets. No ingress group holds more than the queue that its packets are in.
    assert!(longest(Some(Bytes(8 * 1106))) <= 8 * 1106);
    assert!(longest(None) > 8 * 1106);
}

/// Headers that find no room either are dropped: the timer finds out, and the books balance.
#[test]
fn headers_without_room_are_dropped() {
    let recording = run(incast(|plan| {
        plan.switch_models[0].trimming = Some(trimming());
        // In a class that waits for no other's end, and that may hold next to nothing.
        plan.switch_models[0].shared_bytes = 1200;
        plan.switch_models[0].strict.clear();
        plan.run.duration = Time(5 * MS);
    }));
    let reasons: Vec<_> = recording.meta.drops.iter().map(|drop| drop.reason).collect();
    assert!(recording.meta.conservation.ok && reasons.len() > 1, "{reasons:?}");
    assert!(total(&recording, "local_ack_timeout_err") > 0);
}

#[test]
fn lossless_priorities_are_not_trimmed() {
    let lossless = |trimming: Option<TrimmingPlan>| {
        let mut plan = incast(|_| {});
        let model = &mut plan.switch_models[0];
        (model.lossless, model.shared_bytes) = (vec![3], 10_000_000);
        plan.links.iter_mut().for_each(|link| link.headroom_bytes = 100_000);
        plan.switch_models[0].trimming = trimming;
        run(plan)
    };
    let short = TrimmingPlan { queue: Some(Bytes(10_000)), ..trimming() };
    let [with, without] = [Some(short), None].map(lossless);
    assert_eq!((trimmed(&with), with.meta.faults.len()), (0, 0));
    assert_eq!(done_at(&with), done_at(&without));
}

#[test]
fn who_goes_back_is_refused() {
    let mut plan = incast(|plan| plan.switch_models[0].trimming = Some(trimming()));
    plan.nics[0].transport.loss_recovery = LossRecovery::GoBackN;
    let error = plan.check().unwrap_err().to_string();
    assert_eq!(error, "switch_models: trimming needs loss_recovery: selective-repeat of all nics");
    let mut plan = incast(|_| {});
    plan.nics[0].transport.window_packets = None;
    let error = plan.check().unwrap_err().to_string();
    assert_eq!(error, "nics[0]: loss_recovery: selective-repeat needs window_packets");
    let past = TrimmingPlan { code_point: 8, ..trimming() };
    let error = incast(|plan| plan.switch_models[0].trimming = Some(past.clone())).check().unwrap_err();
    assert_eq!(error.to_string(), "switch_models[0]: trimming.code_point is not in code_points");
}
