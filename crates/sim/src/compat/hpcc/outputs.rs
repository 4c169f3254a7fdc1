//! That simulator's file of finished messages.

use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, Write as _};
use std::path::PathBuf;

use super::routing::address;
use super::world::Fct;

/// Its name.
pub const FCT_FILE: &str = "fct.txt";
/// Bytes of a line, about.
const LINE_BYTES: usize = 56;

/// `fct.txt`: a line a finished message. Addresses in hexadecimal, ports, bytes, start, completion time and its ideal, ns.
pub fn fct_text(rows: &[Fct]) -> String {
    let mut text = String::with_capacity(rows.len() * LINE_BYTES);
    for &Fct { src, dst, sport, dport, bytes, start_ns, fct_ns, standalone_ns } in rows {
        let (src, dst) = (address(src), address(dst));
        let line =
            format_args!("{src:08x} {dst:08x} {sport} {dport} {bytes} {start_ns} {fct_ns} {standalone_ns}\n");
        text.write_fmt(line).expect("a text takes all");
    }
    text
}

/// The file, while the run goes on.
#[derive(Debug)]
pub(super) struct FctFile {
    folder: PathBuf,
    file: Option<File>,
    failed: Option<io::Error>,
}

impl FctFile {
    /// It is in this folder as soon as it has a line.
    pub fn new(folder: PathBuf) -> FctFile {
        FctFile { folder, file: None, failed: None }
    }

    /// Takes messages, which leave.
    pub fn put(&mut self, rows: &mut Vec<Fct>) {
        if let Err(error) = self.write(rows) {
            self.failed.get_or_insert(error);
        }
        rows.clear();
    }

    fn write(&mut self, rows: &[Fct]) -> io::Result<()> {
        let file = match &mut self.file {
            Some(file) => file,
            none => none.insert(File::create_new(self.folder.join(FCT_FILE))?),
        };
        file.write_all(fct_text(rows).as_bytes())
    }

    pub fn failed(&mut self) -> Option<io::Error> {
        self.failed.take()
    }

    /// Takes the last messages, if there is a file, and says where that is.
    pub fn finish(&mut self, rows: &mut Vec<Fct>) -> io::Result<Option<PathBuf>> {
        if self.file.is_some() {
            self.put(rows);
        }
        let path = self.file.is_some().then(|| self.folder.join(FCT_FILE));
        self.failed.take().map_or(Ok(path), Err)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Addresses are 11.(id / 256).(id % 256).1.
    #[test]
    fn a_line_a_message() {
        let row = |src, dst| Fct {
            src,
            dst,
            sport: 10_000,
            dport: 100,
            bytes: 1,
            start_ns: 2,
            fct_ns: 3,
            standalone_ns: 4,
        };
        let text = fct_text(&[row(0, 1), row(255, 256), row(65_535, 0)]);
        let ends: Vec<&str> =
            text.lines().filter_map(|line| line.strip_suffix(" 10000 100 1 2 3 4")).collect();
        assert_eq!(ends, ["0b000001 0b000101", "0b00ff01 0b010001", "0bffff01 0b000001"]);
    }
}
