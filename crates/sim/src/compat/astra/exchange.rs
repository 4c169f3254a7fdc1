//! Rings, direct exchanges, and halving and doubling: one state machine, in which the next partner and the size differ.
//!
//! A message is sent when the memory is done with it, and the next one is made when a message has arrived. The memory works
//! in cycles: first it copies some messages, then it reduces some, if the collective reduces.

use std::collections::VecDeque;

use super::desk::Desk;
use super::groups::Ring;
use super::plan::{Algorithm, Implementation, Kind};

/// A message to be sent, and the message expected in return.
#[derive(Clone, Copy, Debug)]
struct Message {
    to: u32,
    from: u32,
    bytes: u64,
}

/// The next partner, and the size.
#[derive(Debug)]
enum Partner {
    /// Always the neighbours.
    Neighbours { onwards: bool },
    /// All others in turn, further away each time; places in the ring.
    Everyone { onwards: bool, to: u32, from: u32 },
    /// Half or twice as far away each time. `doubles` says which, and whether an all-reduce is in its second half.
    Halving { offset: u32, doubles: bool },
}

/// One rank's part of a phase.
#[derive(Debug)]
pub(super) struct Exchange {
    ring: Ring,
    kind: Kind,
    partner: Partner,
    bytes: u64,
    /// Messages that it starts with.
    width: u32,
    /// Messages still to be sent.
    left: u32,
    /// Messages that the memory is done with, and that are not sent yet.
    ready: u32,
    waiting: VecDeque<Message>,
    received: u32,
    /// Messages of the current cycle: copied, and reduced if the collective reduces.
    plain: u32,
    reduced: u32,
    odd_cycle: bool,
}

impl Exchange {
    pub fn new(
        kind: Kind,
        ring: Ring,
        implementation: &Implementation,
        onwards: bool,
        bytes: u64,
    ) -> Exchange {
        let size = ring.size;
        let share = if kind == Kind::AllGather { bytes } else { bytes / size as u64 };
        let most = size - 1;
        let (partner, bytes, width, left) = match implementation.algorithm {
            Algorithm::Direct => {
                let width = implementation.window.map_or(most, |window| window.min(most));
                let (to, from) = (ring.step(ring.place, 1, onwards), ring.step(ring.place, 1, !onwards));
                let left = if kind == Kind::AllReduce { 2 * most } else { most };
                (Partner::Everyone { onwards, to, from }, share, width, left)
            }
            Algorithm::HalvingDoubling => {
                let steps = size.ilog2();
                let (offset, bytes) = match kind {
                    Kind::AllGather => (size / 2, bytes),
                    _ => (1, bytes / 2),
                };
                let left = if kind == Kind::AllReduce { 2 * steps } else { steps };
                (Partner::Halving { offset, doubles: kind == Kind::AllGather }, bytes, 1, left)
            }
            Algorithm::Ring | Algorithm::DoubleBinaryTree => {
                let left = match kind {
                    Kind::AllReduce => 2 * most,
                    Kind::AllToAll => most * size / 2,
                    Kind::AllGather | Kind::ReduceScatter => most,
                };
                (Partner::Neighbours { onwards }, share, 1, left)
            }
        };
        Exchange {
            ring,
            kind,
            partner,
            bytes,
            width,
            left,
            ready: 0,
            waiting: VecDeque::new(),
            received: 0,
            plain: 0,
            reduced: 0,
            odd_cycle: false,
        }
    }

    /// The largest message that a rank sends; call before it begins.
    pub fn message_bytes(&self) -> u64 {
        match self.partner {
            Partner::Halving { doubles: true, .. } => self.bytes.saturating_mul(self.ring.size as u64 / 2),
            _ => self.bytes,
        }
    }

    pub fn is_local(&self) -> bool {
        self.ring.local
    }

    pub fn begin(&mut self, desk: &mut Desk) {
        for _ in 0..self.width {
            self.add(desk);
        }
    }

    /// A message has arrived.
    pub fn on_received(&mut self, desk: &mut Desk) {
        self.received += 1;
        self.add(desk);
    }

    /// The memory is done with a message. True: this rank's part is over.
    pub fn on_memory(&mut self, desk: &mut Desk) -> bool {
        self.ready += 1;
        let others = self.ring.size - 1;
        let direct = matches!(self.partner, Partner::Everyone { .. });
        let turns = if direct && self.kind == Kind::AllReduce && self.left <= others {
            // Everything is reduced before any of it is passed on.
            if self.received < others {
                return false;
            }
            self.width
        } else {
            1
        };
        for _ in 0..turns {
            self.send(desk);
        }
        self.left == 0 && self.ready == self.width
    }

    /// Messages of a cycle that are reduced.
    fn reduced_in_a_cycle(&self) -> u32 {
        match self.partner {
            Partner::Halving { .. } => self.ring.size.ilog2() - 1,
            Partner::Everyone { .. } if !self.ring.local => self.width,
            _ => (self.ring.size - 1) * self.width,
        }
    }

    /// Makes the next message and hands it to the memory.
    fn add(&mut self, desk: &mut Desk) {
        if self.plain == 0 && self.reduced == 0 {
            self.plain = self.width;
            self.reduced = self.reduced_in_a_cycle();
            self.odd_cycle = !self.odd_cycle;
        }
        let reduces = if self.plain > 0 {
            self.plain -= 1;
            false
        } else {
            self.reduced -= 1;
            self.kind == Kind::ReduceScatter || self.kind == Kind::AllReduce && self.odd_cycle
        };
        let message = self.next_message();
        self.waiting.push_back(message);
        desk.wait(reduces.then_some(message.bytes));
    }

    fn next_message(&mut self) -> Message {
        let ring = &self.ring;
        let bytes = self.bytes;
        match &mut self.partner {
            Partner::Neighbours { onwards } => Message {
                to: ring.rank(ring.step(ring.place, 1, *onwards)),
                from: ring.rank(ring.step(ring.place, 1, !*onwards)),
                bytes,
            },
            Partner::Everyone { onwards, to, from } => {
                let message = Message { to: ring.rank(*to), from: ring.rank(*from), bytes };
                for (place, onwards) in [(to, *onwards), (from, !*onwards)] {
                    *place = ring.step(*place, 1, onwards);
                    if *place == ring.place {
                        *place = ring.step(*place, 1, onwards);
                    }
                }
                message
            }
            Partner::Halving { offset, doubles } => {
                let onwards = *offset == 0 || (ring.place / *offset).is_multiple_of(2);
                let partner = ring.rank(ring.step(ring.place, *offset, onwards));
                if *doubles {
                    *offset /= 2;
                    self.bytes *= 2;
                } else {
                    *offset *= 2;
                    self.bytes /= 2;
                    if *offset == ring.size && self.kind == Kind::AllReduce {
                        *doubles = true;
                        *offset /= 2;
                        self.bytes *= 2;
                    }
                }
                Message { to: partner, from: partner, bytes }
            }
        }
    }

    /// Sends the next message, if one may be sent, and expects its counterpart.
    fn send(&mut self, desk: &mut Desk) {
        if self.left == 0 || self.ready == 0 {
            return;
        }
        let Some(&Message { to, from, bytes }) = self.waiting.front() else { return };
        desk.send(to, bytes);
        if desk.expect(from, bytes) {
            self.on_received(desk);
        }
        self.left -= 1;
        self.ready -= 1;
        self.waiting.pop_front();
    }
}
