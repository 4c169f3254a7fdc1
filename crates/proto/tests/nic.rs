//! One NIC, packet by packet: what it sends for what it is given.

mod nic_alone;
mod nic_link;

use nic_alone::*;
use nic_link::{CONNECTION, KEY, MEMORY};
use tailback_proto::nic::queue_pair::*;
use tailback_proto::transport::rc::RcParameters;
use tailback_proto::units::Time;
use tailback_proto::wire::*;

#[test]
fn a_write_goes_back_to_what_a_nak_names() {
    let mut end = Alone::with(&[with_rc(RcParameters { nak_reaction: Time::from_us(16), ..CONNECTION.rc })]);
    end.post(write(None), 3000);
    assert_eq!(
        end.sends(),
        [
            "WriteFirst 100 to 0x100000 key 7 of 3000, 1024 B at 0x8000",
            "WriteMiddle 101, 1024 B at 0x8400",
            "WriteLast 102, 952 B at 0x8800, ask",
        ]
    );
    end.gets_syndrome(101, Syndrome::Nak(NakCode::PsnSequenceError));
    assert_eq!(end.sends(), [""; 0], "it takes its time");
    end.passes(Time::from_us(16));
    assert_eq!(end.sends(), ["WriteMiddle 101, 1024 B at 0x8400", "WriteLast 102, 952 B at 0x8800, ask"]);
    end.gets_syndrome(100, Syndrome::Nak(NakCode::PsnSequenceError));
    assert_eq!(end.sends(), [""; 0], "an old NAK");
    assert_eq!(end.events(), []);
    end.gets_syndrome(102, Syndrome::ACK);
    assert_eq!(end.events(), [sent(3000, Status::Success)]);
    assert_eq!(end.nic.counters().packet_seq_err, 1);
}

#[test]
fn each_kind_of_message_has_its_opcodes() {
    let mut end = Alone::new();
    end.post(write(Some(ImmDt(5))), 1);
    end.post(write(Some(ImmDt(6))), 1025);
    end.post(SEND, 0);
    end.post(Operation::Send { immediate: Some(ImmDt(8)) }, 2049);
    end.post(Operation::Send { immediate: Some(ImmDt(9)) }, 1024);
    end.post(READ, 2049);
    end.post(write(None), 1024);
    assert_eq!(
        end.sends(),
        [
            "WriteOnlyWithImmediate 100 immediate 5, 1 B at 0x8000",
            "WriteFirst 101 to 0x100000 key 7 of 1025, 1024 B at 0x8000",
            "WriteLastWithImmediate 102 immediate 6, 1 B at 0x8400",
            "SendOnly 103, ask",
            "SendFirst 104, 1024 B at 0x8000",
            "SendMiddle 105, 1024 B at 0x8400",
            "SendLastWithImmediate 106 immediate 8, 1 B at 0x8800",
            "SendOnlyWithImmediate 107 immediate 9, 1024 B at 0x8000, ask",
            "ReadRequest 108 to 0x100000 key 7 of 2049, ask",
            "WriteOnly 111 to 0x100000 key 7 of 1024, 1024 B at 0x8000, ask",
        ]
    );
}

#[test]
fn a_send_waits_as_long_as_an_rnr_nak_says() {
    let mut end = Alone::with(&[Connection { rnr_retry: 1, ..connection() }]);
    end.post(SEND, 10);
    end.post(SEND, 11);
    assert_eq!(end.sends(), ["SendOnly 100, 10 B at 0x8000", "SendOnly 101, 11 B at 0x8000, ask"]);
    end.gets_syndrome(100, Syndrome::RnrNak { timer: 14 });
    end.passes(Time::from_us(1278));
    assert_eq!(end.sends(), [""; 0]);
    end.passes(Time::from_us(2));
    assert_eq!(end.sends(), ["SendOnly 100, 10 B at 0x8000", "SendOnly 101, 11 B at 0x8000, ask"]);
    end.gets_syndrome(101, Syndrome::RnrNak { timer: 14 });
    assert_eq!(
        end.events(),
        [sent(10, Status::Success)],
        "what came before was received, and the count begins anew"
    );
    end.passes(Time::from_us(1280));
    assert_eq!(end.sends(), ["SendOnly 101, 11 B at 0x8000, ask"]);
    end.gets_syndrome(101, Syndrome::RnrNak { timer: 14 });
    let failure = Failure::RnrRetriesExceeded;
    assert_eq!(end.events(), [Event::Failed { qpn: 0x11, failure }, sent(11, Status::Failed(failure))]);
    end.passes(Time::from_ms(100));
    assert_eq!(end.sends(), [""; 0]);
}

