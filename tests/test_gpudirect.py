"""The published experiment on GPUDirect and PFC: what differs between its runs, and what that alone does."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import tailback
from tailback.metrics import METRICS
from tailback.plan import make_plan
from tailback.scenario import load
from tailback.study.claims import reproduce
from tailback.study.published import load_published

NAME = "gpudirect-pfc"
HOST_MEMORY = load_published(NAME).runs["memory"].set


def sets(**more: str) -> list[str]:
    """What the run with buffers in host memory sets."""
    return [f"{path}={value}" for path, value in {**HOST_MEMORY, **more}.items()]


def test_nothing_differs_but_where_the_buffers_are() -> None:
    plans = [make_plan(load(NAME)), make_plan(load(NAME, sets=sets()))]
    targets: list[list[dict[str, Any]]] = [
        [nic["host_path"].pop("target") for nic in plan["nics"]] for plan in plans
    ]
    assert plans[0] == plans[1]
    assert [[next(iter(target)) for target in of] for of in targets] == [["gpu"] * 2, ["memory"] * 2]


def test_gpu_memory_pauses_and_host_memory_does_not() -> None:
    gpu, memory = tailback.run(NAME), tailback.run(NAME, sets=sets())
    for result, pauses in ((gpu, True), (memory, False)):
        frames = METRICS["counter"](result, name="tx_prio0_pause")
        assert (frames > 0) is pauses
        assert METRICS["counter"](result, name="rx_prio0_pause") == frames
        for name in ("rx_discards_phy", "rx_out_of_buffer", "out_of_sequence", "packet_seq_err"):
            assert METRICS["counter"](result, name=name) == 0, name
        assert result.faults == []
    # 25 Gbit/s each way, less headers: 82 B for each packet and a RETH for each message.
    full = 2 * 25e9 * 65536 / (65536 + 16 * 82 + 16) / 8 / 2**20
    assert METRICS["perftest_bandwidth"](memory) == pytest.approx(full, rel=0.005)
    assert METRICS["perftest_bandwidth"](gpu) < 0.97 * full


def test_a_quick_look_holds(tmp_path: Path) -> None:
    done = reproduce(NAME, tmp_path / "r", quick=True, only=["B1", "B2", "B5", "B6", "B7"])
    verdicts = {row.claim.id: row.verdict for row in done.rows}
    assert verdicts == {"B1": "met", "B2": "met", "B5": "missed", "B6": "met", "B7": "met"}


def test_every_row_says_what_kind_it_is() -> None:
    claims = load_published(NAME).claims
    assert [claim.id for claim in claims] == [f"B{number}" for number in range(1, 8)]
    kinds = {claim.id: claim.kind for claim in claims}
    assert {name for name, kind in kinds.items() if kind == "calibrated"} == {"B3", "B4"}


def test_perftest_leaves_out_a_quarter_at_both_ends() -> None:
    """-D 30 reports 30 - 2 * 7 = 16 s; below four seconds there is no margin."""
    result = tailback.run(
        "first-flow",
        sets=[
            "run.duration=4s",
            "topology.link.rate=1Gbps",
            "traffic=[{kind: write, from: h0, to: h1, start: 1s}]",
        ],
    )
    # Nothing in the first of four seconds: the two between the margins are full.
    rate = result.flows.column("goodput_bps")[0].as_py()
    assert METRICS["perftest_bandwidth"](result) == pytest.approx(rate / 8 / 2**20, rel=0.01)


def test_a_count_is_scaled_only_where_it_says_something() -> None:
    result = tailback.run(NAME, sets=["run.duration=120ms"])
    frames = METRICS["counter"](result, name="rx_prio0_pause", host="h0")
    assert frames >= 20
    scaled = METRICS["counter"](result, name="rx_prio0_pause", host="h0", scaled_to_s=30)
    assert scaled == pytest.approx(frames * 250)
    few = METRICS["counter"](result, name="tx_prio0_pause", host="h0", scaled_to_s=30)
    assert few != few
    unknown = METRICS["counter"](result, name="rx_prio0_pauses")
    assert unknown != unknown, "a name that nobody counts is not 0"
    each = METRICS["frames_per_pause"](result, host="h0")
    assert 2 <= each < 3
