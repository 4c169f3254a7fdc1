//! Rows of the flow table in blocks: many rows take little room so, since most columns of a block hold one value.

use std::collections::BTreeMap;

use super::columns::{Column, Read, COLUMNS};
use super::recording::Flow;

/// Rows of a block.
pub const BLOCK_ROWS: usize = 1 << 15;

/// The values of a column in a block.
#[derive(Debug, PartialEq)]
pub enum Values<T> {
    /// This one in all rows.
    Same(T),
    /// By row.
    Each(Vec<T>),
}

impl<T: Clone + PartialEq> Values<T> {
    fn of(values: Vec<T>) -> Values<T> {
        match values.split_first() {
            Some((first, rest)) if rest.iter().all(|other| other == first) => Values::Same(first.clone()),
            _ => Values::Each(values),
        }
    }

    /// By row, of so many.
    pub fn iter(&self, rows: usize) -> impl Iterator<Item = T> + '_ {
        let (same, each) = match self {
            Values::Same(value) => (Some(std::iter::repeat_n(value, rows)), None),
            Values::Each(values) => (None, Some(values)),
        };
        same.into_iter().flatten().chain(each.into_iter().flatten()).cloned()
    }

    fn is_same(&self) -> bool {
        matches!(self, Values::Same(_))
    }

    fn any(&self, has: impl Fn(&T) -> bool) -> bool {
        match self {
            Values::Same(value) => has(value),
            Values::Each(values) => values.iter().any(has),
        }
    }
}

/// A column of a block.
#[derive(Debug, PartialEq)]
#[allow(missing_docs)]
pub enum Cells {
    /// The number of the row.
    Row,
    /// Texts, and by row which of them, if one.
    Text(Vec<String>, Values<Option<u32>>),
    Integer(Values<u64>),
    OptionalInteger(Values<Option<u64>>),
    Float(Values<f64>),
    OptionalFloat(Values<Option<f64>>),
}

impl Cells {
    fn of(column: &Column, rows: &[Flow]) -> Cells {
        match column.read {
            Read::Row => Cells::Row,
            Read::Text(read) => texts(rows.iter().map(|row| Some(read(row)))),
            Read::OptionalText(read) => texts(rows.iter().map(read)),
            Read::U8(read) => Cells::Integer(Values::of(rows.iter().map(|row| read(row) as u64).collect())),
            Read::U32(read) => Cells::Integer(Values::of(rows.iter().map(|row| read(row) as u64).collect())),
            Read::Integer(read) => Cells::Integer(Values::of(rows.iter().map(read).collect())),
            Read::Float(read) => Cells::Float(Values::of(rows.iter().map(read).collect())),
            Read::OptionalInteger(read) => match rows.iter().map(read).collect::<Option<Vec<u64>>>() {
                Some(values) => Cells::Integer(Values::of(values)),
                None => Cells::OptionalInteger(Values::of(rows.iter().map(read).collect())),
            },
            Read::OptionalFloat(read) => match rows.iter().map(read).collect::<Option<Vec<f64>>>() {
                Some(values) => Cells::Float(Values::of(values)),
                None => Cells::OptionalFloat(Values::of(rows.iter().map(read).collect())),
            },
        }
    }

    /// Whether all rows have the same value.
    pub fn is_same(&self) -> bool {
        match self {
            Cells::Row => false,
            Cells::Text(_, values) => values.is_same(),
            Cells::Integer(values) => values.is_same(),
            Cells::OptionalInteger(values) => values.is_same(),
            Cells::Float(values) => values.is_same(),
            Cells::OptionalFloat(values) => values.is_same(),
        }
    }

    /// Whether a row has none.
    pub fn has_none(&self) -> bool {
        match self {
            Cells::Row | Cells::Integer(_) | Cells::Float(_) => false,
            Cells::Text(_, at) => at.any(Option::is_none),
            Cells::OptionalInteger(values) => values.any(Option::is_none),
            Cells::OptionalFloat(values) => values.any(Option::is_none),
        }
    }

    /// Whether a row has a value: where there are no rows, none has.
    pub fn has_some(&self) -> bool {
        match self {
            Cells::Row => true,
            Cells::Integer(values) => values.any(|_| true),
            Cells::Float(values) => values.any(|_| true),
            Cells::Text(_, at) => at.any(Option::is_some),
            Cells::OptionalInteger(values) => values.any(Option::is_some),
            Cells::OptionalFloat(values) => values.any(Option::is_some),
        }
    }
}

