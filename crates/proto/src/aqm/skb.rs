//! What a queueing discipline knows about a packet, and what happens to it.

use crate::units::Time;

/// A packet in a queueing discipline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Skb {
    /// The caller's handle; never interpreted here.
    pub packet: u32,
    /// Length as the kernel counts it (`qdisc_pkt_len`): the Ethernet frame without preamble, gap and FCS.
    pub bytes: u32,
    /// Hash over addresses and ports (`skb_get_hash`), equal for all packets of a flow. All 32 bits must be well mixed.
    pub flow_hash: u32,
    /// Whether the IP header says ECT(0), ECT(1) or CE, so that it can be marked (`INET_ECN_set_ce`).
    pub ect: bool,
    /// When it was queued; set by the discipline.
    pub enqueued: Time,
}

impl Skb {
    /// A packet that is to be queued.
    pub fn new(packet: u32, bytes: u32, flow_hash: u32, ect: bool) -> Self {
        Skb { packet, bytes, flow_hash, ect, enqueued: Time::ZERO }
    }

    /// Memory that the kernel charges for it, bytes (`skb->truesize`): `struct sk_buff`, and the buffer with its headroom
    /// and `struct skb_shared_info` in a power of two from `kmalloc` (net/core/skbuff.c, `__alloc_skb`).
    ///
    /// Assumption: the packet is linear. How much is charged for page fragments depends on the driver.
    pub fn truesize(&self) -> u32 {
        const SK_BUFF: u32 = 256;
        const HEADROOM: u32 = 64;
        const SHARED_INFO: u32 = 320;
        SK_BUFF + (self.bytes + HEADROOM + SHARED_INFO).next_power_of_two()
    }
}

/// The fate of an offered packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Enqueue {
    /// It is queued.
    Queued {
        /// Whether it was marked CE.
        marked: bool,
    },
    /// It was dropped.
    Dropped(DropReason),
}

/// Why a queueing discipline dropped a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DropReason {
    /// The queue is at its limit of packets or bytes.
    Overlimit,
    /// The queue is at its limit of memory.
    Memory,
    /// RED, between its thresholds.
    EarlyProbability,
    /// RED, above its upper threshold.
    EarlyForced,
    /// CoDel, at the head of the queue.
    Sojourn,
    /// SFQ: the flow is at its limit of packets.
    FlowLimit,
    /// SFQ: no slot is free for another flow.
    Flows,
    /// TBF: the packet is larger than the bucket.
    TooLarge,
    /// There is no queue.
    NoQueue,
}

impl DropReason {
    /// All of them, in order.
    pub const ALL: [DropReason; 9] = [
        DropReason::Overlimit,
        DropReason::Memory,
        DropReason::EarlyProbability,
        DropReason::EarlyForced,
        DropReason::Sojourn,
        DropReason::FlowLimit,
        DropReason::Flows,
        DropReason::TooLarge,
        DropReason::NoQueue,
    ];
}