#[test]
fn a_read_asks_again_from_the_response_that_is_missing() {
    let mut end = Alone::new();
    end.post(READ, 3000);
    end.post(write(None), 1);
    assert_eq!(end.sends().len(), 2);
    assert_eq!(end.gets(Opcode::ReadResponseFirst, 100, AETH, 1024), Some(0x8000));
    assert_eq!(end.gets(Opcode::ReadResponseLast, 102, AETH, 952), None, "101 is missing");
    let again = [
        "ReadRequest 101 to 0x100400 key 7 of 1976, ask",
        "WriteOnly 103 to 0x100000 key 7 of 1, 1 B at 0x8000, ask",
    ];
    assert_eq!(end.sends(), again);
    end.gets_syndrome(103, Syndrome::ACK);
    assert_eq!(end.sends(), [""; 0], "once for each");
    assert_eq!(end.events(), [], "an ACK is no answer to a READ");
    assert_eq!(end.gets(Opcode::ReadResponseFirst, 101, AETH, 1024), Some(0x8400));
    assert_eq!(end.gets(Opcode::ReadResponseFirst, 101, AETH, 1024), None, "twice");
    assert_eq!(end.gets(Opcode::ReadResponseLast, 102, AETH, 952), Some(0x8800));
    end.gets_syndrome(103, Syndrome::ACK);
    assert_eq!(end.events(), [sent(3000, Status::Success), sent(1, Status::Success)]);
    assert_eq!(end.nic.counters().implied_nak_seq_err, 1);
}

#[test]
fn a_response_that_does_not_fit_fails_the_queue_pair() {
    for (opcode, psn, len) in [
        (Opcode::ReadResponseFirst, 100, 1000),
        (Opcode::ReadResponseOnly, 100, 1024),
        (Opcode::ReadResponseOnly, 102, 1),
    ] {
        let mut end = Alone::new();
        end.post(READ, 2000);
        end.post(write(None), 1);
        end.sends();
        end.gets(opcode, psn, AETH, len);
        let events = end.events();
        if psn == 102 {
            assert_eq!(events, [], "a response to a WRITE says that those of the READ before are lost");
        } else {
            assert_eq!(events[0], Event::Failed { qpn: 0x11, failure: Failure::BadResponse });
        }
    }
    let mut end = Alone::new();
    end.post(write(None), 1);
    end.sends();
    end.gets(Opcode::ReadResponseOnly, 100, AETH, 1);
    assert_eq!(
        end.events()[0],
        Event::Failed { qpn: 0x11, failure: Failure::BadResponse },
        "nothing was read"
    );
}

#[test]
fn no_more_reads_are_under_way_than_agreed() {
    let mut end = Alone::with(&[Connection { max_rd_atomic: 2, ..connection() }]);
    for _ in 0..3 {
        end.post(READ, 1024);
    }
    let request = |psn| format!("ReadRequest {psn} to 0x100000 key 7 of 1024, ask");
    assert_eq!(end.sends(), [request(100), request(101)]);
    end.gets(Opcode::ReadResponseOnly, 100, AETH, 1024);
    assert_eq!(end.sends(), [request(102)]);
}

