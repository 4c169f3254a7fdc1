//! Recorders of a network that is cut in parts: each reads what its part counts, and at the end they are one again.

use super::bins::Bins;
use super::items::Items;
use super::readings::{Column, Reader};
use super::series::{Recorder, NOWHERE};
use crate::fabric::cut::Mail;
use crate::plan::Plan;
use crate::world::World;

/// A reader, and its columns: each with its counter at the start of the bin.
struct Read {
    reader: Reader<World>,
    /// The recorder that has it, and its first column there.
    part: usize,
    first: usize,
    columns: Vec<(Column, u64)>,
}

impl Recorder {
    /// Before the run: keeps what is read at nodes of part 0, and gives the recorders of the others.
    pub fn cut(&mut self, parts: usize, part_of: impl Fn(usize) -> usize, world: &World) -> Vec<Recorder> {
        let mut cut: Vec<Recorder> = (0..parts).map(|_| self.beside()).collect();
        let mut columns = std::mem::take(&mut self.read.columns).into_iter();
        for reader in std::mem::take(&mut self.read.readers) {
            let part = &mut cut[if reader.node == NOWHERE { 0 } else { part_of(reader.node) }];
            part.read.columns.extend(columns.by_ref().take(reader.columns));
            part.read.readers.push(reader);
        }
        for (number, part) in cut.iter_mut().enumerate() {
            part.items = self.items.clone();
            let to = |qp: usize| part_of(world.nics.send_qps[qp].dst as usize);
            part.items.iter_mut().for_each(|items| items.keep(|qp| to(qp) == number));
            part.read.before = vec![0; part.read.columns.len()];
            part.read.bins = self.read.bins.of(part.read.kinds());
        }
        let mut cut = cut.into_iter();
        if let Some(first) = cut.next() {
            (self.read.readers, self.read.columns, self.read.before, self.read.bins, self.items) =
                (first.read.readers, first.read.columns, first.read.before, first.read.bins, first.items);
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
        let all = self.read.bins.of(Vec::new());
        let mut bins = vec![self.take_out(0, &mut read)];
        for mut other in others {
            bins.push(other.take_out(bins.len(), &mut read));
            self.pairs.join(other.pairs);
        }
        read.sort_by_key(|one| one.reader.first);
        let mut order = Vec::with_capacity(read.len());
        for Read { reader, part, first, columns } in read {
            order.push((part, first..first + reader.columns));
            self.read.readers.push(reader);
            for (column, before) in columns {
                self.read.columns.push(column);
                self.read.before.push(before);
            }
        }
        self.read.bins = all;
        self.read.bins.join(bins, &order);
    }

    fn take_out(&mut self, part: usize, read: &mut Vec<Read>) -> Bins {
        let columns = std::mem::take(&mut self.read.columns).into_iter();
        let mut columns = columns.zip(std::mem::take(&mut self.read.before));
        let mut first = 0;
        for reader in std::mem::take(&mut self.read.readers) {
            let own = columns.by_ref().take(reader.columns).collect();
            let next = first + reader.columns;
            read.push(Read { reader, part, first, columns: own });
            first = next;
        }
        std::mem::take(&mut self.read.bins)
    }
}
