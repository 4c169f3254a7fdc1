//! Recorders of a network that is cut in parts: each reads what its part counts, and at the end they are one again.

use super::series::{Column, Reader, Recorder};

impl Recorder {
    /// Before the run: keeps what is read at nodes of part 0, and gives the recorders of the others.
    pub fn cut(&mut self, parts: usize, part_of: impl Fn(usize) -> usize) -> Vec<Recorder> {
        let mut cut: Vec<Recorder> = (0..parts).map(|_| self.beside()).collect();
        let mut columns = std::mem::take(&mut self.columns).into_iter();
        for reader in std::mem::take(&mut self.readers) {
            let part = &mut cut[part_of(reader.node)];
            part.columns.extend(columns.by_ref().take(reader.columns));
            part.readers.push(reader);
        }
        for part in &mut cut {
            part.before = vec![0; part.columns.len()];
            part.values = vec![Vec::new(); part.columns.len()];
        }
        let mut cut = cut.into_iter();
        if let Some(first) = cut.next() {
            (self.readers, self.columns, self.before, self.values) =
                (first.readers, first.columns, first.before, first.values);
        }
        cut.collect()
    }

    /// Takes in what the others read.
    pub fn join(&mut self, others: Vec<Recorder>) {
        let mut read: Vec<(Reader, Vec<(Column, u64, Vec<f64>)>)> = Vec::new();
        self.take_out(&mut read);
        others.into_iter().for_each(|mut other| other.take_out(&mut read));
        read.sort_by_key(|(reader, _)| reader.first);
        for (reader, columns) in read {
            self.readers.push(reader);
            for (column, before, values) in columns {
                self.columns.push(column);
                self.before.push(before);
                self.values.push(values);
            }
        }
    }

    fn take_out(&mut self, read: &mut Vec<(Reader, Vec<(Column, u64, Vec<f64>)>)>) {
        self.store_latest();
        self.latest = Vec::new();
        let columns = std::mem::take(&mut self.columns).into_iter();
        let before = std::mem::take(&mut self.before);
        let mut columns = columns.zip(before).zip(std::mem::take(&mut self.values));
        for reader in std::mem::take(&mut self.readers) {
            let own = columns.by_ref().take(reader.columns);
            let own = own.map(|((column, before), values)| (column, before, values)).collect();
            read.push((reader, own));
        }
    }
}
