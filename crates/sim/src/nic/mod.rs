//! The NIC: queue pairs, arbitration and pacing on the way out; transport and notification point on the way in.
//!
//! Where the host behind the NIC has no path of its own (`host::path`), it is ideal: memory takes every byte at once, so the
//! NIC never runs out of receive buffer and never asks for a pause itself. Leaves out: the NIC's caches, and the time to
//! fetch a packet again.

mod host_path;
pub(crate) mod queue_pair;
pub(crate) mod settings;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use tailback_proto::congestion::builtin::Congestion;
use tailback_proto::congestion::dcqcn::NotificationPoint;
use tailback_proto::congestion::rhcc::SenderParameters;
use tailback_proto::nic::{Arbiter, Common, Counters};
use tailback_proto::transport::rc::RcParameters;
use tailback_proto::units::Time;

use crate::fabric::cut::{Cut, Mail};
use crate::fabric::{ClassOf, Fabric, CLASSES};
use crate::host::path::{HostPath, LoadChange};
use crate::nic::queue_pair::{RecvQp, SendQp, Slots};
use crate::workload::{LatencyTest, Writer};

/// A NIC.
#[derive(Debug)]
pub(crate) struct Nic {
    pub port: u32,
    pub model: u32,
    /// The host marks what it receives, before the transport sees it.
    pub marks_ce: bool,
    /// Queue pairs and Ethernet rings that may send now.
    pub arbiter: Arbiter<CLASSES>,
    /// Posted and not sent, by class, bytes.
    pub backlog_bytes: [i64; CLASSES],
    /// Boxed: the rest is two cache lines.
    pub counters: Box<NicCounters>,
    /// Payload of this host's messages that reached memory, and that reached this host's memory.
    pub goodput_tx_bytes: u64,
    pub goodput_rx_bytes: u64,
    /// Number of the host's path; `IDEAL`: none.
    pub host_path: u32,
    /// When the payload of the next packet is at hand; `ZERO`: always.
    pub data_ready: Time,
}

/// Counters of a NIC.
#[derive(Debug, Default)]
pub(crate) struct NicCounters {
    pub rdma: Counters,
    /// How long the CNPs that were handled had been on their way, all together.
    pub cnp_delay_ns: u64,
}

/// All NICs, with their queue pairs and with the data paths of their hosts.
#[derive(Debug, Default)]
pub(crate) struct Nics {
    pub nics: Vec<Nic>,
    pub models: Vec<NicModel>,
    /// Data paths of the hosts that have one.
    pub host_paths: Vec<HostPath>,
    /// Generators of memory traffic that begin or end.
    pub memory_loads: Vec<LoadChange>,
    pub slots: Slots,
    /// By slot, as are receiving halves.
    pub send_qps: Vec<SendQp>,
    pub recv_qps: Vec<RecvQp>,
    /// One for each span of receivers that the minimum interval between CNPs holds for.
    pub notification_points: Vec<NotificationPoint>,
    /// Those that no queue pair has any more.
    pub free_points: Vec<u32>,
    /// The work of each queue pair: perftest-like writers first, then single messages.
    pub writers: Vec<Writer>,
    pub latency_tests: Vec<LatencyTest>,
    /// By slot of a single message, counted from the first one: its completion time in an empty network.
    pub ideal_fct: Vec<Time>,
    /// First queue pair of the single messages.
    pub first_flow_qp: u32,
    /// Single messages so far, by item.
    pub messages: Vec<u32>,
    /// Bytes delivered by queue pairs that have given back their slots.
    pub gone_bytes: u64,
    /// Somebody waits for the end of each message.
    pub tells_ends: bool,
    /// Notification points that several queue pairs share: of a host, its congestion control, and a sender.
    pub shared_points: HashMap<(u16, u8, Option<u16>), u32>,
    pub pair_counts: PairCounts,
}

impl std::ops::Index<usize> for Nics {
    type Output = Nic;
    #[inline]
    fn index(&self, host: usize) -> &Nic {
        &self.nics[host]
    }
}

impl std::ops::IndexMut<usize> for Nics {
    #[inline]
    fn index_mut(&mut self, host: usize) -> &mut Nic {
        &mut self.nics[host]
    }
}

/// Set in the arbiter's number of a sender that is a transmit ring of the host, and not a queue pair.
pub(crate) const ETHERNET: u32 = 1 << 31;

