"""Whole runs as properties: 100 drawn scenarios here, any number by `make soak`."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
import soak
from drawn import Drawn, draw
from drawn_checks import Run, problems
from tailback.running import run_checked

SEED, RUNS, SLICES = 1, 100, 10
DRAWN = 200
"""Scenarios that are drawn and not run: every kind is to be among them."""


@pytest.mark.parametrize("part", range(SLICES))
def test_all_that_must_be_true_of_a_run(part: int) -> None:
    each = RUNS // SLICES
    for number in range(part * each, (part + 1) * each):
        found = soak.run(SEED, number)
        assert not found, f"python tests/soak.py --seed {SEED} --run {number}: {found}"


def test_what_is_drawn_is_of_every_kind() -> None:
    topologies: Counter[str] = Counter()
    traffic: Counter[str] = Counter()
    settings: Counter[str] = Counter()
    for number in range(DRAWN):
        drawn = draw(SEED, number)
        assert drawn == draw(SEED, number)
        topologies[drawn.data["topology"]["kind"]] += 1
        traffic.update(item["kind"] for item in drawn.data["traffic"])
        host = drawn.data.get("host", {})
        settings.update([host.get("congestion", "none"), *drawn.data, *host, *drawn.data.get("switch", {})])
        settings.update([*host.get("dcqcn", {}), *drawn.data.get("record", {})])
        if "tcp" in [item["kind"] for item in drawn.data["traffic"]]:
            settings[host["tcp"]["control"]] += 1
    assert len(topologies) == 11
    assert len(traffic) == 12
    for name in (
        "dcqcn",
        "hpcc",
        "timely",
        "dctcp",
        "cubic",
        "newreno",
        "failures",
        "memory_load",
        "watchdog",
        "preset",
        "wait_follows_rate",
        "queues",
    ):
        assert settings[name] > 0, name
    for name in ("path", "path_by_host", "rhcc", "hostcc", "pools", "weights", "qos", "ecn_by_priority"):
        assert settings[name] > 0, name


SMALL: dict[str, Any] = {
    "name": "small",
    "run": {"duration": "100us"},
    "topology": {"kind": "star", "hosts": 3},
    "host": {"congestion": "none"},
    "switch": {"shared": "64KiB"},
    "traffic": [{"kind": "write", "from": "h0..h1", "to": "h2"}, {"kind": "tcp", "from": "h0", "to": "h1"}],
}


def _off_by_one(run: Run) -> list[tuple[str, Any]]:
    """What to cook, and the name of the check that notices."""

    def counter(node: str, port: str, name: str) -> Any:
        return lambda: run.counters[node, port].__setitem__(
            name, run.counters[node, port].get(name, 0) + 1000
        )

    def flow(column: str, value: Any) -> Any:
        return lambda: run.flows[0].__setitem__(column, value)

    means = {
        entity: values for (entity, metric), values in run.series.items() if metric == "queue_mean_bytes"
    }
    queue = next(entity for entity, values in means.items() if values.max() > 0)
    return [
        ("link", counter("h0", "", "tx_prio3_packets")),
        ("pauses", counter("h0", "", "rx_prio3_pause")),
        ("flows and counters", counter("h2", "", "out_of_sequence")),
        ("marks", counter("sw0", "sw0:h2", "ecn_marked_tc_3")),
        ("flows and series", flow("bytes_delivered", run.flows[0]["bytes_delivered"] + 1)),
        ("goodput above the line", flow("goodput_bps", 1.01e11)),
        ("error", flow("error", "none")),
        ("state", flow("state", "lost")),
        (
            "mean above maximum",
            lambda: run.series.__setitem__(
                (queue, "queue_max_bytes"), 0 * run.series[queue, "queue_max_bytes"]
            ),
        ),
        ("not finite", lambda: run.meta.__setitem__("events", float("nan"))),
        ("hops", lambda: run.meta.__setitem__("packet_hops", run.meta["packet_hops"] + 1)),
        ("end", lambda: run.meta.__setitem__("complete", False)),
        (
            "fault conservation",
            lambda: run.meta["faults"].append({"kind": "conservation", "where": "x", "text": "x"}),
        ),
    ]


@pytest.mark.parametrize("number", range(13))
def test_every_check_notices_what_it_is_for(number: int) -> None:
    from drawn_checks import CHECKS

    drawn = Drawn("small", SMALL)
    scenario = drawn.load()
    result = run_checked(scenario)
    assert problems(scenario, result) == []
    run = Run(scenario, result)
    name, cook = _off_by_one(run)[number]
    cook()
    lines = [line for check in CHECKS for line in check(run)]
    assert any(line.startswith(f"{name}: ") for line in lines), lines


def test_a_failing_scenario_is_made_small() -> None:
    def fails(drawn: Drawn) -> bool:
        return any(item["kind"] == "tcp" for item in drawn.data["traffic"])

    number = next(number for number in range(100) if fails(draw(SEED, number)))
    small = soak.smaller(draw(SEED, number), fails)
    assert [item["kind"] for item in small.data["traffic"]] == ["tcp"]
    assert set(small.data) <= {"name", "run", "topology", "traffic"}
