//! How many bytes frames take: what the simulator counts.

use super::{icrc, Bth, Ethernet, Ipv4, Opcode, Pfc, Udp};

/// What a frame takes on the wire beyond its own bytes.
pub const PREAMBLE_AND_GAP_BYTES: u32 = (Ethernet::PREAMBLE_LEN + Ethernet::GAP_LEN) as u32;
/// Frame check sequence.
pub const FCS_BYTES: u32 = Ethernet::FCS_LEN as u32;
/// IPv4 header without options.
pub const IPV4_BYTES: u32 = Ipv4::LEN as u32;
/// TCP header without options (RFC 9293, 3.1).
pub const TCP_BYTES: u32 = 20;
/// TCP's timestamp option, padded (RFC 7323, 3.2 and appendix A).
pub const TCP_TIMESTAMP_BYTES: u32 = 12;

const fn frame(bytes: usize) -> u32 {
    if bytes < Ethernet::MIN_FRAME_LEN {
        Ethernet::MIN_FRAME_LEN as u32
    } else {
        bytes as u32
    }
}

/// RoCEv2 frame over IPv4 without VLAN tag, from destination address to FCS, in bytes. The payload is padded to a multiple
/// of 4 (BTH PadCnt).
pub const fn roce_frame_bytes(opcode: Opcode, payload: u32) -> u32 {
    let headers = Ethernet::LEN + Ipv4::LEN + Udp::LEN + Bth::LEN + opcode.extension().header_len();
    frame(headers + payload.next_multiple_of(4) as usize + icrc::LEN + Ethernet::FCS_LEN)
}

/// Frame of an RDMA WRITE packet, in bytes. `first`: the first or only packet of its message, which carries the RETH.
pub const fn write_frame_bytes(payload: u32, first: bool) -> u32 {
    roce_frame_bytes(if first { Opcode::WriteFirst } else { Opcode::WriteMiddle }, payload)
}

/// Frame of a TCP segment over IPv4 with a timestamp option, in bytes. Options are padded to words: 12 bytes for the
/// timestamp, and 4 and 8 for each of `sack_blocks` (RFC 2018, 3; RFC 7323, appendix A).
pub const fn tcp_frame_bytes(payload: u32, sack_blocks: u32) -> u32 {
    let sack = if sack_blocks > 0 { 4 + 8 * sack_blocks } else { 0 };
    let segment = IPV4_BYTES + TCP_BYTES + TCP_TIMESTAMP_BYTES + sack + payload;
    frame(Ethernet::LEN + segment as usize + Ethernet::FCS_LEN)
}

/// Frame of an ACK or NAK, in bytes.
pub const ACK_FRAME_BYTES: u32 = roce_frame_bytes(Opcode::Acknowledge, 0);

/// Frame of a congestion notification packet, in bytes.
pub const CNP_FRAME_BYTES: u32 = roce_frame_bytes(Opcode::Cnp, 0);

/// Frame of an RHCC probe and of its answer, in bytes. Its format is not published; assumption: as a CNP, with
/// timestamps in place of the reserved bytes.
pub const PROBE_FRAME_BYTES: u32 = CNP_FRAME_BYTES;

/// A PFC frame.
pub const PFC_FRAME_BYTES: u32 = (Pfc::LEN + Ethernet::FCS_LEN) as u32;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_middle_packet_of_4096_takes_4178_on_the_wire() {
        // 82 B of overhead a packet: 8 + 14 + 20 + 8 + 12 + 4 + 4 + 12.
        assert_eq!(write_frame_bytes(4096, false) + PREAMBLE_AND_GAP_BYTES, 4096 + 82);
        assert_eq!(write_frame_bytes(4096, true) + PREAMBLE_AND_GAP_BYTES, 4096 + 98);
    }

    #[test]
    fn sixteen_packets_of_a_64_kib_write_average_4179() {
        let total: u32 = (0..16).map(|i| write_frame_bytes(4096, i == 0) + PREAMBLE_AND_GAP_BYTES).sum();
        assert_eq!(total, 16 * 4179);
    }

    #[test]
    fn a_full_segment_at_mtu_1500_carries_1448_of_1538() {
        assert_eq!(tcp_frame_bytes(1448, 0) + PREAMBLE_AND_GAP_BYTES, 1538);
        assert_eq!(tcp_frame_bytes(0, 0), 70);
        assert_eq!(tcp_frame_bytes(0, 3), 98);
    }

    #[test]
    fn cnp_is_74_bytes_without_fcs() {
        assert_eq!(CNP_FRAME_BYTES - FCS_BYTES, 74);
    }

    #[test]
    fn short_frames_are_padded() {
        assert_eq!(write_frame_bytes(1, false), 66);
        assert_eq!(ACK_FRAME_BYTES, 66);
        assert_eq!(frame(20), 64);
    }
}
