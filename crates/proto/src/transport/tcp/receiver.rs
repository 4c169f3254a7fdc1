//! The receiving side of a connection: puts the stream in order, and decides when to acknowledge.
//!
//! An ACK waits for `ack_every` segments or the delayed ACK timer (RFC 1122, 4.2.3.2; RFC 5681, 4.2); it goes at once where
//! a segment is out of order, fills a gap, was received before, or lies outside the window. A merged run counts as the segments
//! in it. Data waits in the receive buffer until the application reads it, and the window is what is left of the buffer.
//!
//! ECN: an echo from a mark until CWR arrives (RFC 3168, 6.1.3). With DCTCP each ACK echoes the mark of the segments that it
//! acknowledges: a change of mark sends first what was delayed (RFC 8257, 3.2).
//!
//! Leaves out: Linux's quick ACKs at the start, D-SACK, and growing the buffer by what the application reads (the buffer has its
//! full size from the start).

use super::{AckSegment, ControlParameters, DataSegment, SackBlocks, TcpParameters, MAX_SACK_BLOCKS};
use crate::units::Time;

/// The effect of a segment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReceiveVerdict {
    /// Bytes that the application can read now, that it could not before.
    pub newly_delivered: u64,
    /// Bytes that had arrived before, or lie outside the window.
    pub discarded: u64,
    /// An ACK to send first: it tells what came before this segment.
    pub first: Option<AckSegment>,
    /// Send `TcpReceiver::ack` now.
    pub ack: bool,
}

/// The receiving side of a connection.
#[derive(Clone, Debug)]
pub struct TcpReceiver {
    /// RCV.NXT.
    next: u64,
    /// Delivered, and not read.
    unread: u64,
    /// Right edge of the window that was advertised.
    window_edge: u64,
    reassembly: Reassembly,
    /// Last.ACK.sent and TS.Recent (RFC 7323, 4.3).
    last_ack: u64,
    echo: Time,
    /// Segments that no ACK was sent for.
    unacknowledged: u32,
    /// The delayed ACK timer; `NEVER`: it does not run.
    deadline: Time,
    /// ECN-Echo goes with the next ACK: with DCTCP, DCTCP.CE.
    ece: bool,
    duplicate_bytes: u64,
    out_of_order_segments: u64,
}

impl TcpReceiver {
    /// For a connection just established.
    pub fn new(p: &TcpParameters) -> Self {
        TcpReceiver {
            next: 0,
            unread: 0,
            window_edge: p.receive_buffer,
            reassembly: Reassembly::default(),
            last_ack: 0,
            echo: Time::ZERO,
            unacknowledged: 0,
            deadline: Time::NEVER,
            ece: false,
            duplicate_bytes: 0,
            out_of_order_segments: 0,
        }
    }

    /// Bytes that arrived in order.
    pub fn delivered(&self) -> u64 {
        self.next
    }

    /// Bytes that the application has not read.
    pub fn unread(&self) -> u64 {
        self.unread
    }

    /// Bytes that wait behind a gap.
    pub fn out_of_order_bytes(&self) -> u64 {
        self.reassembly.bytes()
    }

    /// Bytes that arrived more than once, or outside the window.
    pub fn duplicate_bytes(&self) -> u64 {
        self.duplicate_bytes
    }

    /// Segments that arrived before one that is missing.
    pub fn out_of_order_segments(&self) -> u64 {
        self.out_of_order_segments
    }

    /// A data segment, or a merged run of them, arrived.
    pub fn on_segment(&mut self, p: &TcpParameters, now: Time, segment: &DataSegment) -> ReceiveVerdict {
        let mut verdict = ReceiveVerdict::default();
        self.on_codepoints(p, segment, &mut verdict);
        let end = segment.position + segment.bytes as u64;
        // RFC 7323, 4.3: of the segments that the next ACK tells of, the earliest; never one beyond a gap.
        if segment.position <= self.last_ack && segment.sent_at >= self.echo {
            self.echo = segment.sent_at;
        }
        let gap_before = !self.reassembly.is_empty();
        let start = segment.position.max(self.next);
        let end_taken = end.min(self.window_edge);
        let mut news = 0;
        if start < end_taken {
            if start == self.next {
                let waited = self.reassembly.bytes();
                let next = self.reassembly.advance(end_taken);
                verdict.newly_delivered = next - self.next;
                // What waited behind the gap was news when it arrived.
                news = verdict.newly_delivered - (waited - self.reassembly.bytes());
                self.next = next;
                self.unread += verdict.newly_delivered;
            } else {
                news = self.reassembly.add(start, end_taken);
                self.out_of_order_segments += segment.segments as u64;
            }
        }
        verdict.discarded = segment.bytes as u64 - news;
        self.duplicate_bytes += verdict.discarded;

        self.unacknowledged = self.unacknowledged.saturating_add(segment.segments);
        let in_order = verdict.newly_delivered > 0 && !gap_before;
        verdict.ack = !in_order || self.unacknowledged >= p.ack_every;
        if !verdict.ack && self.deadline == Time::NEVER {
            self.deadline = now + p.delayed_ack;
            verdict.ack = p.delayed_ack == Time::ZERO;
        }
        verdict
    }

