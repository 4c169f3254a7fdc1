//! The sending side of a connection: when which bytes are sent.
//!
//! One idea serves all of loss recovery: bytes that are lost and were not sent again go first, then new data, as long as
//! what is in the network (`pipe`) leaves room in the window. With SACK that is RFC 6675; a timeout makes everything
//! missing lost and the window one segment (5.1 there). Without SACK only the first segment is ever known to be lost, the
//! pipe is all that is outstanding, and each duplicate ACK widens the window by the segment that it tells has left (RFC
//! 5681, 3.2; 6582), from the first on (RFC 3042).
//!
//! Where the RFCs leave it open: recovery with SACK also begins with an ACK of new data that leaves a loss behind (RFC
//! 6675 waits for the next duplicate); a retransmission that is lost is sent again without the timer; a timeout during fast recovery leaves ssthresh as it is; RFC 6582's test of `recover`
//! is made after a timeout only, since fast recovery sends nothing twice that arrived.

use std::collections::VecDeque;

use super::control::{Acknowledged, Congestion, Control};
use super::{
    AckSegment, Burst, ControlParameters, TcpParameters, TcpStatistics, WindowUsage, DUPLICATE_THRESHOLD,
};
use crate::transport::round_trips::RoundTrips;
use crate::units::Time;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Open,
    /// Fast recovery, until `recovery_point` is acknowledged.
    FastRecovery,
    /// After a timeout, until `recovery_point` is acknowledged.
    Loss,
}

/// The sending side of a connection.
#[derive(Clone, Debug)]
pub struct TcpSender {
    /// SND.UNA.
    una: u64,
    /// SND.NXT: end of what was ever sent.
    next: u64,
    /// End of what the application wrote.
    written: u64,
    /// Right edge of the receiver's window.
    window_edge: u64,
    cwnd: f64,
    ssthresh: f64,
    control: Control,
    usage: WindowUsage,
    scoreboard: Scoreboard,
    retransmissions: Retransmissions,
    rto: Rto,
    phase: Phase,
    recovery_point: u64,
    /// End of what was sent before the last timeout.
    timeout_point: Option<u64>,
    duplicate_acks: u32,
    /// Without SACK: bytes that duplicate ACKs add to the window.
    inflation: u64,
    /// A retransmission that does not ask the window.
    fast_retransmit: bool,
    /// True if the one rescue retransmission of this recovery was made (RescueRxt).
    rescued: bool,
    /// Without SACK: the timer was restarted in this recovery.
    partial_ack_seen: bool,
    /// Congestion was answered for everything sent before this.
    reduced_until: Option<u64>,
    cwr_pending: bool,
    probe_pending: bool,
    /// Of the retransmission timer, or of the persist timer where nothing is outstanding; `NEVER`: it does not run.
    deadline: Time,
    statistics: TcpStatistics,
}

impl TcpSender {
    /// Of a connection just established: nothing written, and the receiver's buffer empty.
    pub fn new(p: &TcpParameters) -> Self {
        TcpSender {
            una: 0,
            next: 0,
            written: 0,
            window_edge: p.receive_buffer,
            cwnd: p.initial_window as f64,
            ssthresh: f64::INFINITY,
            control: Control::new(&p.control),
            usage: WindowUsage::default(),
            scoreboard: Scoreboard::default(),
            retransmissions: Retransmissions::default(),
            rto: Rto::new(p),
            phase: Phase::Open,
            recovery_point: 0,
            timeout_point: None,
            duplicate_acks: 0,
            inflation: 0,
            fast_retransmit: false,
            rescued: false,
            partial_ack_seen: false,
            reduced_until: None,
            cwr_pending: false,
            probe_pending: false,
            deadline: Time::NEVER,
            statistics: TcpStatistics::default(),
        }
    }

    /// The application adds `bytes` to the stream; `u64::MAX`: a stream without end.
    pub fn write(&mut self, bytes: u64) {
        self.written = self.written.saturating_add(bytes);
    }

    /// True if everything written was acknowledged.
    pub fn is_idle(&self) -> bool {
        self.una == self.written
    }

