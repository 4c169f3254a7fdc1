//! What selective repeat adds to a reliable connection: which packets are sent again, and what has arrived
//! beyond a gap.
//!
//! Source: Mittal et al., "Revisiting network support for RDMA" (IRN), SIGCOMM 2018, section 3. The responder
//! places packets that come out of order, and answers each with a NAK that names the packet expected and the
//! packet that came. The requester sends only the missing packets again, once each until a timeout. At most a
//! bandwidth-delay product is in flight. The timer is short while few packets are in flight, since no NAK may
//! follow then. Section 7: if packets take several ways, a later packet says little about those before it,
//! and the requester waits for more of them (`reordering`).
//!
//! If switches trim packets that they have no room for, headers tell which packet is missing: Handley et al.,
//! "Re-architecting datacenter networks and stacks for low latency and high performance" (NDP), SIGCOMM 2017,
//! section 3. The responder answers such headers with a NAK at once, and the requester sends the packet
//! again, each time that it is trimmed.
//!
//! Leaves out: IRN's header fields, a RETH in each packet, and READs, SENDs and atomics out of order.

use crate::units::Time;

/// Settings of selective repeat.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SelectiveRepeat {
    /// Packets that may be in flight.
    pub window: u32,
    /// A packet counts as lost once a packet that was sent this many packets later has arrived.
    pub reordering: u32,
    /// First value of the timer while fewer than [`FEW`] packets are in flight.
    pub low_timeout: Time,
    /// First value of the timer otherwise.
    pub high_timeout: Time,
}

/// What a responder knows about a packet that it answers with a NAK.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Told {
    /// The packet came, out of order.
    Arrived,
    /// A switch trimmed the packet: only its headers came.
    Trimmed,
}

/// With at least this many packets in flight, NAKs tell of losses (IRN's N).
pub const FEW: u64 = 3;

/// A flag for each sequence number of a window. It takes memory only once a flag is set.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Flags {
    words: Vec<u64>,
}

impl Flags {
    fn place(&self, sequence: u64) -> (usize, u64) {
        let bit = sequence % (self.words.len() as u64 * 64);
        (bit as usize / 64, 1 << (bit % 64))
    }

    fn has(&self, sequence: u64) -> bool {
        if self.words.is_empty() {
            return false;
        }
        let (word, bit) = self.place(sequence);
        self.words[word] & bit != 0
    }

    /// Sets one of `window` flags. Returns whether it was clear before.
    fn set(&mut self, sequence: u64, window: u32) -> bool {
        if self.words.is_empty() {
            self.words = vec![0; window.div_ceil(64) as usize];
        }
        let (word, bit) = self.place(sequence);
        let was = self.words[word] & bit != 0;
        self.words[word] |= bit;
        !was
    }

    /// Clears a flag. Returns whether it was set.
    fn take(&mut self, sequence: u64) -> bool {
        if self.words.is_empty() {
            return false;
        }
        let (word, bit) = self.place(sequence);
        let was = self.words[word] & bit != 0;
        self.words[word] &= !bit;
        was
    }

    fn clear(&mut self) {
        self.words.fill(0);
    }
}

/// Packets that were trimmed according to NAKs.
#[derive(Clone, Debug, Default)]
struct Trimmed {
    /// Packets trimmed since the last acknowledgement, sent again or not: there is no need to guess about
    /// them.
    known: Flags,
    /// Packets to send again, their number, and where to start looking for the first of them.
    waiting: Flags,
    count: u32,
    from: u64,
}

impl Trimmed {
    fn add(&mut self, sequence: u64, window: u32) {
        self.known.set(sequence, window);
        if self.waiting.set(sequence, window) {
            self.from = if self.count == 0 { sequence } else { self.from.min(sequence) };
            self.count += 1;
        }
    }

    /// Called when a packet is sent again, or need not be. Returns whether it was to be sent again.
    fn take(&mut self, sequence: u64) -> bool {
        let was = self.waiting.take(sequence);
        self.count -= was as u32;
        was
    }

    fn first(&mut self) -> Option<u64> {
        if self.count == 0 {
            return None;
        }
        while !self.waiting.has(self.from) {
            self.from += 1;
        }
        Some(self.from)
    }

    /// All packets before `upto` have arrived; those before `una` were known to have.
    fn acknowledged(&mut self, una: u64, upto: u64) {
        for sequence in una..upto {
            self.take(sequence);
            self.known.take(sequence);
        }
        // Each flag stands for a whole series of sequence numbers, so none behind `upto` may be looked at
        // again.
        self.from = self.from.max(upto);
    }

    fn clear(&mut self) {
        self.known.clear();
        self.waiting.clear();
        self.count = 0;
    }
}