    /// The application read `bytes` of what was delivered. `true`: send an ACK, the window opened to at least twice what the
    /// sender knows of (Linux, `tcp.c`, `tcp_cleanup_rbuf`).
    pub fn on_read(&mut self, p: &TcpParameters, bytes: u64) -> bool {
        debug_assert!(bytes <= self.unread);
        self.unread -= bytes.min(self.unread);
        let known = self.window_edge - self.next;
        let open = self.edge(p) - self.next;
        bytes > 0 && 2 * known <= p.receive_buffer && open > 0 && open >= 2 * known
    }

    /// The ACK to send now. What was delayed is not any more.
    pub fn ack(&mut self, p: &TcpParameters) -> AckSegment {
        self.unacknowledged = 0;
        self.deadline = Time::NEVER;
        self.last_ack = self.next;
        self.window_edge = self.edge(p);
        let sack = if p.sack { self.reassembly.blocks() } else { Default::default() };
        let window = self.window_edge - self.next;
        AckSegment { ack: self.next, window, sack, ece: self.ece, echo: self.echo }
    }

    /// When the delayed ACK is due.
    pub fn next_timeout(&self) -> Option<Time> {
        (self.deadline != Time::NEVER).then_some(self.deadline)
    }

    /// The clock passed `next_timeout()`. `true`: send an ACK.
    pub fn on_timeout(&mut self, now: Time) -> bool {
        self.deadline <= now
    }

    /// Right edge of the window: it never moves back, and forward only by a segment or half the buffer (RFC 9293, 3.8.6.2.2).
    fn edge(&self, p: &TcpParameters) -> u64 {
        let edge = self.next + p.receive_buffer.saturating_sub(self.unread);
        let least = (p.mss as u64).min(p.receive_buffer / 2);
        if edge >= self.window_edge + least {
            edge
        } else {
            self.window_edge
        }
    }

    fn on_codepoints(&mut self, p: &TcpParameters, segment: &DataSegment, verdict: &mut ReceiveVerdict) {
        if !p.ecn || segment.bytes == 0 {
            return;
        }
        if matches!(p.control, ControlParameters::Dctcp(_)) {
            if segment.ce != self.ece && self.unacknowledged > 0 {
                verdict.first = Some(self.ack(p));
            }
            self.ece = segment.ce;
        } else {
            // CWR ends the echo of what came before it, not of its own mark.
            self.ece = segment.ce || (self.ece && !segment.cwr);
        }
    }
}

// What arrived out of order, and the SACK blocks that tell of it (RFC 2018).

/// The receiver's ranges beyond the next byte that it waits for. The receive window bounds them.
#[derive(Clone, Debug, Default)]
pub struct Reassembly {
    /// In order, not touching.
    ranges: Vec<(u64, u64)>,
    /// The ranges that changed last, the newest first: what ACKs report.
    recent: [(u64, u64); MAX_SACK_BLOCKS],
    recent_count: usize,
    bytes: u64,
}

impl Reassembly {
    pub fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// Bytes that wait.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Adds `start..end`, which lies beyond the next byte. Returns how many bytes of it are news.
    pub fn add(&mut self, start: u64, end: u64) -> u64 {
        let first = self.ranges.partition_point(|range| range.1 < start);
        let last = first + self.ranges[first..].partition_point(|range| range.0 <= end);
        let mut merged = (start, end);
        let mut known = 0;
        if first == last {
            self.ranges.insert(first, merged);
        } else {
            merged = (start.min(self.ranges[first].0), end.max(self.ranges[last - 1].1));
            known = self.ranges[first..last].iter().map(|range| range.1 - range.0).sum();
            self.ranges[first] = merged;
            self.ranges.drain(first + 1..last);
        }
        self.report(merged);
        let news = merged.1 - merged.0 - known;
        self.bytes += news;
        news
    }

    /// All before `next` arrived; returns where the stream goes on once what waited there is taken.
    pub fn advance(&mut self, next: u64) -> u64 {
        let mut next = next;
        let taken = self.ranges.iter().take_while(|range| range.0 <= next).count();
        for range in self.ranges.drain(..taken) {
            self.bytes -= range.1 - range.0;
            next = next.max(range.1);
        }
        if taken > 0 {
            self.keep(|range| range.0 > next);
        }
        next
    }

    /// What an ACK reports.
    pub fn blocks(&self) -> SackBlocks {
        let mut blocks = SackBlocks::default();
        for &(start, end) in &self.recent[..self.recent_count] {
            blocks.push(start, end);
        }
        blocks
    }

    /// The newest range goes first; those that became part of it go.
    fn report(&mut self, newest: (u64, u64)) {
        self.keep(|range| range.1 < newest.0 || range.0 > newest.1);
        let count = (self.recent_count + 1).min(MAX_SACK_BLOCKS);
        self.recent.copy_within(..count - 1, 1);
        self.recent[0] = newest;
        self.recent_count = count;
    }

    fn keep(&mut self, wanted: impl Fn(&(u64, u64)) -> bool) {
        let mut kept = 0;
        for i in 0..self.recent_count {
            if wanted(&self.recent[i]) {
                self.recent[kept] = self.recent[i];
                kept += 1;
            }
        }
        self.recent_count = kept;
    }
}
