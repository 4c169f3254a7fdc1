//! Flow control: nobody is stopped for ever, and what is counted is what is there.

use bolero::{check, TypeGenerator};
use std::collections::VecDeque;
use tailback_fuzz::{Clock, Magnitude, Span};
use tailback_proto::flow_control::byte_queue_limits::{
    Charge, OnFull, Transmit, VethParameters, VethQueue, MAX_TX_USECS, RING_ENTRIES,
};
use tailback_proto::flow_control::byte_queue_limits::{Dql, DqlParameters, MAX_LIMIT};
use tailback_proto::flow_control::pcie_credits::{Credits, PostedCredits};
use tailback_proto::flow_control::pfc::{pause_span, PauseSink, PauseSource};
use tailback_proto::flow_control::pfc::{Action, Watchdog, WatchdogParameters};
use tailback_proto::units::{Rate, Time};

#[derive(Debug, TypeGenerator)]
enum PfcInput {
    Frame(Span, u16),
    Timer(Span),
}

/// The end that is told: time paused adds up to the spans that it tells of, whatever frames come.
#[test]
fn pause_sink() {
    check!().with_type::<(Magnitude<47>, Vec<PfcInput>)>().for_each(|(rate, inputs)| {
        let rate = Rate(rate.get().max(1_000_000));
        let mut sink = PauseSink::default();
        let mut clock = Clock::default();
        let (mut frames, mut ends, mut paused, mut last_end) = (0, 0, Time::ZERO, Time::ZERO);
        for input in inputs {
            let was_due = |sink: &PauseSink, now| sink.next_timeout().is_some_and(|until| until <= now);
            let ended = match *input {
                PfcInput::Frame(span, quanta) => {
                    let (now, span) = (clock.pass(span), pause_span(quanta, rate));
                    let ended = sink.on_frame(now, span);
                    frames += 1;
                    assert_eq!(sink.is_paused(), span > Time::ZERO);
                    assert_eq!(sink.next_timeout(), (span > Time::ZERO).then_some(now + span));
                    ended
                }
                PfcInput::Timer(span) => {
                    let now = clock.pass(span);
                    let due = was_due(&sink, now);
                    let ended = sink.on_timeout(now);
                    assert_eq!(ended.is_some(), due);
                    assert!(!was_due(&sink, now), "the timer stays due");
                    ended
                }
            };
            if let Some((from, to)) = ended {
                assert!(last_end <= from && from <= to && to == clock.now());
                paused += to - from;
                last_end = to;
                ends += 1;
            }
            let lasts = sink.paused_since().map_or(Time::ZERO, |since| clock.now() - since);
            assert_eq!(sink.paused_until(clock.now()), paused + lasts);
            assert_eq!((sink.frames, sink.transitions, sink.paused), (frames, ends, paused));
        }
    });
}

/// The end that asks: repeated before the quanta run out, for as long as it holds.
#[test]
fn pause_source() {
    check!().with_type::<(Magnitude<47>, u16, Vec<(Span, bool)>)>().for_each(|(rate, quanta, inputs)| {
        let span = pause_span((*quanta).max(2), Rate(rate.get().max(1_000_000)));
        let mut source = PauseSource::IDLE;
        let mut clock = Clock::default();
        let mut since = None;
        for &(wait, pause) in inputs {
            let now = clock.pass(wait);
            if pause {
                since.get_or_insert(now);
                source.pause(now, span);
                let refresh = source.next_timeout().expect("it is to be repeated");
                assert!(now <= refresh && refresh < now + span.max(Time(1)), "repeated too late");
            } else {
                let held = source.resume(now);
                assert_eq!(held, since.take().map_or(Time::ZERO, |since| now - since));
                assert_eq!(source.next_timeout(), None);
            }
            assert_eq!(source.asserted_at(), since);
            assert_eq!(source.asserted(), since.is_some());
        }
    });
}

#[derive(Debug, TypeGenerator)]
enum WatchdogInput {
    Pause(Span),
    Resume(Span),
    Timer(Span, bool),
}

