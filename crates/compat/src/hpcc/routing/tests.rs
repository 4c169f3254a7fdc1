//! Next hops and figures against a table of all pairs, which a walk from every host over the whole network fills.

use proptest::prelude::*;
use std::collections::HashMap;

use super::super::plan::{HpccPlan, Link, LinkDown};
use super::{Pair, Routes};

const PAYLOAD_BYTES: u32 = 1000;

/// A plan of nothing but a network.
pub(in super::super) fn network(nodes: u32, switches: Vec<u32>, links: Vec<Link>) -> HpccPlan {
    let json = serde_json::json!({
        "name": "network", "seed": 1, "nodes": nodes, "switches": switches, "links": links, "flows": [],
        "stop_ns": 1, "payload_bytes": PAYLOAD_BYTES, "telemetry_bytes": 0, "cc": {"kind": "none"},
        "rate_bound": true, "window": {"enabled": true, "global": true, "variable": false},
        "ack_high_priority": false, "l2_chunk_bytes": 0, "l2_ack_interval_bytes": 1, "back_to_zero": false,
        "ecn": {"enabled": false, "thresholds": []}, "buffer_mib": 16, "pause_time_us": 5,
        "rng": {"seed": 1, "run": 1}, "record": {"max_bins": 16, "qps": 1},
    });
    serde_json::from_value(json).expect("a plan")
}

/// By two nodes that are linked: port, delay and rate of the last of their links, as the first node has it.
type LinkOf = HashMap<(u32, u32), (u32, u64, u64)>;

fn links_of(plan: &HpccPlan, without: Option<LinkDown>) -> LinkOf {
    let mut links = LinkOf::new();
    for (index, &Link(a, b, rate, delay, _)) in plan.links.iter().enumerate() {
        if without.is_none_or(|down| (down.1, down.2) != (a, b) && (down.1, down.2) != (b, a)) {
            links.insert((a, b), (index as u32 * 2, delay, rate));
            links.insert((b, a), (index as u32 * 2 + 1, delay, rate));
        }
    }
    links
}

/// Next ports of a node, and round trip and rate of its way.
type WalkedRoute = (Vec<u32>, Option<(u64, u64)>);

/// What every node has towards `host`.
fn walk(plan: &HpccPlan, links: &LinkOf, host: u32) -> Vec<WalkedRoute> {
    let nodes = plan.nodes as usize;
    let mut ways: Vec<Option<(u32, u64, u64, u64)>> = vec![None; nodes];
    let mut next = vec![Vec::new(); nodes];
    ways[host as usize] = Some((0, 0, 0, u64::MAX));
    let mut queue = std::collections::VecDeque::from([host]);
    while let Some(at) = queue.pop_front() {
        let (distance, delay, sending, slowest) = ways[at as usize].expect("it was reached");
        for there in (0..plan.nodes).rev() {
            let Some(&(_, link_delay, rate)) = links.get(&(at, there)) else { continue };
            if ways[there as usize].is_none() {
                let packet = PAYLOAD_BYTES as u64 * 8_000_000_000 / rate;
                let way = (distance + 1, delay + link_delay, sending + packet, slowest.min(rate));
                ways[there as usize] = Some(way);
                if plan.switches.contains(&there) {
                    queue.push_back(there);
                }
            }
            if ways[there as usize].is_some_and(|way| way.0 == distance + 1) {
                next[there as usize].push(links[&(there, at)].0);
            }
        }
    }
    let figures = ways.into_iter().map(|way| way.map(|way| (way.1 * 2 + way.2, way.3)));
    next.into_iter().zip(figures).collect()
}

