//! Recorders of a network that is cut in parts: each reads what its part counts, and at the end they are one again.

use super::items::Items;
use super::series::{Column, Reader, Recorder, NOWHERE};
use crate::fabric::cut::Mail;
use crate::plan::Plan;
use crate::world::World;

/// A reader, and its columns: each with its counter at the start of the bin, and its bins.
type Read = (Reader, Vec<(Column, u64, Vec<f64>)>);

impl Recorder {
    /// Before the run: keeps what is read at nodes of part 0, and gives the recorders of the others.
    pub fn cut(&mut self, parts: usize, part_of: impl Fn(usize) -> usize, world: &World) -> Vec<Recorder> {
        let mut cut: Vec<Recorder> = (0..parts).map(|_| self.beside()).collect();
        let mut columns = std::mem::take(&mut self.columns).into_iter();
        for reader in std::mem::take(&mut self.readers) {
            let part = &mut cut[if reader.node == NOWHERE { 0 } else { part_of(reader.node) }];
            part.columns.extend(columns.by_ref().take(reader.columns));
            part.readers.push(reader);
        }
        for (number, part) in cut.iter_mut().enumerate() {
            part.items = self.items.clone();
            let to = |qp: usize| part_of(world.nics.send_qps[qp].dst as usize);
            part.items.iter_mut().for_each(|items| items.keep(|qp| to(qp) == number));
            part.before = vec![0; part.columns.len()];
            part.bins = self.bins.of(part.columns.iter().map(|column| column.kind).collect());
        }
        let mut cut = cut.into_iter();
        if let Some(first) = cut.next() {
            (self.readers, self.columns, self.before, self.bins, self.items) =
                (first.readers, first.columns, first.before, first.bins, first.items);
        }
        cut.collect()
    }

    /// Tells part 0 what items delivered here.
    pub fn send_mail(&mut self, world: &World, mail: &mut [Mail]) {
        if let Some(items) = &mut self.items {
            mail[0].items.extend(items.tell(world));
        }
    }

    /// What was told.
    pub fn take_mail(&mut self, mail: &mut Mail) {
        if let Some(items) = &mut self.items {
            mail.items.drain(..).for_each(|told| items.hear(told));
        }
    }

    /// Takes in what the others read. `world`: that of all of them.
    pub fn join(&mut self, others: Vec<Recorder>, plan: &Plan, world: &World) {
        self.items = self.items.as_ref().and_then(|_| Items::new(plan, world));
        let mut read: Vec<Read> = Vec::new();
        self.take_out(&mut read);
        for mut other in others {
            other.take_out(&mut read);
            self.pairs.join(other.pairs);
        }
        read.sort_by_key(|(reader, _)| reader.first);
        let (mut kinds, mut bins) = (Vec::new(), Vec::new());
        for (reader, columns) in read {
            self.readers.push(reader);
            for (column, before, values) in columns {
                kinds.push(column.kind);
                self.columns.push(column);
                self.before.push(before);
                bins.push(values);
            }
        }
        self.bins.join(kinds, bins);
    }

    fn take_out(&mut self, read: &mut Vec<Read>) {
        let columns = std::mem::take(&mut self.columns).into_iter();
        let before = std::mem::take(&mut self.before);
        let mut columns = columns.zip(before).zip(self.bins.take_columns());
        for reader in std::mem::take(&mut self.readers) {
            let own = columns.by_ref().take(reader.columns);
            let own = own.map(|((column, before), values)| (column, before, values)).collect();
            read.push((reader, own));
        }
    }
}