    /// Congestion window, bytes.
    pub fn cwnd(&self) -> u64 {
        self.cwnd as u64
    }

    /// Slow start threshold, bytes; `u64::MAX` before the first congestion.
    pub fn ssthresh(&self) -> u64 {
        self.ssthresh as u64
    }

    /// Smoothed RTT.
    pub fn srtt(&self) -> Option<Time> {
        self.rto.smoothed()
    }

    /// Bytes sent and not acknowledged (FlightSize).
    pub fn in_flight(&self) -> u64 {
        self.next - self.una
    }

    /// Bytes acknowledged.
    pub fn acknowledged(&self) -> u64 {
        self.una
    }

    /// End of what was sent.
    pub fn next_position(&self) -> u64 {
        self.next
    }

    /// End of what was written.
    pub fn written(&self) -> u64 {
        self.written
    }

    /// True if it recovers from a loss.
    pub fn in_recovery(&self) -> bool {
        self.phase != Phase::Open
    }

    /// DCTCP's alpha; `None` with another control.
    pub fn alpha(&self) -> Option<f64> {
        match &self.control {
            Control::Dctcp(dctcp) => Some(dctcp.alpha()),
            _ => None,
        }
    }

    pub fn statistics(&self) -> TcpStatistics {
        self.statistics
    }

    /// The next burst to send, of at most `room` bytes, which is what the device's queue still takes; `None` where there
    /// is none now. Call it again until there is none: after a write, an ACK, a timeout, and when there is room again.
    pub fn poll_transmit(&mut self, p: &TcpParameters, now: Time, room: u32) -> Option<Burst> {
        if self.probe_pending {
            self.probe_pending = false;
            self.statistics.window_probes += 1;
            self.deadline = now + self.rto.timeout(p);
            return Some(self.burst(p, self.una, 0, false));
        }
        let mss = p.mss as u64;
        let most = room.min(p.max_burst) as u64;
        let budget = self.budget(p, mss);

        // NextSeg, rule 1, and before it what RFC 6675 leaves to the timer.
        let lost_again = self.retransmissions.next();
        let lost = || self.scoreboard.next_gap(self.una, self.scoreboard.lost_below(mss));
        if let Some((start, end)) = lost_again.or_else(lost) {
            let allowed = if self.fast_retransmit { budget.max(mss) } else { budget };
            return self.retransmit(p, now, start, whole_segments(allowed.min(most), end - start, mss));
        }
        // Rule 2. Where the receiver's window takes less than a segment of more, wait (RFC 9293, 3.8.6.2.1).
        let unsent = self.written - self.next;
        let open = self.window_edge.saturating_sub(self.next);
        let sendable = whole_segments(open, unsent, mss);
        let bytes = whole_segments(budget.min(most), sendable, mss);
        let position = self.next;
        self.next += bytes;
        let left = sendable - bytes;
        let held_back = left > 0 && whole_segments(budget - bytes, left, mss) == 0;
        if bytes > 0 || held_back {
            self.usage.note(self.una, self.next, self.in_flight(), held_back);
        }
        if bytes > 0 {
            self.arm(p, now);
            return Some(self.burst(p, position, bytes, false));
        }
        if sendable == 0 && self.phase == Phase::FastRecovery && p.sack {
            return self.retransmit_more(p, now, budget.min(most), mss);
        }
        if sendable == 0 && unsent > 0 && self.una == self.next {
            // The window is closed and no ACK is on its way: probe it (RFC 9293, 3.8.6.1).
            self.arm(p, now);
        }
        None
    }

