//! Frames of RoCEv2, from what the simulator's packets say and what their connection knows.

use tailback_proto::nic::Messages;
use tailback_proto::wire::cnp::cnp;
use tailback_proto::wire::ipv4::PROTOCOL_UDP;
use tailback_proto::wire::{
    Aeth, Bth, Ethernet, Extension, Frame, Ip, Ipv4, NakCode, Opcode, Reth, Syndrome, TransportHeaders, Udp,
    FCS_BYTES,
};

use super::{host_mac, ipv4, put_pattern};
use crate::fabric::packet::{Kind, Packet, ACK_REQUEST};
use crate::world::World;

/// Number of the first queue pair: 0 and 1 have a meaning of their own (IBTA 3.9), and low numbers are often taken.
const FIRST_QP: u32 = 0x100;
/// Where the memory begins that is written to.
const FIRST_ADDRESS: u64 = 0x7f00_0000_0000;
/// Opcodes of RHCC's probe and of its answer, whose format is not published; assumption: two of a vendor's own.
const PROBE: Opcode = Opcode::Other(0xc0);
const PROBE_ANSWER: Opcode = Opcode::Other(0xc1);
/// What they carry, bytes: they are as long as a CNP.
const PROBE_PAYLOAD_BYTES: usize = 16;

/// Number of a queue pair, at both of its ends.
fn qp_number(qp: u32) -> u32 {
    (FIRST_QP + qp) & 0xff_ffff
}

/// Writes the frame of a packet.
pub(super) fn put(world: &World, packet: &Packet, dscp: u8, bytes: &mut Vec<u8>) {
    let s = &world.nics.send_qps[world.nics.slots.of(packet.qp) as usize];
    let src =
        if matches!(packet.kind, Kind::Data | Kind::Trimmed | Kind::Probe) { s.src } else { s.dst } as usize;
    let mut payload = Vec::new();
    let headers = headers(world, packet, &mut payload);
    let frame = Frame {
        destination: host_mac(packet.dst as usize),
        source: host_mac(src),
        tag: None,
        ip: Ip::V4(ipv4(packet, src, dscp, PROTOCOL_UDP)),
        // What ECMP hashes: a number of the connection's own among the dynamic ports, as Linux's rxe has it.
        udp: Udp {
            source_port: 0xc000 | (packet.qp & 0x3fff) as u16,
            destination_port: Udp::ROCE_PORT,
            checksum: 0,
        },
        headers,
        payload: &payload,
    };
    bytes.resize(frame.frame_len(), 0);
    frame.emit(bytes).expect("headers are those of their opcode, and a packet is no longer than an MTU");
    if packet.kind == Kind::Trimmed {
        // Cut, with the IP length and checksum made right (SAI, "Packet Trimming"); UDP tells the length that it had.
        bytes.truncate((packet.frame_bytes() - FCS_BYTES) as usize);
        let ip_len = (bytes.len() - Ethernet::LEN - Ipv4::LEN) as u16;
        ipv4(packet, src, dscp, PROTOCOL_UDP).emit(ip_len, &mut bytes[Ethernet::LEN..]);
    }
}

fn headers(world: &World, packet: &Packet, payload: &mut Vec<u8>) -> TransportHeaders {
    let s = &world.nics.send_qps[world.nics.slots.of(packet.qp) as usize];
    let writer = &world.nics.writers[s.writer as usize];
    let number = qp_number(packet.qp);
    let per_message = writer.writes.packets_per_message;
    match packet.kind {
        Kind::Data | Kind::Trimmed => {
            let psn = packet.psn();
            let sequence = s.half.requester.sequence_of(psn).unwrap_or(psn as u64);
            let position = sequence % per_message;
            let opcode = match (position == 0, position + 1 == per_message) {
                (true, true) => Opcode::WriteOnly,
                (true, false) => Opcode::WriteFirst,
                (false, false) => Opcode::WriteMiddle,
                (false, true) => Opcode::WriteLast,
            };
            let payload_bytes = writer.writes.segment(sequence).payload_bytes;
            put_pattern(payload, psn as u8, payload_bytes as usize);
            let mut bth = Bth::new(opcode, number, psn, payload.len());
            bth.ack_req = packet.flags & ACK_REQUEST != 0;
            bth.mig_req = true; // as ConnectX NICs send it
            let extension = if position == 0 {
                Extension::Reth(Reth {
                    va: FIRST_ADDRESS,
                    r_key: number,
                    dma_len: u32::try_from(writer.writes.message_bytes).unwrap_or(u32::MAX),
                })
            } else {
                Extension::None
            };
            TransportHeaders { bth, extension }
        }
        Kind::Ack | Kind::Nak => {
            let psn = packet.psn();
            let sequence = s.half.requester.sequence_of(psn).unwrap_or(psn as u64);
            // A NAK's PSN is the one that is expected: all before it arrived.
            let (syndrome, arrived) = match packet.kind {
                Kind::Ack => (Syndrome::ACK, sequence + 1),
                _ => (Syndrome::Nak(NakCode::PsnSequenceError), sequence),
            };
            let bth = Bth { mig_req: true, ..Bth::new(Opcode::Acknowledge, number, psn, 0) };
            let msn = (arrived / per_message) as u32 & 0xff_ffff;
            TransportHeaders { bth, extension: Extension::Aeth(Aeth { syndrome, msn }) }
        }
        Kind::Cnp => cnp(number),
        Kind::Probe | Kind::ProbeAck => {
            let opcode = if packet.kind == Kind::Probe { PROBE } else { PROBE_ANSWER };
            payload.resize(PROBE_PAYLOAD_BYTES, 0);
            TransportHeaders {
                bth: Bth::new(opcode, number, 0, PROBE_PAYLOAD_BYTES),
                extension: Extension::None,
            }
        }
        Kind::Tcp | Kind::TcpAck => unreachable!("they have frames of their own"),
    }
}
