//! Traffic sources: threads that flood, pings, batches of XDP frames.
//!
//! A flood's thread calls `sendto` again and again. What it sent counts for its socket (`sk_wmem_alloc`) until it is
//! dropped or the receiver's stack has it; at `sk_sndbuf` the call waits until half of that is free (net/core/sock.c,
//! `sock_def_write_space`), or, with MSG_DONTWAIT in a loop, fails until there is room for one.
//!
//! Leaves out: the cost of failing calls in a loop; nothing else wants that core here.

use std::collections::HashMap;
use tailback_proto::units::Time;

use super::Kind;
use crate::engine::{stream, uniform, Stream};
use crate::event::Event;
use crate::linux::core::{Purpose, Unit};
use crate::linux::napi::Thread;
use crate::linux::{Linux, Timer};
use crate::plan::VethNetworkPlan;
use crate::world::World;

/// What a flood's thread waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Its start, or the next turn of its rate.
    Timer,
    /// It runs.
    Running,
    /// Room in its socket's buffer.
    Room,
    Stopped,
}

/// A thread that sends datagrams.
#[derive(Debug)]
pub(crate) struct Flood {
    end: u32,
    frame_bytes: u32,
    send: Time,
    interval: Time,
    sndbuf: u64,
    blocks: bool,
    stop: Time,
    core: u32,
    thread: u32,
    timer: u32,
    state: State,
    next_at: Time,
    /// Memory that counts for its socket, bytes.
    pub charged_bytes: u64,
    pub sent: u64,
    pub delivered: u64,
    pub dropped: u64,
    /// How often it waited for room.
    pub waits: u64,
}

/// What became of an echo request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sample {
    pub sent_at: Time,
    pub rtt: Option<Time>,
    pub lost: bool,
}

/// Echo requests at regular intervals.
#[derive(Debug)]
pub(crate) struct Ping {
    end: u32,
    frame_bytes: u32,
    interval: Time,
    spread: Time,
    /// When the next request is due, and how much later it is sent.
    due: Time,
    random: Stream,
    stop: Time,
    core: u32,
    timer: u32,
    pub samples: Vec<Sample>,
    /// The latest answer's round trip.
    pub rtt: Time,
}

impl Ping {
    pub(super) fn answered(&mut self, sequence: u32, now: Time) {
        let sample = &mut self.samples[sequence as usize];
        self.rtt = now - sample.sent_at;
        sample.rtt = Some(self.rtt);
    }
}

/// Batches of XDP frames.
#[derive(Debug)]
pub(crate) struct Frames {
    end: u32,
    frame_bytes: u32,
    batch: u32,
    interval: Time,
    stop: Time,
    core: u32,
    timer: u32,
    pub sent: u64,
    pub delivered: u64,
    pub dropped: u64,
}

impl Linux {
    pub(super) fn add_sources(&mut self, plan: &VethNetworkPlan, number: &HashMap<&str, u32>, seed: u64) {
        let between = |linux: &Linux, src: &str, dst: &str| linux.end_between(number[src], number[dst]);
        let wakeup = |linux: &Linux, src: &str| linux.veths.namespaces[number[src] as usize].wakeup;
        let stop = |stop: Option<u64>| stop.map_or(Time::NEVER, Time);
        for (index, item) in plan.datagrams.iter().enumerate() {
            self.threads.push(Thread::Flood(index as u32));
            let core = self.add_core(wakeup(self, &item.src));
            let timer = self.add_timer(Timer::Flood(index as u32));
            self.veths.floods.push(Flood {
                end: between(self, &item.src, &item.dst),
                frame_bytes: item.frame_bytes,
                send: Time(item.send_ps),
                interval: Time(item.interval_ps),
                sndbuf: item.sndbuf_bytes,
                blocks: item.blocks,
                stop: stop(item.stop_ps),
                core,
                thread: self.threads.len() as u32 - 1,
                timer,
                state: State::Timer,
                next_at: Time(item.start_ps),
                charged_bytes: 0,
                sent: 0,
                delivered: 0,
                dropped: 0,
                waits: 0,
            });
        }
        for (index, item) in plan.pings.iter().enumerate() {
            let core = self.add_core(wakeup(self, &item.src));
            let timer = self.add_timer(Timer::Ping(index as u32));
            self.veths.pings.push(Ping {
                end: between(self, &item.src, &item.dst),
                frame_bytes: item.frame_bytes,
                interval: Time(item.interval_ps),
                spread: Time(item.spread_ps),
                due: Time(item.start_ps),
                random: stream(seed, "ping", index as u64),
                stop: stop(item.stop_ps),
                core,
                timer,
                samples: Vec::new(),
                rtt: Time::ZERO,
            });
        }
        for (index, item) in plan.frames.iter().enumerate() {
            let core = self.add_core(wakeup(self, &item.src));
            let timer = self.add_timer(Timer::Frames(index as u32));
            self.veths.frames.push(Frames {
                end: between(self, &item.src, &item.dst),
                frame_bytes: item.frame_bytes,
                batch: item.batch,
                interval: Time(item.interval_ps),
                stop: stop(item.stop_ps),
                core,
                timer,
                sent: 0,
                delivered: 0,
                dropped: 0,
            });
        }
    }
}

