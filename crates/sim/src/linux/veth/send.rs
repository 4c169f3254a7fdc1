//! What traffic sources do: floods, pings and batches of XDP frames.

use tailback_proto::units::Time;

use super::sources::{Sample, State};
use super::Kind;
use crate::cores::Purpose;
use crate::engine::uniform;
use crate::event::Event;
use crate::fabric::Fabric;
use crate::linux::core::Unit;
use crate::linux::Linux;
use crate::plan::VethNetworkPlan;
use crate::run::Run;

impl Linux {
    /// Schedules the start of everything that sends over veth pairs.
    pub(crate) fn start_veths(&mut self, run: &mut Run, plan: &VethNetworkPlan) {
        let veths = &self.veths;
        let floods = veths.floods.iter().zip(&plan.datagrams).map(|(f, p)| (f.timer, p.start.0));
        let pings = veths.pings.iter().zip(&plan.pings).map(|(s, p)| (s.timer, p.start.0));
        let frames = veths.frames.iter().zip(&plan.frames).map(|(s, p)| (s.timer, p.start.0));
        let starts: Vec<(u32, u64)> = floods.chain(pings).chain(frames).collect();
        for (timer, start) in starts {
            run.schedule(Time(start), Event::LinuxTimer(timer));
        }
    }

    /// A flood begins, or its rate lets it send again.
    pub(in crate::linux) fn on_flood_timer(&mut self, fabric: &mut Fabric, flood: u32) {
        let f = &mut self.veths.floods[flood as usize];
        f.state = State::Running;
        let (core, thread) = (f.core, f.thread);
        self.wake_linux_thread(fabric, core, thread);
    }

    /// A flood's thread calls `sendto`. `None`: it waits.
    pub(in crate::linux) fn flood_unit(&mut self, fabric: &mut Fabric, flood: u32) -> Option<Unit> {
        let now = fabric.run.now;
        let f = &mut self.veths.floods[flood as usize];
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
            fabric.run.schedule(at, Event::LinuxTimer(timer));
            return None;
        }
        Some(Unit { cost: f.send, weight: 0, purpose: Purpose::Sys })
    }

    /// The call has built a packet.
    pub(in crate::linux) fn flood_unit_ends(&mut self, fabric: &mut Fabric, core: u32, flood: u32) {
        let f = &mut self.veths.floods[flood as usize];
        f.sent += 1;
        f.next_at += f.interval;
        let (end, bytes) = (f.end, f.frame_bytes);
        self.veth_send(fabric, core, end, Kind::Datagram(flood), 0, bytes);
    }

    /// A packet no longer counts for a flood's socket.
    pub(super) fn flood_may_go_on(&mut self, fabric: &mut Fabric, flood: u32, freed_bytes: u32) {
        let f = &mut self.veths.floods[flood as usize];
        f.charged_bytes -= freed_bytes as u64;
        let room = if f.blocks { f.sndbuf / 2 } else { f.sndbuf };
        if f.state == State::Room && f.charged_bytes < room {
            f.state = State::Running;
            let (core, thread) = (f.core, f.thread);
            self.wake_linux_thread(fabric, core, thread);
        }
    }

    /// The next echo request.
    pub(in crate::linux) fn on_ping_timer(&mut self, fabric: &mut Fabric, ping: u32) {
        let now = fabric.run.now;
        let p = &mut self.veths.pings[ping as usize];
        if now >= p.stop {
            return;
        }
        let sequence = p.samples.len() as u32;
        p.samples.push(Sample { sent_at: now, rtt: None, lost: false });
        p.due += p.interval;
        let later = (p.spread.0 as f64 * uniform(&mut p.random)) as u64;
        let (core, end, bytes, timer, next) = (p.core, p.end, p.frame_bytes, p.timer, p.due + Time(later));
        fabric.run.schedule(next, Event::LinuxTimer(timer));
        self.veth_send(fabric, core, end, Kind::EchoRequest(ping), sequence, bytes);
    }

    /// The next batch of XDP frames.
    pub(in crate::linux) fn on_frames_timer(&mut self, fabric: &mut Fabric, source: u32) {
        let now = fabric.run.now;
        let f = &mut self.veths.frames[source as usize];
        if now >= f.stop {
            return;
        }
        f.sent += f.batch as u64;
        let (core, end, batch, bytes) = (f.core, f.end, f.batch, f.frame_bytes);
        let (timer, next) = (f.timer, now + f.interval);
        fabric.run.schedule(next, Event::LinuxTimer(timer));
        self.veth_send_frames(fabric, core, end, source, batch, bytes);
    }
}
