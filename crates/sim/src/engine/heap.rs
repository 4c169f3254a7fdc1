//! A heap of event queue entries, for the few that no wheel holds.

/// A 4-ary heap of entries: four children share a cache line.
#[derive(Debug, Default)]
pub(super) struct Heap(Vec<u128>);

const ARITY: usize = 4;

impl Heap {
    pub fn first(&self) -> Option<u128> {
        self.0.first().copied()
    }

    /// In no order.
    pub fn iter(&self) -> std::slice::Iter<'_, u128> {
        self.0.iter()
    }

    #[inline]
    pub fn push(&mut self, entry: u128) {
        push(&mut self.0, entry);
    }

    #[inline]
    pub fn pop(&mut self) -> Option<u128> {
        let first = self.first()?;
        let last = self.0.pop()?;
        if !self.0.is_empty() {
            sift_down(&mut self.0, last);
        }
        Some(first)
    }
}

/// Adds an entry to a heap.
#[inline]
pub(super) fn push(heap: &mut Vec<u128>, entry: u128) {
    let mut hole = heap.len();
    heap.push(entry);
    while hole > 0 {
        let parent = (hole - 1) / ARITY;
        if heap[parent] <= entry {
            break;
        }
        heap[hole] = heap[parent];
        hole = parent;
    }
    heap[hole] = entry;
}

/// Puts an entry in the place of a heap's first one.
pub(super) fn sift_down(heap: &mut [u128], entry: u128) {
    let mut hole = 0;
    loop {
        let first = hole * ARITY + 1;
        let smallest = if let Some(children) = heap.get(first..first + ARITY) {
            let left = first + (children[1] < children[0]) as usize;
            let right = first + 2 + (children[3] < children[2]) as usize;
            if heap[right] < heap[left] {
                right
            } else {
                left
            }
        } else if first < heap.len() {
            (first + 1..heap.len()).fold(first, |best, i| if heap[i] < heap[best] { i } else { best })
        } else {
            break;
        };
        if heap[smallest] >= entry {
            break;
        }
        heap[hole] = heap[smallest];
        hole = smallest;
    }
    heap[hole] = entry;
}
