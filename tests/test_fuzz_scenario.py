"""Whatever the loader is given, it answers with a scenario or with a `InputError` of clean lines."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tailback import library
from tailback.errors import InputError
from tailback.plan import make_plan, plan_json
from tailback.scenario import Scenario, json_schema, load, loads, show

BASE = library.text("roce-incast-lossless").decode()
DATA: dict[str, Any] = yaml.safe_load(BASE)
# Names and values of the schema, so that garbage gets past the first check.
NAMES = sorted(
    {name for model in [json_schema(), *json_schema()["$defs"].values()] for name in model["properties"]}
)
WORDS = [
    *NAMES,
    "write",
    "star",
    "fat-tree",
    "graph",
    "poisson",
    "flows",
    "tcp",
    "cubic",
    "2.6GHz",
    "all",
    "auto",
    "none",
    "h0",
    "h0..h3",
    "1ms",
    "0",
    "1KB",
    "100Gbps",
    "null",
    ".inf",
    "-1",
]

scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(),
    st.sampled_from(WORDS),
    st.binary(max_size=3),
)
nested = st.recursive(
    scalars,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.dictionaries(st.one_of(st.sampled_from(WORDS), st.text(), st.integers()), inner, max_size=4),
        st.lists(inner, max_size=2).map(tuple),
    ),
    max_leaves=20,
)
yaml_pieces = st.lists(
    st.one_of(
        st.sampled_from(
            [
                *WORDS,
                *"{}[]:,-?&*!|>'\"%@`#\n",
                ": ",
                "- ",
                "\n  ",
                "\n- ",
                "&a ",
                "*a",
                "!!",
                "<<: ",
                "---\n",
                "...\n",
            ]
        ),
        st.text(max_size=3),
    ),
    max_size=40,
).map("".join)


def answer(give: Any) -> Scenario | None:
    """Runs the loader: a scenario with a plan that can be shown and loaded again, or clean lines."""
    refused: InputError | None = None
    try:
        scenario: Scenario = give()
    except InputError as error:
        refused = error
    if refused is not None:
        assert refused.problems
        for problem in refused.problems:
            assert str(problem).isprintable(), problem
            assert len(str(problem)) < 2000
        assert str(refused) == "\n".join(map(str, refused.problems))
        return None
    json.loads(plan_json(make_plan(scenario)))
    assert make_plan(loads(show(scenario))) == make_plan(scenario)
    return scenario


@given(st.binary())
def test_any_bytes(data: bytes) -> None:
    answer(lambda: loads(data))


@given(st.text())
def test_any_text(text: str) -> None:
    answer(lambda: loads(text))


@given(yaml_pieces)
def test_pieces_of_yaml(text: str) -> None:
    answer(lambda: loads(text))


@given(st.integers(0, len(BASE)), st.integers(0, 40), st.one_of(yaml_pieces, st.text(max_size=5)))
def test_mutated_scenario(start: int, length: int, new: str) -> None:
    answer(lambda: loads(BASE[:start] + new + BASE[start + length :]))


@given(nested)
def test_any_python(data: Any) -> None:
    answer(lambda: load(data if isinstance(data, dict) else {"traffic": data}))


def paths(data: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The path of every value of a scenario."""
    items = data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else ()
    return [path, *(p for key, value in items for p in paths(value, (*path, key)))]


@given(st.sampled_from(paths(DATA)[1:]), nested, st.booleans())
@settings(suppress_health_check=[HealthCheck.too_slow])
def test_one_value_replaced(path: tuple[Any, ...], value: Any, add: bool) -> None:
    data = copy.deepcopy(DATA)
    holder: Any = data
    for part in path[:-1]:
        holder = holder[part]
    if add and isinstance(holder, dict):
        holder[value if isinstance(value, str) else "x"] = value
    else:
        holder[path[-1]] = value
    answer(lambda: load(data))


@given(st.sampled_from(NAMES), st.sampled_from(paths(DATA)), scalars)
def test_one_field_of_the_schema(name: str, path: tuple[Any, ...], value: Any) -> None:
    text = ".".join(map(str, (*path, name)))
    answer(lambda: load("roce-incast-lossless", sets=[f"{text}={value}"]))


@given(st.one_of(st.text(), yaml_pieces), st.one_of(st.text(), yaml_pieces))
def test_any_set(path: str, value: str) -> None:
    answer(lambda: load("first-flow", sets=[f"{path}={value}", value]))


