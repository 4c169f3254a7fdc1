//! The analysis of a capture: plain data.

use std::collections::{BTreeMap, HashMap};
use std::net::Ipv6Addr;

use serde::Serialize;

use crate::analysis::Counted;
use crate::bins::Bins;
use crate::clock::Time;
use crate::pauses::Pauses;
use crate::reader::Interface;
use crate::requests::Recovery;
use crate::spread::{Range, SpreadOf};

/// A capture. Times are picoseconds since its first frame.
#[derive(Debug, Serialize)]
pub struct Report {
    /// Of the file.
    pub bytes: u64,
    pub frames: u64,
    /// Time of the first frame, seconds since 1970.
    pub begin_s: f64,
    /// From the earliest to the latest frame.
    pub duration_ps: Time,
    pub classes: Classes,
    pub clock: Clock,
    /// Of the first and the last RoCEv2 packet that was read.
    pub roce_first_at_ps: Option<Time>,
    pub roce_last_at_ps: Option<Time>,
    /// Frames that the program which captured lost, as the file says.
    pub lost_by_capture: u64,
    /// The file ends within a block.
    pub cut_short: bool,
    /// Width of the bins of series.
    pub bin_ps: u128,
    pub interfaces: Vec<Interfaces>,
    #[serde(flatten)]
    pub found: Found,
    /// Names of addresses, as the file has them.
    pub names: BTreeMap<String, String>,
}

/// What every frame of the file is: each is in exactly one class.
#[derive(Debug, Default, Serialize)]
pub struct Classes {
    /// RoCEv2, read; those captured twice among them.
    pub read: u64,
    /// Of [`Self::read`]: those that were captured before, and count nowhere else.
    pub captured_twice: u64,
    /// Pauses of priorities.
    pub pfc: u64,
    /// Pauses of whole links (802.3x).
    pub link_pauses: u64,
    /// Known and not RoCE, by protocol.
    pub known: BTreeMap<&'static str, u64>,
    /// Not read, by reason.
    pub not_read: BTreeMap<String, u64>,
    /// Dropped by the simulator, which keeps them apart.
    pub dropped: u64,
}

impl Classes {
    /// All frames.
    pub fn sum(&self) -> u64 {
        let known: u64 = self.known.values().sum();
        let not_read: u64 = self.not_read.values().sum();
        self.read + self.pfc + self.link_pauses + known + not_read + self.dropped
    }
}

/// What is to be known of the times of a file.
#[derive(Debug, Default, Serialize)]
pub struct Clock {
    /// Frames that the file gives no time.
    pub without_time: u64,
    /// Frames whose time is before that of the frame ahead.
    pub backwards: u64,
    /// The furthest of them.
    pub furthest_back_ps: Time,
    /// The longest time between a frame and the next.
    pub longest_jump_ps: Time,
    /// The number of the frame before it, from 1 on.
    pub longest_jump_after_frame: u64,
    /// The coarsest step of an interface's clock, seconds.
    pub coarsest_step_s: f64,
    /// The finest; times are kept to the picosecond.
    pub finest_step_s: f64,
}

/// An interface, and what it carried.
#[derive(Debug, Serialize)]
pub struct Interfaces {
    pub name: String,
    /// The point of capture that it is of, and its name.
    pub place: u32,
    pub place_name: String,
    pub speed_bps: Option<u64>,
    pub holds_drops: bool,
    pub frames: u64,
    pub frame_bytes: u64,
    pub roce: u64,
    pub ce: u64,
    pub acks: u64,
    pub naks: u64,
    pub cnps: u64,
    pub read_answers: u64,
    /// Message bytes in them, also of those that came twice.
    pub read_answer_bytes: u64,
    pub icrc_bad: u64,
    pub icrc_unknown: u64,
    pub trimmed: u64,
    pub pfc: u64,
    /// Pauses of the whole link (802.3x).
    pub link_pauses: Pauses,
    /// Packets marked CE only in the outer IP header, that of a tunnel.
    pub outer_ce: u64,
    /// Packets that were captured before.
    pub captured_twice: u64,
    /// Frames whose time is before that of the frame ahead.
    pub earlier: u64,
    /// By priority; of those that a frame named.
    pub pauses: BTreeMap<u8, Pauses>,
    /// Frame bytes by bin.
    pub bins: Option<Vec<u64>>,
}

