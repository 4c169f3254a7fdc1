"""What a sweep stands for: its points, its seeds, and what is wrong with it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tailback.errors import InputError
from tailback.study.effects import values_of
from tailback.study.sweep_design import Design, read_design

BASE: dict[str, Any] = {"scenario": "first-flow"}


def points(**fields: Any) -> list[dict[str, str]]:
    return read_design({**BASE, **fields}).all_points()


def test_a_grid_has_every_combination() -> None:
    got = points(vary={"switch.ecn.k_max": ["400KB", "1MB"], "traffic.0.qps": [1, 2, 4]})
    assert got[0] == {"switch.ecn.k_max": "400KB", "traffic.0.qps": "1"}
    assert len(got) == 6


def test_values_that_are_not_text() -> None:
    got = points(vary={"switch.lossless": [[], [3]], "switch.ecn": [None]})
    assert got == [
        {"switch.lossless": "[]", "switch.ecn": "null"},
        {"switch.lossless": "[3]", "switch.ecn": "null"},
    ]


def test_points_alone_and_with_a_grid() -> None:
    each = [{"traffic.0.qps": 1}, {"traffic.0.qps": 4, "host.mtu": "4096B"}]
    assert points(points=each)[1] == {"traffic.0.qps": "4", "host.mtu": "4096B"}
    assert len(points(points=each, vary={"run.duration": ["1ms", "2ms"]})) == 4
    assert len(points(points=[*each, *each])) == 2
    assert points() == [{}]


@pytest.mark.parametrize(
    ("given", "values"),
    [
        (
            {"low": "100KB", "high": "1.6MB", "scale": "log", "steps": 5},
            ["100KB", "200KB", "400KB", "800KB", "1.6MB"],
        ),
        ({"low": "1us", "high": "2us", "steps": 3}, ["1us", "1.5us", "2us"]),
        ({"low": 1, "high": 9, "steps": 3}, ["1", "5", "9"]),
        ({"low": 0.1, "high": 0.3, "steps": 2}, ["0.1", "0.3"]),
        ({"low": "10Gbps", "high": "400G", "steps": 2}, ["10Gbps", "400Gbps"]),
    ],
)
def test_ranges(given: dict[str, Any], values: list[str]) -> None:
    assert [point["a.b"] for point in points(vary={"a.b": given})] == values


@pytest.mark.parametrize("method", ["random", "latin-hypercube"])
def test_a_sample_is_the_same_again_and_covers_what_it_should(method: str) -> None:
    vary = {"a.size": {"low": "1KB", "high": "1MB", "scale": "log"}, "a.word": ["x", "y"]}
    got = points(vary=vary, sample={"points": 16, "method": method})
    assert got == points(vary=vary, sample={"points": 16, "method": method})
    assert got != points(vary=vary, sample={"points": 16, "method": method, "seed": 2})
    assert {point["a.word"] for point in got} == {"x", "y"}
    if method == "latin-hypercube":
        assert [point["a.word"] for point in got].count("x") == 8


def test_conditions() -> None:
    vary = {"a.low": ["100KB", "1MB"], "a.high": ["400KB", "2MB"], "a.kind": ["x", "y"]}
    got = points(vary=vary, where=["a.low < a.high", "a.kind != y", "a.high <= 1GB"])
    assert [(point["a.low"], point["a.high"]) for point in got] == [
        ("100KB", "400KB"),
        ("100KB", "2MB"),
        ("1MB", "2MB"),
    ]
    assert len(points(vary=vary, set={"a.most": "500KB"}, where=["a.high < a.most"])) == 4


def test_values_are_in_the_order_of_their_size() -> None:
    every = [{"a": "1MB"}, {"a": "200KB"}, {"a": "1GB"}]
    assert values_of(every, "a") == ["200KB", "1MB", "1GB"]
    assert values_of([{"a": "b"}, {"a": "a"}], "a") == ["b", "a"]


@pytest.mark.parametrize(
    ("fields", "line"),
    [
        ({"vary": {"a.b": []}}, "vary.a.b: found an empty list, expected at least one value"),
        ({"varry": {}}, "varry: found an unknown field, expected vary (or another of"),
        ({"scenario": 3}, "scenario: found 3, expected"),
        ({"seeds": "5..1"}, '--seeds: found "5..1", expected seeds such as 1..4 or 1,5,9'),
        (
            {"vary": {"a.b": [1, 2]}, "where": ["a.b > 2"]},
            "where: found no point of 2 that meets all, expected",
        ),
        (
            {"vary": {"a.b": [1]}, "where": ["a.b"]},
            'where.0: found "a.b", expected two settings or values with',
        ),
        (
            {"vary": {"a.b": [1]}, "where": ["a.c < 2"]},
            "where.0: found a.c, expected a setting that is varied",
        ),
        ({"vary": {"a.b": ["x"]}, "where": ["a.b < 2"]}, 'where.0: found "a.b < 2", expected two numbers'),
        (
            {"vary": {"a.b": {"low": "1KB", "high": "2s"}}},
            "vary.a.b: found 1KB and 2s, expected two of the same unit",
        ),
        ({"vary": {"a.b": {"low": 2, "high": 1}}}, "vary.a.b: found 2 to 1, expected low below high"),
        ({"vary": {"a.b": {"low": 0, "high": 1, "scale": "log"}}}, "vary.a.b: found 0, expected more than 0"),
        (
            {"vary": {"a.b": {"low": 1, "high": 2, "steps": 2000}}},
            "vary.a.b.steps: found 2000, expected less than or equal to 1000",
        ),
        (
            {"vary": {"a.b": {"low": 1, "high": 2, "stepz": 2}}},
            "vary.a.b.stepz: found an unknown field, expected steps",
        ),
        (
            {"vary": {"a.b": {"low": 0, "high": 1}}},
            "vary.a.b: found a range without steps, expected steps, or sample",
        ),
        ({"sample": {"points": 3}}, "sample: found nothing to sample, expected vary"),
        (
            {"vary": {"a": list(range(1000)), "b": list(range(1000))}},
            "vary: found 1,000,000 points, expected at most",
        ),
        ({"vary": {"a": list(range(1000))}, "seeds": "1..500"}, "vary: found 500,000 runs, expected at most"),
        ({"vary": {"run.seed": [1, 2]}}, "vary: found run.seed, expected it in seeds"),
        (
            {"metrics": ["total_gooodput"]},
            "metrics.0: found total_gooodput, expected a metric, or a figure of",
        ),
        ({"metrics": ["jain_index:sinc=start"]}, "metrics.0: found sinc, expected since"),
        ({"metrics": ["cnps", "cnps"]}, "metrics.1: found Cnps again, expected each once"),
        ({"pareto": {"Throughput": "more"}}, "found other than two metrics, expected two"),
        ({"pareto": {"Throughput": "more", "x": "less"}}, "pareto.x: found x, expected one of"),
    ],
)
def test_what_is_wrong_is_a_line(fields: dict[str, Any], line: str) -> None:
    with pytest.raises(InputError) as refused:
        read_design({**BASE, **fields})
    assert "\n" not in str(refused.value)
    assert line in str(refused.value)


def test_a_file_is_named_with_its_line(tmp_path: Path) -> None:
    file = tmp_path / "s.yaml"
    file.write_text("scenario: first-flow\nvary:\n  a.b: []\n")
    with pytest.raises(InputError, match=rf"^{file}:3: vary\.a\.b: found an empty list"):
        read_design(file)
    with pytest.raises(InputError, match="found no such file, expected a sweep"):
        read_design(tmp_path / "t.yaml")
    file.write_text("- 1\n")
    with pytest.raises(InputError, match="expected a mapping with scenario"):
        read_design(file)


def test_a_scenario_is_found_beside_its_sweep(tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text("name: mine\n")
    (tmp_path / "s.yaml").write_text("scenario: mine.yaml\n")
    assert read_design(tmp_path / "s.yaml").scenario == str(tmp_path / "mine.yaml")


def test_a_design_can_be_kept() -> None:
    vary = {"a.b": {"low": 1, "high": 2}, "a.c": ["x", None, [1]]}
    design = read_design({**BASE, "vary": vary, "sample": {"points": 3}, "metrics": ["cnps"], "keep": True})
    import json

    assert read_design(json.loads(design.canonical())) == design
    assert isinstance(design, Design)
