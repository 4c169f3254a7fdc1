//! Frames against captures of others, as bytes and back, and under arbitrary bytes.
//!
//! `data/rxe_write.pcap` was captured between two Soft-RoCE devices of Linux: five WRITEs of 10,000 B and their ACKs.

use pcap_file::pcap::PcapReader;
use proptest::prelude::*;
use std::net::{Ipv4Addr, Ipv6Addr};
use tailback_proto::wire::bth::cnp;
use tailback_proto::wire::ip::{CE, ECT_0, PROTOCOL_UDP};
use tailback_proto::wire::*;

const RXE: &[u8] = include_bytes!("data/rxe_write.pcap");

fn rxe_frames() -> Vec<Vec<u8>> {
    let mut reader = PcapReader::new(RXE).unwrap();
    let mut frames = Vec::new();
    while let Some(packet) = reader.next_packet() {
        frames.push(packet.unwrap().data.into_owned());
    }
    frames
}

fn emit(frame: &Frame) -> Vec<u8> {
    let mut bytes = vec![0xaa; frame.frame_len()];
    assert_eq!(frame.emit(&mut bytes), Ok(bytes.len()));
    bytes
}

/// A CNP of a ConnectX-4 Lx (captured; scapy's tests have it, too): field by field, and its ICRC.
fn connectx_cnp() -> Frame<'static> {
    Frame {
        destination: MacAddress([0xe4, 0x1d, 0x2d, 0xab, 0x2b, 0xc2]),
        source: MacAddress([0x7c, 0xfe, 0x90, 0x64, 0x3b, 0x32]),
        tag: None,
        ip: Ip::V4(Ipv4 {
            dscp: 48,
            ecn: ECT_0,
            identification: 0x718c,
            dont_fragment: true,
            time_to_live: 64,
            protocol: PROTOCOL_UDP,
            source: Ipv4Addr::new(10, 0, 17, 1),
            destination: Ipv4Addr::new(10, 0, 18, 1),
        }),
        udp: Udp { source_port: 0, destination_port: Udp::ROCE_PORT, checksum: 0 },
        headers: cnp(0x118),
        payload: &[],
    }
}

#[test]
fn a_cnp_is_that_of_a_connectx() {
    let bytes = emit(&connectx_cnp());
    assert_eq!(bytes.len() as u32, CNP_FRAME_BYTES - FCS_BYTES);
    assert_eq!(bytes[24..26], [0x91, 0x61], "header checksum");
    assert_eq!(bytes[70..], [0x82, 0xfd, 0x00, 0x2a], "ICRC");
    assert_eq!(Frame::parse(&bytes), Ok(connectx_cnp()));
}

/// The packet of an unreliable connection in scapy's tests: an opcode that is not read here, two bytes of pad.
#[test]
fn the_icrc_of_an_unreliable_send_is_that_of_scapy() {
    let payload = b"F0\x81\x8b\xe2\x895\xd9\x0e\x9a\x95PT\x01\xbe\x88^P";
    let mac = MacAddress([0x24, 0x8a, 0x07, 0xa8, 0xfa, 0x22]);
    let address = Ipv4Addr::new(192, 168, 0, 7);
    let frame = Frame {
        destination: mac,
        source: mac,
        tag: None,
        ip: Ip::V4(Ipv4 {
            dscp: 0,
            ecn: 1,
            identification: 1144,
            dont_fragment: true,
            time_to_live: 64,
            protocol: PROTOCOL_UDP,
            source: address,
            destination: address,
        }),
        udp: Udp { source_port: 49152, destination_port: Udp::ROCE_PORT, checksum: 0xaca2 },
        headers: TransportHeaders {
            bth: Bth { mig_req: true, ..Bth::new(Opcode::Other(0x24), 211, 13_571_856, payload.len()) },
            extension: Extension::None,
        },
        payload,
    };
    let bytes = emit(&frame);
    assert_eq!(bytes[24..26], [0xb4, 0xd5], "header checksum");
    assert_eq!(bytes[bytes.len() - 4..], [0x78, 0xf3, 0x53, 0xf3], "ICRC");
    assert_eq!(Frame::parse(&bytes), Ok(frame));
}

