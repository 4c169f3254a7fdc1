//! What a plan's traffic is built from: queue pairs, writers, messages, and traffic of cores.

use std::collections::HashMap;
use tailback_proto::congestion::notification_point::{CnpInterval, NotificationPoint};
use tailback_proto::units::Time;

use crate::event::{Event, MAX_INDEX};
use crate::host::path::{LoadChange, LINE_BYTES};
use crate::nic::qp::{RecvQp, SendQp};
use crate::nic::slots::{put, GONE};
use crate::plan::{FlowPlan, Plan, PlanError};
use crate::workload::latency::{number, LatencyTest};
use crate::workload::{start_time, Writer};
use crate::world::World;

/// With what the receiver of a queue pair shares its notification point.
fn shares_point(plan: &Plan, s: &SendQp) -> CnpInterval {
    let at_receiver = &plan.nics[plan.hosts[s.dst as usize].nic].congestion[s.congestion as usize];
    at_receiver.cnp_interval().map_or(CnpInterval::Qp, |(_, per)| per)
}

impl World {
    /// Memory traffic, and what the queue pairs to each host write to.
    pub(super) fn add_memory_loads(&mut self, plan: &Plan, names: &HashMap<&str, usize>) {
        for load in &plan.memory_loads {
            let change = |at, begins| LoadChange {
                host_path: self.nics[names[load.host.as_str()]].host_path,
                at,
                begins,
                outstanding_bytes: load.cores as u64 * load.lines_per_core as u64 * LINE_BYTES,
                read_share: load.read_share,
            };
            let ends = load.stop.map(|stop| change(stop, false));
            self.nics.memory_loads.extend([Some(change(load.start, true)), ends].into_iter().flatten());
        }
        for s in &self.nics.send_qps {
            if let Some(host_path) =
                self.nics.host_paths.get_mut(self.nics.nics[s.dst as usize].host_path as usize)
            {
                let writer = &self.nics.writers[s.writer as usize];
                host_path.add_working_set(writer.writes.message_bytes.saturating_mul(writer.tx_depth));
            }
        }
    }

    /// The receiving half of a queue pair whose sending half is there, and the notification point that it may share.
    fn add_receiver(&mut self, plan: &Plan, slot: u32) {
        let nics = &mut self.nics;
        let s = &nics.send_qps[slot as usize];
        let next = nics.free_points.last().copied().unwrap_or(nics.notification_points.len() as u32);
        let notification_point = match shares_point(plan, s) {
            CnpInterval::Qp => next,
            CnpInterval::Destination => {
                *nics.shared_points.entry((s.dst, s.congestion, Some(s.src))).or_insert(next)
            }
            CnpInterval::Port => *nics.shared_points.entry((s.dst, s.congestion, None)).or_insert(next),
        };
        if notification_point == next {
            nics.free_points.pop();
            put(&mut nics.notification_points, next, NotificationPoint::default());
        }
        // It has as many places as the sender's window, which is by the sender's link.
        let model = &nics.models[nics.nics[s.src as usize].model as usize];
        let receiver = RecvQp {
            src: s.src,
            notification_point,
            sends_cnps: s.half.uses.cnps,
            echoes: s.half.uses.acks,
            telemetry_bytes: s.telemetry_bytes,
            congestion: s.congestion,
            ..RecvQp::new(model)
        };
        put(&mut nics.recv_qps, slot, receiver);
    }

    /// The receiving halves of all queue pairs.
    pub(super) fn add_receivers(&mut self, plan: &Plan) {
        for slot in 0..self.nics.send_qps.len() as u32 {
            self.add_receiver(plan, slot);
        }
    }

    /// A message that is sent during the run, which the plan gets, too: both halves of its queue pair. Their slot, and how long
    /// the message takes to its receiver's memory in an empty network.
    ///
    /// # Errors
    /// There is no way, or there are too many.
    pub(crate) fn add_message(&mut self, plan: &mut Plan, flow: FlowPlan) -> Result<(u32, Time), PlanError> {
        let (slot, ideal) = self.add_flow(|| "the work".into(), plan, &flow)?;
        self.add_receiver(plan, slot);
        put(&mut plan.flows.list, slot - self.nics.first_flow_qp, flow);
        Ok((slot, ideal))
    }

