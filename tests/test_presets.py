"""`preset` fills in what is not given, and says so; a finding where values are those of another rate."""

from __future__ import annotations

from typing import Any

import pytest
import tailback
from tailback.errors import InputError
from tailback.metrics import findings
from tailback.plan import make_plan
from tailback.scenario import load
from tailback.scenario.presets import FABRIC_PRESETS, NIC_PRESETS, PRESETS
from tailback.scenario.show import show

INCAST: dict[str, Any] = {
    "name": "two-to-one",
    "run": {"duration": "20us"},
    "topology": {"kind": "star", "hosts": 3},
    "traffic": [{"kind": "write", "from": "h0..h1", "to": "h2"}],
}


def told(**more: Any) -> str:
    found = findings(tailback.run({**INCAST, **more}))
    return " ".join(finding.words for finding in found if finding.what == "Link rate mismatch")


@pytest.mark.parametrize("name", FABRIC_PRESETS)
def test_a_preset_is_in_proportion_to_its_rate(name: str) -> None:
    gbps = FABRIC_PRESETS[name].gbps
    scenario = load({**INCAST, "preset": name})
    plan = make_plan(scenario)
    model, link = plan["switch_models"][0], plan["links"][0]
    assert link["rate"] == gbps * 10**9
    assert (model["ecn"][0]["k_min"], model["ecn"][0]["k_max"]) == (1500 * gbps, 15000 * gbps)
    control = plan["nics"][0]["congestion"][0]["dcqcn"]
    assert (control["rpg_ai_rate"], control["rpg_hai_rate"]) == (gbps // 5, gbps * 2)
    assert plan["nics"][0]["mtu"] == 4096
    # 905 quanta of 512 bits at 400 Gbit/s.
    if name == "400g":
        assert model["pause"]["response_delay"] == 1_158_400
    assert told(preset=name) == ""


def test_what_the_file_gives_wins_and_the_preset_is_named() -> None:
    given = {"switch": {"buffer": "20MB", "ecn": {"k_max": "2MB"}}, "host": {"mtu": "1024B"}}
    scenario = load({**INCAST, "preset": "400g", "qos": "lossless-with-qos", **given})
    shown = show(scenario)
    lines = {line.split(":")[0].strip(): line for line in shown.splitlines() if "preset 400g: " in line}
    assert {"k_min", "rate", "response_delay", "rpg_ai_rate"} <= set(lines)
    assert not {"k_max", "buffer", "mtu"} & set(lines)
    model = make_plan(scenario)["switch_models"][0]
    assert (model["buffer"], model["ecn"][0]["k_max"]) == (20_000_000, 2_000_000)
    assert model["ecn"][0]["k_min"] == 600_000, "before the setup of classes"
    # What is shown loads again, and a change of the preset moves what it had filled in.
    assert make_plan(tailback.scenario.loads(shown)) == make_plan(scenario)
    assert load(scenario, sets=["preset=800g"]).topology.link.rate == 800 * 10**9


def test_the_first_of_several_counts_and_other_profiles_stay() -> None:
    model = make_plan(load({**INCAST, "preset": ["spectrum-2", "400g"]}))["switch_models"][0]
    assert (model["buffer"], model["ecn"][0]["k_min"]) == (42_000_000, 600_000)
    own = load({**INCAST, "preset": "400g", "host": {"dcqcn": {"profile": "sigcomm15"}}})
    assert make_plan(own)["nics"][0]["congestion"][0]["dcqcn"]["rpg_ai_rate"] == 40


def test_networks_without_one_link_take_the_rest() -> None:
    graph = {"kind": "graph", "switches": ["s"], "links": ["h0..h2 s 400Gbps"]}
    assert make_plan(load({**INCAST, "topology": graph, "preset": "400g"}))["links"][0]["rate"] == 400 * 10**9


@pytest.mark.parametrize("value", ["500g", 7, ["400g", "x"], None])
def test_what_is_no_preset_is_one_line(value: Any) -> None:
    with pytest.raises(InputError) as refused:
        load({**INCAST, "preset": value})
    assert len(str(refused.value).splitlines()) == 1
    assert "preset" in str(refused.value)


def test_values_of_another_rate_are_a_finding() -> None:
    fast = {**INCAST["topology"], "link": {"rate": "400Gbps"}}
    words = told(topology=fast)
    assert "as for 100 Gbit/s" in words
    assert "16 MB" in words
    assert "preset: 400g" in words
    assert told(topology=fast, switch={"buffer": "30MB", "ecn": {"k_min": "500KB", "k_max": "2MB"}}) == ""
    slow = {**INCAST["topology"], "link": {"rate": "25Gbps"}}
    assert "as for 100 Gbit/s" in told(topology=slow)
    assert "as for 800 Gbit/s" in told(preset="800g", topology={**fast})
    assert told() == ""


def test_each_preset_has_its_sources() -> None:
    assert all(source for fills in PRESETS.values() for _, _, source in fills)


def transport_of(preset: str, **host: Any) -> dict[str, Any]:
    plan = make_plan(load({**INCAST, "preset": preset, **({"host": host} if host else {})}))
    return dict(plan["nics"][0]["transport"])


def test_nics_differ_in_what_follows_a_loss() -> None:
    of = {name: transport_of(name) for name in NIC_PRESETS}
    assert {name: one["slow_restart"] for name, one in of.items()} == {
        "connectx-4-lx": "loss",
        "connectx-5": "loss",
        "connectx-6-dx": "timeout",
        "bluefield": "timeout",
        "ideal": "never",
    }
    assert [name for name, one in of.items() if one["losses_are_cnps"]] == ["connectx-5", "connectx-6-dx"]
    assert [name for name, one in of.items() if one["nak_delay"]] == ["connectx-5"]
    assert transport_of("connectx-5", transport={"nak_delay": "1us"})["nak_delay"] == 1_000_000
    own = load({**INCAST, "preset": "connectx-5", "host": {"dcqcn": {"profile": "sigcomm15"}}})
    assert make_plan(own)["nics"][0]["congestion"][0]["dcqcn"]["min_time_between_cnps"] == 50