    /// An ACK arrived.
    pub fn on_ack(&mut self, p: &TcpParameters, now: Time, ack: &AckSegment) {
        if ack.ack < self.una || ack.ack > self.next {
            return; // older than what is known, or of what was never sent
        }
        let mss = p.mss as u64;
        let edge = ack.ack.saturating_add(ack.window);
        let window_update = edge > self.window_edge;
        self.window_edge = self.window_edge.max(edge);
        let advance = ack.ack - self.una;
        self.una = ack.ack;
        self.scoreboard.acknowledge(self.una);
        let mut sacked = 0;
        if p.sack {
            for &(start, end) in ack.sack.as_slice() {
                sacked += self.scoreboard.add(start.max(self.una), end.min(self.next));
            }
        }
        if advance > 0 {
            self.rto.on_rtt(now.saturating_sub(ack.echo));
        }
        let marked = p.ecn && ack.ece;
        self.statistics.ece_received += marked as u64;
        if let Control::Dctcp(dctcp) = &mut self.control {
            if advance > 0 {
                dctcp.on_ack(advance, marked, self.una, self.next);
            }
        }

        if self.phase != Phase::Open {
            self.retransmissions.on_ack(self.una, self.scoreboard.ranges(), mss);
        }
        let phase = self.phase;
        if advance > 0 {
            self.on_progress(p, now, advance, mss);
        } else if self.una == self.next {
            self.on_window_answer(mss);
        } else {
            let duplicate = if p.sack { sacked > 0 } else { !window_update };
            if duplicate {
                self.on_duplicate(p, mss);
            }
        }
        if self.phase == Phase::Open && p.sack && self.scoreboard.lost_below(mss) > self.una {
            self.enter_fast_recovery(p, mss);
        }
        if marked {
            self.on_mark(p);
        }
        let grows = phase != Phase::FastRecovery && self.phase != Phase::FastRecovery && !marked;
        if grows && advance > 0 {
            self.grow(now, advance, mss);
        }
    }

    /// When the timer is due.
    pub fn next_timeout(&self) -> Option<Time> {
        (self.deadline != Time::NEVER).then_some(self.deadline)
    }

    /// The clock passed `next_timeout()`. Nothing happens where it did not.
    pub fn on_timeout(&mut self, p: &TcpParameters, now: Time) {
        if self.deadline > now {
            return;
        }
        let mss = p.mss as f64;
        if self.una == self.next {
            self.rto.on_timeout();
            self.probe_pending = true;
            self.deadline = Time::NEVER;
            return;
        }
        self.statistics.timeouts += 1;
        // Once for a loss, however often its segment is sent (RFC 5681, 3.1).
        if self.rto.backoff() == 0 && self.phase != Phase::FastRecovery {
            self.ssthresh = self.control.on_congestion(Congestion::Loss, self.flight_limited_window(), mss);
        }
        self.control.on_timeout();
        self.rto.on_timeout();
        self.cwnd = mss;
        self.phase = Phase::Loss;
        self.recovery_point = self.next;
        self.timeout_point = Some(self.next);
        self.reduced_until = Some(self.next);
        self.cwr_pending = p.ecn;
        self.duplicate_acks = 0;
        self.inflation = 0;
        self.fast_retransmit = false;
        self.scoreboard.lose_all(self.una, self.next);
        self.retransmissions.clear();
        self.deadline = now + self.rto.timeout(p);
    }

    /// Bytes that the congestion window still takes.
    fn budget(&self, p: &TcpParameters, mss: u64) -> u64 {
        let pipe = if !p.sack && self.phase == Phase::FastRecovery {
            self.in_flight()
        } else {
            self.scoreboard.pipe(self.una, self.next, mss)
        };
        (self.cwnd as u64).saturating_add(self.inflation).saturating_sub(pipe)
    }

    fn burst(&mut self, p: &TcpParameters, position: u64, bytes: u64, retransmission: bool) -> Burst {
        // CWR goes with the first new data after the reduction (RFC 3168, 6.1.2).
        let cwr = self.cwr_pending && !retransmission && bytes > 0;
        self.cwr_pending &= !cwr;
        let always = matches!(p.control, ControlParameters::Dctcp(_));
        let ect = p.ecn && (always || (!retransmission && bytes > 0));
        Burst { position, bytes: bytes as u32, retransmission, cwr, ect }
    }

    fn retransmit(&mut self, p: &TcpParameters, now: Time, start: u64, bytes: u64) -> Option<Burst> {
        if bytes == 0 {
            return None;
        }
        self.fast_retransmit = false;
        self.scoreboard.on_retransmitted(start + bytes);
        self.retransmissions.on_sent((start, start + bytes), self.next);
        self.statistics.retransmitted_segments += bytes.div_ceil(p.mss as u64);
        self.arm(p, now);
        Some(self.burst(p, start, bytes, true))
    }

