//! A row of the flow table.

/// A queue pair or TCP connection and what became of it: [`super::COLUMNS`] says what each field is. Counters of the other
/// protocol are 0.
#[derive(Clone, Debug, Default)]
pub struct Flow {
    pub item: String,
    pub protocol: &'static str,
    pub congestion: Option<String>,
    pub src: String,
    pub dst: String,
    pub qp: u32,
    pub priority: u8,
    pub start_ps: Option<u64>,
    pub end_ps: Option<u64>,
    pub state: &'static str,
    pub error: Option<String>,
    pub message_bytes: Option<u64>,
    pub messages_posted: u64,
    pub messages_completed: u64,
    pub bytes_delivered: u64,
    pub fct_ps: Option<u64>,
    pub ideal_fct_ps: Option<u64>,
    pub goodput_bps: f64,
    pub packets_sent: u64,
    pub packets_retransmitted: u64,
    pub packet_seq_err: u64,
    pub out_of_sequence: u64,
    pub duplicate_request: u64,
    pub local_ack_timeout_err: u64,
    pub rp_cnp_handled: u64,
    pub np_cnp_sent: u64,
    pub np_ecn_marked_roce_packets: u64,
    pub rate_bps: Option<f64>,
    /// How long its packets waited by the lowest rate that its controller may set; none: none ever did.
    pub min_rate_wait_ps: Option<u64>,
    /// When the first such wait began, and when the last one ended.
    pub min_rate_span_ps: Option<(u64, u64)>,
    pub retransmitted_segments: u64,
    pub timeouts: u64,
    pub fast_recoveries: u64,
    pub ece_received: u64,
    pub cwnd_bytes: Option<u64>,
    pub srtt_ps: Option<u64>,
}

impl Flow {
    /// Completion time over the ideal one, of a single message that is done.
    pub fn slowdown(&self) -> Option<f64> {
        Some(self.fct_ps? as f64 / self.ideal_fct_ps? as f64)
    }
}
