//! The Python module `tailback._engine`: a thin layer over `tailback_sim`. Nothing is decided here.

mod analysis;
mod controllers;
mod hpcc;
#[cfg(target_os = "linux")]
mod live;
mod memory;
mod operations;
#[cfg(target_os = "linux")]
mod point;
mod rows;
mod tables;
mod work;

use std::fs::File;
use std::io::BufWriter;
use std::path::PathBuf;
use std::sync::Mutex;

use arrow_pyarrow::ToPyArrow;
use pyo3::exceptions::{PyOSError, PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use tailback_proto::units::{Rate, Time};
use tailback_proto::wire;
use tailback_sim::capture::CaptureSettings;
use tailback_sim::plan::{Plan, PlanError};

use crate::work::{in_ns, layers_in_ns, LayerInNs, Work};

/// What is written of a capture at once.
const CAPTURE_BUFFER_BYTES: usize = 1 << 20;

#[global_allocator]
static MEMORY: memory::OrEnd = memory::OrEnd;

/// How far a run is.
#[pyclass(frozen, get_all)]
struct Progress {
    /// Simulated time, picoseconds.
    time_ps: u64,
    /// Transmissions of a packet over a link so far.
    packet_hops: u64,
    /// Events executed so far.
    events: u64,
    /// Whether the run is over.
    done: bool,
}

impl From<tailback_sim::Progress> for Progress {
    fn from(progress: tailback_sim::Progress) -> Self {
        Progress {
            time_ps: progress.time.ps(),
            packet_hops: progress.packet_hops,
            events: progress.events,
            done: progress.done,
        }
    }
}

/// What was recorded of a run.
#[pyclass(frozen)]
struct Recording {
    flows: Mutex<tables::FlowBatches>,
    /// A row a bin, entity and metric.
    #[pyo3(get)]
    series: tables::Arrow,
    /// A row an entity of the series.
    #[pyo3(get)]
    entities: tables::Arrow,
    /// A row for each bin with a signal to wait.
    #[pyo3(get)]
    signals: tables::Arrow,
    /// A row a counter.
    #[pyo3(get)]
    counters: tables::Arrow,
    /// The run as a whole, as JSON.
    #[pyo3(get)]
    meta_json: String,
}

#[pymethods]
impl Recording {
    /// A row a queue pair or TCP connection; once. Where rows are in a file, `next_flows` gives them without having all in memory.
    #[getter]
    fn flows<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let mut flows = self.flows.lock().expect("nobody panics with it");
        let mut batches = Vec::new();
        while let Some(batch) = flows.next_batch().map_err(failed)? {
            batches.push(batch.to_pyarrow(py)?);
        }
        py.import("pyarrow")?.getattr("Table")?.call_method1("from_batches", (batches,))
    }

    /// The folder of the file that rows of flows are in, if they are in one.
    #[getter]
    fn flow_folder(&self) -> Option<PathBuf> {
        self.flows.lock().expect("nobody panics with it").folder()
    }

    /// The columns of flows: a schema.
    #[getter]
    fn flow_columns<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.flows.lock().expect("nobody panics with it").schema.to_pyarrow(py)
    }

    /// Rows of flows that follow each other: columns whose values differ, and those of one value. `None` after the last.
    fn next_flows<'py>(&self, py: Python<'py>) -> PyResult<Option<[Bound<'py, PyAny>; 2]>> {
        let mut flows = self.flows.lock().expect("nobody panics with it");
        let Some([differ, same]) = flows.next_in_two().map_err(failed)? else { return Ok(None) };
        Ok(Some([differ.to_pyarrow(py)?, same.to_pyarrow(py)?]))
    }
}

/// A run under way, and why a controller in Python failed, if one did.
#[pyclass]
struct Simulation(Option<tailback_sim::Simulation>, Option<controllers::Failure>);

#[pymethods]
impl Simulation {
    /// ValueError with one line where the plan is impossible. `controllers`: those that are written in Python, by
    /// their numbers in the plan. `messages`: rows of its list of flows beside those in it. `graphs`: columns of the
    /// operations of its empty graphs, in order.
    #[new]
    #[pyo3(signature = (plan_json, controllers = Vec::new(), messages = None, graphs = Vec::new()))]
    fn new(
        py: Python<'_>,
        plan_json: &str,
        controllers: Vec<controllers::Checked>,
        messages: Option<PyBackedBytes>,
        graphs: Vec<operations::Columns>,
    ) -> PyResult<Self> {
        let messages = rows::messages(messages.as_deref().unwrap_or_default())?;
        let graphs = graphs.into_iter().map(operations::of).collect::<PyResult<Vec<_>>>()?;
        let failure = (!controllers.is_empty()).then(controllers::Failure::default);
        let controls: Vec<_> = controllers
            .into_iter()
            .flat_map(|one| failure.as_ref().map(|failure| one.control(failure)))
            .collect();
        let simulation = py
            .detach(|| {
                let plan = Plan::with_lists(plan_json, messages, graphs)?;
                tailback_sim::Simulation::with_controls(plan, &controls)
            })
            .map_err(impossible)?;
        let simulation = Simulation(Some(simulation), failure);
        simulation.raise_failure(py)?;
        Ok(simulation)
    }

