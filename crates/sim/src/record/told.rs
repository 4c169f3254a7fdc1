//! What the log of signals is made of besides the recorder's columns: CNPs, NAKs and delay probes by pair of hosts, where these are
//! few, and what only counters know, as of queues that a large fabric does not record.

use tailback_proto::units::Time;

use super::entity::{at_port, Entity};
use super::series::{egress_name, ingress_name, send_queue_name};
use super::signals::{Signal, Signals, Who};
use super::{bridges, veth};
use crate::fabric::{port_and_class, CLASSES};
use crate::nic::pair_counts::{EndSignal, Pair, PairCounts};
use crate::plan::Plan;
use crate::world::World;

/// Signals of switches' queues, which may have no column, and of transmit queues, which have none.
pub(super) fn counted(plan: &Plan, world: &World) -> Vec<(Signal, Entity, u64)> {
    let (fabric, end) = (&world.fabric, world.fabric.run.now);
    let mut found = Vec::new();
    for at in 0..fabric.ports.len() * CLASSES {
        let (port, class) = port_and_class(at);
        let owner = fabric.ports[port].owner as usize;
        if fabric.is_bridge(port) {
            continue;
        }
        if owner < world.nics.nics.len() {
            // What its link lost of what it sent; what it had no room for has a column.
            let lost = fabric.dropped[at][0];
            if lost > 0 {
                let name = send_queue_name(plan, owner, class);
                found.push((Signal::Drop, at_port(plan, world, name, "send", port), lost));
            }
            continue;
        }
        let egress: fn(&World, usize, u8) -> String = egress_name;
        for (signal, name, amount) in [
            (Signal::CeMark, egress, fabric.marked[at]),
            (Signal::Drop, egress_name, fabric.dropped[at][0]),
            (Signal::PfcPause, egress_name, fabric.pauses[at].paused_until(end).0),
            (Signal::Drop, ingress_name, fabric.dropped[at][1]),
            (Signal::PfcXoff, ingress_name, fabric.pausing[at].held_until(end).0),
        ] {
            if amount > 0 {
                found.push((signal, at_port(plan, world, name(world, port, class), "", port), amount));
            }
        }
    }
    found.extend(bridges::stops(plan, world));
    found.extend(veth::stops(plan, world));
    found
}

/// CNPs, NAKs and delay probes by bin and pair of hosts.
#[derive(Debug, Default)]
pub(super) struct PairLog {
    /// Bin, pair, and how many.
    rows: Vec<(u32, Pair, u32)>,
}

impl PairLog {
    /// A bin ends.
    pub fn close_bin(&mut self, bin: usize, counts: &mut PairCounts) {
        counts.take(|pair, count| self.rows.push((bin as u32, pair, count)));
    }

    /// Bins were merged.
    pub fn merge(&mut self, factor: usize) {
        self.rows.iter_mut().for_each(|(bin, ..)| *bin /= factor as u32);
        self.rows.sort_unstable();
        self.rows.dedup_by(|next, row| {
            let same = (next.0, next.1) == (row.0, row.1);
            row.2 += if same { next.2 } else { 0 };
            same
        });
    }

    /// Takes over what another part logged.
    pub fn join(&mut self, other: PairLog) {
        self.rows.extend(other.rows);
    }

    pub fn add_to(
        mut self,
        signals: &mut Signals,
        plan: &Plan,
        counts: &PairCounts,
        (bin, end): (Time, Time),
    ) {
        self.rows.sort_unstable_by_key(|&(bin, pair, _)| (pair, bin));
        for of_pair in self.rows.chunk_by(|one, other| one.1 == other.1) {
            let (signal, from, to) = counts.ends(of_pair[0].1);
            let signal = match signal {
                EndSignal::Cnp => Signal::Cnp,
                EndSignal::Nak => Signal::Nak,
                EndSignal::DelayProbe => Signal::DelayProbe,
            };
            let name = |host: usize| plan.hosts[host].name.clone();
            let who = Who { queue: String::new(), signal, from: name(from), to: name(to) };
            let told = of_pair.iter().map(|&(at, _, count)| {
                let start = Time(bin.0 * at as u64);
                (start, Time(start.0 + bin.0).min(end), count as u64)
            });
            signals.add(|| who, told);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn merged_bins_of_a_pair_add_up() {
        let mut log = PairLog { rows: vec![(0, 7, 1), (1, 3, 2), (4, 7, 3), (5, 7, 4)] };
        log.merge(5);
        assert_eq!(log.rows, [(0, 3, 2), (0, 7, 4), (1, 7, 4)]);
    }
}
