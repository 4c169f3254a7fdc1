//! Congestion controllers: what the engine declares of its own, and those that are written in Python.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use tailback_proto::congestion::builtin::{beside, descriptions, Settings};
use tailback_proto::congestion::external::{Answer, ExternalControl, ExternalFlow, Input};
use tailback_proto::congestion::{AckInfo, Link, Loss, Merged, SignalInfo, Uses};
use tailback_proto::units::{Rate, Time};

pyo3::create_exception!(
    _engine,
    ControllerError,
    pyo3::exceptions::PyException,
    "A controller in Python failed."
);

/// All controllers as JSON: those that a queue pair may run, then those that act beside one.
#[pyfunction]
pub fn controllers() -> PyResult<String> {
    serde_json::to_string(&[descriptions(), beside()])
        .map_err(|error| PyValueError::new_err(error.to_string()))
}

/// All sections of settings as JSON.
#[pyfunction]
pub fn settings() -> PyResult<String> {
    serde_json::to_string(&tailback_sim::settings::sections())
        .map_err(|error| PyValueError::new_err(error.to_string()))
}

/// None where a controller can be set so on a link; else what parameter is wrong and what was expected.
#[pyfunction]
pub fn check_controller(
    settings_json: &str,
    rate_bps: u64,
    mtu_bytes: u32,
) -> PyResult<Option<(&'static str, String)>> {
    let settings: Settings =
        serde_json::from_str(settings_json).map_err(|error| PyValueError::new_err(error.to_string()))?;
    let refused = settings.on(Link { rate: Rate(rate_bps), mtu_bytes }).err();
    Ok(refused.map(|refused| (refused.field, refused.expected)))
}

/// What a switch wrote into a packet.
#[pyclass(frozen, get_all)]
pub struct Hop {
    at: u64,
    tx_bytes: u64,
    queue_bytes: u64,
    rate: u64,
}

/// What an acknowledgement tells.
#[pyclass(frozen, get_all)]
pub struct Ack {
    now: u64,
    rtt: u64,
    receiver_delay: u64,
    newly_acked_bytes: u64,
    acknowledged_bytes: u64,
    sent_bytes: u64,
    marked: bool,
    hop_count: u32,
    hops: Py<PyTuple>,
}

impl Ack {
    fn new(py: Python<'_>, ack: &AckInfo) -> PyResult<Self> {
        let hops = ack.hops.iter().map(|hop| Hop {
            at: hop.at.0,
            tx_bytes: hop.tx_bytes,
            queue_bytes: hop.queue_bytes,
            rate: hop.rate.0,
        });
        let hops: PyResult<Vec<Py<Hop>>> = hops.map(|hop| Py::new(py, hop)).collect();
        Ok(Ack {
            now: ack.now.0,
            rtt: ack.rtt.0,
            receiver_delay: ack.receiver_delay.0,
            newly_acked_bytes: ack.newly_acked_bytes,
            acknowledged_bytes: ack.acknowledged_bytes,
            sent_bytes: ack.sent_bytes,
            marked: ack.marked,
            hop_count: ack.hop_count,
            hops: PyTuple::new(py, hops?)?.unbind(),
        })
    }
}

/// How a controller failed.
#[derive(Debug)]
pub struct Failed {
    name: String,
    /// Its number among the queue pairs of this controller.
    queue_pair: u64,
    /// The function that was called.
    after: &'static str,
    what: String,
    cause: Option<PyErr>,
}

impl Failed {
    /// As an exception: name, number, function, and what happened.
    pub fn raised(self, py: Python<'_>) -> PyErr {
        let error = ControllerError::new_err((self.name, self.queue_pair, self.after, self.what));
        error.set_cause(py, self.cause);
        error
    }
}

/// The first failure of a run.
pub type Failure = Arc<Mutex<Option<Failed>>>;

/// Raises what made a controller fail, once.
pub fn raise(py: Python<'_>, failure: &Failure) -> PyResult<()> {
    match failure.lock().map(|mut failure| failure.take()) {
        Ok(Some(failed)) => Err(failed.raised(py)),
        _ => Ok(()),
    }
}

/// A class of controllers, as `tailback.controller.Checked` gives it.
#[derive(FromPyObject)]
pub struct Checked {
    name: String,
    make: Py<PyAny>,
    uses: std::collections::HashMap<String, bool>,
    telemetry_bytes: u32,
    signals: Vec<(String, String)>,
    hears: [bool; 6],
}

