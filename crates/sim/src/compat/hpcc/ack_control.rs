//! HPCC, TIMELY and DCTCP: the controllers of `proto`, after the papers, driven by this profile's ACKs.
//!
//! Results with them are not that simulator's own: its controllers keep rates in whole bit/s, telemetry in the
//! header's units, and some choices of their own. What they are told, and when a new rate counts, is as there.

use tailback_proto::congestion::builtin::{Congestion, Flow as Controller, Settings};
use tailback_proto::congestion::dctcp::DctcpParameters;
use tailback_proto::congestion::hpcc::HpccParameters;
use tailback_proto::congestion::parameters::RoundTrip;
use tailback_proto::congestion::timely::TimelyParameters;
use tailback_proto::congestion::{AckInfo, HopTelemetry, Link};
use tailback_proto::units::{Bytes, Rate, Time};

use super::plan::{Cc, Dctcp, Hpcc, Timely};
use crate::fabric::telemetry::Telemetry;

/// The congestion control of flows from a NIC of `line_rate`: one line where it cannot be.
pub(super) fn congestion(cc: &Cc, line_rate: u64, base_rtt_ns: u64) -> Result<Congestion, String> {
    let base_rtt = Time(base_rtt_ns * 1000);
    let settings = match cc {
        Cc::None {} | Cc::Dcqcn(_) => Settings::None(Default::default()),
        Cc::Hpcc(Hpcc { target_utilization, max_stage, min_rate_bps, .. }) => {
            Settings::Hpcc(HpccParameters {
                base_rtt: RoundTrip(base_rtt),
                eta: *target_utilization,
                max_stage: *max_stage,
                min_rate: Rate(*min_rate_bps),
                ..Default::default()
            })
        }
        // The figures that no file sets are that simulator's (rdma-hw.cc, attributes Timely*).
        Cc::Timely(Timely { rate_ai_bps, rate_hai_bps, min_rate_bps }) => {
            Settings::Timely(TimelyParameters {
                min_rate: Rate(*min_rate_bps),
                alpha: 0.875,
                beta: 0.8,
                additive: Rate(*rate_ai_bps),
                hyper_additive: Rate(*rate_hai_bps),
                hyper_after: 5,
                t_low: Time::from_us(50),
                t_high: Time::from_us(500),
                min_rtt: RoundTrip(Time::from_us(20)),
                segment: Bytes(0),
                ..Default::default()
            })
        }
        Cc::Dctcp(Dctcp { ewma_gain, rate_ai_bps, min_rate_bps }) => Settings::Dctcp(DctcpParameters {
            min_rate: Rate(*min_rate_bps),
            g: *ewma_gain,
            additive: Rate(*rate_ai_bps),
            window_rtt: None,
        }),
    };
    // Packets are told apart by their numbers: the size of one matters to none of these.
    let link = Link { rate: Rate(line_rate), mtu_bytes: 1000 };
    let mut congestion = settings.on(link).map_err(|refused| refused.to_string())?;
    if let (Congestion::Hpcc(law), Cc::Hpcc(hpcc)) = (&mut congestion, cc) {
        law.additive_bytes = hpcc.rate_ai_bps as f64 * base_rtt.as_secs_f64() / 8.0;
    }
    Ok(congestion)
}

/// A flow's controller, and the congestion control that it belongs to.
#[derive(Debug)]
struct Flow {
    congestion: Congestion,
    controller: Controller,
}

/// The controllers of all flows, and beside each packet what it collects. An ACK is its data packet, turned round.
#[derive(Debug)]
pub(super) struct AckControl {
    flows: Vec<Option<Box<Flow>>>,
    telemetry: Telemetry,
}

impl AckControl {
    /// None where ACKs do not matter.
    pub fn new(cc: &Cc) -> Option<Self> {
        let hears_acks = !matches!(cc, Cc::None {} | Cc::Dcqcn(_));
        let hops = matches!(cc, Cc::Hpcc(_));
        hears_acks.then(|| AckControl { flows: Vec::new(), telemetry: Telemetry::new(hops) })
    }

    /// Whether switches write telemetry.
    pub fn needs_hops(&self) -> bool {
        self.telemetry.hops
    }

    /// A flow starts; the plan was checked.
    pub fn begin(&mut self, flow: u32, cc: &Cc, line_rate: u64, base_rtt_ns: u64) {
        let flow = flow as usize;
        if self.flows.len() <= flow {
            self.flows.resize_with(flow + 1, || None);
        }
        self.flows[flow] = congestion(cc, line_rate, base_rtt_ns)
            .ok()
            .map(|congestion| Box::new(Flow { controller: congestion.flow(), congestion }));
    }

    /// A flow is done.
    pub fn end(&mut self, flow: u32) {
        self.flows[flow as usize] = None;
    }

    /// A data packet is sent.
    pub fn depart(&mut self, packet: u32, now: Time) {
        self.telemetry.begin(packet, now);
    }

    /// A data packet leaves a switch's queue.
    pub fn pass(&mut self, packet: u32, hop: HopTelemetry) {
        self.telemetry.add_hop(packet, hop);
    }

    /// An ACK, once the data packet `packet`, is back: the flow's new rate in bit/s. `ack.rtt` and `ack.hops` are
    /// filled in here.
    pub fn on_ack(&mut self, flow: u32, packet: u32, ack: &AckInfo) -> Option<u64> {
        let echo = self.telemetry.of(packet);
        let flow = self.flows[flow as usize].as_deref_mut()?;
        flow.controller
            .on_ack(&flow.congestion, &AckInfo { rtt: ack.now - echo.sent_at, hops: echo.hops(), ..*ack });
        Some((flow.controller.rate() as u64).max(1))
    }
}
