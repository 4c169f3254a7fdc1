//! One bottleneck in simulated time: senders under a controller, one queue, and ACKs that come back after a fixed delay.

#![allow(dead_code)] // each test file uses what it needs

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use tailback_proto::congestion::{AckInfo, Controller, HopTelemetry};
use tailback_proto::units::{Rate, Time};

/// Bytes of every packet.
pub const PACKET: u64 = 1000;

pub struct Bottleneck {
    pub rate: Rate,
    /// Round trip without queue and serialization.
    pub delay: Time,
    /// Packets that leave more than this behind are marked.
    pub mark_above_bytes: u64,
}

/// What was seen from `from` on.
#[derive(Default)]
pub struct Seen {
    pub utilisation: f64,
    pub mean_queue: f64,
    pub max_queue: u64,
    /// RTTs that ACKs told, sorted.
    pub rtts: Vec<Time>,
    /// By sender.
    pub bytes: Vec<u64>,
}

impl Seen {
    /// Share `q` of the RTTs is at most this.
    pub fn rtt(&self, q: f64) -> Time {
        self.rtts[((self.rtts.len() - 1) as f64 * q) as usize]
    }

    /// Jain's index of the senders' throughput.
    pub fn fairness(&self) -> f64 {
        let sum: f64 = self.bytes.iter().map(|&b| b as f64).sum();
        let squares: f64 = self.bytes.iter().map(|&b| (b * b) as f64).sum();
        sum * sum / (self.bytes.len() as f64 * squares)
    }
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Pace(usize),
    Departed,
    Ack(usize),
}

struct Sender<C> {
    controller: C,
    next_at: Time,
    pacing: bool,
    /// When the burst began, and its packets sent.
    burst: (Time, u64),
    sent: u64,
    acked: u64,
    /// Answers on their way: time stamp, whether it ended a burst, mark, telemetry.
    answers: VecDeque<(Time, bool, bool, HopTelemetry)>,
}

/// Runs senders under one law until `until`; each starts at its time and never stops.
pub fn run<C: Controller>(
    link: &Bottleneck,
    law: &C::Law,
    starts: impl ExactSizeIterator<Item = Time>,
    from: Time,
    until: Time,
) -> Seen {
    let mut events = BinaryHeap::new();
    let mut order = 0u64;
    let mut schedule = |events: &mut BinaryHeap<_>, at: Time, event: Event| {
        order += 1;
        events.push(Reverse((at, order, event)));
    };
    let mut seen = Seen { bytes: vec![0; starts.len()], ..Seen::default() };
    let mut senders: Vec<Sender<C>> = starts
        .enumerate()
        .map(|(i, start)| {
            schedule(&mut events, start, Event::Pace(i));
            let answers = VecDeque::new();
            Sender {
                controller: C::new(law),
                next_at: start,
                pacing: true,
                burst: (Time::ZERO, 0),
                sent: 0,
                acked: 0,
                answers,
            }
        })
        .collect();
    let mut queue: VecDeque<(usize, Time, bool)> = VecDeque::new();
    let (mut busy, mut tx_bytes, mut queue_integral, mut looked_at) = (false, 0u64, 0.0, from);
    let serialization = link.rate.serialization(PACKET);

    while let Some(Reverse((now, _, event))) = events.pop() {
        if now >= until {
            break;
        }
        let measured = now >= from;
        if measured {
            queue_integral += (queue.len() as u64 * PACKET) as f64 * (now - looked_at).0 as f64;
            looked_at = now;
            seen.max_queue = seen.max_queue.max(queue.len() as u64 * PACKET);
        }
        match event {
            Event::Pace(i) => senders[i].pacing = false,
            Event::Departed => busy = false,
            Event::Ack(i) => {
                let s = &mut senders[i];
                let (stamp, completes_burst, marked, hop) = s.answers.pop_front().unwrap();
                s.acked += PACKET;
                let ack = AckInfo {
                    now,
                    rtt: now - stamp,
                    completes_burst,
                    newly_acked_bytes: PACKET,
                    acknowledged_bytes: s.acked,
                    sent_bytes: s.sent,
                    marked,
                    hop_count: 1,
                    hops: &[hop],
                    ..Default::default()
                };
                s.controller.on_ack(law, &ack);
                if measured {
                    seen.rtts.push(ack.rtt);
                    seen.bytes[i] += PACKET;
                }
            }
        }
        if let Event::Pace(i) | Event::Ack(i) = event {
            let s = &mut senders[i];
            let open = s.controller.window_bytes().is_none_or(|w| s.sent - s.acked < w);
            if !s.pacing && open {
                if s.next_at <= now {
                    let bursts = C::burst_bytes(law).is_some();
                    let packets = C::burst_bytes(law).map_or(1, |bytes| bytes.get().div_ceil(PACKET));
                    let (began_at, sent) = if s.burst.1 == 0 { (now, 1) } else { (s.burst.0, s.burst.1 + 1) };
                    let ends = sent == packets;
                    // Of a burst of packets, the time of sending it is not part of the RTT.
                    let sending = if bursts { Time(serialization.0 * sent) } else { Time::ZERO };
                    queue.push_back((i, began_at + sending, ends && bursts));
                    s.sent += PACKET;
                    s.next_at = if ends {
                        began_at + Time(((sent * PACKET) as f64 * 8e12 / s.controller.rate()) as u64)
                    } else {
                        began_at + sending
                    };
                    s.burst = (began_at, if ends { 0 } else { sent });
                }
                s.pacing = true;
                schedule(&mut events, s.next_at.max(now), Event::Pace(i));
            }
        }
        if !busy {
            if let Some((i, stamp, ends)) = queue.pop_front() {
                busy = true;
                let left = queue.len() as u64 * PACKET;
                let hop = HopTelemetry { at: now, tx_bytes, queue_bytes: left, rate: link.rate };
                tx_bytes += PACKET;
                senders[i].answers.push_back((stamp, ends, left > link.mark_above_bytes, hop));
                schedule(&mut events, now + serialization, Event::Departed);
                schedule(&mut events, now + serialization + link.delay, Event::Ack(i));
            }
        }
    }
    seen.rtts.sort_unstable();
    let span = (until - from).0 as f64;
    seen.mean_queue = queue_integral / span;
    seen.utilisation = seen.bytes.iter().sum::<u64>() as f64 * 8e12 / (link.rate.0 as f64 * span);
    seen
}
