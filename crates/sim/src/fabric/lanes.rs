//! Traffic classes, and tables with an entry for each port and class.

/// Traffic classes, priorities and priority groups: 802.1Q has eight of each.
pub const CLASSES: usize = 8;

/// Index of a (port, class) pair in the tables that hold one entry for each.
pub(crate) fn lane(port: usize, class: u8) -> usize {
    port * CLASSES + class as usize
}

/// A table with one entry for each (port, class) pair. Those of a class lie side by side, because most classes have no
/// packets: what is used is dense, and neither falls into a few sets of the caches nor takes a page for each few ports.
#[derive(Debug)]
pub(crate) struct Lanes<T>([Vec<T>; CLASSES]);

impl<T: Clone> Lanes<T> {
    pub fn new(ports: usize, value: T) -> Self {
        Lanes(std::array::from_fn(|_| vec![value.clone(); ports]))
    }
}

impl<T> Lanes<T> {
    pub fn len(&self) -> usize {
        self.0[0].len() * CLASSES
    }

    /// In order of lanes.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        (0..self.len()).map(|lane| &self[lane])
    }

    /// All ports of a class.
    pub fn of_class(&self, class: u8) -> &[T] {
        &self.0[class as usize]
    }

    /// All classes of a port.
    pub fn of_port(&self, port: usize) -> impl Iterator<Item = &T> {
        self.0.iter().map(move |entries| &entries[port])
    }

    /// Asks for an entry's memory; a class that there is none of is ignored.
    #[inline]
    pub fn prefetch(&self, port: usize, class: u8) {
        if let Some(entries) = self.0.get(class as usize) {
            crate::engine::prefetch(entries, port);
        }
    }
}

impl<T> std::ops::Index<(usize, u8)> for Lanes<T> {
    type Output = T;
    #[inline]
    fn index(&self, (port, class): (usize, u8)) -> &T {
        &self.0[class as usize % CLASSES][port]
    }
}

impl<T> std::ops::IndexMut<(usize, u8)> for Lanes<T> {
    #[inline]
    fn index_mut(&mut self, (port, class): (usize, u8)) -> &mut T {
        &mut self.0[class as usize % CLASSES][port]
    }
}

impl<T> std::ops::Index<usize> for Lanes<T> {
    type Output = T;
    #[inline]
    fn index(&self, lane: usize) -> &T {
        &self[port_and_class(lane)]
    }
}

impl<T> std::ops::IndexMut<usize> for Lanes<T> {
    #[inline]
    fn index_mut(&mut self, lane: usize) -> &mut T {
        &mut self[port_and_class(lane)]
    }
}

/// The (port, class) pair of a lane.
pub(crate) fn port_and_class(lane: usize) -> (usize, u8) {
    (lane / CLASSES, (lane % CLASSES) as u8)
}