    /// As of `HpccSimulation`.
    #[staticmethod]
    fn with_work(py: Python<'_>, plan_json: &str, mut work: PyRefMut<'_, Work>) -> PyResult<Self> {
        let work = work.take()?;
        py.detach(|| {
            Plan::from_json(plan_json).and_then(|plan| tailback_sim::Simulation::with_work(plan, work))
        })
        .map(|simulation| Simulation(Some(simulation), None))
        .map_err(impossible)
    }

    /// As of `HpccSimulation`.
    fn layers(&self, known: usize) -> PyResult<Vec<LayerInNs>> {
        let simulation = self.0.as_ref().ok_or_else(finished)?;
        Ok(layers_in_ns(simulation.work().map_or(&[], |work| work.layers()), known))
    }

    /// Many rows of flows leave memory for a file without a name in this folder.
    fn keep_in(&mut self, folder: PathBuf) -> PyResult<()> {
        self.0.as_mut().ok_or_else(finished)?.keep_in(folder);
        Ok(())
    }

    /// Ranks of the work that have finished, in this order: rank, ns, and how long it computed in ns.
    fn ranks_finished(&self) -> PyResult<Vec<(u32, u64, u64)>> {
        let simulation = self.0.as_ref().ok_or_else(finished)?;
        Ok(in_ns(simulation.work().map_or(&[], |work| work.finished())))
    }

    /// Writes what links carry from now on to a new file. ValueError where there is no such link, OSError.
    fn capture(
        &mut self,
        path: PathBuf,
        links: Vec<String>,
        start_ps: u64,
        stop_ps: u64,
        snap_bytes: u32,
    ) -> PyResult<()> {
        let simulation = self.0.as_mut().ok_or_else(finished)?;
        let file = File::create(path).map_err(os_error)?;
        let settings = CaptureSettings { links, start: Time(start_ps), stop: Time(stop_ps), snap_bytes };
        simulation
            .capture(settings, Box::new(BufWriter::with_capacity(CAPTURE_BUFFER_BYTES, file)))
            .map_err(PyValueError::new_err)
    }

    /// Runs on `wanted` cores; call it before the run begins. Returns how many it takes, and why not more. `None`: as many as
    /// there are, where that is worth it.
    #[pyo3(signature = (wanted))]
    fn use_threads(&mut self, py: Python<'_>, wanted: Option<usize>) -> PyResult<(usize, Option<String>)> {
        let simulation = self.0.as_mut().ok_or_else(finished)?;
        Ok(py.detach(|| simulation.use_threads(wanted)))
    }

    /// Ends the capture, if there is one. OSError where it could not be written to its end.
    fn end_capture(&mut self, py: Python<'_>) -> PyResult<()> {
        let simulation = self.0.as_mut().ok_or_else(finished)?;
        py.detach(|| simulation.end_capture()).map_err(os_error)
    }

    /// Executes up to `max_events` events, without the interpreter's lock.
    fn advance(&mut self, py: Python<'_>, max_events: u64) -> PyResult<Progress> {
        let simulation = self.0.as_mut().ok_or_else(finished)?;
        // Controllers in Python would take the lock for each call.
        let progress = match self.1 {
            None => py.detach(|| simulation.advance(max_events)),
            Some(_) => simulation.advance(max_events),
        };
        self.raise_failure(py)?;
        if self.0.as_ref().is_some_and(tailback_sim::Simulation::capture_failed) {
            self.end_capture(py)?;
        }
        if let Some(problem) = self.0.as_ref().and_then(tailback_sim::Simulation::problem) {
            return Err(PyValueError::new_err(problem.to_string()));
        }
        Ok(progress.into())
    }

    /// Ends the run where it stands and hands over what was recorded; once.
    fn finish(&mut self, py: Python<'_>) -> PyResult<Recording> {
        let simulation = self.0.take().ok_or_else(finished)?;
        let recording = py.detach(|| Recording::new(simulation.finish())).map_err(failed)?;
        memory::give_back();
        self.raise_failure(py)?;
        Ok(recording)
    }
}

impl Simulation {
    /// Raises what made a controller in Python fail.
    fn raise_failure(&self, py: Python<'_>) -> PyResult<()> {
        self.1.as_ref().map_or(Ok(()), |failure| controllers::raise(py, failure))
    }
}

