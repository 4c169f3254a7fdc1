//! Transports: two ends and a network that loses, doubles and reorders. Whatever it does, nothing is delivered that was
//! not sent, and once it is good again everything arrives or the connection says that it has failed.

use bolero::{check, TypeGenerator};
use tailback_fuzz::{Clock, Magnitude, Span};
use tailback_proto::transport::rc::SelectiveRepeat;
use tailback_proto::transport::rc::{
    NakCause, Outgoing, RcParameters, Requester, Responder, SlowRestart, Timeout, Verdict,
};
use tailback_proto::transport::tcp::{
    AckSegment, ControlParameters, CubicParameters, DataSegment, DctcpParameters, SackBlocks, TcpParameters,
    TcpReceiver, TcpSender,
};
use tailback_proto::units::Time;

/// What the network does with one of the packets that it holds.
#[derive(Clone, Copy, Debug, TypeGenerator)]
enum Fate {
    Deliver,
    Lose,
    /// Delivers it and keeps it.
    Double,
}

/// Takes one of the packets of a network, by any number.
fn pick<T: Copy>(network: &mut Vec<T>, number: u8, fate: Fate) -> Option<T> {
    if network.is_empty() {
        return None;
    }
    let at = number as usize % network.len();
    match fate {
        Fate::Deliver => Some(network.remove(at)),
        Fate::Lose => {
            network.remove(at);
            None
        }
        Fate::Double => Some(network[at]),
    }
}

#[derive(Debug, TypeGenerator)]
struct Rc {
    #[generator(1..=64)]
    ack_every: u32,
    timeout: Magnitude<44>,
    first_timeout: Magnitude<44>,
    #[generator(0..=7)]
    retry_count: u32,
    #[generator(0..3usize)]
    slow_restart: usize,
    /// Window and reordering of selective repeat; 0: it goes back.
    #[generator(0..=200)]
    window: u32,
    #[generator(1..=200)]
    reordering: u32,
}

impl Rc {
    fn parameters(&self) -> RcParameters {
        RcParameters {
            ack_every: self.ack_every,
            ack_timeout: Time(self.timeout.positive()),
            first_timeout: Time(self.first_timeout.positive().min(self.timeout.positive())),
            retry_count: self.retry_count,
            slow_restart: SlowRestart::ALL[self.slow_restart],
            nak_reaction: Time::ZERO,
            nak_delay: Time::ZERO,
            losses_are_cnps: false,
            discarded_cause_cnps: true,
            selective: (self.window > 0).then(|| SelectiveRepeat {
                window: self.window,
                reordering: self.reordering,
                low_timeout: Time(self.first_timeout.positive()),
                high_timeout: Time(self.timeout.positive()),
                unmeasured_timeout: (self.reordering % 2 == 1).then(|| Time(self.timeout.positive())),
            }),
        }
    }
}

#[derive(Debug, TypeGenerator)]
enum RcInput {
    Post(u8),
    Send(Span, u8, bool),
    /// To the responder.
    Data(u8, Fate),
    /// To the responder, without its payload.
    Trimmed(u8, Fate),
    /// To the requester.
    Answer(u8, Fate),
    Timer(Span),
}

#[derive(Clone, Copy, Debug)]
enum Answer {
    Ack(u32),
    Nak(u32),
    /// Of selective repeat: what is expected, by how many the packet that is answered is ahead, and what came of that.
    Ahead(u32, u32, NakCause),
}

struct RcPair {
    p: RcParameters,
    clock: Clock,
    requester: Requester,
    responder: Responder,
    to_responder: Vec<Outgoing>,
    to_requester: Vec<Answer>,
    /// Packets in memory ahead of a gap.
    ahead: std::collections::BTreeSet<u64>,
    /// When it was last posted to, or was told of progress.
    progress_at: Time,
}

