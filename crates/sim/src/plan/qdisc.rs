//! Queueing disciplines in a plan.

use serde::{Deserialize, Serialize};
use tailback_proto::aqm::codel::{Codel, CodelParameters};
use tailback_proto::aqm::fifo::{Fifo, FifoLimit};
use tailback_proto::aqm::fq_codel::{FqCodel, FqCodelParameters};
use tailback_proto::aqm::qdisc::{Discipline, Qdisc};
pub use tailback_proto::aqm::red::RedArguments;

use tailback_proto::aqm::red::Red;
use tailback_proto::aqm::sfq::{Sfq, SfqParameters};
use tailback_proto::aqm::tbf::{Tbf, TbfParameters};

use super::{impossible, PlanError};

/// Most packets that a discipline may hold: what memory has room for.
const MAX_PACKETS: u32 = 1 << 24;
/// Most flows: Linux net/sched/sch_fq_codel.c, `fq_codel_change`.
const MAX_FQ_CODEL_FLOWS: u32 = 65_536;
/// Linux net/sched/sch_sfq.c: `SFQ_MAX_FLOWS`, `SFQ_MAX_DEPTH` and the most values of the hash.
const MAX_SFQ_FLOWS: u32 = 65_408;
const MAX_SFQ_DEPTH: u32 = 127;
const MAX_SFQ_DIVISOR: u32 = 65_536;
/// Greatest time of CoDel, us: the kernel keeps units of 1024 ns in 32 bits with a sign.
const MAX_CODEL_US: u32 = 2_000_000_000;

/// A queueing discipline, with the numbers that `tc` would hand to the kernel.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
#[allow(missing_docs)]
pub enum QdiscPlan {
    Noqueue,
    Pfifo {
        limit_packets: u32,
    },
    Bfifo {
        limit_bytes: u32,
    },
    Red(RedArguments),
    /// Packets wait in `child`, without one in a `bfifo` of `limit_bytes`.
    Tbf {
        rate_bps: u64,
        burst_bytes: u32,
        limit_bytes: u32,
        child: Option<Box<QdiscPlan>>,
    },
    Codel {
        limit_packets: u32,
        codel: CodelPlan,
    },
    FqCodel(FqCodelPlan),
    Sfq {
        limit_packets: u32,
        depth_packets: u32,
        flows: u32,
        divisor: u32,
        quantum_bytes: u32,
    },
}

/// Parameters of CoDel in `codel` and `fq_codel`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CodelPlan {
    /// Acceptable wait.
    pub target_us: u32,
    /// For how long it must be exceeded.
    pub interval_us: u32,
    /// While no more waits than this nothing is dropped: the device's MTU with its Ethernet header.
    pub mtu_bytes: u32,
    /// Mark what says ECT.
    pub ecn: bool,
    /// Kernels before commit 815980fe6dbb: a queue that runs empty keeps the time since when packets wait too long.
    pub stale_when_empty: bool,
}

/// Arguments of `fq_codel`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs)]
pub struct FqCodelPlan {
    pub limit_packets: u32,
    pub flows: u32,
    pub quantum_bytes: u32,
    pub memory_limit_bytes: u32,
    pub drop_batch_packets: u32,
    pub codel: CodelPlan,
}

fn within(place: &str, name: &str, value: u32, most: u32) -> Result<u32, PlanError> {
    match (1..=most).contains(&value) {
        true => Ok(value),
        false => Err(impossible(place, format!("{name} is {value}, not from 1 to {most}"))),
    }
}

impl QdiscPlan {
    /// Refuses what `tc` or the kernel refuses.
    ///
    /// # Errors
    /// One line that names `place` and the number.
    pub fn check(&self, place: &str) -> Result<(), PlanError> {
        self.build(place).map(|_| ())
    }

