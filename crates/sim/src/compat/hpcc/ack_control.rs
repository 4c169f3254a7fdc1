//! HPCC, TIMELY and DCTCP: the controllers of `proto`, after the papers, driven by this profile's ACKs.
//!
//! Results with them are not that simulator's own: its controllers keep rates in whole bit/s, telemetry in the
//! header's units, and some choices of their own. What they are told, and when a new rate counts, is as there.

use tailback_proto::congestion::dctcp::{Dctcp as DctcpState, DctcpParameters};
use tailback_proto::congestion::hpcc::{Hpcc as HpccState, HpccParameters, MAX_HOPS};
use tailback_proto::congestion::timely::{Timely as TimelyState, TimelyParameters};
use tailback_proto::congestion::{AckInfo, HopTelemetry};
use tailback_proto::units::{Rate, Time};

use super::plan::{Cc, Dctcp, Hpcc, Timely};

const MICROSECOND: u64 = 1_000_000;

/// A flow's controller with its parameters.
#[derive(Debug)]
enum Controller {
    Hpcc(HpccParameters, HpccState),
    Timely(TimelyParameters, TimelyState),
    Dctcp(DctcpParameters, DctcpState),
}

impl Controller {
    /// The controller of a flow from a NIC of `line_rate`; none where ACKs do not matter.
    fn new(cc: &Cc, line_rate: u64, base_rtt_ns: u64) -> Result<Option<Self>, String> {
        let line_rate = Rate(line_rate);
        Ok(Some(match cc {
            Cc::None {} | Cc::Dcqcn(_) => return Ok(None),
            Cc::Hpcc(Hpcc { target_utilization, max_stage, rate_ai_bps, min_rate_bps }) => {
                let base_rtt = Time(base_rtt_ns * 1000);
                let p = HpccParameters {
                    base_rtt,
                    line_rate,
                    eta: *target_utilization,
                    max_stage: *max_stage,
                    additive_bytes: *rate_ai_bps as f64 * base_rtt.0 as f64 / 8e12,
                    min_rate: *min_rate_bps as f64,
                };
                p.check()?;
                Controller::Hpcc(p, HpccState::new(&p))
            }
            // The figures that no file sets are that simulator's.
            Cc::Timely(Timely { rate_ai_bps, rate_hai_bps, min_rate_bps }) => {
                let p = TimelyParameters {
                    line_rate,
                    min_rate: *min_rate_bps as f64,
                    alpha: 0.875,
                    beta: 0.8,
                    additive: *rate_ai_bps as f64,
                    hyper_additive: *rate_hai_bps as f64,
                    hyper_after: 5,
                    t_low: Time(50 * MICROSECOND),
                    t_high: Time(500 * MICROSECOND),
                    min_rtt: Time(20 * MICROSECOND),
                    segment_bytes: 0,
                };
                p.check()?;
                Controller::Timely(p, TimelyState::new(&p))
            }
            Cc::Dctcp(Dctcp { ewma_gain, rate_ai_bps, min_rate_bps }) => {
                let p = DctcpParameters {
                    line_rate,
                    min_rate: *min_rate_bps as f64,
                    g: *ewma_gain,
                    additive: *rate_ai_bps as f64,
                    window_rtt: None,
                };
                p.check()?;
                Controller::Dctcp(p, DctcpState::new(&p))
            }
        }))
    }
}

/// Whether a flow from a NIC of `line_rate` could have its controller: one line if not.
pub(super) fn check(cc: &Cc, line_rate: u64, base_rtt_ns: u64) -> Result<(), String> {
    Controller::new(cc, line_rate, base_rtt_ns).map(|_| ())
}

/// What a packet collects on its way.
#[derive(Clone, Debug)]
struct Trail {
    sent: u64,
    hops: usize,
    hop: [HopTelemetry; MAX_HOPS],
}

/// The controllers of all flows, and beside each packet what it collects.
#[derive(Debug)]
pub(super) struct AckControl {
    flows: Vec<Option<Box<Controller>>>,
    trails: Vec<Trail>,
    /// Whether switches write telemetry.
    pub needs_hops: bool,
}

impl AckControl {
    /// None where ACKs do not matter.
    pub fn new(cc: &Cc) -> Option<Self> {
        let hears_acks = !matches!(cc, Cc::None {} | Cc::Dcqcn(_));
        let needs_hops = matches!(cc, Cc::Hpcc(_));
        hears_acks.then(|| AckControl { flows: Vec::new(), trails: Vec::new(), needs_hops })
    }

    /// A flow starts.
    pub fn begin(&mut self, flow: u32, cc: &Cc, line_rate: u64, base_rtt_ns: u64) {
        let flow = flow as usize;
        if self.flows.len() <= flow {
            self.flows.resize_with(flow + 1, || None);
        }
        self.flows[flow] = Controller::new(cc, line_rate, base_rtt_ns).ok().flatten().map(Box::new);
    }

    /// A flow is done.
    pub fn end(&mut self, flow: u32) {
        self.flows[flow as usize] = None;
    }

    /// A data packet is sent.
    pub fn depart(&mut self, packet: u32, now: u64) {
        let packet = packet as usize;
        if self.trails.len() <= packet {
            let none = HopTelemetry { at: Time::ZERO, tx_bytes: 0, queue_bytes: 0, rate: Rate(0) };
            self.trails.resize(packet + 1, Trail { sent: 0, hops: 0, hop: [none; MAX_HOPS] });
        }
        let trail = &mut self.trails[packet];
        (trail.sent, trail.hops) = (now, 0);
    }

    /// A data packet leaves a switch's queue. The header holds five hops.
    pub fn pass(&mut self, packet: u32, telemetry: HopTelemetry) {
        let trail = &mut self.trails[packet as usize];
        if trail.hops < MAX_HOPS {
            trail.hop[trail.hops] = telemetry;
            trail.hops += 1;
        }
    }

    /// An ACK, once the data packet `packet`, is back: the flow's new rate in bit/s. `ack.rtt` and `ack.hops` are
    /// filled in here.
    pub fn on_ack(&mut self, flow: u32, packet: u32, ack: &AckInfo) -> Option<u64> {
        let trail = &self.trails[packet as usize];
        let rtt = Time(ack.now.0 - trail.sent);
        let ack = AckInfo { rtt, hops: &trail.hop[..trail.hops], ..*ack };
        let controller = self.flows[flow as usize].as_deref_mut()?;
        let rate = match controller {
            Controller::Hpcc(p, state) => {
                state.on_ack(p, &ack);
                state.rate()
            }
            Controller::Timely(p, state) => {
                state.on_ack(p, &ack);
                state.rate()
            }
            Controller::Dctcp(p, state) => {
                state.on_ack(p, &ack);
                state.rate()
            }
        };
        Some((rate as u64).max(1))
    }
}
