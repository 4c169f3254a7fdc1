//! A recording as Arrow tables.

use arrow_array::types::Int32Type;
use arrow_array::{Array, RecordBatch, RecordBatchOptions};
use arrow_array::{
    ArrayRef, DictionaryArray, Float64Array, Int32Array, Int64Array, StringArray, UInt32Array, UInt8Array,
};
use arrow_pyarrow::ToPyArrow;
use arrow_schema::{ArrowError, DataType, Field, FieldRef, Schema, SchemaRef};
use pyo3::prelude::*;
use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;
use tailback_sim::record::{
    Cells, Counter, Entity, Flow, FlowBlock, FlowBlocks, Read, Series, SignalEnds, SignalRow, Signals,
    COLUMNS,
};

use crate::Failure;

pub type Table = Result<Arrow, ArrowError>;

/// A table, which Python gets as pyarrow's `RecordBatch`.
pub struct Arrow(pub RecordBatch);

impl<'py> IntoPyObject<'py> for &Arrow {
    type Target = PyAny;
    type Output = Bound<'py, PyAny>;
    type Error = PyErr;

    fn into_pyobject(self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.0.to_pyarrow(py)
    }
}

pub fn table(columns: Vec<(&str, ArrayRef)>) -> Table {
    RecordBatch::try_from_iter(columns).map(Arrow)
}

fn strings<'a>(values: impl Iterator<Item = &'a str>) -> ArrayRef {
    Arc::new(StringArray::from_iter_values(values))
}

fn optional_strings<'a>(values: impl Iterator<Item = Option<&'a str>>) -> ArrayRef {
    Arc::new(values.collect::<StringArray>())
}

/// 64-bit counts as Arrow's and pandas' usual integer.
fn integers(values: impl Iterator<Item = u64>) -> ArrayRef {
    Arc::new(Int64Array::from_iter_values(values.map(|value| value as i64)))
}

fn optional_integers(values: impl Iterator<Item = Option<u64>>) -> ArrayRef {
    Arc::new(values.map(|value| value.map(|value| value as i64)).collect::<Int64Array>())
}

fn floats(values: impl Iterator<Item = f64>) -> ArrayRef {
    Arc::new(Float64Array::from_iter_values(values))
}

/// Columns, each with whether all of its values are the same.
type Columns = Vec<(ArrayRef, bool)>;

/// The flow table, block by block. Columns with one value are stored once for all blocks.
pub struct FlowBatches {
    blocks: FlowBlocks,
    rest: Option<FlowBlock>,
    /// Places of the columns that there are, and the table with them.
    columns: Vec<usize>,
    pub schema: SchemaRef,
    /// By column: the last block's of one value.
    known: Vec<Option<(Cells, ArrayRef)>>,
    /// Number of the next row.
    first: usize,
    in_file: bool,
}

impl FlowBatches {
    pub fn new(blocks: FlowBlocks, rest: &[Flow]) -> FlowBatches {
        let rest = (!rest.is_empty() || blocks.is_empty()).then(|| FlowBlock::new(rest));
        let has = |at: usize| {
            let (some, none) = blocks.has(at);
            let of_rest = |is: fn(&Cells) -> bool| rest.as_ref().is_some_and(|rest| is(&rest.columns[at]));
            (some || of_rest(Cells::has_some), none || of_rest(Cells::has_none))
        };
        let columns: Vec<usize> = (0..COLUMNS.len()).filter(|&at| COLUMNS[at].is_in(has(at).0)).collect();
        let field = |&at: &usize| Field::new(COLUMNS[at].name, kind(&COLUMNS[at].read), has(at).1);
        let schema = Arc::new(Schema::new(columns.iter().map(field).collect::<Vec<Field>>()));
        let (known, in_file) = (columns.iter().map(|_| None).collect(), blocks.folder().is_some());
        FlowBatches { blocks, rest, columns, schema, known, first: 0, in_file }
    }

    /// The folder of the file that blocks are in, if they are in one.
    pub fn folder(&self) -> Option<PathBuf> {
        self.blocks.folder().filter(|_| self.in_file)
    }

