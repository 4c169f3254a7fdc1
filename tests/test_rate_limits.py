"""Queue pairs at the lowest rate of DCQCN: what waits follows the rate; a finding says what waiting cost."""

from __future__ import annotations

from typing import Any

import pytest
import tailback
from tailback.metrics import METRICS, findings
from tailback.metrics.rate_limits import at_min_rate
from tailback.results import Result

# Two to one at the spines: queue pairs get CNPs without a break until they are at 1 Mbit/s. So they do where
# the byte counter counts bytes; in 64 B rates rise so slowly that CNPs have breaks.
EACH_TO_EACH: dict[str, Any] = {
    "name": "each-to-each",
    "run": {"duration": "200ms"},
    "topology": {
        "kind": "leaf-spine",
        "leaves": 2,
        "spines": 2,
        "hosts_per_leaf": 8,
        "link": {"rate": "400Gbps"},
        "fabric": {"rate": "400Gbps"},
    },
    "host": {"mtu": "4096B"},
    "traffic": [{"kind": "all-to-all", "hosts": "all", "message": "2MiB"}],
}


def run(**dcqcn: Any) -> Result:
    dcqcn = {"byte_reset_unit_bytes": 1, **dcqcn}
    return tailback.run({**EACH_TO_EACH, "host": {**EACH_TO_EACH["host"], "dcqcn": dcqcn}})


def finding(result: Result) -> Any:
    return next((found for found in findings(result) if found.what == "At the lowest rate"), None)


@pytest.fixture(scope="module")
def stays() -> Result:
    return run(wait_follows_rate=False)


def test_a_wait_that_stays_is_told_with_what_it_cost(stays: Result) -> None:
    waits = at_min_rate(stays)
    assert waits is not None
    # A packet of 4178 B at 1 Mbit/s takes 33 ms, whatever the rate is by then.
    assert waits.longest_s >= 0.0334
    assert waits.longest_s <= waits.longest_ran_s
    assert waits.share > 0.9
    assert 0 < stays.summary["at_min_rate"]["lost_bytes"] < waits.delivered_bytes * 25
    told = finding(stays)
    assert told.tone == "warning"
    assert f"of {waits.of} queue pairs" in told.words
    assert "rpg_min_rate (1 Mbit/s)" in told.words
    assert stays.summary["at_min_rate"]["queue_pairs"] == waits.queue_pairs


def test_a_wait_that_follows_the_rate_ends_with_its_rise(stays: Result) -> None:
    follows = run()
    waits, before = at_min_rate(follows), at_min_rate(stays)
    assert before is not None
    # The timer raises the rate each 300 us.
    assert waits is None or waits.waited_s < before.waited_s / 10
    last = [max(result.flows.column("end_ps").to_pylist()) for result in (follows, stays)]
    assert last[0] < last[1] / 2
    assert METRICS["min_rate_share"](follows) < METRICS["min_rate_share"](stays)


def test_who_is_never_there_has_no_such_finding() -> None:
    quiet = tailback.run(
        {**EACH_TO_EACH, "traffic": [{"kind": "write", "from": "h0", "to": "h1", "messages": 1}]}
    )
    assert finding(quiet) is None
    assert quiet.summary["at_min_rate"] is None
    assert "min_rate_wait_ps" not in quiet.flows.column_names
    assert METRICS["min_rate_share"](quiet) == 0
