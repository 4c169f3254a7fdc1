//! Two NICs run against each other over a link that loses, reorders, doubles, changes and marks packets.

mod nic_link;

use nic_link::*;
use proptest::prelude::*;
use tailback_proto::congestion::builtin::Settings;
use tailback_proto::nic::queue_pair::*;
use tailback_proto::nic::Connection;
use tailback_proto::transport::rc::RcParameters;
use tailback_proto::units::Time;
use tailback_proto::wire::{ImmDt, NakCode};

#[derive(Clone, Copy, Debug)]
enum MessageKind {
    Send,
    SendImmediate,
    Write,
    WriteImmediate,
    Read,
}

/// What one end asks of the other: operations and their lengths.
type Work = Vec<(MessageKind, u32)>;

/// Memory of an end: what it sends, what it is sent by WRITE, what it receives by SEND, what its READs bring. Every message has
/// its own part of each.
const PARTS: u64 = MEMORY as u64 / 4;
const ROOM: u32 = 12_000;
const SOURCE: u64 = 0;
const TARGET: u64 = PARTS;
const RECEIVED: u64 = 2 * PARTS;
const FETCHED: u64 = 3 * PARTS;

fn pattern(end: usize, at: usize) -> u8 {
    ((at * 7 + at / 251) ^ (end * 0x55)) as u8
}

fn request(number: usize, kind: MessageKind, length: u32) -> SendRequest {
    let offset = number as u64 * ROOM as u64;
    let immediate = Some(ImmDt(number as u32));
    let (r_key, remote_address) = (KEY, TARGET + offset);
    let (operation, address) = match kind {
        MessageKind::Send => (Operation::Send { immediate: None }, SOURCE + offset),
        MessageKind::SendImmediate => (Operation::Send { immediate }, SOURCE + offset),
        MessageKind::Write => (Operation::Write { remote_address, r_key, immediate: None }, SOURCE + offset),
        MessageKind::WriteImmediate => {
            (Operation::Write { remote_address, r_key, immediate }, SOURCE + offset)
        }
        MessageKind::Read => (Operation::Read { remote_address: SOURCE + offset, r_key }, FETCHED + offset),
    };
    SendRequest { wr_id: number as u64, operation, address, length }
}

fn takes_receive(kind: MessageKind) -> bool {
    !matches!(kind, MessageKind::Write | MessageKind::Read)
}

/// Posts receives `from..to` at an end.
fn post_receives<F: FnMut(usize) -> Fate>(cable: &mut Cable<F>, end: usize, from: usize, to: usize) {
    let qpn = cable.qpns[end][0];
    for number in from..to {
        let address = RECEIVED + number as u64 * ROOM as u64;
        let receive = ReceiveRequest { wr_id: number as u64, l_key: KEY, address, length: ROOM };
        cable.ends[end].nic.post_receive(qpn, receive).unwrap();
    }
}

