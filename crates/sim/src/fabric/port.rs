//! A port: its transmitter, the link behind it and its eight egress queues. What they do is in `transmit.rs`.
//!
//! A hop costs at most two events: the packet's arrival at the other end, and the transmitter's becoming free where
//! something waits for it. Packets on a link arrive in order, so only the first has an event.
//!
//! Store and forward; the latency of the node at the other end is added to the propagation. Leaves out: cut-through
//! switching, cells (buffers count bytes), and lane skew or FEC latency (part of the link's delay).

use tailback_proto::congestion::HopTelemetry;
use tailback_proto::scheduling::ets::{pick_round_robin, Ets};
use tailback_proto::units::{Rate, Time, BIT_PS_PER_BYTE};

use super::packet::Packet;
use crate::engine::Fifo;
use crate::gauge::OverTime;

/// The hot part of a port: one cache line.
#[derive(Debug)]
#[repr(align(64))]
pub(crate) struct Port {
    /// When the transmitter is free.
    pub busy_until: Time,
    /// When the wake-up event that counts is due; others are stale.
    pub wake_at: Time,
    /// From the end of a transmission to the packet's arrival in the other node.
    pub arrival_delay: Time,
    /// Packets on the link.
    pub in_flight: Fifo,
    /// Bytes put on the wire, preamble and gap included.
    pub wire_bytes: u64,
    /// Port at the other end.
    pub peer: u32,
    /// Node that it belongs to: hosts first, then switches.
    pub owner: u32,
    /// Node at the other end.
    pub peer_owner: u32,
    /// Time of a byte by its own clock, in 2^-`byte_shift` ps; 0: see the rate of its link.
    pub ps_per_byte: u32,
    /// Classes with a packet in their queue.
    pub backlogged: u8,
    /// Classes that the peer has paused.
    pub paused: u8,
    /// Classes with strict priority.
    pub strict: u8,
    /// Class served last in the round.
    pub last_class: u8,
    /// Classes whose pause or resume waits to be sent.
    pub pfc_pending: u8,
    /// What happens to packets behind it, [`LOSSY`] and [`RECLASSIFIES`]; who else is told of what it sends: [`WEIGHTED`],
    /// [`TAPPED`]; and whether another core has the node behind it: [`CUT`].
    pub flags: u8,
    /// Whether the link behind it works.
    pub up: bool,
    /// See `ps_per_byte`.
    pub byte_shift: u8,
}

/// The link behind a port loses packets at random.
pub(crate) const LOSSY: u8 = 1;
/// The node at the other end may put a packet in another class.
pub(crate) const RECLASSIFIES: u8 = 2;
/// The classes of the port share by weights: see `Fabric::ets`.
pub(crate) const WEIGHTED: u8 = 4;
/// The port is captured: see [`super::taps`].
pub(crate) const TAPPED: u8 = 8;
/// Another part of the fabric has the node at the other end: see [`super::cut`].
pub(crate) const CUT: u8 = 16;

/// Time of a byte at a rate, by a clock that is `ppm` millionths fast, and by how many bits it is shifted; 0: it is no whole
/// number of picoseconds, and the clock is exact.
pub(crate) fn byte_time(rate: Rate, ppm: f64) -> (u32, u8) {
    if ppm == 0.0 {
        let whole = BIT_PS_PER_BYTE.is_multiple_of(rate.0);
        return (if whole { (BIT_PS_PER_BYTE / rate.0) as u32 } else { 0 }, 0);
    }
    let mut scaled = BIT_PS_PER_BYTE as f64 / (rate.bps() * (1.0 + ppm * 1e-6));
    let mut shift = 0;
    while scaled * 2.0 < u32::MAX as f64 {
        scaled *= 2.0;
        shift += 1;
    }
    (scaled as u32, shift)
}

impl Port {
    /// Puts a packet, which comes out of `queue` or passed it, on the wire for a time of `takes`. Whether it is the first on the
    /// link.
    #[inline(always)]
    pub fn begin(
        &mut self,
        now: Time,
        takes: Time,
        packets: &mut [Packet],
        index: u32,
        queue: &mut ClassQueue,
    ) -> bool {
        debug_assert!(self.busy_until <= now, "one thing at a time is on the wire");
        let packet = &mut packets[index as usize];
        self.busy_until = now + takes;
        self.wire_bytes += packet.wire_bytes as u64;
        packet.arrival = self.busy_until + self.arrival_delay;
        queue.tx_packets += 1;
        queue.tx_bytes += packet.frame_bytes() as u64;
        self.in_flight.push(packets, index)
    }

    /// Which of the `eligible` classes goes next, at the port of this number.
    #[inline(always)] // the caller has looked up the port
    pub fn next_class(&mut self, ets: &mut [Ets], port: usize, eligible: u8) -> u8 {
        if self.flags & WEIGHTED != 0 {
            return ets[port].pick(eligible);
        }
        self.last_class = pick_round_robin(eligible, self.strict, self.last_class);
        self.last_class
    }

    /// How loaded it is, after a packet left `queue`.
    pub fn telemetry(&self, at: Time, queue: &ClassQueue, link: &Link) -> HopTelemetry {
        HopTelemetry { at, tx_bytes: self.wire_bytes, queue_bytes: queue.bytes as u64, rate: link.rate }
    }

