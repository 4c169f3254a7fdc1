//! What ranks did, and what the last rank to finish waited for, in runs of another simulator's inputs.

use std::collections::HashMap;
use tailback_proto::units::Time;

use super::chain::Chains;
use crate::work::{Finished, InputsRecord, JobRecord, SpanRecord, StepRecord};

/// The history of a run so far.
#[derive(Debug, Default)]
pub struct History {
    pub chains: Chains,
    steps: Vec<StepRecord>,
    numbers: HashMap<StepRecord, u32>,
    /// How many steps have begun and ended, and the first spans.
    record: JobRecord,
}

impl History {
    /// A rank begins a step.
    pub fn begins(&mut self) {
        self.record.operations += 1;
    }

    /// A rank has done a step since `begin`, or will have done it at `end`.
    pub fn does(&mut self, rank: u32, step: StepRecord, begin: Time, end: Time) {
        self.record.ended += 1;
        if self.record.has_room() {
            let number = *self.numbers.entry(step).or_insert_with_key(|step| {
                self.steps.push(step.clone());
                self.steps.len() as u32 - 1
            });
            self.record.add(SpanRecord(rank, 0, number, begin.0, Some(end.0)));
        }
    }

    /// The job: its name, its ranks, and those that have finished.
    pub fn job(&self, name: &str, ranks: usize, finished: &[Finished]) -> JobRecord {
        let (mut finished_ps, mut computed_ps) = (vec![None; ranks], vec![None; ranks]);
        for one in finished {
            finished_ps[one.rank as usize] = Some(one.at.0);
            computed_ps[one.rank as usize] = Some(one.computed.0);
        }
        let all = finished.len() == ranks;
        let chain = all.then(|| self.chains.record()).flatten();
        let inputs = InputsRecord { steps: self.steps.clone(), computed_ps, chain };
        let iterations_ps = finished.last().filter(|_| all).map(|last| last.at.0).into_iter().collect();
        let name = name.to_owned();
        JobRecord { name, finished_ps, iterations_ps, inputs: Some(inputs), ..self.record.clone() }
    }
}
