//! Rows of the flow table in blocks. Many rows take little room this way, since most columns of a block hold
//! a single value.

use std::collections::BTreeMap;

use super::columns::{Column, Read, COLUMNS};
use super::flow::Flow;

/// Rows in a block.
pub const BLOCK_ROWS: usize = 1 << 15;

/// The values of a column in a block.
#[derive(Debug, PartialEq)]
pub enum Values<T> {
    /// One value for all rows.
    Same(T),
    /// A value for each row.
    Each(Vec<T>),
}

impl<T: Clone + PartialEq> Values<T> {
    fn of(values: Vec<T>) -> Values<T> {
        match values.split_first() {
            Some((first, rest)) if rest.iter().all(|other| other == first) => Values::Same(first.clone()),
            _ => Values::Each(values),
        }
    }

    /// The value of each of `rows` rows.
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
pub enum Cells {
    /// The number of the row.
    Row,
    /// Texts, and for each row which of them it has, if any.
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

    /// Whether some row has no value.
    pub fn has_none(&self) -> bool {
        match self {
            Cells::Row | Cells::Integer(_) | Cells::Float(_) => false,
            Cells::Text(_, at) => at.any(Option::is_none),
            Cells::OptionalInteger(values) => values.any(Option::is_none),
            Cells::OptionalFloat(values) => values.any(Option::is_none),
        }
    }

    /// Whether some row has a value. Without rows, none has.
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

/// Consecutive rows of the flow table.
#[derive(Debug, PartialEq)]
pub struct FlowBlock {
    /// Number of rows.
    pub rows: usize,
    /// One for each column of [`COLUMNS`].
    pub columns: Vec<Cells>,
}

impl FlowBlock {
    /// A block of some rows.
    pub fn new(rows: &[Flow]) -> FlowBlock {
        FlowBlock {
            rows: rows.len(),
            columns: COLUMNS.iter().map(|column| Cells::of(column, rows)).collect(),
        }
    }
}

impl FlowBlock {
    /// Merges the rows of two blocks. `first` says for each row whether it is the next one of the first
    /// block.
    pub(super) fn merged(self, other: FlowBlock, first: &[bool]) -> FlowBlock {
        let rows = (self.rows, other.rows);
        let columns = self.columns.into_iter().zip(other.columns);
        FlowBlock {
            rows: first.len(),
            columns: columns.map(|(one, two)| one.merged(two, rows, first)).collect(),
        }
    }
}

impl Cells {
    fn merged(self, other: Cells, (one, two): (usize, usize), first: &[bool]) -> Cells {
        fn mix<T>(
            (mut one, mut two): (impl Iterator<Item = T>, impl Iterator<Item = T>),
            first: &[bool],
        ) -> Vec<T> {
            first.iter().filter_map(|&first| if first { one.next() } else { two.next() }).collect()
        }
        match (self, other) {
            (Cells::Text(names, at), Cells::Text(others, others_at)) => {
                let own = at.iter(one).map(|at| at.map(|at| names[at as usize].as_str()));
                let other = others_at.iter(two).map(|at| at.map(|at| others[at as usize].as_str()));
                texts(mix((own, other), first).into_iter())
            }
            (Cells::Integer(a), Cells::Integer(b)) => {
                Cells::Integer(Values::of(mix((a.iter(one), b.iter(two)), first)))
            }
            (Cells::Float(a), Cells::Float(b)) => {
                Cells::Float(Values::of(mix((a.iter(one), b.iter(two)), first)))
            }
            (a @ (Cells::Integer(_) | Cells::OptionalInteger(_)), b) => {
                let both = (a.integers(one), b.integers(two));
                Cells::OptionalInteger(Values::of(mix(both, first)))
            }
            (a @ (Cells::Float(_) | Cells::OptionalFloat(_)), b) => {
                let both = (a.floats(one), b.floats(two));
                Cells::OptionalFloat(Values::of(mix(both, first)))
            }
            _ => Cells::Row,
        }
    }

    /// The integer of each row, if it has one.
    fn integers(&self, rows: usize) -> Box<dyn Iterator<Item = Option<u64>> + '_> {
        match self {
            Cells::Integer(values) => Box::new(values.iter(rows).map(Some)),
            Cells::OptionalInteger(values) => Box::new(values.iter(rows)),
            _ => unreachable!("columns are of one type in all blocks"),
        }
    }

    /// The number of each row, if it has one.
    fn floats(&self, rows: usize) -> Box<dyn Iterator<Item = Option<f64>> + '_> {
        match self {
            Cells::Float(values) => Box::new(values.iter(rows).map(Some)),
            Cells::OptionalFloat(values) => Box::new(values.iter(rows)),
            _ => unreachable!("columns are of one type in all blocks"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_rows_have_no_values() {
        let empty = FlowBlock::new(&[]);
        let optional =
            COLUMNS.iter().zip(&empty.columns).filter(|(column, _)| column.name == "min_rate_wait_ps");
        assert_eq!(optional.map(|(_, cells)| cells.has_some()).collect::<Vec<_>>(), [false]);
    }

    /// Rows with and without values, in any order, merge as if they had been one block.
    #[test]
    fn two_blocks_as_one() {
        let row = |number: usize| Flow {
            qp: number as u32,
            fct_ps: (!number.is_multiple_of(3)).then_some(number as u64),
            ideal_fct_ps: (!number.is_multiple_of(2)).then_some(7),
            src: format!("h{}", number % 5),
            error: (number == 8).then(|| "gave up".into()),
            goodput_bps: number as f64 / 2.0,
            ..Flow::default()
        };
        let all: Vec<Flow> = (0..12).map(row).collect();
        let one: Vec<bool> = (0..12).map(|number| number % 4 != 3).collect();
        let of = |which: bool| {
            let rows = all.iter().zip(&one).filter(|(_, &first)| first == which);
            FlowBlock::new(&rows.map(|(row, _)| row.clone()).collect::<Vec<_>>())
        };
        let merged = of(true).merged(of(false), &one);
        assert!(merged.alike(&FlowBlock::new(&all)));
        assert!(!merged.alike(&of(true)));
    }

    impl FlowBlock {
        /// Whether all rows are the same, no matter how they are stored.
        pub fn alike(&self, other: &FlowBlock) -> bool {
            let text = |block: &FlowBlock, cells: &Cells| match cells {
                Cells::Row => "rows".to_owned(),
                Cells::Text(names, at) => {
                    let name = |at: Option<u32>| at.map(|at| &names[at as usize]);
                    format!("{:?}", at.iter(block.rows).map(name).collect::<Vec<_>>())
                }
                Cells::Integer(_) | Cells::OptionalInteger(_) => {
                    format!("{:?}", cells.integers(block.rows).collect::<Vec<_>>())
                }
                Cells::Float(_) | Cells::OptionalFloat(_) => {
                    format!("{:?}", cells.floats(block.rows).collect::<Vec<_>>())
                }
            };
            let mut columns = self.columns.iter().zip(&other.columns);
            self.rows == other.rows && columns.all(|(one, two)| text(self, one) == text(other, two))
        }
    }
}