fn texts<'a>(rows: impl Iterator<Item = Option<&'a str>>) -> Cells {
    let mut number_of: BTreeMap<&str, u32> = BTreeMap::new();
    let mut names = Vec::new();
    let mut number = |text: &'a str| {
        *number_of.entry(text).or_insert_with(|| {
            names.push(text.to_owned());
            names.len() as u32 - 1
        })
    };
    let at = rows.map(|text| text.map(&mut number)).collect();
    Cells::Text(names, Values::of(at))
}

/// Rows of the flow table that follow each other.
#[derive(Debug, PartialEq)]
pub struct FlowBlock {
    /// How many.
    pub rows: usize,
    /// By column of [`COLUMNS`].
    pub columns: Vec<Cells>,
}

impl FlowBlock {
    /// Of some rows.
    pub fn new(rows: &[Flow]) -> FlowBlock {
        FlowBlock {
            rows: rows.len(),
            columns: COLUMNS.iter().map(|column| Cells::of(column, rows)).collect(),
        }
    }
}

/// Rows that come in any order, and leave in that of their numbers. A block that has all of its rows is packed at once.
#[derive(Debug, Default)]
pub(crate) struct Blocks {
    /// By number of the block: its rows so far, and how many these are.
    open: BTreeMap<u32, (Vec<Option<Flow>>, usize)>,
    packed: BTreeMap<u32, FlowBlock>,
}

impl Blocks {
    /// Takes the row of a number, once.
    pub fn put(&mut self, number: usize, row: Flow) {
        let block = (number / BLOCK_ROWS) as u32;
        let (rows, count) = self.open.entry(block).or_default();
        let place = number % BLOCK_ROWS;
        if rows.len() <= place {
            rows.resize(place + 1, None);
        }
        rows[place] = Some(row);
        *count += 1;
        if *count == BLOCK_ROWS {
            if let Some((rows, _)) = self.open.remove(&block) {
                let rows: Vec<Flow> = rows.into_iter().flatten().collect();
                self.packed.insert(block, FlowBlock::new(&rows));
            }
        }
    }

    /// All rows, which are there without a gap: whole blocks, and what is left.
    pub fn finish(self) -> (Vec<FlowBlock>, Vec<Flow>) {
        let rest = self.open.into_values().flat_map(|(rows, _)| rows).flatten().collect();
        (self.packed.into_values().collect(), rest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(number: usize) -> Flow {
        Flow {
            qp: number as u32,
            fct_ps: Some(number as u64),
            src: format!("h{}", number % 3),
            ..Flow::default()
        }
    }

    #[test]
    fn no_rows_have_no_values() {
        let empty = FlowBlock::new(&[]);
        let optional =
            COLUMNS.iter().zip(&empty.columns).filter(|(column, _)| column.name == "min_rate_wait_ps");
        assert_eq!(optional.map(|(_, cells)| cells.has_some()).collect::<Vec<_>>(), [false]);
    }

    /// From the last to the first, and one late: the table is in order all the same, and columns of one value take no room.
    #[test]
    fn rows_in_any_order() {
        let mut blocks = Blocks::default();
        let count = 2 * BLOCK_ROWS + 5;
        (0..count).rev().filter(|&number| number != 7).for_each(|number| blocks.put(number, row(number)));
        assert_eq!((blocks.open.len(), blocks.packed.len()), (2, 1));
        blocks.put(7, row(7));
        let (packed, rest) = blocks.finish();
        assert_eq!((packed.len(), rest.len(), rest[4].qp as usize), (2, 5, count - 1));
        let column = |name: &str| COLUMNS.iter().position(|column| column.name == name).expect("it is one");
        let second = &packed[1].columns;
        let numbers = (BLOCK_ROWS..2 * BLOCK_ROWS).map(|number| number as u64);
        assert_eq!(second[column("fct_ps")], Cells::Integer(Values::Each(numbers.collect())));
        assert_eq!(second[column("packets_sent")], Cells::Integer(Values::Same(0)));
        assert_eq!(second[column("error")], Cells::Text(Vec::new(), Values::Same(None)));
        let Cells::Text(names, Values::Each(at)) = &second[column("src")] else { panic!("no texts") };
        assert_eq!(names[at[3].expect("a name") as usize], format!("h{}", (BLOCK_ROWS + 3) % 3));
    }
}