    /// NextSeg, rules 3 and 4: there is no new data; what may be lost is sent again, a segment at a time.
    fn retransmit_more(&mut self, p: &TcpParameters, now: Time, allowed: u64, mss: u64) -> Option<Burst> {
        let highest = self.scoreboard.highest()?;
        if let Some((start, end)) = self.scoreboard.next_gap(self.una, highest) {
            return self.retransmit(p, now, start, whole_segments(allowed.min(mss), end - start, mss));
        }
        if self.rescued || highest >= self.next || allowed < mss {
            return None;
        }
        self.rescued = true;
        let start = highest.max(self.next.saturating_sub(mss));
        self.statistics.retransmitted_segments += 1;
        self.arm(p, now);
        Some(self.burst(p, start, self.next - start, true))
    }

    fn arm(&mut self, p: &TcpParameters, now: Time) {
        if self.deadline == Time::NEVER {
            self.deadline = now + self.rto.timeout(p);
        }
    }

    /// New data was acknowledged.
    fn on_progress(&mut self, p: &TcpParameters, now: Time, advance: u64, mss: u64) {
        self.duplicate_acks = 0;
        let complete = self.una >= self.recovery_point;
        let mut restart = true;
        match self.phase {
            Phase::Open => self.inflation = 0,
            Phase::Loss if complete => self.phase = Phase::Open,
            Phase::Loss => {}
            Phase::FastRecovery if complete => {
                if !p.sack {
                    // RFC 6582, 3.2, step 3, the first of its two ways: no burst.
                    self.cwnd = self.ssthresh.min((self.in_flight().max(mss) + mss) as f64);
                }
                self.inflation = 0;
                self.fast_retransmit = false;
                self.phase = Phase::Open;
            }
            Phase::FastRecovery if !p.sack => {
                // A partial ACK: the next segment is lost, too (RFC 6582, 3.2, step 3).
                self.scoreboard.lose_first(self.una, mss, self.next);
                self.fast_retransmit = true;
                self.inflation =
                    self.inflation.saturating_sub(advance) + if advance >= mss { mss } else { 0 };
                restart = !self.partial_ack_seen;
                self.partial_ack_seen = true;
            }
            Phase::FastRecovery => {}
        }
        if self.phase == Phase::Open {
            self.retransmissions.clear();
        }
        if self.una == self.next {
            self.deadline = Time::NEVER;
        } else if restart {
            self.deadline = now + self.rto.timeout(p);
        }
    }

    /// An ACK came while nothing is outstanding: it answers a probe, or opens the window.
    fn on_window_answer(&mut self, mss: u64) {
        let open = self.window_edge.saturating_sub(self.next);
        if whole_segments(open, self.written - self.next, mss) > 0 {
            self.rto.reset_backoff();
            self.probe_pending = false;
            self.deadline = Time::NEVER;
        }
    }

    fn on_duplicate(&mut self, p: &TcpParameters, mss: u64) {
        self.duplicate_acks = self.duplicate_acks.saturating_add(1);
        if self.phase == Phase::Loss {
            return;
        }
        if !p.sack && (self.phase == Phase::FastRecovery || self.duplicate_acks <= DUPLICATE_THRESHOLD) {
            self.inflation += mss;
        }
        // What a timeout sent again may have arrived before: its duplicate ACKs tell nothing (RFC 6582, 4).
        let own_doing = !p.sack && self.timeout_point.is_some_and(|point| self.una <= point);
        if self.phase == Phase::Open && self.duplicate_acks >= DUPLICATE_THRESHOLD && !own_doing {
            self.enter_fast_recovery(p, mss);
        }
    }