#[test]
fn acks_become_one_and_wait_behind_the_responses_of_a_read() {
    let mut end = Alone::new();
    end.post_receive(KEY, 5000);
    assert_eq!(end.gets(Opcode::WriteOnly, 500, reth(0x1000, KEY, 10), 10), Some(0x1000));
    assert_eq!(end.gets(Opcode::SendFirst, 501, Extension::None, 1024), Some(0x4000));
    assert_eq!(end.gets(Opcode::SendLast, 502, Extension::None, 2), Some(0x4400));
    end.gets(Opcode::ReadRequest, 503, reth(0x2000, KEY, 2000), 0);
    end.gets(Opcode::WriteFirst, 505, reth(0x1000, KEY, 2000), 1024);
    assert_eq!(end.gets(Opcode::WriteLast, 506, Extension::None, 976), Some(0x1400));
    assert_eq!(
        end.sends(),
        [
            "Acknowledge 502 0x1f msn 2",
            "ReadResponseFirst 503 0x1f msn 3, 1024 B at 0x2000",
            "ReadResponseLast 504 0x1f msn 3, 976 B at 0x2400",
            "Acknowledge 506 0x1f msn 4",
        ]
    );
    let (qpn, status) = (0x11, Status::Success);
    assert_eq!(end.events(), [Event::Received { qpn, wr_id: 1, status, length: 1026, immediate: None }]);
    // The requester saw none of it.
    assert_eq!(end.gets(Opcode::WriteOnly, 500, reth(0x1000, KEY, 10), 10), None);
    end.gets(Opcode::ReadRequest, 504, reth(0x2400, KEY, 976), 0);
    assert_eq!(
        end.sends(),
        ["ReadResponseOnly 504 0x1f msn 4, 976 B at 0x2400", "Acknowledge 506 0x1f msn 4"]
    );
    assert_eq!(end.nic.counters().duplicate_request, 2);
}

#[test]
fn a_gap_is_named_once() {
    let mut end = Alone::new();
    end.gets(Opcode::WriteOnly, 502, reth(0, KEY, 1), 1);
    end.gets(Opcode::WriteOnly, 503, reth(0, KEY, 1), 1);
    assert_eq!(end.sends(), ["Acknowledge 500 0x60 msn 0"]);
    end.gets(Opcode::WriteOnly, 500, reth(0, KEY, 1), 1);
    end.gets(Opcode::WriteOnly, 502, reth(0, KEY, 1), 1);
    assert_eq!(end.sends(), ["Acknowledge 501 0x60 msn 1"]);
    assert_eq!(end.nic.counters().out_of_sequence, 2);
}

#[test]
fn the_nak_of_a_gap_takes_a_slow_path() {
    let mut end = Alone::with(&[with_rc(RcParameters { nak_delay: Time::from_us(20), ..CONNECTION.rc })]);
    end.gets(Opcode::WriteOnly, RECEIVES_FROM + 1, reth(0x4000, KEY, 10), 10);
    assert_eq!(end.sends(), [""; 0], "it is on its way");
    end.passes(Time::from_us(20));
    assert_eq!(end.sends(), ["Acknowledge 500 0x60 msn 0"]);
    // A gap that is filled meanwhile has none.
    end.gets(Opcode::WriteOnly, RECEIVES_FROM, reth(0x4000, KEY, 10), 10);
    end.gets(Opcode::WriteOnly, RECEIVES_FROM + 2, reth(0x4000, KEY, 10), 10);
    end.gets(Opcode::WriteOnly, RECEIVES_FROM + 1, reth(0x4000, KEY, 10), 10);
    end.passes(Time::from_us(40));
    assert_eq!(end.sends(), ["Acknowledge 501 0x1f msn 2"]);
    assert_eq!(end.nic.counters().out_of_sequence, 2);
}

#[test]
fn without_a_receive_an_rnr_nak_says_so_and_silence_follows() {
    let mut end = Alone::new();
    end.gets(Opcode::SendOnly, 500, Extension::None, 1);
    end.gets(Opcode::SendOnly, 501, Extension::None, 1);
    assert_eq!(end.sends(), ["Acknowledge 500 0x21 msn 0"], "10 us");
    end.post_receive(KEY, 10);
    assert_eq!(end.gets(Opcode::SendOnly, 501, Extension::None, 1), None);
    assert_eq!(end.gets(Opcode::SendOnly, 500, Extension::None, 1), Some(0x4000));
    assert_eq!(end.sends(), ["Acknowledge 500 0x1f msn 1"]);
    // A WRITE with immediate takes its receive at its end.
    let write_first = end.gets(Opcode::WriteFirst, 501, reth(0, KEY, 1025), 1024);
    assert_eq!(write_first, Some(0));
    assert_eq!(end.gets(Opcode::WriteLastWithImmediate, 502, Extension::ImmDt(ImmDt(3)), 1), None);
    assert_eq!(end.sends(), ["Acknowledge 502 0x21 msn 1"]);
    end.post_receive(KEY, 0);
    assert_eq!(end.gets(Opcode::WriteLastWithImmediate, 502, Extension::ImmDt(ImmDt(3)), 1), Some(0x400));
    let (qpn, status, immediate) = (0x11, Status::Success, Some(ImmDt(3)));
    assert_eq!(end.events()[1], Event::Received { qpn, wr_id: 1, status, length: 1025, immediate });
}

