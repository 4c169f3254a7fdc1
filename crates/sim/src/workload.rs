//! The writers: messages that hosts post on their queue pairs.

pub(crate) mod settings;

use std::num::NonZeroU32;
use tailback_proto::nic::EqualWrites;
use tailback_proto::units::Time;
use tailback_proto::wire::{write_frame_bytes, ACK_FRAME_BYTES, PREAMBLE_AND_GAP_BYTES};

// Writers like perftest's `ib_write_bw`: each queue pair keeps a number of RDMA WRITEs outstanding.
//
// Source: perftest (`ib_write_bw`, `perftest_parameters.c`): `-s` message size, `-t` tx-depth, `-q` queue pairs. A
// message above 8 KiB asks for a completion of its own, of smaller ones each 100th does (`cq_mod`), so that small
// messages are posted again in batches.
//
// Leaves out: what posting and polling cost the CPU; a message is posted the moment its completion makes room.

/// Messages up to this size share a completion.
const SHARED_COMPLETION_BYTES: u64 = 8192;

/// Messages that share a completion (perftest's default `cq_mod`).
const SHARED_COMPLETIONS: u64 = 100;

/// Writers of one host to another.
#[derive(Debug)]
pub(crate) struct Writer {
    /// The messages of its queue pairs.
    pub writes: EqualWrites,
    pub tx_depth: u64,
    pub messages: Option<u64>,
    /// Messages to a completion.
    pub completion_every: u64,
    pub stopped: bool,
    pub first_qp: u32,
    /// Number of its first queue pair among all of writers of the same two hosts; of a single message, among those of its item.
    pub first_number: u32,
    pub qps: u32,
    /// The bytes by which a waiting packet counts in the host's backlog: the mean payload, bytes, rounded up.
    pub backlog_weight: u32,
}

impl Writer {
    pub fn new(plan: &crate::workload::settings::WriterPlan, mtu: u32, first_qp: u32) -> Self {
        let writes = EqualWrites::new(plan.message.0, mtu);
        let completion_every = if plan.message.0 > SHARED_COMPLETION_BYTES { 1 } else { SHARED_COMPLETIONS };
        Writer {
            writes,
            // Messages of a latency test are posted one by one, each when another has arrived.
            tx_depth: if plan.partner.is_some() { 0 } else { plan.depth as u64 },
            messages: plan.messages,
            completion_every: match plan.partner {
                Some(_) => u64::MAX,
                None => completion_every.min(plan.depth as u64),
            },
            stopped: false,
            first_qp,
            first_number: 0,
            qps: plan.qps,
            backlog_weight: plan.message.0.div_ceil(writes.packets_per_message) as u32,
        }
    }

    /// A single message, of a number among those of its item.
    pub fn of_flow(bytes: u64, mtu: u32, slot: u32, number: u32) -> Self {
        let writes = EqualWrites::new(bytes, mtu);
        Writer {
            writes,
            tx_depth: 1,
            messages: Some(1),
            completion_every: 1,
            stopped: false,
            first_qp: slot,
            first_number: number,
            qps: 1,
            backlog_weight: bytes.div_ceil(writes.packets_per_message) as u32,
        }
    }

    /// Messages are posted one by one: one in all, or as many as `tx_depth` grows to.
    pub fn post_one_by_one(&mut self, lasts: bool) {
        self.tx_depth = 0;
        self.completion_every = u64::MAX;
        self.messages = (!lasts).then_some(1);
    }

    /// Number of one of its queue pairs among those of the same two hosts, or the same item.
    pub fn number_of(&self, qp: u32) -> u32 {
        qp - self.first_qp + self.first_number
    }

    /// Wire bytes of a message's first packet, of those between, of the last, and of an ACK, each with `extra` of them.
    pub fn frames(&self, extra: u32) -> [u32; 4] {
        let EqualWrites { mtu, packets_per_message, last_payload, .. } = self.writes;
        [
            write_frame_bytes(mtu, true),
            write_frame_bytes(mtu, false),
            write_frame_bytes(last_payload, packets_per_message == 1),
            ACK_FRAME_BYTES,
        ]
        .map(|frame| frame + PREAMBLE_AND_GAP_BYTES + extra)
    }

    /// Messages to post now: up to the depth, as far as completions have made room.
    pub fn to_post(&self, posted: u64, completed: u64) -> u64 {
        if self.stopped {
            return 0;
        }
        let seen = completed - completed % self.completion_every;
        let room = self.tx_depth - (posted - seen);
        room.min(self.messages.map_or(u64::MAX, |limit| limit - posted))
    }
}

/// When the writers of a plan start: each draws from its own stream.
pub(crate) fn start_time(plan: &crate::workload::settings::WriterPlan, seed: u64, index: usize) -> Time {
    let mut stream = crate::engine::stream(seed, "writer start", index as u64);
    let offset = crate::engine::uniform(&mut stream) * plan.start_spread.0 as f64;
    plan.start + Time(offset as u64)
}

// Latency tests like perftest's `ib_write_lat`: one message at a time, answered by one of the same size.
//
// Source: perftest (`ib_write_lat`, `perftest_resources.c`, `run_iter_lat_write`): each side polls the memory that the other
// writes to, and writes when it has changed; what is reported is half of the median round trip.
//
// Leaves out: what polling and posting cost the CPU, which is part of the NIC's latency here.

/// The side that begins.
#[derive(Clone, Debug)]
pub(crate) struct LatencyTest {
    /// Its queue pair.
    pub qp: u32,
    pub sent_at: Time,
    /// Round trips so far.
    pub round_trips: Vec<Time>,
}

/// Number of a queue pair, plus one.
pub(crate) type QpNumber = NonZeroU32;

/// A queue pair by number.
pub(crate) fn number(qp: u32) -> Option<QpNumber> {
    NonZeroU32::new(qp + 1)
}
