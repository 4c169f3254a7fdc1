//! An all-reduce along a binary tree: data goes up to the root, is reduced on the way, and comes down again.

use super::desk::Desk;
use super::groups::Branch;

/// What a rank does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Begin,
    /// A leaf waits for its memory before it sends.
    Leaf,
    /// It expects data of this many children.
    Children(u32),
    /// All data of the children have arrived, and are being reduced.
    Reducing,
    Parent,
    /// The data of the parent have arrived.
    Down,
}

/// One rank's part of a chunk.
#[derive(Debug)]
pub(super) struct Tree {
    branch: Branch,
    pub bytes: u64,
    state: State,
    /// Reductions that have ended.
    reduced: u32,
}

impl Tree {
    pub fn new(branch: Branch, bytes: u64) -> Tree {
        Tree { branch, bytes, state: State::Begin, reduced: 0 }
    }

    fn children(&self) -> impl Iterator<Item = u32> {
        [self.branch.left, self.branch.right].into_iter().flatten()
    }

    fn is_leaf(&self) -> bool {
        self.children().next().is_none()
    }

    pub fn begin(&mut self, desk: &mut Desk) {
        if self.is_leaf() {
            self.state = State::Leaf;
            desk.wait(None);
            return;
        }
        self.state = State::Children(self.children().count() as u32);
        for child in self.children() {
            if desk.expect(child, self.bytes) {
                self.on_received(desk);
            }
        }
    }

    pub fn on_received(&mut self, desk: &mut Desk) {
        match self.state {
            State::Children(left) => {
                self.state = if left > 1 { State::Children(left - 1) } else { State::Reducing };
                desk.wait(Some(self.bytes));
            }
            State::Parent => {
                self.state = State::Down;
                // A leaf only stores them.
                desk.wait((!self.is_leaf()).then_some(self.bytes));
            }
            _ => {}
        }
    }

    /// The memory is done. True: this rank's part is over.
    pub fn on_memory(&mut self, desk: &mut Desk) -> bool {
        match self.state {
            State::Leaf => self.send_up(desk),
            State::Children(_) | State::Reducing => {
                self.reduced += 1;
                if self.reduced < self.children().count() as u32 {
                    return false;
                }
                if self.branch.parent.is_none() {
                    return self.send_down(desk);
                }
                self.send_up(desk);
            }
            State::Down => return self.send_down(desk),
            State::Begin | State::Parent => {}
        }
        false
    }

    fn send_up(&mut self, desk: &mut Desk) {
        let Some(parent) = self.branch.parent else { return };
        self.state = State::Parent;
        desk.send(parent, self.bytes);
        if desk.expect(parent, self.bytes) {
            self.on_received(desk);
        }
    }

    fn send_down(&mut self, desk: &mut Desk) -> bool {
        for child in self.children() {
            desk.send(child, self.bytes);
        }
        true
    }
}