impl RcPair {
    fn send(&mut self, ask: bool) {
        let before = (self.requester.acknowledged(), self.requester.next_sequence());
        let out = self.requester.send(&self.p, self.clock.now(), ask, 1);
        assert_eq!(out.sequence, before.1);
        let window = self.p.selective.map_or(u64::MAX, |selective| selective.window as u64);
        assert!(out.sequence - before.0 < window);
        assert!(out.sequence >= before.0 && out.sequence < self.requester.posted());
        assert_eq!(out.psn as u64, out.sequence % (1 << 24));
        assert!(out.ack_request || !ask);
        self.to_responder.push(out);
    }

    fn arrive(&mut self, packet: Outgoing) {
        let before = self.responder.received();
        match self.responder.on_request(packet.psn, 1, packet.ack_request) {
            Verdict::Accepted { ack } => {
                assert_eq!(packet.sequence, before, "accepts another than the one expected");
                let mut next = before + 1;
                while self.ahead.remove(&next) {
                    next += 1;
                }
                assert_eq!(self.responder.received(), next);
                assert_eq!(ack, packet.ack_request || next > before + 1);
                self.answer(ack);
            }
            Verdict::Placed => {
                assert!(packet.sequence > before && self.ahead.insert(packet.sequence), "placed twice");
                self.tell(packet.psn, NakCause::Arrived);
            }
            Verdict::Duplicate { .. } if packet.sequence > before => {
                assert!(self.ahead.contains(&packet.sequence));
                self.tell(packet.psn, NakCause::Arrived);
            }
            Verdict::Duplicate { ack } => {
                assert!(packet.sequence < before);
                self.answer(ack);
            }
            Verdict::OutOfSequence { nak } => {
                assert!(packet.sequence > before);
                if nak {
                    self.to_requester.push(Answer::Nak(self.responder.nak_psn()));
                }
            }
        }
    }

    fn tell(&mut self, psn: u32, told: NakCause) {
        self.to_requester.push(Answer::Ahead(self.responder.nak_psn(), self.responder.ahead(psn), told));
    }

    fn answer(&mut self, ack: bool) {
        if ack {
            self.to_requester.push(Answer::Ack(self.responder.ack_psn().expect("something arrived")));
        }
    }

    fn hear(&mut self, answer: Answer) {
        let now = self.clock.now();
        let newly = match answer {
            Answer::Ack(psn) => self.requester.on_ack(&self.p, now, psn),
            Answer::Nak(psn) => self.requester.on_nak(&self.p, now, psn),
            Answer::Ahead(psn, ahead, told) => {
                self.requester.on_selective_nak(&self.p, now, psn, ahead, told).0
            }
        };
        self.progress_at = if newly > 0 { now } else { self.progress_at };
    }

    fn timer(&mut self) {
        let now = self.clock.now();
        let due = self.requester.next_timeout().is_some_and(|at| at <= now);
        let result = self.requester.on_timeout(&self.p, now);
        assert_eq!(result == Timeout::None, !due);
        if result == Timeout::Failed {
            assert!(self.requester.is_failed() && now - self.progress_at >= self.p.patience());
        }
        assert!(self.requester.next_timeout().is_none_or(|at| at > now), "the timer stays due");
    }

    fn check(&self, before: u64) {
        let (una, next, posted) =
            (self.requester.acknowledged(), self.requester.next_sequence(), self.requester.posted());
        assert!(before <= una && una <= next && next <= posted, "{before}, {una}, {next}, {posted}");
        assert!(una <= self.responder.received(), "acknowledged before it arrived");
        // Whoever has nothing to send and something open waits for a timer.
        let waits = self.requester.has_work() || self.requester.is_idle() || self.requester.is_failed();
        assert!(waits || self.requester.next_timeout().is_some(), "waits for ever");
    }

    /// A network that loses nothing.
    fn finish(&mut self) {
        for _ in 0..100_000 {
            let before = self.requester.acknowledged();
            if self.requester.is_idle() || self.requester.is_failed() {
                return;
            } else if !self.to_requester.is_empty() {
                let answer = self.to_requester.remove(0);
                self.hear(answer);
            } else if !self.to_responder.is_empty() {
                let packet = self.to_responder.remove(0);
                self.arrive(packet);
            } else if self.requester.has_work() {
                self.send(false);
            } else {
                self.clock.pass_until(self.requester.next_timeout().expect("waits for ever"));
                self.timer();
            }
            self.check(before);
        }
        panic!("does not end");
    }
}

