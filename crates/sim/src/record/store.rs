//! Blocks of rows in a file of their own, which is gone when nobody needs it any more, however the process ends.

use std::fs::{remove_file, File};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use super::blocks::{Cells, FlowBlock, Values};

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
pub(super) struct Place {
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

    pub fn put(&mut self, block: &FlowBlock) -> io::Result<Place> {
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
        let place = Place { at: self.end, bytes: self.bytes.len() };
        self.end += place.bytes as u64;
        Ok(place)
    }

    pub fn get(&self, place: Place) -> io::Result<FlowBlock> {
        let mut bytes = vec![0; place.bytes];
        let mut file = self.file.as_ref().ok_or(io::ErrorKind::NotFound)?;
        file.seek(SeekFrom::Start(place.at))?;
        file.read_exact(&mut bytes)?;
        Ok(take_block(&mut &bytes[..]))
    }
}

/// A value as bytes.
trait Packed: Sized {
    fn put(&self, to: &mut Vec<u8>);
    fn take(from: &mut &[u8]) -> Self;
}

macro_rules! packed {
    ($($number:ty),*) => {$(
        impl Packed for $number {
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

impl<T: Packed> Packed for Option<T> {
    fn put(&self, to: &mut Vec<u8>) {
        (self.is_some() as u8).put(to);
        self.iter().for_each(|value| value.put(to));
    }
    fn take(from: &mut &[u8]) -> Self {
        (u8::take(from) > 0).then(|| T::take(from))
    }
}

impl Packed for String {
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

impl<T: Packed> Packed for Vec<T> {
    fn put(&self, to: &mut Vec<u8>) {
        (self.len() as u32).put(to);
        self.iter().for_each(|value| value.put(to));
    }
    fn take(from: &mut &[u8]) -> Self {
        (0..u32::take(from)).map(|_| T::take(from)).collect()
    }
}

impl<T: Packed> Packed for Values<T> {
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

impl Packed for Cells {
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
mod tests {
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
