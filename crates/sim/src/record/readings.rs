//! What is read at the end of each bin, of the world of either engine: the columns of the series, and the tables that give their values.

use std::borrow::Cow;
use tailback_proto::units::Time;

use super::bins::Bins;
use super::entity::Entity;
use super::items::Items;
use super::quantity::{Bin, Kind, Table};
use super::recording::Series;
use super::signals::Signal;

/// A series.
pub(super) struct Column {
    entity: u32,
    metric: Cow<'static, str>,
    pub kind: Kind,
    /// Whether a value above 0 is a reason to keep the entity.
    keeps: bool,
    /// The signal whose bins these are in the log of signals.
    signal: Option<Signal>,
}

/// Columns that are read together, at one place.
pub(super) struct Reader<W> {
    read: fn(&mut Bin<W>, usize, &mut [u64], &mut [f64]),
    pub at: usize,
    pub columns: usize,
    /// The first of them.
    pub first: usize,
    /// The node that it reads the counters of.
    pub node: usize,
}

/// Something that is no row of a table: what a controller shows.
pub(crate) struct Shown<W> {
    pub name: Cow<'static, str>,
    pub kind: Kind,
    pub read: fn(&mut Bin<W>, usize, &mut [u64], &mut [f64]),
    pub at: usize,
}

/// All that is read of a world.
pub(crate) struct Readings<W> {
    pub(super) readers: Vec<Reader<W>>,
    pub(super) columns: Vec<Column>,
    /// By column: the counter's value at the start of the bin.
    pub(super) before: Vec<u64>,
    entities: Vec<Entity>,
    /// By entity: whether it is kept even where nothing ever happened.
    always: Vec<bool>,
    /// The node that is read next.
    pub node: usize,
    pub bins: Bins,
}

impl<W> Default for Readings<W> {
    fn default() -> Self {
        Readings {
            readers: Vec::new(),
            columns: Vec::new(),
            before: Vec::new(),
            entities: Vec::new(),
            always: Vec::new(),
            node: 0,
            bins: Bins::default(),
        }
    }
}

impl<W> Readings<W> {
    /// What is added next is of this.
    pub fn add(&mut self, entity: Entity) {
        self.entities.push(entity);
        self.always.push(false);
    }

    /// More of the latest entity.
    pub fn read(&mut self, table: &'static Table<W>, at: usize) {
        let entity = self.entities.len() - 1;
        debug_assert!(table.of.contains(&self.entities[entity].kind));
        self.always[entity] |= table.always;
        let (first, node) = (self.columns.len(), self.node);
        self.readers.push(Reader { read: table.read, at, columns: table.rows.len(), first, node });
        self.columns.extend(table.rows.iter().filter_map(|row| {
            let (entity, metric) = (entity as u32, Cow::Borrowed(row.metric));
            Some(Column { entity, metric, kind: row.kind?, keeps: row.keeps, signal: row.signal })
        }));
    }

    /// More of the latest entity, which no table has.
    pub fn read_shown(&mut self, shown: Shown<W>) {
        let entity = self.entities.len() as u32 - 1;
        let (first, node) = (self.columns.len(), self.node);
        self.readers.push(Reader { read: shown.read, at: shown.at, columns: 1, first, node });
        let (metric, kind) = (shown.name, shown.kind);
        self.columns.push(Column { entity, metric, kind, keeps: false, signal: None });
    }

    /// Columns so far.
    pub fn len(&self) -> usize {
        self.columns.len()
    }

    /// Of each column: the kind of its entity, its metric, and how it is read.
    pub(super) fn each(&self) -> impl Iterator<Item = (&'static str, &str, Kind)> {
        self.columns.iter().map(|one| (self.entities[one.entity as usize].kind, &*one.metric, one.kind))
    }

    /// All is added: bins begin at `start`, the first of this length; `most`: bins that there may be.
    pub fn begin(&mut self, start: Time, first_bin: Time, most: usize) {
        self.before = vec![0; self.columns.len()];
        self.bins = Bins::new(self.kinds(), start, first_bin, most);
    }

    /// How bins of the columns are merged.
    pub(super) fn kinds(&self) -> Vec<Kind> {
        self.columns.iter().map(|column| column.kind).collect()
    }

    /// Closes the bin that ends now, by the clock of the world, and by that of the bins: they differ by what was skipped.
    pub fn close_bin(&mut self, world: &mut W, (now, end): (Time, Time), items: Option<&Items>) {
        let mut bin = Bin { now, span: self.bins.span(end), items, world };
        read(&self.readers, &mut bin, &mut self.before, self.bins.close(end));
    }

    /// Gives out what was read, and hands the columns of signals on, with the length of a bin. Entities of which nothing is
    /// a reason to keep them are left out of the series.
    pub fn into_series(
        self,
        detail: &'static str,
        mut tell: impl FnMut(Signal, &Entity, Kind, &[f64], Time),
    ) -> Series {
        let (bin, bins, mut values) = self.bins.into_columns();
        let read = || self.columns.iter().zip(values.chunks_exact(bins.max(1)));
        let mut used = self.always;
        for (column, values) in read() {
            let entity = column.entity as usize;
            if let Some(signal) = column.signal {
                tell(signal, &self.entities[entity], column.kind, values, bin);
            }
            used[entity] |= column.keeps && values.iter().any(|&value| value > 0.0);
        }
        let kept = Series::keep(self.columns.into_iter(), |one| used[one.entity as usize], bins, &mut values);
        let names = kept.into_iter().map(|column| (column.entity as usize, column.metric)).collect();
        Series { entities: self.entities, names, values, bin, bins, detail }
    }
}

fn read<W>(readers: &[Reader<W>], bin: &mut Bin<W>, mut before: &mut [u64], mut values: &mut [f64]) {
    for reader in readers {
        (reader.read)(bin, reader.at, before, values);
        (before, values) = (&mut before[reader.columns..], &mut values[reader.columns..]);
    }
}