#[test]
fn frames_of_linux_are_read_and_written_alike() {
    let frames = rxe_frames();
    assert_eq!(frames.len(), 55);
    let mut psn = None;
    for (number, bytes) in frames.iter().enumerate() {
        let frame = Frame::parse(bytes).unwrap_or_else(|error| panic!("frame {number}: {error}"));
        assert_eq!(&emit(&frame), bytes, "frame {number}");
        assert_eq!(frame.ip.ecn(), ECT_0);
        assert_eq!(bytes.len() as u32, {
            roce_frame_bytes(frame.headers.bth.opcode, frame.payload.len() as u32) - FCS_BYTES
        });
        let bth = frame.headers.bth;
        if number < 50 {
            assert_eq!(bth.psn, psn.map_or(bth.psn, |psn: u32| psn + 1), "one after the other");
            psn = Some(bth.psn);
            assert_eq!(bth.ack_req, bth.opcode == Opcode::WriteLast);
        }
    }
    let message = &frames[..10];
    let opcodes: Vec<_> = message.iter().map(|b| Frame::parse(b).unwrap().headers.bth.opcode).collect();
    assert_eq!((opcodes[0], opcodes[1], opcodes[9]), {
        (Opcode::WriteFirst, Opcode::WriteMiddle, Opcode::WriteLast)
    });
    let first = Frame::parse(&message[0]).unwrap();
    assert_eq!(first.headers.extension, {
        Extension::Reth(Reth { va: 0x55fb_c3bb_a710, r_key: 0x2ef, dma_len: 10_000 })
    });
    let bytes: usize = message.iter().map(|b| Frame::parse(b).unwrap().payload.len()).sum();
    assert_eq!(bytes, 10_000);
    let ack = Frame::parse(&frames[50]).unwrap();
    assert_eq!(ack.headers.extension, Extension::Aeth(Aeth { syndrome: Syndrome::ACK, msn: 1 }));
    assert_eq!(ack.headers.bth.psn, Frame::parse(&message[9]).unwrap().headers.bth.psn);
}

#[test]
fn an_empty_send_is_padded_to_the_shortest_frame() {
    let headers = TransportHeaders { bth: Bth::new(Opcode::SendOnly, 1, 1, 0), extension: Extension::None };
    let frame = Frame { headers, ..connectx_cnp() };
    let bytes = emit(&frame);
    assert_eq!(bytes.len() as u32, roce_frame_bytes(Opcode::SendOnly, 0) - FCS_BYTES);
    assert_eq!((bytes.len(), &bytes[58..]), (60, &[0; 2][..]));
    assert_eq!(Frame::parse(&bytes), Ok(frame));
}

#[test]
fn what_switches_change_leaves_the_icrc_valid() {
    let mut bytes = rxe_frames().swap_remove(0);
    let mut ip = match Frame::parse(&bytes).unwrap().ip {
        Ip::V4(ip) => ip,
        Ip::V6(_) => unreachable!(),
    };
    (ip.ecn, ip.dscp, ip.time_to_live) = (CE, 26, 63);
    let payload_len = (bytes.len() - Ethernet::LEN - Ipv4::LEN) as u16;
    ip.emit(payload_len, &mut bytes[Ethernet::LEN..]);
    assert_eq!(Frame::parse(&bytes).unwrap().ip, Ip::V4(ip));
    ip.identification += 1;
    ip.emit(payload_len, &mut bytes[Ethernet::LEN..]);
    assert_eq!(Frame::parse(&bytes), Err(Error::Icrc));
}

#[test]
fn a_pfc_frame_is_a_shortest_frame() {
    let pfc = Pfc {
        source: MacAddress([2, 0, 0, 0, 0, 1]),
        class_enable_vector: 0b1000_1000,
        time: [0, 0, 0, 0xffff, 0, 0, 0, 0],
    };
    let mut bytes = [0xaa; Pfc::LEN];
    pfc.emit(&mut bytes);
    let mut expected = [0; 60];
    expected[..18]
        .copy_from_slice(&[0x01, 0x80, 0xc2, 0, 0, 1, 2, 0, 0, 0, 0, 1, 0x88, 0x08, 0x01, 0x01, 0x00, 0x88]);
    expected[24..26].copy_from_slice(&[0xff, 0xff]);
    assert_eq!(bytes, expected);
    assert_eq!(Pfc::parse(&bytes), Ok(pfc));
    assert_eq!(Pfc::parse(&bytes[..33]), Err(Error::Truncated));
}

#[test]
fn what_cannot_be_a_packet_is_not_written() {
    let mut buffer = vec![0; 1 << 17];
    let mut frame = connectx_cnp();
    assert_eq!(frame.emit(&mut buffer[..73]), Err(Error::BufferTooShort));
    frame.headers.bth.opcode = Opcode::Acknowledge;
    assert_eq!(frame.emit(&mut buffer), Err(Error::Opcode), "no AETH");
    frame.headers.extension = Extension::ImmDt(ImmDt(1));
    assert_eq!(frame.emit(&mut buffer), Err(Error::Opcode), "as long as an AETH, and none");
    frame.headers = TransportHeaders { bth: Bth::new(Opcode::SendOnly, 1, 1, 0), extension: Extension::None };
    frame.payload = &[1, 2, 3];
    assert_eq!(frame.emit(&mut buffer), Err(Error::Length), "pad count of another payload");
    let long = vec![0; 1 << 16];
    frame.payload = &long;
    assert_eq!(frame.emit(&mut buffer), Err(Error::Length), "longer than IP can say");
}