#[test]
fn what_may_not_be_is_refused_with_its_code() {
    use NakCode::*;
    use Opcode::*;
    let none = Extension::None;
    let cases = [
        ("a key that nobody has", WriteOnly, reth(0, 3, 1), 1, RemoteAccessError),
        ("a region that is closed", WriteOnly, reth(0, KEY + 1, 1), 1, RemoteAccessError),
        ("one byte too many", WriteFirst, reth(MEMORY as u64 - 2000, KEY, 2001), 1024, RemoteAccessError),
        ("the end of all addresses", WriteOnly, reth(u64::MAX, KEY, 2), 2, RemoteAccessError),
        ("reading there", ReadRequest, reth(0, KEY + 1, 1), 0, RemoteAccessError),
        ("no first packet", WriteMiddle, none, 1024, InvalidRequest),
        ("no first packet", SendLast, none, 1, InvalidRequest),
        ("a short first packet", WriteFirst, reth(0, KEY, 2000), 1000, InvalidRequest),
        ("a message that ends too early", WriteOnly, reth(0, KEY, 5), 4, InvalidRequest),
        ("a message that goes on too long", WriteOnly, reth(0, KEY, 5), 6, InvalidRequest),
        ("a first packet that is all", WriteFirst, reth(0, KEY, 1024), 1024, InvalidRequest),
        ("above the MTU", SendOnly, none, 1025, InvalidRequest),
        ("above 2 GiB", ReadRequest, reth(0, KEY, (1 << 31) + 1), 0, InvalidRequest),
        ("longer than its receive", SendOnly, none, 101, InvalidRequest),
        ("no atomics here", FetchAdd, Extension::AtomicEth(AtomicEth::default()), 0, InvalidRequest),
    ];
    for (what, opcode, extension, payload_len, code) in cases {
        let mut end = Alone::new();
        end.post_receive(KEY, 100);
        end.post(SEND, 1);
        assert_eq!(end.gets(opcode, 500, extension, payload_len), None, "{what}");
        assert_eq!(end.sends(), [format!("Acknowledge 500 {:#04x} msn 0", 0x60 | code as u8)], "{what}");
        let (qpn, status) = (0x11, Status::Flushed);
        let expected = [
            Event::Failed { qpn, failure: Failure::RefusedPeer(code) },
            sent(1, status),
            Event::Received { qpn, wr_id: 1, status, length: 0, immediate: None },
        ];
        assert_eq!(end.events(), expected, "{what}");
        assert_eq!(end.gets(WriteOnly, 500, reth(0, KEY, 1), 1), None, "{what}: it is in error");
        assert_eq!(end.sends(), [""; 0]);
    }
    // A receive that lies outside its region is this end's fault, not the peer's.
    let mut end = Alone::new();
    end.post_receive(KEY + 1, 1 << 20);
    end.gets(SendOnly, 500, none, 1);
    assert_eq!(end.sends(), ["Acknowledge 500 0x63 msn 0"]);
}

#[test]
fn an_empty_write_or_read_needs_no_key() {
    let mut end = Alone::new();
    end.gets(Opcode::WriteOnly, 500, reth(u64::MAX, 3, 0), 0);
    end.gets(Opcode::ReadRequest, 501, reth(u64::MAX, 3, 0), 0);
    assert_eq!(end.sends(), ["Acknowledge 500 0x1f msn 1", "ReadResponseOnly 501 0x1f msn 2"]);
}