    /// A message that was sent during the run, and all that hangs on it, leaves its slot to another.
    pub(crate) fn remove_message(&mut self, plan: &Plan, slot: u32) {
        let nics = &mut self.nics;
        let (s, r) = (&mut nics.send_qps[slot as usize], &nics.recv_qps[slot as usize]);
        nics.slots.give_back(std::mem::replace(&mut s.number, GONE));
        nics.gone_bytes += r.bytes_delivered;
        if shares_point(plan, s) == CnpInterval::Qp {
            nics.free_points.push(r.notification_point);
        }
    }

    pub(super) fn add_writers(&mut self, plan: &Plan, names: &HashMap<&str, usize>) -> Result<(), PlanError> {
        let mut numbers: HashMap<(usize, usize), u32> = HashMap::new();
        for (index, writer) in plan.writers.iter().enumerate() {
            let (src, dst) = (names[writer.src.as_str()], names[writer.dst.as_str()]);
            let nic = &plan.nics[plan.hosts[src].nic];
            let mut built = Writer::new(writer, nic.mtu.0 as u32, self.nics.send_qps.len() as u32);
            let way = self.route(src as u16, dst as u16, built.first_qp);
            self.check_connection(&built, way.as_deref(), (src, dst), plan)
                .map_err(|problem| PlanError::Impossible { place: format!("writers[{index}]"), problem })?;
            let number = numbers.entry((src, dst)).or_default();
            built.first_number = *number;
            *number += writer.qps;
            let congestion = writer.congestion.unwrap_or(plan.hosts[src].congestion);
            for _ in 0..writer.qps {
                let slot = self.nics.send_qps.len() as u32;
                self.add_qp(slot, (src, dst), writer.code_point, index as u32, congestion);
            }
            self.nics.writers.push(built);
        }
        Ok(())
    }

    pub(super) fn add_flows(&mut self, plan: &Plan) -> Result<(), PlanError> {
        self.nics.first_flow_qp = self.nics.send_qps.len() as u32;
        self.nics.messages = vec![0; plan.flows.items.len()];
        self.nics.ideal_fct.reserve_exact(plan.flows.list.len());
        for (index, flow) in plan.flows.list.iter().enumerate() {
            self.add_flow(|| format!("flows[{index}]"), plan, flow)?;
        }
        Ok(())
    }

    /// The sending half of a message's queue pair. Its slot, and how long the message takes to its receiver's memory in an empty
    /// network.
    fn add_flow(
        &mut self,
        place: impl FnOnce() -> String,
        plan: &Plan,
        flow: &FlowPlan,
    ) -> Result<(u32, Time), PlanError> {
        let nic = &plan.nics[plan.hosts[flow.src()].nic];
        let slots = self.nics.send_qps.len();
        let (qp, slot) = (self.nics.slots.numbers(slots), self.nics.slots.next(slots));
        let built = Writer::of_flow(flow.bytes(), nic.mtu.0 as u32, slot, self.nics.messages[flow.item()]);
        let (src, dst) = (flow.src() as u16, flow.dst() as u16);
        let route = self.route(src, dst, qp);
        let route = self
            .check_connection(&built, route.as_deref(), (flow.src(), flow.dst()), plan)
            .map_err(|problem| PlanError::Impossible { place: place(), problem })?;
        let own = plan.flows.congestion.get(flow.item()).copied().flatten();
        let congestion = own.unwrap_or(plan.hosts[flow.src()].congestion);
        let model = &self.nics.models[self.nics[flow.src()].model as usize];
        let telemetry_bytes = model.congestion[congestion].telemetry_bytes();
        let back = self.route(dst, src, qp).expect("links have two ends");
        let (arrived, acknowledged) = self.fabric.ideal_completion(
            route,
            (dst, qp),
            &back,
            built.writes.packets_per_message,
            built.frames(telemetry_bytes),
        );
        put(&mut self.nics.ideal_fct, slot - self.nics.first_flow_qp, acknowledged);
        let gone = self.nics.send_qps.get(slot as usize);
        let writer = gone.map_or(self.nics.writers.len() as u32, |gone| gone.writer);
        self.add_qp(slot, (flow.src(), flow.dst()), flow.code_point(), writer, congestion);
        put(&mut self.nics.writers, writer, built);
        self.nics.messages[flow.item()] += 1;
        Ok((slot, arrived))
    }

