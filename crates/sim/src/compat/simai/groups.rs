//! The ranks that take part in a collective, and rings through their servers.
//!
//! A ring passes all ranks of a server before it goes to the next server. There are as many channels as ranks in a server.
//! Each has its own ring, which enters every server at another rank.

use super::plan::{Group, SimaiPlan};

/// The ranks of a group, in rising order; all servers have equally many of them.
#[derive(Clone, Debug)]
pub(super) struct Members {
    pub ranks: Vec<u32>,
    servers: u32,
}

/// A rank's place in the ring of a channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Neighbours {
    /// The rank that it sends to, and the rank that passes that on: the one of its own server in the receiver's rail.
    pub next: u32,
    pub by: Option<u32>,
    /// The rank that it receives from, which may pass on messages of another rank.
    pub previous: u32,
    /// The rank of its server that it passes messages on for.
    pub for_whom: Option<u32>,
}

impl Members {
    /// The group of a rank, if it has two or more ranks, equally many in each server.
    pub fn of(plan: &SimaiPlan, group: Group, rank: u32) -> Option<Members> {
        let SimaiPlan { tensor, expert, gpus, gpus_per_server, .. } = *plan;
        let (within, number) = (rank % tensor, rank / tensor);
        let ranks: Vec<u32> = match group {
            Group::Tensor => (0..tensor).map(|at| number * tensor + at).collect(),
            Group::Data => (0..gpus / tensor).map(|at| at * tensor + within).collect(),
            Group::Expert => {
                let first = number / expert * expert;
                (first..first + expert).map(|at| at * tensor + within).collect()
            }
            Group::DataExpert => (number % expert..gpus / tensor)
                .step_by(expert as usize)
                .map(|at| at * tensor + within)
                .collect(),
        };
        let mut servers: Vec<u32> = ranks.iter().map(|rank| rank / gpus_per_server).collect();
        servers.dedup();
        let servers = servers.len() as u32;
        let count = ranks.len() as u32;
        (count > 1 && count.is_multiple_of(servers)).then_some(Members { ranks, servers })
    }

    pub fn count(&self) -> u32 {
        self.ranks.len() as u32
    }

    /// Number of channels, which is the number of ranks in a server.
    pub fn channels(&self) -> u32 {
        self.count() / self.servers
    }

    /// A rank's neighbours in the ring of a channel.
    pub fn ring(&self, rank: u32, channel: u32, pxn: bool) -> Neighbours {
        let local = self.channels();
        let place = self.ranks.partition_point(|&other| other < rank) as u32;
        let (server, at) = (place / local, (place % local + local - channel) % local);
        let there = |server: u32, at: u32| {
            self.ranks[(server % self.servers * local + (at + channel) % local) as usize]
        };
        let (enters, leaves) = (at == 0, at == local - 1);
        let pxn = pxn && self.servers > 1 && local > 1;
        let before = server + self.servers - 1;
        Neighbours {
            next: if leaves { there(server + 1, 0) } else { there(server, at + 1) },
            by: (pxn && leaves).then(|| there(server, 0)),
            previous: match enters {
                true if pxn => there(before, 0),
                true => there(before, local - 1),
                false => there(server, at - 1),
            },
            for_whom: (pxn && enters).then(|| there(server, local - 1)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(gpus: u32, gpus_per_server: u32, tensor: u32, expert: u32) -> SimaiPlan {
        let text = format!(
            r#"{{"file": "w", "gpus": {gpus}, "gpus_per_server": {gpus_per_server}, "nodes": {gpus},
                "tensor": {tensor}, "expert": {expert}, "layers": [], "send_latency_ns": 0, "pxn": false,
                "inside": null}}"#
        );
        serde_json::from_str(&text).expect("it is readable")
    }

    fn ranks(plan: &SimaiPlan, group: Group, rank: u32) -> Vec<u32> {
        Members::of(plan, group, rank).expect("it has several ranks").ranks
    }

    #[test]
    fn groups_cut_the_ranks_in_four_ways() {
        let plan = plan(16, 4, 2, 4);
        assert_eq!(ranks(&plan, Group::Tensor, 5), [4, 5]);
        assert_eq!(ranks(&plan, Group::Data, 5), [1, 3, 5, 7, 9, 11, 13, 15]);
        assert_eq!(ranks(&plan, Group::Expert, 5), [1, 3, 5, 7]);
        assert_eq!(ranks(&plan, Group::DataExpert, 5), [5, 13]);
    }

    #[test]
    fn a_ring_of_each_channel_goes_once_through_every_rank() {
        for (gpus, per_server) in [(8, 8), (16, 8), (16, 4), (6, 3), (4, 1)] {
            let plan = plan(gpus, per_server, gpus, 1);
            let members = Members::of(&plan, Group::Tensor, 0).expect("it has several ranks");
            assert_eq!(members.channels(), per_server);
            for channel in 0..members.channels() {
                let mut seen = vec![0];
                for _ in 1..gpus {
                    let here = seen[seen.len() - 1];
                    let next = members.ring(here, channel, false).next;
                    assert_eq!(members.ring(next, channel, false).previous, here);
                    seen.push(next);
                }
                assert_eq!(members.ring(seen[seen.len() - 1], channel, false).next, 0);
                seen.sort_unstable();
                assert_eq!(seen, members.ranks);
            }
        }
    }

    #[test]
    fn with_pxn_what_leaves_a_server_goes_through_the_rank_in_its_receivers_rail() {
        let plan = plan(8, 4, 8, 1);
        let members = Members::of(&plan, Group::Tensor, 0).expect("it has several ranks");
        // Channel 1 goes 1, 2, 3, 0 and on to 5.
        let last = members.ring(0, 1, true);
        assert_eq!((last.next, last.by), (5, Some(1)));
        let first = members.ring(5, 1, true);
        assert_eq!((first.previous, first.for_whom), (1, Some(4)));
        assert_eq!(members.ring(2, 1, true), members.ring(2, 1, false));
    }
}
