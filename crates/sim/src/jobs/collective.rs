//! Collectives as operations. Sizes are those of nccl-tests (NVIDIA, doc/PERFORMANCE.md): all that a rank gives or gets,
//! whichever is more. What does not divide evenly is rounded up to whole bytes, for all ranks alike.

use super::graph::{Builder, Graph};
use super::phases::{Ends, Phases, Tree};
use crate::plan::{Algorithm, CollectiveKind, CollectivePlan, JobPlan, What};

/// The operations of a collective among the ranks of a job.
pub(super) fn graph(job: &JobPlan, collective: &CollectivePlan) -> Graph {
    let mut builder = Builder::default();
    let ranks: Vec<u32> = (0..job.ranks.len() as u32).collect();
    let parts = collective.channels as u64 * collective.chunks as u64;
    let bytes = collective.bytes.div_ceil(parts);
    let mut last: Ends = vec![Vec::new(); ranks.len()];
    for _ in 0..collective.chunks {
        for channel in 0..collective.channels as u16 {
            let mut ends: Ends = vec![Vec::new(); ranks.len()];
            let reduces = job.reduce_rate.is_some();
            let mut phases = Phases { graph: &mut builder, channel, reduces };
            match collective.algorithm {
                Algorithm::Hierarchical => {
                    hierarchical(&mut phases, job, collective.kind, bytes, &mut ends);
                }
                algorithm => flat(&mut phases, &ranks, collective.kind, algorithm, bytes, &mut ends),
            }
            for (last, ends) in last.iter_mut().zip(ends) {
                last.extend(ends);
            }
        }
    }
    for (&rank, after) in ranks.iter().zip(&last) {
        builder.add(rank, What::Receive, after);
    }
    builder.build(ranks.len())
}

fn flat(
    phases: &mut Phases,
    ranks: &[u32],
    kind: CollectiveKind,
    algorithm: Algorithm,
    bytes: u64,
    ends: &mut Ends,
) {
    use {Algorithm as A, CollectiveKind as K};
    let share = bytes.div_ceil(ranks.len() as u64);
    match (algorithm, kind) {
        (A::Ring, K::AllReduce) => {
            phases.ring_scatter(ranks, share, ends);
            phases.ring_gather(ranks, share, ends);
        }
        (A::Ring, K::ReduceScatter) => phases.ring_scatter(ranks, share, ends),
        (A::Ring, K::AllGather) => phases.ring_gather(ranks, share, ends),
        (A::Ring, K::Broadcast) => phases.chain(ranks, bytes, ends),
        (A::Direct, K::AllReduce) => {
            phases.exchange(ranks, share, true, ends);
            phases.exchange(ranks, share, false, ends);
        }
        (A::Direct, K::ReduceScatter) => phases.exchange(ranks, share, true, ends),
        // Who passes on what is for others has no ring of its own for an exchange.
        (A::Direct, K::AllGather | K::AllToAll) | (A::Ring, K::AllToAll) => {
            phases.exchange(ranks, share, false, ends);
        }
        (A::Direct, K::Broadcast) => phases.fan_out(ranks, bytes, ends),
        (A::HalvingDoubling, K::AllReduce) => {
            phases.halve(ranks, bytes, ends);
            phases.double(ranks, bytes, ends);
        }
        (A::HalvingDoubling, K::ReduceScatter) => phases.halve(ranks, bytes, ends),
        (A::HalvingDoubling, _) => phases.double(ranks, bytes, ends),
        (A::DoubleBinaryTree, kind) => {
            let mut both: Ends = vec![Vec::new(); ends.len()];
            for tree in Tree::two(ranks.len() as u32) {
                let mut own = ends.clone();
                match kind {
                    K::Broadcast => phases.tree_down(&tree, bytes.div_ceil(2), 0, &mut own),
                    _ => phases.tree_reduce(&tree, bytes.div_ceil(2), &mut own),
                }
                both.iter_mut().zip(own).for_each(|(both, own)| both.extend(own));
            }
            *ends = both;
        }
        (A::Hierarchical, _) => unreachable!("it is no flat one"),
    }
}

/// Inside of servers each with each other; between servers a ring of the ranks in the same place, which is a rail.
fn hierarchical(phases: &mut Phases, job: &JobPlan, kind: CollectiveKind, bytes: u64, ends: &mut Ends) {
    let servers = job.by_server().expect("it was checked");
    let size = servers[0].len();
    let rails: Vec<Vec<u32>> =
        (0..size).map(|place| servers.iter().map(|server| server[place]).collect()).collect();
    let (of_rail, of_rank) = (bytes.div_ceil(size as u64), bytes.div_ceil(job.ranks.len() as u64));
    match kind {
        CollectiveKind::AllReduce => {
            servers.iter().for_each(|server| phases.exchange(server, of_rail, true, ends));
            for rail in &rails {
                phases.ring_scatter(rail, of_rank, ends);
                phases.ring_gather(rail, of_rank, ends);
            }
            servers.iter().for_each(|server| phases.exchange(server, of_rail, false, ends));
        }
        CollectiveKind::ReduceScatter => {
            servers.iter().for_each(|server| phases.exchange(server, of_rail, true, ends));
            rails.iter().for_each(|rail| phases.ring_scatter(rail, of_rank, ends));
        }
        CollectiveKind::AllGather => {
            rails.iter().for_each(|rail| phases.ring_gather(rail, of_rank, ends));
            servers.iter().for_each(|server| phases.exchange(server, of_rail, false, ends));
        }
        CollectiveKind::AllToAll => {
            servers.iter().for_each(|server| phases.exchange(server, of_rail, false, ends));
            let of_pair = bytes.div_ceil(servers.len() as u64);
            rails.iter().for_each(|rail| phases.exchange(rail, of_pair, false, ends));
        }
        CollectiveKind::Broadcast => {
            phases.chain(&rails[0], bytes, ends);
            servers.iter().for_each(|server| phases.fan_out(server, bytes, ends));
        }
    }
}
