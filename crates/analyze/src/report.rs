//! What is told of a capture: plain data.

use std::collections::{BTreeMap, HashMap};
use std::net::Ipv6Addr;

use serde::Serialize;

use crate::analysis::Counted;
use crate::bins::Bins;
use crate::pauses::Pauses;
use crate::reader::Interface;
use crate::requests::Recovery;
use crate::spread::{Range, SpreadOf};

/// A capture. Times are picoseconds since its first frame.
#[derive(Debug, Serialize)]
#[allow(missing_docs)] // named as what they are
pub struct Report {
    /// Of the file.
    pub bytes: u64,
    pub frames: u64,
    /// Time of the first frame, seconds since 1970.
    pub begin_s: f64,
    pub duration_ps: u64,
    /// The file ends within a block.
    pub cut_short: bool,
    /// Width of the bins of series.
    pub bin_ps: u64,
    pub interfaces: Vec<Interfaces>,
    #[serde(flatten)]
    pub found: Found,
    /// Names of addresses, as the file has them.
    pub names: BTreeMap<String, String>,
}

/// An interface, and what it carried.
#[derive(Debug, Serialize)]
#[allow(missing_docs)] // named as what they are
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
    pub icrc_bad: u64,
    pub icrc_unknown: u64,
    pub broken: u64,
    pub trimmed: u64,
    pub pfc: u64,
    /// Frames whose time is before that of an earlier one.
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
            icrc_bad: c.icrc_bad,
            icrc_unknown: c.icrc_unknown,
            broken: c.broken,
            trimmed: c.trimmed,
            pfc: c.pfc,
            earlier: c.earlier,
            pauses: (0..8u8).zip(c.pauses).filter(|(_, pauses)| pauses.xoff + pauses.xon > 0).collect(),
            bins: c.line.map(|line| bins.line(line).to_vec()),
        };
        described.iter().zip(counted).enumerate().map(told).collect()
    }
}

/// What queue pairs did.
#[derive(Debug, Serialize)]
#[allow(missing_docs)] // named as what they are
pub struct Found {
    pub connections: Vec<Connection>,
    /// Packets of queue pairs beyond the most that are followed.
    pub left_out_packets: u64,
    pub recoveries: u64,
    /// The first of them.
    pub listed: Vec<Listed>,
    pub round_trips: Option<SpreadOf>,
    pub cnp_gaps: Option<SpreadOf>,
    pub gap_to_nak: Option<SpreadOf>,
    pub nak_to_retransmission: Option<SpreadOf>,
    /// How long senders had been silent before they sent again without a NAK.
    pub timeout_silences: Option<SpreadOf>,
    pub reaction_ratio_step: f64,
    /// CNPs by the ratio of the rates after and before.
    pub reaction_ratios: Vec<u64>,
}

/// A recovery, and whose.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Listed {
    /// [`Connection::way`].
    pub way: u32,
    #[serde(flatten)]
    #[allow(missing_docs)]
    pub recovery: Recovery,
}

/// The requests from one address to a queue pair of another, at a point of capture, and their answers there.
#[derive(Debug, Serialize)]
#[allow(missing_docs)] // named as what they are
pub struct Connection {
    pub way: u32,
    pub place: u32,
    pub source: String,
    pub destination: String,
    pub destination_qp: u32,
    /// Known once it was answered.
    pub source_qp: Option<u32>,
    pub first_at_ps: u64,
    pub last_at_ps: u64,
    pub packets: u64,
    pub retransmitted: u64,
    pub payload_bytes: u64,
    /// Without what was sent again.
    pub new_payload_bytes: u64,
    pub messages: u64,
    pub ect: u64,
    pub ce: u64,
    pub gaps: u64,
    pub missing: u64,
    pub out_of_order: u64,
    pub acks: u64,
    /// By code: PSN sequence, invalid request, remote access, remote operational, others.
    pub naks: [u64; 5],
    pub rnr_naks: u64,
    pub cnps: u64,
    pub cnp_gaps: Range,
    pub by_nak: u64,
    pub by_rnr_nak: u64,
    pub by_timeout: u64,
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