    /// Time that `bytes` take on its wire.
    #[inline]
    pub fn serialization(&self, links: &[Link], port: usize, bytes: u32) -> Time {
        match self.ps_per_byte {
            0 => by_rate(links, port, bytes),
            ps => Time((ps as u64 * bytes as u64) >> self.byte_shift),
        }
    }

    /// Whether a packet of `class` that comes now would be sent at once.
    #[inline]
    pub fn is_idle(&self, now: Time, class: u8) -> bool {
        self.busy_until <= now
            && self.up
            && (self.backlogged | self.pfc_pending | (self.paused & 1 << class)) == 0
    }
}

#[inline(never)] // what most runs never need stays out of the way of what they do
fn by_rate(links: &[Link], port: usize, bytes: u32) -> Time {
    links[port].rate.serialization(bytes as u64)
}

/// The cold part of a port.
#[derive(Debug)]
pub(crate) struct Link {
    /// `node:peer`.
    pub name: String,
    pub rate: Rate,
    pub delay: Time,
    pub loss: f64,
    pub headroom_bytes: u64,
    pub loss_stream: crate::engine::Stream,
}

/// One egress queue: a cache line, counters included.
#[derive(Clone, Debug)]
#[repr(align(64))]
pub(crate) struct ClassQueue {
    pub fifo: Fifo,
    pub bytes: u32,
    pub max_bytes: u32,
    pub over_time: OverTime,
    /// What came in: by what waited here, or was sent at once.
    pub rx_packets: u64,
    pub rx_bytes: u64,
    pub tx_packets: u64,
    pub tx_bytes: u64,
}

impl ClassQueue {
    pub const EMPTY: ClassQueue = ClassQueue {
        fifo: Fifo::EMPTY,
        bytes: 0,
        max_bytes: 0,
        over_time: OverTime::NEW,
        rx_packets: 0,
        rx_bytes: 0,
        tx_packets: 0,
        tx_bytes: 0,
    };

    /// Whether nothing ever was in it, or is counted of it.
    pub fn is_untouched(&self) -> bool {
        let counted = self.rx_packets | self.rx_bytes | self.tx_packets | self.tx_bytes | self.bytes as u64;
        counted == 0 && self.fifo.is_empty()
    }

    /// A packet comes in and leaves at once.
    #[inline]
    pub fn pass(&mut self, bytes: u32) {
        self.max_bytes = self.max_bytes.max(bytes);
        self.rx_packets += 1;
        self.rx_bytes += bytes as u64;
    }

    /// Appends a packet.
    #[inline(always)] // as below
    pub fn append(&mut self, now: Time, packets: &mut [Packet], index: u32) {
        let packet = &mut packets[index as usize];
        let bytes = packet.frame_bytes();
        #[cfg(debug_assertions)]
        {
            packet.arrival = now;
        }
        self.integrate(now);
        self.bytes += bytes;
        self.max_bytes = self.max_bytes.max(self.bytes);
        self.rx_packets += 1;
        self.rx_bytes += bytes as u64;
        self.fifo.push(packets, index);
    }

    /// Takes the first packet; the queue is not empty.
    #[inline(always)] // a hop has it once: with what follows it looks up the packet once
    pub fn take_first(&mut self, now: Time, packets: &[Packet]) -> u32 {
        self.integrate(now);
        let packet = self.fifo.first(packets).expect("backlogged means not empty");
        self.bytes -= packet.frame_bytes();
        self.fifo.drop_first(packet)
    }

    /// Brings the integral up to `now`, before `bytes` changes.
    #[inline]
    pub fn integrate(&mut self, now: Time) {
        self.over_time.held(now, self.bytes as u64);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_that_is_fast_sends_a_byte_sooner() {
        let takes = |rate: Rate, ppm, bytes: u64| {
            let (time, shift) = byte_time(rate, ppm);
            (time as u64 * bytes) >> shift
        };
        let gbit = Rate::from_gbps;
        assert_eq!(byte_time(gbit(100), 0.0), (80, 0));
        assert_eq!(byte_time(Rate::from_mbps(70_000), 0.0), (0, 0), "no whole number of picoseconds");
        // 4,096 B take 327,680 ps at 100 Gbit/s; 100 ppm of that are 33 ps.
        assert_eq!(takes(gbit(100), 100.0, 4096), 327_647);
        assert_eq!(takes(gbit(100), -100.0, 4096), 327_712);
        assert_eq!(takes(Rate::from_mbps(1), 100.0, 4096), 32_764_723_520);
        assert_eq!(takes(gbit(100_000), -100.0, 9600), 768);
    }

    #[test]
    fn hot_structures_fit_a_cache_line() {
        assert!(std::mem::size_of::<Port>() <= 64, "{}", std::mem::size_of::<Port>());
        assert!(std::mem::size_of::<super::super::switch::Switch>() <= 64);
        // With Little's law they are more.
        #[cfg(not(debug_assertions))]
        {
            assert!(std::mem::size_of::<super::super::switch::IngressGroup>() <= 64);
            assert!(std::mem::size_of::<ClassQueue>() <= 64, "{}", std::mem::size_of::<ClassQueue>());
        }
    }
}
