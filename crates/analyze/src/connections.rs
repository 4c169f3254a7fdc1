//! Queue pairs, and which two of them are a connection.
//!
//! A *way* is what goes from one address to a queue pair of another. Its requests are followed, and its answers are handed to the way
//! that they answer: the one in the other direction whose queue pair has the same number (Linux's rxe and simulated runs have that
//! often), else the one whose newest PSN is the nearest above the answer's, and of several such the one that sent last.

use std::cmp::Reverse;
use std::collections::HashMap;

use tailback_proto::wire::{Extension, NakCode, Opcode, Syndrome};

use crate::bins::Bins;
use crate::clock::{since, told, Time, NO_TIME};
use crate::copies::{Copies, Equal, Known, Packet, LEAST_TIMEOUT_PS};
use crate::dissect::{is_send_with_invalidate, Addresses, Roce};
use crate::report::{address, Connection, Found, Listed};
use crate::requests::{Manner, Recovery, Requests, Trigger};
use crate::spread::{Range, Spread};

/// Most ways that are followed.
const MAX_WAYS: usize = 1 << 16;
/// Most recoveries that are listed; all are counted.
const MAX_LISTED: usize = 10_000;
/// An answer is to one of this many newest packets.
const ANSWERED: u32 = 1 << 15;
const CE: u8 = 0b11;

/// What a packet is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Request,
    Ack,
    Nak,
    Cnp,
    ReadAnswer,
    Other,
}

/// What became of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It is one of its kind.
    Counted(Kind),
    /// It was captured before. `newly_marked`: it is marked, and the first was not.
    Copy { newly_marked: bool },
    /// Its queue pair is beyond the most that are followed.
    LeftOut,
}

/// Whether a sender numbers its packets (identification of IPv4), or gives all the same.
#[derive(Clone, Copy, Debug, Default)]
struct Numbering {
    last: Option<u16>,
    counted: bool,
}