#[test]
fn rc() {
    check!().with_type::<(Rc, Vec<RcInput>)>().for_each(|(rc, inputs)| {
        let mut pair = RcPair {
            p: rc.parameters(),
            clock: Clock::default(),
            requester: Requester::default().with_recovery(&rc.parameters()),
            responder: Responder::default().with_recovery(&rc.parameters()),
            to_responder: Vec::new(),
            to_requester: Vec::new(),
            ahead: std::collections::BTreeSet::new(),
            progress_at: Time::ZERO,
        };
        for input in inputs {
            let before = pair.requester.acknowledged();
            match *input {
                RcInput::Post(packets) => pair.requester.post(packets as u64),
                RcInput::Send(span, packets, ask) => {
                    pair.clock.pass(span);
                    for _ in 0..packets {
                        if pair.requester.has_work() {
                            pair.send(ask);
                        }
                    }
                }
                RcInput::Data(number, fate) => {
                    if let Some(packet) = pick(&mut pair.to_responder, number, fate) {
                        pair.arrive(packet);
                    }
                }
                RcInput::Trimmed(number, fate) => {
                    let packet = pick(&mut pair.to_responder, number, fate);
                    if let Some(packet) = packet.filter(|packet| pair.responder.takes(packet.psn)) {
                        pair.tell(packet.psn, NakCause::Trimmed);
                    }
                }
                RcInput::Answer(number, fate) => {
                    if let Some(answer) = pick(&mut pair.to_requester, number, fate) {
                        pair.hear(answer);
                    }
                }
                RcInput::Timer(span) => {
                    pair.clock.pass(span);
                    pair.timer();
                }
            }
            pair.check(before);
        }
        pair.finish();
    });
}

#[derive(Debug, TypeGenerator)]
enum RcNoise {
    Post(u8),
    Send(Span, bool),
    Ack(Span, Magnitude<24>),
    Nak(Span, Magnitude<24>),
    Ahead(Span, Magnitude<24>, Magnitude<16>, bool),
    Timer(Span),
    Data(Magnitude<24>, bool),
}

/// Packets that no peer would send.
#[test]
fn rc_noise() {
    check!().with_type::<(Rc, Vec<RcNoise>)>().for_each(|(rc, inputs)| {
        let p = rc.parameters();
        let mut requester = Requester::default().with_recovery(&p);
        let mut responder = Responder::default().with_recovery(&p);
        let mut clock = Clock::default();
        let mut sent = 0;
        for input in inputs {
            let (before, received) = (requester.acknowledged(), responder.received());
            match *input {
                RcNoise::Post(packets) => requester.post(packets as u64),
                RcNoise::Send(span, ask) if requester.has_work() => {
                    sent = sent.max(requester.send(&p, clock.pass(span), ask, 1).sequence + 1);
                }
                RcNoise::Send(..) => {}
                RcNoise::Ack(span, psn) => {
                    let newly = requester.on_ack(&p, clock.pass(span), psn.get() as u32 & 0xff_ffff);
                    assert_eq!(requester.acknowledged(), before + newly);
                }
                RcNoise::Nak(span, psn) => {
                    let newly = requester.on_nak(&p, clock.pass(span), psn.get() as u32 & 0xff_ffff);
                    assert_eq!(requester.acknowledged(), before + newly);
                }
                RcNoise::Ahead(span, psn, ahead, trimmed) => {
                    let psn = psn.get() as u32 & 0xff_ffff;
                    let now = clock.pass(span);
                    let told = if trimmed { NakCause::Trimmed } else { NakCause::Arrived };
                    let newly = requester.on_selective_nak(&p, now, psn, ahead.get() as u32 & 0xffff, told).0;
                    assert_eq!(requester.acknowledged(), before + newly);
                }
                RcNoise::Timer(span) => _ = requester.on_timeout(&p, clock.pass(span)),
                RcNoise::Data(psn, ask) => {
                    let psn = psn.get() as u32 & 0xff_ffff;
                    let expected = responder.expects(psn);
                    let verdict = responder.on_request(psn, 1, ask);
                    assert_eq!(matches!(verdict, Verdict::Accepted { .. }), expected);
                    if p.selective.is_none() {
                        assert_eq!(responder.received(), received + expected as u64);
                    }
                    assert!(responder.received() >= received + expected as u64);
                }
            }
            let (una, next) = (requester.acknowledged(), requester.next_sequence());
            assert!(before <= una && una <= next && next <= requester.posted() && una <= sent);
        }
    });
}

