//! Writes frames of every kind into a capture, and what they hold onto standard output, a line of JSON each: for
//! programs that read captures, Wireshark for one.
//!
//! `cargo run --package tailback-proto --example frames -- frames.pcap`

use pcap_file::pcap::{PcapPacket, PcapWriter};
use serde_json::{json, Value};
use std::net::{Ipv4Addr, Ipv6Addr};
use std::time::Duration;
use tailback_proto::wire::bth::cnp;
use tailback_proto::wire::ip::{CE, ECT_0, PROTOCOL_UDP};
use tailback_proto::wire::*;

const SOURCE: MacAddress = MacAddress([2, 0, 0, 0, 0, 1]);
const DESTINATION: MacAddress = MacAddress([2, 0, 0, 0, 0, 2]);

fn ips() -> [Ip; 2] {
    [
        Ip::V4(Ipv4 {
            dscp: 26,
            ecn: ECT_0,
            identification: 0x1234,
            dont_fragment: true,
            time_to_live: 64,
            protocol: PROTOCOL_UDP,
            source: Ipv4Addr::new(10, 0, 0, 1),
            destination: Ipv4Addr::new(10, 0, 0, 2),
        }),
        Ip::V6(Ipv6 {
            dscp: 26,
            ecn: CE,
            flow_label: 0xa_bcde,
            next_header: PROTOCOL_UDP,
            hop_limit: 64,
            source: Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 1),
            destination: Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 2),
        }),
    ]
}

/// Extended headers of a kind, with fields that differ from frame to frame.
fn extension(kind: ExtensionKind, number: u32) -> Extension {
    let reth = Reth { va: 0x7f00_1234_5000 + number as u64, r_key: 0x1_0000 + number, dma_len: 1 << 20 };
    let immediate = ImmDt(0xdead_0000 + number);
    let syndromes = [
        Syndrome::ACK,
        Syndrome::Ack { credit_count: 3 },
        Syndrome::RnrNak { timer: 14 },
        Syndrome::Nak(NakCode::PsnSequenceError),
        Syndrome::Nak(NakCode::InvalidRequest),
        Syndrome::Nak(NakCode::RemoteAccessError),
        Syndrome::Nak(NakCode::RemoteOperationalError),
    ];
    let aeth = Aeth { syndrome: syndromes[number as usize % syndromes.len()], msn: 0xff_ff00 + number % 256 };
    match kind {
        ExtensionKind::None => Extension::None,
        ExtensionKind::Reth => Extension::Reth(reth),
        ExtensionKind::RethImmDt => Extension::RethImmDt(reth, immediate),
        ExtensionKind::ImmDt => Extension::ImmDt(immediate),
        ExtensionKind::Aeth => Extension::Aeth(aeth),
        ExtensionKind::AtomicAck => {
            Extension::AtomicAck(aeth, AtomicAckEth { orig_rem_dt: u64::MAX - number as u64 })
        }
        ExtensionKind::AtomicEth => Extension::AtomicEth(AtomicEth {
            va: reth.va & !7,
            r_key: reth.r_key,
            swap_dt: 1 << 40,
            cmp_dt: number as u64,
        }),
        ExtensionKind::CnpReserved => Extension::CnpReserved,
    }
}

/// Payloads that packets of an opcode may have.
fn payload_lengths(opcode: Opcode) -> &'static [usize] {
    use Opcode::*;
    match opcode {
        SendFirst | SendMiddle | WriteFirst | WriteMiddle | ReadResponseFirst | ReadResponseMiddle => {
            &[256, 1024, 4096]
        }
        ReadRequest | Acknowledge | AtomicAcknowledge | CompareSwap | FetchAdd | Cnp | Other(_) => &[0; 7],
        _ => &[0, 1, 2, 3, 4, 1023],
    }
}

