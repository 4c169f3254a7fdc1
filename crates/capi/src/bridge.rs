//! What a network and a caller share while it runs.

use std::collections::HashMap;
use std::ffi::c_void;
use std::sync::{Mutex, MutexGuard};
use tailback_compat::history::{Key, Matching};
use tailback_proto::units::Time;
use tailback_sim::work::{Finished, Message, Network, Work};

/// Whom to call, and with what.
#[derive(Clone, Copy, Debug)]
pub struct Call {
    function: extern "C" fn(*mut c_void),
    /// The caller's pointer, which is only handed back.
    arg: usize,
}

impl Call {
    pub fn new(function: extern "C" fn(*mut c_void), arg: *mut c_void) -> Call {
        Call { function, arg: arg as usize }
    }

    pub fn make(self) {
        (self.function)(self.arg as *mut c_void);
    }
}

/// What the caller asks of the network.
#[derive(Debug)]
pub enum Command {
    Send(Message, i32, Option<Call>),
    Schedule(Time, Call),
}

#[derive(Debug, Default)]
struct Inside {
    now: Time,
    stopped: bool,
    commands: Vec<Command>,
    matching: Matching<Option<Call>>,
    sent: HashMap<u32, (Key, u64, Option<Call>)>,
    timers: HashMap<u32, Call>,
    next_timer: u32,
}

/// What is noted from any thread. It is never locked during a call back.
#[derive(Debug, Default)]
pub struct Shared(Mutex<Inside>);

impl Shared {
    fn inside(&self) -> MutexGuard<'_, Inside> {
        self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    pub fn add(&self, command: Command) {
        self.inside().commands.push(command);
    }

    /// Expects bytes. Returns the call to make at once, if they have arrived.
    pub fn expect(&self, key: Key, bytes: u64, call: Option<Call>) -> Option<Call> {
        self.inside().matching.expect(key, bytes, call).then_some(call).flatten()
    }

    pub fn now(&self) -> Time {
        self.inside().now
    }

    pub fn set_now(&self, now: Time) {
        self.inside().now = now;
    }

    pub fn stop(&self) {
        self.inside().stopped = true;
    }

    /// Makes a call, and carries out what it asked for.
    fn call(&self, call: Option<Call>, network: &mut dyn Network) {
        self.set_now(network.now());
        // The callee may ask for more, so nothing is locked meanwhile.
        let stopped = self.inside().stopped;
        if let (Some(call), false) = (call, stopped) {
            call.make();
        }
        let mut inside = self.inside();
        for command in std::mem::take(&mut inside.commands) {
            match command {
                Command::Send(message, tag, call) => {
                    let number = network.send(&message);
                    let Message { from, to, bytes, .. } = message;
                    inside.sent.insert(number, ((tag, from, to), bytes, call));
                }
                Command::Schedule(delay, call) => {
                    let timer = inside.next_timer;
                    inside.next_timer = timer.wrapping_add(1) & ((1 << 28) - 1);
                    inside.timers.insert(timer, call);
                    network.call_after(delay, timer);
                }
            }
        }
    }
}

/// The caller, as the network sees it.
#[derive(Debug)]
pub struct Bridge(pub std::sync::Arc<Shared>);

impl Work for Bridge {
    fn begin(&mut self, network: &mut dyn Network) {
        self.0.call(None, network);
    }

    fn on_timer(&mut self, timer: u32, network: &mut dyn Network) {
        let call = self.0.inside().timers.remove(&timer);
        self.0.call(call, network);
    }

    fn on_done(&mut self, message: u32, network: &mut dyn Network) {
        let Some((key, bytes, sent)) = self.0.inside().sent.remove(&message) else { return };
        self.0.call(sent, network);
        let received = self.0.inside().matching.arrived(key, bytes).flatten();
        self.0.call(received, network);
    }

    fn finished(&self) -> &[Finished] {
        &[]
    }

    fn is_over(&self) -> bool {
        self.0.inside().stopped
    }

    fn problem(&self) -> Option<&str> {
        None
    }

    fn waiting(&self) -> Vec<(u32, String)> {
        Vec::new()
    }
}