impl World {
    /// Schedules the start of everything that sends over veth pairs.
    pub(crate) fn start_veths(&mut self, plan: &VethNetworkPlan) {
        let veths = &self.linux.veths;
        let floods = veths.floods.iter().zip(&plan.datagrams).map(|(f, p)| (f.timer, p.start_ps));
        let pings = veths.pings.iter().zip(&plan.pings).map(|(s, p)| (s.timer, p.start_ps));
        let frames = veths.frames.iter().zip(&plan.frames).map(|(s, p)| (s.timer, p.start_ps));
        let starts: Vec<(u32, u64)> = floods.chain(pings).chain(frames).collect();
        for (timer, start) in starts {
            self.fabric.run.schedule(Time(start), Event::LinuxTimer(timer));
        }
    }

    /// A flood begins, or its rate lets it send again.
    pub(in crate::linux) fn on_flood_timer(&mut self, flood: u32) {
        let f = &mut self.linux.veths.floods[flood as usize];
        f.state = State::Running;
        let (core, thread) = (f.core, f.thread);
        self.wake_linux_thread(core, thread);
    }

    /// A flood's thread calls `sendto`. `None`: it waits.
    pub(in crate::linux) fn flood_unit(&mut self, flood: u32) -> Option<Unit> {
        let now = self.fabric.run.now;
        let f = &mut self.linux.veths.floods[flood as usize];
        if now >= f.stop {
            f.state = State::Stopped;
            return None;
        }
        if f.charged_bytes >= f.sndbuf {
            f.state = State::Room;
            f.waits += 1;
            return None;
        }
        if f.next_at > now {
            f.state = State::Timer;
            let (at, timer) = (f.next_at, f.timer);
            self.fabric.run.schedule(at, Event::LinuxTimer(timer));
            return None;
        }
        Some(Unit { cost: f.send, weight: 0, purpose: Purpose::Sys })
    }

    /// The call has built a packet.
    pub(in crate::linux) fn flood_unit_ends(&mut self, core: u32, flood: u32) {
        let f = &mut self.linux.veths.floods[flood as usize];
        f.sent += 1;
        f.next_at += f.interval;
        let (end, bytes) = (f.end, f.frame_bytes);
        self.veth_send(core, end, Kind::Datagram(flood), 0, bytes);
    }

    /// A packet no longer counts for a flood's socket.
    pub(super) fn flood_may_go_on(&mut self, flood: u32, freed_bytes: u32) {
        let f = &mut self.linux.veths.floods[flood as usize];
        f.charged_bytes -= freed_bytes as u64;
        let room = if f.blocks { f.sndbuf / 2 } else { f.sndbuf };
        if f.state == State::Room && f.charged_bytes < room {
            f.state = State::Running;
            let (core, thread) = (f.core, f.thread);
            self.wake_linux_thread(core, thread);
        }
    }

    /// The next echo request.
    pub(in crate::linux) fn on_ping_timer(&mut self, ping: u32) {
        let now = self.fabric.run.now;
        let p = &mut self.linux.veths.pings[ping as usize];
        if now >= p.stop {
            return;
        }
        let sequence = p.samples.len() as u32;
        p.samples.push(Sample { sent_at: now, rtt: None, lost: false });
        p.due += p.interval;
        let later = (p.spread.0 as f64 * uniform(&mut p.random)) as u64;
        let (core, end, bytes, timer, next) = (p.core, p.end, p.frame_bytes, p.timer, p.due + Time(later));
        self.fabric.run.schedule(next, Event::LinuxTimer(timer));
        self.veth_send(core, end, Kind::EchoRequest(ping), sequence, bytes);
    }

    /// The next batch of XDP frames.
    pub(in crate::linux) fn on_frames_timer(&mut self, source: u32) {
        let now = self.fabric.run.now;
        let f = &mut self.linux.veths.frames[source as usize];
        if now >= f.stop {
            return;
        }
        f.sent += f.batch as u64;
        let (core, end, batch, bytes) = (f.core, f.end, f.batch, f.frame_bytes);
        let (timer, next) = (f.timer, now + f.interval);
        self.fabric.run.schedule(next, Event::LinuxTimer(timer));
        self.veth_send_frames(core, end, source, batch, bytes);
    }
}
