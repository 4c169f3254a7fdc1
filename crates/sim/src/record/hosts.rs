//! What is recorded of hosts: their NICs, and agents that control congestion inside of them.

use super::quantity::{counters, quantities};
use crate::world::World;
use tailback_proto::nic::Counters as NicCounters;

quantities! {
    /// What a NIC sent and received.
    NIC of ["host"] always, |bin, host| {
        "goodput_tx_bps": Rate, "bit/s", "payload of its messages, delivered in order at their receivers"
            = bin.world.nics[host].goodput_tx_bytes;
        "goodput_rx_bps": Rate, "bit/s", "payload that it received in order"
            = bin.world.nics[host].goodput_rx_bytes;
        "wire_tx_bps": Rate, "bit/s", "all packets that it sent, with preamble and gap"
            = bin.world.fabric.ports[bin.world.nics[host].port as usize].wire_bytes;
        "wire_rx_bps": Rate, "bit/s", "all packets for it, in order or not, with preamble and gap, as they leave the peer"
            = wire_rx(bin.world, host);
        "packet_seq_err": Count ("packet_seq_err") [Nak], "packets", "NAKs that it received as a requester"
            = bin.world.nics[host].counters.rdma.packet_seq_err;
        "out_of_sequence": Count ("out_of_sequence"), "packets", "packets that came out of order to it as a responder"
            = bin.world.nics[host].counters.rdma.out_of_sequence;
        "local_ack_timeout_err": Count ("local_ack_timeout_err"), "timeouts", "timeouts of it as a requester"
            = bin.world.nics[host].counters.rdma.local_ack_timeout_err;
        "np_cnp_sent": Count ("np_cnp_sent") [Cnp], "packets", "CNPs that it sent"
            = bin.world.nics[host].counters.rdma.np_cnp_sent;
        "rp_cnp_handled": Count ("rp_cnp_handled"), "packets", "CNPs that it received and that set a rate; losses, too, where `losses_are_cnps`"
            = bin.world.nics[host].counters.rdma.rp_cnp_handled;
        "cnp_delay_ns": Count, "ns", "how long the CNPs that it handled had been on their way, all together: to be divided by `rp_cnp_handled`"
            = bin.world.nics[host].counters.cnp_delay_ns;
    }
}

quantities! {
    /// What a NIC heard of delays.
    DELAY of ["host"], |bin, host| {
        "delay_probes": Count [DelayProbe], "packets", "answers that brought it a delay which its congestion control acts on: each ACK of TIMELY and Swift, each answer to a probe of RHCC"
            = bin.world.nics[host].counters.rdma.delay_probes;
    }
}

/// Whether a host may have queue pairs that act on delays.
pub(super) fn hears_delay(world: &World, host: usize) -> bool {
    let model = &world.nics.models[world.nics[host].model as usize];
    model.rhcc.is_some() || model.congestion.iter().any(|congestion| congestion.uses().delay)
}

/// What the peer of a host's port put on the wire towards it.
fn wire_rx(world: &World, host: usize) -> u64 {
    let port = world.fabric.ports[world.nics[host].port as usize].peer as usize;
    let unsent = if world.fabric.is_bridge(port) { world.fabric.unsent_bytes(port) } else { 0 };
    world.fabric.ports[port].wire_bytes - unsent
}

counters! {
    /// What else a NIC counts.
    NIC_COUNTS of ["host"], |counts: NicCounters, _| {
        "np_ecn_marked_roce_packets": "packets", "data packets with a CE mark that it received"
            = counts.np_ecn_marked_roce_packets;
        "rp_cnp_ignored": "packets", "CNPs that it received without effect: no DCQCN, or the queue pair had ended"
            = counts.rp_cnp_ignored;
        "duplicate_request": "packets", "packets that it had received before, as a responder"
            = counts.duplicate_request;
        "roce_adp_retrans": "timeouts", "timeouts of it as a requester by a timer that adapts"
            = counts.roce_adp_retrans;
        "roce_slow_restart": "restarts", "times that a queue pair restarted slowly after a loss"
            = counts.roce_slow_restart;
        "roce_slow_restart_cnps": "timeouts", "timeouts that were CNPs to its congestion control, which `rp_cnp_handled` counts, too"
            = counts.roce_slow_restart_cnps;
        "nak_cnps": "packets", "NAKs that were, likewise; no NIC shows this one"
            = counts.nak_cnps;
        "req_transport_retries_exceeded": "queue pairs", "queue pairs that ran out of retries"
            = counts.req_transport_retries_exceeded;
    }
}

quantities! {
    /// What an agent acts on.
    AGENT of ["host"], |bin, agent| {
        "iio_occupancy_lines": Now, "cache lines", "occupancy of the IIO's buffer that its agent acts on"
            = bin.world.agents[agent].occupancy();
        "mba_level": Now, "level", "level of memory bandwidth that its agent leaves its cores; 0: all of it"
            = bin.world.agents[agent].level() as f64;
    }
}

/// What RHCC's senders and the agent of a host did, where it has them.
#[derive(Clone, Default)]
pub(super) struct HostControl {
    probes: Option<Probes>,
    level_changes: Option<u64>,
}

#[derive(Clone, Default)]
pub(crate) struct Probes {
    sent: u64,
    answers: u64,
}

counters! {
    /// Of RHCC's senders.
    PROBES of ["host"], |probes: Probes, _| {
        "rhcc_probes_sent": "packets", "probes that RHCC's senders sent" = probes.sent;
        "rhcc_probe_answers": "packets", "answers that they got" = probes.answers;
    }
}

counters! {
    /// Of an agent.
    LEVEL_CHANGES of ["host"], |changes: u64, _| {
        "mba_level_changes": "changes", "changes of the level of memory bandwidth" = *changes;
    }
}

impl HostControl {
    /// By host.
    pub fn of_hosts(world: &World) -> Vec<HostControl> {
        let mut found = vec![HostControl::default(); world.nics.nics.len()];
        for s in &world.nics.send_qps {
            if let Some(prober) = &s.prober {
                let probes = found[s.src as usize].probes.get_or_insert_default();
                probes.sent += prober.probes_sent;
                probes.answers += prober.answers;
            }
        }
        for agent in &world.agents {
            found[agent.host as usize].level_changes = Some(agent.level_changes);
        }
        found
    }

    pub fn count(&self, add: &mut dyn FnMut(&'static str, u64)) {
        if let Some(probes) = &self.probes {
            (PROBES.count)(probes, 0, add);
        }
        if let Some(changes) = &self.level_changes {
            (LEVEL_CHANGES.count)(changes, 0, add);
        }
    }
}