    fn enter_fast_recovery(&mut self, p: &TcpParameters, mss: u64) {
        self.statistics.fast_recoveries += 1;
        // Losses and marks of one window of data are answered once (RFC 3168, 6.1.2).
        if self.reduced_until.is_none_or(|until| self.una >= until) {
            let window = self.flight_limited_window();
            self.ssthresh = self.control.on_congestion(Congestion::Loss, window, mss as f64);
            self.cwr_pending = p.ecn;
        }
        self.cwnd = self.cwnd.min(self.ssthresh);
        self.phase = Phase::FastRecovery;
        self.recovery_point = self.next;
        self.reduced_until = Some(self.next);
        self.scoreboard.begin_recovery(self.una, mss, self.next);
        self.retransmissions.clear();
        self.fast_retransmit = true;
        self.rescued = false;
        self.partial_ack_seen = false;
    }

    /// ECN-Echo: reduces the window once for a window of data (RFC 3168, 6.1.2).
    fn on_mark(&mut self, p: &TcpParameters) {
        if self.reduced_until.is_some_and(|until| self.una <= until) {
            return;
        }
        self.statistics.ecn_reductions += 1;
        self.ssthresh = self.control.on_congestion(Congestion::Mark, self.cwnd, p.mss as f64);
        self.cwnd = self.cwnd.min(self.ssthresh);
        self.reduced_until = Some(self.next);
        self.cwr_pending = true;
    }

    /// The window, or what of it was used: FlightSize without what limited transmit added (RFC 5681, 3.2).
    fn flight_limited_window(&self) -> f64 {
        self.cwnd.min(self.in_flight() as f64)
    }

    fn grow(&mut self, now: Time, advance: u64, mss: u64) {
        let slow_start = self.cwnd < self.ssthresh;
        if !self.usage.allows_growth(self.cwnd, slow_start) {
            return;
        }
        let mut bytes = advance as f64;
        if slow_start {
            let step = bytes.min(self.ssthresh - self.cwnd);
            self.cwnd += step;
            bytes -= step;
        }
        if bytes > 0.0 {
            let rtt = self.rto.smoothed().unwrap_or(Time::ZERO);
            let ack = Acknowledged { now, rtt, bytes, mss: mss as f64 };
            self.cwnd = self.control.grow(self.cwnd, &ack);
        }
    }
}

/// The most of `available` bytes that `limit` takes in whole segments; all of them where it takes all.
fn whole_segments(limit: u64, available: u64, mss: u64) -> u64 {
    if available <= limit {
        available
    } else {
        limit / mss * mss
    }
}

// What the receiver has beyond a gap, as its SACK blocks tell (RFC 2018), and what follows from it (RFC 6675).
//
// Two marks stand in for a state of each byte. `retransmitted`: whatever is missing below it was sent again (HighRxt).
// `lost_below`: whatever is missing below it counts as lost whatever is SACKed: the first segment at a fast retransmit, and
// everything sent before a timeout.

/// `start..end` of the stream.
pub(crate) type Range = (u64, u64);

/// The first range at or beyond `from`, and below `limit`, that none of `ranges` (in order, not touching) has.
pub(crate) fn gap(ranges: &[Range], from: u64, limit: u64) -> Option<Range> {
    let mut from = from;
    // The first range that ends beyond it may begin before it.
    let next = ranges.partition_point(|range| range.1 <= from);
    let mut after = limit;
    for &(start, end) in &ranges[next..] {
        if start > from {
            after = start;
            break;
        }
        from = end;
    }
    let end = after.min(limit);
    (from < end).then_some((from, end))
}

/// The sender's scoreboard.
#[derive(Clone, Debug, Default)]
pub struct Scoreboard {
    /// Ranges SACKed, in order, not touching, all beyond what is acknowledged.
    ranges: Vec<Range>,
    retransmitted: u64,
    lost_below: u64,
}

impl Scoreboard {
    /// SACKed ranges, in order.
    pub fn ranges(&self) -> &[Range] {
        &self.ranges
    }

    /// End of the highest byte SACKed.
    pub fn highest(&self) -> Option<u64> {
        self.ranges.last().map(|range| range.1)
    }