#[test]
fn psns_wrap() {
    let psn = 0xff_ffff;
    let mut end = Alone::with(&[Connection { sq_psn: psn, rq_psn: psn, ..connection() }]);
    end.post(READ, 2048);
    end.post(write(None), 1);
    let psn_of = |text: &String| text.split(' ').nth(1).unwrap().to_string();
    assert_eq!(end.sends().iter().map(psn_of).collect::<Vec<_>>(), ["16777215", "1"]);
    assert_eq!(end.gets(Opcode::ReadResponseFirst, psn, AETH, 1024), Some(0x8000));
    assert_eq!(end.gets(Opcode::ReadResponseLast, 0, AETH, 1024), Some(0x8400));
    end.gets_syndrome(1, Syndrome::ACK);
    assert_eq!(end.events().len(), 2);
    end.gets(Opcode::ReadRequest, psn, reth(0, KEY, 2048), 0);
    assert_eq!(end.sends().iter().map(psn_of).collect::<Vec<_>>(), ["16777215", "0"]);
}

#[test]
fn queue_pairs_take_turns_and_acks_go_first() {
    let mut end = Alone::with(&[connection(), Connection { sq_psn: 200, ..connection() }]);
    end.post(SEND, 2048);
    let request = SendRequest { wr_id: 0, operation: SEND, address: 0, length: 2048 };
    end.nic.post_send(end.now, 0x12, request).unwrap();
    end.gets(Opcode::WriteOnly, 500, reth(0, KEY, 1), 1);
    let opcodes: Vec<_> =
        end.sends().iter().map(|text| text.split(',').next().unwrap().to_string()).collect();
    assert_eq!(
        opcodes,
        ["Acknowledge 500 0x1f msn 1", "SendFirst 100", "SendFirst 200", "SendLast 101", "SendLast 201"]
    );
}

#[test]
fn responses_and_requests_of_a_queue_pair_take_turns() {
    let mut end = Alone::new();
    end.gets(Opcode::ReadRequest, 500, reth(0, KEY, 3000), 0);
    end.post(SEND, 2048);
    let opcodes: Vec<_> =
        end.sends().iter().map(|text| text.split(' ').next().unwrap().to_string()).collect();
    let expected = ["ReadResponseFirst", "SendFirst", "ReadResponseMiddle", "SendLast", "ReadResponseLast"];
    assert_eq!(opcodes, expected);
}

#[test]
fn silence_is_followed_by_a_retry_that_waits_longer_each_time() {
    let mut end = Alone::new();
    end.post(SEND, 1);
    let mut at = Vec::new();
    while end.events().is_empty() {
        at.extend(end.sends().iter().map(|_| end.now.0 / 1_000_000));
        end.now = end.nic.next_timeout().unwrap_or(end.now).max(end.now);
    }
    assert_eq!(at[..6], [0, 100, 300, 700, 1500, 2500], "100 us, doubled up to 1 ms");
    assert_eq!(*at.last().unwrap(), 7500, "and given up after 8 ms");
    assert_eq!(end.nic.counters().local_ack_timeout_err, at.len() as u64);
}

#[test]
fn what_is_for_nobody_is_ignored() {
    let mut end = Alone::new();
    let lonely = end.nic.create_queue_pair();
    for dest_qp in [0, 0x10, lonely, lonely + 1, 0xff_ffff] {
        let bth = Bth::new(Opcode::SendOnly, dest_qp, 500, 1);
        let headers = TransportHeaders { bth, extension: Extension::None };
        assert_eq!(end.nic.on_packet(end.now, &headers, 1, true), None);
    }
    end.gets(Opcode::Other(0x24), 500, Extension::None, 1);
    assert_eq!(end.sends(), [""; 0]);
    let receive = ReceiveRequest { wr_id: 1, l_key: KEY, address: 0, length: 1 };
    assert_eq!(end.nic.post_receive(lonely, receive), Err(PostError::NoQueuePair));
    let request = SendRequest { wr_id: 0, operation: SEND, address: 0, length: MAX_MESSAGE_BYTES + 1 };
    assert_eq!(end.nic.post_send(end.now, 0x11, request), Err(PostError::TooLong));
    assert_eq!(end.nic.connect(0x11, connection()), Err(PostError::NoQueuePair), "it is connected");
}
