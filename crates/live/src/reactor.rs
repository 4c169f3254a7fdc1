//! One thread with all hosts and switches of a run, their sockets and the clock. It opens the sockets of
//! other namespaces itself, so that they belong to this thread and stay usable here.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use hdrhistogram::Histogram;
use serde::Serialize;
use tailback_proto::congestion::external::ExternalControl;
use tailback_proto::nic::Counters;
use tailback_proto::units::Time;

use crate::capture::Capture;
use crate::clock::{Clock, LONGEST_TURN};
use crate::counted::HostCounters;
use crate::host::Host;
use crate::network::{lay, CableEnd};
use crate::plan::{EndPlan, LivePlan, CLASSES};
use crate::point::InterfaceError;
use crate::series::{Recorder, Series};
use crate::socket::{wait, Namespace, PacketSocket};
use crate::switch::{LaneCounters, Switch};
use crate::turns::Follow;

/// Frames read from an interface before the others have their turn.
const BATCH: usize = 32;
/// Memory for frames that come to an interface while the program has no core.
const RING_BYTES: usize = 16 << 20;
/// The same for an interface whose other end also belongs to this program: what that end sends in a turn.
const OWN_RING_BYTES: usize = 1 << 20;
/// Turns by which a pause takes effect later than on the wire: until the frame is sent, until it is read, and
/// the same for frames that come the other way. Headroom is just enough on the wire, so it is larger here by
/// what a link carries in that time.
const LATE_TURNS: u32 = 4;
/// A sleep and its wake-up take some 15 us: for shorter waits the thread looks again at once.
const SHORTEST_SLEEP: Duration = Duration::from_micros(100);

/// The owner of a socket.
#[derive(Clone, Copy, Debug)]
enum Owner {
    Host(usize),
    Port(usize, usize),
}

struct Attached {
    socket: PacketSocket,
    name: String,
    owner: Owner,
}

/// Results of a host.
#[derive(Debug, Serialize)]
pub struct ToldHost {
    pub counters: HostCounters,
    pub nic: Counters,
    pub paused_ps: u64,
}

/// Results of a flow.
#[derive(Debug, Default, Serialize)]
pub struct ToldFlow {
    pub posted: u64,
    pub completed: u64,
    pub packets: u64,
    pub started: bool,
    pub failed: bool,
    pub ended_ps: Option<u64>,
    pub delivered_bytes: u64,
    pub rate_bps: f64,
    pub sender: Counters,
    pub receiver: Counters,
}

/// Results of a port of a switch.
#[derive(Debug, Serialize)]
pub struct ToldPort {
    pub peer: String,
    pub lost: u64,
    pub lanes: [LaneCounters; CLASSES],
}

/// Results of a run.
#[derive(Debug, Serialize)]
pub struct Told {
    pub now_ps: u64,
    pub ran_s: f64,
    pub stood_s: f64,
    /// How late frames left, in the run's time: percentiles 50, 99 and 99.9, and the maximum, nanoseconds.
    pub late_ns: [u64; 4],
    pub frames: u64,
    pub unread: u64,
    pub unsent: u64,
    pub bin_ps: u64,
    /// None: a host that is elsewhere.
    pub hosts: Vec<Option<ToldHost>>,
    pub flows: Vec<ToldFlow>,
    pub switches: Vec<Vec<ToldPort>>,
    pub pause_frames: u64,
    pub series: Vec<Series>,
}

/// A run on interfaces.
pub struct Reactor {
    plan: LivePlan,
    clock: Clock,
    hosts: Vec<Option<Host>>,
    switches: Vec<Switch>,
    attached: Vec<Attached>,
    /// The namespaces that were made: they and their interfaces live as long as this.
    _namespaces: Vec<Namespace>,
    late: Histogram<u64>,
    recorder: Recorder,
    frames: u64,
    unread: u64,
    unsent: u64,
    now: Time,
    /// Where the frames of a host are written.
    pub capture: Option<Capture>,
}

fn failed(name: &str, error: io::Error) -> InterfaceError {
    InterfaceError { name: name.to_owned(), error }
}

