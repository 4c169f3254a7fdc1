//! Operations of graphs as columns of numbers in the machine's order. There may be ten million, which neither JSON nor objects
//! of Python should carry; nor are they copied.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use tailback_sim::plan::{Column, Operations};

/// As [`Operations::of`] takes them.
pub type Columns = [PyBackedBytes; 7];

/// The operations of a graph.
pub fn of(columns: Columns) -> PyResult<Operations> {
    let made = Operations::of(columns.map(|column| Box::new(column) as Column));
    made.ok_or_else(|| PyValueError::new_err("graph: no columns of operations"))
}

/// Places of operations that wait for each other in a circle; `None`: there are none.
#[pyfunction]
pub fn circle(py: Python<'_>, columns: Columns) -> PyResult<Option<Vec<u32>>> {
    py.detach(|| Ok(tailback_sim::circle(&of(columns)?)))
}
