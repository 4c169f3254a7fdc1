"""The base round trip that `auto` stands for, against what the engine says of single packets."""

from __future__ import annotations

from typing import Any

import pytest
import tailback
from tailback.scenario import Scenario, load, show
from tailback.scenario.round_trip import ROUND_PS, longest_round_trip

GRAPHS = {
    "a tree with links of all kinds": [
        "h0 a 25Gbps 3us",
        "h1 a 100Gbps 0.5us",
        "h2 b 10Gbps 1us",
        "h3 b 100Gbps 1us",
        "h4 c 40Gbps 2us",
        "a top 400Gbps 1us",
        "b top 100Gbps 4us",
        "c a 25Gbps 7us",
    ],
    "both hosts at one switch": ["h0 a 1Gbps 10us", "h1 a 1Gbps 10us", "h2 b 100Gbps 1us", "a b 100Gbps 1us"],
    "switches alike, hosts not": [
        "h0 a 100Gbps 1us",
        "h1 b 100Gbps 9us",
        "h2 c 100Gbps 8us",
        "a top 100Gbps 1us",
        "b top 100Gbps 1us",
        "c top 100Gbps 1us",
    ],
}


def scenario(links: list[str], congestion: str = "hpcc") -> Scenario:
    hosts = sorted({link.split()[0] for link in links if link.startswith("h")})
    switches = sorted({end for link in links for end in link.split()[:2]} - set(hosts))
    data: dict[str, Any] = {
        "name": "pairs",
        "run": {"duration": "100ms"},
        "topology": {"kind": "graph", "switches": switches, "links": links},
        "host": {"congestion": congestion},
        "switch": {"buffer": "64MB"},
        "traffic": [{"kind": "all-to-all", "message": "1024B"}],
    }
    return load(data)


@pytest.mark.parametrize("congestion", ["hpcc", "dctcp"])
@pytest.mark.parametrize("links", GRAPHS.values(), ids=GRAPHS.keys())
def test_it_is_that_of_the_farthest_pair(links: list[str], congestion: str) -> None:
    pairs = scenario(links, congestion)
    flows = tailback.run(pairs).flows.select(["src", "dst", "ideal_fct_ps"]).to_pylist()
    longest = max(flows, key=lambda flow: int(flow["ideal_fct_ps"]))
    found = longest_round_trip(pairs)
    assert found.time - ROUND_PS < longest["ideal_fct_ps"] <= found.time
    assert {found.src, found.dst} == {longest["src"], longest["dst"]}


def test_of_several_paths_the_slowest_counts() -> None:
    links = ["h0 a 100Gbps 1us", "h1 b 100Gbps 1us", "a x 100Gbps 1us", "x b 100Gbps 1us"]
    slower = [*links, "a y 100Gbps 1us", "y b 100Gbps 3us"]
    longer = [*links, "a y 100Gbps 1us", "y z 100Gbps 1us", "z b 100Gbps 1us"]
    one, two, three = (longest_round_trip(scenario(each)).time for each in (links, slower, longer))
    assert two - one == 4_000_000
    assert three == one  # not a shortest route


def test_a_fat_tree() -> None:
    tree = load("fat-tree-permutation", sets=["host.congestion=hpcc"])
    found = longest_round_trip(tree)
    assert (found.src, found.links) == ("h0", 6)
    assert f"here 10.3us: {found.why}" in show(tree)


def test_only_what_is_in_use_is_worked_out() -> None:
    shown = show(load("fat-tree-permutation"))
    assert "base_rtt: auto " in shown
    assert "links, with a packet" not in shown
    assert load("cc-incast", sets=["host.dctcp.window_rtt=null"]).host.dctcp.window_rtt is None
