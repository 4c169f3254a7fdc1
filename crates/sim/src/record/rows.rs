//! Rows of the flow table while a run goes on: they come in any order, and leave in that of their numbers. A run may have ten
//! million of them, so they are packed in blocks, and blocks leave memory for a file where there is a folder for one.

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;

use super::blocks::{FlowBlock, BLOCK_ROWS};
use super::columns::COLUMNS;
use super::flow::Flow;
use super::store::{Place, Store};

/// Blocks that wait for all of their rows; an older one is packed without those that are late.
const MOST_OPEN: usize = 4;

/// Rows so far.
#[derive(Debug, Default)]
pub(crate) struct FlowRows {
    /// By number of the block: its rows so far, and how many these are.
    open: BTreeMap<u32, (Vec<Option<Flow>>, usize)>,
    packed: FlowBlocks,
}

/// Blocks of [`BLOCK_ROWS`] rows.
#[derive(Debug, Default)]
pub struct FlowBlocks {
    /// By number.
    packed: BTreeMap<u32, Packed>,
    /// Rows that came after their block was packed, by number.
    late: BTreeMap<u32, Flow>,
    store: Option<Store>,
    failed: Option<io::Error>,
    has: Has,
}

/// By column: whether a row has a value, and whether one has none.
#[derive(Debug)]
struct Has(Vec<(bool, bool)>);

impl Default for Has {
    fn default() -> Self {
        Has(vec![(false, false); COLUMNS.len()])
    }
}

impl Has {
    fn look(&mut self, block: &FlowBlock) {
        for ((some, none), cells) in self.0.iter_mut().zip(&block.columns) {
            *some |= cells.has_some();
            *none |= cells.has_none();
        }
    }
}

/// A block that is packed: where it is, and of one that was packed early, which of its rows it has.
#[derive(Debug)]
struct Packed {
    at: At,
    rows: Option<Vec<bool>>,
}

#[derive(Debug)]
enum At {
    Memory(FlowBlock),
    File(Place),
}

impl FlowRows {
    /// Blocks go to a file in this folder from now on.
    pub fn keep_in(&mut self, folder: PathBuf) {
        self.packed.store = Some(Store::new(folder));
    }

    /// Why the file could not be written.
    pub fn failed(&mut self) -> Option<io::Error> {
        self.packed.failed.take()
    }

    /// Takes the row of a number, once.
    pub fn put(&mut self, number: usize, row: Flow) {
        let block = (number / BLOCK_ROWS) as u32;
        if self.packed.packed.contains_key(&block) {
            self.packed.late.insert(number as u32, row);
            return;
        }
        let (rows, count) = self.open.entry(block).or_default();
        let place = number % BLOCK_ROWS;
        if rows.len() <= place {
            rows.resize(place + 1, None);
        }
        rows[place] = Some(row);
        *count += 1;
        if *count == BLOCK_ROWS {
            self.pack(block);
        } else if self.open.len() > MOST_OPEN {
            self.open.keys().next().copied().into_iter().for_each(|oldest| self.pack(oldest));
        }
    }

    fn pack(&mut self, block: u32) {
        let Some((mut rows, count)) = self.open.remove(&block) else { return };
        rows.resize(BLOCK_ROWS, None);
        let there = (count < BLOCK_ROWS).then(|| rows.iter().map(Option::is_some).collect());
        let rows: Vec<Flow> = rows.into_iter().flatten().collect();
        self.packed.add(block, FlowBlock::new(&rows), there);
    }

    /// All rows, of which none is missing: whole blocks, and the rest.
    pub fn finish(mut self) -> (FlowBlocks, Vec<Flow>) {
        // Of all blocks but the last every row has come, early or late.
        debug_assert!(self.open.len() < 2, "a row is missing");
        let rest = self.open.into_values().flat_map(|(rows, _)| rows).flatten().collect();
        let late: Vec<Flow> = self.packed.late.values().cloned().collect();
        if !late.is_empty() {
            self.packed.has.look(&FlowBlock::new(&late));
        }
        (self.packed, rest)
    }
}

impl FlowBlocks {
    fn add(&mut self, number: u32, block: FlowBlock, rows: Option<Vec<bool>>) {
        self.has.look(&block);
        let at = match self.store.as_mut().map(|store| store.put(&block)) {
            Some(Ok(place)) => At::File(place),
            Some(Err(error)) => {
                self.failed.get_or_insert(error);
                At::Memory(block)
            }
            None => At::Memory(block),
        };
        self.packed.insert(number, Packed { at, rows });
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.packed.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.packed.is_empty()
    }

    /// The folder of the file that they are in, if they are in one.
    pub fn folder(&self) -> Option<PathBuf> {
        self.store.as_ref().filter(|_| !self.is_empty()).map(|store| store.folder().to_owned())
    }