/// Traffic of a host's NIC besides RDMA.
pub(crate) trait Ethernet {
    /// A packet for its CPU has come.
    fn receive(&mut self, fabric: &mut Fabric, nics: &mut Nics, packet: u32);

    /// A transmit ring has its turn at the NIC's port, which is free: it sends its next packet.
    fn send(&mut self, fabric: &mut Fabric, nics: &mut Nics, port: usize, ring: u32);
}

// What a kind of NIC is set to.

/// A NIC's settings, one for each kind of NIC and link rate.
#[derive(Debug)]
pub(crate) struct NicModel {
    pub rc: RcParameters,
    /// By number: what its queue pairs may run.
    pub congestion: Vec<Congestion>,
    /// Where queue pairs probe their receivers.
    pub rhcc: Option<SenderParameters>,
    /// By number of the congestion control.
    pub min_time_between_cnps: Vec<Time>,
    /// `ECT`, if data packets say so.
    pub data_flags: u8,
    /// Class of each code point.
    pub class_of: ClassOf,
    /// Code point of CNPs, if not that of the packet that was marked.
    pub cnp_code_point: Option<u8>,
    /// Classes with strict priority.
    pub strict: u8,
    /// Shares of the other classes; none: packets in turns.
    pub weights: Option<[u32; CLASSES]>,
    /// Line rate, bit/s.
    pub line_rate: f64,
}

impl NicModel {
    /// State that queue pairs with this congestion control share.
    #[inline]
    pub fn common(&self, congestion: u8) -> Common<'_> {
        Common { rc: &self.rc, congestion: &self.congestion[congestion as usize], line_rate: self.line_rate }
    }
}

// CNPs, NAKs and delay probes by pair of hosts, if there are few hosts.

/// Most hosts for which each pair is counted: the rows of all pairs and bins then stay below 45 MB.
const MOST_HOSTS: usize = 24;

/// Signals from one host to another as end points.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum EndSignal {
    Cnp,
    Nak,
    DelayProbe,
}

impl EndSignal {
    /// In the order of their numbers.
    const ALL: [EndSignal; 3] = [EndSignal::Cnp, EndSignal::Nak, EndSignal::DelayProbe];
}

/// A signal, its sender and its receiver, as one number.
pub(crate) type Pair = u32;

/// Signals since the counts were last taken.
#[derive(Debug, Default)]
pub(crate) struct PairCounts {
    hosts: usize,
    /// By [`Pair`]. Empty: there are too many hosts.
    counts: Vec<u32>,
    /// The pairs whose count is not 0.
    some: Vec<Pair>,
}

impl PairCounts {
    pub fn new(hosts: usize) -> Self {
        let pairs = if hosts <= MOST_HOSTS { EndSignal::ALL.len() * hosts * hosts } else { 0 };
        PairCounts { hosts, counts: vec![0; pairs], some: Vec::new() }
    }

    /// True if pairs are counted.
    pub fn is_kept(&self) -> bool {
        !self.counts.is_empty()
    }

    #[inline]
    pub fn note(&mut self, signal: EndSignal, from: u16, to: u16) {
        let pair = (signal as usize * self.hosts + from as usize) * self.hosts + to as usize;
        self.add(pair as Pair, 1);
    }

    /// Notes the same signal `count` times.
    pub fn note_many(&mut self, signal: EndSignal, from: u16, to: u16, count: u64) {
        let pair = (signal as usize * self.hosts + from as usize) * self.hosts + to as usize;
        if count > 0 {
            self.add(pair as Pair, count.min(u32::MAX as u64) as u32);
        }
    }

    #[inline]
    fn add(&mut self, pair: Pair, more: u32) {
        if let Some(count) = self.counts.get_mut(pair as usize) {
            if *count == 0 {
                self.some.push(pair);
            }
            *count += more;
        }
    }

    /// Signal, sender and receiver.
    pub fn ends(&self, pair: Pair) -> (EndSignal, usize, usize) {
        let (from, to) = (pair as usize / self.hosts, pair as usize % self.hosts);
        (EndSignal::ALL[from / self.hosts], from % self.hosts, to)
    }

    /// Hands out all counts that are not 0, and starts over.
    pub fn take(&mut self, mut each: impl FnMut(Pair, u32)) {
        for pair in self.some.drain(..) {
            each(pair, std::mem::take(&mut self.counts[pair as usize]));
        }
    }

