//! Captures of anybody's making: no input makes reading one panic, and what is counted adds up.

use bolero::{check, TypeGenerator};
use std::io::Cursor;
use std::net::Ipv4Addr;
use tailback_analyze::report::Report;
use tailback_analyze::Analysis;
use tailback_proto::wire::{EtherType, Ethernet, Ipv4, MacAddress, Udp};

pub(crate) const RXE: &[u8] = include_bytes!("../../../crates/proto/tests/data/rxe_write.pcap");
/// Header of a pcap with nanoseconds, Ethernet.
pub(crate) const HEADER: [u8; 24] =
    [0x4d, 0x3c, 0xb2, 0xa1, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 4, 0, 1, 0, 0, 0];

fn analysed(bytes: Vec<u8>) -> Option<Report> {
    let mut analysis = Analysis::new(Cursor::new(bytes)).ok()?;
    while !analysis.advance(7).ok()? {}
    let report = analysis.finish();
    assert_eq!(report.classes.sum(), report.frames, "each frame is in one class");
    serde_json::to_string(&report).expect("it is data");
    Some(report)
}

/// Bytes of any kind.
#[test]
fn bytes() {
    check!().with_type::<Vec<u8>>().for_each(|bytes| {
        analysed(bytes.clone());
        analysed([&HEADER, &bytes[..]].concat());
    });
}

/// A real capture, changed here and there.
#[test]
fn changed() {
    check!().with_type::<Vec<(u16, u8)>>().for_each(|changes| {
        let mut bytes = RXE[..6000].to_vec();
        for &(at, byte) in changes {
            let at = at as usize % bytes.len();
            bytes[at] ^= byte;
        }
        analysed(bytes);
    });
}

/// Headers ahead of a packet, of any kind and depth: bytes of any kind behind an EtherType, in an interface of any link type.
#[test]
fn layers() {
    check!().with_type::<(u8, u16, Vec<u8>)>().for_each(|(link_type, ether_type, rest)| {
        let mut bytes = HEADER.to_vec();
        bytes[20] = *link_type;
        let frame = [&[2; 12], &ether_type.to_be_bytes()[..], rest].concat();
        for (at, frame) in [&frame[..], rest].into_iter().enumerate() {
            for word in [0, at, frame.len(), frame.len()] {
                bytes.extend((word as u32).to_le_bytes());
            }
            bytes.extend(frame);
        }
        analysed(bytes);
    });
}

/// pcapng of any resolution and offset of time, with blocks of any kind.
#[test]
fn blocks() {
    check!().with_type::<(u8, i64, Vec<(u8, Vec<u8>)>)>().for_each(|(resolution, offset, blocks)| {
        let block = |kind: u32, body: &[u8]| {
            let padded = body.len().next_multiple_of(4);
            let length = (padded as u32 + 12).to_le_bytes();
            [&kind.to_le_bytes(), &length, body, &vec![0; padded - body.len()], &length[..]].concat()
        };
        let section = [0x4d, 0x3c, 0x2b, 0x1a, 1, 0, 0, 0, 255, 255, 255, 255, 255, 255, 255, 255];
        let options = [&[9, 0, 1, 0, *resolution, 0, 0, 0, 14, 0, 8, 0][..], &offset.to_le_bytes()].concat();
        let interface = [&[1, 0, 0, 0, 0, 0, 4, 0], &options[..]].concat();
        let mut bytes = [block(0x0a0d_0d0a, &section), block(1, &interface)].concat();
        for (kind, body) in blocks {
            bytes.extend(block((kind % 8) as u32, body));
        }
        analysed(bytes);
    });
}

/// Packets of a few queue pairs, in any order and with any numbers, headers alone: then no ICRC tells that they are made up.
#[test]
fn packets() {
    #[derive(Debug, TypeGenerator)]
    struct Packet {
        opcode: u8,
        back: bool,
        qp: u8,
        psn: u8,
        wide: Option<u16>,
        flags: u8,
        syndrome: u8,
        after: u16,
        payload: u16,
        ce: bool,
    }
    check!().with_type::<Vec<Packet>>().for_each(|packets| {
        let mut bytes = HEADER.to_vec();
        let mut ns = 0u64;
        for packet in packets {
            ns += packet.after as u64;
            let frame = frame(packet.back, packet.ce, packet.payload, |bth| {
                bth[0] = packet.opcode;
                bth[7] = packet.qp & 3;
                bth[8] = packet.flags;
                bth[9..11].copy_from_slice(&packet.wide.unwrap_or(0).to_be_bytes());
                bth[11] = packet.psn;
                bth[12] = packet.syndrome;
            });
            let length = 54 + packet.payload as u32;
            for word in [(ns / 1_000_000_000) as u32, (ns % 1_000_000_000) as u32, frame.len() as u32, length]
            {
                bytes.extend(word.to_le_bytes());
            }
            bytes.extend(frame);
        }
        let Some(report) = analysed(bytes) else { return assert!(packets.is_empty()) };
        assert_eq!(report.frames, packets.len() as u64);
        for row in &report.found.connections {
            assert!(row.retransmitted + row.out_of_order <= row.packets, "{row:?}");
            assert!(row.new_payload_bytes <= row.payload_bytes && row.ce <= row.ect, "{row:?}");
            let begun: u64 = row.by_nak + row.by_rnr_nak + row.by_timeout + row.by_cause_not_seen;
            assert!(begun <= row.retransmitted, "{row:?}");
        }
    });
}

fn frame(back: bool, ce: bool, payload: u16, put: impl Fn(&mut [u8])) -> Vec<u8> {
    let mut bytes = vec![0; Ethernet::LEN + Ipv4::LEN + Udp::LEN + 40];
    let mac = MacAddress([2; 6]);
    Ethernet { destination: mac, source: mac, ether_type: EtherType::IPV4 }.emit(&mut bytes);
    let ends = [Ipv4Addr::new(10, 0, 0, 1), Ipv4Addr::new(10, 0, 0, 2)];
    let ip = Ipv4 {
        dscp: 0,
        ecn: if ce { 3 } else { 2 },
        identification: 0,
        dont_fragment: true,
        time_to_live: 64,
        protocol: 17,
        source: ends[back as usize],
        destination: ends[!back as usize],
    };
    let length = payload.min(9000) + 64;
    ip.emit(length + 8, &mut bytes[Ethernet::LEN..]);
    let datagram = &mut bytes[Ethernet::LEN + Ipv4::LEN..];
    Udp { source_port: 0xc000, destination_port: Udp::ROCE_PORT, checksum: 0 }.emit(length, datagram);
    put(&mut datagram[Udp::LEN..]);
    bytes
}
