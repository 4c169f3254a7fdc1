//! The controllers that there are, and the dispatch to them: a `match`, never a trait object.

use std::num::NonZeroU64;
use std::sync::Arc;

use super::dcqcn::CnpInterval;
use super::external::ExternalControl;
use super::parameters::{Declared, Parameter, Profile};
use super::{Controller, Link, OnLink, Refused, Uses, *};
use crate::units::Time;

/// A controller as people read it.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Description {
    /// Name in scenarios and plans.
    pub name: String,
    /// What it is.
    pub about: String,
    /// What it can be set to.
    pub parameters: Vec<Parameter>,
    /// Settings of its parameters together.
    pub profiles: &'static [Profile],
    /// What it uses of a NIC.
    pub uses: Uses,
    /// What it shows.
    pub signals: Vec<SignalInfo>,
}

/// Those that act beside one of the others: the slower of the two rates counts.
pub fn beside() -> Vec<Description> {
    vec![describe::<crate::congestion::rhcc::Sender>("Rhcc")]
}

fn describe<C: Controller>(name: &str) -> Description {
    Description {
        name: name.to_lowercase(),
        about: C::Parameters::ABOUT.trim().to_string(),
        parameters: C::Parameters::describe(),
        profiles: C::PROFILES,
        uses: C::USES,
        signals: shown::<C>(),
    }
}

