"""What the tool says of scenarios: shown with origins, as a schema, with DCQCN's profiles resolved."""

from __future__ import annotations

import json
import math
import re
from typing import Any

import pytest
import yaml
from jsonschema import Draft202012Validator
from tailback.plan import make_plan
from tailback.scenario import Scenario, builtin_names, json_schema, load, loads, show
from tailback.scenario.controllers import Controllers, Dcqcn
from tailback.scenario.headroom import headrooms
from tailback.scenario.profiles import parameters, resolve
from tailback.scenario.show import _AUTO_VALUES, resolved_yaml

MINIMAL = """\
name: mini
run: {duration: 1ms}
topology: {kind: star, hosts: 2}
traffic:
  - {kind: write, from: h0, to: h1}
"""


@pytest.mark.parametrize("name", builtin_names())
@pytest.mark.parametrize(
    "sets", [[], ["host.dcqcn.profile=alibaba", "switch.ecn=null", "traffic.0.priority=4"]]
)
def test_shown_scenarios_load_again(name: str, sets: list[str]) -> None:
    network = load(name).network
    # What a scenario has not cannot be set: no switch, or only namespaces.
    there = [one for one in sets if network.switches or not one.startswith("switch.")]
    scenario = load(name, sets=there if network.hosts else [])
    again = loads(show(scenario))
    assert show(again, comments=False) == show(scenario, comments=False) == resolved_yaml(scenario)
    for line in show(scenario).splitlines():
        assert line.endswith(":") or "  # " in line


def test_show_says_where_values_come_from() -> None:
    text = show(loads(MINIMAL, label="x.yaml", sets=["traffic.0.qps=2"], seed=3))
    comments = {
        line.split(":")[0].strip(): line.split("  # ")[-1] for line in text.splitlines() if "  # " in line
    }
    assert comments["duration"] == "x.yaml:2"
    assert comments["seed"] == "--seed"
    assert comments["quanta"] == "default: IEEE 802.1Qbb: the most that a frame can ask for"
    assert comments["dce_tcp_g"] == 'default: connectx: NVIDIA "DCQCN CC Parameters", defaults'
    assert comments["headroom"].endswith("; here 44.104KB")
    assert "qps: 2 " in text
    assert show(load({**yaml.safe_load(MINIMAL)})).splitlines()[0].endswith("# given in Python")


def test_auto_is_explained_where_it_is_a_setting_and_not_where_it_is_a_text() -> None:
    text = show(loads(MINIMAL, sets=["name=auto", "about=auto"]))
    lines = {line.split(":")[0].strip(): line for line in text.splitlines()}
    assert re.fullmatch(r"name: auto +# --set", lines["name"])
    assert re.fullmatch(r"about: auto +# --set", lines["about"])
    automatic = {name for name, field in walk(json_schema()) if field.get("default") == "auto"}
    controls = [field.annotation for field in Controllers.model_fields.values()]
    round_trips = {name for control in controls for name in getattr(control, "model_fields", ())}
    assert {"headroom", "xoff", "base_rtt"} <= automatic <= set(_AUTO_VALUES) | round_trips


def test_show_keeps_any_text() -> None:
    for about in [
        "no",
        "null",
        "5",
        "a: b",
        "# x",
        "'",
        '"',
        "a\nb",
        "\u00e9\U0001f600",
        "\x07\x85\ufeff",
        " x",
        "*a",
    ]:
        scenario = load({**yaml.safe_load(MINIMAL), "about": about})
        assert loads(show(scenario)).about == about


def walk(schema: Any) -> Any:
    """Every field of a schema: its name and what is said of it, there or where it refers to."""
    for model in [schema, *schema["$defs"].values()]:
        for name, field in model["properties"].items():
            yield name, {**schema["$defs"].get(field.get("$ref", "").removeprefix("#/$defs/"), {}), **field}


def test_schema_documents_every_field() -> None:
    schema = json_schema()
    Draft202012Validator.check_schema(schema)
    assert json.loads(json.dumps(schema)) == schema
    names = set()
    for name, field in walk(schema):
        names.add(name)
        assert field["description"][0].isupper() or field["description"].startswith("ECN"), name
        assert ("default" in field) == ("source" in field), name
        assert field.get("source", "x") != "", name
    assert {"from", "to", "dce_tcp_g", "xon_offset", "start_spread"} <= names