#[derive(Debug, TypeGenerator)]
struct Tcp {
    #[generator(1..=9000)]
    mss: u32,
    #[generator(0..3u8)]
    control: u8,
    #[generator(1..=64u64)]
    initial_segments: u64,
    rto: [Magnitude<44>; 3],
    sack: bool,
    ecn: bool,
    delayed_ack: Magnitude<40>,
    #[generator(1..=8)]
    ack_every: u32,
    receive_buffer: Magnitude<24>,
    burst: Magnitude<19>,
}

impl Tcp {
    fn parameters(&self) -> TcpParameters {
        let mss = self.mss as u64;
        let control = match self.control {
            0 => ControlParameters::NewReno,
            1 => ControlParameters::Cubic(CubicParameters { c: 0.4, beta: 0.7, fast_convergence: true }),
            _ => ControlParameters::Dctcp(DctcpParameters { g: 1.0 / 16.0, initial_alpha: 1.0 }),
        };
        let mut rto = self.rto.map(|rto| Time(rto.positive()));
        rto.sort();
        let p = TcpParameters {
            mss: self.mss,
            control,
            initial_window: self.initial_segments * mss,
            initial_rto: rto[1],
            min_rto: rto[0],
            max_rto: rto[2],
            sack: self.sack,
            ecn: self.ecn || self.control > 1,
            delayed_ack: Time(self.delayed_ack.get()),
            ack_every: self.ack_every,
            receive_buffer: self.receive_buffer.get().max(2 * mss),
            max_burst: (self.burst.get() as u32).max(self.mss),
        };
        p.check().expect("it is in the range of plans");
        p
    }
}

#[derive(Debug, TypeGenerator)]
enum TcpInput {
    Write(Magnitude<20>),
    Send(Span, Magnitude<20>),
    /// To the receiver; whether it is marked, where it can be.
    Data(u8, Fate, bool),
    /// To the sender.
    Ack(u8, Fate),
    /// Bytes of what is unread that the application reads, in 255ths.
    Read(u8),
    Timer(Span),
}

struct TcpPair {
    p: TcpParameters,
    clock: Clock,
    sender: TcpSender,
    receiver: TcpReceiver,
    segments: Vec<DataSegment>,
    acks: Vec<AckSegment>,
    /// End of the receiver's window, as ACKs told.
    window_edge: u64,
    retransmitted: u64,
}

impl TcpPair {
    fn send(&mut self, room: u32) {
        let now = self.clock.now();
        // A sender that never stops would be a hang.
        for _ in 0..1_000_000 {
            let (una, next) = (self.sender.acknowledged(), self.sender.next_position());
            let Some(burst) = self.sender.poll_transmit(&self.p, now, room) else { return };
            let end = burst.position + burst.bytes as u64;
            assert!(una <= burst.position && end <= self.sender.next_position());
            assert!(burst.bytes <= self.p.max_burst && burst.bytes <= room);
            assert_eq!(burst.retransmission || burst.bytes == 0, burst.position < next || burst.bytes == 0);
            assert!(end <= self.window_edge.max(next), "sends beyond the receiver's window");
            assert!(!burst.ect || self.p.ecn);
            let (mut offset, mss) = (0, self.p.mss);
            loop {
                let bytes = mss.min(burst.bytes - offset);
                self.retransmitted += burst.retransmission as u64;
                self.segments.push(DataSegment {
                    position: burst.position + offset as u64,
                    bytes,
                    segments: 1,
                    ce: false,
                    cwr: burst.cwr && offset == 0,
                    sent_at: now,
                });
                offset += bytes;
                if offset >= burst.bytes {
                    break;
                }
            }
        }
        panic!("sends without end at one instant");
    }

