//! TCP connections over one bottleneck in simulated time: a queue, a delay each way, and packets that are lost, late or
//! doubled as a test says.

#![allow(dead_code)] // each test file uses what it needs

pub mod one_end;

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use tailback_proto::transport::tcp::*;
use tailback_proto::units::{Rate, Time};

pub const MSS: u32 = 1000;

/// Linux's defaults, except for segments of 1000 B.
pub fn parameters(control: ControlParameters) -> TcpParameters {
    TcpParameters {
        mss: MSS,
        control,
        initial_window: 10 * MSS as u64,
        initial_rto: Time::from_ms(1000),
        min_rto: Time::from_ms(200),
        max_rto: Time::from_ms(120_000),
        sack: true,
        ecn: matches!(control, ControlParameters::Dctcp(_)),
        delayed_ack: Time::from_ms(40),
        ack_every: 2,
        receive_buffer: 1 << 30,
        max_burst: 65_536,
    }
}

pub const CUBIC: ControlParameters =
    ControlParameters::Cubic(CubicParameters { c: 0.4, beta: 0.7, fast_convergence: true });
pub const DCTCP: ControlParameters =
    ControlParameters::Dctcp(DctcpParameters { g: 1.0 / 16.0, initial_alpha: 1.0 });

/// What happens to a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    Pass,
    Lost,
    /// Arrives this much later.
    Late(Time),
    /// Arrives, and again this much later.
    Twice(Time),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Packet {
    /// A segment; whether it was sent before; whether it is ECN-capable.
    Data(DataSegment, bool, bool),
    Ack(AckSegment),
}

pub struct Link {
    /// Of the bottleneck; only payload takes time.
    pub rate: Rate,
    /// One way, each way.
    pub delay: Time,
    /// What waits beyond this is dropped.
    pub queue_limit: u64,
    /// Segments that find more than this in the queue are marked.
    pub mark_above: u64,
}

pub struct Flow {
    pub p: TcpParameters,
    pub start: Time,
    pub sender: TcpSender,
    pub receiver: TcpReceiver,
    /// Bytes delivered while measured.
    pub goodput: u64,
    /// Whether the application reads at once.
    pub reads: bool,
    /// Bytes that truly arrived, by position; only of streams that end.
    arrived: Vec<bool>,
    checks: bool,
}

#[derive(Debug)]
enum Event {
    Start,
    Departed,
    AtReceiver(usize, DataSegment),
    AtSender(usize, AckSegment),
}

struct Scheduled(Time, u64, Event);

impl PartialEq for Scheduled {
    fn eq(&self, other: &Self) -> bool {
        (self.0, self.1) == (other.0, other.1)
    }
}
impl Eq for Scheduled {}
impl PartialOrd for Scheduled {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Scheduled {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.0, self.1).cmp(&(other.0, other.1))
    }
}

/// The queue, while measured.
#[derive(Default)]
pub struct Seen {
    pub mean_queue: f64,
    pub min_queue: u64,
    pub max_queue: u64,
    pub drops: u64,
    /// Time and bytes of the queue, whenever it changed.
    pub queue: Vec<(Time, u64)>,
}

pub struct Network<F> {
    link: Link,
    fate: F,
    pub flows: Vec<Flow>,
    pub now: Time,
    events: BinaryHeap<Reverse<Scheduled>>,
    order: u64,
    queue: VecDeque<(usize, DataSegment, Fate)>,
    queued: u64,
    busy: bool,
    /// Packets sent so far, ACKs too.
    pub packets: usize,
    pub log: Vec<(Time, usize, Packet)>,
    pub logging: bool,
    measuring_from: Time,
    pub seen: Seen,
}

impl<F: FnMut(usize, usize, &Packet) -> Fate> Network<F> {
    /// `fate` gets a packet's number, its flow, and the packet.
    pub fn new(link: Link, fate: F) -> Self {
        Network {
            link,
            fate,
            flows: Vec::new(),
            now: Time::ZERO,
            events: BinaryHeap::new(),
            order: 0,
            queue: VecDeque::new(),
            queued: 0,
            busy: false,
            packets: 0,
            log: Vec::new(),
            logging: false,
            measuring_from: Time::NEVER,
            seen: Seen::default(),
        }
    }

    /// A connection that sends `bytes` from `start` on; `u64::MAX`: for ever.
    pub fn connect(&mut self, p: &TcpParameters, start: Time, bytes: u64) {
        p.check().unwrap();
        let mut sender = TcpSender::new(p);
        sender.write(bytes);
        let checks = bytes < 1 << 22;
        let arrived = if checks { vec![false; bytes as usize] } else { Vec::new() };
        let receiver = TcpReceiver::new(p);
        self.flows.push(Flow { p: *p, start, sender, receiver, goodput: 0, reads: true, arrived, checks });
        self.schedule(start, Event::Start);
    }