def test_defaults_in_the_schema_are_as_a_file_has_them() -> None:
    defaults = {name: field["default"] for name, field in walk(json_schema()) if "default" in field}
    assert defaults["ack_timeout"] == "67.108864ms"
    assert defaults["buffer"] == "16MB"
    assert defaults["headroom"] == "auto"
    schema = json_schema()
    for model in [schema, *schema["$defs"].values()]:
        given = {name: field["default"] for name, field in model["properties"].items() if "default" in field}
        required = [{"required": model.get("required", [])}]
        open_model = {**model, "required": [], "$defs": schema["$defs"]}
        assert not list(Draft202012Validator(open_model).iter_errors(given)), required


@pytest.mark.parametrize(
    ("path", "value", "ok"),
    [
        ("duration", "2s", True),
        ("duration", "2", False),
        ("duration", 0, False),
        ("duration", "1.5 ms", True),
        ("delay", 0, True),
        ("delay", 1, False),
        ("headroom", "auto", True),
        ("headroom", "automatic", False),
        ("from", ["h0", "h2..h3"], True),
        ("from", "1x", False),
        ("clamp_tgt_rate", 1, True),
        ("xoff", None, True),
    ],
)
def test_schema_of_single_fields(path: str, value: object, ok: bool) -> None:
    schema = json_schema()
    field = next(field for name, field in walk(schema) if name == path)
    assert Draft202012Validator({**field, "$defs": schema["$defs"]}).is_valid(value) is ok


def test_headroom_is_the_sum_that_is_documented() -> None:
    scenario = loads(MINIMAL)
    in_flight = (2 * 500 + 2017.28 + 300) * 12.5 * 1.0002  # ns at 100 Gbit/s, and clocks
    whole, rest = divmod(math.floor(in_flight) + 1122 + 84, 1122)
    assert set(headrooms(scenario)) == {(whole + 2) * 1102 + rest - 20}
    assert set(headrooms(loads(MINIMAL, sets=["switch.pfc.headroom=50KB"]))) == {50_000}


def test_every_profile_is_complete() -> None:
    for profile in Dcqcn.PROFILES.values():
        assert set(profile.values) == set(parameters(Dcqcn))
        assert set(profile.sources) <= set(parameters(Dcqcn))


def test_profiles() -> None:
    def values(name: str, gbps: int, **overrides: Any) -> dict[str, Any]:
        resolved = resolve(Dcqcn(profile=name, **overrides), gbps * 10**9)  # type: ignore[arg-type]
        return {key: parameter.value for key, parameter in resolved.items()}

    shipped = values("connectx", 100)
    assert (shipped["dce_tcp_g"], shipped["rpg_time_reset"], shipped["rpg_ai_rate"]) == (1019, 300, 5)
    paper = values("sigcomm15", 40)
    assert (1024 - paper["dce_tcp_g"]) / 1024 == 1 / 256
    assert paper["rpg_byte_reset"] * paper["byte_reset_unit_bytes"] == 10_000_000
    assert paper["clamp_tgt_rate"] is True
    assert [values("alibaba", g)["rpg_ai_rate"] for g in (25, 100, 400)] == [5, 20, 80]
    assert [values("alibaba", g)["rpg_hai_rate"] for g in (1, 10, 25, 40)] == [2, 20, 50, 80]
    assert values("alibaba", 1)["rpg_ai_rate"] == 1
    assert values("alibaba", 13)["rpg_ai_rate"] == 3  # 2.6
    assert values("alibaba", 100, rpg_ai_rate=7)["rpg_ai_rate"] == 7


def test_what_goes_with_a_links_rate_is_shown_for_no_single_rate() -> None:
    links = ["h0 sw0 25Gbps", "h1 sw0 100Gbps"]
    data: dict[str, Any] = {
        "name": "two-rates",
        "run": {"duration": "1ms"},
        "topology": {"kind": "graph", "switches": ["sw0"], "links": links},
        "host": {"dcqcn": {"profile": "alibaba"}},
        "traffic": [{"kind": "write", "from": "h0", "to": "h1"}],
    }
    scenario = load(data)
    text = show(scenario)
    assert "rpg_ai_rate: null" in text
    assert "rpg_time_reset: 300" in text
    assert make_plan(loads(text)) == make_plan(scenario)


def test_flags_may_be_as_the_driver_has_them() -> None:
    assert loads(MINIMAL + "host: {dcqcn: {clamp_tgt_rate: 1}}").host.dcqcn.clamp_tgt_rate is True
    assert loads(MINIMAL + "host: {dcqcn: {clamp_tgt_rate: false}}").host.dcqcn.clamp_tgt_rate is False


def test_nothing_can_be_changed_afterwards() -> None:
    scenario = loads(MINIMAL)
    with pytest.raises(ValueError, match="frozen"):
        scenario.name = "other"
    assert isinstance(scenario, Scenario)