#[test]
fn what_is_not_read_is_refused() {
    let good = rxe_frames().swap_remove(54);
    let parsed_with = |at: usize, byte: u8| {
        let mut bytes = good.clone();
        bytes[at] = byte;
        Frame::parse(&bytes).map(|_| ())
    };
    assert_eq!(parsed_with(12, 0x88), Err(Error::Unsupported), "EtherType");
    assert_eq!(parsed_with(14, 0x46), Err(Error::Unsupported), "IPv4 options");
    assert_eq!(parsed_with(20, 0x20), Err(Error::Unsupported), "a fragment");
    assert_eq!(parsed_with(24, 0), Err(Error::Checksum));
    assert_eq!(parsed_with(36, 0), Err(Error::Unsupported), "UDP port");
    assert_eq!(parsed_with(39, 0), Err(Error::Length), "UDP length");
    for len in 0..good.len() {
        assert!(Frame::parse(&good[..len]).is_err(), "{len} bytes");
    }
    let padded = [&good[..], &[0; 20]].concat();
    assert_eq!(Frame::parse(&padded), Frame::parse(&good), "Ethernet's pad");
}

fn extension(kind: ExtensionKind) -> BoxedStrategy<Extension> {
    let reth = (any::<u64>(), any::<u32>(), any::<u32>()).prop_map(|(va, r_key, dma_len)| Reth {
        va,
        r_key,
        dma_len,
    });
    let aeth =
        (any::<u8>(), 0..1u32 << 24).prop_map(|(byte, msn)| Aeth { syndrome: Syndrome::from(byte), msn });
    match kind {
        ExtensionKind::None => Just(Extension::None).boxed(),
        ExtensionKind::Reth => reth.prop_map(Extension::Reth).boxed(),
        ExtensionKind::RethImmDt => (reth, any::<u32>())
            .prop_map(|(reth, immediate)| Extension::RethImmDt(reth, ImmDt(immediate)))
            .boxed(),
        ExtensionKind::ImmDt => any::<u32>().prop_map(|n| Extension::ImmDt(ImmDt(n))).boxed(),
        ExtensionKind::Aeth => aeth.prop_map(Extension::Aeth).boxed(),
        ExtensionKind::AtomicAck => (aeth, any::<u64>())
            .prop_map(|(aeth, orig_rem_dt)| Extension::AtomicAck(aeth, AtomicAckEth { orig_rem_dt }))
            .boxed(),
        ExtensionKind::AtomicEth => any::<(u64, u32, u64, u64)>()
            .prop_map(|(va, r_key, swap_dt, cmp_dt)| {
                Extension::AtomicEth(AtomicEth { va, r_key, swap_dt, cmp_dt })
            })
            .boxed(),
        ExtensionKind::CnpReserved => Just(Extension::CnpReserved).boxed(),
    }
}

prop_compose! {
    fn transport_headers(payload_len: usize)(opcode in any::<u8>().prop_map(Opcode::from))(
        extension in extension(opcode.extension()),
        opcode in Just(opcode),
        flags in any::<[bool; 5]>(),
        t_ver in 0..16u8,
        p_key in any::<u16>(),
        dest_qp in 0..1u32 << 24,
        psn in 0..1u32 << 24,
    ) -> TransportHeaders {
        let [solicited_event, mig_req, fecn, becn, ack_req] = flags;
        let new = Bth::new(opcode, dest_qp, psn, payload_len);
        let bth = Bth { solicited_event, mig_req, t_ver, p_key, fecn, becn, ack_req, ..new };
        TransportHeaders { bth, extension }
    }
}

fn ip() -> impl Strategy<Value = Ip> {
    let fields = (0..64u8, 0..4u8, any::<u16>(), any::<bool>(), 0..1u32 << 20, any::<u8>());
    let addresses = any::<(u128, u128)>();
    (any::<bool>(), fields, addresses).prop_map(|(is_v4, fields, (source, destination))| {
        let (dscp, ecn, identification, dont_fragment, flow_label, hops) = fields;
        if is_v4 {
            Ip::V4(Ipv4 {
                dscp,
                ecn,
                identification,
                dont_fragment,
                time_to_live: hops,
                protocol: PROTOCOL_UDP,
                source: Ipv4Addr::from_bits(source as u32),
                destination: Ipv4Addr::from_bits(destination as u32),
            })
        } else {
            Ip::V6(Ipv6 {
                dscp,
                ecn,
                flow_label,
                next_header: PROTOCOL_UDP,
                hop_limit: hops,
                source: Ipv6Addr::from_bits(source),
                destination: Ipv6Addr::from_bits(destination),
            })
        }
    })
}

