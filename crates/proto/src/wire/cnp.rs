//! Congestion notification packet (annex A17.9.3): a BTH with BECN, and 16 reserved bytes.

use super::{Bth, Extension, Opcode, TransportHeaders};

/// Reserved bytes after the BTH of a CNP: 0.
pub const RESERVED_LEN: usize = 16;

/// Headers of a CNP to the queue pair whose packet was marked: BECN set, PSN 0, no ACK asked for.
pub fn cnp(dest_qp: u32) -> TransportHeaders {
    TransportHeaders {
        bth: Bth { becn: true, ..Bth::new(Opcode::Cnp, dest_qp, 0, 0) },
        extension: Extension::CnpReserved,
    }
}
