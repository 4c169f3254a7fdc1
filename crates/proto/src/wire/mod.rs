//! RoCEv2, CNP, PFC and TCP frames: how many bytes each takes.
//!
//! Sources: InfiniBand architecture specification, annex A17 (RoCEv2) and section 9.2 (BTH, RETH, AETH);
//! IEEE 802.3 (preamble, gap, FCS, minimum frame); IEEE 802.1Qbb (PFC).
//!
//! Leaves out: VLAN tags, IPv6, and the bytes themselves: frames have sizes here, no contents.

/// Preamble and start-of-frame delimiter.
pub const PREAMBLE_BYTES: u32 = 8;
/// Inter-frame gap.
pub const GAP_BYTES: u32 = 12;
/// What a frame takes on the wire beyond its own bytes.
pub const PREAMBLE_AND_GAP_BYTES: u32 = PREAMBLE_BYTES + GAP_BYTES;
/// Ethernet header without VLAN tag.
pub const ETHERNET_BYTES: u32 = 14;
/// Frame check sequence.
pub const FCS_BYTES: u32 = 4;
/// Shortest frame, FCS included.
pub const MIN_FRAME_BYTES: u32 = 64;
/// IPv4 header without options.
pub const IPV4_BYTES: u32 = 20;
/// UDP header.
pub const UDP_BYTES: u32 = 8;
/// TCP header without options.
pub const TCP_BYTES: u32 = 20;
/// Timestamp option, padded.
pub const TCP_TIMESTAMP_BYTES: u32 = 12;
/// Base transport header.
pub const BTH_BYTES: u32 = 12;
/// RDMA extended transport header: on the first or only packet of a WRITE.
pub const RETH_BYTES: u32 = 16;
/// ACK extended transport header: on an ACK or NAK.
pub const AETH_BYTES: u32 = 4;
/// Invariant CRC.
pub const ICRC_BYTES: u32 = 4;
/// Reserved bytes that a CNP carries (annex A17.9.3).
pub const CNP_PAYLOAD_BYTES: u32 = 16;

const ROCE_BYTES: u32 = ETHERNET_BYTES + IPV4_BYTES + UDP_BYTES + BTH_BYTES + ICRC_BYTES + FCS_BYTES;

/// Largest 24-bit packet sequence number plus one.
pub const PSN_MODULUS: u64 = 1 << 24;

const fn frame(bytes: u32) -> u32 {
    if bytes < MIN_FRAME_BYTES {
        MIN_FRAME_BYTES
    } else {
        bytes
    }
}

/// Frame of an RDMA WRITE packet from destination address to FCS, in bytes. The payload is padded to a multiple
/// of 4 (BTH PadCnt). `first`: the first or only packet of its message, which carries the RETH.
pub const fn write_frame_bytes(payload: u32, first: bool) -> u32 {
    let reth = if first { RETH_BYTES } else { 0 };
    frame(ROCE_BYTES + reth + payload.next_multiple_of(4))
}

/// Frame of a TCP segment over IPv4 with a timestamp option, in bytes. Options are padded to words: 12 bytes for the
/// timestamp, and 4 and 8 for each of `sack_blocks` (RFC 2018, 3; RFC 7323, appendix A).
pub const fn tcp_frame_bytes(payload: u32, sack_blocks: u32) -> u32 {
    let sack = if sack_blocks > 0 { 4 + 8 * sack_blocks } else { 0 };
    frame(ETHERNET_BYTES + IPV4_BYTES + TCP_BYTES + TCP_TIMESTAMP_BYTES + sack + payload + FCS_BYTES)
}

/// Frame of an ACK or NAK, in bytes.
pub const ACK_FRAME_BYTES: u32 = frame(ROCE_BYTES + AETH_BYTES);

/// Frame of a congestion notification packet, in bytes.
pub const CNP_FRAME_BYTES: u32 = frame(ROCE_BYTES + CNP_PAYLOAD_BYTES);

/// Frame of an RHCC probe and of its answer, in bytes. Its format is not published; assumption: as a CNP, with
/// timestamps in place of the reserved bytes.
pub const PROBE_FRAME_BYTES: u32 = CNP_FRAME_BYTES;

/// A PFC frame is a minimum-size MAC control frame.
pub const PFC_FRAME_BYTES: u32 = MIN_FRAME_BYTES;

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
