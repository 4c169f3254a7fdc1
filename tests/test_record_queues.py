"""record.queues: which queues of switches have time series, and what is said of the others."""

from __future__ import annotations

from typing import Any

import pytest
import tailback
from tailback.errors import InputError
from tailback.explain import as_text, page_of
from tailback.metrics import findings
from tailback.results import Result
from tailback.scenario import load

FABRIC: dict[str, Any] = {
    "name": "chosen",
    "run": {"duration": "1ms"},
    "topology": {"kind": "leaf-spine", "leaves": 2, "spines": 2, "hosts_per_leaf": 4},
    "traffic": [{"kind": "all-to-all", "message": "256KiB"}],
}


def recorded(queues: list[str] | None) -> Result:
    return tailback.run({**FABRIC, "record": {"queues": queues}})


def egress(result: Result) -> set[str]:
    return {one["node"] for one in result.meta["queues"] if one["kind"] == "egress"}


@pytest.fixture(scope="module")
def everything() -> Result:
    return recorded(None)


def test_queues_of_the_switches_that_are_named_have_series_and_no_others(everything: Result) -> None:
    some = recorded(["spine*"])
    assert egress(everything) == {"leaf0", "leaf1", "spine0", "spine1"}
    assert egress(some) == {"spine0", "spine1"}
    entities = some.entities.to_pylist()
    assert {one["node"] for one in entities if one["kind"] == "ingress"} == {"spine0", "spine1"}
    assert len({one["node"] for one in some.meta["queues"] if one["kind"] == "send"}) == 8
    assert not some.records_all
    port = "spine0:leaf1/tc3"
    assert some.bins.values(port, "queue_max_bytes").max() > 0
    assert (
        some.bins.values(port, "queue_max_bytes") == everything.bins.values(port, "queue_max_bytes")
    ).all()
    assert some.flows.equals(everything.flows)
    assert some.counters.equals(everything.counters)


@pytest.mark.parametrize(
    ("queues", "ports"),
    [
        (["leaf0"], {"leaf0:h0", "leaf0:h1", "leaf0:h2", "leaf0:h3", "leaf0:spine0", "leaf0:spine1"}),
        (["leaf?:spine0", "spine1:leaf1"], {"leaf0:spine0", "leaf1:spine0", "spine1:leaf1"}),
        ([], set()),
    ],
)
def test_a_port_of_a_switch_may_be_named(queues: list[str], ports: set[str]) -> None:
    found = recorded(queues)
    assert {one["port"] for one in found.meta["queues"] if one["kind"] == "egress"} == ports
    assert found.records_queues is bool(ports)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("rail-all-to-all", 'found "foo*", expected switches or ports of them, such as rail0 or rail0:s0n0'),
        ("veth-xdp", 'found "foo*", expected null, as there is no switch'),
    ],
)
def test_a_pattern_that_is_no_switch_is_refused_in_a_line(name: str, expected: str) -> None:
    with pytest.raises(InputError) as raised:
        load(
            name,
            sets=["record.queues=[rail*, foo*]" if name == "rail-all-to-all" else "record.queues=[foo*]"],
        )
    assert [problem.text for problem in raised.value.problems] == [expected]


def test_what_was_not_recorded_is_said_to_be_so(everything: Result) -> None:
    some = recorded(["spine*"])
    words = as_text(page_of(some))
    assert words.splitlines()[0] == as_text(page_of(everything)).splitlines()[0]
    assert "queue_mean_bytes  not recorded" in words
    assert "record.queues" in words
    assert "Sure:" not in words.replace("Fairly sure:", "")
    standing = next(one for one in findings(some) if one.what == "Standing queue")
    assert "of all bytes waiting in egress queues that record.queues chooses" in standing.words
    none = next(one for one in findings(recorded([])) if one.what == "Standing queue")
    assert none.figure != "none"
    assert "record.queues" in none.words
