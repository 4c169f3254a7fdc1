//! Settings of recording.

tailback_proto::parameters! {
    /// What is kept of a run, however long it is.
    pub struct RecordParameters {
        /// Most bins of a time series; a longer run has longer bins.
        max_bins: u32 = 2048, in MIN_BINS..=1_000_000,
            source "assumption: twice as many as a plot has pixels across";
        /// Queue pairs whose rate and alpha are recorded.
        qps: u32 = 64, in 0..=100_000,
            source "assumption: more lines cannot be told apart in a plot";
    }
    worked out {
        /// Ports of switches whose queues are recorded, as `node:peer`; null: all that there is room for.
        #[serde(default)]
        queues: Option<Vec<String>>;
    }
}

/// Fewest bins that a recording may be limited to: below, merging by 5 leaves too little to see.
pub const MIN_BINS: u32 = 16;