    /// The receiver has `start..end`. Returns how many bytes of it are news.
    pub fn add(&mut self, start: u64, end: u64) -> u64 {
        if start >= end {
            return 0;
        }
        // Ranges first..last touch the new one and become one with it.
        let first = self.ranges.partition_point(|range| range.1 < start);
        let last = first + self.ranges[first..].partition_point(|range| range.0 <= end);
        if first == last {
            self.ranges.insert(first, (start, end));
            return end - start;
        }
        let merged = (start.min(self.ranges[first].0), end.max(self.ranges[last - 1].1));
        let known: u64 = self.ranges[first..last].iter().map(|range| range.1 - range.0).sum();
        self.ranges[first] = merged;
        self.ranges.drain(first + 1..last);
        merged.1 - merged.0 - known
    }

    /// Everything before `acknowledged` arrived.
    pub fn acknowledge(&mut self, acknowledged: u64) {
        self.retransmitted = self.retransmitted.max(acknowledged);
        self.lost_below = self.lost_below.max(acknowledged);
        if self.ranges.first().is_none_or(|range| range.0 >= acknowledged) {
            return;
        }
        let below = self.ranges.partition_point(|range| range.1 <= acknowledged);
        self.ranges.drain(..below);
        if let Some(range) = self.ranges.first_mut() {
            range.0 = range.0.max(acknowledged);
        }
    }

    /// Fast recovery begins: nothing was sent again in it yet.
    pub fn begin_recovery(&mut self, acknowledged: u64, mss: u64, sent: u64) {
        self.retransmitted = acknowledged;
        self.lose_first(acknowledged, mss, sent);
    }

    /// A fast retransmit of the segment at `acknowledged`: what is missing of it is lost.
    pub fn lose_first(&mut self, acknowledged: u64, mss: u64, sent: u64) {
        let next = self.ranges.first().map_or(sent, |range| range.0);
        self.lost_below = self.lost_below.max((acknowledged + mss).min(next));
    }

    /// A timeout: all that is missing of what was sent is lost, and nothing was sent again.
    pub fn lose_all(&mut self, acknowledged: u64, sent: u64) {
        self.lost_below = sent;
        self.retransmitted = acknowledged;
    }

    /// Sequence number below which whatever is missing is lost (IsLost of RFC 6675, 4): enough is SACKed beyond it, in
    /// ranges or in bytes.
    pub fn lost_below(&self, mss: u64) -> u64 {
        let mut bytes = 0;
        for (above, range) in self.ranges.iter().rev().enumerate() {
            bytes += range.1 - range.0;
            let enough =
                above as u32 + 1 >= DUPLICATE_THRESHOLD || bytes > (DUPLICATE_THRESHOLD as u64 - 1) * mss;
            if enough {
                return self.lost_below.max(range.0);
            }
        }
        self.lost_below
    }

    /// Bytes in the network (SetPipe of RFC 6675, 4): neither SACKed nor lost, and what was sent again.
    pub fn pipe(&self, acknowledged: u64, sent: u64, mss: u64) -> u64 {
        if self.ranges.is_empty() && self.lost_below <= acknowledged {
            return sent - acknowledged;
        }
        let lost = self.lost_below(mss);
        let mut pipe = 0;
        let mut from = acknowledged;
        for &(start, end) in self.ranges.iter().chain([&(sent, sent)]) {
            // The gap from..start; a mark may lie inside it.
            pipe += start.saturating_sub(from.max(lost)) + start.min(self.retransmitted).saturating_sub(from);
            from = end;
        }
        pipe
    }

    /// The first range missing that was not sent again, at or beyond `acknowledged` and below `limit`.
    pub fn next_gap(&self, acknowledged: u64, limit: u64) -> Option<Range> {
        gap(&self.ranges, self.retransmitted.max(acknowledged), limit)
    }

    /// Everything missing before `end` was sent again.
    pub fn on_retransmitted(&mut self, end: u64) {
        self.retransmitted = self.retransmitted.max(end);
    }
}

// Retransmissions that were lost themselves.
//
// RFC 6675 leaves them to the timer. Linux does not (before 4.4: `tcp_input.c`, `tcp_mark_lost_retrans`; RACK since then):
// once data is SACKed that was sent after a retransmission, what that retransmission carried and is still missing is lost
// again. Here as much as for a first loss must be SACKed beyond. Until it is sent again it counts as in the network: the
// SACKs that tell of it make the room.

