//! That simulator's congestion controllers, a file each, with its arithmetic: whole bit/s, doubles where it has them,
//! each product and each cut in its order. They are no models of this project's; those are in `proto::congestion`.
//!
//! Modes 3, 7, 8 and 10 act on each ACK and NACK at its sender ([`AckControl`]). DCQCN acts on flagged ACKs and timers
//! (`dcqcn`, driven by `host`).
//!
//! Sources: Li et al., "HPCC", SIGCOMM 2019; Mittal et al., "TIMELY", SIGCOMM 2015; Alizadeh et al., "Data Center TCP",
//! SIGCOMM 2010; Ben Basat et al., "PINT", SIGCOMM 2020; and where that simulator (commit 9f4be2a, `rdma-hw.cc`,
//! `switch-node.cc`) is not as these papers, its behaviour, which logs of its state confirm to the last bit.

pub mod dcqcn;
mod dctcp;
mod hpcc;
mod pint;
mod timely;

use super::plan::Cc;

/// What a controller needs to know of a flow when it starts.
#[derive(Clone, Copy, Debug)]
pub(super) struct Start {
    /// Rate of the NIC in bit/s, the highest that a flow may have.
    pub line_rate: u64,
    /// Round trip without queues: the pair's, or the largest of all.
    pub base_rtt_ns: u64,
    /// Cap on what is in flight at full rate; 0 = none.
    pub window: u32,
}

/// An ACK or a NACK as a controller sees it: after a NACK the sender has already gone back, and has not retransmitted
/// yet.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ack {
    pub now_ns: u64,
    /// The byte that the receiver expects next.
    pub seq: u32,
    /// The byte that the sender sends next.
    pub snd_nxt: u32,
    /// The data packet was marked.
    pub marked: bool,
}

/// A switch's port as a data packet leaves it: the packet is out of the queue, and not yet sent.
#[derive(Clone, Copy, Debug)]
pub(super) struct Leaving {
    pub port: u32,
    pub now_ns: u64,
    /// Bytes sent so far.
    pub tx_bytes: u64,
    /// Bytes that wait in all queues.
    pub queued: u32,
    /// Bit/s.
    pub rate: u64,
    /// Bytes of the packet on the wire.
    pub wire: u32,
    /// The packet.
    pub data: u32,
}

/// The controllers of all flows that run, by flow.
#[derive(Debug)]
pub(super) struct Flows<T>(Vec<Option<Box<T>>>);

impl<T> Flows<T> {
    fn begin(&mut self, flow: u32, state: T) {
        let flow = flow as usize;
        if self.0.len() <= flow {
            self.0.resize_with(flow + 1, || None);
        }
        self.0[flow] = Some(Box::new(state));
    }

    fn get(&mut self, flow: u32) -> Option<&mut T> {
        self.0.get_mut(flow as usize)?.as_deref_mut()
    }
}

impl<T> Default for Flows<T> {
    fn default() -> Self {
        Flows(Vec::new())
    }
}

/// What each packet carries, by packet. An ACK is its data packet, turned round, and so has what that collected.
#[derive(Debug, Default)]
pub(super) struct PerPacket<T>(Vec<T>);

impl<T: Clone + Default> PerPacket<T> {
    #[inline]
    fn set(&mut self, packet: u32, value: T) {
        if self.0.len() <= packet as usize {
            self.0.resize(packet as usize + 1, T::default());
        }
        self.0[packet as usize] = value;
    }
}

/// The mode whose controllers hear ACKs: parameters, flows, what packets carry and what switches keep for it.
#[derive(Debug)]
pub(super) enum AckControl {
    Hpcc(hpcc::Mode),
    Timely(timely::Mode),
    Dctcp(dctcp::Mode),
    Pint(Box<pint::Mode>),
}