macro_rules! controllers {
    ($($Built:ident: $built:ty,)* ; $Last:ident: $last:ty,) => {
        controllers!(@all $($Built: $built,)* $Last: $last,);

        /// All built-in controllers.
        pub fn descriptions() -> Vec<Description> {
            vec![$(describe::<$built>(stringify!($Built)),)*]
        }

        impl Settings {
            /// All of these at their defaults.
            pub fn defaults() -> Vec<Settings> {
                vec![$(Settings::$Built(Default::default()),)*]
            }
        }
    };
    (@all $First:ident: $first:ty, $($Name:ident: $controller:ty,)*) => {
        /// A controller and what it is set to: in a plan its name, in lower case, with its parameters.
        #[derive(Clone, Debug)]
        #[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(rename_all = "lowercase"))]
        pub enum Settings {
            $First(<$first as Controller>::Parameters),
            $($Name(<$controller as Controller>::Parameters),)*
        }

        /// A controller on a kind of NIC: what its flows there share.
        #[derive(Debug)]
        #[repr(u8)] // a tag of its own is quicker to read than one hidden in a field's spare values
        pub enum Congestion {
            $First(<$first as Controller>::Law),
            $($Name(<$controller as Controller>::Law),)*
        }

        /// The controller of a flow: the state that belongs to a [`Congestion`], which each of its functions is given.
        #[derive(Debug)]
        #[repr(u8)]
        pub enum Flow {
            $First($first),
            $($Name($controller),)*
        }

        impl Settings {
            /// On a link.
            ///
            /// # Errors
            /// The parameter that cannot be.
            pub fn on(&self, link: Link) -> Result<Congestion, Refused> {
                Ok(match self {
                    Settings::$First(p) => Congestion::$First(<$first>::law(p, link)?),
                    $(Settings::$Name(p) => Congestion::$Name(<$controller>::law(p, link)?),)*
                })
            }
        }

        impl Congestion {
            fn built_in_name(&self) -> &'static str {
                match self {
                    Congestion::$First(_) => stringify!($First),
                    $(Congestion::$Name(_) => stringify!($Name),)*
                }
            }

            /// What it uses of a NIC.
            pub fn uses(&self) -> Uses {
                match self {
                    Congestion::$First(law) => <$first>::uses(law),
                    $(Congestion::$Name(law) => <$controller>::uses(law),)*
                }
            }

            /// What it adds to each data packet and each answer, bytes.
            pub fn telemetry_bytes(&self) -> u32 {
                match self {
                    Congestion::$First(law) => <$first>::telemetry_bytes(law),
                    $(Congestion::$Name(law) => <$controller>::telemetry_bytes(law),)*
                }
            }

            /// How switches are to put their load in a digest.
            pub fn digests(&self) -> Option<&super::hpcc::Digests> {
                match self {
                    Congestion::$First(law) => <$first>::digests(law),
                    $(Congestion::$Name(law) => <$controller>::digests(law),)*
                }
            }

            /// Bytes of a burst, where bursts are paced and not packets.
            pub fn burst_bytes(&self) -> Option<NonZeroU64> {
                match self {
                    Congestion::$First(law) => <$first>::burst_bytes(law),
                    $(Congestion::$Name(law) => <$controller>::burst_bytes(law),)*
                }
            }

            /// What its flows show.
            pub fn signals(&self) -> Vec<SignalInfo> {
                match self {
                    Congestion::$First(law) => <$first>::signals(law),
                    $(Congestion::$Name(law) => <$controller>::signals(law),)*
                }
            }

            /// The controller of a new flow.
            pub fn flow(&self) -> Flow {
                match self {
                    Congestion::$First(law) => Flow::$First(<$first>::new(law)),
                    $(Congestion::$Name(law) => Flow::$Name(<$controller>::new(law)),)*
                }
            }
        }

        /// See [`Controller`].
        impl Flow {
            /// A packet is being sent: the rate that paces the next one.
            #[inline(always)] // a sender's packets have two ways out, both hot
            pub fn on_sent(&mut self, congestion: &Congestion, now: Time, payload: u64) -> f64 {
                if let (Flow::$First(flow), Congestion::$First(law)) = (&mut *self, congestion) {
                    flow.on_sent(law, now, payload);
                    return flow.rate();
                }
                self.on_sent_by_others(congestion, now, payload)
            }

            #[inline(never)]
            fn on_sent_by_others(&mut self, congestion: &Congestion, now: Time, payload: u64) -> f64 {
                match (self, congestion) {
                    $((Flow::$Name(flow), Congestion::$Name(law)) => {
                        flow.on_sent(law, now, payload);
                        flow.rate()
                    })*
                    _ => unreachable!("a flow belongs to its congestion control"),
                }
            }

            #[inline]
            pub fn rises_at(&self, congestion: &Congestion) -> Time {
                controllers!(@each self, congestion, flow, law => flow.rises_at(law); $First $($Name)*)
            }

            pub fn followed_rate(&mut self, congestion: &Congestion, now: Time) -> Option<f64> {
                controllers!(@each self, congestion, flow, law => flow.followed_rate(law, now); $First $($Name)*)
            }

            #[inline]
            pub fn is_at_min_rate(&self, congestion: &Congestion) -> bool {
                controllers!(@each self, congestion, flow, law => flow.is_at_min_rate(law); $First $($Name)*)
            }

            #[inline(never)]
            pub fn window_bytes(&self) -> Option<u64> {
                match self {
                    Flow::$First(flow) => flow.window_bytes(),
                    $(Flow::$Name(flow) => flow.window_bytes(),)*
                }
            }

            pub fn rate(&self) -> f64 {
                match self {
                    Flow::$First(flow) => flow.rate(),
                    $(Flow::$Name(flow) => flow.rate(),)*
                }
            }

            pub fn on_ack(&mut self, congestion: &Congestion, ack: &AckInfo) {
                controllers!(@each self, congestion, flow, law => flow.on_ack(law, ack); $First $($Name)*)
            }

            pub fn on_cnp(&mut self, congestion: &Congestion, now: Time) {
                controllers!(@each self, congestion, flow, law => flow.on_cnp(law, now); $First $($Name)*)
            }

            pub fn on_loss(&mut self, congestion: &Congestion, now: Time, loss: Loss) {
                controllers!(@each self, congestion, flow, law => flow.on_loss(law, now, loss); $First $($Name)*)
            }

            pub fn next_timeout(&self, congestion: &Congestion) -> Option<Time> {
                controllers!(@each self, congestion, flow, law => flow.next_timeout(law); $First $($Name)*)
            }

            pub fn on_timeout(&mut self, congestion: &Congestion, now: Time) {
                controllers!(@each self, congestion, flow, law => flow.on_timeout(law, now); $First $($Name)*)
            }

            /// Its rate, as it would be if an input came now.
            pub fn rate_at(&self, congestion: &Congestion, now: Time) -> f64 {
                controllers!(@each self, congestion, flow, law => flow.rate_at(law, now); $First $($Name)*)
            }

            /// The value now of a signal, by its number in [`Congestion::signals`].
            pub fn signal(&self, congestion: &Congestion, now: Time, number: usize) -> f64 {
                controllers!(@each self, congestion, flow, law =>
                    flow.signal(law, now, number); $First $($Name)*)
            }
        }
    };
    (@each $self:ident, $congestion:ident, $flow:ident, $law:ident => $body:expr; $($Name:ident)*) => {
        match ($self, $congestion) {
            $((Flow::$Name($flow), Congestion::$Name($law)) => $body,)*
            _ => unreachable!("a flow belongs to its congestion control"),
        }
    };
}

impl Settings {
    /// How far apart a receiver's CNPs are at least, in us, and what that holds for; none: its flows hear none.
    pub fn cnp_interval(&self) -> Option<(u32, CnpInterval)> {
        match self {
            Settings::Dcqcn(p) => Some((p.min_time_between_cnps, p.cnp_interval_per)),
            Settings::External(p) => Some((p.min_time_between_cnps, p.cnp_interval_per)),
            _ => None,
        }
    }
}

impl Congestion {
    /// Its name in scenarios.
    pub fn name(&self) -> String {
        match self {
            Congestion::External(law) => law.name(),
            _ => self.built_in_name().to_lowercase(),
        }
    }

    /// Gives an external controller its code.
    ///
    /// # Errors
    /// It is not among these.
    pub fn install(&mut self, controls: &[Arc<dyn ExternalControl>]) -> Result<(), Refused> {
        match self {
            Congestion::External(law) => law.install(controls),
            _ => Ok(()),
        }
    }
}

built_in!(controllers);

// No congestion control: every queue pair sends at line rate.

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
