//! The requests of a connection as they pass a point: gaps in their PSNs, and what is retransmitted.
//!
//! What is seen depends on the point. Behind a loss there is a gap; ahead of it there is none, and the packet comes a second time.
//! A packet that fills a gap is *late* (overtaken on the way) where no NAK asked for it and it comes within [`LATE_PS`]; else it
//! was retransmitted. A recovery is *go-back-N* where all is retransmitted up to the newest packet, *selective* where the next new
//! packet follows before that.
//!
//! A cause is told only where its condition was seen: a NAK that asks for that packet or one before it; or, without one, a sender that
//! was silent for at least [`LEAST_TIMEOUT_PS`]. Else the cause was not seen: the NAK may have taken another way.

use std::collections::VecDeque;

use serde::Serialize;
use tailback_proto::wire::{Bth, Opcode};

use crate::clock::{since, told, Time, NO_TIME};
use crate::copies::LEAST_TIMEOUT_PS;
use crate::dissect::is_send_with_invalidate;
use crate::spread::Range;

const PSN_MODULUS: u32 = 1 << 24;
/// Assumption: no path is so uneven that a packet is overtaken for longer, and no timer so short.
const LATE_PS: Time = LEAST_TIMEOUT_PS as Time;
/// Most gaps, and packets whose ACK is awaited, that a connection is asked to remember.
const REMEMBERED: usize = 256;
/// Packets whose spacing tells a rate.
const RATE_PACKETS: usize = 8;

/// How far `psn` is ahead of `from`; negative: behind.
pub fn distance(psn: u32, from: u32) -> i32 {
    let ahead = psn.wrapping_sub(from) & (PSN_MODULUS - 1);
    if ahead < PSN_MODULUS / 2 {
        ahead as i32
    } else {
        ahead as i32 - PSN_MODULUS as i32
    }
}

/// What made a sender retransmit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Trigger {
    /// A NAK of a PSN sequence error.
    Nak,
    /// A NAK of a receiver that was not ready.
    RnrNak,
    /// Its timer: no NAK was seen, and it was silent.
    Timeout,
    /// Neither a NAK nor silence was seen.
    NotSeen,
}

/// How it retransmitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Manner {
    /// All from the lost packet on.
    GoBackN,
    /// The lost packets alone.
    Selective,
    /// One packet, the newest there was: it could be either.
    Single,
    /// The capture ended, or it began once more, before it was over.
    Unfinished,
}

/// Packets retransmitted, from the first to the first new one.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Recovery {
    /// First PSN retransmitted.
    pub psn: u32,
    /// When the gap was seen at this point; none: the packet was lost behind it.
    pub gap_at_ps: Option<Time>,
    /// When the NAK passed.
    pub nak_at_ps: Option<Time>,
    /// When the first packet was retransmitted; none: the file does not say.
    pub sent_at_ps: Option<Time>,
    /// How long the sender had been silent by then.
    pub silent_ps: Option<u64>,
    /// Packets retransmitted.
    pub packets: u64,
    /// What made it begin.
    pub trigger: Trigger,
    /// Its manner.
    pub manner: Manner,
}

#[derive(Clone, Copy, Debug)]
struct Gap {
    first: u32,
    packets: u32,
    at_ps: Time,
}

#[derive(Clone, Copy, Debug)]
struct Asked {
    psn: u32,
    at_ps: Time,
    trigger: Trigger,
}

#[derive(Clone, Copy, Debug)]
struct Running {
    recovery: Recovery,
    expected: u32,
}

/// What was seen of the requests of a connection.
#[derive(Debug, Default)]
pub struct Requests {
    /// Packets, retransmissions included.
    pub packets: u64,
    /// Packets that had been sent before, whether or not they were seen then.
    pub retransmitted: u64,
    /// Message bytes of all, and of those seen for the first time.
    pub payload_bytes: u64,
    /// The same without what was retransmitted.
    pub new_payload_bytes: u64,
    /// Messages whose last packet was seen.
    pub messages: u64,
    /// Gaps, and the packets missing in them.
    pub gaps: u64,
    /// Packets that gaps were long.
    pub missing: u64,
    /// Gaps that were acknowledged, though no packet of theirs was retransmitted: they arrived, and this point did not see them.
    pub unseen_gaps: u64,
    /// Packets missing in them.
    pub unseen: u64,
    /// Packets that came after one sent later.
    pub out_of_order: u64,
    /// Round trips, of packets that ask for an ACK and were sent once.
    pub round_trips: Range,
    /// Reactions to CNPs.
    pub reaction: Reaction,
    begun: bool,
    after_read: bool,
    next: u32,
    missing_now: VecDeque<Gap>,
    /// NAKs that nothing followed yet.
    asked: VecDeque<Asked>,
    running: Option<Running>,
    awaited: VecDeque<(u32, Time)>,
    /// Of the first and the last, where they have a time.
    span_ps: Option<(Time, Time)>,
    last_at_ps: Time,
    last_length: u32,
}

