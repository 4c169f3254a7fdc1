//! Operations of graphs as columns of numbers in the machine's order. There may be ten million, which neither JSON nor objects
//! of Python should carry.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use std::fmt::Write;
use tailback_sim::plan::{Operations, What};

/// Ranks, kinds (places in [`KINDS`]), bytes or picoseconds, ranks that messages go to, their channels, where the places of
/// what an operation waits for end, and these places. Kinds have 8 bits, bytes or picoseconds 64, all others 32.
pub type Columns = [PyBackedBytes; 7];

const KINDS: [&str; 5] = ["compute", "reduce", "send", "receive", "barrier"];

fn u32s(column: &[u8]) -> Vec<u32> {
    column.as_chunks().0.iter().map(|number| u32::from_ne_bytes(*number)).collect()
}

/// The operations of a graph.
pub fn of([ranks, kinds, values, to, channels, ends, after]: &Columns) -> PyResult<Operations> {
    let values = values.as_chunks().0.iter().map(|number| u64::from_ne_bytes(*number));
    let messages = u32s(to).into_iter().zip(u32s(channels));
    let what = |((kind, value), (to, channel)): ((&u8, u64), (u32, u32))| match kind {
        0 => What::Compute(value),
        1 => What::Reduce(value),
        2 => What::Send { to, bytes: value, channel },
        3 => What::Receive,
        _ => What::Barrier,
    };
    let whats = kinds.iter().zip(values).zip(messages).map(what).collect();
    let made = Operations::of(u32s(ranks), whats, u32s(ends), u32s(after));
    made.ok_or_else(|| PyValueError::new_err("graph: no columns of operations"))
}

/// Places of operations that wait for each other in a circle; `None`: there are none.
#[pyfunction]
pub fn circle(py: Python<'_>, columns: Columns, ranks: usize) -> PyResult<Option<Vec<u32>>> {
    py.detach(|| Ok(tailback_sim::circle(&of(&columns)?, ranks)))
}

/// Operations as a plan in JSON has them.
#[pyfunction]
pub fn operations_as_json(py: Python<'_>, columns: Columns) -> PyResult<String> {
    py.detach(|| {
        let mut text = String::from("[");
        for (number, (rank, what, after)) in of(&columns)?.iter().enumerate() {
            let before = if number > 0 { ", " } else { "" };
            let what = match what {
                What::Compute(ps) => format!("{{\"{}\": {ps}}}", KINDS[0]),
                What::Reduce(bytes) => format!("{{\"{}\": {bytes}}}", KINDS[1]),
                What::Send { to, bytes, channel } => {
                    format!(
                        "{{\"{}\": {{\"bytes\": {bytes}, \"channel\": {channel}, \"to\": {to}}}}}",
                        KINDS[2]
                    )
                }
                What::Receive => format!("\"{}\"", KINDS[3]),
                What::Barrier => format!("\"{}\"", KINDS[4]),
            };
            write!(text, "{before}[{rank}, {what}, {after:?}]").expect("a text takes more");
        }
        text.push(']');
        Ok(text)
    })
}
