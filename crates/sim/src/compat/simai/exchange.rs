//! One rank's part of a collective: which messages it sends once which others have arrived.
//!
//! A collective on rings is cut by ranks and by channels; a rank sends its next piece when a piece has arrived. A piece that
//! arrives before the rank has sent its own piece with that number waits for that. An all-to-all sends everything at once.
//! The memory handles a message before it is sent: the first of a cycle is only copied, the others are reduced.

use super::groups::{Members, Neighbours};
use super::plan::Kind;

/// Time in which the memory reads or writes, ns, whatever the size.
const ACCESS_NS: u64 = 10;

/// A message within a collective.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Piece {
    pub channel: u32,
    /// Its number in the channel; in an all-to-all its receiver's place in the group.
    pub step: u32,
    /// The rank that it is handed on to, if this rank only passes it on.
    pub to: Option<u32>,
}

/// What a message tells its receiver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Label {
    pub channel: u32,
    pub step: u32,
    /// The rank that it is to be handed on to.
    pub hand_on: Option<u32>,
}

/// What a rank does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Action {
    /// The memory takes this long before a piece is sent.
    Wait(Piece, u64),
    /// A message goes to a rank.
    Send(u32, Label),
}

#[derive(Debug)]
struct Channel {
    ring: Neighbours,
    /// Pieces that this rank sent, whose counterparts it expects.
    sent: u32,
    /// Pieces that arrived before they were expected.
    early: Vec<u32>,
    /// Messages of the memory's current cycle: copied, and reduced.
    plain: u32,
    reduced: u32,
}

/// One rank's part of a collective.
#[derive(Debug)]
pub(super) struct Exchange {
    kind: Kind,
    members: Members,
    rank: u32,
    /// Size of each message.
    pub bytes: u64,
    channels: Vec<Channel>,
    /// Pieces of a channel that each rank sends.
    steps: u32,
    /// Messages of a cycle that are reduced: one fewer than the dimension has ranks.
    reduced_in_a_cycle: u32,
    odd_cycle: bool,
    /// Messages that have not left the NIC, and messages that have not arrived.
    to_send: u32,
    to_receive: u32,
}

impl Exchange {
    fn channels(kind: Kind, members: &Members) -> u32 {
        if kind == Kind::AllToAll {
            1
        } else {
            members.channels()
        }
    }

    /// Size of each message of a collective of `bytes`.
    pub fn message_bytes(kind: Kind, members: &Members, bytes: u64) -> u64 {
        bytes / members.count() as u64 / Self::channels(kind, members) as u64
    }

    /// `dimension`: its ranks, as the logical topology counts them.
    pub fn new(kind: Kind, members: Members, rank: u32, bytes: u64, dimension: u32, pxn: bool) -> Exchange {
        let count = members.count();
        let channels = Self::channels(kind, &members);
        let steps = if kind == Kind::AllReduce { 2 * (count - 1) } else { count - 1 };
        // SimAI's all-gather asks for PXN in a way that never finds it.
        let pxn = pxn && kind != Kind::AllGather;
        let bytes = Self::message_bytes(kind, &members, bytes);
        let channels: Vec<Channel> = (0..channels)
            .map(|channel| Channel {
                ring: members.ring(rank, channel, pxn),
                sent: 0,
                early: Vec::new(),
                plain: 0,
                reduced: 0,
            })
            .collect();
        let handed_on = channels.iter().filter(|channel| channel.ring.for_whom.is_some()).count() as u32;
        let all = if bytes == 0 { 0 } else { (channels.len() as u32 + handed_on) * steps };
        Exchange {
            kind,
            members,
            rank,
            bytes,
            channels,
            steps,
            reduced_in_a_cycle: dimension - 1,
            odd_cycle: false,
            to_send: all,
            to_receive: all,
        }
    }

    pub fn is_over(&self) -> bool {
        self.to_send == 0 && self.to_receive == 0
    }

    pub fn begin(&mut self, actions: &mut Vec<Action>) {
        if self.bytes == 0 {
            return;
        }
        if self.kind == Kind::AllToAll {
            for step in 0..self.members.count() {
                if self.members.ranks[step as usize] != self.rank {
                    self.wait(Piece { channel: 0, step, to: None }, actions);
                }
            }
            return;
        }
        for channel in 0..self.channels.len() as u32 {
            self.wait(Piece { channel, step: 0, to: None }, actions);
        }
    }

    /// Hands a piece to the memory.
    fn wait(&mut self, piece: Piece, actions: &mut Vec<Action>) {
        let channel = &mut self.channels[piece.channel as usize];
        if channel.plain == 0 && channel.reduced == 0 {
            (channel.plain, channel.reduced) = (1, self.reduced_in_a_cycle);
            self.odd_cycle = !self.odd_cycle;
        }
        let reduces = if channel.plain > 0 {
            channel.plain -= 1;
            false
        } else {
            channel.reduced -= 1;
            self.kind == Kind::ReduceScatter || self.kind == Kind::AllReduce && self.odd_cycle
        };
        actions.push(Action::Wait(piece, if reduces { 3 * ACCESS_NS } else { 0 }));
    }

    /// The memory is done with a piece. Pieces that arrived early count now.
    pub fn on_memory(&mut self, piece: Piece, actions: &mut Vec<Action>) {
        let Piece { channel: number, step, to } = piece;
        if let Some(to) = to {
            actions.push(Action::Send(to, Label { channel: number, step, hand_on: None }));
            return;
        }
        let channel = &mut self.channels[number as usize];
        if self.kind == Kind::AllToAll {
            channel.sent += 1;
            self.to_receive -= std::mem::take(&mut channel.early).len() as u32;
            let to = self.members.ranks[step as usize];
            actions.push(Action::Send(to, Label { channel: number, step, hand_on: None }));
            return;
        }
        channel.sent = step + 1;
        let ring = channel.ring;
        if let Some(at) = channel.early.iter().position(|&early| early == step) {
            channel.early.swap_remove(at);
            self.take(number, step, actions);
        }
        let (to, hand_on) = match ring.by {
            Some(by) => (by, Some(ring.next)),
            None => (ring.next, None),
        };
        actions.push(Action::Send(to, Label { channel: number, step, hand_on }));
    }

    /// A message has arrived.
    pub fn on_received(&mut self, label: Label, actions: &mut Vec<Action>) {
        let Label { channel: number, step, hand_on } = label;
        if hand_on.is_some() {
            self.to_receive -= 1;
            self.wait(Piece { channel: number, step, to: hand_on }, actions);
            return;
        }
        let channel = &mut self.channels[number as usize];
        let expected = if self.kind == Kind::AllToAll { channel.sent > 0 } else { step < channel.sent };
        if expected {
            self.take(number, step, actions);
        } else {
            channel.early.push(step);
        }
    }

    /// An expected piece has arrived: the next one may be sent.
    fn take(&mut self, channel: u32, step: u32, actions: &mut Vec<Action>) {
        self.to_receive -= 1;
        if self.kind != Kind::AllToAll && step + 1 < self.steps {
            self.wait(Piece { channel, step: step + 1, to: None }, actions);
        }
    }

    /// A message of this rank has left its NIC.
    pub fn on_sent(&mut self) {
        self.to_send -= 1;
    }

    /// How many messages it has not sent, and how many have not arrived.
    pub fn left(&self) -> (u32, u32) {
        (self.to_send, self.to_receive)
    }
}

/// Time until the memory has a piece that is handed to it, ns.
pub(super) const TO_MEMORY_NS: u64 = ACCESS_NS;
