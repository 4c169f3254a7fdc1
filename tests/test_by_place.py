"""Settings of some switches and links: `switches` and `links` of a scenario."""

from __future__ import annotations

from typing import Any

import pytest
import tailback
from tailback.plan import make_plan
from tailback.scenario.load import loads
from tailback.scenario.show import resolved_yaml, show
from tailback.scenario.warnings import warnings

FABRIC: dict[str, Any] = {
    "name": "places",
    "run": {"duration": "1ms"},
    "topology": {
        "kind": "leaf-spine",
        "leaves": 2,
        "spines": 2,
        "hosts_per_leaf": 4,
        "link": {"rate": "100Gbps"},
    },
    "switch": {"buffer": "32MB", "ecn": {"k_max": "2MB"}},
    "traffic": [{"kind": "write", "from": "h0..h3", "to": "h4", "message": "64KiB"}],
}


def plan_of(**sections: Any) -> dict[str, Any]:
    return make_plan(tailback.load({**FABRIC, **sections}))


def models(plan: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {one["name"]: plan["switch_models"][one["model"]] for one in plan["switches"]}


def problem(**sections: Any) -> str:
    with pytest.raises(tailback.InputError) as refused:
        tailback.load({**FABRIC, **sections})
    (line,) = map(str, refused.value.problems)
    return line


def test_entries_are_laid_over_switch_in_the_order_of_the_file() -> None:
    found = models(
        plan_of(
            switches=[
                {"at": "leaf*", "buffer": "64MB", "ecn": {"k_min": "50KB"}},
                {"at": "leaf1", "buffer": "20MB", "lossless": []},
                {"at": ["spine0..spine1"], "ecn": None},
            ]
        )
    )
    assert {name: model["buffer"] for name, model in found.items()} == {
        "leaf0": 64_000_000,
        "leaf1": 20_000_000,
        "spine0": 32_000_000,
        "spine1": 32_000_000,
    }
    assert [(one["k_min"], one["k_max"]) for one in found["leaf1"]["ecn"]] == [(50_000, 2_000_000)]
    assert (found["leaf0"]["lossless"], found["leaf1"]["lossless"]) == ([3], [])
    assert found["spine0"]["ecn"] == []


def test_without_entries_the_plan_is_as_before() -> None:
    assert plan_of(switches=[], links=[]) == plan_of()
    alike = plan_of(switches=[{"at": "*", "buffer": "64MB"}], links=[{"at": "*-*", "delay": "1us"}])
    link = {**FABRIC["topology"]["link"], "delay": "1us"}
    whole = plan_of(
        switch={**FABRIC["switch"], "buffer": "64MB"},
        topology={**FABRIC["topology"], "link": link, "fabric": link},
    )
    assert alike == whole


def test_sections_keep_what_an_entry_does_not_give_and_mappings_are_replaced() -> None:
    shares = {"weights": {"0": 50, "3": 50}}
    found = models(plan_of(switch=shares, switches=[{"at": "leaf0", "weights": {"1": 10, "3": 90}}]))
    assert found["leaf0"]["weights"] == [0, 10, 0, 90, 0, 0, 0, 0]
    assert found["leaf1"]["weights"] == [50, 0, 0, 50, 0, 0, 0, 0]


def test_a_preset_of_an_entry_gives_way_to_its_own_settings() -> None:
    found = models(plan_of(switches=[{"at": "leaf0", "preset": "400g", "ecn": {"k_min": "10KB"}}]))
    assert found["leaf0"]["buffer"] == 64_000_000
    assert [(one["k_min"], one["k_max"]) for one in found["leaf0"]["ecn"]] == [(10_000, 6_000_000)]


def test_links_have_their_own_rate_delay_and_loss_and_headroom() -> None:
    plan = plan_of(
        links=[{"at": "spine*-leaf0", "delay": "1500ns"}, {"at": "h0-leaf0", "rate": "50Gbps", "loss": 0.01}]
    )
    links = {f"{one['a']}-{one['b']}": one for one in plan["links"]}
    assert links["leaf0-spine1"]["delay"] == 1_500_000
    assert (links["h0-leaf0"]["rate"], links["h0-leaf0"]["loss"], links["h1-leaf0"]["loss"]) == (
        50 * 10**9,
        0.01,
        0,
    )
    # A microsecond more each way at 100 Gbit/s is 25,000 B on the wire, of which 1,102 in 1,122 are frames.
    more = links["leaf0-spine1"]["headroom_bytes"] - links["leaf1-spine1"]["headroom_bytes"]
    assert 25_000 * 1102 / 1122 <= more <= 25_000
    assert len({links["h0-leaf0"]["headroom_bytes"], links["h1-leaf0"]["headroom_bytes"]}) == 2


def test_headroom_of_a_link_is_the_larger_of_its_ends() -> None:
    plan = plan_of(
        switches=[{"at": "spine0", "pfc": {"headroom": "90KB"}}, {"at": "spine1", "pfc": {"headroom": "1KB"}}]
    )
    links = {f"{one['a']}-{one['b']}": one["headroom_bytes"] for one in plan["links"]}
    assert links["leaf0-spine0"] == 90_000
    assert links["leaf0-spine1"] == plan_of()["links"][-1]["headroom_bytes"] > 1000


SWITCHES = [
    {"at": "leaf*", "preset": "spectrum-3", "ecn": {"k_min": "50KB"}},
    {"at": "spine0", "lossless": []},
]
LINKS = [{"at": "leaf0-spine*", "delay": "1500ns"}]


def test_what_show_writes_loads_to_the_same_plan_and_names_the_lines() -> None:
    scenario = tailback.load({**FABRIC, "switches": SWITCHES, "links": LINKS})
    assert make_plan(loads(resolved_yaml(scenario))) == make_plan(scenario)
    assert make_plan(tailback.load(scenario)) == make_plan(scenario)
    text = "name: x\nrun: {duration: 1ms}\ntopology: {kind: star, hosts: 3}\nswitches:\n  - at: sw0\n    buffer: 20MB\n"
    shown = show(loads(text + "traffic: [{kind: write, from: h0, to: h1}]", label="x.yaml"))
    line = next(line for line in shown.splitlines() if "buffer: 20MB" in line)
    assert line.endswith("# x.yaml:6")


def test_a_run_drops_where_its_switch_is_lossy() -> None:
    incast = [{"kind": "write", "from": "h0..h3", "to": "h4", "message": "1MiB", "depth": 8}]
    small = {"buffer": "300KB", "ecn": None}
    lossy = tailback.run(
        {**FABRIC, "traffic": incast, "switches": [{"at": "leaf1", "lossless": [], **small}]}
    )
    assert {queue["node"] for queue in lossy.summary["losses"]["by_queue"]} == {"leaf1"}
    lossless = tailback.run(
        {**FABRIC, "traffic": incast, "switches": [{"at": "leaf1", "buffer": "600KB", "ecn": None}]}
    )
    assert lossless.summary["losses"]["dropped_packets"] == 0
    assert lossless.summary["pauses"]["largest_share_of_the_run"] > 0


@pytest.mark.parametrize(
    ("sections", "words"),
    [
        (
            {"switches": [{"at": "tor*", "buffer": "1MB"}]},
            ("switches.0.at", "tor*, which names no switch", "leaf0"),
        ),
        ({"switches": [{"at": "leaf*", "buffer": "1KB"}]}, ("switches.0.buffer", "headroom")),
        (
            {"switches": [{"at": "leaf*", "buffer": "20MB"}, {"at": "leaf1", "ecn": {"k_min": "9MB"}}]},
            ("switches.1.ecn.k_min", "k_max"),
        ),
        ({"switches": [{"buffer": "1MB"}]}, ("switches.0.at", "nothing")),
        ({"switches": [{"at": "leaf0", "bufer": "1MB"}]}, ("switches.0.bufer", "expected buffer")),
        ({"switches": [{"at": "leaf0", "preset": "tomahawk"}]}, ("switches.0.preset", "spectrum-2")),
        (
            {"switches": [{"at": "leaf0", "ecn": {"k_min": {"25Gbps": "1KB"}}}]},
            ("switches.0.ecn.k_min", "100Gbps"),
        ),
        ({"switches": [{"at": "leaf0", "pfc": {"quanta": 1}}]}, ("switches.0.pfc.quanta",)),
        (
            {"links": [{"at": "leaf7-spine0", "rate": "1Gbps"}]},
            ("links.0.at", "which names no link", "h0-leaf0"),
        ),
        ({"links": [{"at": "leaf7", "rate": "1Gbps"}]}, ("links.0.at.0", "leaf0-spine1")),
        ({"links": [{"at": "h0-leaf0", "rate": 5}]}, ("links.0.rate", "100Gbps")),
    ],
)
def test_a_bad_entry_is_one_line(sections: dict[str, Any], words: tuple[str, ...]) -> None:
    line = problem(**sections)
    assert all(word in line for word in words), line


def test_ends_that_disagree_are_a_warning() -> None:
    scenario = tailback.load(
        {**FABRIC, "switches": [{"at": "spine1", "lossless": [], "qos": {"trust": "port"}}]}
    )
    lines = warnings(scenario)
    assert [line for line in lines if "leaf0-spine1 and 1 more" in line and "lossless" in line]
    assert [line for line in lines if "leaf0-spine1 and 1 more" in line and "qos" in line]
    assert not warnings(tailback.load({**FABRIC, "switches": [{"at": "spine1", "buffer": "20MB"}]}))


def test_a_network_without_switches_has_none_to_set() -> None:
    pair = {"kind": "point-to-point"}
    traffic = [{"kind": "write", "from": "h0", "to": "h1"}]
    with pytest.raises(tailback.InputError, match=r"switches\.0\.at: .*there is no switch"):
        tailback.load(
            {
                "name": "x",
                "run": {"duration": "1ms"},
                "topology": pair,
                "traffic": traffic,
                "switches": [{"at": "sw0"}],
            }
        )


def test_a_name_of_two_links_is_refused() -> None:
    graph = {
        "kind": "graph",
        "switches": ["a", "b", "c", "b-c", "a-b"],
        "links": ["h0 a", "h1 c", "a b", "b c", "a b-c", "a-b c"],
    }
    line = problem(
        topology=graph,
        traffic=[{"kind": "write", "from": "h0", "to": "h1"}],
        links=[{"at": "a-b-c", "rate": "1Gbps"}],
    )
    assert "a-b-c, which names two links, a to b-c and a-b to c" in line
