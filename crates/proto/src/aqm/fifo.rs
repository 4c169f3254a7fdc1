//! `pfifo` and `bfifo`: first in, first out, with a limit in packets or bytes; the packet that finds it full is dropped.
//!
//! Source: Linux net/sched/sch_fifo.c.

use std::collections::VecDeque;

use super::skb::{DropReason, Enqueue, Skb};
use super::{PACKETS, SIZES};
use crate::units::{Bytes, Time};

crate::parameters! {
    /// First in, first out, with a limit in packets.
    pub struct PfifoParameters {
        /// Most packets that wait.
        limit: u32 = 1000, in PACKETS, source "Linux: txqueuelen, of Ethernet 1000";
    }
}

crate::parameters! {
    /// First in, first out, with a limit in bytes.
    pub struct BfifoParameters {
        /// Most bytes that wait; null: 1000 times the device's MTU and 14 B.
        limit: Bytes, or null, in SIZES,
            source "Linux net/sched/sch_fifo.c: txqueuelen times psched_mtu";
    }
}

/// How much may wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FifoLimit {
    /// `pfifo`.
    Packets(u32),
    /// `bfifo`; a packet that would bring the queue above this is dropped.
    Bytes(u32),
}

/// State.
#[derive(Clone, Debug)]
pub struct Fifo {
    limit: FifoLimit,
    packets: VecDeque<Skb>,
    backlog_bytes: u64,
}

impl Fifo {
    /// An empty queue.
    pub fn new(limit: FifoLimit) -> Self {
        Fifo { limit, packets: VecDeque::new(), backlog_bytes: 0 }
    }

    /// Puts a packet at the end, or drops it.
    pub fn enqueue(&mut self, mut skb: Skb, now: Time) -> Enqueue {
        let fits = match self.limit {
            FifoLimit::Packets(limit) => self.packets.len() < limit as usize,
            FifoLimit::Bytes(limit) => self.backlog_bytes + skb.bytes as u64 <= limit as u64,
        };
        if !fits {
            return Enqueue::Dropped(DropReason::Overlimit);
        }
        skb.enqueued = now;
        self.backlog_bytes += skb.bytes as u64;
        self.packets.push_back(skb);
        Enqueue::Queued { marked: false }
    }

    /// Takes the packet at the head.
    pub fn dequeue(&mut self) -> Option<Skb> {
        let skb = self.packets.pop_front()?;
        self.backlog_bytes -= skb.bytes as u64;
        Some(skb)
    }

    /// The packet at the head.
    pub fn peek(&self) -> Option<&Skb> {
        self.packets.front()
    }

    /// Bytes waiting.
    pub fn backlog_bytes(&self) -> u64 {
        self.backlog_bytes
    }

    /// Packets waiting.
    pub fn qlen(&self) -> usize {
        self.packets.len()
    }
}
