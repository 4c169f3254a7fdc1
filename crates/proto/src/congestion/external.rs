//! A controller that is not built in: whoever runs the engine brings it, in any language.
//!
//! It hears what the others hear and answers what they answer, through a trait object: for prototypes.

use std::fmt::Debug;
use std::sync::Arc;

use super::dcqcn::CnpInterval;
use super::parameters::{Declared, Refused};
use super::{AckInfo, Controller, Link, Loss, SignalInfo, Uses};
use crate::parameters;
use crate::units::Time;

parameters! {
    /// A controller that is not built in; the plan says which.
    pub struct ExternalParameters {
    }
    worked out {
        /// Its number among those that the engine was given.
        number: u32;
        /// As DCQCN's, where it hears CNPs.
        min_time_between_cnps: u32;
        /// As DCQCN's.
        cnp_interval_per: CnpInterval;
    }
}

/// An input of a flow's controller.
#[derive(Clone, Copy, Debug)]
pub enum Input<'a> {
    /// A packet is being sent, with its bytes of payload.
    Sent(u64),
    Ack(&'a AckInfo<'a>),
    Cnp,
    Loss(Loss),
    /// Its timer.
    Timeout,
}

/// The rate, window and timer of a flow from now on.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Answer {
    /// bit/s, above 0 and up to the link's rate.
    pub rate: f64,
    /// Bytes in flight; none: no limit. At 0 its timer runs.
    pub window: Option<u64>,
    /// When its timer is due; none: it does not run.
    pub next_timeout: Option<Time>,
}

/// One flow of an external controller.
pub trait ExternalFlow: Debug + Send + Sync {
    /// Something happened.
    fn hear(&mut self, now: Time, input: Input) -> Answer;
    /// The rate as it would be if an input came now, without changing what is seen later.
    fn rate_at(&self, now: Time) -> f64;
    /// A signal's value now, likewise.
    fn signal(&self, now: Time, number: usize) -> f64;
}

/// An external controller.
pub trait ExternalControl: Debug + Send + Sync {
    /// Its name in scenarios.
    fn name(&self) -> String;
    /// What it uses of a NIC.
    fn uses(&self) -> Uses;
    /// What it adds to each data packet and each answer, bytes.
    fn telemetry_bytes(&self) -> u32;
    /// What it shows.
    fn signals(&self) -> Vec<SignalInfo>;
    /// A new flow, and what it may do at first.
    fn flow(self: Arc<Self>, link: Link) -> (Box<dyn ExternalFlow>, Answer);
}

/// An external controller on a link.
#[derive(Clone, Debug)]
pub struct ExternalLaw {
    number: u32,
    link: Link,
    control: Arc<dyn ExternalControl>,
}

impl ExternalLaw {
    /// Its name in scenarios.
    pub fn name(&self) -> String {
        self.control.name()
    }

    /// Takes the controller that its number stands for.
    ///
    /// # Errors
    /// There is none.
    pub fn install(&mut self, controls: &[Arc<dyn ExternalControl>]) -> Result<(), Refused> {
        let control = controls.get(self.number as usize);
        self.control =
            control.ok_or_else(|| Refused::new("number", "that of a controller that was given"))?.clone();
        Ok(())
    }
}

/// Where none was given yet.
#[derive(Debug)]
struct Absent;

impl ExternalControl for Absent {
    fn name(&self) -> String {
        "external".into()
    }
    fn uses(&self) -> Uses {
        Uses::NOTHING
    }
    fn telemetry_bytes(&self) -> u32 {
        0
    }
    fn signals(&self) -> Vec<SignalInfo> {
        Vec::new()
    }
    fn flow(self: Arc<Self>, link: Link) -> (Box<dyn ExternalFlow>, Answer) {
        (Box::new(Absent), Answer { rate: link.rate.bps(), window: None, next_timeout: None })
    }
}

impl ExternalFlow for Absent {
    fn hear(&mut self, _now: Time, _input: Input) -> Answer {
        Answer { rate: 1.0, window: None, next_timeout: None }
    }
    fn rate_at(&self, _now: Time) -> f64 {
        1.0
    }
    fn signal(&self, _now: Time, _number: usize) -> f64 {
        0.0
    }
}

/// A flow under an external controller.
#[derive(Debug)]
pub struct External {
    flow: Box<dyn ExternalFlow>,
    answer: Answer,
}

impl Controller for External {
    type Parameters = ExternalParameters;
    type Law = ExternalLaw;

    const USES: Uses = Uses::NOTHING;

    fn law(parameters: &ExternalParameters, link: Link) -> Result<ExternalLaw, Refused> {
        parameters.check()?;
        Ok(ExternalLaw { number: parameters.number, link, control: Arc::new(Absent) })
    }

    fn uses(law: &ExternalLaw) -> Uses {
        law.control.uses()
    }

    fn signals(law: &ExternalLaw) -> Vec<SignalInfo> {
        law.control.signals()
    }

    fn telemetry_bytes(law: &ExternalLaw) -> u32 {
        law.control.telemetry_bytes()
    }

    fn new(law: &ExternalLaw) -> Self {
        let (flow, answer) = law.control.clone().flow(law.link);
        External { flow, answer }
    }

    fn rate(&self) -> f64 {
        self.answer.rate
    }

    fn window_bytes(&self) -> Option<u64> {
        self.answer.window
    }

    fn on_sent(&mut self, _: &ExternalLaw, now: Time, payload: u64) {
        self.answer = self.flow.hear(now, Input::Sent(payload));
    }

    fn on_ack(&mut self, _: &ExternalLaw, ack: &AckInfo) {
        self.answer = self.flow.hear(ack.now, Input::Ack(ack));
    }

    fn on_cnp(&mut self, _: &ExternalLaw, now: Time) {
        self.answer = self.flow.hear(now, Input::Cnp);
    }

    fn on_loss(&mut self, _: &ExternalLaw, now: Time, loss: Loss) {
        self.answer = self.flow.hear(now, Input::Loss(loss));
    }

    fn next_timeout(&self, _: &ExternalLaw) -> Option<Time> {
        self.answer.next_timeout
    }

    fn on_timeout(&mut self, _: &ExternalLaw, now: Time) {
        if self.answer.next_timeout.is_some_and(|deadline| now >= deadline) {
            self.answer = self.flow.hear(now, Input::Timeout);
        }
    }

    fn rate_at(&self, _: &ExternalLaw, now: Time) -> f64 {
        self.flow.rate_at(now)
    }

    fn signal(&self, _: &ExternalLaw, now: Time, number: usize) -> f64 {
        self.flow.signal(now, number)
    }
}