/// The same for the engine.
#[derive(Debug)]
struct Control {
    name: String,
    make: Py<PyAny>,
    uses: Uses,
    telemetry_bytes: u32,
    signals: Vec<SignalInfo>,
    hears: [bool; 6],
    flows: AtomicU64,
    failure: Failure,
}

impl Checked {
    /// For the engine; failures go to `failure`.
    pub fn control(self, failure: &Failure) -> Arc<dyn ExternalControl> {
        let uses = |name: &str| self.uses.get(name).copied().unwrap_or(false);
        let signal = |(name, help): &(String, String)| SignalInfo {
            name: name.clone().into(),
            unit: "",
            help: help.clone().into(),
            merged: Merged::Mean,
        };
        Arc::new(Control {
            uses: Uses {
                acks: uses("acks"),
                each_ack: uses("each_ack"),
                delay: uses("delay"),
                hop_count: uses("hop_count"),
                telemetry: uses("telemetry"),
                cnps: uses("cnps"),
                window: uses("window"),
                timer: uses("timer"),
            },
            signals: self.signals.iter().map(signal).collect(),
            name: self.name,
            make: self.make,
            telemetry_bytes: self.telemetry_bytes,
            hears: self.hears,
            flows: AtomicU64::new(0),
            failure: failure.clone(),
        })
    }
}

impl ExternalControl for Control {
    fn name(&self) -> String {
        self.name.clone()
    }

    fn uses(&self) -> Uses {
        self.uses
    }

    fn telemetry_bytes(&self) -> u32 {
        self.telemetry_bytes
    }

    fn signals(&self) -> Vec<SignalInfo> {
        self.signals.clone()
    }

    fn flow(self: Arc<Self>, link: Link) -> (Box<dyn ExternalFlow>, Answer) {
        let number = self.flows.fetch_add(1, Ordering::Relaxed);
        let still = Answer { rate: link.rate.bps(), window: None, next_timeout: None };
        let mut flow = Flow {
            control: self.clone(),
            number,
            line_rate: link.rate.bps(),
            object: None,
            answer: still,
            seen: Mutex::default(),
        };
        Python::attach(|py| match self.make.call1(py, (link.rate.bps(), link.mtu_bytes)) {
            Ok(object) => {
                flow.object = Some(object);
                flow.read(py, Time::ZERO, "__init__");
            }
            Err(error) => flow.fail(py, "__init__", error),
        });
        let answer = flow.answer;
        (Box::new(flow), answer)
    }
}

/// The controller of one queue pair.
#[derive(Debug)]
struct Flow {
    control: Arc<Control>,
    number: u64,
    line_rate: f64,
    /// None where it could not be made.
    object: Option<Py<PyAny>>,
    answer: Answer,
    /// What the recorder saw last: when, the rate, and each signal.
    seen: Mutex<(Time, Vec<f64>)>,
}

const HEARS: [&str; 5] = ["on_sent", "on_ack", "on_cnp", "on_loss", "on_timeout"];
/// Place of `peek` in [`Checked::hears`].
const PEEK: usize = 5;

impl Flow {
    fn fail(&self, py: Python<'_>, after: &'static str, error: PyErr) {
        let kind = error.get_type(py).name().map_or_else(|_| "Exception".into(), |name| name.to_string());
        self.give_up(after, format!("raised {kind}: {}", error.value(py)), Some(error));
    }

    fn give_up(&self, after: &'static str, what: String, cause: Option<PyErr>) {
        let mut failure = self.control.failure.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let name = || self.control.name.clone();
        failure.get_or_insert_with(|| Failed { name: name(), queue_pair: self.number, after, what, cause });
    }

    /// Reads what the controller answers.
    fn read(&mut self, py: Python<'_>, now: Time, after: &'static str) {
        let Some(object) = &self.object else { return };
        match answer(object.bind(py), now, self.line_rate) {
            Ok(Ok(answer)) => self.answer = answer,
            Ok(Err(nonsense)) => self.give_up(after, nonsense, None),
            Err(error) => self.fail(py, after, error),
        }
    }

    /// The rate (number 0) and the signals, asked for once for each instant.
    fn peek(&self, now: Time, number: usize) -> f64 {
        let mut seen = self.seen.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        if seen.1.is_empty() || seen.0 != now {
            let values =
                Python::attach(|py| self.look(py, now).map_err(|error| self.fail(py, "peek", error)));
            *seen = (now, values.unwrap_or_default());
        }
        seen.1.get(number).copied().unwrap_or(if number == 0 { self.answer.rate } else { f64::NAN })
    }