    fn arrive(&mut self, segment: &DataSegment) {
        let (before, waited) = (self.receiver.delivered(), self.receiver.out_of_order_bytes());
        let verdict = self.receiver.on_segment(&self.p, self.clock.now(), segment);
        assert_eq!(self.receiver.delivered(), before + verdict.newly_delivered);
        let known = self.receiver.delivered() + self.receiver.out_of_order_bytes() - before - waited;
        assert_eq!(known + verdict.discarded, segment.bytes as u64, "bytes are neither kept nor discarded");
        if let Some(first) = verdict.first {
            self.tell(first);
        }
        if verdict.ack {
            self.acknowledge();
        }
    }

    fn acknowledge(&mut self) {
        let ack = self.receiver.ack(&self.p);
        assert_eq!(ack.ack, self.receiver.delivered());
        self.tell(ack);
    }

    /// An ACK leaves: one of its own, or the one that DCTCP's receiver puts before a change of mark.
    fn tell(&mut self, ack: AckSegment) {
        let edge = ack.ack + ack.window;
        assert!(edge >= self.window_edge, "takes back the window");
        self.window_edge = edge;
        assert!(ack.window <= self.p.receive_buffer);
        for &(start, end) in ack.sack.as_slice() {
            assert!(ack.ack < start && start < end && end <= self.sender.next_position());
        }
        self.acks.push(ack);
    }

    fn read(&mut self, bytes: u64) {
        if self.receiver.on_read(&self.p, bytes) {
            self.acknowledge();
        }
    }

    fn timers(&mut self) {
        let now = self.clock.now();
        self.sender.on_timeout(&self.p, now);
        assert!(self.sender.next_timeout().is_none_or(|at| at > now), "the sender's timer stays due");
        let due = self.receiver.next_timeout().is_some_and(|at| at <= now);
        assert_eq!(self.receiver.on_timeout(now), due);
        if due {
            self.acknowledge();
            assert!(self.receiver.next_timeout().is_none_or(|at| at > now), "the receiver's timer stays due");
        }
    }

    fn check(&self, before: u64) {
        let s = &self.sender;
        assert!(before <= s.acknowledged() && s.acknowledged() <= s.next_position());
        assert!(s.next_position() <= s.written() && s.acknowledged() <= self.receiver.delivered());
        assert_eq!(s.in_flight(), s.next_position() - s.acknowledged());
        assert!(s.cwnd() >= self.p.mss as u64, "a window of {} B", s.cwnd());
        // An infinite window shows as the most that a number can be; one that is none as 0.
        assert!(s.cwnd() < u64::MAX && s.ssthresh() >= 2 * self.p.mss as u64);
        assert!(s.alpha().is_none_or(|alpha| (0.0..=1.0).contains(&alpha)));
        assert!(self.receiver.unread() <= self.p.receive_buffer);
        assert!(s.statistics().retransmitted_segments <= self.retransmitted);
    }

    /// A network that loses nothing, and an application that reads.
    fn finish(&mut self) {
        for _ in 0..200_000 {
            let before = self.sender.acknowledged();
            if self.sender.is_idle() {
                return assert_eq!(self.receiver.delivered(), self.sender.written());
            }
            self.read(self.receiver.unread());
            if !self.acks.is_empty() {
                let ack = self.acks.remove(0);
                self.sender.on_ack(&self.p, self.clock.now(), &ack);
            } else if !self.segments.is_empty() {
                let segment = self.segments.remove(0);
                self.arrive(&segment);
            } else {
                self.send(u32::MAX);
                if self.segments.is_empty() {
                    let timers = [self.sender.next_timeout(), self.receiver.next_timeout()];
                    let at = timers.into_iter().flatten().min();
                    self.clock.pass_until(at.expect("waits for ever"));
                    self.timers();
                }
            }
            self.check(before);
        }
        panic!("does not end: {:?}", self.sender);
    }
}

