"""Networks: every form has the nodes, links, ports and capacity that its name promises."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tailback.errors import InputError
from tailback.plan import make_plan
from tailback.scenario import load
from tailback.scenario.headroom import headrooms, reserved
from tailback.scenario.network import Network

RATES = st.sampled_from(["25Gbps", "100Gbps", "400Gbps"])


def scenario(topology: dict[str, Any], **more: Any) -> Any:
    traffic = [{"kind": "permutation", "message": "1KB"}]
    data = {"name": "x", "run": {"duration": "1ms"}, "topology": topology, "traffic": traffic}
    return load({**data, "switch": {"lossless": []}, **more})


def network(**topology: Any) -> Network:
    found: Network = scenario(topology).network
    return found


def problem(topology: dict[str, Any], **more: Any) -> str:
    with pytest.raises(InputError) as error:
        scenario(topology, **more)
    (found,) = error.value.problems
    return str(found)


def ports(net: Network, prefix: str) -> set[int]:
    return {len(wires) for name, wires in net.wires_of.items() if name.rstrip("0123456789") == prefix}


def check_graph(net: Network) -> None:
    """What holds for every network: one link a host, one link a pair, and a way to every host."""
    assert all(len(net.wires_of[host]) == 1 for host in net.hosts)
    ends = [frozenset((wire.a, wire.b)) for wire in net.wires]
    assert len(set(ends)) == len(ends)
    assert net.unreachable() is None
    assert len(set(net.hosts + net.switches)) == len(net.hosts) + len(net.switches)


@given(st.integers(1, 6).map(lambda half: 2 * half))
@settings(max_examples=6, deadline=None)
def test_fat_tree(k: int) -> None:
    net = network(kind="fat-tree", k=k)
    check_graph(net)
    half = k // 2
    assert len(net.hosts) == k**3 // 4
    assert Counter(name.rstrip("0123456789") for name in net.switches) == {
        "edge": k * half,
        "agg": k * half,
        "core": half * half,
    }
    assert {len(net.wires_of[switch]) for switch in net.switches} == {k}
    assert [len(tier) for tier in net.tiers] == [k**3 // 4, k * half, k * half, half * half]
    assert net.oversubscription(1) == net.oversubscription(2) == 1.0
    assert net.oversubscription(3) is None
    # Each core has one link to each pod (Al-Fares et al., section 2.2).
    for core in range(half * half):
        aggs = [int(wire.a.removeprefix("agg")) for wire in net.wires_of[f"core{core}"]]
        assert sorted(agg // half for agg in aggs) == list(range(k))


@given(st.integers(1, 6), st.integers(1, 5), st.integers(2, 6), RATES, RATES)
@settings(max_examples=25, deadline=None)
def test_leaf_spine(leaves: int, spines: int, each: int, host: str, up: str) -> None:
    sizes = {"leaves": leaves, "spines": spines, "hosts_per_leaf": each}
    net = network(kind="leaf-spine", **sizes, link={"rate": host}, fabric={"rate": up, "delay": "2us"})
    check_graph(net)
    assert ports(net, "leaf") == {each + spines}
    assert ports(net, "spine") == {leaves}
    gbps = {name: int(name.removesuffix("Gbps")) for name in (host, up)}
    assert net.oversubscription(1) == pytest.approx(each * gbps[host] / (spines * gbps[up]))
    assert {wire.delay for wire in net.wires if wire.b.startswith("spine")} == {2 * 10**6}


@given(st.integers(1, 6), st.integers(1, 12), st.sampled_from([0.5, 1.0, 1.5, 2.0, 3.0, 4.0]), RATES, RATES)
@settings(max_examples=25, deadline=None)
def test_two_levels_have_the_fewest_spines(leaves: int, each: int, most: float, host: str, up: str) -> None:
    hosts = max(2, leaves * each)
    leaves = leaves if hosts == leaves * each else 1
    kind: dict[str, Any] = {"kind": "fat-tree-2level", "hosts": hosts, "leaves": leaves}
    net = network(**kind, oversubscription=most, link={"rate": host}, fabric={"rate": up})
    check_graph(net)
    ratio = net.oversubscription(1)
    assert ratio is not None
    assert ratio <= most + 1e-9
    spines = len(net.switches) - leaves
    assert spines == 1 or ratio * spines / (spines - 1) > most


@given(st.integers(1, 4), st.integers(1, 3), st.integers(1, 8), st.integers(1, 4))
@settings(max_examples=25, deadline=None)
def test_rails(per_unit: int, units: int, nics: int, spines: int) -> None:
    if per_unit * units * nics < 2:
        return
    servers = per_unit * units
    net = network(kind="rail-optimised", servers=servers, units=units, nics=nics, spines=spines)
    check_graph(net)
    assert len(net.hosts) == servers * nics
    assert ports(net, "rail") == {per_unit + spines}
    for server in range(servers):
        for nic in range(nics):
            (wire,) = net.wires_of[f"s{server}n{nic}"]
            assert wire.b == f"rail{server // per_unit * nics + nic}"


def test_dumbbell() -> None:
    net = network(kind="dumbbell", left=2, right=3, bottleneck={"rate": "10Gbps", "delay": "1ms"})
    check_graph(net)
    assert net.hosts == ["left0", "left1", "right0", "right1", "right2"]
    assert net.wires[-1] == ("sw0", "sw1", 10**10, 10**9, 0.0)


GRAPH: dict[str, Any] = {
    "kind": "graph",
    "switches": ["a", "b"],
    "links": ["h0..h2 a", "x1 b 25Gbps", "a b 400Gbps 1us 1e-6"],
    "link": {"rate": "50Gbps"},
}


def test_graph() -> None:
    net = network(**GRAPH)
    check_graph(net)
    assert net.hosts == ["h0", "h1", "h2", "x1"]
    assert net.host_rates == [50 * 10**9] * 3 + [25 * 10**9]
    assert net.wires[-1] == ("a", "b", 400 * 10**9, 10**6, 1e-6)
    assert net.wires[3].delay == 500_000


@pytest.mark.parametrize(
    ("links", "text"),
    [
        (["h0 a", "h1"], 'topology.links.1: found "h1", expected a link such as "h0 sw0"'),
        (["h0 a", "h1 b", "h0 b"], "topology.links.2: found a second link of h0, expected one"),
        (["h0 a", "a h0"], "topology.links.1: found a second link between a and h0"),
        (["h0 a", "h1 h2"], "topology.links.1: found a link between the hosts h1 and h2"),
        (["h0 a", "a a"], "topology.links.1: found a at both ends of a link"),
        (["h0 a", "h1 b"], "topology.links: found no way from h0 to h1, expected one network"),
        (["h0 a", "a b"], "topology.links: found 1 hosts, expected 2 to 65535"),
        (["h0 a 100", "h1 a"], 'topology.links.0: found "100", expected a rate with a unit'),
        (
            ["h0 a 1Gbps 1us 2", "h1 a"],
            'topology.links.0: found "2", expected a loss of 0 to below 1',
        ),
    ],
)
def test_impossible_graphs(links: list[str], text: str) -> None:
    assert problem({**GRAPH, "links": links}).startswith(text)


def test_a_problem_of_a_graph_has_its_line(tmp_path: Path) -> None:
    file = tmp_path / "x.yaml"
    file.write_text(
        "name: x\nrun: {duration: 1ms}\ntopology:\n  kind: graph\n  switches: [a]\n  links:\n    - h0 a\n"
        "    - h0 a\ntraffic:\n  - {kind: permutation, message: 1KB}\n"
    )
    with pytest.raises(InputError) as error:
        load(file)
    assert str(error.value).startswith(f"{file}:8: topology.links.1: found a second link between h0 and a")


def test_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "net.yaml").write_text(
        'switches: [a, b]\nlink: {rate: 50Gbps}\nlinks: ["h0..h2 a", "x1 b 25Gbps", "a b 400Gbps 1us 1e-6"]\n'
    )
    assert network(kind="file", path="net.yaml").wires == network(**GRAPH).wires
    (tmp_path / "topology.txt").write_text(
        "5 2 4\n3 4\n0 3 100Gbps 1us 0\n1 3 100Gbps 1us 0\n2 4 25Gbps 2us 0.5\n3 4 100Gbps 1us 0\n"
    )
    net = network(kind="file", path="topology.txt")
    check_graph(net)
    assert (net.hosts, net.switches) == (["h0", "h1", "h2"], ["s3", "s4"])
    assert net.wires[2] == ("h2", "s4", 25 * 10**9, 2 * 10**6, 0.5)
    (tmp_path / "bad.yaml").write_text("switches: [a]\nlinks:\n  - h0 a\n  - h0 b\n")
    found = problem({"kind": "file", "path": "bad.yaml"})
    assert found.startswith("topology.path: bad.yaml:4: found a second link of h0")
    assert "no such file" in problem({"kind": "file", "path": "none.txt"})
    assert problem({"kind": "file", "path": "bad.yaml", "x": 1}).startswith("topology.x: found an unknown")


@pytest.mark.parametrize(
    ("topology", "text"),
    [
        ({"kind": "fat-tree", "k": 5}, "topology.k: found 5, expected an even number"),
        (
            {"kind": "fattree", "k": 4},
            'topology.kind: found "fattree", expected fat-tree (or another of star,',
        ),
        ({"k": 4}, "topology.kind: found nothing, expected one of star, point-to-point, bridge, veth,"),
        ({"kind": "leaf-spine", "leaves": 2}, "topology.spines: found nothing, expected a value: number"),
        (
            {"kind": "star", "hosts": 2, "k": 3},
            "topology.k: found an unknown field, expected one of kind, hosts",
        ),
        (
            {"kind": "fat-tree-2level", "hosts": 10, "leaves": 3},
            "topology.leaves: found 3, expected a divisor of",
        ),
        (
            {"kind": "rail-optimised", "servers": 9, "spines": 1, "units": 2},
            "topology.units: found 2, expected",
        ),
        (
            {"kind": "leaf-spine", "leaves": 1000, "spines": 1, "hosts_per_leaf": 1000},
            "topology.hosts_per_leaf:",
        ),
        (
            {"kind": "star", "hosts": 2, "link": {"rate": 1}},
            "topology.link.rate: found 1, expected a rate with",
        ),
    ],
)
def test_impossible_forms(topology: dict[str, Any], text: str) -> None:
    with pytest.raises(InputError) as error:
        scenario(topology)
    assert text in str(error.value)


def test_headroom_is_each_links_own_and_pools_are_each_switchs() -> None:
    topology = {"kind": "leaf-spine", "leaves": 2, "spines": 3, "hosts_per_leaf": 4}
    fabric = {"rate": "400Gbps", "delay": "5us"}
    given_ = scenario({**topology, "fabric": fabric}, switch={"lossless": [3, 4]})
    own = dict(zip((wire.name for wire in given_.network.wires), headrooms(given_), strict=True))
    # (2 * delay + 2017.28 ns + 300 ns) * 1.0002 * rate + 1122 B + 84 B: 38 packets and 44 B, 550 packets and
    # 93 B, and 27 B as times are whole picoseconds
    assert own["h0-leaf0"] == 40 * 1102 + 24
    assert own["leaf0-spine0"] == 552 * 1102 + 100
    kept = reserved(given_)
    assert kept["leaf0"] == 2 * (4 * own["h0-leaf0"] + 3 * own["leaf0-spine0"])
    assert kept["spine0"] == 2 * 2 * own["leaf0-spine0"]
    plan = make_plan(given_)
    models = {switch["name"]: plan["switch_models"][switch["model"]] for switch in plan["switches"]}
    assert len(plan["switch_models"]) == 2
    for name, bytes_ in kept.items():
        assert models[name]["shared_bytes"] == 16_000_000 - bytes_
    assert {link["headroom_bytes"] for link in plan["links"]} == set(own.values())


def test_a_buffer_that_is_too_small_names_its_switch() -> None:
    topology = {"kind": "leaf-spine", "leaves": 2, "spines": 3, "hosts_per_leaf": 4}
    found = problem(topology, switch={"buffer": "200KB"})
    assert found == (
        "switch.buffer: found 200KB, expected more than 308.728KB: 44.104KB of headroom for each of 7 ports "
        "and 1 lossless priority at leaf0"
    )


def test_hosts_of_different_rates_have_their_own_nics() -> None:
    plan = make_plan(scenario(GRAPH, host={"dcqcn": {"profile": "alibaba"}}))
    assert [host["nic"] for host in plan["hosts"]] == [0, 0, 0, 1]
    rates = [nic["congestion"][0]["dcqcn"]["rpg_ai_rate"] for nic in plan["nics"]]
    assert rates == [10, 5]


def test_failures() -> None:
    topology = {"kind": "leaf-spine", "leaves": 2, "spines": 2, "hosts_per_leaf": 1}
    failures = [
        {"link": "spine1-leaf0", "at": "200us", "repair": "300us"},
        {"link": "leaf1-spine0", "at": "100us"},
    ]
    plan = make_plan(scenario(topology, failures=failures))
    number = {f"{link['a']}-{link['b']}": i for i, link in enumerate(plan["links"])}
    assert plan["failures"] == [
        {"at": 2 * 10**8, "repair": 3 * 10**8, "detection": 0, "link": number["leaf0-spine1"]},
        {"at": 10**8, "repair": None, "detection": 0, "link": number["leaf1-spine0"]},
    ]
    for failure, text in (
        ({"link": "leaf0-spine9", "at": 0}, 'failures.0.link: found "leaf0-spine9", expected a link of the'),
        ({"link": "leaf0-spine1", "at": "1ms"}, "failures.0.at: found 1ms, expected less than run.duration"),
        (
            {"link": "leaf0-spine1", "at": "2us", "repair": "1us"},
            "failures.0.repair: found 1us, expected later",
        ),
    ):
        assert problem(topology, failures=[failure]).startswith(text)


def test_names_of_hosts() -> None:
    topology = {"kind": "rail-optimised", "servers": 2, "nics": 2, "spines": 1}

    def hosts(given_: Any) -> set[str]:
        traffic = [{"kind": "write", "from": given_, "to": "all"}]
        return {writer["src"] for writer in make_plan(scenario(topology, traffic=traffic))["writers"]}

    assert hosts("s0n0..s1n0") == {"s0n0", "s1n0"}
    assert hosts("s0n0..s1n1") == hosts("all") == {"s0n0", "s0n1", "s1n0", "s1n1"}
    traffic = [{"kind": "write", "from": "s0n0..s2n0", "to": "all"}]
    assert problem(topology, traffic=traffic) == (
        'traffic.0.from: found "s0n0..s2n0", expected hosts of s0n0..s1n1, or all'
    )