/// A storm only after a whole detection time of pause with packets waiting; over only after a whole restoration time
/// without.
#[test]
fn watchdog() {
    check!().with_type::<(Span, Span, Vec<WatchdogInput>)>().for_each(|(detect, restore, inputs)| {
        let p = WatchdogParameters { detection_time: detect.time(), restoration_time: restore.time() };
        if p.detection_time == Time::ZERO || p.restoration_time == Time::ZERO {
            return;
        }
        let mut watchdog = Watchdog::default();
        let mut clock = Clock::default();
        let (mut paused_at, mut resumed_at) = (None, Time::ZERO);
        for input in inputs {
            match *input {
                WatchdogInput::Pause(span) => {
                    let now = clock.pass(span);
                    paused_at.get_or_insert(now);
                    watchdog.on_pause(now);
                }
                WatchdogInput::Resume(span) => {
                    resumed_at = clock.pass(span);
                    paused_at = None;
                    watchdog.on_resume(resumed_at);
                }
                WatchdogInput::Timer(span, waiting) => {
                    let now = clock.pass(span);
                    let storm = watchdog.in_pause_storm();
                    match watchdog.on_timeout(&p, now, waiting) {
                        Some(Action::Drop) => {
                            let since = paused_at.expect("a storm without a pause");
                            assert!(!storm && waiting && now - since >= p.detection_time);
                        }
                        Some(Action::Restore) => {
                            assert!(storm && paused_at.is_none() && now - resumed_at >= p.restoration_time);
                        }
                        None => assert_eq!(watchdog.in_pause_storm(), storm),
                    }
                    assert!(watchdog.next_timeout(&p).is_none_or(|at| at > now), "the timer stays due");
                }
            }
            assert_eq!(watchdog.detected - watchdog.restored, watchdog.in_pause_storm() as u64);
            assert_eq!(watchdog.first.is_some(), watchdog.detected > 0);
        }
    });
}

/// A link of writes: the NIC asks when a burst may leave, sends it, and the receiver gives the credits back in order.
#[test]
fn pcie_credits() {
    type Burst = (Magnitude<13>, Magnitude<32>, Magnitude<32>, Magnitude<32>);
    check!().with_type::<(u16, u16, Vec<Burst>)>().for_each(|&(header, data, ref bursts)| {
        let max_payload = 256;
        // As a plan makes sure: a full write fits.
        let granted = Credits { header: header.max(1) as u64, data: data.max(16) as u64 };
        let mut books = PostedCredits::new(granted);
        let (mut at, mut back, mut consumed) = (Time::ZERO, Time::ZERO, Credits::default());
        for (bytes, idle, span, latency) in bursts {
            let burst = Credits::of_write(bytes.positive(), max_payload);
            if burst.header > granted.header || burst.data > granted.data {
                continue;
            }
            let (start, span) = (at + Time(idle.get()), Time(span.get()));
            let (first, last) = books.departure(burst, start, span);
            assert!(start <= first && first + span <= last, "{start} to {first}..{last} for {span}");
            assert_eq!(books.departure(burst, start, span), (first, last), "asking changes nothing");
            // All of the burst's credits are taken by its last bit, and never more than there are.
            let from = back.max(first + Time(latency.get()));
            let to = back.max(last + Time(latency.get())).max(from);
            books.send(burst, from, to);
            consumed = Credits { header: consumed.header + burst.header, data: consumed.data + burst.data };
            assert_eq!(books.consumed(), consumed);
            let used = books.in_use(last);
            assert!(
                used.header <= granted.header && used.data <= granted.data,
                "{used:?} of {granted:?} in use"
            );
            assert_eq!(books.in_use(to), Credits::default(), "all is back in the end");
            (at, back) = (last, to);
        }
    });
}

#[derive(Debug, TypeGenerator)]
enum DqlInput {
    Queue(Magnitude<17>),
    Complete(Span, u8),
}

/// What is in flight is what was queued and not completed, and the limit stays within its bounds.
#[test]
fn dql() {
    check!().with_type::<(u32, u32, Span, Vec<DqlInput>)>().for_each(|&(a, b, hold, ref inputs)| {
        let (min_limit, max_limit) = (a.min(b).min(MAX_LIMIT), a.max(b).min(MAX_LIMIT));
        let p = DqlParameters { min_limit, max_limit, hold_time: hold.time() };
        let mut dql = Dql::new(p, Time::ZERO);
        let mut clock = Clock::default();
        let mut in_flight = 0u32;
        for input in inputs {
            match *input {
                // As a driver: a stopped queue gets nothing.
                DqlInput::Queue(count) if dql.available() >= 0 => {
                    dql.queued(count.get() as u32);
                    in_flight += count.get() as u32;
                }
                DqlInput::Queue(_) => {}
                DqlInput::Complete(span, share) => {
                    let count = (in_flight as u64 * (share as u64 + 1) / 256) as u32;
                    dql.completed(count, clock.pass(span));
                    in_flight -= count;
                    assert!(count == 0 || (min_limit..=max_limit).contains(&dql.limit()));
                }
            }
            assert_eq!(dql.in_flight(), in_flight);
            assert_eq!(dql.available(), dql.limit() as i64 - in_flight as i64);
            assert!(in_flight > 0 || dql.available() >= 0, "stopped with nothing in flight");
        }
    });
}

