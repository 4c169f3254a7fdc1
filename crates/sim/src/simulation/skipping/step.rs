//! A step: what the world becomes when everything goes on for some time as it was measured.
//!
//! Queues, controllers and packets on their way stay as they are, and so does the clock
//! ([`crate::run::Skips`]). Each queue pair advances by a number of packets, and every counter on their way
//! grows by exactly these packets and their answers, so that the books balance.

use tailback_proto::transport::rc::wire_psn;
use tailback_proto::units::Time;
use tailback_proto::wire::{CNP_FRAME_BYTES, PREAMBLE_AND_GAP_BYTES};

use super::judged::Estimate;
use crate::engine::Fifo;
use crate::fabric::packet::{Kind, Packet};
use crate::fabric::port::RECLASSIFIES;
use crate::fabric::{lane, Fabric, CLASSES};
use crate::nic::pair_counts::EndSignal;
use crate::nic::qp::QpState;
use crate::nic::Nics;
use crate::world::World;

/// With at least this many completions left to be posted, half a completion more or less does not matter. With
/// fewer, a step ends within the message.
const FEWEST_MESSAGES: u64 = 64;

/// For each queue pair and quantity: what rounding has left over so far.
#[derive(Debug, Default)]
pub(super) struct Rounded {
    packets: Vec<f64>,
    rest: Vec<[f64; 3]>,
}

/// Signals to hosts in a step: signal, sender, receiver and count.
pub(super) type Told = Vec<(EndSignal, u16, u16, u64)>;

impl Rounded {
    pub fn of(qps: usize) -> Rounded {
        Rounded { packets: vec![0.0; qps], rest: vec![[0.0; 3]; qps] }
    }
}

/// Rounds to a whole number up to `most`, and leaves the rest for later steps.
fn whole(of: f64, left: &mut f64, most: u64) -> u64 {
    let exact = of + *left;
    let whole = (exact.round().max(0.0) as u64).min(most);
    *left = exact - whole as f64;
    whole
}

/// How a queue pair advances, and by how many packets at most.
enum Way {
    /// By whole messages, as many at a time as share a completion: the packets of such a unit, and the most
    /// packets in all.
    Whole(u64, u64),
    /// Within its message, by at most this many packets: packets on their way belong to the middle of the
    /// message, before and after.
    Inside(u64),
}

fn way(nics: &Nics, qp: usize) -> Way {
    let s = &nics.send_qps[qp];
    let writer = &nics.writers[s.writer as usize];
    let (size, requester) = (writer.writes.packets_per_message, &s.half.requester);
    match writer.messages.map(|messages| messages - s.messages_posted) {
        None => Way::Whole(writer.completion_every * size, u64::MAX),
        Some(left) if left >= FEWEST_MESSAGES * writer.completion_every => {
            let unit = writer.completion_every * size;
            Way::Whole(unit, left * size / unit * unit)
        }
        _ if requester.acknowledged() % size == 0 => Way::Inside(0),
        _ => {
            let last = (requester.acknowledged() / size + 1) * size - 1;
            Way::Inside(last.saturating_sub(requester.sent()))
        }
    }
}

/// How many packets a queue pair advances if it should advance by `wanted`, and how many of these are also
/// posted in the step.
fn advance(nics: &Nics, qp: usize, wanted: f64, left: &mut f64) -> (u64, u64) {
    match way(nics, qp) {
        Way::Whole(unit, most) => {
            let exact = wanted + *left;
            let packets = (((exact / unit as f64).round().max(0.0)) as u64 * unit).min(most);
            *left = exact - packets as f64;
            (packets, packets)
        }
        Way::Inside(most) => (whole(wanted, left, most), 0),
    }
}

/// How long a queue pair goes on at `rate` before it ends, and how long it can be skipped in one step, ps.
/// None: it does not end.
pub(super) fn lasts(nics: &Nics, qp: usize, rate: f64, rounded: &Rounded) -> Option<(f64, f64)> {
    let s = &nics.send_qps[qp];
    let writer = &nics.writers[s.writer as usize];
    let messages = writer.messages?;
    let left = messages * writer.writes.packets_per_message - s.half.requester.sent();
    let (Way::Whole(_, most) | Way::Inside(most)) = way(nics, qp);
    // Packets left over from rounding take no more time.
    let after = |packets: u64| (packets as f64 - rounded.packets[qp]) / rate;
    Some((after(left), after(most)))
}