FABRIC: dict[str, Any] = {
    "name": "fabric",
    "run": {"duration": "100us"},
    "topology": {"kind": "leaf-spine", "leaves": 2, "spines": 2, "hosts_per_leaf": 2},
    "failures": [{"link": "leaf0-spine1", "at": "10us", "repair": "20us"}],
    "traffic": [
        {"kind": "poisson", "load": 0.1, "sizes": "fb_hadoop", "stop": "50us"},
        {"kind": "incast", "fan_in": 2, "message": "1KB", "interval": "10us", "from": "all", "to": ["h0"]},
        {"kind": "flows", "list": ["h0 h1 1KB 1us 3"]},
        {"kind": "permutation", "message": "1KB", "hosts": "h0..h3", "repeat": 2, "interval": "1us"},
        {"kind": "all-to-all", "message": "1KB", "stagger": "1us"},
        {"kind": "tcp", "from": "h0", "to": "h1", "connections": 2, "bytes": "1MB", "stop": "50us"},
    ],
}
TCP: dict[str, Any] = {
    "name": "tcp",
    "run": {"duration": "100us"},
    "topology": {"kind": "star", "hosts": 3},
    "host": {
        "tcp": {
            "control": "cubic",
            "mtu": "1500B",
            "sack": True,
            "ecn": False,
            "initial_window": 10,
            "initial_rto": "1s",
            "min_rto": "200ms",
            "max_rto": "120s",
            "delayed_ack": "40ms",
            "ack_every": 2,
            "receive_buffer": "6MiB",
            "tso": "64KiB",
            "small_queue": "1MiB",
        },
        "cpu": {
            "cores": 16,
            "clock": "2.4GHz",
            "rx_ring": 1024,
            "interrupt_delay": "16us",
            "interrupt_packets": 32,
            "napi_budget": 64,
            "gro": "64KiB",
            "cycles_per_interrupt": 2500.0,
            "cycles_per_packet": 700,
            "cycles_per_segment": 3000.0,
            "cycles_per_byte": 0.3,
        },
    },
    "traffic": [{"kind": "tcp", "from": "h0..h1", "to": "h2", "start_interval": "1us"}],
}
TOPOLOGIES: list[dict[str, Any]] = [
    FABRIC["topology"],
    {"kind": "dumbbell", "left": 2, "right": 2, "bottleneck": {"rate": "1Gbps"}},
    {"kind": "fat-tree", "k": 4, "core": {"delay": "1us"}},
    {"kind": "fat-tree-2level", "hosts": 4, "leaves": 2, "oversubscription": 2.0},
    {"kind": "rail-optimised", "servers": 2, "nics": 2, "spines": 1, "units": 1},
    {"kind": "graph", "switches": ["a", "b"], "links": ["h0..h2 a", "h3 b", "a b 1Gbps 1us 0.1"]},
    {"kind": "file", "path": "none.yaml"},
]
small = st.one_of(scalars, st.integers(-2, 9), st.sampled_from(["all", "h0", "s0n1", "h0 h1 1B 0", "a b"]))


@given(st.sampled_from(TOPOLOGIES), st.data())
@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_one_value_of_a_fabric(topology: dict[str, Any], draw: st.DataObject) -> None:
    data = copy.deepcopy({**FABRIC, "topology": topology})
    path = draw.draw(
        st.sampled_from([p for p in paths(data) if p and p[0] in ("topology", "traffic", "failures")])
    )
    holder: Any = data
    for part in path[:-1]:
        holder = holder[part]
    holder[path[-1]] = draw.draw(st.one_of(small, st.lists(small, max_size=3)))
    answer(lambda: load(data))


tcp_values = st.one_of(
    scalars,
    st.sampled_from(["dctcp", "newreno", "0", "1us", "300s", "1B", "9KB", "1GiB", "1MHz", "1e3", "7B"]),
)


@given(st.lists(st.tuples(st.sampled_from([p for p in paths(TCP) if len(p) > 1]), tcp_values), max_size=3))
@settings(suppress_health_check=[HealthCheck.too_slow])
def test_values_of_tcp_and_cpu(changes: list[tuple[tuple[Any, ...], Any]]) -> None:
    data = copy.deepcopy(TCP)
    for path, value in changes:
        holder: Any = data
        for part in path[:-1]:
            holder = holder[part] if isinstance(holder, (dict, list)) else {}
        if isinstance(holder, (dict, list)) and holder:
            holder[path[-1]] = value
    answer(lambda: load(data))


def test_the_unchanged_scenario_loads() -> None:
    assert answer(lambda: load(TCP)) is not None
    assert answer(lambda: loads(BASE)) is not None
    assert answer(lambda: load(DATA)) is not None
    assert answer(lambda: load(FABRIC)) is not None


@pytest.mark.parametrize("depth", [10, 100, 100_000])
@pytest.mark.parametrize(
    ("open_", "close"), [("[", "]"), ("{a: ", "}"), ("- ", ""), ("? ", ""), ("a: [", "]")]
)
def test_deep_nesting(depth: int, open_: str, close: str) -> None:
    assert answer(lambda: loads(open_ * depth + close * depth)) is None


@pytest.mark.parametrize("key", ["a: &a {x: *a}", "a: &a\n  <<: *a", "&a a: *a", "? *a\n: b", "&a [*a]"])
def test_recursion(key: str) -> None:
    assert answer(lambda: loads(key)) is None


def test_a_deep_python_list() -> None:
    data: Any = []
    for _ in range(100_000):
        data = [data]
    assert answer(lambda: load({"traffic": data})) is None