/// What a requester knows about packets beyond the first missing one.
#[derive(Clone, Debug)]
pub(super) struct Scoreboard {
    pub p: SelectiveRepeat,
    arrived: Flags,
    trimmed: Trimmed,
    /// One past the last packet that is known to have arrived.
    highest: u64,
    /// The first packet that was not yet considered for being sent again.
    resend: u64,
    /// One past the last packet that counts as lost unless it arrived.
    lost_end: u64,
    /// The end of what was sent before the losses were noticed: until it is acknowledged, they count as one
    /// loss.
    recovery_end: u64,
}

impl Scoreboard {
    pub fn new(p: SelectiveRepeat, first: u64) -> Self {
        Scoreboard {
            p,
            arrived: Flags::default(),
            trimmed: Trimmed::default(),
            highest: first,
            resend: first,
            lost_end: first,
            recovery_end: first,
        }
    }

    /// A packet has arrived ahead of a gap.
    pub fn arrived(&mut self, sequence: u64) {
        self.arrived.set(sequence, self.p.window);
        self.trimmed.take(sequence);
        self.highest = self.highest.max(sequence + 1);
        self.lost_end = self.lost_end.max(self.highest.saturating_sub(self.p.reordering as u64));
    }

    /// A packet was trimmed on its way. It is lost, unless another copy has arrived.
    pub fn trimmed(&mut self, sequence: u64) {
        if !self.arrived.has(sequence) {
            self.trimmed.add(sequence, self.p.window);
        }
    }

    /// All packets before `upto` have arrived; those before `una` were known to have.
    pub fn acknowledged(&mut self, una: u64, upto: u64) {
        (una..upto).for_each(|sequence| _ = self.arrived.take(sequence));
        self.trimmed.acknowledged(una, upto);
        self.resend = self.resend.max(upto);
    }

    /// The timer fired: everything that was sent and is not known to have arrived counts as lost.
    pub fn all_lost(&mut self, una: u64, sent: u64) {
        (self.resend, self.lost_end, self.recovery_end) = (una, sent, sent);
        self.trimmed.clear();
    }

    /// The next packet to send again; none: what follows is new.
    pub fn next_lost(&mut self) -> Option<u64> {
        let is_known = |at: u64| self.arrived.has(at) || self.trimmed.known.has(at);
        while self.resend < self.lost_end && is_known(self.resend) {
            self.resend += 1;
        }
        let missing = (self.resend < self.lost_end).then_some(self.resend);
        match self.trimmed.first() {
            None => missing,
            Some(trimmed) => Some(missing.map_or(trimmed, |missing| missing.min(trimmed))),
        }
    }

    /// A packet is being sent again.
    pub fn sent_again(&mut self, sequence: u64) {
        if !self.trimmed.take(sequence) {
            self.resend = sequence + 1;
        }
    }

    /// Packets that count as lost and may have to be sent again.
    pub fn waiting(&self) -> u64 {
        self.lost_end.saturating_sub(self.resend) + self.trimmed.count as u64
    }

    /// Packets are to be sent again. Whether that is a new loss.
    pub fn begins_recovery(&mut self, una: u64, sent: u64) -> bool {
        let begins = una >= self.recovery_end;
        if begins {
            self.recovery_end = sent;
        }
        begins
    }
}

/// What a responder has placed ahead of a gap.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Ahead {
    pub window: u32,
    placed: Flags,
    count: u32,
}

impl Ahead {
    pub fn new(window: u32) -> Self {
        Ahead { window, placed: Flags::default(), count: 0 }
    }

    pub fn has(&self, sequence: u64) -> bool {
        self.placed.has(sequence)
    }

    /// A packet ahead of the gap; whether it is new.
    pub fn place(&mut self, sequence: u64) -> bool {
        let is_new = self.placed.set(sequence, self.window);
        self.count += is_new as u32;
        is_new
    }

    /// The expected packet has arrived. Returns which one is expected next.
    pub fn close(&mut self, mut expected: u64) -> u64 {
        while self.count > 0 && self.placed.take(expected) {
            self.count -= 1;
            expected += 1;
        }
        expected
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Flags come round after 64: 100 has that of 36.
    #[test]
    fn the_first_that_was_trimmed_is_never_looked_for_behind_what_is_acknowledged() {
        let mut trimmed = Trimmed::default();
        trimmed.add(10, 64);
        trimmed.add(60, 64);
        trimmed.acknowledged(0, 40);
        trimmed.add(100, 64);
        assert_eq!(trimmed.first(), Some(60));
        trimmed.acknowledged(40, 61);
        assert_eq!((trimmed.first(), trimmed.count), (Some(100), 1));
    }
}
