//! Selective repeat in a fabric: what is lost goes again, what is overtaken does not.

mod common;

use common::{run, star, total, writer, MS};
use tailback_proto::units::{Bytes, Time};
use tailback_sim::plan::*;
use tailback_sim::record::Recording;

/// A message between two hosts at a switch; each link loses a packet of 200.
fn lossy_plan(loss_recovery: LossRecovery) -> Plan {
    let mut plan = star(2);
    plan.links.iter_mut().for_each(|link| link.loss = 0.005);
    plan.nics[0].transport.loss_recovery = loss_recovery;
    plan.nics[0].transport.window_packets = Some(100);
    plan.nics[0].congestion = vec![CongestionPlan::None(Default::default())];
    plan.flows.items = vec!["flows".into()];
    plan.flows.list = vec![FlowPlan(0, 1, 0, 3, 5_000_000, 0)];
    plan.run.duration = Time(100 * MS);
    plan
}

#[test]
fn what_is_lost_goes_again_and_little_else() {
    let [selective, back] = [LossRecovery::SelectiveRepeat, LossRecovery::GoBackN].map(lossy_plan).map(run);
    let flow = &selective.flows[0];
    assert_eq!((flow.state, flow.bytes_delivered), ("done", 5_000_000));
    let dropped = selective.meta.conservation.data_packets.dropped;
    let again = flow.packets_retransmitted;
    // Lost ACKs and NAKs make a few more, and timers of packets that were lost twice.
    assert!(dropped > 30 && again >= dropped && again < 2 * dropped + 100, "{again} for {dropped}");
    let sent_back = back.flows[0].packets_retransmitted;
    assert!(sent_back > 5 * again, "{sent_back} by going back, {again} selectively");
    assert!(back.flows[0].fct_ps > flow.fct_ps.map(|fct| 2 * fct));
}

#[test]
fn a_receiver_has_places_for_the_window_of_its_sender() {
    let of = |places: u32| {
        let mut plan = lossy_plan(LossRecovery::SelectiveRepeat);
        let mut receivers = plan.nics[0].clone();
        receivers.transport.window_packets = Some(places);
        plan.nics.push(receivers);
        plan.hosts[1].nic = 1;
        run(plan).flows.swap_remove(0)
    };
    let (few, many) = (of(2), of(100));
    assert_eq!((few.fct_ps, few.packets_retransmitted), (many.fct_ps, many.packets_retransmitted));
}

/// Two leaves, four spines, one queue pair from one leaf to the other.
fn sprayed(change: impl Fn(&mut TransportParameters)) -> Recording {
    let mut plan = star(2);
    let names: Vec<String> = (0..2).map(|leaf| format!("leaf{leaf}")).collect();
    let spines: Vec<String> = (0..4).map(|spine| format!("spine{spine}")).collect();
    let switch = |name: &String| SwitchPlan { name: name.clone(), model: 0 };
    plan.switches = names.iter().chain(&spines).map(switch).collect();
    plan.switch_models[0].load_balancing = LoadBalancing::Spray;
    plan.links.iter_mut().zip(&names).for_each(|(link, leaf)| link.b = leaf.clone());
    let template = plan.links[0].clone();
    for (leaf, spine) in names.iter().flat_map(|leaf| spines.iter().map(move |spine| (leaf, spine))) {
        let rate = tailback_proto::units::Rate::from_gbps(40);
        plan.links.push(LinkPlan { a: leaf.clone(), b: spine.clone(), rate, ..template.clone() });
    }
    plan.nics[0].congestion = vec![CongestionPlan::None(Default::default())];
    plan.writers =
        vec![WriterPlan { message: Bytes(1_000_000), depth: 2, messages: Some(20), ..writer(0, 1, 1) }];
    plan.nics[0].transport.loss_recovery = LossRecovery::SelectiveRepeat;
    plan.nics[0].transport.window_packets = Some(500);
    change(&mut plan.nics[0].transport);
    plan.run.duration = Time(100 * MS);
    run(plan)
}

#[test]
fn sprayed_packets_go_once_where_the_sender_allows_for_reordering() {
    let patient = sprayed(|transport| transport.reordering = 200);
    let flow = &patient.flows[0];
    assert_eq!((flow.state, flow.packets_retransmitted), ("done", 0));
    assert!(total(&patient, "out_of_sequence") > 1000, "many were overtaken");
    assert_eq!(total(&patient, "packet_seq_err"), 0, "and none was lost");
    // 20 MB at the 92.6 Gbit/s that headers leave, and what starting takes.
    assert!(flow.end_ps.unwrap() < 2 * MS, "{:?}", flow.end_ps);
    let hasty = sprayed(|_| {});
    assert!(hasty.flows[0].packets_retransmitted > 1000);
    assert_eq!(hasty.flows[0].bytes_delivered, 20_000_000);
    let back = sprayed(|transport| transport.loss_recovery = LossRecovery::GoBackN);
    assert!(back.flows[0].end_ps.is_none_or(|end| end > 5 * flow.end_ps.unwrap()));
}