fn tag() -> impl Strategy<Value = Option<Tag>> {
    proptest::option::of((0..8u8, any::<bool>(), 0..4096u16).prop_map(|(pcp, dei, vid)| Tag {
        pcp,
        dei,
        vid,
    }))
}

/// A frame's bytes, and what it was made from.
fn with_frame(test: impl Fn(Frame, Vec<u8>) -> Result<(), TestCaseError>) {
    let payload = proptest::collection::vec(any::<u8>(), 0..300);
    let strategy = (
        any::<([u8; 6], [u8; 6], u16, u16)>(),
        tag(),
        ip(),
        payload.prop_flat_map(|payload| (transport_headers(payload.len()), Just(payload))),
    );
    proptest!(|((addresses, tag, ip, (headers, payload)) in strategy)| {
        let (destination, source, source_port, checksum) = addresses;
        let frame = Frame {
            destination: MacAddress(destination),
            source: MacAddress(source),
            tag,
            ip,
            udp: Udp { source_port, destination_port: Udp::ROCE_PORT, checksum },
            headers,
            payload: &payload,
        };
        let mut bytes = vec![0xaa; frame.frame_len()];
        prop_assert_eq!(frame.emit(&mut bytes), Ok(bytes.len()));
        test(frame, bytes)?;
    });
}

#[test]
fn every_frame_comes_back() {
    with_frame(|frame, bytes| {
        prop_assert_eq!(Frame::parse(&bytes), Ok(frame));
        Ok(())
    });
}

/// One bit changed: refused, unless it is one that the ICRC leaves out. Of the IP header that is what routers change.
#[test]
fn a_changed_bit_is_seen_but_where_the_icrc_leaves_it_out() {
    with_frame(|frame, bytes| {
        let ip_at = Ethernet::LEN + if frame.tag.is_some() { Vlan::LEN } else { 0 };
        let udp_at = ip_at + frame.ip.header_len();
        let transport_len = frame.headers.header_len() + frame.payload.len().next_multiple_of(4) + icrc::LEN;
        let packet_end = udp_at + Udp::LEN + transport_len;
        let is_open = |at: usize, bit: u8| match (at, frame.ip) {
            (at, _) if at < ip_at => at < 12 || (frame.tag.is_some() && (at == 14 || at == 15)),
            // IPv4's checksum covers what its ICRC does not.
            (at, Ip::V4(_)) if at < udp_at => false,
            (at, Ip::V6(_)) if at < udp_at => match at - ip_at {
                0 => bit < 4,
                1..=3 | 7 => true,
                _ => false,
            },
            (at, _) if at < udp_at + Udp::LEN => at - udp_at >= 6,
            (at, _) if at >= packet_end => true, // Ethernet's pad
            (at, _) => at == udp_at + Udp::LEN + 4,
        };
        for at in 0..bytes.len() {
            for bit in 0..8 {
                let mut changed = bytes.clone();
                changed[at] ^= 1 << bit;
                prop_assert_eq!(Frame::parse(&changed).is_ok(), is_open(at, bit), "byte {} bit {}", at, bit);
            }
        }
        Ok(())
    });
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(20_000))]

    #[test]
    fn no_bytes_make_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let _ = (Frame::parse(&bytes), Pfc::parse(&bytes), TransportHeaders::parse(&bytes), Udp::parse(&bytes));
        let _ = (Ipv4::parse(&bytes), Ipv6::parse(&bytes), Vlan::parse(&bytes), icrc::icrc(&bytes));
    }

    /// Bytes that get far: a good frame with some of them overwritten, its ICRC made good again, and cut.
    #[test]
    fn no_frame_makes_it_panic(
        number in 0..55usize,
        changes in proptest::collection::vec((0..80usize, any::<u8>()), 0..6),
        len in 0..1100usize,
    ) {
        thread_local!(static FRAMES: Vec<Vec<u8>> = rxe_frames());
        let mut bytes = FRAMES.with(|frames| frames[number].clone());
        for (at, byte) in changes {
            if let Some(place) = bytes.get_mut(at) {
                *place = byte;
            }
        }
        let end = bytes.len() - icrc::LEN;
        if let Ok(good) = icrc::icrc(&bytes[Ethernet::LEN..end]) {
            bytes[end..].copy_from_slice(&good.to_le_bytes());
        }
        let _ = Frame::parse(&bytes);
        bytes.truncate(len);
        if let Ok(frame) = Frame::parse(&bytes) {
            let _ = frame.emit(&mut [0; 1200]);
        }
    }
}
