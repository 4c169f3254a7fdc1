//! The profile of the HPCC ns-3 simulator.

use arrow_array::{ArrayRef, Int64Array, UInt32Array, UInt8Array};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::PyBytes;
use std::path::PathBuf;
use std::sync::Arc;
use tailback_compat::hpcc::{self, fct_text, HpccPlan, PfcEvent};
use tailback_sim::work::Finished;

use crate::work::{in_ns, layers_in_ns, LayerInNs, Work};
use crate::{failed, finished, impossible, os_error, rows, tables, Progress, Recording};

/// What was recorded, and that simulator's own output files as tables.
#[pyclass(frozen)]
pub struct HpccRecording {
    #[pyo3(get)]
    recording: Py<Recording>,
    /// That simulator's file of finished messages; empty where the run has written it.
    #[pyo3(get)]
    fct: Py<PyBytes>,
    /// Where, if it has.
    #[pyo3(get)]
    fct_file: Option<PathBuf>,
    /// A row a PFC frame received.
    #[pyo3(get)]
    pfc: tables::Arrow,
    /// That simulator's queue-length file.
    #[pyo3(get)]
    qlen: String,
    #[pyo3(get)]
    origin_ns: u64,
    finished: Vec<Finished>,
}

#[pymethods]
impl HpccRecording {
    /// Ranks of the work that have finished, in this order: rank, ns, and how long it computed in ns.
    #[getter]
    fn finished(&self) -> Vec<(u32, u64, u64)> {
        in_ns(&self.finished)
    }
}

/// A run under way.
#[pyclass]
pub struct HpccSimulation(Option<hpcc::HpccSimulation>);

#[pymethods]
impl HpccSimulation {
    /// ValueError with one line where the plan is impossible. `flows`: rows of its flows beside those in it.
    #[new]
    #[pyo3(signature = (plan_json, flows = None))]
    fn new(py: Python<'_>, plan_json: &str, flows: Option<PyBackedBytes>) -> PyResult<Self> {
        let flows = rows::flows(flows.as_deref().unwrap_or_default())?;
        py.detach(|| HpccPlan::with_flows(plan_json, flows).and_then(|plan| hpcc::HpccSimulation::new(&plan)))
            .map(|simulation| HpccSimulation(Some(simulation)))
            .map_err(impossible)
    }

    /// A run whose messages are sent by the work of a front end. ValueError with one line where the plan is impossible.
    #[staticmethod]
    fn with_work(py: Python<'_>, plan_json: &str, mut work: PyRefMut<'_, Work>) -> PyResult<Self> {
        let work = work.take()?;
        py.detach(|| {
            HpccPlan::from_json(plan_json).and_then(|plan| hpcc::HpccSimulation::with_work(&plan, work))
        })
        .map(|simulation| HpccSimulation(Some(simulation)))
        .map_err(impossible)
    }

    /// What the first rank has done of a workload's layers, after the first `known`: layer, what of it, when it was
    /// asked for, when it was over, how long it was waited for, in ns.
    fn layers(&self, known: usize) -> PyResult<Vec<LayerInNs>> {
        let simulation = self.0.as_ref().ok_or_else(finished)?;
        Ok(layers_in_ns(simulation.work().map_or(&[], |work| work.layers()), known))
    }

    /// Messages that are over leave memory for files in this folder, where there are many: fct.txt, and one without a name.
    fn keep_in(&mut self, folder: PathBuf) -> PyResult<()> {
        self.0.as_mut().ok_or_else(finished)?.keep_in(folder);
        Ok(())
    }

    /// Executes up to `max_events` events, without the interpreter's lock.
    ///
    /// ValueError with one line where the work cannot go on. OSError where such a file cannot be written.
    fn advance(&mut self, py: Python<'_>, max_events: u64) -> PyResult<Progress> {
        let simulation = self.0.as_mut().ok_or_else(finished)?;
        let progress = py.detach(|| simulation.advance(max_events)).into();
        if let Some(error) = simulation.failed() {
            return Err(os_error(error));
        }
        match simulation.problem() {
            Some(problem) => Err(PyValueError::new_err(problem.to_string())),
            None => Ok(progress),
        }
    }

    /// Ends the run where it stands and hands over what was recorded; once.
    fn finish(&mut self, py: Python<'_>) -> PyResult<HpccRecording> {
        let mut simulation = self.0.take().ok_or_else(finished)?;
        let (recording, (fct, fct_file), pfc, qlen, origin_ns, finished) = py
            .detach(|| {
                let fct_file = simulation.end_fct()?;
                let recorded = simulation.finish();
                let hpcc::HpccRecording { recording, fct, pfc, qlen, origin_ns, finished, .. } = recorded;
                let text = fct_text(&fct);
                drop(fct);
                let (fct, pfc) =
                    (Python::attach(|py| PyBytes::new(py, text.as_bytes()).unbind()), pfc_table(&pfc)?);
                drop(text);
                Ok((Recording::new(recording)?, (fct, fct_file), pfc, qlen, origin_ns, finished))
            })
            .map_err(failed)?;
        crate::memory::give_back();
        Ok(HpccRecording {
            recording: Py::new(py, recording)?,
            fct,
            fct_file,
            pfc,
            qlen,
            origin_ns,
            finished,
        })
    }
}

fn pfc_table(rows: &[PfcEvent]) -> tables::Table {
    let u8s = |value: fn(&PfcEvent) -> u8| -> ArrayRef {
        Arc::new(UInt8Array::from_iter_values(rows.iter().map(value)))
    };
    let u32s = |value: fn(&PfcEvent) -> u32| -> ArrayRef {
        Arc::new(UInt32Array::from_iter_values(rows.iter().map(value)))
    };
    tables::table(vec![
        ("t_ns", Arc::new(Int64Array::from_iter_values(rows.iter().map(|row| row.t_ns as i64)))),
        ("node", u32s(|row| row.node)),
        ("node_type", u8s(|row| row.is_switch as u8)),
        ("port", u32s(|row| row.port as u32)),
        ("pause", u8s(|row| row.pause as u8)),
    ])
}
