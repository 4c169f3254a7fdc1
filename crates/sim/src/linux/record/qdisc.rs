//! Counters of queueing disciplines, as `tc -s qdisc` prints them.

use tailback_proto::aqm::codel::CodelReadout;
use tailback_proto::aqm::codel::FqCodelStatistics;
use tailback_proto::aqm::qdisc::DropReason;
use tailback_proto::aqm::qdisc::{OwnStatistics, Qdisc};
use tailback_proto::aqm::red::RedStatistics;
use tailback_proto::units::Time;

use crate::record::quantity::{counters, recorded};

/// Declares what every discipline counts.
macro_rules! common {
    ($name:ident: $of:literal, $sent_bytes:literal, $sent:literal, $dropped:literal, $overlimits:literal, $requeues:literal, $backlog_bytes:literal, $backlog:literal) => {
        counters! {
            $name of [$of], |qdisc: Qdisc, _| {
                $sent_bytes: "bytes", "bytes given to the device, or to the discipline above" = qdisc.statistics().sent_bytes;
                $sent: "packets", "the same in packets" = qdisc.statistics().sent_packets;
                $dropped: "packets", "packets dropped, for any reason" = qdisc.statistics().dropped;
                $overlimits: "packets", "RED: packets marked or dropped early. TBF: how often a packet had to wait for tokens"
                    = qdisc.statistics().overlimits;
                $requeues: "packets", "packets that the device refused" = qdisc.statistics().requeues;
                $backlog_bytes: "bytes", "bytes that wait at the end" = qdisc.backlog_bytes();
                $backlog: "packets", "packets that wait at the end" = qdisc.qlen() as u64;
            }
        }
    };
}

recorded! {
    common {
        ROOT: "qdisc", "qdisc_sent_bytes", "qdisc_sent_packets", "qdisc_dropped", "qdisc_overlimits", "qdisc_requeues",
        "qdisc_backlog_bytes", "qdisc_backlog_packets"
    }

    common {
        CHILD: "qdisc below tbf", "child_sent_bytes", "child_sent_packets", "child_dropped", "child_overlimits", "child_requeues",
        "child_backlog_bytes", "child_backlog_packets"
    }

    counters {
        /// The parts of `qdisc_dropped`, by reason; `tc` tells only of some, each discipline under a name of its own. A
        /// reason that never came has no row.
        DROPPED of ["qdisc"], |dropped: [u64; DropReason::ALL.len()], _| {
            "qdisc_dropped_overlimit": "packets", "packets dropped at the limit of packets or bytes"
                = dropped[DropReason::Overlimit as usize];
            "qdisc_dropped_overmemory": "packets", "packets dropped at the limit of memory" = dropped[DropReason::Memory as usize];
            "qdisc_dropped_early": "packets", "RED: packets dropped between its thresholds"
                = dropped[DropReason::EarlyProbability as usize];
            "qdisc_dropped_forced": "packets", "RED: packets dropped above its upper threshold"
                = dropped[DropReason::EarlyForced as usize];
            "qdisc_dropped_codel": "packets", "CoDel: packets dropped at the head of the queue" = dropped[DropReason::Sojourn as usize];
            "qdisc_dropped_flow_limit": "packets", "SFQ: packets of a flow at its limit" = dropped[DropReason::FlowLimit as usize];
            "qdisc_dropped_flows": "packets", "SFQ: packets of a flow for which no slot was free" = dropped[DropReason::Flows as usize];
            "qdisc_dropped_too_large": "packets", "TBF: packets larger than the bucket" = dropped[DropReason::TooLarge as usize];
            "qdisc_dropped_noqueue": "packets", "packets that found no queue" = dropped[DropReason::NoQueue as usize];
        }
    }

    counters {
        /// Of RED.
        RED of ["qdisc"], |red: RedStatistics, _| {
            "red_marked": "packets", "packets marked" = red.marked;
            "red_early": "packets", "packets dropped before the queue was full" = red.early;
            "red_pdrop": "packets", "packets dropped because it was full" = red.pdrop;
        }
    }

    counters {
        /// Of CoDel.
        CODEL of ["qdisc"], |codel: CodelReadout, _| {
            "codel_count": "packets", "packets dropped since dropping began" = codel.count as u64;
            "codel_lastcount": "packets", "`codel_count` when dropping last began" = codel.lastcount as u64;
            "codel_ldelay_us": "us", "wait of the last packet at the head" = codel.ldelay_us as u64;
            "codel_dropping": "yes or no", "whether it is dropping" = codel.drop_next_us.is_some() as u64;
            // A drop that is due is 0 us away.
            "codel_drop_next_us": "us", "time to the next drop; 0: none, or it is due"
                = codel.drop_next_us.map_or(0, |us| us.max(0) as u64);
            "codel_maxpacket": "bytes", "largest packet that was at the head" = codel.maxpacket as u64;
            "codel_ecn_mark": "packets", "packets marked" = codel.ecn_mark;
            "codel_drop_overlimit": "packets", "packets dropped because it was full" = codel.drop_overlimit;
        }
    }

    counters {
        /// Of fq_codel.
        FQ_CODEL of ["qdisc"], |fq_codel: FqCodelStatistics, _| {
            "fq_codel_maxpacket": "bytes", "largest packet that was at a head" = fq_codel.maxpacket as u64;
            "fq_codel_drop_overlimit": "packets", "packets dropped because it was full, of packets or of memory"
                = fq_codel.drop_overlimit;
            "fq_codel_drop_overmemory": "packets", "of these, those for which memory was the limit" = fq_codel.drop_overmemory;
            "fq_codel_new_flow_count": "flows", "how often a packet came to a flow that was on neither list"
                = fq_codel.new_flow_count;
            "fq_codel_ecn_mark": "packets", "packets marked" = fq_codel.ecn_mark;
            "fq_codel_new_flows_len": "flows", "flows in the list of new flows at the end" = fq_codel.new_flows_len as u64;
            "fq_codel_old_flows_len": "flows", "flows in the list of old flows at the end" = fq_codel.old_flows_len as u64;
        }
    }
}

/// Counters of a discipline and of the one below it.
pub(crate) fn count(qdisc: &Qdisc, now: Time, add: &mut dyn FnMut(&'static str, u64)) {
    let own = |qdisc: &Qdisc, add: &mut dyn FnMut(&'static str, u64)| match qdisc.own_statistics(now) {
        OwnStatistics::None => {}
        OwnStatistics::Red(red) => (RED.count)(&red, 0, add),
        OwnStatistics::Codel(codel) => (CODEL.count)(&codel, 0, add),
        OwnStatistics::FqCodel(fq_codel) => (FQ_CODEL.count)(&fq_codel, 0, add),
    };
    (ROOT.count)(qdisc, 0, add);
    own(qdisc, add);
    let mut dropped = [0; DropReason::ALL.len()];
    qdisc.dropped_for().for_each(|(reason, packets)| dropped[reason as usize] = packets);
    (DROPPED.count)(&dropped, 0, &mut |name, packets| {
        if packets > 0 {
            add(name, packets);
        }
    });
    if let Some(child) = qdisc.child() {
        (CHILD.count)(child, 0, add);
        own(child, add);
    }
}
