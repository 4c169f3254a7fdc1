//! Several congestion controls in one run: by host, and by traffic item.

mod common;

use common::*;
use tailback_proto::congestion::hpcc::HpccParameters;
use tailback_proto::congestion::parameters::RoundTrip;
use tailback_proto::units::{Bytes, Time};
use tailback_sim::plan::*;
use tailback_sim::record::Recording;

/// All hosts run none, h1 DCQCN; what h2 sends runs HPCC.
fn three_kinds() -> Plan {
    let mut plan = star(4);
    let hpcc = HpccParameters { base_rtt: RoundTrip(Time::from_us(18)), ..Default::default() };
    plan.nics[0].congestion = vec![
        CongestionPlan::None(Default::default()),
        CongestionPlan::Dcqcn(connectx()),
        CongestionPlan::Hpcc(hpcc),
    ];
    plan.hosts[1].congestion = 1;
    plan.writers = vec![writer(0, 3, 1), writer(1, 3, 1), writer(2, 3, 1)];
    plan.writers[2].congestion = Some(2);
    for writer in &mut plan.writers {
        (writer.message, writer.depth) = (Bytes(1 << 20), 4);
    }
    plan.run.duration = Time(5 * MS);
    plan
}

fn metrics<'a>(recording: &'a Recording, qp: &str) -> Vec<&'a str> {
    let series = &recording.series;
    let named = |index: usize| series.entities[index] == qp;
    series.columns().filter(|(index, ..)| named(*index)).map(|(_, name, _)| name).collect()
}

#[test]
fn hosts_and_traffic_items_have_their_own() {
    let recording = run(three_kinds());
    let flows = &recording.flows;
    let names: Vec<&str> = flows.iter().filter_map(|flow| flow.congestion.as_deref()).collect();
    assert_eq!(names, ["none", "dcqcn", "hpcc"]);
    assert_eq!(metrics(&recording, "h0-h3/qp0"), ["rate_bps", "goodput_bps"]);
    assert_eq!(metrics(&recording, "h1-h3/qp0"), ["rate_bps", "alpha", "goodput_bps"]);
    let handled: Vec<u64> = flows.iter().map(|flow| flow.rp_cnp_handled).collect();
    assert!(handled[1] > 0 && handled[0] == 0 && handled[2] == 0, "{handled:?}: only DCQCN hears CNPs");
    assert_eq!(total(&recording, "rp_cnp_ignored"), 0, "nobody else is sent any");
    assert!(flows[2].rate_bps < Some(100e9), "HPCC hears of the others' queue: {:?}", flows[2].rate_bps);
    let packets = flows[2].packets_sent as f64;
    assert!(flows[2].bytes_delivered as f64 > 0.9 * packets * 1024.0, "and its ACKs come back");
}

#[test]
fn a_single_message_takes_that_of_its_item() {
    let mut plan = three_kinds();
    plan.writers.clear();
    plan.flows = FlowsPlan {
        items: vec!["plain".into(), "own".into()],
        congestion: vec![None, Some(2)],
        list: vec![FlowPlan(1, 3, 0, 0, 1 << 20, 0), FlowPlan(1, 3, 1, 0, 1 << 20, 0)],
        ..FlowsPlan::default()
    };
    let recording = run(plan);
    let names: Vec<&str> = recording.flows.iter().filter_map(|flow| flow.congestion.as_deref()).collect();
    assert_eq!(names, ["dcqcn", "hpcc"]);
    // Telemetry makes packets longer: 42 B more in each of 1,024.
    let ideal: Vec<u64> = recording.flows.iter().filter_map(|flow| flow.ideal_fct_ps).collect();
    let longer = 42 * 8 * 1024 * 10; // at 100 Gbit/s a bit takes 10 ps
    assert!((ideal[1] - ideal[0]).abs_diff(longer) < longer / 50, "{ideal:?}");
}

/// Where all run one, it does not matter that others could.
#[test]
fn those_that_nobody_runs_change_nothing() {
    let mut plan = three_kinds();
    plan.writers[2].congestion = None;
    plan.hosts.iter_mut().for_each(|host| host.congestion = 1);
    let mut alone = plan.clone();
    alone.nics[0].congestion = vec![CongestionPlan::Dcqcn(connectx())];
    alone.hosts.iter_mut().for_each(|host| host.congestion = 0);
    let (all, one) = (run(plan), run(alone));
    assert!(all.series.columns().eq(one.series.columns()));
    assert!(one.flows.iter().all(|flow| flow.congestion.is_none()), "no column that says one word");
}

#[test]
fn what_is_not_there_is_refused() {
    let refuse = |change: &dyn Fn(&mut Plan)| {
        let mut plan = three_kinds();
        change(&mut plan);
        plan.check().unwrap_err().to_string()
    };
    assert!(refuse(&|plan| plan.hosts[0].congestion = 3).contains("is not in that of the NICs"));
    assert!(refuse(&|plan| plan.writers[0].congestion = Some(3)).contains("is not in that of the NICs"));
    assert!(refuse(&|plan| plan.nics[0].congestion.clear()).contains("one at least"));
}