    /// How long a message on this queue pair takes its sender's link.
    pub(crate) fn time_on_link(&self, slot: u32) -> Time {
        let s = &self.nics.send_qps[slot as usize];
        let writer = &self.nics.writers[s.writer as usize];
        let port = self.nics[s.src as usize].port as usize;
        let frames = writer.frames(s.telemetry_bytes as u32);
        let on_link = |bytes: u32| self.fabric.serialization(port, bytes).0;
        let packets = writer.writes.packets_per_message;
        let first = if packets > 1 { on_link(frames[0]) } else { 0 };
        Time(first + packets.saturating_sub(2) * on_link(frames[1]) + on_link(frames[2]))
    }

    /// The route of a connection, or why it cannot be.
    fn check_connection<'a>(
        &self,
        writer: &Writer,
        route: Option<&'a [usize]>,
        (src, dst): (usize, usize),
        plan: &Plan,
    ) -> Result<&'a [usize], String> {
        if writer.writes.packets_per_message * writer.tx_depth > 1 << 22 {
            // Half the space of PSNs may be outstanding; a quarter leaves no doubt about what is old.
            return Err("more than 2^22 packets would be outstanding on a queue pair".into());
        }
        let no_route = || format!("no route from {} to {}", plan.hosts[src].name, plan.hosts[dst].name);
        let route = route.ok_or_else(no_route)?;
        if self.nics.slots.numbers(self.nics.send_qps.len()) + writer.qps > MAX_INDEX {
            return Err("too many queue pairs in all".into());
        }
        Ok(route)
    }

    fn add_qp(
        &mut self,
        slot: u32,
        (src, dst): (usize, usize),
        code_point: u8,
        writer: u32,
        congestion: usize,
    ) {
        let nics = &mut self.nics;
        let model = &nics.models[nics.nics[src].model as usize];
        let number = nics.slots.numbers(nics.send_qps.len());
        let qp = SendQp::new(model, number, congestion, writer, (src as u16, dst as u16), code_point);
        put(&mut nics.send_qps, slot, qp);
        nics.slots.take(slot);
    }

    /// Ties the queue pairs of latency tests together.
    pub(super) fn add_latency_tests(&mut self, plan: &Plan) {
        for (index, writer) in plan.writers.iter().enumerate() {
            let Some(partner) = writer.partner else { continue };
            let (own, other) =
                (self.nics.writers[index].first_qp, self.nics.writers[partner.writer].first_qp);
            self.nics.recv_qps[own as usize].answered_by = number(other);
            if partner.begins {
                self.nics.latency_tests.push(LatencyTest {
                    qp: own,
                    sent_at: Time::ZERO,
                    round_trips: Vec::new(),
                });
            }
        }
    }

    /// Schedules the starts and stops of all writers, all single messages, and what happens to links.
    pub(crate) fn schedule(&mut self, plan: &Plan) {
        let (run, nics) = (&mut self.fabric.run, &self.nics);
        for (index, writer) in plan.writers.iter().enumerate() {
            let start = start_time(writer, plan.run.seed, index);
            run.schedule(start, Event::WriterStart(index as u32));
            if let Some(stop) = writer.stop {
                run.schedule(stop.max(start + Time(1)), Event::WriterStop(index as u32));
            }
        }
        for (qp, flow) in (nics.first_flow_qp..).zip(&plan.flows.list) {
            run.schedule(flow.start(), Event::FlowStart(qp));
        }
        for change in 0..nics.memory_loads.len() {
            let at = nics.memory_loads[change].at;
            run.schedule(at, Event::MemoryLoad(change as u32));
        }
        for (change, (at, ..)) in plan.link_changes().into_iter().enumerate() {
            run.schedule(at, Event::LinkChange(change as u32));
        }
    }
}