fn assert_same(plan: &HpccPlan, without: Option<LinkDown>) {
    let links = links_of(plan, without);
    let mut routes = Routes::new(plan, without);
    let hosts: Vec<u32> = (0..plan.nodes).filter(|node| !plan.switches.contains(node)).collect();
    let mut largest = (0, 0);
    for &host in &hosts {
        for (node, (ports, way)) in (0..).zip(walk(plan, &links, host)) {
            let to = routes.host(host);
            assert_eq!(routes.next_ports(node, to), ports, "from {node} to {host}");
            if node != host && hosts.contains(&node) {
                let (rtt_ns, rate) = way.unwrap_or_default();
                let pair = Pair { rtt_ns, rate, bdp: (rtt_ns as u128 * rate as u128 / 8_000_000_000) as u64 };
                assert_eq!(routes.pair(routes.host(node), to), pair, "from {node} to {host}");
                largest = (largest.0.max(pair.rtt_ns), largest.1.max(pair.bdp));
            }
        }
    }
    assert_eq!(routes.largest(), largest);
}

/// Up to ten nodes, links of few delays and rates between any two, some of them twice.
fn networks() -> impl Strategy<Value = (HpccPlan, Option<LinkDown>)> {
    (2u32..10).prop_flat_map(|nodes| {
        let switches = prop::collection::vec(any::<bool>(), nodes as usize);
        let ends = (0..nodes, 1..nodes).prop_map(move |(a, by)| (a, (a + by) % nodes));
        let rates = prop::sample::select(vec![10_000_000_000u64, 100_000_000_000]);
        let link = (ends, rates, prop::sample::select(vec![0u64, 1000, 2500]))
            .prop_map(|((a, b), rate, delay)| Link(a, b, rate, delay, 0.0));
        (switches, prop::collection::vec(link, 0..20), any::<prop::sample::Index>(), any::<bool>()).prop_map(
            move |(switches, links, down, fails)| {
                let down = (fails && !links.is_empty()).then(|| {
                    let link = links[down.index(links.len())];
                    LinkDown(0, link.0, link.1)
                });
                let switches = (0..nodes - 1).filter(|&node| switches[node as usize]).collect();
                (network(nodes, switches, links), down)
            },
        )
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn as_a_walk_from_every_host((plan, down) in networks()) {
        assert_same(&plan, None);
        assert_same(&plan, down);
    }
}

/// Two tiers with hosts of one kind, where the window of all is that of the longest way.
#[test]
fn hosts_at_two_leaves() {
    let mut links: Vec<Link> =
        (0..6).map(|host| Link(host, 6 + host / 3, 100_000_000_000, 1000, 0.0)).collect();
    links.extend(
        [6, 7].into_iter().flat_map(|leaf| [8, 9].map(|spine| Link(leaf, spine, 400_000_000_000, 1000, 0.0))),
    );
    let plan = network(10, vec![6, 7, 8, 9], links);
    assert_same(&plan, None);
    let mut routes = Routes::new(&plan, None);
    assert_eq!(routes.largest(), (4 * 2000 + 2 * 80 + 2 * 20, 100 * (4 * 2000 + 2 * 80 + 2 * 20) / 8));
    assert_eq!(routes.made, 2, "a tree for each leaf, not for each host");
}

/// Hosts without links are no reason to hold anything for each of their pairs.
#[test]
fn lone_nodes() {
    let plan = network(65_536, vec![], vec![Link(3, 65_535, 100_000_000_000, 1000, 0.0)]);
    let mut routes = Routes::new(&plan, None);
    assert_eq!(routes.pair(3, 65_535).rtt_ns, 2080);
    assert_eq!(routes.pair(4, 5), Pair::default());
    assert_eq!(routes.largest(), (2080, 26_000));
    assert_eq!(routes.trees.len(), 1);
}

#[test]
fn among_equal_ways_a_host_prefers_that_through_a_switch_of_its_server() {
    // Hosts 0 and 1 are at switch 3, which is in their server, and at switch 4, where host 2 is, too.
    let links = [(0, 3), (1, 3), (0, 4), (1, 4), (2, 4)].map(|(a, b)| Link(a, b, 1_000_000_000, 1000, 0.0));
    let mut plan = network(5, vec![3, 4], links.to_vec());
    assert_eq!(Routes::new(&plan, None).next_ports(0, 1).len(), 2);
    plan.inner_switches = vec![3];
    let mut routes = Routes::new(&plan, None);
    assert_eq!(routes.next_ports(0, 1), [0]);
    assert_eq!(routes.next_ports(0, 2), [4]);
}
