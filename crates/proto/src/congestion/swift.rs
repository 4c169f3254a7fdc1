//! Swift: a window that holds the round-trip time at a target, which grows with the number of flows and of hops.
//!
//! Source: Kumar et al., "Swift: Delay is Simple and Effective for Congestion Control in the Datacenter", SIGCOMM 2020,
//! section 3, algorithm 1.
//!
//! Below the target delay the window grows by `ai` packets a round trip. Above it the window shrinks in proportion to what
//! is too much, `1 - beta * (delay - target) / delay`, by `max_mdf` at most, and at most once a round trip. A window below
//! one packet is a pause between packets, `rtt / window`. The target of the fabric is
//!
//! ```text
//! base_target + hops * hop + clamp(a / sqrt(window) + b, 0, fs_range)
//! a = fs_range / (1 / sqrt(fs_min_cwnd) - 1 / sqrt(fs_max_cwnd)),  b = -a / sqrt(fs_max_cwnd)
//! ```
//!
//! so that many flows, whose windows are small, may have a longer queue. The receiving host's part of the delay has a
//! window of its own with a fixed target, by an average; the smaller of the two windows counts.
//!
//! A loss takes `max_mdf` of both windows once a round trip; `retx_reset` timeouts in a row leave the smallest window.
//!
//! Where the algorithm leaves it open: only a decrease begins the time without another one (line 28 as printed would count
//! every ACK that changes nothing, and the window would never shrink); a pause runs from the packet before, and what an ACK
//! says in between makes it longer or shorter.
//!
//! Leaves out: the sending host's part of the delay, and the QoS classes of section 3.7.

use super::parameters::{in_words, Declared, Refused, SHARE, SPANS, TELEMETRY_BYTES};
use super::{AckInfo, Controller, Link, Loss, Merged, Signal, Uses};
use crate::parameters;
use crate::units::{Bytes, Time};

const KUMAR: &str = "Kumar et al. (Swift), SIGCOMM 2020";
const HTSIM: &str =
    "assumption: the paper gives none; the guess of htsim (github.com/Broadcom/csg-htsim, sim/swift.cpp)";
const WINDOW_PACKETS: std::ops::RangeInclusive<f64> = 1e-6..=1e9;
/// No pause is longer, ps: an hour.
const LONGEST_PAUSE: f64 = 3.6e15;

parameters! {
    /// Swift: a window that holds the round-trip time at a target, which grows with the number of flows and of hops.
    pub struct SwiftParameters {
        /// Target delay of a route without switches and with few flows.
        base_target: Time = Time::from_us(25), in SPANS, source format!("{KUMAR}, section 5.2");
        /// What each switch on the route adds to the target.
        hop: Time = Time::from_us(2), in Time(0)..=Time::from_ms(1000), source
            "assumption: the paper gives none; a link of 500 ns and a switch of 300 ns, there and back, and a packet";
        /// Additive increase of the window in a round trip, in packets.
        ai: f64 = 1.0, in WINDOW_PACKETS, source HTSIM;
        /// Strength of a decrease.
        beta: f64 = 0.8, in SHARE, source HTSIM;
        /// Most that one decrease takes: this share of the window.
        max_mdf: f64 = 0.5, in SHARE, source HTSIM;
        /// Most that flow scaling adds to the target: for windows of fs_min_cwnd and below.
        fs_range: Time = Time::from_us(100), in Time(0)..=Time::from_ms(1000), source HTSIM;
        /// Window in packets, at and below which flow scaling adds all of fs_range.
        fs_min_cwnd: f64 = 0.1, in WINDOW_PACKETS, source HTSIM;
        /// Window in packets, at and above which flow scaling adds nothing.
        fs_max_cwnd: f64 = 100.0, in WINDOW_PACKETS, source HTSIM;
        /// Target of the receiving host's part of the delay; it is not scaled.
        endpoint_target: Time = Time::from_us(100), in SPANS, source format!("{KUMAR}, section 5.4");
        /// Weight of the newest delay of the receiving host in its average.
        endpoint_weight: f64 = 0.125, in SHARE, source "assumption: the paper gives none; RFC 6298's 1/8";
        /// Window at the start of a flow, in packets.
        initial_cwnd: f64 = 10.0, in WINDOW_PACKETS,
            source "assumption: it has little effect on long flows (section 3.2); RFC 6928's ten";
        /// Smallest window, in packets.
        min_cwnd: f64 = 0.001, in 1e-6..=1.0, source format!("{KUMAR}, section 3.4");
        /// Largest window, in packets.
        max_cwnd: f64 = 1000.0, in 1.0..=1e9, source HTSIM;
        /// Timeouts in a row, from which on the window is the smallest one.
        retx_reset: u32 = 5, in 1..=1000, source HTSIM;
        /// What the receiver's delay and the number of hops add to each data packet and each ACK.
        telemetry: Bytes = Bytes(5), in TELEMETRY_BYTES, source format!("{KUMAR}, appendix B: 4 B and 1 B");
    }
}

