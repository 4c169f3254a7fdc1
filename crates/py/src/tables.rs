//! A recording as Arrow tables.

use arrow_array::types::Int32Type;
use arrow_array::RecordBatch;
use arrow_array::{
    ArrayRef, DictionaryArray, Float64Array, Int32Array, Int64Array, StringArray, UInt32Array, UInt8Array,
};
use arrow_schema::ArrowError;
use std::collections::HashMap;
use std::sync::Arc;
use tailback_sim::record::{Counter, Entity, Flow, Read, Series, Signals, Told, Who, COLUMNS};

pub type Table = Result<RecordBatch, ArrowError>;

pub fn table(columns: Vec<(&str, ArrayRef)>) -> Table {
    RecordBatch::try_from_iter(columns)
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

pub fn flows(flows: &[Flow]) -> Table {
    let rows = || flows.iter();
    let columns = COLUMNS.iter().filter(|column| column.is_in(flows));
    let values = |read: &Read| -> ArrayRef {
        match *read {
            Read::Row => integers(0..flows.len() as u64),
            Read::Text(read) => strings(rows().map(read)),
            Read::OptionalText(read) => optional_strings(rows().map(read)),
            Read::U8(read) => Arc::new(UInt8Array::from_iter_values(rows().map(read))),
            Read::U32(read) => Arc::new(UInt32Array::from_iter_values(rows().map(read))),
            Read::Integer(read) => integers(rows().map(read)),
            Read::OptionalInteger(read) => optional_integers(rows().map(read)),
            Read::Float(read) => floats(rows().map(read)),
            Read::OptionalFloat(read) => Arc::new(rows().map(read).collect::<Float64Array>()),
        }
    };
    table(columns.map(|column| (column.name, values(&column.read))).collect())
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

fn dictionary(keys: Int32Array, names: ArrayRef) -> Result<ArrayRef, ArrowError> {
    Ok(Arc::new(DictionaryArray::<Int32Type>::try_new(keys, names)?))
}

/// A row for each bin, or for the run, in which somebody told somebody to wait.
pub fn signals(signals: &Signals) -> Table {
    let rows = || signals.rows.iter();
    let text = |text: fn(&Who) -> &str| {
        let mut number_of: HashMap<&str, i32> = HashMap::new();
        let mut names = Vec::new();
        let number = |who| match text(who) {
            "" => None,
            name => Some(*number_of.entry(name).or_insert_with(|| {
                names.push(name);
                names.len() as i32 - 1
            })),
        };
        let numbers: Vec<Option<i32>> = signals.who.iter().map(number).collect();
        dictionary(rows().map(|row| numbers[row.who as usize]).collect(), strings(names.into_iter()))
    };
    let lasts = |row: &Told| signals.who[row.who as usize].signal.lasts();
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
    let mut entity_keys = Vec::with_capacity(rows);
    let mut metric_keys = Vec::with_capacity(rows);
    let mut times = Vec::with_capacity(rows);
    for (entity, metric) in &series.names {
        let metric_key = metrics.iter().position(|known| known == metric).unwrap_or_else(|| {
            metrics.push(metric);
            metrics.len() - 1
        });
        entity_keys.extend(std::iter::repeat_n(*entity as i32, bins));
        metric_keys.extend(std::iter::repeat_n(metric_key as i32, bins));
        times.extend((0..bins).map(|bin| (series.bin.ps() * bin as u64) as i64));
    }
    table(vec![
        ("time_ps", Arc::new(Int64Array::from(times))),
        (
            "entity",
            dictionary(
                entity_keys.into(),
                strings(series.entities.iter().map(|entity| entity.name.as_str())),
            )?,
        ),
        ("metric", dictionary(metric_keys.into(), strings(metrics.into_iter()))?),
        ("value", Arc::new(Float64Array::from(series.values))),
    ])
}
