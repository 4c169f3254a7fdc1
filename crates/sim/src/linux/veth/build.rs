//! Namespaces, veth pairs and what sends over them are built from the plan.

use std::collections::HashMap;
use tailback_proto::units::Time;

use super::settings::Polling;
use super::sources::{Flood, Frames, Ping, State};
use super::{End, Namespace};
use crate::engine::stream;
use crate::linux::core::{CoreModel, LinuxCore};
use crate::linux::napi::{Napi, Output, Thread};
use crate::linux::{Linux, Timer};
use crate::plan::{PlanError, VethNetworkPlan};

impl Linux {
    fn add_core(&mut self, wakeup: Time) -> u32 {
        self.cores.push(LinuxCore::new(CoreModel { idle_exit: wakeup, ..CoreModel::default() }));
        self.cores.len() as u32 - 1
    }

    fn add_timer(&mut self, timer: Timer) -> u32 {
        self.timers.push(timer);
        self.timers.len() as u32 - 1
    }

    /// Builds the namespaces of a checked plan.
    ///
    /// # Errors
    /// A queueing discipline with impossible settings.
    pub fn add_veths(&mut self, plan: &VethNetworkPlan, seed: u64) -> Result<(), PlanError> {
        let number: HashMap<&str, u32> =
            plan.namespaces.iter().enumerate().map(|(index, n)| (n.name.as_str(), index as u32)).collect();
        self.veths.namespaces = (plan.namespaces.iter())
            .map(|n| Namespace {
                take: n.costs.take,
                stack: n.costs.way_up(),
                echo: n.costs.way_up_of_echo(),
                jitter: n.costs.jitter,
                wakeup: n.costs.wakeup,
                threaded: n.costs.napi == Polling::Threaded,
                gro_batch: n.costs.gro_batch as usize,
                delivered_packets: 0,
                delivered_bytes: 0,
            })
            .collect();
        for (index, veth) in plan.veths.iter().enumerate() {
            for (side, name) in [&veth.a, &veth.b].into_iter().enumerate() {
                let qdisc = veth.qdisc.build(&format!("veth.veths[{index}].qdisc"), veth.frame_bytes)?;
                let own = (2 * index + side) as u64;
                let random = ["veth qdisc", "veth poll"].map(|kind| stream(seed, kind, own));
                let mut end = End::new(veth, number[name.as_str()], qdisc, random);
                let own = self.veths.ends.len() as u32;
                self.napis.push(Napi::Veth(own));
                end.napi = self.napis.len() as u32 - 1;
                self.outputs.push(Output::Veth(own));
                end.output = self.outputs.len() as u32 - 1;
                end.watchdog = self.add_timer(Timer::VethWatchdog(own));
                end.shaper = self.add_timer(Timer::VethShaper(own));
                self.veths.ends.push(end);
            }
        }
        for own in 0..self.veths.ends.len() {
            let receiver = self.veths.namespaces[self.veths.ends[own ^ 1].namespace as usize].clone();
            if receiver.threaded {
                self.threads.push(Thread::VethNapi(own as u32));
                self.veths.ends[own].thread = self.threads.len() as u32 - 1;
                self.veths.ends[own].poll_core = self.add_core(receiver.wakeup);
            }
        }
        self.add_sources(plan, &number, seed);
        Ok(())
    }

    /// The end by which a namespace reaches another.
    fn end_between(&self, src: u32, dst: u32) -> u32 {
        let ends = &self.veths.ends;
        let joins = |&end: &usize| ends[end].namespace == src && ends[end ^ 1].namespace == dst;
        (0..ends.len()).find(joins).expect("the plan was checked") as u32
    }
}

impl Linux {
    pub(super) fn add_sources(&mut self, plan: &VethNetworkPlan, number: &HashMap<&str, u32>, seed: u64) {
        let between = |linux: &Linux, src: &str, dst: &str| linux.end_between(number[src], number[dst]);
        let wakeup = |linux: &Linux, src: &str| linux.veths.namespaces[number[src] as usize].wakeup;
        for (index, item) in plan.datagrams.iter().enumerate() {
            self.threads.push(Thread::Flood(index as u32));
            let core = self.add_core(wakeup(self, &item.src));
            let timer = self.add_timer(Timer::Flood(index as u32));
            self.veths.floods.push(Flood {
                end: between(self, &item.src, &item.dst),
                frame_bytes: item.frame_bytes,
                send: item.send,
                interval: item.interval,
                sndbuf: item.sndbuf.0,
                blocks: item.blocking,
                stop: item.stop.unwrap_or(Time::NEVER),
                core,
                thread: self.threads.len() as u32 - 1,
                timer,
                state: State::Timer,
                next_at: item.start,
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
                interval: item.interval,
                spread: item.spread,
                due: item.start,
                random: stream(seed, "ping", index as u64),
                stop: item.stop.unwrap_or(Time::NEVER),
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
                interval: item.interval,
                stop: item.stop.unwrap_or(Time::NEVER),
                core,
                timer,
                sent: 0,
                delivered: 0,
                dropped: 0,
            });
        }
    }
}