    /// How many rows the next block has, and its columns; none: there are no more.
    fn arrays(&mut self) -> std::io::Result<Option<(usize, Columns)>> {
        let Some(block) = self.blocks.next().transpose()?.or_else(|| self.rest.take()) else {
            return Ok(None);
        };
        let rows = block.rows;
        let mut cells: Vec<Option<Cells>> = block.columns.into_iter().map(Some).collect();
        let arrays = self.columns.iter().zip(&mut self.known).map(|(&at, known)| {
            let cells = cells[at].take().unwrap_or(Cells::Row);
            let is_same = cells.is_same();
            match known {
                Some((same, array)) if *same == cells && array.len() == rows && is_same => {
                    (array.clone(), true)
                }
                _ => {
                    let made = array(&cells, &COLUMNS[at].read, self.first, rows);
                    *known = is_same.then(|| (cells, made.clone()));
                    (made, is_same)
                }
            }
        });
        let arrays = arrays.collect();
        self.first += rows;
        Ok(Some((rows, arrays)))
    }

    /// The next block.
    pub fn next_batch(&mut self) -> Result<Option<RecordBatch>, Failure> {
        let Some((_, arrays)) = self.arrays()? else { return Ok(None) };
        let arrays = arrays.into_iter().map(|(array, _)| array).collect();
        Ok(Some(RecordBatch::try_new(self.schema.clone(), arrays)?))
    }

    /// The next block in two: columns whose values differ, and those of one value.
    pub fn next_in_two(&mut self) -> Result<Option<[RecordBatch; 2]>, Failure> {
        let Some((rows, arrays)) = self.arrays()? else { return Ok(None) };
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        let part = |same: bool| {
            let own = arrays.iter().zip(self.schema.fields()).filter(|((_, is_same), _)| *is_same == same);
            let (arrays, fields): (Vec<ArrayRef>, Vec<FieldRef>) =
                own.map(|((array, _), field)| (array.clone(), field.clone())).unzip();
            RecordBatch::try_new_with_options(Arc::new(Schema::new(fields)), arrays, &options)
        };
        Ok(Some([part(false)?, part(true)?]))
    }
}

fn kind(read: &Read) -> DataType {
    match read.type_name() {
        "string" => DataType::Utf8,
        "uint8" => DataType::UInt8,
        "uint32" => DataType::UInt32,
        "float64" => DataType::Float64,
        _ => DataType::Int64,
    }
}

/// The array of a column of a block, whose rows are numbered from `first` on.
fn array(cells: &Cells, read: &Read, first: usize, rows: usize) -> ArrayRef {
    match cells {
        Cells::Row => integers((first as u64..).take(rows)),
        Cells::Text(names, at) => {
            let name = |at: Option<u32>| at.map(|at| names[at as usize].as_str());
            optional_strings(at.iter(rows).map(name))
        }
        Cells::Integer(values) => match read {
            Read::U8(_) => Arc::new(UInt8Array::from_iter_values(values.iter(rows).map(|value| value as u8))),
            Read::U32(_) => {
                Arc::new(UInt32Array::from_iter_values(values.iter(rows).map(|value| value as u32)))
            }
            _ => integers(values.iter(rows)),
        },
        Cells::OptionalInteger(values) => optional_integers(values.iter(rows)),
        Cells::Float(values) => floats(values.iter(rows)),
        Cells::OptionalFloat(values) => Arc::new(values.iter(rows).collect::<Float64Array>()),
    }
}

pub fn counters(counters: &[Counter]) -> Table {
    let rows = || counters.iter();
    table(vec![
        ("node", strings(rows().map(|c| c.node.as_str()))),
        ("port", strings(rows().map(|c| c.port.as_str()))),
        ("counter", strings(rows().map(|c| c.counter.as_str()))),
        ("value", integers(rows().map(|c| c.value))),
    ])
}

