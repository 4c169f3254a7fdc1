//! Queueing disciplines in a plan.

use serde::{Deserialize, Serialize};
use tailback_proto::aqm::codel::Codel;
pub use tailback_proto::aqm::codel::{CodelParameters, CodelQueueParameters};
pub use tailback_proto::aqm::fifo::{BfifoParameters, PfifoParameters};
use tailback_proto::aqm::fifo::{Fifo, FifoLimit};
use tailback_proto::aqm::fq_codel::FqCodel;
pub use tailback_proto::aqm::fq_codel::FqCodelParameters;
use tailback_proto::aqm::qdisc::{Discipline, Qdisc};
use tailback_proto::aqm::red::Red;
pub use tailback_proto::aqm::red::RedArguments;
use tailback_proto::aqm::sfq::Sfq;
pub use tailback_proto::aqm::sfq::SfqParameters;
pub use tailback_proto::aqm::tbf::TbfParameters;

use super::{impossible, in_bounds, PlanError};

/// A queueing discipline, as `tc qdisc add` sets it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum QdiscPlan {
    Noqueue,
    Pfifo(PfifoParameters),
    Bfifo(BfifoParameters),
    Red(RedArguments),
    /// Packets wait in `child`, without one in a `bfifo` of the limit of `own`.
    Tbf {
        own: TbfParameters,
        child: Option<Box<QdiscPlan>>,
    },
    Codel {
        own: CodelQueueParameters,
        codel: CodelParameters,
    },
    FqCodel {
        own: FqCodelParameters,
        codel: CodelParameters,
    },
    Sfq(SfqParameters),
}

impl QdiscPlan {
    /// Refuses what `tc` or the kernel refuses.
    ///
    /// # Errors
    /// One line that names `place` and the number.
    pub fn check(&self, place: &str, mtu_bytes: u32) -> Result<(), PlanError> {
        self.build(place, mtu_bytes).map(|_| ())
    }

    /// The empty discipline of a device with this MTU, bytes with the Ethernet header.
    ///
    /// # Errors
    /// As `check`.
    pub fn build(&self, place: &str, mtu_bytes: u32) -> Result<Qdisc, PlanError> {
        let discipline = match self {
            QdiscPlan::Noqueue => Discipline::Noqueue,
            QdiscPlan::Pfifo(own) => {
                in_bounds(place, own)?;
                Discipline::Fifo(Fifo::new(FifoLimit::Packets(own.limit)))
            }
            QdiscPlan::Bfifo(own) => {
                in_bounds(place, own)?;
                Discipline::Fifo(Fifo::new(FifoLimit::Bytes(own.limit.0 as u32)))
            }
            QdiscPlan::Red(red) => {
                let parameters = red.parameters().map_err(|problem| impossible(place, problem))?;
                Discipline::Red(Red::new(&parameters))
            }
            QdiscPlan::Tbf { own, child } => {
                in_bounds(place, own)?;
                let child = match (child, own.limit) {
                    (Some(child), _) => child.build(place, mtu_bytes)?,
                    (None, Some(limit)) => {
                        QdiscPlan::Bfifo(BfifoParameters { limit }).build(place, mtu_bytes)?
                    }
                    (None, None) => return Err(impossible(place, "a tbf has neither limit nor child")),
                };
                if child.is_noqueue() {
                    return Err(impossible(place, "a tbf needs a queue below it"));
                }
                Discipline::tbf(own, child)
            }
            QdiscPlan::Codel { own, codel } => {
                in_bounds(place, own)?;
                in_bounds(place, codel)?;
                Discipline::Codel(Codel::new(own, codel, mtu_bytes))
            }
            QdiscPlan::FqCodel { own, codel } => {
                in_bounds(place, own)?;
                in_bounds(place, codel)?;
                Discipline::FqCodel(FqCodel::new(own, codel, mtu_bytes))
            }
            QdiscPlan::Sfq(own) => {
                in_bounds(place, own)?;
                if !own.divisor.is_power_of_two() {
                    return Err(impossible(place, format!("divisor is {}, not a power of two", own.divisor)));
                }
                Discipline::Sfq(Sfq::new(own))
            }
        };
        Ok(discipline.into())
    }
}

#[cfg(test)]
#[path = "../../../proto/tests/red_arguments/mod.rs"]
mod red_arguments;

#[cfg(test)]
mod tests {
    use super::red_arguments::RED;
    use super::*;
    use tailback_proto::units::{Bytes, Rate};

    const TBF: TbfParameters = TbfParameters { rate: Rate(100_000_000), burst: Bytes(10_000), limit: None };

    fn refused(plan: QdiscPlan) -> String {
        plan.check("ports[0].qdisc", 1514).expect_err("it should be refused").to_string()
    }

    #[test]
    fn what_tc_refuses_is_refused_in_one_line() {
        assert!(QdiscPlan::Red(RED).check("q", 1514).is_ok());
        // min is 33.3 packets, and burst + 1 - 33.3 must not be below 1.
        let small = RedArguments { burst: 32, ..RED };
        assert_eq!(
            refused(QdiscPlan::Red(small)),
            "ports[0].qdisc: burst is 32, too small for this min and avpkt; 34 is enough"
        );
        assert!(refused(QdiscPlan::Red(RedArguments { max: Bytes(50_000), ..RED }))
            .contains("max is not above min"));
        assert!(refused(QdiscPlan::Red(RedArguments { probability: 1.0, ..RED })).contains("probability"));
        assert!(
            refused(QdiscPlan::Pfifo(PfifoParameters { limit: 0 })).contains("qdisc.limit: expected 1 to")
        );
        let child = Some(Box::new(QdiscPlan::Noqueue));
        let tbf = QdiscPlan::Tbf { own: TBF, child };
        assert!(refused(tbf).contains("needs a queue"));
    }

    #[test]
    fn a_plan_is_read_as_it_was_written() {
        let child = Some(Box::new(QdiscPlan::Red(RED)));
        let plan = QdiscPlan::Tbf { own: TBF, child };
        let text = serde_json::to_string(&plan).expect("it can be written");
        assert!(text.starts_with(r#"{"tbf":{"own":{"rate":100000000,"#), "{text}");
        assert_eq!(serde_json::from_str::<QdiscPlan>(&text).expect("it can be read"), plan);
        assert_eq!(serde_json::from_str::<QdiscPlan>("\"noqueue\"").expect("a word"), QdiscPlan::Noqueue);
    }
}