/// Swift's parameters on a link.
#[derive(Clone, Copy, Debug)]
pub struct SwiftLaw {
    p: SwiftParameters,
    line_rate: f64,
    mtu: f64,
    fs_a: f64,
    fs_b: f64,
}

impl SwiftLaw {
    /// The fabric's target in ps for a window in packets, over `hops` switches.
    pub fn target(&self, cwnd: f64, hops: u32) -> f64 {
        let scaled = (self.fs_a / cwnd.sqrt() + self.fs_b).clamp(0.0, self.p.fs_range.0 as f64);
        self.p.base_target.0 as f64 + hops as f64 * self.p.hop.0 as f64 + scaled
    }
}

/// One of the two windows.
#[derive(Clone, Copy, Debug)]
struct Window {
    /// Packets.
    cwnd: f64,
    decreased_at: Time,
}

impl Window {
    fn on_delay(&mut self, law: &SwiftLaw, ack: &AckInfo, delay: f64, target: f64) {
        if delay < target {
            let acked = ack.newly_acked_bytes as f64 / law.mtu;
            self.cwnd += law.p.ai * acked / self.cwnd.max(1.0);
            self.cwnd = self.cwnd.min(law.p.max_cwnd);
        } else {
            let left = (1.0 - law.p.beta * (delay - target) / delay).max(1.0 - law.p.max_mdf);
            self.decrease(law, ack.now, ack.rtt, left);
        }
    }

    fn decrease(&mut self, law: &SwiftLaw, now: Time, rtt: Time, left: f64) {
        if now.saturating_sub(self.decreased_at) >= rtt {
            self.cwnd = (self.cwnd * left).max(law.p.min_cwnd);
            self.decreased_at = now;
        }
    }
}

/// The sender's side of Swift, for one flow.
#[derive(Clone, Debug)]
pub struct Swift {
    fabric: Window,
    endpoint: Window,
    /// Average of the receiving host's delay, ps.
    endpoint_delay: f64,
    /// By the latest ACK.
    rtt: Time,
    hops: u32,
    timeouts: u32,
    sent_at: Time,
    /// End of the pause after the latest packet; none: there is no pause, or it is over.
    pause_ends: Option<Time>,
    line_rate: f64,
    mtu: u64,
}

impl Controller for Swift {
    type Parameters = SwiftParameters;
    type Law = SwiftLaw;