    /// Takes over the counts of another one.
    pub fn absorb(&mut self, other: &mut PairCounts) {
        other.take(|pair, count| self.add(pair, count));
    }
}

// NICs of a network that is cut in parts: each part has all, and acts on those of its own hosts.
//
// A host's sending halves are its part's, receiving halves those of the part of the host that they are at. What a
// receiver counts for its sender is sent to the sender's part when a bin closes.

impl Nics {
    /// Moves the counts for senders of other parts there.
    pub fn send_mail(&mut self, cut: &Cut, mail: &mut [Mail]) {
        for (host, nic) in self.nics.iter_mut().enumerate() {
            if nic.goodput_tx_bytes > 0 && !cut.owns(host) {
                let bytes = std::mem::take(&mut nic.goodput_tx_bytes);
                mail[cut.part_of(host)].goodput.push((host as u32, bytes));
            }
        }
    }

    /// Takes the counts of other parts for senders here.
    pub fn take_mail(&mut self, mail: &mut Mail) {
        for (host, bytes) in mail.goodput.drain(..) {
            self.nics[host as usize].goodput_tx_bytes += bytes;
        }
    }

    /// Takes over all that another part, which `cut` says, did.
    pub fn absorb(&mut self, other: &mut Nics, cut: &Cut) {
        self.pair_counts.absorb(&mut other.pair_counts);
        for (host, nic) in self.nics.iter_mut().enumerate() {
            let goodput = nic.goodput_tx_bytes + other.nics[host].goodput_tx_bytes;
            if cut.owns(host) {
                std::mem::swap(nic, &mut other.nics[host]);
            }
            nic.goodput_tx_bytes = goodput;
        }
        for qp in 0..self.send_qps.len() {
            let (src, dst) = (self.send_qps[qp].src as usize, self.send_qps[qp].dst as usize);
            if cut.owns(src) {
                std::mem::swap(&mut self.send_qps[qp], &mut other.send_qps[qp]);
            }
            if cut.owns(dst) {
                std::mem::swap(&mut self.recv_qps[qp], &mut other.recv_qps[qp]);
                let point = self.recv_qps[qp].notification_point as usize;
                // Several queue pairs may share one.
                self.notification_points[point] = other.notification_points[point];
            }
        }
        for (number, writer) in self.writers.iter_mut().enumerate() {
            if cut.owns(self.send_qps[writer.first_qp as usize].src as usize) {
                std::mem::swap(writer, &mut other.writers[number]);
            }
        }
        for (number, test) in self.latency_tests.iter_mut().enumerate() {
            if cut.owns(self.send_qps[test.qp as usize].src as usize) {
                std::mem::swap(test, &mut other.latency_tests[number]);
            }
        }
    }
}

#[cfg(test)]
mod pair_counts_tests {
    use super::*;

    #[test]
    fn each_pair_is_counted_until_it_is_taken_out() {
        let mut counts = PairCounts::new(3);
        counts.note(EndSignal::Nak, 2, 1);
        counts.note(EndSignal::Cnp, 2, 1);
        counts.note(EndSignal::Nak, 2, 1);
        counts.note(EndSignal::DelayProbe, 0, 1);
        let mut other = PairCounts::new(3);
        other.note(EndSignal::Cnp, 0, 2);
        counts.absorb(&mut other);
        let mut taken = Vec::new();
        counts.take(|pair, count| taken.push((pair, count)));
        let taken: Vec<_> = taken.into_iter().map(|(pair, count)| (counts.ends(pair), count)).collect();
        use EndSignal::{Cnp, DelayProbe, Nak};
        let expected = [((Nak, 2, 1), 2), ((Cnp, 2, 1), 1), ((DelayProbe, 0, 1), 1), ((Cnp, 0, 2), 1)];
        assert_eq!(taken, expected);
        counts.take(|_, _| panic!("nothing is left"));
        other.take(|_, _| panic!("nothing is left"));
    }

    #[test]
    fn of_many_hosts_nothing_is_kept() {
        let mut counts = PairCounts::new(MOST_HOSTS + 1);
        counts.note(EndSignal::Cnp, 0, 1);
        assert!(!counts.is_kept());
        counts.take(|_, _| panic!("nothing is kept"));
    }
}
