//! The host behind the NIC: the data path to its memory and the agent that watches it; its CPU, its sockets, and the
//! rings between them and the NIC.
//!
//! RoCE packets never come to the CPU: an RDMA WRITE costs the CPUs of both ends nothing.

pub(crate) mod agent;
pub(crate) mod cpu;
pub(crate) mod path;
pub(crate) mod settings;
pub(crate) mod socket;

use std::collections::HashMap;
use tailback_proto::transport::tcp::{TcpReceiver, TcpSender};
use tailback_proto::units::Time;

use crate::declare::PlanError;
use crate::event::Event;
use crate::fabric::Fabric;
use crate::host::cpu::Cpus;
use crate::host::socket::{Connection, Group, Sockets, Stack, TxRings, RECEIVER, SENDER};
use crate::nic::queue_pair::QpState;
use crate::nic::settings::NicPlan;
use crate::nic::Nics;
use crate::run::Run;
use crate::workload::settings::TcpConnectionPlan;

/// The TCP of all hosts: their CPUs, their connections, and their transmit rings.
#[derive(Debug, Default)]
pub(crate) struct Tcp {
    pub cpus: Cpus,
    pub sockets: Sockets,
    pub rings: TxRings,
}

// Connections, and the CPUs and rings that they need, are built from the plan.

impl Tcp {
    /// Sets up the connections of a checked plan, and the CPUs that they need. `nic_of` gives a host's kind of NIC, with its number.
    pub fn add_connections<'a>(
        &mut self,
        fabric: &mut Fabric,
        nics: &mut Nics,
        (connections, seed): (&[TcpConnectionPlan], u64),
        nic_of: impl Fn(usize) -> (usize, &'a NicPlan),
        names: &HashMap<&str, usize>,
    ) -> Result<(), PlanError> {
        self.sockets.first_flow = nics.send_qps.len() as u32;
        let mut stack_of: HashMap<usize, u16> = HashMap::new();
        let mut numbers: HashMap<(usize, usize), u32> = HashMap::new();
        for (index, group) in connections.iter().enumerate() {
            let ends = [names[group.src.as_str()], names[group.dst.as_str()]];
            let mut stacks = [0; 2];
            for (host, stack) in ends.into_iter().zip(&mut stacks) {
                let (kind, nic) = nic_of(host);
                let (Some(tcp), Some(cpu)) = (&nic.tcp, &nic.cpu) else { unreachable!("it was checked") };
                self.cpus.add(host, cpu);
                *stack = *stack_of.entry(kind).or_insert_with(|| {
                    self.sockets.stacks.push(Stack::new(tcp));
                    self.sockets.stacks.len() as u16 - 1
                });
            }
            let first = self.sockets.connections.len() as u32;
            let [src, dst] = ends;
            if fabric.route(nics[src].port as usize, dst as u16, self.sockets.first_flow + first).is_none() {
                return Err(PlanError::Impossible {
                    place: format!("tcp_connections[{index}]"),
                    problem: format!("no route from {} to {}", group.src, group.dst),
                });
            }
            self.sockets.groups.push(Group {
                first,
                connections: group.connections,
                bytes: group.bytes.map(|bytes| bytes.0),
            });
            for connection in first..first + group.connections {
                let cores = ends.map(|host| self.cpus.rss(host, seed, connection as u64));
                let classes = ends.map(|host| fabric.classes.of(host)[group.code_point as usize]);
                let ports = ends.map(|host| nics[host].port);
                let rings = [0, 1].map(|end| self.rings.ring(cores[end], classes[end], ports[end]));
                let number = numbers.entry((src, dst)).or_default();
                let parameters = &self.sockets.stacks[stacks[SENDER] as usize].parameters;
                let receiving = &self.sockets.stacks[stacks[RECEIVER] as usize].parameters;
                self.sockets.connections.push(Connection {
                    sender: TcpSender::new(parameters),
                    receiver: TcpReceiver::new(receiving),
                    state: QpState::Waiting,
                    closed: group.bytes.is_some(),
                    queued: 0,
                    throttled: false,
                    reading: false,
                    timer_at: [Time::NEVER; 2],
                    held: 0,
                    sender_core: cores[SENDER],
                    receiver_core: cores[RECEIVER],
                    sender_ring: rings[SENDER],
                    receiver_ring: rings[RECEIVER],
                    sender_stack: stacks[SENDER],
                    receiver_stack: stacks[RECEIVER],
                    src: src as u16,
                    dst: dst as u16,
                    class: classes[SENDER],
                    code_point: group.code_point,
                    group: index as u32,
                    number: *number,
                    start: Time::ZERO,
                    end: Time::ZERO,
                    packets_sent: 0,
                    packets_retransmitted: 0,
                    bytes_read: 0,
                    duplicate_packets: 0,
                });
                *number += 1;
            }
        }
        fabric.run.active_flows += self.sockets.connections.len();
        Ok(())
    }
}

/// Schedules the starts and stops of all connections: each group of connections draws from its own stream.
pub(crate) fn schedule(run: &mut Run, connections: &[TcpConnectionPlan], seed: u64) {
    for (index, group) in connections.iter().enumerate() {
        let mut stream = crate::engine::stream(seed, "tcp start", index as u64);
        let offset = crate::engine::uniform(&mut stream) * group.start_spread.0 as f64;
        let start = group.start + Time(offset as u64);
        run.schedule(start, Event::TcpStart(index as u32));
        if let Some(stop) = group.stop {
            run.schedule(stop.max(start + Time(1)), Event::TcpStop(index as u32));
        }
    }
}