/// Makes everything go on for `length`. Returns the signals between pairs of hosts.
pub(super) fn go_on(world: &mut World, estimate: &Estimate, length: Time, rounded: &mut Rounded) -> Told {
    let times = length.0 as f64 / estimate.sample.span.0 as f64;
    let hosts = world.nics.nics.len();
    let counts = &estimate.sample.counts;
    let mut told = Told::new();
    let mut further = vec![0u64; world.nics.send_qps.len()];
    // For each receiver: the packets that it got in the sample. Its ACKs answered that many.
    let mut got = vec![0u64; hosts];
    for (qp, s) in world.nics.send_qps.iter().enumerate() {
        got[s.dst as usize] += counts.of_qp(qp).packets;
    }
    for (qp, &(rate, _)) in estimate.rates.iter().enumerate() {
        if rate <= 0.0 || world.nics.send_qps[qp].state != QpState::Running {
            continue;
        }
        let (packets, posted) = advance(&world.nics, qp, rate * length.0 as f64, &mut rounded.packets[qp]);
        further[qp] = packets;
        let seen = counts.of_qp(qp);
        let dst = world.nics.send_qps[qp].dst as usize;
        let acks = packets as f64 * counts.of_host(dst).acks as f64 / got[dst].max(1) as f64;
        let [left_acks, left_cnps, left_marks] = &mut rounded.rest[qp];
        let acks = whole(acks, left_acks, u64::MAX);
        let cnps = whole(seen.cnps as f64 * times, left_cnps, u64::MAX);
        let marks = whole(seen.marks as f64 * times, left_marks, u64::MAX);
        send(world, qp, (packets, posted), acks, cnps);
        let (s, r) = (&mut world.nics.send_qps[qp], &mut world.nics.recv_qps[qp]);
        r.np_ecn_marked_roce_packets += marks;
        if let Some(waits) = &mut s.at_min_rate {
            waits.waited += Time((seen.waited as f64 * times) as u64);
        }
        let (src, hears_delays) = (s.src, s.half.uses.delay);
        world.nics[dst].counters.rdma.np_ecn_marked_roce_packets += marks;
        if cnps > 0 {
            told.push((EndSignal::Cnp, dst as u16, src, cnps));
        }
        if hears_delays && acks > 0 {
            world.nics[src as usize].counters.rdma.delay_probes += acks;
            told.push((EndSignal::DelayProbe, dst as u16, src, acks));
        }
    }
    for (at, marked) in counts.marked().iter().enumerate() {
        world.fabric.marked[at] += (*marked as f64 * times).round() as u64;
    }
    for host in 0..hosts {
        let delay = counts.of_host(host).cnp_delay_ns as f64 * times;
        world.nics[host].counters.cnp_delay_ns += delay.round() as u64;
    }
    renumber(&mut world.fabric, &further);
    told
}

/// Takes a queue pair's packets all the way, and their answers back.
fn send(world: &mut World, qp: usize, (packets, posted): (u64, u64), acks: u64, cnps: u64) {
    let (fabric, nics) = (&mut world.fabric, &mut world.nics);
    let s = &mut nics.send_qps[qp];
    let (src, dst) = (s.src as usize, s.dst as usize);
    let writer = &nics.writers[s.writer as usize];
    let size = writer.writes.packets_per_message;
    let extra = s.telemetry_bytes as u32;
    let [first, between, last, _] = writer.frames(extra).map(u64::from);
    let (payload, wire) = if posted > 0 {
        let message = if size == 1 { last } else { first + (size - 2) * between + last };
        (packets / size * writer.writes.message_bytes, packets / size * message)
    } else {
        (packets * writer.writes.mtu as u64, packets * between)
    };
    s.half.skip(packets, posted, payload);
    s.packets_sent += packets;
    s.messages_posted += posted / size;
    s.rp_cnp_handled += cnps;
    if posted == 0 {
        nics.nics[src].backlog_bytes[s.class as usize] -= (packets * writer.backlog_weight as u64) as i64;
    }
    let (class, code_point) = (s.class, s.code_point);
    let r = &mut nics.recv_qps[qp];
    r.half.responder.skip(packets);
    r.bytes_delivered += payload;
    r.np_cnp_sent += cnps;
    let ack_wire = (writer.frames(0)[3] + r.telemetry_bytes as u32) as u64;
    nics.nics[dst].goodput_rx_bytes += payload;
    nics.nics[dst].counters.rdma.np_cnp_sent += cnps;
    nics.nics[src].goodput_tx_bytes += payload;
    nics.nics[src].counters.rdma.rp_cnp_handled += cnps;
    fabric.data.sent += packets;
    fabric.data.delivered += packets;
    let there = nics.nics[src].port as usize;
    let back = nics.nics[dst].port as usize;
    let class_there =
        pass(fabric, (there, dst as u16, qp as u32), Kind::Data, (class, code_point), packets, wire);
    let (src, qp) = (src as u16, qp as u32);
    pass(fabric, (back, src, qp), Kind::Ack, (class_there, code_point), acks, acks * ack_wire);
    let model = &nics.models[nics.nics[dst].model as usize];
    let point = model.cnp_code_point.unwrap_or(code_point);
    let cnp_wire = (CNP_FRAME_BYTES + PREAMBLE_AND_GAP_BYTES) as u64;
    pass(fabric, (back, src, qp), Kind::Cnp, (model.class_of[point as usize], point), cnps, cnps * cnp_wire);
}