#[test]
fn tcp() {
    check!().with_type::<(Tcp, Vec<TcpInput>)>().for_each(|(tcp, inputs)| {
        let p = tcp.parameters();
        let mut pair = TcpPair {
            p,
            clock: Clock::default(),
            sender: TcpSender::new(&p),
            receiver: TcpReceiver::new(&p),
            segments: Vec::new(),
            acks: Vec::new(),
            window_edge: p.receive_buffer,
            retransmitted: 0,
        };
        for input in inputs {
            let before = pair.sender.acknowledged();
            match *input {
                // Small segments and much data would only be slow.
                TcpInput::Write(bytes) if pair.sender.written() < 1000 * p.mss as u64 => {
                    pair.sender.write(bytes.get().min(1000 * p.mss as u64));
                }
                TcpInput::Write(_) => {}
                TcpInput::Send(span, room) => {
                    pair.clock.pass(span);
                    pair.send(room.get() as u32);
                }
                TcpInput::Data(number, fate, marked) => {
                    if let Some(mut segment) = pick(&mut pair.segments, number, fate) {
                        segment.ce = marked && p.ecn;
                        pair.arrive(&segment);
                    }
                }
                TcpInput::Ack(number, fate) => {
                    if let Some(ack) = pick(&mut pair.acks, number, fate) {
                        pair.sender.on_ack(&p, pair.clock.now(), &ack);
                    }
                }
                TcpInput::Read(share) => pair.read(pair.receiver.unread() * share as u64 / 255),
                TcpInput::Timer(span) => {
                    pair.clock.pass(span);
                    pair.timers();
                }
            }
            pair.check(before);
        }
        pair.finish();
    });
}

/// ACKs that no receiver would send.
#[derive(Debug, TypeGenerator)]
enum TcpNoise {
    Write(Magnitude<20>),
    Send(Span, Magnitude<20>),
    Timer(Span),
    Ack {
        after: Span,
        ack: Magnitude<22>,
        window: u64,
        blocks: [(Magnitude<22>, Magnitude<22>); 3],
        ece: bool,
        echo: Span,
    },
}

#[test]
fn tcp_noise() {
    check!().with_type::<(Tcp, Vec<TcpNoise>)>().for_each(|(tcp, inputs)| {
        let p = tcp.parameters();
        let mut sender = TcpSender::new(&p);
        let mut clock = Clock::default();
        for input in inputs {
            let before = sender.acknowledged();
            match *input {
                TcpNoise::Write(bytes) => sender.write(bytes.get()),
                TcpNoise::Send(span, room) => {
                    let now = clock.pass(span);
                    for _ in 0..64 {
                        let Some(burst) = sender.poll_transmit(&p, now, room.get() as u32) else { break };
                        assert!(burst.position + burst.bytes as u64 <= sender.next_position());
                    }
                }
                TcpNoise::Timer(span) => {
                    let now = clock.pass(span);
                    sender.on_timeout(&p, now);
                    assert!(sender.next_timeout().is_none_or(|at| at > now), "the timer stays due");
                }
                TcpNoise::Ack { after, ack, window, blocks, ece, echo } => {
                    let mut sack = SackBlocks::default();
                    for (a, b) in blocks {
                        sack.push(a.get(), b.get());
                    }
                    let ack = AckSegment { ack: ack.get(), window, sack, ece, echo: echo.time() };
                    sender.on_ack(&p, clock.pass(after), &ack);
                }
            }
            assert!(before <= sender.acknowledged() && sender.acknowledged() <= sender.next_position());
            assert!(sender.next_position() <= sender.written());
            assert!(sender.cwnd() >= p.mss as u64 && sender.cwnd() < u64::MAX);
        }
    });
}