/// All messages of both ends, over one queue pair: exactly once, in order, and where they belong.
fn exchange(
    controller: &Settings,
    connection: Connection,
    psns: [u32; 2],
    works: &[Work; 2],
    fates: &[Fate],
    late_receives: bool,
) {
    let fates = fates.to_vec();
    let ends = [0, 1].map(|_| settings(congestion(controller.clone())));
    let mut cable = Cable::with(ends, &[(connection, psns[0], psns[1])], move |number| {
        fates.get(number).copied().unwrap_or(Fate::Arrives)
    });
    for (end, work) in works.iter().enumerate() {
        for at in 0..PARTS as usize {
            cable.ends[end].memory[at] = pattern(end, at);
        }
        for (number, &(kind, length)) in work.iter().enumerate() {
            cable.post(end, 0, request(number, kind, length));
        }
    }
    let receives =
        [1, 0].map(|peer: usize| works[peer].iter().filter(|(kind, _)| takes_receive(*kind)).count());
    let mut posted = [0; 2];
    if late_receives {
        for step in 1..60u64 {
            for end in 0..2 {
                let to = receives[end].min(posted[end] + (step % 3 == 0) as usize);
                post_receives(&mut cable, end, posted[end], to);
                posted[end] = to;
            }
            cable.run_until(Time::from_us(7 * step));
        }
    }
    for end in 0..2 {
        post_receives(&mut cable, end, posted[end], receives[end]);
    }
    cable.run();
    for end in 0..2 {
        let sent = cable.ends[end].events.iter().filter(|event| matches!(event, Event::Sent { .. }));
        let expected = (0..works[end].len()).map(|number| Event::Sent {
            qpn: cable.qpns[end][0],
            wr_id: number as u64,
            status: Status::Success,
        });
        assert!(sent.copied().eq(expected), "sent by {end}: {:?}", cable.ends[end].events);
        let received = cable.ends[end].events.iter().filter(|event| matches!(event, Event::Received { .. }));
        let taking = works[1 - end].iter().enumerate().filter(|(_, (kind, _))| takes_receive(*kind));
        let expected = taking.clone().enumerate().map(|(place, (number, &(kind, length)))| Event::Received {
            qpn: cable.qpns[end][0],
            wr_id: place as u64,
            status: Status::Success,
            length,
            immediate: matches!(kind, MessageKind::SendImmediate | MessageKind::WriteImmediate)
                .then_some(ImmDt(number as u32)),
        });
        assert!(received.copied().eq(expected), "received by {end}: {:?}", cable.ends[end].events);
        // Memory: what it was, except for what the peer's and the own messages wrote, each byte once.
        let mut memory = vec![0; MEMORY];
        let mut writes = vec![0; MEMORY];
        let mut copy = |from_end: usize, from: u64, to: u64, length: u32| {
            for i in 0..length as usize {
                memory[to as usize + i] = pattern(from_end, from as usize + i);
                writes[to as usize + i] = 1;
            }
        };
        let mut receives = 0;
        for (number, &(kind, length)) in works[1 - end].iter().enumerate() {
            let offset = number as u64 * ROOM as u64;
            match kind {
                MessageKind::Write | MessageKind::WriteImmediate => {
                    copy(1 - end, SOURCE + offset, TARGET + offset, length)
                }
                MessageKind::Send | MessageKind::SendImmediate => {
                    copy(1 - end, SOURCE + offset, RECEIVED + receives * ROOM as u64, length)
                }
                MessageKind::Read => {}
            }
            receives += takes_receive(kind) as u64;
        }
        for (number, &(kind, length)) in works[end].iter().enumerate() {
            if let MessageKind::Read = kind {
                let offset = number as u64 * ROOM as u64;
                copy(1 - end, SOURCE + offset, FETCHED + offset, length);
            }
        }
        let sources = memory.iter_mut().take(PARTS as usize).enumerate();
        sources.for_each(|(at, byte)| *byte = pattern(end, at));
        assert!(cable.ends[end].memory == memory, "memory of {end}");
        assert!(cable.ends[end].writes == writes, "bytes of {end} written twice or not at all");
    }
}

fn kind() -> impl Strategy<Value = MessageKind> {
    prop_oneof![
        Just(MessageKind::Send),
        Just(MessageKind::SendImmediate),
        Just(MessageKind::Write),
        Just(MessageKind::WriteImmediate),
        Just(MessageKind::Read)
    ]
}

fn work() -> impl Strategy<Value = Work> {
    let length = prop_oneof![0..8u32, 0..ROOM, Just(256), Just(1024), Just(4096), Just(ROOM)];
    proptest::collection::vec((kind(), length), 0..20)
}

fn fate() -> impl Strategy<Value = Fate> {
    prop_oneof![
        8 => Just(Fate::Arrives),
        2 => Just(Fate::IsLost),
        1 => Just(Fate::IsMarked),
        1 => (0..40u8).prop_map(Fate::Twice),
        1 => (1..40u8).prop_map(Fate::Late),
        1 => any::<u16>().prop_map(Fate::Corrupt),
    ]
}

/// Those that need no more than RoCEv2 has.
fn controller() -> impl Strategy<Value = Settings> {
    prop_oneof![
        Just(Settings::Dcqcn(Default::default())),
        Just(Settings::None(Default::default())),
        Just(dctcp())
    ]
}

fn psn() -> impl Strategy<Value = u32> {
    prop_oneof![0..1u32 << 24, Just(0), 0xff_ffe0u32..=0xff_ffff]
}

proptest! {
    #[test]
    fn every_message_is_delivered_once_and_in_order(
        controller in controller(),
        psns in [psn(), psn()],
        works in [work(), work()],
        fates in proptest::collection::vec(fate(), 0..400),
        mtu in 0..5u32,
        ack_every in 1..20u32,
        depths in (1..5u8, 4..8u8),
        late_receives in any::<bool>(),
    ) {
        let rc = RcParameters { ack_every, ..CONNECTION.rc };
        let (max_rd_atomic, max_dest_rd_atomic) = depths;
        let connection = Connection { path_mtu: 256 << mtu, rc, max_rd_atomic, max_dest_rd_atomic, ..CONNECTION };
        exchange(&controller, connection, psns, &works, &fates, late_receives);
    }
}

