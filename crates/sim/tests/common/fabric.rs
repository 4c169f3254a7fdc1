//! Fat trees of three levels and what is sent over them.

use super::{star, MS};
use tailback_proto::units::{Bytes, Rate, Time};
use tailback_sim::plan::*;

/// A fat tree's numbers. Aggregation switch `j` of each pod is linked to the `cores` core switches of group `j`.
pub struct FatTree {
    pub pods: usize,
    /// Edge switches in a pod.
    pub edges: usize,
    /// Hosts on an edge switch.
    pub hosts: usize,
    /// Aggregation switches in a pod.
    pub aggregations: usize,
    /// Core switches in a group.
    pub cores: usize,
    pub host_gbps: u64,
    pub fabric_gbps: u64,
}

impl FatTree {
    /// k-ary (Al-Fares et al., SIGCOMM 2008): k^3/4 hosts.
    pub fn k_ary(k: usize) -> Self {
        let half = k / 2;
        FatTree {
            pods: k,
            edges: half,
            hosts: half,
            aggregations: half,
            cores: half,
            host_gbps: 100,
            fabric_gbps: 100,
        }
    }

    /// The 320 hosts of the HPCC paper's simulations (section 5.1).
    pub fn hosts_320() -> Self {
        FatTree { pods: 5, edges: 4, hosts: 16, aggregations: 4, cores: 4, host_gbps: 100, fabric_gbps: 400 }
    }

    pub fn host_count(&self) -> usize {
        self.pods * self.edges * self.hosts
    }

    /// Links of 1 us; nothing is sent.
    pub fn plan(&self) -> Plan {
        let mut plan = star(self.host_count());
        let edge = |pod: usize, at: usize| format!("edge{}", pod * self.edges + at);
        let aggregation = |pod: usize, at: usize| format!("agg{}", pod * self.aggregations + at);
        let core = |group: usize, at: usize| format!("core{}", group * self.cores + at);
        let mut names = Vec::new();
        for pod in 0..self.pods {
            names.extend((0..self.edges).map(|at| edge(pod, at)));
            names.extend((0..self.aggregations).map(|at| aggregation(pod, at)));
        }
        for group in 0..self.aggregations {
            names.extend((0..self.cores).map(|at| core(group, at)));
        }
        plan.switches = names.into_iter().map(|name| SwitchPlan { name, model: 0 }).collect();
        let model = &mut plan.switch_models[0];
        (model.buffer, model.shared_bytes) = (Bytes(64 << 20), 32 << 20);
        let link = |a: String, b: String, gbps: u64| LinkPlan {
            a,
            b,
            rate: Rate(gbps * 1_000_000_000),
            delay: Time(1_000_000),
            loss: 0.0,
            headroom_bytes: gbps * 400,
        };
        plan.links.clear();
        for host in 0..self.host_count() {
            plan.links.push(link(format!("h{host}"), format!("edge{}", host / self.hosts), self.host_gbps));
        }
        for pod in 0..self.pods {
            for at in 0..self.aggregations {
                for below in 0..self.edges {
                    plan.links.push(link(edge(pod, below), aggregation(pod, at), self.fabric_gbps));
                }
                for above in 0..self.cores {
                    plan.links.push(link(aggregation(pod, at), core(at, above), self.fabric_gbps));
                }
            }
        }
        plan.flows.items = vec!["flows".into()];
        plan.run.duration = Time(1000 * MS);
        plan
    }
}

/// Numbers in 0 to below 1 (xorshift64).
pub fn random(seed: u64) -> impl FnMut() -> f64 {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 11) as f64 / (1u64 << 53) as f64
    }
}

/// Every host sends to one other and receives from one other.
pub fn permutation(hosts: usize, bytes: u64) -> Vec<FlowPlan> {
    let mut order: Vec<usize> = (0..hosts).collect();
    let mut random = random(1);
    for at in (1..hosts).rev() {
        order.swap(at, (random() * (at + 1) as f64) as usize);
    }
    // In a cycle nobody sends to itself.
    (0..hosts).map(|at| FlowPlan(order[at] as u32, order[(at + 1) % hosts] as u32, 0, 3, bytes, 0)).collect()
}

/// Flow sizes of the DCTCP paper's web search: cumulative share of flows up to a size.
const WEB_SEARCH: [(f64, f64); 12] = [
    (0.0, 0.0),
    (10e3, 0.15),
    (20e3, 0.20),
    (30e3, 0.30),
    (50e3, 0.40),
    (80e3, 0.53),
    (200e3, 0.60),
    (1e6, 0.70),
    (2e6, 0.80),
    (5e6, 0.90),
    (10e6, 0.97),
    (30e6, 1.0),
];

/// Poisson arrivals at `load` of the hosts' links for `span_ps`.
pub fn web_search(hosts: usize, host_gbps: u64, load: f64, span_ps: u64) -> Vec<FlowPlan> {
    let mean: f64 = WEB_SEARCH.windows(2).map(|w| (w[1].1 - w[0].1) * (w[0].0 + w[1].0) / 2.0).sum();
    let gap_ps = mean * 8e3 / (load * host_gbps as f64 * hosts as f64);
    let mut random = random(2);
    let mut at = 0.0;
    let mut flows = Vec::new();
    loop {
        at -= gap_ps * (1.0 - random()).ln();
        if at >= span_ps as f64 {
            return flows;
        }
        let share = random();
        let upper = WEB_SEARCH.iter().position(|point| share < point.1).expect("below 1");
        let [(size0, share0), (size1, share1)] = [WEB_SEARCH[upper - 1], WEB_SEARCH[upper]];
        let bytes = size0 + (size1 - size0) * (share - share0) / (share1 - share0);
        let src = (random() * hosts as f64) as u32;
        let dst = (src + 1 + (random() * (hosts - 1) as f64) as u32) % hosts as u32;
        flows.push(FlowPlan(src, dst, 0, 3, (bytes as u64).max(1), at as u64));
    }
}
