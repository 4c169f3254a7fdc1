//! Captures, read and told of.

use std::fs::File;
use std::path::PathBuf;
use std::sync::Mutex;

use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;

/// A capture that is being read.
#[pyclass]
pub struct Analysis(Mutex<Option<tailback_analyze::Analysis>>);

#[pymethods]
impl Analysis {
    /// Of a file; `-` is what comes in. OSError; ValueError with what was found where it is no capture.
    #[new]
    fn new(path: PathBuf) -> PyResult<Self> {
        let analysis = if path.as_os_str() == "-" {
            tailback_analyze::Analysis::new(std::io::stdin())
        } else {
            tailback_analyze::Analysis::new(File::open(path).map_err(crate::os_error)?)
        };
        analysis
            .map(|analysis| Analysis(Mutex::new(Some(analysis))))
            .map_err(|error| PyValueError::new_err(error.to_string()))
    }

    /// Reads at most `max_frames` frames without the interpreter's lock. Returns the bytes of the file read so far, and whether
    /// it ends. ValueError says what was found where it cannot be read any further.
    fn advance(&mut self, py: Python<'_>, max_frames: u64) -> PyResult<(u64, bool)> {
        let analysis = self.0.get_mut().ok().and_then(Option::as_mut).ok_or_else(finished)?;
        let done = py
            .detach(|| analysis.advance(max_frames))
            .map_err(|error| PyValueError::new_err(error.to_string()))?;
        Ok((analysis.source_bytes(), done))
    }

    /// What was found, as JSON; once.
    fn finish(&mut self, py: Python<'_>) -> PyResult<String> {
        let analysis = self.0.get_mut().ok().and_then(Option::take).ok_or_else(finished)?;
        py.detach(|| serde_json::to_string(&analysis.finish()))
            .map_err(|error| PyRuntimeError::new_err(error.to_string()))
    }
}

fn finished() -> PyErr {
    PyRuntimeError::new_err("the analysis is finished")
}
