//! No congestion control: every queue pair sends at line rate.

use super::{Controller, Link, OnLink, Refused, Uses};

crate::parameters! {
    /// No congestion control: every queue pair sends at line rate.
    pub struct LineRateParameters {}
}

/// A flow at line rate, bit/s.
#[derive(Clone, Copy, Debug)]
pub struct LineRate(f64);

impl Controller for LineRate {
    type Parameters = LineRateParameters;
    type Law = OnLink<LineRateParameters>;

    const USES: Uses = Uses::NOTHING;

    fn law(parameters: &LineRateParameters, link: Link) -> Result<Self::Law, Refused> {
        OnLink::new(*parameters, link)
    }

    fn new(law: &Self::Law) -> Self {
        LineRate(law.line_rate)
    }

    fn rate(&self) -> f64 {
        self.0
    }
}
