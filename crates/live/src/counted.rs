//! Counters of a host, and frames on its link.

use serde::Serialize;
use tailback_proto::units::Time;
use tailback_proto::wire::{FCS_BYTES, PREAMBLE_AND_GAP_BYTES};

use crate::plan::CLASSES;

/// Counters of a host beside those of its NIC.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct HostCounters {
    pub tx_frames: u64,
    /// On the wire, preamble and gap included.
    pub tx_wire_bytes: u64,
    pub rx_frames: u64,
    pub rx_wire_bytes: u64,
    pub rx_payload_bytes: u64,
    /// Data packets whose payload was taken.
    pub rx_data: u64,
    pub cnps_received: u64,
    pub acks_sent: u64,
    pub naks_sent: u64,
    pub data_sent: u64,
    /// Frames for other addresses.
    pub rx_others: u64,
    /// Frames that are not RoCEv2.
    pub rx_foreign: u64,
    pub rx_malformed: u64,
    pub rx_icrc_errors: u64,
    pub rx_unknown_qp: u64,
    /// By the probability of a loss.
    pub rx_lost: u64,
    pub rx_dropped: u64,
    pub pause_frames: u64,
    pub paused_ps: u64,
    /// Messages that are not what was sent.
    pub wrong_messages: u64,
    pub checked_messages: u64,
    /// Frames and their bytes, from address to FCS, by class.
    pub tx_class: [[u64; 2]; CLASSES],
    pub rx_class: [[u64; 2]; CLASSES],
}

/// The sending side of a flow.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sends {
    pub posted: u64,
    pub completed: u64,
    pub packets: u64,
    pub started: bool,
    pub failed: bool,
    /// When its last message was acknowledged, if it has a last one.
    pub ended: Option<Time>,
}

/// A frame on its way.
#[derive(Debug)]
pub struct Sending {
    /// When its last bit is at the other end.
    pub due: Time,
    /// The frame, without FCS.
    pub frame: Vec<u8>,
}

/// Counts a frame of a class.
pub fn count(class: &mut [u64; 2], frame_len: usize) {
    class[0] += 1;
    class[1] += frame_len as u64 + FCS_BYTES as u64;
}

/// Bytes of a frame on the wire.
pub fn wire_bytes(frame_len: usize) -> u64 {
    frame_len as u64 + (FCS_BYTES + PREAMBLE_AND_GAP_BYTES) as u64
}