impl Reactor {
    /// Makes the namespaces and cables of the plan, and opens all interfaces. `controls` are controllers that
    /// are not built in, by their numbers in the plan.
    ///
    /// # Errors
    /// An interface or a namespace cannot be used or made, or a controller cannot be set as asked.
    pub fn new(mut plan: LivePlan, controls: &[Arc<dyn ExternalControl>]) -> Result<Reactor, InterfaceError> {
        let late = Time((LATE_TURNS as f64 * LONGEST_TURN.as_nanos() as f64 * 1000.0 / plan.slowdown) as u64);
        for link in plan.switches.iter_mut().flat_map(|switch| &mut switch.ports).map(|port| &mut port.link) {
            link.headroom_bytes += link.rate().bytes_in(late);
        }
        let mut attached = Vec::new();
        let mut namespaces = Vec::new();
        for (number, host) in plan.hosts.iter().enumerate() {
            if let Some(name) = &host.interface {
                let socket = PacketSocket::open(name, RING_BYTES).map_err(|error| failed(name, error))?;
                attached.push(Attached { socket, name: name.clone(), owner: Owner::Host(number) });
            }
        }
        let mut of_node = BTreeMap::new();
        for ends in &plan.cables {
            for end in ends {
                if let std::collections::btree_map::Entry::Vacant(free) = of_node.entry(node(end)) {
                    let made = Namespace::make().map_err(|error| failed("network namespaces", error))?;
                    free.insert(namespaces.len());
                    namespaces.push(made);
                }
            }
        }
        let mtu = plan.hosts.iter().map(|host| host.mtu).max().unwrap_or(0);
        for ends in &plan.cables {
            let names = ends.map(|end| match end {
                EndPlan::Host(_) => "eth0".to_owned(),
                EndPlan::Port(_, port) => format!("p{port}"),
            });
            let places = ends.map(|end| &namespaces[of_node[&node(&end)]]);
            let cable = [0, 1].map(|end| CableEnd { namespace: places[end], name: &names[end] });
            lay(cable, mtu).map_err(|error| failed("veth pairs", error))?;
            for (end, (place, name)) in ends.iter().zip(places.iter().zip(names)) {
                let (owner, of) = match *end {
                    EndPlan::Host(host) => (Owner::Host(host), plan.hosts[host].name.clone()),
                    EndPlan::Port(switch, port) => {
                        (Owner::Port(switch, port), plan.switches[switch].name.clone())
                    }
                };
                let socket = PacketSocket::open_in(place, &name, OWN_RING_BYTES)
                    .map_err(|error| failed(&name, error))?;
                attached.push(Attached { socket, name: format!("{of}:{name}"), owner });
            }
        }
        let is_here =
            |number| attached.iter().any(|one| matches!(one.owner, Owner::Host(of) if of == number));
        let mut hosts = Vec::new();
        for number in 0..plan.hosts.len() {
            let made = is_here(number).then(|| Host::new(&plan, number, controls)).transpose();
            hosts.push(made.map_err(|text| failed(&plan.hosts[number].name, io::Error::other(text)))?);
        }
        let switches = plan.switches.iter().enumerate();
        Ok(Reactor {
            clock: Clock::new(plan.slowdown),
            switches: switches.map(|(number, switch)| Switch::new(switch, plan.seed, number)).collect(),
            recorder: Recorder::new(&plan, controls),
            hosts,
            attached,
            _namespaces: namespaces,
            late: Histogram::new_with_bounds(1, 60_000_000_000, 2).expect("the bounds are in order"),
            frames: 0,
            unread: 0,
            unsent: 0,
            now: Time::ZERO,
            capture: None,
            plan,
        })
    }

    /// Follows the clock of the program that leads at `path`.
    ///
    /// # Errors
    /// Nobody leads there.
    pub fn follow(&mut self, path: &str) -> io::Result<()> {
        self.clock.follow(Follow::new(path)?);
        Ok(())
    }

    /// Runs for the time `span`, or to the end of the run. Returns whether the end is reached, or all that
    /// was to be written is.
    ///
    /// # Errors
    /// An interface is gone.
    pub fn run(&mut self, span: Duration) -> Result<bool, InterfaceError> {
        let until = std::time::Instant::now() + span;
        self.clock.go_on();
        while !self.is_over() && std::time::Instant::now() < until {
            if !self.clock.turn().map_err(|error| failed("the clock", error))? {
                continue;
            }
            let mut busy = false;
            for at in 0..self.attached.len() {
                busy |= self.read(at);
            }
            self.now = self.clock.now();
            let end = self.plan.duration();
            self.recorder.look(&self.plan, self.now, &self.hosts, &mut self.switches);
            let now = self.now.min(end);
            self.hosts.iter_mut().flatten().for_each(|host| host.advance(now));
            self.switches.iter_mut().for_each(|switch| switch.advance(now));
            for at in 0..self.attached.len() {
                busy |= self.write(at)?;
            }
            if !busy && !self.clock.follows() {
                self.sleep();
            }
        }
        for one in &self.attached {
            self.unread += one.socket.take_drops().map_err(|error| failed(&one.name, error))?;
        }
        if self.is_over() {
            self.clock.leave();
        }
        Ok(self.is_over())
    }

    fn is_over(&self) -> bool {
        self.now >= self.plan.duration()
            || (self.hosts.iter().any(|host| host.as_ref().is_some_and(Host::writes))
                && self.hosts.iter().flatten().all(Host::is_done))
    }

