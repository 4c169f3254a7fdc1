//! Hosts and switches with real packets.

use std::time::Duration;

use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use tailback_live::capture::Capture;
use tailback_live::pair::{memory_of, FIRST_QPN};
use tailback_live::reactor::Reactor;

use crate::controllers::{self, Checked, Failure};
use crate::point::interface_error;

/// A run on interfaces of this machine, and why a controller in Python failed, if one did.
#[pyclass]
pub struct Live(Reactor, Failure);

#[pymethods]
impl Live {
    /// ValueError where the plan is none; OSError, with the interface as its file, where one cannot be used or made. `controllers`: those
    /// that are written in Python, by their numbers in the plan.
    #[new]
    #[pyo3(signature = (plan_json, controllers = Vec::new()))]
    fn new(py: Python<'_>, plan_json: &str, controllers: Vec<Checked>) -> PyResult<Self> {
        let plan =
            serde_json::from_str(plan_json).map_err(|error| PyValueError::new_err(error.to_string()))?;
        let failure = Failure::default();
        let controls: Vec<_> = controllers.into_iter().map(|one| one.control(&failure)).collect();
        let reactor = Reactor::new(plan, &controls).map_err(interface_error)?;
        controllers::raise(py, &failure)?;
        Ok(Live(reactor, failure))
    }

    /// Its clock is that of the congestion point that leads by a file. OSError: none does.
    fn follow(&mut self, py: Python<'_>, path: &str) -> PyResult<()> {
        py.detach(|| self.0.follow(path)).map_err(PyErr::from)
    }

    /// Runs for `milliseconds` without the interpreter's lock. Returns whether the run is over. OSError: an interface is gone;
    /// ControllerError: a controller in Python failed.
    fn run(&mut self, py: Python<'_>, milliseconds: u64) -> PyResult<bool> {
        let over = py.detach(|| self.0.run(Duration::from_millis(milliseconds))).map_err(interface_error)?;
        controllers::raise(py, &self.1)?;
        Ok(over)
    }

    /// Writes the frames of a host to a pcap file from now on. OSError: it cannot be written.
    fn capture(&mut self, path: &str, host: usize) -> PyResult<()> {
        self.0.capture = Some(Capture::create(path, host)?);
        Ok(())
    }

    /// Ends that. OSError: it could not be written.
    fn end_capture(&mut self) -> PyResult<()> {
        self.0.capture.take().map_or(Ok(()), Capture::end).map_err(PyErr::from)
    }

    /// Its time, picoseconds.
    fn now_ps(&self) -> u64 {
        self.0.now().ps()
    }

    /// Of a host's queue pair by its order: its number, which is the key of its memory, and where that is.
    #[staticmethod]
    fn memory(number: u32) -> (u32, u64) {
        let qpn = FIRST_QPN + number;
        (qpn, memory_of(qpn))
    }

    /// What it has done, as JSON; `series`: with its time series. ControllerError: one failed when its rate was looked at.
    fn told(&self, py: Python<'_>, series: bool) -> PyResult<String> {
        let told = serde_json::to_string(&self.0.told(series))
            .map_err(|error| PyRuntimeError::new_err(error.to_string()))?;
        controllers::raise(py, &self.1)?;
        Ok(told)
    }
}