/// The retransmissions of a recovery.
#[derive(Clone, Debug, Default)]
pub struct Retransmissions {
    /// What they carry, and the end of what had been sent when they were, in the order of sending.
    sent: VecDeque<(Range, u64)>,
    /// Lost again, and not sent again yet.
    lost: Vec<Range>,
}

impl Retransmissions {
    /// A recovery begins.
    pub fn clear(&mut self) {
        self.sent.clear();
        self.lost.clear();
    }

    /// `range` was sent again, when `next` was the end of what had been sent.
    pub fn on_sent(&mut self, range: Range, next: u64) {
        self.sent.push_back((range, next));
        // A range lost again is sent from its start on.
        if let Some(lost) = self.lost.first_mut().filter(|lost| lost.0 <= range.0 && range.0 < lost.1) {
            lost.0 = range.1;
            if lost.0 >= lost.1 {
                self.lost.remove(0);
            }
        }
    }

    /// An ACK came: all bytes before `acknowledged` have arrived, and those in `sacked`.
    pub fn on_ack(&mut self, acknowledged: u64, sacked: &[Range], mss: u64) {
        let highest = sacked.last().map_or(0, |range| range.1);
        while let Some(&((start, end), next)) = self.sent.front() {
            if end > acknowledged && next + DUPLICATE_THRESHOLD as u64 * mss > highest {
                break;
            }
            self.sent.pop_front();
            self.lost.push((start, end));
        }
        // Only what is still missing, and known as such, goes a third time.
        let known = self.lost.len();
        for i in 0..known {
            let (start, end) = self.lost[i];
            let mut from = start.max(acknowledged);
            while let Some(missing) = gap(sacked, from, end) {
                self.lost.push(missing);
                from = missing.1;
            }
        }
        self.lost.drain(..known);
    }

    /// The range to retransmit first.
    pub fn next(&self) -> Option<Range> {
        self.lost.first().copied()
    }
}

// The retransmission timeout (RFC 6298), with RTTs from timestamps (RFC 7323): each ACK of new data brings one, and none is
// ambiguous.
//
// Leaves out: the clock's granularity G (time is in picoseconds; `min_rto` keeps the timer above the RTT where it never
// varies), and weights for several RTTs in a round trip (RFC 7323, appendix G). Linux adds `min_rto` to the RTT in place of
// taking the larger of the two.

/// Estimator and back-off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rto {
    round_trips: RoundTrips,
    /// The timeout before the first RTT.
    initial: Time,
    /// Timeouts in a row.
    backoff: u32,
}

impl Rto {
    /// For a connection without an RTT sample (2.1).
    pub fn new(p: &TcpParameters) -> Self {
        Rto { round_trips: RoundTrips::default(), initial: p.initial_rto, backoff: 0 }
    }

    /// SRTT.
    pub fn smoothed(&self) -> Option<Time> {
        self.round_trips.smoothed
    }

    /// RTTVAR.
    pub fn variation(&self) -> Time {
        self.round_trips.variation
    }

    /// Timeouts in a row.
    pub fn backoff(&self) -> u32 {
        self.backoff
    }

    /// The timeout now (2.3 to 2.5, 5.5): the minimum holds before back-off, the maximum after it.
    pub fn timeout(&self, p: &TcpParameters) -> Time {
        let base = self.round_trips.timeout().unwrap_or(self.initial).max(p.min_rto);
        let doubled = base.0.saturating_mul(1u64.checked_shl(self.backoff).unwrap_or(u64::MAX));
        Time(doubled.min(p.max_rto.0))
    }

    /// An RTT was measured. It also ends the back-off.
    pub fn on_rtt(&mut self, rtt: Time) {
        self.round_trips.add(rtt);
        self.backoff = 0;
    }

    /// The timer expired (5.5).
    pub fn on_timeout(&mut self) {
        self.backoff = self.backoff.saturating_add(1);
    }

    /// The peer answered, though without an RTT.
    pub fn reset_backoff(&mut self) {
        self.backoff = 0;
    }
}