    fn sleep(&mut self) {
        let hosts = self.hosts.iter().flatten().filter_map(Host::next_timeout);
        let switches = self.switches.iter().filter_map(Switch::next_timeout);
        let bin = [self.recorder.next(), self.plan.duration()];
        let next = hosts.chain(switches).chain(bin).min().unwrap_or(self.now);
        let span = self.clock.span(self.now, next);
        if span > SHORTEST_SLEEP {
            let span = (span - SHORTEST_SLEEP / 2).min(Duration::from_millis(50));
            self.clock.sleeps(span);
            wait(self.attached.iter().map(|one| &one.socket), span);
            self.now = self.clock.now();
        }
    }

    /// Reads a batch of frames. Returns whether there may be more.
    fn read(&mut self, at: usize) -> bool {
        let one = &mut self.attached[at];
        for _ in 0..BATCH {
            let now = self.clock.now();
            let read = one.socket.receive(|frame, _| match one.owner {
                Owner::Host(number) => {
                    if let Some(capture) = self.capture.as_mut().filter(|capture| capture.host == number) {
                        capture.put(now, frame);
                    }
                    if let Some(host) = &mut self.hosts[number] {
                        host.on_frame(now, frame);
                    }
                }
                Owner::Port(switch, port) => self.switches[switch].on_frame(now, port, frame),
            });
            if read.is_none() {
                return false;
            }
        }
        true
    }

    fn write(&mut self, at: usize) -> Result<bool, InterfaceError> {
        let mut any = false;
        let one = &self.attached[at];
        loop {
            let output = match one.owner {
                Owner::Host(host) => self.hosts[host].as_mut().and_then(|host| host.next_output(self.now)),
                Owner::Port(switch, port) => self.switches[switch].next_output(self.now, port),
            };
            let Some(sending) = output else { return Ok(any) };
            any = true;
            self.frames += 1;
            match one.socket.send(&sending.frame) {
                Ok(()) => {
                    if let (Some(capture), Owner::Host(host)) = (&mut self.capture, one.owner) {
                        if capture.host == host {
                            capture.put(self.now, &sending.frame);
                        }
                    }
                    let late = self.clock.now().saturating_sub(sending.due).ps() / 1000;
                    self.late.saturating_record(late.max(1));
                }
                Err(error) => match error.raw_os_error() {
                    Some(libc::EMSGSIZE | libc::ENOBUFS | libc::EAGAIN | libc::EINTR) => self.unsent += 1,
                    _ => return Err(failed(&one.name, error)),
                },
            }
            match one.owner {
                Owner::Host(host) => {
                    if let Some(host) = &mut self.hosts[host] {
                        host.give_back(sending.frame);
                    }
                }
                Owner::Port(switch, _) => self.switches[switch].give_back(sending.frame),
            }
        }
    }

    /// The run's time.
    pub fn now(&self) -> Time {
        self.now
    }

    /// Results so far; `series`: including its series.
    pub fn told(&self, series: bool) -> Told {
        let late = |share| self.late.value_at_quantile(share);
        let mut flows: Vec<ToldFlow> = self.plan.flows.iter().map(|_| ToldFlow::default()).collect();
        for host in self.hosts.iter().flatten() {
            for (flow, qpn, sender, sends) in host.sending() {
                let told = &mut flows[flow];
                (told.posted, told.completed, told.packets) = (sends.posted, sends.completed, sends.packets);
                (told.started, told.failed) = (sends.started, sends.failed);
                told.ended_ps = sends.ended.map(Time::ps);
                told.sender = sender;
                told.rate_bps = host.nic().shown(self.now, qpn).map_or(0.0, |shown| shown.rate_bps);
            }
            for (flow, receiver, bytes) in host.receiving() {
                (flows[flow].receiver, flows[flow].delivered_bytes) = (receiver, bytes);
            }
        }
        let host = |host: &Host| ToldHost {
            counters: host.counters,
            nic: host.nic().counters(),
            paused_ps: host.paused().ps(),
        };
        let port = |port: &crate::switch::Port| ToldPort {
            peer: port.peer.clone(),
            lost: port.lost,
            lanes: std::array::from_fn(|class| port.lanes[class].told(self.now)),
        };
        Told {
            now_ps: self.now.min(self.plan.duration()).ps(),
            ran_s: self.clock.ran().as_secs_f64(),
            stood_s: self.clock.stood().as_secs_f64(),
            late_ns: [late(0.5), late(0.99), late(0.999), self.late.max()],
            frames: self.frames,
            unread: self.unread,
            unsent: self.unsent,
            bin_ps: self.plan.bin_ps,
            hosts: self.hosts.iter().map(|one| one.as_ref().map(host)).collect(),
            flows,
            switches: self.switches.iter().map(|one| one.ports.iter().map(port).collect()).collect(),
            pause_frames: self.switches.iter().map(|one| one.pause_frames).sum(),
            series: if series { self.recorder.told(&self.plan) } else { Vec::new() },
        }
    }
}

/// The node that has an end, and with it a namespace of its own.
fn node(end: &EndPlan) -> (bool, usize) {
    match *end {
        EndPlan::Host(host) => (false, host),
        EndPlan::Port(switch, _) => (true, switch),
    }
}