impl AckControl {
    /// None where ACKs do not matter. `largest_rtt_ns` is that of all pairs of hosts.
    pub fn new(cc: &Cc, payload_bytes: u32, largest_rtt_ns: u64) -> Option<Self> {
        Some(match cc {
            Cc::None {} | Cc::Dcqcn(_) => return None,
            Cc::Hpcc(parameters) => AckControl::Hpcc(hpcc::Mode::new(parameters)),
            Cc::Timely(parameters) => AckControl::Timely(timely::Mode::new(parameters)),
            Cc::Dctcp(parameters) => AckControl::Dctcp(dctcp::Mode::new(parameters, payload_bytes)),
            Cc::Pint(parameters) => AckControl::Pint(Box::new(pint::Mode::new(parameters, largest_rtt_ns))),
        })
    }

    /// True if switches write into data packets.
    #[inline]
    pub fn uses_switches(&self) -> bool {
        matches!(self, AckControl::Hpcc(_) | AckControl::Pint(_))
    }

    /// True if flows react to delays.
    pub fn hears_delay(&self) -> bool {
        matches!(self, AckControl::Timely(_))
    }

    /// True if a new rate applies from the packet that was sent last, and not only from the next one.
    pub fn shifts_pacing(&self) -> bool {
        self.uses_switches()
    }

    /// A flow starts.
    pub fn begin(&mut self, flow: u32, start: Start) {
        match self {
            AckControl::Hpcc(mode) => mode.flows.begin(flow, hpcc::Flow::new(start)),
            AckControl::Timely(mode) => mode.flows.begin(flow, timely::Flow::new(start)),
            AckControl::Dctcp(mode) => mode.flows.begin(flow, dctcp::Flow::new(start)),
            AckControl::Pint(mode) => mode.flows.begin(flow, pint::Flow::new(start)),
        }
    }

    /// A flow is done, and its controller has heard its last ACK.
    pub fn end(&mut self, flow: u32) {
        match self {
            AckControl::Hpcc(mode) => mode.flows.0[flow as usize] = None,
            AckControl::Timely(mode) => mode.flows.0[flow as usize] = None,
            AckControl::Dctcp(mode) => mode.flows.0[flow as usize] = None,
            AckControl::Pint(mode) => mode.flows.0[flow as usize] = None,
        }
    }

    /// A data packet is made and sent.
    #[inline]
    pub fn depart(&mut self, packet: u32, now_ns: u64) {
        match self {
            AckControl::Hpcc(mode) => mode.areas.set(packet, hpcc::Area::default()),
            AckControl::Timely(mode) => mode.made_ns.set(packet, now_ns),
            AckControl::Dctcp(_) => {}
            AckControl::Pint(mode) => mode.fields.set(packet, 0),
        }
    }

    /// A data packet leaves a switch.
    pub fn pass(&mut self, leaving: &Leaving) {
        match self {
            AckControl::Hpcc(mode) => mode.pass(leaving),
            AckControl::Pint(mode) => mode.pass(leaving),
            AckControl::Timely(_) | AckControl::Dctcp(_) => {}
        }
    }

    /// A packet of any other kind leaves a switch's port.
    #[inline]
    pub fn pass_other(&mut self, port: u32, now_ns: u64, wire: u32) {
        if let AckControl::Pint(mode) = self {
            mode.pass_other(port, now_ns, wire);
        }
    }

    /// The flow's new rate in bit/s, if the ACK sets one.
    pub fn on_ack(&mut self, flow: u32, packet: u32, ack: &Ack) -> Option<u64> {
        match self {
            AckControl::Hpcc(mode) => mode.on_ack(flow, packet, ack),
            AckControl::Timely(mode) => mode.on_ack(flow, packet, ack),
            AckControl::Dctcp(mode) => mode.on_ack(flow, ack),
            AckControl::Pint(mode) => mode.on_ack(flow, packet, ack),
        }
    }
}

/// A double as a whole rate: cut, and what no rate can be becomes the largest number, as the instruction has it.
#[inline]
fn whole(rate: f64) -> u64 {
    if rate >= 0.0 {
        rate as u64
    } else {
        u64::MAX
    }
}

#[cfg(test)]
mod tests;
