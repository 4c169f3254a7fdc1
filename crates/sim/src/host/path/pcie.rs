//! The PCIe link between the NIC and the root port.
//!
//! Source: PCI Express base specification 3.1, sections 2.6 and 3.5; Neugebauer et al., "Understanding PCIe performance
//! for end host networking", SIGCOMM 2018, section 3: a memory write of up to the maximum payload takes 24 B beside it.

use tailback_proto::flow_control::pcie_credits::{Credits, PostedCredits, DATA_CREDIT_BYTES};
use tailback_proto::units::{Rate, Time};

use super::iio::Residence;
use crate::plan::HostPathPlan;

/// Bursts to the credits: a burst is short against them, so that the credits of its first writes are back before its
/// last ones need them, as they are in hardware.
const BURSTS_OF_CREDITS: u64 = 4;

/// A PCIe link and the credits of the writes on it.
#[derive(Debug)]
pub(crate) struct PcieLink {
    pub rate: Rate,
    max_payload: u64,
    tlp_overhead: u64,
    credit_latency: Time,
    pub credits: PostedCredits,
    /// Largest burst that is one step.
    pub burst_bytes: u64,
    /// When the last write of what was begun has left.
    pub free_at: Time,
    /// Payload written.
    pub write_bytes: u64,
    /// With headers, both ways: nothing may exceed the rate.
    pub link_bytes: u64,
    /// Credits that were given back, or will be.
    pub given_back: Credits,
    /// Time that writes waited for credits.
    pub stalled: Time,
    /// Payload whose credits are away.
    pub away: Residence,
}

/// A burst of writes on the link.
pub(crate) struct Burst {
    pub credits: Credits,
    pub from: Time,
    pub to: Time,
    /// Time on the link.
    pub span: Time,
    pub stalled: Time,
}

impl PcieLink {
    pub fn new(plan: &HostPathPlan) -> Self {
        let granted = Credits { header: plan.pcie.header_credits as u64, data: plan.data_credits() };
        let payload = plan.pcie.max_payload.0;
        let by_data = granted.data * DATA_CREDIT_BYTES / BURSTS_OF_CREDITS;
        let by_headers = granted.header * payload / BURSTS_OF_CREDITS;
        // Whole writes, at least one.
        let burst = by_data.min(by_headers) / payload * payload;
        PcieLink {
            rate: plan.pcie.rate,
            max_payload: payload,
            tlp_overhead: plan.tlp_overhead_bytes,
            credit_latency: plan.pcie.credit_latency,
            credits: PostedCredits::new(granted),
            burst_bytes: burst.max(payload),
            free_at: Time::ZERO,
            write_bytes: 0,
            link_bytes: 0,
            given_back: Credits::default(),
            stalled: Time::ZERO,
            away: Residence::default(),
        }
    }

    /// Sends a burst from `at` on, as soon as there are credits.
    pub fn depart(&mut self, at: Time, bytes: u64) -> Burst {
        let credits = Credits::of_write(bytes, self.max_payload);
        let link_bytes = bytes + credits.header * self.tlp_overhead;
        let span = self.rate.serialization(link_bytes);
        let (from, to) = self.credits.departure(credits, at, span);
        let stalled = to - (at + span);
        self.stalled += stalled;
        self.write_bytes += bytes;
        self.link_bytes += link_bytes;
        Burst { credits, from, to, span, stalled }
    }

    /// Books when the credits of a burst come back that ends from `from` to `to`.
    pub fn give_back(&mut self, now: Time, bytes: u64, burst: &Burst, from: Time, to: Time) {
        let (from, to) = (from + self.credit_latency, to + self.credit_latency);
        self.credits.send(burst.credits, from, to);
        self.given_back.header += burst.credits.header;
        self.given_back.data += burst.credits.data;
        self.away.pass(now, bytes, (burst.from, burst.to), (from, to));
    }

    /// Time that the completions of a read take on the link: as a write's, the other way.
    pub fn read_span(&self, bytes: u64) -> Time {
        let headers = bytes.div_ceil(self.max_payload);
        self.rate.serialization(bytes + headers * self.tlp_overhead)
    }
}