    fn look(&self, py: Python<'_>, now: Time) -> PyResult<Vec<f64>> {
        let Some(object) = &self.object else { return Ok(Vec::new()) };
        let object = object.bind(py);
        let looks = self.control.hears[PEEK];
        let peeked = if looks { &object.call_method1(pyo3::intern!(py, "peek"), (now.0,))? } else { object };
        let rate = std::iter::once(peeked.getattr(pyo3::intern!(py, "rate")));
        let signals = self.control.signals.iter().map(|signal| peeked.getattr(&*signal.name));
        rate.chain(signals).map(|value| value?.extract()).collect()
    }
}

/// What a controller answers, or what is wrong with that.
fn answer(object: &Bound<'_, PyAny>, now: Time, line_rate: f64) -> PyResult<Result<Answer, String>> {
    let py = object.py();
    let rate = object.getattr(pyo3::intern!(py, "rate"))?;
    let rate: f64 = match rate.extract() {
        Ok(number) => number,
        Err(_) => return Ok(Err(format!("rate: found {}, expected a number", rate.repr()?))),
    };
    // 0.1 %: what is left of the link's rate after arithmetic may lie a little above it.
    if !(rate > 0.0 && rate <= line_rate * 1.001) {
        return Ok(Err(format!(
            "rate: found {rate}, expected above 0 and up to the link's, {line_rate} bit/s"
        )));
    }
    let whole = |name: &Bound<'_, pyo3::types::PyString>| -> PyResult<Result<Option<u64>, String>> {
        let value = object.getattr(name)?;
        if value.is_none() {
            return Ok(Ok(None));
        }
        match value.extract::<u64>() {
            Ok(number) => Ok(Ok(Some(number))),
            Err(_) => {
                Ok(Err(format!("{name}: found {}, expected None or a whole number from 0", value.repr()?)))
            }
        }
    };
    let window = match whole(pyo3::intern!(py, "window"))? {
        Ok(window) => window,
        Err(nonsense) => return Ok(Err(nonsense)),
    };
    let next_timeout = match whole(pyo3::intern!(py, "next_timeout"))? {
        // A deadline that has passed would fire for ever at one instant.
        Ok(Some(at)) if at <= now.0 && now > Time::ZERO => {
            return Ok(Err(format!("next_timeout: found {at}, expected later than now, {}", now.0)))
        }
        Ok(at) => at.map(Time),
        Err(nonsense) => return Ok(Err(nonsense)),
    };
    if window == Some(0) && next_timeout.is_none() {
        return Ok(Err("window: found 0, expected more, or a next_timeout at which it opens".into()));
    }
    Ok(Ok(Answer { rate: rate.min(line_rate), window, next_timeout }))
}

impl Flow {
    /// Whether a controller of the run has failed. A deadline that is never moved on would then be due forever.
    fn has_failed(&mut self) -> bool {
        let failed = self.control.failure.lock().map_or(true, |failure| failure.is_some());
        if failed {
            self.answer.next_timeout = None;
        }
        failed
    }
}

impl ExternalFlow for Flow {
    fn hear(&mut self, now: Time, input: Input) -> Answer {
        let number = match input {
            Input::Sent(_) => 0,
            Input::Ack(_) => 1,
            Input::Cnp => 2,
            Input::Loss(_) => 3,
            Input::Timeout => 4,
        };
        if !self.control.hears[number] || self.has_failed() {
            return self.answer;
        }
        static NAMES: [OnceLock<Py<pyo3::types::PyString>>; 5] = [const { OnceLock::new() }; 5];
        Python::attach(|py| {
            let Some(object) = &self.object else { return };
            let name = NAMES[number].get_or_init(|| pyo3::types::PyString::new(py, HEARS[number]).unbind());
            let object = object.bind(py);
            let said = match input {
                Input::Sent(payload) => object.call_method1(name, (now.0, payload)),
                Input::Ack(ack) => Ack::new(py, ack).and_then(|ack| object.call_method1(name, (ack,))),
                Input::Cnp | Input::Timeout => object.call_method1(name, (now.0,)),
                Input::Loss(Loss::Nak) => object.call_method1(name, (now.0, "nak")),
                Input::Loss(Loss::Timeout) => object.call_method1(name, (now.0, "timeout")),
            };
            match said {
                Ok(_) => self.read(py, now, HEARS[number]),
                Err(error) => self.fail(py, HEARS[number], error),
            }
        });
        self.has_failed();
        self.answer
    }

    fn rate_at(&self, now: Time) -> f64 {
        self.peek(now, 0)
    }

    fn signal(&self, now: Time, number: usize) -> f64 {
        self.peek(now, 1 + number)
    }
}