    fn schedule(&mut self, at: Time, event: Event) {
        self.order += 1;
        self.events.push(Reverse(Scheduled(at, self.order, event)));
    }

    /// Measures from now on.
    pub fn measure(&mut self) {
        self.measuring_from = self.now;
        self.seen = Seen { min_queue: u64::MAX, ..Seen::default() };
        self.flows.iter_mut().for_each(|flow| flow.goodput = 0);
    }

    /// Share of the link that was used since `measure`.
    pub fn utilisation(&self) -> f64 {
        let bytes: u64 = self.flows.iter().map(|flow| flow.goodput).sum();
        bytes as f64 * 8e12 / (self.link.rate.0 as f64 * (self.now - self.measuring_from).0 as f64)
    }

    /// Jain's index of the flows' goodput.
    pub fn fairness(&self) -> f64 {
        let sum: f64 = self.flows.iter().map(|flow| flow.goodput as f64).sum();
        let squares: f64 = self.flows.iter().map(|flow| (flow.goodput as f64) * (flow.goodput as f64)).sum();
        sum * sum / (self.flows.len() as f64 * squares)
    }

    /// Runs until everything is acknowledged; panics where that never happens.
    pub fn run_to_end(&mut self, most_events: usize) -> Time {
        for _ in 0..most_events {
            if self.flows.iter().all(|flow| flow.sender.is_idle()) {
                for flow in self.flows.iter().filter(|flow| flow.checks) {
                    assert_eq!(flow.receiver.delivered(), flow.arrived.len() as u64);
                }
                return self.now;
            }
            assert!(self.step(Time::NEVER), "the exchange hangs: nothing will ever happen");
        }
        panic!("the exchange does not end");
    }

    pub fn run_until(&mut self, until: Time) {
        while self.step(until) {}
        self.integrate(until);
        self.now = until;
    }

    /// What happens next, if it does before `until`.
    fn step(&mut self, until: Time) -> bool {
        let timer =
            |flow: &Flow| flow.sender.next_timeout().into_iter().chain(flow.receiver.next_timeout()).min();
        let due = self.flows.iter().enumerate().filter_map(|(i, flow)| timer(flow).map(|at| (at, i))).min();
        let event_at = self.events.peek().map(|event| event.0 .0);
        let Some(at) = event_at.into_iter().chain(due.map(|due| due.0)).min() else { return false };
        if at >= until {
            return false;
        }
        self.integrate(at);
        self.now = self.now.max(at);
        match due {
            Some((due_at, i)) if event_at.is_none_or(|event_at| due_at < event_at) => self.on_timer(i),
            _ => {
                let Scheduled(_, _, event) = self.events.pop().unwrap().0;
                self.on_event(event);
            }
        }
        true
    }

    fn on_timer(&mut self, i: usize) {
        let (now, flow) = (self.now, &mut self.flows[i]);
        if flow.sender.next_timeout().is_some_and(|at| at <= now) {
            flow.sender.on_timeout(&flow.p, now);
            assert!(flow.sender.next_timeout().is_none_or(|at| at > now), "the timer stays due");
            self.transmit(i);
        } else {
            assert!(flow.receiver.on_timeout(now));
            self.acknowledge(i);
        }
    }

    fn on_event(&mut self, event: Event) {
        match event {
            Event::Start => (0..self.flows.len()).for_each(|i| self.transmit(i)),
            Event::Departed => {
                self.busy = false;
                self.depart();
            }
            Event::AtReceiver(i, segment) => self.receive(i, segment),
            Event::AtSender(i, ack) => {
                let flow = &mut self.flows[i];
                flow.sender.on_ack(&flow.p, self.now, &ack);
                self.transmit(i);
            }
        }
    }