/// What a request came to.
#[derive(Clone, Copy, Debug, Default)]
pub struct Seen {
    /// A recovery that is over.
    pub recovered: Option<Recovery>,
    /// The ratio of rates after and before a CNP that it completes.
    pub reacted: Option<f64>,
}

impl Requests {
    /// Whether there were any.
    pub fn any(&self) -> bool {
        self.begun
    }

    /// How far a PSN of an answer is behind the newest request; none: it is none of theirs.
    pub fn behind(&self, psn: u32) -> Option<u32> {
        let ahead = distance(self.next, psn);
        (self.begun && ahead > 0).then_some(ahead as u32)
    }

    /// When the last one passed.
    pub fn last_at_ps(&self) -> Time {
        self.last_at_ps
    }

    /// From the first to the last, picoseconds.
    pub fn active_ps(&self) -> Option<Time> {
        self.span_ps.map(|(first, last)| last - first)
    }

    /// Whether packets are being retransmitted.
    pub fn is_recovering(&self) -> bool {
        self.running.is_some()
    }

    /// Whether they are, and this one's turn has not been.
    pub fn is_recovering_up_to(&self, psn: u32) -> bool {
        self.running.as_ref().is_some_and(|running| distance(psn, running.expected) >= 0)
    }

    /// A request passes. `length`: of its frame on the wire.
    pub fn on_request(&mut self, now: Time, bth: &Bth, payload: u32, length: u32) -> Seen {
        let psn = bth.psn;
        let mut seen = Seen::default();
        if !self.begun {
            (self.begun, self.next) = (true, psn);
        }
        let ahead = distance(psn, self.next);
        let read = std::mem::replace(&mut self.after_read, bth.opcode == Opcode::ReadRequest);
        self.packets += 1;
        self.payload_bytes += payload as u64;
        let mut again = false;
        if ahead >= 0 {
            // A READ takes as many PSNs as its answer has packets, so a gap behind it cannot be told.
            if ahead > 0 && !read {
                self.gaps += 1;
                self.missing += ahead as u64;
                remember(&mut self.missing_now, Gap { first: self.next, packets: ahead as u32, at_ps: now });
            }
            self.next = (psn + 1) & (PSN_MODULUS - 1);
            seen.recovered = self.end_recovery(false);
        } else {
            again = self.is_retransmitted(now, psn);
            if again {
                self.retransmitted += 1;
                seen.recovered = self.retransmit(now, psn);
            } else {
                self.out_of_order += 1;
            }
        }
        if !again {
            self.new_payload_bytes += payload as u64;
            self.messages += ends_message(bth.opcode) as u64;
            if bth.ack_req && self.running.is_none() {
                remember(&mut self.awaited, (psn, now));
            }
        }
        if self.last_length > 0 {
            seen.reacted =
                since(now, self.last_at_ps).and_then(|gap| self.reaction.on_gap(self.last_length, gap));
        }
        if now != NO_TIME {
            let (first, last) = self.span_ps.unwrap_or((now, now));
            self.span_ps = Some((first.min(now), last.max(now)));
        }
        (self.last_at_ps, self.last_length) = (now, length);
        seen
    }

    /// Whether a packet that is behind the newest was retransmitted; else it is late. What fills a gap is taken from it.
    fn is_retransmitted(&mut self, now: Time, psn: u32) -> bool {
        let holds = |gap: &Gap| (0..gap.packets as i32).contains(&distance(psn, gap.first));
        let Some(at) = self.missing_now.iter().position(holds) else { return true };
        let gap = self.missing_now[at];
        let asked = self.asked.iter().any(|asked| asked.at_ps >= gap.at_ps) || self.running.is_some();
        // Without times it may be either.
        let soon = now != NO_TIME && gap.at_ps != NO_TIME && now - gap.at_ps <= LATE_PS;
        if !asked && soon {
            let offset = distance(psn, gap.first) as u32;
            let rest = Gap { first: (psn + 1) & (PSN_MODULUS - 1), packets: gap.packets - offset - 1, ..gap };
            self.missing_now[at].packets = offset;
            if rest.packets > 0 {
                remember(&mut self.missing_now, rest);
            }
            self.missing_now.retain(|gap| gap.packets > 0);
            return false;
        }
        true
    }

    fn retransmit(&mut self, now: Time, psn: u32) -> Option<Recovery> {
        self.awaited.clear(); // Karn: an ACK from now on may be of either
        if let Some(running) = self.running.as_mut().filter(|running| distance(psn, running.expected) >= 0) {
            running.recovery.packets += 1;
            running.expected = (psn + 1) & (PSN_MODULUS - 1);
            self.asked.retain(|asked| asked.psn != psn);
            return None;
        }
        let before = self.end_recovery(true);
        let gap = self.missing_now.iter().find(|gap| distance(gap.first, psn) >= 0);
        // It asks for the packet from which on all is missing; that one may be lost once more.
        let asked = self.asked.iter().rfind(|asked| distance(psn, asked.psn) >= 0).copied();
        self.asked.retain(|asked| distance(psn, asked.psn) < 0);
        let silent_ps = since(now, self.last_at_ps);
        let by_itself = match silent_ps {
            Some(silent) if silent >= LEAST_TIMEOUT_PS => Trigger::Timeout,
            _ => Trigger::NotSeen,
        };
        self.running = Some(Running {
            recovery: Recovery {
                psn,
                gap_at_ps: gap.and_then(|gap| told(gap.at_ps)),
                nak_at_ps: asked.and_then(|asked| told(asked.at_ps)),
                sent_at_ps: told(now),
                silent_ps,
                packets: 1,
                trigger: asked.map_or(by_itself, |asked| asked.trigger),
                manner: Manner::Unfinished,
            },
            expected: (psn + 1) & (PSN_MODULUS - 1),
        });
        self.missing_now.retain(|gap| distance(gap.first, psn) < 0);
        before
    }

