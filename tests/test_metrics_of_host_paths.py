"""Metrics of the host path, and what RHCC's ablations rest on, in short runs."""

from __future__ import annotations

import math
from typing import Any

import pytest
import tailback
from tailback.metrics import METRICS

MESSAGE_BYTES = 65_536
LOAD = "memory_load=[{host: h1, cores: 8}]"


def run(*sets: str) -> tailback.Result:
    """5 ms of a flow at 100 Gbit/s to a host whose cores are idle unless `sets` says otherwise."""
    return tailback.run("memory-contention", sets=["run.duration=5ms", "memory_load=[]", *sets])


def measured(result: tailback.Result, name: str, **params: Any) -> float:
    """A metric of the second half of the run and more."""
    return METRICS[name](result, since=0.002, **params)


@pytest.fixture(scope="module")
def idle() -> tailback.Result:
    return run("traffic.0.depth=1", "host.rhcc={sender: true, alpha: 0, beta: 0}")


@pytest.fixture(scope="module")
def loaded() -> tailback.Result:
    return run(LOAD)


def test_the_latency_of_a_message_is_what_one_at_a_time_takes(idle: tailback.Result) -> None:
    [flow] = idle.flows.to_pylist()
    each = idle.bins.end_s / flow["messages_completed"]
    assert measured(idle, "message_latency") == pytest.approx(each, rel=0.01)


def test_depth_is_in_the_latency() -> None:
    # 128 messages of 64 KiB at 98 % of 100 Gbit/s: 685 us.
    rate = 0.98e11 / 8 / MESSAGE_BYTES
    assert measured(run(), "message_latency") == pytest.approx(128 / rate, rel=0.01)


def test_a_probe_of_an_idle_host_takes_what_was_published(idle: tailback.Result) -> None:
    assert measured(idle, "probe_delay") == pytest.approx(120e-9, rel=0.05)
    assert measured(idle, "stalled_writes") == 0
    assert measured(idle, "cores_memory_traffic") == 0


def test_without_probes_there_is_no_delay_of_probes(loaded: tailback.Result) -> None:
    assert math.isnan(measured(loaded, "probe_delay"))


def test_the_load_is_seen_from_every_side(loaded: tailback.Result) -> None:
    assert measured(loaded, "memory_traffic") == pytest.approx(30.3e9, rel=0.05)
    assert measured(loaded, "memory_traffic") > measured(loaded, "cores_memory_traffic") > 20e9
    assert measured(loaded, "stalled_writes") == pytest.approx(0.67, abs=0.05)
    assert measured(loaded, "pausing") == pytest.approx(0.62, abs=0.05)
    assert measured(loaded, "ddio_misses") > 0.95


def test_each_half_of_rhcc_does_its_part(loaded: tailback.Result) -> None:
    without = measured(loaded, "total_goodput")
    sender, receiver = (run(LOAD, f"host.rhcc={{{half}: true}}") for half in ("sender", "receiver"))
    # The sender leaves no queue and takes nothing from the cores; the receiver takes it from them.
    assert measured(sender, "total_goodput") > 0.7 * without  # the first ms are in it
    assert measured(sender, "stalled_writes") < 0.01
    assert measured(sender, "cores_memory_traffic") >= measured(loaded, "cores_memory_traffic")
    assert measured(receiver, "total_goodput") > 2 * without
    assert measured(receiver, "cores_memory_traffic") < 0.7 * measured(loaded, "cores_memory_traffic")