#[derive(Debug, TypeGenerator)]
struct Veth {
    #[generator(1..=RING_ENTRIES)]
    ring: u32,
    stops: bool,
    #[generator(0..3u8)]
    charge: u8,
    tx_usecs: Span,
    min_limit: u32,
    max_limit: u32,
    hold: Span,
}

impl Veth {
    fn parameters(&self) -> VethParameters {
        let (a, b) = (self.min_limit.min(MAX_LIMIT), self.max_limit.min(MAX_LIMIT));
        VethParameters {
            ring: self.ring,
            on_full: if self.stops { OnFull::Stop } else { OnFull::Free },
            charge: [Charge::Off, Charge::Packets, Charge::Bytes][self.charge as usize],
            tx_usecs: self.tx_usecs.time().min(MAX_TX_USECS),
            dql: DqlParameters { min_limit: a.min(b), max_limit: a.max(b), hold_time: self.hold.time() },
        }
    }
}

#[derive(Debug, TypeGenerator)]
enum VethInput {
    /// Hands packets over while the queue goes on.
    Transmit(Span, u8, u16),
    Frame,
    Take(Span),
    PollEnds(Span),
    Watchdog(Span),
    TearDown(Span),
}

/// Packets come out in their order, each once; a stopped queue is told to go on.
#[test]
fn veth_queue() {
    check!().with_type::<(Veth, Vec<VethInput>)>().for_each(|(veth, inputs)| {
        let p = veth.parameters();
        let mut queue = VethQueue::new(p, Time::ZERO);
        let mut clock = Clock::default();
        let mut ring = VecDeque::new();
        let mut packets = 0..;
        for input in inputs {
            let stopped = queue.is_stopped();
            let mut goes_on = false;
            match *input {
                VethInput::Transmit(span, count, bytes) => {
                    let now = clock.pass(span);
                    for _ in 0..count {
                        if queue.is_stopped() {
                            break;
                        }
                        let packet = packets.next().expect("without end");
                        match queue.transmit(packet, bytes as u32, now) {
                            Transmit::Queued => ring.push_back(packet),
                            Transmit::Freed => assert_eq!(p.on_full, OnFull::Free),
                            Transmit::Busy => assert!(p.on_full == OnFull::Stop && queue.is_stopped()),
                        }
                    }
                }
                VethInput::Frame => {
                    let packet = packets.next().expect("without end");
                    if queue.transmit_frame(packet) {
                        ring.push_back(packet);
                    }
                }
                VethInput::Take(span) => {
                    let now = clock.pass(span);
                    let taken = queue.take();
                    assert_eq!(taken, ring.pop_front(), "out of order");
                    goes_on = taken.is_some() && queue.done(now);
                }
                VethInput::PollEnds(span) => goes_on = queue.poll_ends(clock.pass(span)),
                VethInput::Watchdog(span) => {
                    let now = clock.pass(span);
                    goes_on = queue.on_timeout(now);
                    assert!(queue.next_timeout().is_none_or(|at| at > now), "the watchdog stays due");
                    assert!(!goes_on || !queue.is_stopped());
                }
                VethInput::TearDown(span) => {
                    let mut freed = Vec::new();
                    let was = queue.tear_down(clock.pass(span), |packet| freed.push(packet));
                    assert_eq!(was, stopped);
                    assert_eq!(freed, ring.drain(..).collect::<Vec<_>>());
                    assert!(!queue.is_stopped(), "stopped for ever: nobody polls any more");
                    assert_eq!(queue.in_flight(), 0);
                    goes_on = was;
                }
            }
            assert!(queue.len() <= p.ring as usize);
            assert!(queue.packets().eq(ring.iter().copied()));
            assert_eq!(queue.in_flight(), queue.charged());
            assert_eq!(queue.next_timeout().is_some(), queue.is_stopped());
            if stopped && !queue.is_stopped() {
                assert!(goes_on, "goes on and does not say so");
            }
        }
    });
}
