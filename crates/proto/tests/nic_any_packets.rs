//! A NIC under packets that no peer would send: it does not panic, and writes only where it was told to.

mod nic_link;

use nic_link::*;
use proptest::prelude::*;
use tailback_proto::nic::queue_pair::*;
use tailback_proto::nic::{Access, Connection, Nic, Region};
use tailback_proto::units::Time;
use tailback_proto::wire::*;

/// What is open to WRITEs, what READs of this end fill, and what its receive has.
const OPEN: Region =
    Region { address: 0x1000, length: 5000, access: Access { remote_write: true, remote_read: true } };
const FETCHED: (u64, u32) = (0x8000, 3000);
const RECEIVE: (u64, u32) = (0xc000, 2000);

fn extension(kind: ExtensionKind, numbers: (u64, u32, u32, u8)) -> Extension {
    let (va, r_key, n, byte) = numbers;
    let reth = Reth { va, r_key, dma_len: n };
    let aeth = Aeth { syndrome: Syndrome::from(byte), msn: n & 0xff_ffff };
    match kind {
        ExtensionKind::None => Extension::None,
        ExtensionKind::Reth => Extension::Reth(reth),
        ExtensionKind::RethImmDt => Extension::RethImmDt(reth, ImmDt(n)),
        ExtensionKind::ImmDt => Extension::ImmDt(ImmDt(n)),
        ExtensionKind::Aeth => Extension::Aeth(aeth),
        ExtensionKind::AtomicAck => Extension::AtomicAck(aeth, AtomicAckEth::default()),
        ExtensionKind::AtomicEth => Extension::AtomicEth(AtomicEth::default()),
        ExtensionKind::CnpReserved => Extension::CnpReserved,
    }
}

fn packet() -> impl Strategy<Value = (TransportHeaders, u32, bool, u16)> {
    let opcode = prop_oneof![9 => 0..21u8, 1 => any::<u8>()];
    let psn = prop_oneof![9 => (0..30u32).prop_map(|n| 0xff_fff8u32.wrapping_add(n) & 0xff_ffff), 1 => 0..1u32 << 24];
    let va = prop_oneof![(0..9000u64), any::<u64>()];
    let key = prop_oneof![9 => Just(KEY), 1 => any::<u32>()];
    let length = prop_oneof![4 => Just(256u32), 2 => 0..3000u32, 1 => any::<u32>()];
    let payload_len = prop_oneof![3 => Just(256u32), 2 => 0..300u32, 1 => Just(0), 1 => 0..65_536u32];
    let syndrome = prop_oneof![3 => Just(0x1f), 1 => any::<u8>(), 1 => Just(0x60), 1 => Just(0x21)];
    let numbers = (va, key, length, syndrome);
    (opcode, psn, numbers, payload_len, any::<(bool, bool)>(), 0..2000u16).prop_map(
        |(opcode, psn, numbers, payload_len, (ack_req, is_marked), later)| {
            let opcode = Opcode::from(opcode);
            let bth = Bth { ack_req, ..Bth::new(opcode, 0x11, psn, 0) };
            let extension = extension(opcode.extension(), numbers);
            (TransportHeaders { bth, extension }, payload_len, is_marked, later)
        },
    )
}

fn request(number: u64, operation: Operation, length: u32) -> SendRequest {
    SendRequest { wr_id: number, operation, address: FETCHED.0, length }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3000))]

    #[test]
    fn no_packets_make_it_panic(packets in proptest::collection::vec(packet(), 0..60)) {
        let mut nic = Nic::new(dcqcn()).unwrap();
        nic.register(KEY, OPEN);
        nic.register(KEY + 1, Region { address: RECEIVE.0, length: RECEIVE.1 as u64, access: Access::default() });
        let qpn = nic.create_queue_pair();
        let (sq_psn, rq_psn) = (0xff_fffa, 0xff_fff9);
        let connection = Connection { sq_psn, rq_psn, dest_qp: 0x22, path_mtu: 256, rnr_retry: 2, ..CONNECTION };
        nic.connect(qpn, connection).unwrap();
        let mut now = Time::ZERO;
        for number in 0..3 {
            let read = Operation::Read { remote_address: u64::MAX - 5, r_key: 1 };
            nic.post_send(now, qpn, request(number, read, FETCHED.1)).unwrap();
            nic.post_send(now, qpn, request(number, Operation::Send { immediate: None }, 700)).unwrap();
            let (address, length) = RECEIVE;
            nic.post_receive(qpn, ReceiveRequest { wr_id: number, l_key: KEY + 1, address, length }).unwrap();
        }
        let mut ends = 0;
        for (headers, payload_len, is_marked, later) in packets {
            while let Some(sent) = nic.poll_transmit(now) {
                // What it sends can be written, and comes from memory that may be read.
                prop_assert_eq!(sent.headers.extension.kind(), sent.headers.bth.opcode.extension());
                let end = sent.payload.address + sent.payload.length as u64;
                let is_response = !sent.headers.bth.opcode.is_request();
                prop_assert!(!is_response || sent.payload.length == 0
                    || (sent.payload.address >= OPEN.address && end <= OPEN.address + OPEN.length));
            }
            if let Some(address) = nic.on_packet(now, &headers, payload_len, is_marked) {
                let end = address + payload_len as u64;
                let places = [(OPEN.address, OPEN.length), (FETCHED.0, FETCHED.1 as u64), (RECEIVE.0, RECEIVE.1 as u64)];
                let is_inside = places.iter().any(|&(from, length)| address >= from && end <= from + length);
                prop_assert!(is_inside, "{} B at {:#x} by {:?}", payload_len, address, headers);
            }
            now += Time::from_ns(later as u64 * 50);
            while let Some(event) = nic.poll_event() {
                ends += !matches!(event, Event::Failed { .. }) as usize;
            }
        }
        prop_assert!(ends <= 9, "a work request ends once");
    }
}