fn described(frame: &Frame, bytes: &[u8]) -> Value {
    let Frame { tag, ip, udp, headers, payload, .. } = frame;
    let bth = &headers.bth;
    let tag_len = if tag.is_some() { Vlan::LEN } else { 0 };
    let transport_len = headers.header_len() + payload.len() + bth.pad_cnt as usize;
    let icrc_at = Ethernet::LEN + tag_len + ip.header_len() + Udp::LEN + transport_len;
    let dscp = match ip {
        Ip::V4(ip) => ip.dscp,
        Ip::V6(ip) => ip.dscp,
    };
    let mut fields = json!({
        "dscp": dscp, "ecn": ip.ecn(), "source_port": udp.source_port,
        "opcode": u8::from(bth.opcode), "solicited_event": bth.solicited_event, "mig_req": bth.mig_req,
        "pad_cnt": bth.pad_cnt, "t_ver": bth.t_ver, "p_key": bth.p_key, "fecn": bth.fecn, "becn": bth.becn,
        "dest_qp": bth.dest_qp, "ack_req": bth.ack_req, "psn": bth.psn, "payload": payload.len(),
        "icrc": u32::from_be_bytes(*bytes[icrc_at..].first_chunk().expect("it has an ICRC")),
    });
    let mut add = |name: &str, value: u64| fields[name] = json!(value);
    if let Some(tag) = tag {
        add("pcp", tag.pcp as u64);
        add("vid", tag.vid as u64);
    }
    if let Extension::Reth(reth) | Extension::RethImmDt(reth, _) = headers.extension {
        add("va", reth.va);
        add("r_key", reth.r_key as u64);
        add("dma_len", reth.dma_len as u64);
    }
    if let Extension::ImmDt(immediate) | Extension::RethImmDt(_, immediate) = headers.extension {
        add("immediate", immediate.0 as u64);
    }
    if let Extension::Aeth(aeth) | Extension::AtomicAck(aeth, _) = headers.extension {
        add("syndrome", u8::from(aeth.syndrome) as u64);
        add("msn", aeth.msn as u64);
    }
    if let Extension::AtomicAck(_, atomic) = headers.extension {
        add("orig_rem_dt", atomic.orig_rem_dt);
    }
    if let Extension::AtomicEth(atomic) = headers.extension {
        add("va", atomic.va);
        add("r_key", atomic.r_key as u64);
        add("swap_dt", atomic.swap_dt);
        add("cmp_dt", atomic.cmp_dt);
    }
    fields
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let path = std::env::args().nth(1).ok_or("which file?")?;
    let mut capture = PcapWriter::new(std::fs::File::create(path)?)?;
    let mut number = 0;
    let mut write = |bytes: &[u8], fields: Value| -> Result<(), Box<dyn std::error::Error>> {
        let packet = PcapPacket::new(Duration::from_micros(number), bytes.len() as u32, bytes);
        number += 1;
        println!("{fields}");
        Ok(capture.write_packet(&packet).map(|_| ())?)
    };
    let message: Vec<u8> = (0..4096u32).map(|i| (i * 31) as u8).collect();
    let mut buffer = [0; 5000];
    let mut seed = 0;
    for ip in ips() {
        for tag in [None, Some(Tag { pcp: 3, dei: false, vid: 100 })] {
            for opcode in Opcode::RELIABLE_CONNECTION.into_iter().chain([Opcode::Cnp]) {
                for &len in payload_lengths(opcode) {
                    seed += 1;
                    let bth = Bth {
                        ack_req: seed % 3 == 0,
                        solicited_event: seed % 5 == 0,
                        mig_req: seed % 2 == 0,
                        ..Bth::new(opcode, 0x80_0000 + seed, 0xff_ffff - seed, len)
                    };
                    let headers = if opcode == Opcode::Cnp {
                        cnp(bth.dest_qp)
                    } else {
                        TransportHeaders { bth, extension: extension(opcode.extension(), seed) }
                    };
                    let udp = Udp {
                        source_port: 0xc000 + seed as u16,
                        destination_port: Udp::ROCE_PORT,
                        checksum: 0,
                    };
                    let payload = &message[..len];
                    let (source, destination) = (SOURCE, DESTINATION);
                    let frame = Frame { destination, source, tag, ip, udp, headers, payload };
                    let len = frame.emit(&mut buffer)?;
                    write(&buffer[..len], described(&frame, &buffer[..len]))?;
                }
            }
        }
    }
    for (class_enable_vector, time) in
        [(0b1000, [0, 0, 0, 0xffff, 0, 0, 0, 0]), (0xff, [1, 2, 3, 4, 5, 6, 7, 8]), (8, [0; 8])]
    {
        let pfc = Pfc { source: SOURCE, class_enable_vector, time };
        let mut bytes = [0; Pfc::LEN];
        pfc.emit(&mut bytes);
        write(&bytes, json!({"class_enable_vector": class_enable_vector, "time": time}))?;
    }
    Ok(())
}
