//! Work of other simulators' front ends, which either engine carries out.

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use std::path::PathBuf;
use tailback_compat::astra::Astra;
use tailback_compat::simai::Simai;
use tailback_sim::plan::PlanError;
use tailback_sim::work::{self, Finished, LayerRecord};

use crate::impossible;

/// What sends a run's messages, until a run takes it.
#[pyclass]
pub struct Work(Option<Box<dyn work::Work>>);

#[pymethods]
impl Work {
    /// ASTRA-sim's system layer with the files of the ranks' traces, which must stay.
    ///
    /// ValueError with one line where a plan or a trace is impossible.
    #[staticmethod]
    fn astra(py: Python<'_>, plan_json: &str, traces: Vec<PathBuf>) -> PyResult<Self> {
        Work::made(py, || Astra::new(serde_json::from_str(plan_json).map_err(malformed)?, &traces))
    }

    /// SimAI's front end with a workload. ValueError with one line where a plan is impossible.
    #[staticmethod]
    fn simai(py: Python<'_>, plan_json: &str) -> PyResult<Self> {
        Work::made(py, || Simai::new(serde_json::from_str(plan_json).map_err(malformed)?))
    }
}

impl Work {
    fn made<W: work::Work + 'static>(
        py: Python<'_>,
        make: impl FnOnce() -> Result<W, PlanError> + Send,
    ) -> PyResult<Self> {
        Ok(Work(Some(Box::new(py.detach(make).map_err(impossible)?))))
    }

    /// Hands it to a run; once.
    pub fn take(&mut self) -> PyResult<Box<dyn work::Work>> {
        self.0.take().ok_or_else(|| PyRuntimeError::new_err("another run has this work"))
    }
}

fn malformed(error: serde_json::Error) -> PlanError {
    PlanError::Format(error.to_string())
}

/// Layer, what of it, when it was asked for, when it was over, how long it was waited for, in ns.
pub type LayerInNs = (u32, u8, u64, u64, u64);

/// Those after the first `known`.
pub fn layers_in_ns(layers: &[LayerRecord], known: usize) -> Vec<LayerInNs> {
    let ns = |ps: u64| ps / 1000;
    let new = layers.iter().skip(known);
    new.map(|one| (one.0, one.1, ns(one.2), ns(one.3), ns(one.4))).collect()
}

/// Rank, ns, and how long it computed in ns.
pub fn in_ns(finished: &[Finished]) -> Vec<(u32, u64, u64)> {
    finished.iter().map(|one| (one.rank, one.at.ps() / 1000, one.computed.ps() / 1000)).collect()
}
