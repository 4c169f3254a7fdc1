//! What a connection counts.

/// What a sender counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TcpStatistics {
    /// Segments sent again.
    pub retransmitted_segments: u64,
    /// Times that fast recovery was entered.
    pub fast_recoveries: u64,
    /// Times that the retransmission timer expired.
    pub timeouts: u64,
    /// Times that a mark reduced the window.
    pub ecn_reductions: u64,
    /// ACKs with ECN-Echo.
    pub ece_received: u64,
    /// Probes of a closed window.
    pub window_probes: u64,
}
