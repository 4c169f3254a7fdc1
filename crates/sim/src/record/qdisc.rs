//! Counters of queueing disciplines, as `tc -s qdisc` prints them.

use tailback_proto::aqm::qdisc::{OwnStatistics, Qdisc};
use tailback_proto::aqm::skb::DropReason;
use tailback_proto::units::Time;

/// Names of what every discipline counts: of the root, and of the discipline below a `tbf`.
const COMMON: [[&str; 7]; 2] = [
    [
        "qdisc_sent_bytes",
        "qdisc_sent_packets",
        "qdisc_dropped",
        "qdisc_overlimits",
        "qdisc_requeues",
        "qdisc_backlog_bytes",
        "qdisc_backlog_packets",
    ],
    [
        "child_sent_bytes",
        "child_sent_packets",
        "child_dropped",
        "child_overlimits",
        "child_requeues",
        "child_backlog_bytes",
        "child_backlog_packets",
    ],
];

/// What `qdisc_dropped` is the sum of; `tc` tells only of some, each discipline under a name of its own.
fn drop_counter(reason: DropReason) -> &'static str {
    match reason {
        DropReason::Overlimit => "qdisc_dropped_overlimit",
        DropReason::Memory => "qdisc_dropped_overmemory",
        DropReason::EarlyProbability => "qdisc_dropped_early",
        DropReason::EarlyForced => "qdisc_dropped_forced",
        DropReason::Sojourn => "qdisc_dropped_codel",
        DropReason::FlowLimit => "qdisc_dropped_flow_limit",
        DropReason::Flows => "qdisc_dropped_flows",
        DropReason::TooLarge => "qdisc_dropped_too_large",
        DropReason::NoQueue => "qdisc_dropped_noqueue",
    }
}

/// Adds what a discipline and the one below it counted to values of the same names: a device with several transmit queues
/// has one discipline for each.
pub(super) fn add_counters(values: &mut Vec<(&'static str, u64)>, qdisc: &Qdisc, now: Time) {
    let mut add = |counters: Vec<(&'static str, u64)>| {
        for (name, value) in counters {
            match values.iter_mut().find(|(other, _)| *other == name) {
                Some((_, sum)) => *sum += value,
                None => values.push((name, value)),
            }
        }
    };
    add(of_one(qdisc, COMMON[0], now));
    // A reason that never came has no row.
    let reasons = qdisc.dropped_for().filter(|&(_, packets)| packets > 0);
    add(reasons.map(|(reason, packets)| (drop_counter(reason), packets)).collect());
    if let Some(child) = qdisc.child() {
        add(of_one(child, COMMON[1], now));
    }
}

fn of_one(qdisc: &Qdisc, names: [&'static str; 7], now: Time) -> Vec<(&'static str, u64)> {
    let s = qdisc.statistics();
    let backlog = (qdisc.backlog_bytes(), qdisc.qlen() as u64);
    let values = [s.sent_bytes, s.sent_packets, s.dropped, s.overlimits, s.requeues, backlog.0, backlog.1];
    let mut found: Vec<_> = names.into_iter().zip(values).collect();
    match qdisc.own_statistics(now) {
        OwnStatistics::None => {}
        OwnStatistics::Red(s) => {
            found.extend([("red_marked", s.marked), ("red_early", s.early), ("red_pdrop", s.pdrop)]);
        }
        OwnStatistics::Codel(s) => found.extend([
            ("codel_count", s.count as u64),
            ("codel_lastcount", s.lastcount as u64),
            ("codel_ldelay_us", s.ldelay_us as u64),
            ("codel_dropping", s.drop_next_us.is_some() as u64),
            // A drop that is due is 0 us away.
            ("codel_drop_next_us", s.drop_next_us.map_or(0, |us| us.max(0) as u64)),
            ("codel_maxpacket", s.maxpacket as u64),
            ("codel_ecn_mark", s.ecn_mark),
            ("codel_drop_overlimit", s.drop_overlimit),
        ]),
        OwnStatistics::FqCodel(s) => found.extend([
            ("fq_codel_maxpacket", s.maxpacket as u64),
            ("fq_codel_drop_overlimit", s.drop_overlimit),
            ("fq_codel_drop_overmemory", s.drop_overmemory),
            ("fq_codel_new_flow_count", s.new_flow_count),
            ("fq_codel_ecn_mark", s.ecn_mark),
            ("fq_codel_new_flows_len", s.new_flows_len as u64),
            ("fq_codel_old_flows_len", s.old_flows_len as u64),
        ]),
    }
    found
}