impl Numbering {
    fn on_packet(&mut self, identification: Option<u16>) -> bool {
        let before = std::mem::replace(&mut self.last, identification);
        self.counted |= before.is_some() && identification.is_some() && before != identification;
        self.counted && identification.is_some()
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Key {
    place: u32,
    addresses: Addresses,
    qp: u32,
}

/// What goes from one address to a queue pair of another.
#[derive(Debug)]
struct Way {
    key: Key,
    requests: Requests,
    /// The way in the other direction.
    other: Option<u32>,
    /// Whether no other place saw it before: then its times are the sender's.
    first_place: bool,
    first_at_ps: Time,
    last_at_ps: Time,
    packets: u64,
    /// Packets captured twice, not counted elsewhere.
    copies: u64,
    /// Packets that may be.
    perhaps_copies: u64,
    /// Of CNPs, which a NIC makes by itself, and of the rest.
    numbering: [Numbering; 2],
    /// When, in packets, a NAK was last seen that asks for requests of this way, and from which PSN on.
    asked_at: Option<(u32, u32)>,
    ect: u64,
    ce: u64,
    acks: u64,
    naks: [u64; 5],
    rnr_naks: u64,
    cnps: u64,
    last_cnp_at_ps: Time,
    cnp_gaps: Range,
    recoveries: [[u64; 4]; 4],
    nak_to_again: Range,
    gap_to_nak: Range,
    silent: Range,
    line: Option<usize>,
}

/// All ways, and what they add up to.
#[derive(Debug, Default)]
pub(crate) struct Connections {
    ways: Vec<Way>,
    of: HashMap<Key, u32>,
    between: HashMap<(u32, Addresses), Vec<u32>>,
    first_places: HashMap<(Addresses, u32), u32>,
    copies: Copies,
    packets: u32,
    listed: Vec<Listed>,
    recoveries: u64,
    round_trips: Spread,
    cnp_gaps: Spread,
    gap_to_nak: Spread,
    nak_to_again: Spread,
    silences: Spread,
    ratios: Vec<u64>,
}

/// Ratios of rates after and before a CNP are counted in steps of this.
const RATIO_STEP: f64 = 0.05;
const RATIO_STEPS: usize = 40;

impl Connections {
    /// A packet passes a place.
    pub fn on_packet(&mut self, place: u32, at: Time, length: u32, roce: &Roce, bins: &mut Bins) -> Fate {
        let bth = &roce.headers.bth;
        let key = Key { place, addresses: roce.addresses, qp: bth.dest_qp };
        let Some(number) = self.way(key, at) else { return Fate::LeftOut };
        let kind = kind(roce);
        match self.equal(number, kind, at, roce) {
            Equal::No => {}
            Equal::Perhaps => self.ways[number as usize].perhaps_copies += 1,
            Equal::Copy { newly_marked } => {
                let way = &mut self.ways[number as usize];
                way.copies += 1;
                way.ce += newly_marked as u64;
                return Fate::Copy { newly_marked };
            }
        }
        let way = &mut self.ways[number as usize];
        way.packets += 1;
        if at != NO_TIME {
            way.last_at_ps = at;
        }
        way.ect += (roce.ecn != 0) as u64;
        way.ce += (roce.ecn == CE) as u64;
        match kind {
            Kind::Request => self.on_request(number, at, length, roce, bins),
            Kind::Cnp => self.on_cnp(number, at),
            Kind::Ack | Kind::Nak => self.on_answer(number, at, roce),
            Kind::ReadAnswer | Kind::Other => {}
        }
        Fate::Counted(kind)
    }

    /// What it is to an equal one before it.
    fn equal(&mut self, number: u32, kind: Kind, at: Time, roce: &Roce) -> Equal {
        self.packets = self.packets.wrapping_add(1);
        let packet = Packet {
            way: number,
            kind: kind as u32,
            psn: roce.headers.bth.psn,
            digest: roce.digest,
            marked: roce.ecn == CE,
            at,
            packet_number: self.packets,
        };
        let way = &mut self.ways[number as usize];
        let counted = way.numbering[(kind == Kind::Cnp) as usize].on_packet(roce.identification);
        let way = &self.ways[number as usize];
        let other = || way.other.map(|other| &self.ways[other as usize]);
        let known = || Known {
            counted,
            unexplained: match kind {
                Kind::Request => {
                    since(at, way.requests.last_at_ps()).is_none_or(|silent| silent < LEAST_TIMEOUT_PS)
                }
                kind => kind == Kind::Cnp,
            },
            is_cnp: kind == Kind::Cnp,
            others_are_copies: way.copies > 0 || other().is_some_and(|other| other.copies > 0),
            asked_at: match kind {
                Kind::Request if way.requests.is_recovering_up_to(packet.psn) => Some(self.packets),
                Kind::Request => way.asked_at.filter(|&(_, psn)| psn == packet.psn).map(|(at, _)| at),
                // What is received once more is acknowledged once more.
                Kind::Ack | Kind::ReadAnswer => {
                    other().filter(|other| other.requests.is_recovering()).map(|_| self.packets)
                }
                Kind::Nak | Kind::Cnp | Kind::Other => None,
            },
        };
        self.copies.on_packet(&packet, known)
    }

    fn way(&mut self, key: Key, at: Time) -> Option<u32> {
        if let Some(&number) = self.of.get(&key) {
            return Some(number);
        }
        if self.ways.len() == MAX_WAYS {
            return None;
        }
        let number = self.ways.len() as u32;
        self.ways.push(Way {
            key,
            requests: Requests::default(),
            other: None,
            first_place: *self.first_places.entry((key.addresses, key.qp)).or_insert(key.place) == key.place,
            first_at_ps: at,
            last_at_ps: at,
            packets: 0,
            copies: 0,
            perhaps_copies: 0,
            numbering: [Numbering::default(); 2],
            asked_at: None,
            ect: 0,
            ce: 0,
            acks: 0,
            naks: [0; 5],
            rnr_naks: 0,
            cnps: 0,
            last_cnp_at_ps: 0,
            cnp_gaps: Range::default(),
            recoveries: [[0; 4]; 4],
            nak_to_again: Range::default(),
            gap_to_nak: Range::default(),
            silent: Range::default(),
            line: None,
        });
        self.of.insert(key, number);
        self.between.entry((key.place, key.addresses)).or_default().push(number);
        Some(number)
    }

    fn on_request(&mut self, number: u32, at: Time, length: u32, roce: &Roce, bins: &mut Bins) {
        let way = &mut self.ways[number as usize];
        if !way.requests.any() {
            way.line = bins.add_line();
        }
        let before = way.requests.new_payload_bytes;
        let seen = way.requests.on_request(at, &roce.headers.bth, roce.payload_bytes, length);
        if let Some(line) = way.line {
            bins.add(line, at, way.requests.new_payload_bytes - before);
        }
        if let Some(ratio) = seen.reacted.filter(|_| way.first_place) {
            self.ratios.resize(RATIO_STEPS, 0);
            self.ratios[((ratio / RATIO_STEP) as usize).min(RATIO_STEPS - 1)] += 1;
        }
        if let Some(recovery) = seen.recovered {
            self.recovered(number, recovery);
        }
    }

    fn recovered(&mut self, number: u32, recovery: Recovery) {
        let way = &mut self.ways[number as usize];
        way.recoveries[recovery.trigger as usize][recovery.manner as usize] += 1;
        self.recoveries += 1;
        if self.listed.len() < MAX_LISTED {
            self.listed.push(Listed { way: number, recovery });
        }
        match (recovery.trigger, recovery.nak_at_ps) {
            (Trigger::Nak, Some(nak_at)) => {
                let Some(took) = since(recovery.sent_at_ps.unwrap_or(NO_TIME), nak_at) else { return };
                way.nak_to_again.add(took);
                if way.first_place {
                    self.nak_to_again.add(took);
                }
            }
            (Trigger::Timeout, _) => {
                let Some(silent) = recovery.silent_ps else { return };
                way.silent.add(silent);
                if way.first_place {
                    self.silences.add(silent);
                }
            }
            _ => {}
        }
    }

    fn on_cnp(&mut self, number: u32, at: Time) {
        let way = &mut self.ways[number as usize];
        if way.cnps > 0 {
            if let Some(gap) = since(at, way.last_cnp_at_ps) {
                way.cnp_gaps.add(gap);
                if way.first_place {
                    self.cnp_gaps.add(gap);
                }
            }
        }
        way.cnps += 1;
        way.last_cnp_at_ps = at;
        if let Some(other) = self.answered(number, None) {
            self.ways[other as usize].requests.reaction.on_cnp();
        }
    }

    fn on_answer(&mut self, number: u32, at: Time, roce: &Roce) {
        let syndrome = match roce.headers.extension {
            Extension::Aeth(aeth) | Extension::AtomicAck(aeth, _) => aeth.syndrome,
            _ => return,
        };
        let psn = roce.headers.bth.psn;
        let other = self.answered(number, Some(psn));
        let way = &mut self.ways[number as usize];
        let asks = match syndrome {
            Syndrome::Ack { .. } => {
                way.acks += 1;
                None
            }
            Syndrome::RnrNak { .. } => {
                way.rnr_naks += 1;
                Some(Trigger::RnrNak)
            }
            Syndrome::Nak(code) => {
                way.naks[(code as usize).min(4)] += 1;
                (code == NakCode::PsnSequenceError).then_some(Trigger::Nak)
            }
            Syndrome::Reserved(_) => None,
        };
        let Some(other) = other else { return };
        let sender = &mut self.ways[other as usize];
        match asks {
            Some(trigger) => {
                sender.asked_at = Some((self.packets, psn));
                let gap_at = sender.requests.on_nak(at, psn, trigger);
                if let Some(took) = gap_at.and_then(|gap_at| since(at, gap_at)) {
                    sender.gap_to_nak.add(took);
                    self.gap_to_nak.add(took);
                }
            }
            None if !matches!(syndrome, Syndrome::Ack { .. }) => {}
            None => {
                if let Some(round_trip) = sender.requests.on_ack(at, psn).filter(|_| sender.first_place) {
                    self.round_trips.add(round_trip);
                }
            }
        }
    }

    /// The way that a way's answers are of.
    fn answered(&mut self, number: u32, psn: Option<u32>) -> Option<u32> {
        let way = &self.ways[number as usize];
        if way.other.is_some() {
            return way.other;
        }
        let Addresses { source, destination } = way.key.addresses;
        let back = Addresses { source: destination, destination: source };
        let qp = way.key.qp;
        let candidates = self.between.get(&(way.key.place, back))?;
        let free = |&&one: &&u32| {
            let way = &self.ways[one as usize];
            way.requests.any() && way.other.is_none_or(|other| other == number)
        };
        let behind = |one: u32| match psn {
            Some(psn) => self.ways[one as usize].requests.behind(psn).filter(|&behind| behind <= ANSWERED),
            None => Some(0),
        };
        let same = candidates.iter().filter(free).find(|&&one| self.ways[one as usize].key.qp == qp);
        let chosen = same.copied().filter(|&one| behind(one).is_some()).or_else(|| {
            let near = candidates.iter().filter(free).filter_map(|&one| Some((behind(one)?, one)));
            let last = |one: u32| Reverse(self.ways[one as usize].requests.last_at_ps());
            match psn {
                Some(_) => near.min_by_key(|&(behind, one)| (behind, last(one))).map(|(_, one)| one),
                // A CNP has no PSN: it belongs to the only candidate, or is not assigned.
                None => (candidates.len() == 1).then(|| candidates[0]),
            }
        })?;
        self.ways[number as usize].other = Some(chosen);
        self.ways[chosen as usize].other = Some(number);
        Some(chosen)
    }

    /// The capture ends.
    pub fn close(&mut self) {
        for number in 0..self.ways.len() {
            if let Some(recovery) = self.ways[number].requests.end_recovery(true) {
                self.recovered(number as u32, recovery);
            }
        }
    }

    /// What was found.
    pub fn told(&self, bins: &Bins) -> Found {
        let with_requests =
            |(_, way): &(usize, &Way)| way.requests.any() || (way.other.is_none() && way.cnps > 0);
        let connections = self.ways.iter().enumerate().filter(with_requests);
        let unassigned = self.ways.iter().filter(|way| way.other.is_none() && way.first_place);
        let unassigned_naks =
            std::array::from_fn(|code| unassigned.clone().map(|way| way.naks[code]).sum::<u64>());
        Found {
            connections: connections.map(|(number, way)| self.connection(number as u32, way, bins)).collect(),
            recoveries: self.recoveries,
            listed: self.listed.clone(),
            round_trips: self.round_trips.told(),
            cnp_gaps: self.cnp_gaps.told(),
            gap_to_nak: self.gap_to_nak.told(),
            nak_to_retransmission: self.nak_to_again.told(),
            timeout_silences: self.silences.told(),
            reaction_ratio_step: RATIO_STEP,
            reaction_ratios: self.ratios.clone(),
            unassigned_naks,
            unassigned_rnr_naks: unassigned.map(|way| way.rnr_naks).sum(),
        }
    }

    fn connection(&self, number: u32, way: &Way, bins: &Bins) -> Connection {
        let back = way.other.map(|other| &self.ways[other as usize]);
        // The other way has a row of its own where it has requests.
        let answers = back.filter(|back| !back.requests.any());
        let requests = &way.requests;
        let sum = |trigger: Trigger| way.recoveries[trigger as usize].iter().sum();
        let manner = |manner: Manner| way.recoveries.iter().map(|of| of[manner as usize]).sum();
        Connection {
            way: number,
            place: way.key.place,
            source: address(way.key.addresses.source),
            destination: address(way.key.addresses.destination),
            destination_qp: way.key.qp,
            source_qp: back.map(|back| back.key.qp),
            first_at_ps: told(way.first_at_ps),
            last_at_ps: told(way.last_at_ps),
            active_ps: requests.active_ps(),
            packets: requests.packets,
            captured_twice: way.copies + answers.map_or(0, |back| back.copies),
            perhaps_captured_twice: way.perhaps_copies + answers.map_or(0, |back| back.perhaps_copies),
            retransmitted: requests.retransmitted,
            payload_bytes: requests.payload_bytes,
            new_payload_bytes: requests.new_payload_bytes,
            messages: requests.messages,
            ect: way.ect,
            ce: way.ce,
            gaps: requests.gaps,
            missing: requests.missing,
            unseen_gaps: requests.unseen_gaps,
            unseen: requests.unseen,
            out_of_order: requests.out_of_order,
            acks: back.map_or(0, |back| back.acks),
            naks: back.map_or([0; 5], |back| back.naks),
            rnr_naks: back.map_or(0, |back| back.rnr_naks),
            cnps: back.unwrap_or(way).cnps,
            cnp_gaps: back.unwrap_or(way).cnp_gaps,
            by_nak: sum(Trigger::Nak),
            by_rnr_nak: sum(Trigger::RnrNak),
            by_timeout: sum(Trigger::Timeout),
            by_cause_not_seen: sum(Trigger::NotSeen),
            go_back_n: manner(Manner::GoBackN),
            selective: manner(Manner::Selective),
            round_trips: requests.round_trips,
            gap_to_nak: way.gap_to_nak,
            nak_to_retransmission: way.nak_to_again,
            timeout_silences: way.silent,
            first_cnp_ratio: requests.reaction.first,
            bins: way.line.map(|line| bins.line(line).to_vec()),
        }
    }
}

fn kind(roce: &Roce) -> Kind {
    use Opcode::*;
    let bth = &roce.headers.bth;
    match bth.opcode {
        Cnp => Kind::Cnp,
        Acknowledge | AtomicAcknowledge => match roce.headers.extension {
            Extension::Aeth(aeth) | Extension::AtomicAck(aeth, _)
                if !matches!(aeth.syndrome, Syndrome::Ack { .. }) =>
            {
                Kind::Nak
            }
            _ => Kind::Ack,
        },
        ReadResponseFirst | ReadResponseMiddle | ReadResponseLast | ReadResponseOnly => Kind::ReadAnswer,
        opcode if opcode.is_request() || is_send_with_invalidate(opcode) => Kind::Request,
        _ => Kind::Other,
    }
}