impl Recording {
    fn new(recorded: tailback_sim::record::Recording) -> Result<Self, Failure> {
        Ok(Recording {
            flows: Mutex::new(tables::FlowBatches::new(recorded.blocks, &recorded.flows)),
            entities: tables::entities(&recorded.series)?,
            series: tables::series(recorded.series)?,
            signals: tables::signals(&recorded.signals)?,
            counters: tables::counters(&recorded.counters)?,
            meta_json: serde_json::to_string(&recorded.meta)?,
        })
    }
}

/// Anything that can go wrong with a table or with JSON.
pub(crate) type Failure = Box<dyn std::error::Error + Send + Sync>;

pub(crate) fn failed(error: Failure) -> PyErr {
    match error.downcast::<std::io::Error>() {
        Ok(error) => os_error(*error),
        Err(error) => PyRuntimeError::new_err(error.to_string()),
    }
}

/// As Python has it: the number, and its text alone.
pub(crate) fn os_error(error: std::io::Error) -> PyErr {
    match error.raw_os_error() {
        Some(number) => {
            let text = error.to_string();
            let words = text.split(" (os error").next().unwrap_or_default().to_owned();
            PyOSError::new_err((number, words))
        }
        None => error.into(),
    }
}

fn impossible(plan: PlanError) -> PyErr {
    PyValueError::new_err(plan.to_string())
}

fn finished() -> PyErr {
    PyRuntimeError::new_err("the run is finished")
}

/// Bytes that a lossless priority of a port needs above xoff: [`tailback_proto::flow_control::pfc::headroom_bytes`].
#[pyfunction]
fn headroom_bytes(
    rate_bps: u64,
    delay_ps: u64,
    response_delay_ps: u64,
    latency_ps: u64,
    largest_packet_bytes: u32,
) -> u64 {
    tailback_proto::flow_control::pfc::headroom_bytes(
        Rate(rate_bps),
        Time(delay_ps),
        Time(response_delay_ps),
        Time(latency_ps),
        largest_packet_bytes,
    )
}

/// What is recorded, as JSON: kinds of entities, series and counters, columns of the flow table.
#[pyfunction]
fn recorded() -> PyResult<String> {
    serde_json::to_string(&tailback_sim::record::reference()).map_err(|error| failed(error.into()))
}

#[pymodule]
fn _engine(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    for (name, bytes) in [
        ("PREAMBLE_AND_GAP_BYTES", wire::PREAMBLE_AND_GAP_BYTES),
        ("ETHERNET_HEADER_BYTES", wire::Ethernet::LEN as u32),
        ("FCS_BYTES", wire::FCS_BYTES),
        ("ROCE_HEADER_BYTES", (wire::Ipv4::LEN + wire::Udp::LEN + wire::Bth::LEN + wire::icrc::LEN) as u32),
        ("RETH_BYTES", wire::Reth::LEN as u32),
        ("ACK_FRAME_BYTES", wire::ACK_FRAME_BYTES),
        ("TCP_HEADER_BYTES", wire::IPV4_BYTES + wire::TCP_BYTES + wire::TCP_TIMESTAMP_BYTES),
    ] {
        module.add(name, bytes)?;
    }
    module.add_function(wrap_pyfunction!(controllers::controllers, module)?)?;
    module.add_function(wrap_pyfunction!(controllers::check_controller, module)?)?;
    module.add("ControllerError", module.py().get_type::<controllers::ControllerError>())?;
    module.add_class::<controllers::Ack>()?;
    module.add_class::<controllers::Hop>()?;
    module.add_function(wrap_pyfunction!(controllers::settings, module)?)?;
    module.add_function(wrap_pyfunction!(recorded, module)?)?;
    module.add_class::<Progress>()?;
    module.add_class::<Recording>()?;
    module.add_class::<Simulation>()?;
    module.add_class::<Work>()?;
    module.add_function(wrap_pyfunction!(headroom_bytes, module)?)?;
    module.add_function(wrap_pyfunction!(memory::remove_when_out_of_memory, module)?)?;
    module.add_function(wrap_pyfunction!(rows::read_flow_list, module)?)?;
    module.add_function(wrap_pyfunction!(rows::rows_as_json, module)?)?;
    module.add_function(wrap_pyfunction!(operations::circle, module)?)?;
    module.add_class::<analysis::Analysis>()?;
    #[cfg(target_os = "linux")]
    module.add_class::<live::Live>()?;
    #[cfg(target_os = "linux")]
    module.add_class::<point::Point>()?;
    module.add_class::<hpcc::HpccRecording>()?;
    module.add_class::<hpcc::HpccSimulation>()
}