    /// The empty discipline.
    ///
    /// # Errors
    /// As `check`.
    pub fn build(&self, place: &str) -> Result<Qdisc, PlanError> {
        let packets = |limit| within(place, "limit_packets", limit, MAX_PACKETS);
        let bytes = |limit| within(place, "limit_bytes", limit, u32::MAX);
        let quantum = |bytes| within(place, "quantum_bytes", bytes, i32::MAX as u32);
        let discipline = match *self {
            QdiscPlan::Noqueue => Discipline::Noqueue,
            QdiscPlan::Pfifo { limit_packets } => {
                Discipline::Fifo(Fifo::new(FifoLimit::Packets(packets(limit_packets)?)))
            }
            QdiscPlan::Bfifo { limit_bytes } => {
                Discipline::Fifo(Fifo::new(FifoLimit::Bytes(bytes(limit_bytes)?)))
            }
            QdiscPlan::Red(ref red) => {
                let parameters = red.parameters().map_err(|problem| impossible(place, problem))?;
                Discipline::Red(Red::new(&parameters))
            }
            QdiscPlan::Tbf { rate_bps, burst_bytes, limit_bytes, ref child } => {
                if rate_bps < 8 {
                    return Err(impossible(place, "rate_bps is below 8"));
                }
                within(place, "burst_bytes", burst_bytes, u32::MAX)?;
                let child = match child {
                    Some(child) => child.build(place)?,
                    None => QdiscPlan::Bfifo { limit_bytes }.build(place)?,
                };
                if child.is_noqueue() {
                    return Err(impossible(place, "a tbf needs a queue below it"));
                }
                Discipline::Tbf(Tbf::new(&TbfParameters { rate_bps, burst_bytes }, child))
            }
            QdiscPlan::Codel { limit_packets, ref codel } => {
                Discipline::Codel(Codel::new(codel.parameters(place)?, packets(limit_packets)?))
            }
            QdiscPlan::FqCodel(ref p) => Discipline::FqCodel(FqCodel::new(&FqCodelParameters {
                limit: packets(p.limit_packets)?,
                flows: within(place, "flows", p.flows, MAX_FQ_CODEL_FLOWS)?,
                quantum: quantum(p.quantum_bytes)?,
                memory_limit: within(place, "memory_limit_bytes", p.memory_limit_bytes, 1 << 31)?,
                drop_batch: within(place, "drop_batch_packets", p.drop_batch_packets, MAX_PACKETS)?,
                codel: p.codel.parameters(place)?,
            })),
            QdiscPlan::Sfq { limit_packets, depth_packets, flows, divisor, quantum_bytes } => {
                within(place, "divisor", divisor, MAX_SFQ_DIVISOR)?;
                if !divisor.is_power_of_two() {
                    return Err(impossible(place, format!("divisor is {divisor}, not a power of two")));
                }
                Discipline::Sfq(Sfq::new(&SfqParameters {
                    limit: packets(limit_packets)?,
                    depth: within(place, "depth_packets", depth_packets, MAX_SFQ_DEPTH)?,
                    flows: within(place, "flows", flows, MAX_SFQ_FLOWS)?,
                    divisor,
                    quantum: quantum(quantum_bytes)?,
                }))
            }
        };
        Ok(discipline.into())
    }
}

impl CodelPlan {
    fn parameters(&self, place: &str) -> Result<CodelParameters, PlanError> {
        within(place, "target_us", self.target_us, MAX_CODEL_US)?;
        within(place, "interval_us", self.interval_us, MAX_CODEL_US)?;
        Ok(CodelParameters::new(
            self.target_us,
            self.interval_us,
            self.mtu_bytes,
            self.ecn,
            self.stale_when_empty,
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RED: RedArguments = RedArguments {
        limit_bytes: 2_000_000,
        min_bytes: 50_000,
        max_bytes: 200_000,
        avpkt_bytes: 1500,
        burst_packets: 60,
        bandwidth_bps: 10_000_000,
        probability: 0.5,
        ecn: true,
        harddrop: false,
        whole_us: false,
    };

    fn refused(plan: QdiscPlan) -> String {
        plan.check("ports[0].qdisc").expect_err("it should be refused").to_string()
    }

    #[test]
    fn what_tc_refuses_is_refused_in_one_line() {
        assert!(QdiscPlan::Red(RED).check("q").is_ok());
        // min is 33.3 packets, and burst + 1 - 33.3 must not be below 1.
        let small = RedArguments { burst_packets: 32, ..RED };
        assert_eq!(
            refused(QdiscPlan::Red(small)),
            "ports[0].qdisc: burst is 32, too small for this min and avpkt; 34 is enough"
        );
        assert!(refused(QdiscPlan::Red(RedArguments { max_bytes: 50_000, ..RED }))
            .contains("max is not above min"));
        assert!(refused(QdiscPlan::Red(RedArguments { probability: 1.0, ..RED })).contains("probability"));
        assert!(refused(QdiscPlan::Pfifo { limit_packets: 0 }).contains("limit_packets is 0"));
        let child = Some(Box::new(QdiscPlan::Noqueue));
        let tbf = QdiscPlan::Tbf { rate_bps: 100_000_000, burst_bytes: 10_000, limit_bytes: 1, child };
        assert!(refused(tbf).contains("needs a queue"));
    }

    #[test]
    fn a_plan_is_read_as_it_was_written() {
        let child = Some(Box::new(QdiscPlan::Red(RED)));
        let plan = QdiscPlan::Tbf { rate_bps: 100_000_000, burst_bytes: 10_000, limit_bytes: 1, child };
        let text = serde_json::to_string(&plan).expect("it can be written");
        assert!(text.starts_with(r#"{"tbf":{"rate_bps":100000000,"#), "{text}");
        assert_eq!(serde_json::from_str::<QdiscPlan>(&text).expect("it can be read"), plan);
        assert_eq!(serde_json::from_str::<QdiscPlan>("\"noqueue\"").expect("a word"), QdiscPlan::Noqueue);
    }
}