/// Takes packets of a kind from a host's port to a host. Returns the class in which they arrive.
fn pass(
    fabric: &mut Fabric,
    (from, to, qp): (usize, u16, u32),
    kind: Kind,
    (mut class, code_point): (u8, u8),
    packets: u64,
    wire_bytes: u64,
) -> u8 {
    let frame_bytes = wire_bytes - packets * PREAMBLE_AND_GAP_BYTES as u64;
    for port in fabric.route(from, to, qp).unwrap_or_default() {
        let queue = &mut fabric.queues[(port, class)];
        queue.rx_packets += packets;
        queue.rx_bytes += frame_bytes;
        queue.tx_packets += packets;
        queue.tx_bytes += frame_bytes;
        fabric.transmissions[kind as usize] += packets;
        let p = &mut fabric.ports[port];
        p.wire_bytes += wire_bytes;
        if p.flags & RECLASSIFIES != 0 {
            class = fabric.classes.of(p.peer_owner as usize)[code_point as usize];
        }
        let group = &mut fabric.groups[(p.peer as usize, class)];
        group.rx_packets += packets;
        group.rx_bytes += frame_bytes;
    }
    class
}

/// Renumbers packets on their way to match where their queue pairs are now.
pub(super) fn renumber(fabric: &mut Fabric, further: &[u64]) {
    let links = fabric.ports.iter().map(|port| port.in_flight);
    let queues = fabric.queues.iter().map(|queue| queue.fifo);
    let lists: Vec<Fifo> = links.chain(queues).collect();
    for list in lists {
        let mut next = list.head();
        while let Some(index) = next {
            let packet: &mut Packet = &mut fabric.packets[index];
            if matches!(packet.kind, Kind::Data | Kind::Ack) {
                packet.renumber(wire_psn(packet.psn() as u64 + further[packet.qp as usize]));
            }
            next = list.after(&fabric.packets, index);
        }
    }
}

/// The counters that grow in a step and that time series are made from, in a fixed order.
pub(super) struct Series {
    counters: Vec<u64>,
    backlogs: Vec<i64>,
}

impl Series {
    pub fn of(world: &mut World) -> Series {
        let (mut counters, mut backlogs) = (Vec::new(), Vec::new());
        visit(world, |counter| counters.push(*counter));
        for nic in &world.nics.nics {
            backlogs.extend(nic.backlog_bytes);
        }
        Series { counters, backlogs }
    }

    /// Sets the world's counters to their values after a share of the way from these to `others`.
    pub fn bring(&self, world: &mut World, others: &Series, (share, of): (u64, u64)) {
        let part = |from: i128, to: i128| from + (to - from) * share as i128 / of as i128;
        let mut ways = self.counters.iter().zip(&others.counters);
        visit(world, |counter| {
            if let Some((&from, &to)) = ways.next() {
                *counter = part(from.into(), to.into()) as u64;
            }
        });
        let mut ways = self.backlogs.iter().zip(&others.backlogs);
        for backlog in world.nics.nics.iter_mut().flat_map(|nic| &mut nic.backlog_bytes) {
            if let Some((&from, &to)) = ways.next() {
                *backlog = part(from.into(), to.into()) as i64;
            }
        }
    }
}

fn visit(world: &mut World, mut each: impl FnMut(&mut u64)) {
    let (fabric, nics) = (&mut world.fabric, &mut world.nics);
    fabric.ports.iter_mut().for_each(|port| each(&mut port.wire_bytes));
    let used = fabric.classes_in_use();
    for at in 0..fabric.ports.len() {
        for class in (0..CLASSES as u8).filter(|class| used[*class as usize]) {
            each(&mut fabric.marked[lane(at, class)]);
        }
    }
    for nic in &mut nics.nics {
        each(&mut nic.goodput_tx_bytes);
        each(&mut nic.goodput_rx_bytes);
        each(&mut nic.counters.cnp_delay_ns);
        let rdma = &mut nic.counters.rdma;
        [&mut rdma.np_cnp_sent, &mut rdma.rp_cnp_handled, &mut rdma.delay_probes]
            .into_iter()
            .for_each(&mut each);
    }
    nics.recv_qps.iter_mut().for_each(|r| each(&mut r.bytes_delivered));
}