    /// Whether a row has a value in this column, and whether one has none.
    pub fn has(&self, column: usize) -> (bool, bool) {
        self.has.0[column]
    }

    fn whole(&mut self, number: u32, Packed { at, rows }: Packed) -> io::Result<FlowBlock> {
        let block = match (at, &self.store) {
            (At::Memory(block), _) => block,
            (At::File(place), Some(store)) => store.get(place)?,
            (At::File(_), None) => unreachable!("a block is in the file of this store"),
        };
        let Some(rows) = rows else { return Ok(block) };
        let later = self.late.split_off(&((number + 1) * BLOCK_ROWS as u32));
        let late: Vec<Flow> = std::mem::replace(&mut self.late, later).into_values().collect();
        Ok(block.merged(FlowBlock::new(&late), &rows))
    }
}

/// Blocks in order, each of which leaves; an error where their file cannot be read, or could not be written.
impl Iterator for FlowBlocks {
    type Item = io::Result<FlowBlock>;

    fn next(&mut self) -> Option<io::Result<FlowBlock>> {
        if let Some(error) = self.failed.take() {
            return Some(Err(error));
        }
        let (number, packed) = self.packed.pop_first()?;
        Some(self.whole(number, packed))
    }
}

#[cfg(test)]
mod tests {
    use super::super::blocks::{Cells, Values};
    use super::*;

    fn row(number: usize) -> Flow {
        Flow {
            qp: number as u32,
            fct_ps: Some(number as u64),
            src: format!("h{}", number % 3),
            error: (number % 1000 == 7).then(|| "gave up".into()),
            ..Flow::default()
        }
    }

    fn all(blocks: FlowBlocks) -> Vec<FlowBlock> {
        blocks.collect::<io::Result<_>>().expect("the file is there")
    }

    /// From the last to the first, and one late: the table is in order all the same, and columns of one value take no room.
    #[test]
    fn rows_in_any_order() {
        let mut rows = FlowRows::default();
        let count = 2 * BLOCK_ROWS + 5;
        (0..count).rev().filter(|&number| number != 7).for_each(|number| rows.put(number, row(number)));
        assert_eq!((rows.open.len(), rows.packed.len()), (2, 1));
        rows.put(7, row(7));
        let (packed, rest) = rows.finish();
        assert_eq!((packed.len(), rest.len(), rest[4].qp as usize), (2, 5, count - 1));
        let column = |name: &str| COLUMNS.iter().position(|column| column.name == name).expect("it is one");
        let second = &all(packed)[1].columns;
        let numbers = (BLOCK_ROWS..2 * BLOCK_ROWS).map(|number| number as u64);
        assert_eq!(second[column("fct_ps")], Cells::Integer(Values::Each(numbers.collect())));
        assert_eq!(second[column("packets_sent")], Cells::Integer(Values::Same(0)));
        let Cells::Text(names, Values::Each(at)) = &second[column("src")] else { panic!("no texts") };
        assert_eq!(names[at[3].expect("a name") as usize], format!("h{}", (BLOCK_ROWS + 3) % 3));
    }

    /// In a file, and with rows that come long after those around them: the same blocks as in memory and in order.
    #[test]
    fn late_rows_and_a_file_change_nothing() {
        let count = 9 * BLOCK_ROWS + 1;
        let mut in_order = FlowRows::default();
        (0..count).for_each(|number| in_order.put(number, row(number)));
        let (expected, rest) = in_order.finish();
        let (has, expected) = (expected.has.0.clone(), all(expected));
        let folder = std::env::temp_dir().join(format!("tailback-rows-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder");
        for in_file in [false, true] {
            let mut rows = FlowRows::default();
            if in_file {
                rows.keep_in(folder.clone());
            }
            let late =
                |number: &usize| number % 1000 == 7 || number / BLOCK_ROWS == 3 && number.is_multiple_of(2);
            (0..count).filter(|number| !late(number)).for_each(|number| rows.put(number, row(number)));
            (0..count).rev().filter(late).for_each(|number| rows.put(number, row(number)));
            let (found, left) = rows.finish();
            assert_eq!((left.len(), left[0].qp), (rest.len(), rest[0].qp));
            assert_eq!((found.folder().is_some(), &found.has.0), (in_file, &has));
            let found = all(found);
            assert_eq!(found.len(), expected.len());
            for (found, expected) in found.iter().zip(&expected) {
                assert!(found.alike(expected));
            }
        }
        assert_eq!(std::fs::read_dir(&folder).expect("it is there").count(), 0, "the file has no name");
        std::fs::remove_dir(&folder).expect("it is empty");
    }
}
