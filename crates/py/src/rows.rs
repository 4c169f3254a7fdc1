//! Lists of messages as rows of six numbers: 64 bits each in the machine's order, row by row. There may be millions,
//! which neither JSON nor objects of Python should carry.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use std::fmt::Write;
use tailback_compat::hpcc::plan::Flow;
use tailback_compat::hpcc::plan::{read, Hosts};
use tailback_sim::plan::FlowPlan;

const WIDTH: usize = 6;
const ROW_BYTES: usize = WIDTH * size_of::<i64>();

fn numbers(row: &[u8]) -> [i64; WIDTH] {
    std::array::from_fn(|at| {
        let bytes = row[at * size_of::<i64>()..].first_chunk().expect("a whole row");
        i64::from_ne_bytes(*bytes)
    })
}

/// Rows that a plan has, each made of its numbers.
fn rows<T>(packed: &[u8], make: impl Fn([i64; WIDTH]) -> Option<T>) -> PyResult<Vec<T>> {
    let (rows, rest) = packed.as_chunks::<ROW_BYTES>();
    let made: Option<Vec<T>> = rows.iter().map(|row| make(numbers(row))).collect();
    made.filter(|_| rest.is_empty()).ok_or_else(|| PyValueError::new_err("flows: no rows of six numbers"))
}

/// Messages of Tailback's own models.
pub fn messages(packed: &[u8]) -> PyResult<Vec<FlowPlan>> {
    rows(packed, |[src, dst, item, point, bytes, start]| {
        Some(FlowPlan(
            src.try_into().ok()?,
            dst.try_into().ok()?,
            item.try_into().ok()?,
            point.try_into().ok()?,
            bytes.try_into().ok()?,
            start.try_into().ok()?,
        ))
    })
}

/// Flows of the HPCC profile.
pub fn flows(packed: &[u8]) -> PyResult<Vec<Flow>> {
    rows(packed, |[src, dst, priority, port, bytes, start]| {
        Some(Flow(
            src.try_into().ok()?,
            dst.try_into().ok()?,
            priority.try_into().ok()?,
            port.try_into().ok()?,
            bytes.try_into().ok()?,
            start.try_into().ok()?,
        ))
    })
}

/// The rows of a flow.txt. ValueError with line, token (none at the end of the file) and what is expected there.
#[pyfunction]
pub fn read_flow_list<'py>(
    py: Python<'py>,
    data: &[u8],
    is_host: Vec<bool>,
    zones: Vec<Vec<u32>>,
) -> PyResult<Bound<'py, PyBytes>> {
    let hosts = Hosts { is_host: &is_host, zones: &zones };
    let flows = py.detach(|| read(data, &hosts)).map_err(|refused| {
        let token = refused.token.map(|word| PyBytes::new(py, &word).unbind());
        PyValueError::new_err((refused.line, token, refused.expected))
    })?;
    PyBytes::new_with(py, flows.len() * ROW_BYTES, |packed| {
        let (numbers, _) = packed.as_chunks_mut::<{ size_of::<i64>() }>();
        let (places, _) = numbers.as_chunks_mut::<WIDTH>();
        for (row, flow) in places.iter_mut().zip(&flows) {
            let &Flow(src, dst, priority, port, bytes, start) = flow;
            let values: [u64; WIDTH] = [src.into(), dst.into(), priority.into(), port.into(), bytes, start];
            *row = values.map(u64::to_ne_bytes);
        }
        Ok(())
    })
}

/// Rows as JSON has them, `[1, 2, 3, 4, 5, 6]`, with a text between two.
#[pyfunction]
pub fn rows_as_json(py: Python<'_>, packed: &[u8], between: &str) -> String {
    py.detach(|| {
        let mut text = String::new();
        for row in packed.as_chunks::<ROW_BYTES>().0 {
            let before = if text.is_empty() { "" } else { between };
            let [a, b, c, d, e, f] = numbers(row);
            write!(text, "{before}[{a}, {b}, {c}, {d}, {e}, {f}]").expect("a text takes more");
        }
        text
    })
}