    const USES: Uses = Uses {
        acks: true,
        each_ack: true,
        delay: true,
        hop_count: true,
        window: true,
        timer: true,
        ..Uses::NOTHING
    };
    const SIGNALS: &'static [Signal<Self>] = &[
        Signal {
            name: "rtt_ps",
            unit: "ps",
            help: "Round-trip time by the latest ACK; 0 before the first.",
            merged: Merged::Last,
            read: |flow, _| flow.rtt.0 as f64,
        },
        Signal {
            name: "target_delay_ps",
            unit: "ps",
            help: "Target of the fabric's delay.",
            merged: Merged::Mean,
            read: |flow, law| law.target(flow.fabric.cwnd, flow.hops),
        },
        Signal {
            name: "cwnd_packets",
            unit: "packets",
            help: "Congestion window: the smaller one of the fabric and of the receiving host.",
            merged: Merged::Mean,
            read: |flow, _| flow.cwnd(),
        },
    ];

    fn law(parameters: &SwiftParameters, link: Link) -> Result<SwiftLaw, Refused> {
        parameters.check()?;
        let p = *parameters;
        let (low, high) = (p.fs_min_cwnd, p.fs_max_cwnd);
        Refused::unless(low < high, "fs_min_cwnd", format!("below fs_max_cwnd, {}", in_words(high)))?;
        Refused::unless(
            p.min_cwnd <= p.initial_cwnd,
            "initial_cwnd",
            format!("at least min_cwnd, {}", p.min_cwnd),
        )?;
        Refused::unless(
            p.initial_cwnd <= p.max_cwnd,
            "initial_cwnd",
            format!("at most max_cwnd, {}", p.max_cwnd),
        )?;
        let fs_a = p.fs_range.0 as f64 / (1.0 / low.sqrt() - 1.0 / high.sqrt());
        Ok(SwiftLaw {
            p,
            line_rate: link.rate.bps(),
            mtu: link.mtu_bytes as f64,
            fs_a,
            fs_b: -fs_a / high.sqrt(),
        })
    }

    fn telemetry_bytes(law: &SwiftLaw) -> u32 {
        law.p.telemetry.0 as u32
    }

    fn new(law: &SwiftLaw) -> Self {
        let window = Window { cwnd: law.p.initial_cwnd, decreased_at: Time::ZERO };
        Swift {
            fabric: window,
            endpoint: Window { cwnd: law.p.max_cwnd, ..window },
            endpoint_delay: 0.0,
            rtt: Time::ZERO,
            hops: 0,
            timeouts: 0,
            sent_at: Time::ZERO,
            pause_ends: None,
            line_rate: law.line_rate,
            mtu: law.mtu as u64,
        }
    }

    /// ACKs clock the flow, or the timer.
    fn rate(&self) -> f64 {
        self.line_rate
    }

    /// Whole packets; in a pause none.
    fn window_bytes(&self) -> Option<u64> {
        let packets = if self.pause_ends.is_some() { 0 } else { self.cwnd().max(1.0) as u64 };
        Some(packets.saturating_mul(self.mtu))
    }

    fn on_sent(&mut self, _: &SwiftLaw, now: Time, _payload: u64) {
        self.sent_at = now;
        self.pause(now);
    }

    fn on_ack(&mut self, law: &SwiftLaw, ack: &AckInfo) {
        (self.rtt, self.hops, self.timeouts) = (ack.rtt, ack.hop_count, 0);
        let endpoint = ack.receiver_delay.0 as f64;
        self.endpoint_delay += law.p.endpoint_weight * (endpoint - self.endpoint_delay);
        let target = law.target(self.fabric.cwnd, self.hops);
        self.fabric.on_delay(law, ack, (ack.rtt.0 as f64 - endpoint).max(0.0), target);
        self.endpoint.on_delay(law, ack, self.endpoint_delay, law.p.endpoint_target.0 as f64);
        self.pause(ack.now);
    }

    fn on_loss(&mut self, law: &SwiftLaw, now: Time, loss: Loss) {
        self.timeouts = if loss == Loss::Timeout { self.timeouts.saturating_add(1) } else { 0 };
        for window in [&mut self.fabric, &mut self.endpoint] {
            if self.timeouts >= law.p.retx_reset {
                *window = Window { cwnd: law.p.min_cwnd, decreased_at: now };
            } else {
                window.decrease(law, now, self.rtt, 1.0 - law.p.max_mdf);
            }
        }
        self.pause(now);
    }

    fn next_timeout(&self, _: &SwiftLaw) -> Option<Time> {
        self.pause_ends
    }

    fn on_timeout(&mut self, _: &SwiftLaw, now: Time) {
        self.pause(now);
    }
}

impl Swift {
    /// The window, packets.
    pub fn cwnd(&self) -> f64 {
        self.fabric.cwnd.min(self.endpoint.cwnd)
    }

    /// Works the pause out anew: `rtt / cwnd` from the latest packet on, where the window is below one packet.
    fn pause(&mut self, now: Time) {
        let cwnd = self.cwnd();
        let long = (self.rtt.0 as f64 / cwnd).min(LONGEST_PAUSE) as u64;
        let ends = Time(self.sent_at.0.saturating_add(long));
        self.pause_ends = (cwnd < 1.0 && ends > now).then_some(ends);
    }
}
