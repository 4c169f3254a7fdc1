//! The packets of many queues in one slab: once the slab has reached its full size, queues grow and shrink without allocating.

use super::skb::Skb;

/// No packet, no queue.
pub(super) const NONE: u32 = u32::MAX;

#[derive(Clone, Debug)]
struct Node {
    skb: Skb,
    next: u32,
    previous: u32,
}

/// A queue of packets in a slab.
#[derive(Clone, Copy, Debug)]
pub(super) struct List {
    head: u32,
    tail: u32,
}

impl List {
    pub const EMPTY: List = List { head: NONE, tail: NONE };

    pub fn is_empty(&self) -> bool {
        self.head == NONE
    }
}

/// The packets of all queues.
#[derive(Clone, Debug)]
pub(super) struct Slab {
    nodes: Vec<Node>,
    free: u32,
}

impl Slab {
    pub fn new() -> Self {
        Slab { nodes: Vec::new(), free: NONE }
    }

    pub fn push_back(&mut self, list: &mut List, skb: Skb) {
        let node = Node { skb, next: NONE, previous: list.tail };
        let index = match self.free {
            NONE => {
                self.nodes.push(node);
                self.nodes.len() as u32 - 1
            }
            index => {
                self.free = self.nodes[index as usize].next;
                self.nodes[index as usize] = node;
                index
            }
        };
        match list.tail {
            NONE => list.head = index,
            tail => self.nodes[tail as usize].next = index,
        }
        list.tail = index;
    }

    pub fn pop_front(&mut self, list: &mut List) -> Option<Skb> {
        let index = list.head;
        let Node { skb, next, .. } = *self.nodes.get(index as usize)?;
        list.head = next;
        match next {
            NONE => list.tail = NONE,
            next => self.nodes[next as usize].previous = NONE,
        }
        self.release(index);
        Some(skb)
    }

    pub fn pop_back(&mut self, list: &mut List) -> Option<Skb> {
        let index = list.tail;
        let Node { skb, previous, .. } = *self.nodes.get(index as usize)?;
        list.tail = previous;
        match previous {
            NONE => list.head = NONE,
            previous => self.nodes[previous as usize].next = NONE,
        }
        self.release(index);
        Some(skb)
    }

    fn release(&mut self, index: u32) {
        self.nodes[index as usize].next = self.free;
        self.free = index;
    }
}