/// A row for each entity that has a series.
pub fn entities(series: &Series) -> Table {
    let mut used = vec![false; series.entities.len()];
    series.names.iter().for_each(|&(entity, _)| used[entity] = true);
    let rows: Vec<&Entity> =
        series.entities.iter().zip(used).filter(|(_, used)| *used).map(|(entity, _)| entity).collect();
    let text = |text: fn(&Entity) -> &str| {
        optional_strings(rows.iter().map(move |entity| Some(text(entity)).filter(|text| !text.is_empty())))
    };
    table(vec![
        ("entity", text(|entity| &entity.name)),
        ("kind", text(|entity| entity.kind)),
        ("node", text(|entity| &entity.node)),
        ("peer", text(|entity| &entity.peer)),
        ("item", text(|entity| &entity.item)),
    ])
}

/// The place of each text among the texts, each of which is there once; an empty one has none.
///
/// Arrow's Parquet writer leaves bytes of a page unwritten for a name that a dictionary holds twice.
fn places<'a>(texts: impl Iterator<Item = &'a str>) -> (Vec<Option<i32>>, ArrayRef) {
    let mut place_of: HashMap<&str, i32> = HashMap::new();
    let mut names = Vec::new();
    let place = |text: &'a str| {
        (!text.is_empty()).then(|| {
            *place_of.entry(text).or_insert_with(|| {
                names.push(text);
                names.len() as i32 - 1
            })
        })
    };
    let places = texts.map(place).collect();
    (places, strings(names.into_iter()))
}

fn dictionary(keys: Int32Array, names: ArrayRef) -> Result<ArrayRef, ArrowError> {
    Ok(Arc::new(DictionaryArray::<Int32Type>::try_new(keys, names)?))
}

/// A row for each bin, or for the whole run, with a signal to wait.
pub fn signals(signals: &Signals) -> Table {
    let rows = || signals.rows.iter();
    let text = |text: fn(&SignalEnds) -> &str| {
        let (places, names) = places(signals.who.iter().map(text));
        dictionary(rows().map(|row| places[row.who as usize]).collect(), names)
    };
    let lasts = |row: &SignalRow| signals.who[row.who as usize].signal.lasts();
    table(vec![
        ("queue", text(|who| &who.queue)?),
        ("signal", text(|who| who.signal.name())?),
        ("from", text(|who| &who.from)?),
        ("to", text(|who| &who.to)?),
        ("start_ps", integers(rows().map(|row| row.start.ps()))),
        ("end_ps", integers(rows().map(|row| row.end.ps()))),
        ("count", optional_integers(rows().map(|row| Some(row.amount).filter(|_| !lasts(row))))),
        ("duration_ps", optional_integers(rows().map(|row| Some(row.amount).filter(|_| lasts(row))))),
    ])
}

/// One row for each bin of each column, column by column. The values are taken and not copied.
pub fn series(series: Series) -> Table {
    let bins = series.bins;
    let rows = series.values.len();
    let mut metrics: Vec<&str> = Vec::new();
    let (places, entities) = places(series.entities.iter().map(|entity| entity.name.as_str()));
    let mut entity_keys = Vec::with_capacity(rows);
    let mut metric_keys = Vec::with_capacity(rows);
    let mut times = Vec::with_capacity(rows);
    for (entity, metric) in &series.names {
        let metric_key = metrics.iter().position(|known| known == metric).unwrap_or_else(|| {
            metrics.push(metric);
            metrics.len() - 1
        });
        let place = places[*entity].expect("an entity has a name");
        entity_keys.extend(std::iter::repeat_n(place, bins));
        metric_keys.extend(std::iter::repeat_n(metric_key as i32, bins));
        times.extend((0..bins).map(|bin| (series.bin.ps() * bin as u64) as i64));
    }
    table(vec![
        ("time_ps", Arc::new(Int64Array::from(times))),
        ("entity", dictionary(entity_keys.into(), entities)?),
        ("metric", dictionary(metric_keys.into(), strings(metrics.into_iter()))?),
        ("value", Arc::new(Float64Array::from(series.values))),
    ])
}
