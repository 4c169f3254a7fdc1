//! Recorders of a network that is cut in parts: each reads what its part counts, and at the end they are one again.

use super::bins::Bins;
use super::items::Items;
use super::series::{Column, Reader, Recorder, NOWHERE};
use crate::fabric::cut::Mail;
use crate::plan::Plan;
use crate::world::World;

/// A reader, and its columns: each with its counter at the start of the bin.
struct Read {
    reader: Reader,
    /// The recorder that has it, and its first column there.
    part: usize,
    first: usize,
    columns: Vec<(Column, u64)>,
}

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
        let all = self.bins.of(Vec::new());
        let mut bins = vec![self.take_out(0, &mut read)];
        for mut other in others {
            bins.push(other.take_out(bins.len(), &mut read));
            self.pairs.join(other.pairs);
        }
        read.sort_by_key(|one| one.reader.first);
        let mut order = Vec::with_capacity(read.len());
        for Read { reader, part, first, columns } in read {
            order.push((part, first..first + reader.columns));
            self.readers.push(reader);
            for (column, before) in columns {
                self.columns.push(column);
                self.before.push(before);
            }
        }
        self.bins = all;
        self.bins.join(bins, &order);
    }

    fn take_out(&mut self, part: usize, read: &mut Vec<Read>) -> Bins {
        let columns = std::mem::take(&mut self.columns).into_iter();
        let mut columns = columns.zip(std::mem::take(&mut self.before));
        let mut first = 0;
        for reader in std::mem::take(&mut self.readers) {
            let own = columns.by_ref().take(reader.columns).collect();
            let next = first + reader.columns;
            read.push(Read { reader, part, first, columns: own });
            first = next;
        }
        std::mem::take(&mut self.bins)
    }
}
