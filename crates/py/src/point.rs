//! A congestion point on real interfaces.

use std::time::Duration;

use pyo3::exceptions::{PyOSError, PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use tailback_live::point::InterfaceError;
use tailback_live::settings::PointSettings;

/// A congestion point between two interfaces.
#[pyclass]
pub struct Point(tailback_live::point::Point);

#[pymethods]
impl Point {
    /// ValueError where the settings are none; OSError, with the interface as its file, where one cannot be used.
    #[new]
    fn new(first: String, second: String, settings_json: &str) -> PyResult<Self> {
        let settings: PointSettings =
            serde_json::from_str(settings_json).map_err(|error| PyValueError::new_err(error.to_string()))?;
        tailback_live::point::Point::new([first, second], &settings).map(Point).map_err(interface_error)
    }

    /// Its clock becomes that of `followers` programs with end points, which find it by a file. OSError: it cannot be made.
    fn lead(&mut self, path: &str, followers: usize) -> PyResult<()> {
        self.0.lead(path, followers).map_err(PyErr::from)
    }

    /// Forwards for `milliseconds` without the interpreter's lock. OSError: an interface is gone.
    fn run(&mut self, py: Python<'_>, milliseconds: u64) -> PyResult<()> {
        py.detach(|| self.0.run(Duration::from_millis(milliseconds))).map_err(interface_error)
    }

    /// Writes received frames to a pcap file; to be called before `run`. OSError: it cannot be written.
    fn mirror(&mut self, path: &str) -> PyResult<()> {
        self.0.mirror(path).map_err(PyErr::from)
    }

    /// Ends that. OSError: it could not be written.
    fn end_mirror(&mut self) -> PyResult<()> {
        self.0.end_mirror().map_err(PyErr::from)
    }

    /// Its counters and bins so far, as JSON.
    fn told(&self) -> PyResult<String> {
        serde_json::to_string(&self.0.told()).map_err(|error| PyRuntimeError::new_err(error.to_string()))
    }
}

pub(crate) fn interface_error(error: InterfaceError) -> PyErr {
    let text = error.error.to_string();
    let words = text.split(" (os error").next().unwrap_or_default().to_owned();
    PyOSError::new_err((error.error.raw_os_error().unwrap_or(0), words, error.name))
}
