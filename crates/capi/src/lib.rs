//! The network of the HPCC profile behind a C interface (`include/tailback.h`): whoever has work for it, such as ASTRA-sim, sends,
//! expects and schedules, and is called when something is done.
//!
//! What callbacks ask for is noted, and handed to the network when they return: within one instant, in their order.

mod bridge;

use std::ffi::{c_char, c_int, c_void, CStr, CString};
use std::ptr::null;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bridge::{Bridge, Call, Command, Shared};
use tailback_compat::hpcc::{fct_text, HpccPlan, HpccSimulation};
use tailback_proto::units::Time;
use tailback_sim::work::Message;

/// Events between two looks at whether the run is over.
const EVENTS: u64 = 1 << 20;

/// A network, and what is to be told to whom. Callbacks come while it runs and use it again, so nothing of it is ever held
/// exclusively meanwhile.
pub struct Tailback {
    plan: HpccPlan,
    hosts: Vec<bool>,
    shared: Arc<Shared>,
    ran: Mutex<Ran>,
    error: Mutex<Option<CString>>,
}

/// How far it is.
enum Ran {
    NotYet,
    Under,
    Done(Box<HpccSimulation>),
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Tailback {
    fn fail(&self, text: String) -> c_int {
        *locked(&self.error) = CString::new(text).ok();
        -1
    }

    fn open(json: &str) -> Result<Tailback, String> {
        let plan = HpccPlan::from_json(json).map_err(|error| error.to_string())?;
        let mut hosts = vec![true; plan.nodes as usize];
        plan.switches.iter().for_each(|&switch| hosts[switch as usize] = false);
        Ok(Tailback {
            plan,
            hosts,
            shared: Arc::default(),
            ran: Mutex::new(Ran::NotYet),
            error: Mutex::default(),
        })
    }

    fn check(&self, from: u32, to: u32, bytes: u64) -> Result<(), String> {
        let is_host = |node: u32| self.hosts.get(node as usize).copied().unwrap_or(false);
        if let Some(node) = [from, to].into_iter().find(|&node| !is_host(node)) {
            return Err(format!("node {node}: expected a host"));
        }
        if from == to {
            return Err(format!("node {from}: expected a message to another host"));
        }
        if !(1..=u32::MAX as u64).contains(&bytes) {
            return Err(format!("{bytes} B from {from} to {to}: expected 1 to {}", u32::MAX));
        }
        Ok(())
    }

    fn run(&self) -> Result<(), String> {
        if !matches!(std::mem::replace(&mut *locked(&self.ran), Ran::Under), Ran::NotYet) {
            return Err("expected one run of a network, found another".into());
        }
        let work = Box::new(Bridge(self.shared.clone()));
        let mut simulation =
            HpccSimulation::with_work(&self.plan, work).map_err(|error| error.to_string())?;
        while !simulation.advance(EVENTS).done {}
        self.shared.set_now(simulation.progress().time);
        *locked(&self.ran) = Ran::Done(Box::new(simulation));
        Ok(())
    }

    fn fct(&self) -> Result<String, String> {
        let Ran::Done(simulation) = std::mem::replace(&mut *locked(&self.ran), Ran::Under) else {
            return Err("expected a network that has run, and whose file was not written".into());
        };
        Ok(fct_text(&simulation.finish().fct))
    }
}

/// A text of the caller's; none where it is not UTF-8.
unsafe fn text<'a>(text: *const c_char) -> Option<&'a str> {
    // SAFETY: the caller hands over a text with a final zero, or NULL.
    (!text.is_null()).then(|| unsafe { CStr::from_ptr(text) }).and_then(|text| text.to_str().ok())
}

/// See `tailback.h`.
///
/// # Safety
/// As `tailback.h` says: `plan` ends with a zero, and `error` has room for `size` bytes.
#[no_mangle]
pub unsafe extern "C" fn tailback_open(
    plan: *const c_char,
    error: *mut c_char,
    size: usize,
) -> *mut Tailback {
    // SAFETY: as of this function.
    let opened = match unsafe { text(plan) } {
        Some(plan) => Tailback::open(plan),
        None => Err("plan: expected JSON in UTF-8".into()),
    };
    match opened {
        Ok(network) => Box::into_raw(Box::new(network)),
        Err(text) => {
            if !error.is_null() && size > 0 {
                let length = text.len().min(size - 1);
                // SAFETY: there is room for `length` bytes and a zero, and nothing else looks at it now.
                unsafe {
                    std::ptr::copy_nonoverlapping(text.as_ptr().cast(), error, length);
                    *error.add(length) = 0;
                }
            }
            std::ptr::null_mut()
        }
    }
}

/// See `tailback.h`.
///
/// # Safety
/// `network` is open.
#[no_mangle]
pub unsafe extern "C" fn tailback_send(
    network: *mut Tailback,
    from: u32,
    to: u32,
    bytes: u64,
    tag: i32,
    sent: Option<extern "C" fn(*mut c_void)>,
    arg: *mut c_void,
) -> c_int {
    // SAFETY: it is open.
    let network = unsafe { &*network };
    if let Err(text) = network.check(from, to, bytes) {
        return network.fail(text);
    }
    let message = Message { from, to, bytes, item: 0, code_point: 0, channel: None };
    network.shared.add(Command::Send(message, tag, sent.map(|call| Call::new(call, arg))));
    0
}

/// See `tailback.h`.
///
/// # Safety
/// `network` is open.
#[no_mangle]
pub unsafe extern "C" fn tailback_receive(
    network: *mut Tailback,
    to: u32,
    from: u32,
    bytes: u64,
    tag: i32,
    received: Option<extern "C" fn(*mut c_void)>,
    arg: *mut c_void,
) -> c_int {
    // SAFETY: it is open.
    let network = unsafe { &*network };
    if let Err(text) = network.check(from, to, bytes) {
        return network.fail(text);
    }
    let call = received.map(|call| Call::new(call, arg));
    if let Some(call) = network.shared.expect((tag, from, to), bytes, call) {
        call.make();
    }
    0
}

/// See `tailback.h`.
///
/// # Safety
/// `network` is open.
#[no_mangle]
pub unsafe extern "C" fn tailback_schedule(
    network: *mut Tailback,
    delay_ns: u64,
    call: Option<extern "C" fn(*mut c_void)>,
    arg: *mut c_void,
) {
    if let Some(call) = call {
        // SAFETY: it is open.
        unsafe { &*network }
            .shared
            .add(Command::Schedule(Time(delay_ns.saturating_mul(1000)), Call::new(call, arg)));
    }
}

/// See `tailback.h`.
///
/// # Safety
/// `network` is open.
#[no_mangle]
pub unsafe extern "C" fn tailback_now(network: *const Tailback) -> u64 {
    // SAFETY: it is open.
    unsafe { &*network }.shared.now().ps() / 1000
}

/// See `tailback.h`.
///
/// # Safety
/// `network` is open, and does not run.
#[no_mangle]
pub unsafe extern "C" fn tailback_run(network: *mut Tailback) -> c_int {
    // SAFETY: it is open.
    let network = unsafe { &*network };
    network.run().map_or_else(|text| network.fail(text), |()| 0)
}

/// See `tailback.h`.
///
/// # Safety
/// `network` is open.
#[no_mangle]
pub unsafe extern "C" fn tailback_stop(network: *mut Tailback) {
    // SAFETY: it is open.
    unsafe { &*network }.shared.stop();
}

/// See `tailback.h`.
///
/// # Safety
/// `network` is open.
#[no_mangle]
pub unsafe extern "C" fn tailback_error(network: *const Tailback) -> *const c_char {
    // SAFETY: it is open.
    locked(&unsafe { &*network }.error).as_ref().map_or(null(), |text| text.as_ptr())
}

/// See `tailback.h`.
///
/// # Safety
/// `network` is open, and does not run; `path` ends with a zero.
#[no_mangle]
pub unsafe extern "C" fn tailback_write_fct(network: *mut Tailback, path: *const c_char) -> c_int {
    // SAFETY: as of this function.
    let (network, path) = unsafe { (&*network, text(path)) };
    let Some(path) = path else { return network.fail("path: expected UTF-8".into()) };
    let written =
        network.fct().and_then(|text| std::fs::write(path, text).map_err(|error| format!("{path}: {error}")));
    written.map_or_else(|text| network.fail(text), |()| 0)
}

/// See `tailback.h`.
///
/// # Safety
/// `network` is open or NULL, and does not run.
#[no_mangle]
pub unsafe extern "C" fn tailback_close(network: *mut Tailback) {
    if !network.is_null() {
        // SAFETY: it came from `tailback_open`, and is not used again.
        drop(unsafe { Box::from_raw(network) });
    }
}