    /// `cut`: it begins once more, or the capture ends.
    pub fn end_recovery(&mut self, cut: bool) -> Option<Recovery> {
        let Running { mut recovery, expected } = self.running.take()?;
        // The newest packet has moved on by one where a new one ended it.
        let newest = if cut { self.next } else { self.next.wrapping_sub(1) & (PSN_MODULUS - 1) };
        let left = distance(newest, expected);
        recovery.manner = match (left, recovery.packets) {
            _ if cut && left > 0 => Manner::Unfinished,
            (..=0, 1) => Manner::Single,
            (..=0, _) => Manner::GoBackN,
            _ => Manner::Selective,
        };
        Some(recovery)
    }

    /// A NAK passes that asks for `psn`: when the gap was seen before it, if it was.
    pub fn on_nak(&mut self, now: Time, psn: u32, trigger: Trigger) -> Option<Time> {
        remember(&mut self.asked, Asked { psn, at_ps: now, trigger });
        self.missing_now.iter().find(|gap| gap.first == psn).map(|gap| gap.at_ps)
    }

    /// An ACK passes: the round trip of the packet that it is of.
    pub fn on_ack(&mut self, now: Time, psn: u32) -> Option<u64> {
        if self.running.is_none() {
            let acknowledged =
                |gap: &Gap| distance((gap.first + gap.packets - 1) & (PSN_MODULUS - 1), psn) <= 0;
            for gap in self.missing_now.iter().filter(|gap| acknowledged(gap)) {
                self.unseen_gaps += 1;
                self.unseen += gap.packets as u64;
            }
            self.missing_now.retain(|gap| !acknowledged(gap));
        }
        let mut sent_at = None;
        while let Some(&(awaited, at)) =
            self.awaited.front().filter(|(awaited, _)| distance(*awaited, psn) <= 0)
        {
            self.awaited.pop_front();
            sent_at = (awaited == psn).then_some(at);
        }
        let round_trip = since(now, sent_at?)?;
        self.round_trips.add(round_trip);
        Some(round_trip)
    }
}

fn ends_message(opcode: Opcode) -> bool {
    use Opcode::*;
    if is_send_with_invalidate(opcode) {
        return true;
    }
    matches!(
        opcode,
        SendLast
            | SendLastWithImmediate
            | SendOnly
            | SendOnlyWithImmediate
            | WriteLast
            | WriteLastWithImmediate
            | WriteOnly
            | WriteOnlyWithImmediate
            | ReadRequest
            | CompareSwap
            | FetchAdd
    )
}

fn remember<T>(list: &mut VecDeque<T>, one: T) {
    if list.len() == REMEMBERED {
        list.pop_front();
    }
    list.push_back(one);
}

/// How a sender's rate changes at a CNP. A paced sender's packets are spaced by its rate: the median of eight spacings before
/// the CNP, and of eight after the first packet that follows it.
#[derive(Debug, Default)]
pub struct Reaction {
    /// Rates after and before, of the first CNP alone.
    pub first: Option<f64>,
    /// CNPs with eight spacings on both sides.
    pub measured: u64,
    before: VecDeque<f64>,
    waiting: Option<(f64, usize, Vec<f64>)>,
}

impl Reaction {
    fn on_gap(&mut self, length: u32, gap_ps: u64) -> Option<f64> {
        let rate = length as f64 / gap_ps.max(1) as f64;
        let mut ratio = None;
        if let Some((before, skip, after)) = &mut self.waiting {
            if *skip > 0 {
                *skip -= 1;
            } else {
                after.push(rate);
            }
            if after.len() == RATE_PACKETS {
                let found = median(after) / *before;
                self.first.get_or_insert(found);
                self.measured += 1;
                ratio = Some(found);
                self.waiting = None;
            }
        }
        if self.before.len() == RATE_PACKETS {
            self.before.pop_front();
        }
        self.before.push_back(rate);
        ratio
    }

    /// A CNP passes; one that comes while an earlier one's effect is measured is not measured.
    pub fn on_cnp(&mut self) {
        if self.waiting.is_none() && self.before.len() == RATE_PACKETS {
            let mut before: Vec<f64> = self.before.iter().copied().collect();
            self.waiting = Some((median(&mut before), 1, Vec::with_capacity(RATE_PACKETS)));
        }
    }
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