#[test]
fn psns_wrap_in_the_middle_of_each_kind_of_message() {
    for kind in [
        MessageKind::Send,
        MessageKind::SendImmediate,
        MessageKind::Write,
        MessageKind::WriteImmediate,
        MessageKind::Read,
    ] {
        for psn in 0xff_fff0..=0xff_ffff {
            let work = vec![(kind, ROOM), (MessageKind::Write, 5000), (kind, 1)];
            let fates = [Fate::Arrives, Fate::Arrives, Fate::IsLost, Fate::Arrives, Fate::IsLost];
            let none = Settings::None(Default::default());
            exchange(&none, CONNECTION, [psn, 3], &[work.clone(), vec![(kind, ROOM)]], &fates, false);
        }
    }
}

/// Everything is lost from some packet on: both ends' work ends in an error that is stated, and the rest is flushed.
#[test]
fn a_dead_link_ends_in_an_error() {
    for dies_at in 0..30 {
        let fate = |number| if number < dies_at { Fate::Arrives } else { Fate::IsLost };
        let mut cable = Cable::new(&[(CONNECTION, 0, 0)], fate);
        for number in 0..4 {
            cable.post(0, 0, request(number, [MessageKind::Write, MessageKind::Read][number % 2], 6000));
        }
        post_receives(&mut cable, 0, 0, 2);
        cable.run();
        let events = &cable.ends[0].events;
        let qpn = cable.qpns[0][0];
        let done =
            events.iter().take_while(|event| matches!(event, Event::Sent { status: Status::Success, .. }));
        let done = done.count();
        if done == 4 {
            assert!(dies_at > 20, "too good to be true");
            continue;
        }
        let failure = Failure::RetriesExceeded;
        assert_eq!(events[done], Event::Failed { qpn, failure });
        let sent = |wr_id: usize, status| Event::Sent { qpn, wr_id: wr_id as u64, status };
        assert_eq!(events[done + 1], sent(done, Status::Failed(failure)));
        for number in done + 1..4 {
            assert_eq!(events[number + 1], sent(number, Status::Flushed));
        }
        let receives = &events[5..];
        assert!(matches!(
            receives,
            [
                Event::Received { wr_id: 0, status: Status::Flushed, .. },
                Event::Received { wr_id: 1, status: Status::Flushed, .. },
            ]
        ));
        let late = cable.ends[0].nic.post_send(cable.now, qpn, request(0, MessageKind::Send, 1));
        assert_eq!(late, Err(PostError::Failed));
    }
}

/// A peer that never posts a receive: as many retries as were set, and then an error.
#[test]
fn rnr_retries_end() {
    for rnr_retry in 0..7 {
        let mut cable = Cable::new(&[(Connection { rnr_retry, ..CONNECTION }, 0, 0)], |_| Fate::Arrives);
        cable.post(0, 0, request(0, MessageKind::Send, 100));
        cable.run();
        let failure = Failure::RnrRetriesExceeded;
        assert_eq!(cable.ends[0].events[0], Event::Failed { qpn: cable.qpns[0][0], failure });
        assert_eq!(cable.ends[1].nic.counters().rnr_naks_sent, rnr_retry as u64 + 1);
        assert!(cable.now >= Time::from_us(10 * rnr_retry as u64), "each waits as long as the NAK says");
    }
}

/// A request that the peer refuses fails both ends, after what came before it.
#[test]
fn a_refused_request_fails_both_ends() {
    let mut cable = Cable::new(&[(CONNECTION, 9, 9)], |_| Fate::Arrives);
    cable.post(0, 0, request(0, MessageKind::Write, 3000));
    let operation = Operation::Write { remote_address: 0, r_key: KEY + 1, immediate: None };
    cable.post(0, 0, SendRequest { operation, ..request(1, MessageKind::Write, 3000) });
    cable.post(0, 0, request(2, MessageKind::Write, 3000));
    cable.run();
    let (a, b) = (cable.qpns[0][0], cable.qpns[1][0]);
    let code = NakCode::RemoteAccessError;
    let failure = Failure::RefusedByPeer(code);
    assert_eq!(
        cable.ends[0].events,
        [
            Event::Sent { qpn: a, wr_id: 0, status: Status::Success },
            Event::Failed { qpn: a, failure },
            Event::Sent { qpn: a, wr_id: 1, status: Status::Failed(failure) },
            Event::Sent { qpn: a, wr_id: 2, status: Status::Flushed },
        ]
    );
    assert_eq!(cable.ends[1].events, [Event::Failed { qpn: b, failure: Failure::RefusedPeer(code) }]);
}
