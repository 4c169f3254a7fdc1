//! The lists of the event queue's slots: one pool of nodes, of which the last one freed is used first.

/// No node.
pub(super) const NONE: u32 = u32::MAX;

/// A cache line of entries that lie in one slot.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
pub(super) struct Node {
    entries: [u128; ENTRIES],
    /// The node behind it, and above that how many entries it has besides the first: one store says both.
    link: u64,
}

const ENTRIES: usize = 3;

impl Node {
    pub fn entries(&self) -> &[u128] {
        &self.entries[..=(self.link >> 32) as usize]
    }

    #[inline(always)]
    fn next(&self) -> u32 {
        self.link as u32
    }
}

/// All lists.
#[derive(Debug)]
pub(super) struct Lists {
    nodes: Vec<Node>,
    /// First of the free nodes.
    free: u32,
}

impl Default for Lists {
    fn default() -> Self {
        Lists { nodes: Vec::new(), free: NONE }
    }
}

impl Lists {
    /// Takes a node that is free, if any is.
    #[inline(always)]
    pub fn take_free(&mut self) -> Option<u32> {
        let at = self.free;
        self.free = self.nodes.get(at as usize)?.next();
        Some(at)
    }

    /// Puts an entry into that node.
    #[inline(always)]
    pub fn put(&mut self, at: u32, entry: u128) {
        self.nodes[at as usize].entries[0] = entry;
    }

    /// Puts a node with one entry before the list that begins with `head`. What was behind it.
    #[inline(always)]
    pub fn put_before(&mut self, at: u32, head: u32) -> u32 {
        std::mem::replace(&mut self.nodes[at as usize].link, head as u64) as u32
    }

    /// Puts an entry, in a node of its own, before the list that begins with `next`. Where the list begins now.
    #[inline(always)]
    pub fn begin(&mut self, next: u32, entry: u128) -> u32 {
        let Some(at) = self.take_free() else { return self.new_node(next, entry) };
        self.put(at, entry);
        self.put_before(at, next);
        at
    }

    #[cold]
    fn new_node(&mut self, next: u32, entry: u128) -> u32 {
        self.nodes.push(Node { entries: [entry, 0, 0], link: next as u64 });
        self.nodes.len() as u32 - 1
    }

    /// Puts an entry into the first node of a list, or before that. Where the list begins now.
    #[inline]
    pub fn fill_up(&mut self, head: u32, entry: u128) -> u32 {
        if let Some(node) = self.nodes.get_mut(head as usize) {
            if let Some(place) = node.entries.get_mut((node.link >> 32) as usize + 1) {
                *place = entry;
                node.link += 1 << 32;
                return head;
            }
        }
        self.begin(head, entry)
    }

    /// Takes the entry of a list that has no other.
    #[inline(always)]
    pub fn take_alone(&mut self, head: u32) -> Option<u128> {
        let node = &mut self.nodes[head as usize];
        (node.link == NONE as u64).then(|| {
            node.link = self.free as u64;
            self.free = head;
            node.entries[0]
        })
    }

    /// Takes the entries of a list that has two, each in a node of its own.
    #[inline]
    pub fn take_pair(&mut self, head: u32) -> Option<(u128, u128)> {
        let &Node { entries: [one, ..], link } = &self.nodes[head as usize];
        let second = self.nodes.get_mut(link as usize).filter(|node| node.link == NONE as u64)?;
        second.link = self.free as u64;
        self.free = head;
        Some((one, second.entries[0]))
    }

    /// Takes all entries of a list.
    pub fn take_all(&mut self, mut at: u32, into: &mut Vec<u128>) {
        while at != NONE {
            let node = &mut self.nodes[at as usize];
            into.push(node.entries[0]);
            if node.link >> 32 != 0 {
                into.extend_from_slice(&node.entries()[1..]);
            }
            let next = node.next();
            node.link = self.free as u64;
            self.free = at;
            at = next;
        }
    }

    /// Takes a list's first node. Where the rest begins.
    #[inline]
    pub fn take(&mut self, head: u32) -> (Node, u32) {
        let node = self.nodes[head as usize];
        self.nodes[head as usize].link = self.free as u64;
        self.free = head;
        (node, node.next())
    }

    /// The entries of a node.
    #[inline]
    pub fn entries_of(&self, at: u32) -> &[u128] {
        self.nodes[at as usize].entries()
    }

    /// All entries of a list.
    pub fn entries(&self, head: u32) -> impl Iterator<Item = &u128> {
        let nodes =
            std::iter::successors(self.nodes.get(head as usize), |node| self.nodes.get(node.next() as usize));
        nodes.flat_map(Node::entries)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_events_share_a_cache_line() {
        assert_eq!((size_of::<Node>(), align_of::<Node>()), (64, 64));
    }
}
