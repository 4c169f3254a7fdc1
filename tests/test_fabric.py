"""Fabrics from a scenario through the engine to a report, and their pictures."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import pytest
import tailback
from tailback import cli, drawing
from tailback.report import render
from tailback.report.tailback_chart import MOST_ROWS, choose
from tailback.scenario import load, loads

SVG = "{http://www.w3.org/2000/svg}"


def data(
    topology: dict[str, Any], *traffic: dict[str, Any], duration: str = "1ms", **more: Any
) -> dict[str, Any]:
    return {
        "name": "x",
        "run": {"duration": duration},
        "topology": topology,
        "traffic": list(traffic),
        **more,
    }


PERMUTATION = {"kind": "permutation", "message": "100KB"}
FORMS: dict[str, dict[str, Any]] = {
    "star": {"kind": "star", "hosts": 4},
    "point-to-point": {"kind": "point-to-point"},
    "dumbbell": {"kind": "dumbbell", "left": 2, "right": 2},
    "leaf-spine": {"kind": "leaf-spine", "leaves": 3, "spines": 2, "hosts_per_leaf": 2},
    "fat-tree": {"kind": "fat-tree", "k": 4},
    "fat-tree-2level": {"kind": "fat-tree-2level", "hosts": 8, "leaves": 4, "oversubscription": 2.0},
    "rail-optimised": {"kind": "rail-optimised", "servers": 3, "nics": 2, "spines": 2},
    "graph": {
        "kind": "graph",
        "switches": ["a", "b"],
        "links": ["h0..h1 a", "h2 b 25Gbps", "a b 10Gbps 5us"],
    },
}


@pytest.mark.parametrize("kind", FORMS)
def test_every_host_reaches_every_other(kind: str) -> None:
    result = tailback.run(data(FORMS[kind], {"kind": "all-to-all", "message": "3KB"}, duration="5ms"))
    hosts = len(result.plan["hosts"])
    assert result.flows.num_rows == hosts * (hosts - 1)
    assert set(result.flows.column("state").to_pylist()) == {"done"}
    assert result.faults == []


def test_an_empty_network_gives_the_ideal_time_over_every_tier() -> None:
    """One flow alone has slowdown 1, to the picosecond, and the time that its path takes."""
    slow = {"aggregation": {"rate": "40Gbps"}, "core": {"rate": "400Gbps", "delay": "3us"}}
    flow = {"kind": "flows", "list": ["h0 h15 1MB 0"]}
    free = {"host": {"congestion": "none"}}
    result = tailback.run(data({"kind": "fat-tree", "k": 4, **slow}, flow, duration="5ms", **free))
    (row,) = result.flows.select(["fct_ps", "ideal_fct_ps", "slowdown"]).to_pylist()
    assert row["fct_ps"] == row["ideal_fct_ps"]
    assert row["slowdown"] == 1.0
    bits = (10**6 + -(-(10**6) // 1024) * 82 + 16) * 8
    assert row["fct_ps"] / 1e12 > bits / 40e9 + 2 * (2 * 3e-6 + 4 * 0.5e-6)
    assert row["fct_ps"] / 1e12 < bits / 40e9 + 2 * (2 * 3e-6 + 4 * 0.5e-6) + 20e-6


def test_a_failed_link_costs_time_and_a_repair_gives_it_back() -> None:
    flows = {"kind": "flows", "list": [f"h{i % 4} h{4 + i // 4} 1MB 0" for i in range(16)]}
    fabric = {
        "kind": "leaf-spine",
        "leaves": 2,
        "spines": 2,
        "hosts_per_leaf": 4,
        "fabric": {"rate": "200Gbps"},
    }

    def last(*failures: dict[str, Any]) -> int:
        free = {"host": {"congestion": "none"}}
        result = tailback.run(data(fabric, flows, duration="20ms", failures=list(failures), **free))
        assert set(result.flows.column("state").to_pylist()) == {"done"}
        return max(result.flows.column("end_ps").to_pylist())

    whole = last()
    failed = last({"link": "leaf0-spine0", "at": "50us"})
    repaired = last({"link": "leaf0-spine0", "at": "50us", "repair": "200us"})
    assert whole < repaired < failed


def test_a_result_has_the_files_of_its_scenario(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "net.yaml").write_text('switches: [sw]\nlinks: ["h0..h3 sw"]\n')
    (tmp_path / "a" / "list.csv").write_text("src,dst,bytes,start\nh0,h1,1MB,0us\nh2,h3,1MB,5us\n")
    (tmp_path / "sizes.txt").write_text("0 0\n1000 100\n")
    scenario = tmp_path / "a" / "x.yaml"
    scenario.write_text(
        "name: x\nrun: {duration: 1ms}\ntopology: {kind: file, path: net.yaml}\ntraffic:\n"
        "  - {kind: flows, file: list.csv}\n  - {kind: poisson, load: 0.01, sizes: ../sizes.txt}\n"
    )
    out = tmp_path / "out"
    assert cli.main(["run", str(scenario), "--out", str(out), "-q"]) == 0
    assert {file.name for file in (out / "inputs").iterdir()} == {"net.yaml", "list.csv", "sizes.txt"}
    assert cli.main(["run", str(out / "scenario.yaml"), "--out", str(tmp_path / "again"), "-q"]) == 0
    for name in ("scenario.yaml", "plan.json", "flows.parquet", "series.parquet", "inputs/sizes.txt"):
        assert (out / name).read_bytes() == (tmp_path / "again" / name).read_bytes()
    capsys.readouterr()


@pytest.mark.parametrize("kind", FORMS)
def test_every_node_and_link_is_in_the_picture(kind: str) -> None:
    network = load(data(FORMS[kind], PERMUTATION)).network
    root = ET.fromstring(drawing.as_svg(network, "x <&>"))
    nodes = [node for shape in ("circle", "rect") for node in root.iter(f"{SVG}{shape}")]
    titles = [title.text for node in nodes for title in node]
    assert sorted(map(str, titles)) == sorted(network.hosts + network.switches)
    assert len(list(root.iter(f"{SVG}path"))) == len(network.wires)
    for node in root.iter(f"{SVG}circle"):
        assert 0 <= float(node.attrib["cx"]) <= 1000


def test_a_large_network_has_a_small_picture() -> None:
    network = load(data({"kind": "fat-tree", "k": 16}, PERMUTATION, switch={"lossless": []})).network
    picture = drawing.as_svg(network, "large")
    assert len(picture) < 400_000
    assert "nodes not drawn" in picture
    words = drawing.as_text(network, "large")
    assert len(words.splitlines()) <= 10
    assert "1,024 x h  h0..h1023" in words


def test_the_terminal_shows_tiers_and_ratios(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    picture = tmp_path / "x.svg"
    assert cli.main(["show", "leaf-spine-websearch", "--svg", str(picture)]) == 0
    out = capsys.readouterr().out
    assert loads(out).topology == load("leaf-spine-websearch").topology
    drawn = [line for line in out.splitlines() if line.startswith("#")]
    assert drawn == [
        "# leaf-spine-websearch: leaf-spine, 32 hosts, 8 switches, 48 links",
        "#   4 x spine  spine0..spine3   (4 ports each)",
        "#     |   16 links, 100 Gbit/s, 1 µs",
        "#   4 x leaf  leaf0..leaf3   (12 ports each)   2:1 oversubscribed",
        "#     |   32 links, 100 Gbit/s, 500 ns",
        "#   32 x h  h0..h31",
    ]
    ET.parse(picture)


def test_the_tailback_of_a_fabric_shows_each_queue_once_and_those_of_switches_first() -> None:
    fabric = {"kind": "leaf-spine", "leaves": 4, "spines": 2, "hosts_per_leaf": 4}
    traffic = {"kind": "poisson", "load": 0.6, "sizes": "websearch"}
    chosen = choose(tailback.run(data(fabric, traffic, duration="5ms")))
    names = [row.queue for row in chosen.rows]
    assert len(names) == len(set(names)) == MOST_ROWS
    kinds = [row.kind for row in chosen.rows]
    assert kinds.count("egress") >= 20
    assert kinds.count("ingress") >= 8
    assert kinds.count("send") >= 8


def test_the_report_of_a_fabric_stays_small_and_says_what_it_leaves_out() -> None:
    given = data(
        {"kind": "fat-tree", "k": 12}, {"kind": "poisson", "load": 0.2, "sizes": "fb_hadoop"}, duration="50us"
    )
    result = tailback.run({**given, "switch": {"lossless": []}})
    assert len(result.senders) > 250
    page = render(result)
    assert len(page.encode()) < 2_000_000
    assert "Completion of flows" in page
    table = re.search(r'<section id="flows">.*?</section>', page, re.DOTALL)
    assert table is not None
    assert table[0].count("<tr>") <= 65
    assert re.search(r"\d+ further groups left out", table[0])
    assert "Slowdown of flows" in page


def test_switches_whose_names_say_nothing_are_called_switches() -> None:
    star = load(data(FORMS["star"], PERMUTATION)).network
    assert ">1 switch<" in drawing.as_svg(star, "x")
    graph = {"kind": "graph", "switches": ["s8", "s9"], "links": ["h0..h3 s8", "h4..h7 s9", "s8 s9"]}
    # "2 s" would be two seconds.
    assert ">2 switches<" in drawing.as_svg(load(data(graph, PERMUTATION)).network, "x")
    assert ">2 spine<" in drawing.as_svg(load(data(FORMS["leaf-spine"], PERMUTATION)).network, "x")


def test_what_a_linux_bridge_is_the_network_says_and_not_its_name() -> None:
    bridged = load(data({"kind": "bridge"}, {"kind": "write", "from": "h0", "to": "h1"})).network
    assert ">1 Linux bridge<" in drawing.as_svg(bridged, "x")
    named = load(data({"kind": "graph", "switches": ["br0"], "links": ["h0..h1 br0"]}, PERMUTATION)).network
    assert ">1 switch<" in drawing.as_svg(named, "x")