impl Interfaces {
    pub(crate) fn new(
        described: &[Interface],
        counted: &[Counted],
        places: &HashMap<String, u32>,
        bins: &Bins,
    ) -> Vec<Interfaces> {
        let mut place_names = vec![String::new(); places.len()];
        for (name, &place) in places {
            place_names[place as usize].clone_from(name);
        }
        let told = |(number, (interface, c)): (usize, (&Interface, &Counted))| Interfaces {
            name: interface.name.clone().unwrap_or_else(|| format!("interface {number}")),
            place: c.place,
            place_name: place_names[c.place as usize].clone(),
            speed_bps: interface.speed_bps,
            holds_drops: c.holds_drops,
            frames: c.frames,
            frame_bytes: c.bytes,
            roce: c.roce,
            ce: c.ce,
            acks: c.acks,
            naks: c.naks,
            cnps: c.cnps,
            read_answers: c.read_answers,
            read_answer_bytes: c.read_answer_bytes,
            icrc_bad: c.icrc_bad,
            icrc_unknown: c.icrc_unknown,
            trimmed: c.trimmed,
            pfc: c.pfc,
            link_pauses: c.link_pauses,
            outer_ce: c.outer_ce,
            captured_twice: c.captured_twice,
            earlier: c.earlier,
            pauses: (0..8u8).zip(c.pauses).filter(|(_, pauses)| pauses.xoff + pauses.xon > 0).collect(),
            bins: c.line.map(|line| bins.line(line).to_vec()),
        };
        described.iter().zip(counted).enumerate().map(told).collect()
    }
}

/// What queue pairs did.
#[derive(Debug, Serialize)]
pub struct Found {
    pub connections: Vec<Connection>,
    pub recoveries: u64,
    /// The first of them.
    pub listed: Vec<Listed>,
    pub round_trips: Option<SpreadOf>,
    pub cnp_gaps: Option<SpreadOf>,
    pub gap_to_nak: Option<SpreadOf>,
    pub nak_to_retransmission: Option<SpreadOf>,
    /// How long senders had been silent before they retransmitted without a NAK.
    pub timeout_silences: Option<SpreadOf>,
    pub reaction_ratio_step: f64,
    /// CNPs by the ratio of the rates after and before.
    pub reaction_ratios: Vec<u64>,
    /// NAKs whose requests were not seen, by code as in [`Connection::naks`]; of the first point of capture that each passed.
    pub unassigned_naks: [u64; 5],
    pub unassigned_rnr_naks: u64,
}

/// A recovery, and the connection that it belongs to.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Listed {
    /// [`Connection::way`].
    pub way: u32,
    #[serde(flatten)]
    pub recovery: Recovery,
}

/// The requests from one address to a queue pair of another, at a point of capture, and their answers there.
#[derive(Debug, Serialize)]
pub struct Connection {
    pub way: u32,
    pub place: u32,
    pub source: String,
    pub destination: String,
    pub destination_qp: u32,
    /// Known once it was answered.
    pub source_qp: Option<u32>,
    pub first_at_ps: Option<Time>,
    pub last_at_ps: Option<Time>,
    /// From the first request to the last.
    pub active_ps: Option<Time>,
    pub packets: u64,
    /// Packets and answers that were captured before; they count nowhere else.
    pub captured_twice: u64,
    /// Packets that equal one before, and are counted: whether they were captured twice cannot be told.
    pub perhaps_captured_twice: u64,
    pub retransmitted: u64,
    pub payload_bytes: u64,
    /// Without what was retransmitted.
    pub new_payload_bytes: u64,
    pub messages: u64,
    pub ect: u64,
    pub ce: u64,
    pub gaps: u64,
    pub missing: u64,
    /// Gaps, and packets in them, that were acknowledged and never retransmitted: they arrived, and this point did not see them.
    pub unseen_gaps: u64,
    pub unseen: u64,
    pub out_of_order: u64,
    pub acks: u64,
    /// By code: PSN sequence, invalid request, remote access, remote operational, others.
    pub naks: [u64; 5],
    pub rnr_naks: u64,
    pub cnps: u64,
    pub cnp_gaps: Range,
    pub by_nak: u64,
    pub by_rnr_nak: u64,
    /// Without a NAK, by a sender that was silent for at least 100 us.
    pub by_timeout: u64,
    pub by_cause_not_seen: u64,
    pub go_back_n: u64,
    pub selective: u64,
    pub round_trips: Range,
    pub gap_to_nak: Range,
    pub nak_to_retransmission: Range,
    pub timeout_silences: Range,
    /// Rates after and before the first CNP.
    pub first_cnp_ratio: Option<f64>,
    /// New message bytes by bin.
    pub bins: Option<Vec<u64>>,
}

/// An address in words: those of IPv4 are mapped ones here.
pub(crate) fn address(bits: u128) -> String {
    let address = Ipv6Addr::from_bits(bits);
    address.to_ipv4_mapped().map_or_else(|| address.to_string(), |address| address.to_string())
}
