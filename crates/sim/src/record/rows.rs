//! Rows of the flow table while a run goes on: they come in any order, and leave in that of their numbers. A run may have ten
//! million of them, so they are packed in blocks, and blocks leave memory for a file where there is a folder for one.

use std::collections::BTreeMap;
use std::fs::{remove_file, File};
use std::io;
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use super::flows::{Cells, Flow, FlowBlock, Values, BLOCK_ROWS, COLUMNS};

/// Blocks that wait for all of their rows; an older one is packed without those that are late.
const MOST_OPEN: usize = 4;

/// Rows so far.
#[derive(Debug, Default)]
pub struct FlowRows {
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
    File(BlockLocation),
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

    pub fn len(&self) -> usize {
        self.packed.len()
    }

    pub fn is_empty(&self) -> bool {
        self.packed.is_empty()
    }

    /// The folder of the file that they are in, if they are in one.
    pub fn folder(&self) -> Option<PathBuf> {
        self.store.as_ref().filter(|_| !self.is_empty()).map(|store| store.folder().to_owned())
    }

    /// True if a row has a value in this column, and whether one has none.
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

// Blocks of rows in a file of their own, which is gone when nobody needs it any more, however the process ends.

/// Name of the file for the moment in which it has one.
const NAME: &str = ".rows";

/// A file of blocks.
#[derive(Debug)]
pub(super) struct Store {
    folder: PathBuf,
    file: Option<File>,
    end: u64,
    bytes: Vec<u8>,
}

/// Where a block is.
#[derive(Clone, Copy, Debug)]
pub(super) struct BlockLocation {
    at: u64,
    bytes: usize,
}

impl Store {
    /// A file in this folder, as soon as something is put there.
    pub fn new(folder: PathBuf) -> Store {
        Store { folder, file: None, end: 0, bytes: Vec::new() }
    }

    pub fn folder(&self) -> &Path {
        &self.folder
    }

    pub fn put(&mut self, block: &FlowBlock) -> io::Result<BlockLocation> {
        let file = match &mut self.file {
            Some(file) => file,
            none => {
                let path = self.folder.join(NAME);
                let file = File::options().read(true).write(true).create_new(true).open(&path)?;
                remove_file(path)?;
                none.insert(file)
            }
        };
        self.bytes.clear();
        put_block(block, &mut self.bytes);
        file.seek(SeekFrom::Start(self.end))?;
        file.write_all(&self.bytes)?;
        let place = BlockLocation { at: self.end, bytes: self.bytes.len() };
        self.end += place.bytes as u64;
        Ok(place)
    }

    pub fn get(&self, place: BlockLocation) -> io::Result<FlowBlock> {
        let mut bytes = vec![0; place.bytes];
        let mut file = self.file.as_ref().ok_or(io::ErrorKind::NotFound)?;
        file.seek(SeekFrom::Start(place.at))?;
        file.read_exact(&mut bytes)?;
        Ok(take_block(&mut &bytes[..]))
    }
}

/// A value as bytes.
trait Encoded: Sized {
    fn put(&self, to: &mut Vec<u8>);
    fn take(from: &mut &[u8]) -> Self;
}

macro_rules! packed {
    ($($number:ty),*) => {$(
        impl Encoded for $number {
            fn put(&self, to: &mut Vec<u8>) {
                to.extend_from_slice(&self.to_le_bytes());
            }
            fn take(from: &mut &[u8]) -> Self {
                let (own, rest) = from.split_first_chunk().expect("it was put there");
                *from = rest;
                <$number>::from_le_bytes(*own)
            }
        }
    )*};
}

packed!(u8, u32, u64, f64);

impl<T: Encoded> Encoded for Option<T> {
    fn put(&self, to: &mut Vec<u8>) {
        (self.is_some() as u8).put(to);
        self.iter().for_each(|value| value.put(to));
    }
    fn take(from: &mut &[u8]) -> Self {
        (u8::take(from) > 0).then(|| T::take(from))
    }
}

impl Encoded for String {
    fn put(&self, to: &mut Vec<u8>) {
        (self.len() as u32).put(to);
        to.extend_from_slice(self.as_bytes());
    }
    fn take(from: &mut &[u8]) -> Self {
        let count = u32::take(from) as usize;
        let (own, rest) = from.split_at(count);
        *from = rest;
        String::from_utf8(own.to_vec()).expect("it was a text")
    }
}

impl<T: Encoded> Encoded for Vec<T> {
    fn put(&self, to: &mut Vec<u8>) {
        (self.len() as u32).put(to);
        self.iter().for_each(|value| value.put(to));
    }
    fn take(from: &mut &[u8]) -> Self {
        (0..u32::take(from)).map(|_| T::take(from)).collect()
    }
}

impl<T: Encoded> Encoded for Values<T> {
    fn put(&self, to: &mut Vec<u8>) {
        match self {
            Values::Same(value) => (0u8.put(to), value.put(to)).1,
            Values::Each(values) => (1u8.put(to), values.put(to)).1,
        }
    }
    fn take(from: &mut &[u8]) -> Self {
        match u8::take(from) {
            0 => Values::Same(T::take(from)),
            _ => Values::Each(Vec::take(from)),
        }
    }
}

impl Encoded for Cells {
    fn put(&self, to: &mut Vec<u8>) {
        match self {
            Cells::Row => 0u8.put(to),
            Cells::Text(names, at) => (1u8.put(to), names.put(to), at.put(to)).2,
            Cells::Integer(values) => (2u8.put(to), values.put(to)).1,
            Cells::OptionalInteger(values) => (3u8.put(to), values.put(to)).1,
            Cells::Float(values) => (4u8.put(to), values.put(to)).1,
            Cells::OptionalFloat(values) => (5u8.put(to), values.put(to)).1,
        }
    }
    fn take(from: &mut &[u8]) -> Self {
        match u8::take(from) {
            0 => Cells::Row,
            1 => Cells::Text(Vec::take(from), Values::take(from)),
            2 => Cells::Integer(Values::take(from)),
            3 => Cells::OptionalInteger(Values::take(from)),
            4 => Cells::Float(Values::take(from)),
            _ => Cells::OptionalFloat(Values::take(from)),
        }
    }
}

fn put_block(block: &FlowBlock, to: &mut Vec<u8>) {
    (block.rows as u32).put(to);
    block.columns.put(to);
}

fn take_block(from: &mut &[u8]) -> FlowBlock {
    FlowBlock { rows: u32::take(from) as usize, columns: Vec::take(from) }
}

#[cfg(test)]
mod rows_tests {
    use super::*;
    use crate::record::flows::{Cells, Values};

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

#[cfg(test)]
mod store_tests {
    use super::*;

    #[test]
    fn a_block_is_what_it_was() {
        let columns = vec![
            Cells::Row,
            Cells::Text(vec!["h0".into(), "h1 \u{e9}".into()], Values::Each(vec![Some(1), None, Some(0)])),
            Cells::Integer(Values::Same(u64::MAX)),
            Cells::OptionalInteger(Values::Each(vec![None, Some(0), Some(1 << 40)])),
            Cells::Float(Values::Each(vec![0.1, -0.0, f64::INFINITY])),
            Cells::OptionalFloat(Values::Same(None)),
        ];
        let block = FlowBlock { rows: 3, columns };
        let mut bytes = Vec::new();
        put_block(&block, &mut bytes);
        let mut left = &bytes[..];
        assert_eq!((take_block(&mut left), left.len()), (block, 0));
    }
}