    fn receive(&mut self, i: usize, segment: DataSegment) {
        let measured = self.now >= self.measuring_from;
        let flow = &mut self.flows[i];
        let edge = flow.receiver.delivered() + flow.p.receive_buffer;
        let before = flow.receiver.delivered() as usize;
        let verdict = flow.receiver.on_segment(&flow.p, self.now, &segment);
        if flow.checks {
            for position in segment.position..(segment.position + segment.bytes as u64).min(edge) {
                flow.arrived[position as usize] = true;
            }
            let delivered = flow.receiver.delivered() as usize;
            assert!(
                flow.arrived[before..delivered].iter().all(|&arrived| arrived),
                "delivers what never arrived"
            );
            if flow.reads {
                assert!(
                    !flow.arrived.get(delivered).is_some_and(|&arrived| arrived),
                    "keeps back what arrived"
                );
            }
        }
        if measured {
            flow.goodput += verdict.newly_delivered;
        }
        let opened = flow.reads && flow.receiver.on_read(&flow.p, verdict.newly_delivered);
        if let Some(ack) = verdict.first {
            self.put(i, Packet::Ack(ack));
        }
        if verdict.ack || opened {
            self.acknowledge(i);
        }
    }

    pub fn acknowledge(&mut self, i: usize) {
        let flow = &mut self.flows[i];
        let ack = flow.receiver.ack(&flow.p);
        if flow.checks {
            for &(start, end) in ack.sack.as_slice() {
                assert!(start > ack.ack && end > start, "block {start}..{end} of ACK {}", ack.ack);
                assert!(flow.arrived[start as usize..end as usize].iter().all(|&arrived| arrived));
            }
        }
        self.put(i, Packet::Ack(ack));
    }

    /// Sends what the sender of a flow may send.
    pub fn transmit(&mut self, i: usize) {
        if self.flows[i].start > self.now {
            return;
        }
        loop {
            let flow = &mut self.flows[i];
            let Some(burst) = flow.sender.poll_transmit(&flow.p, self.now, u32::MAX) else { return };
            assert!(burst.bytes <= flow.p.max_burst);
            let mss = flow.p.mss;
            let mut offset = 0;
            loop {
                let segment = DataSegment {
                    position: burst.position + offset as u64,
                    bytes: mss.min(burst.bytes - offset),
                    segments: 1,
                    ce: false,
                    cwr: burst.cwr && offset == 0,
                    sent_at: self.now,
                };
                self.put(i, Packet::Data(segment, burst.retransmission, burst.ect));
                offset += segment.bytes;
                if offset >= burst.bytes {
                    break;
                }
            }
        }
    }

    fn put(&mut self, i: usize, packet: Packet) {
        let fate = (self.fate)(self.packets, i, &packet);
        self.packets += 1;
        if self.logging {
            self.log.push((self.now, i, packet));
        }
        match packet {
            Packet::Data(mut segment, _, ect) if fate != Fate::Lost => {
                if self.queued + segment.bytes as u64 > self.link.queue_limit {
                    self.seen.drops += 1;
                    return;
                }
                segment.ce = ect && self.queued > self.link.mark_above;
                self.queued += segment.bytes as u64;
                self.queue.push_back((i, segment, fate));
                self.depart();
            }
            Packet::Ack(ack) => self.deliver(fate, self.now + self.link.delay, || Event::AtSender(i, ack)),
            Packet::Data(..) => {}
        }
    }

    fn deliver(&mut self, fate: Fate, at: Time, event: impl Fn() -> Event) {
        match fate {
            Fate::Pass => self.schedule(at, event()),
            Fate::Lost => {}
            Fate::Late(by) => self.schedule(at + by, event()),
            Fate::Twice(by) => {
                self.schedule(at, event());
                self.schedule(at + by, event());
            }
        }
    }

    fn depart(&mut self) {
        if self.busy {
            return;
        }
        let Some((i, segment, fate)) = self.queue.pop_front() else { return };
        self.busy = true;
        self.queued -= segment.bytes as u64;
        let done = self.now + self.link.rate.serialization(segment.bytes as u64);
        self.schedule(done, Event::Departed);
        self.deliver(fate, done + self.link.delay, || Event::AtReceiver(i, segment));
    }

    /// The queue was as it is until `at`.
    fn integrate(&mut self, at: Time) {
        if self.now < self.measuring_from || at <= self.now {
            return;
        }
        let seen = &mut self.seen;
        seen.queue.push((self.now, self.queued));
        let (before, span) = ((self.now - self.measuring_from).0 as f64, (at - self.now).0 as f64);
        seen.mean_queue = (seen.mean_queue * before + self.queued as f64 * span) / (before + span);
        seen.min_queue = seen.min_queue.min(self.queued);
        seen.max_queue = seen.max_queue.max(self.queued);
    }
}

/// xorshift64*: only to pick what is lost.
pub struct Dice(pub u64);

impl Dice {
    pub fn roll(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 11
    }

    /// True with this probability.
    pub fn hits(&mut self, probability: f64) -> bool {
        (self.roll() as f64) < probability * (1u64 << 53) as f64
    }
}
