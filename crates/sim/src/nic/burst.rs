//! Bursts at line rate with pauses between them, where a controller asks for them.

use tailback_proto::units::Time;

/// What a queue pair has sent of a burst.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Burst {
    began_at: Time,
    /// 0: the next packet begins one.
    wire_bytes: u64,
    /// The packet that continues it. Another one, after going back, begins anew.
    next_sequence: u64,
}

impl Burst {
    /// A packet of so many bytes on the wire is being sent: the earliest time of the next one, and the packet's time
    /// stamp. That is the burst's begin, and the burst's time on the link up to this packet's end: what comes back later
    /// was not spent on sending it.
    pub fn on_sent(
        &mut self,
        now: Time,
        sequence: u64,
        wire_bytes: u32,
        is_last: bool,
        rate: f64,
        line_rate: f64,
    ) -> (Time, Time) {
        if self.wire_bytes == 0 || sequence != self.next_sequence {
            *self = Burst { began_at: now, wire_bytes: 0, next_sequence: sequence };
        }
        self.wire_bytes += wire_bytes as u64;
        self.next_sequence += 1;
        let takes = |rate: f64| Time((self.wire_bytes as f64 * 8e12 / rate) as u64);
        let stamp = self.began_at + takes(line_rate);
        if !is_last {
            return (now, stamp);
        }
        let next_at = self.began_at + takes(rate);
        self.wire_bytes = 0;
        (next_at, stamp)
    }
}
