"""Packet trimming: what it takes, what is said of it, what captures show."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import tailback
from commands import start
from tailback.capture_option import Capture
from tailback.captured import analyze
from tailback.explain import page_of
from tailback.metrics import findings
from tailback.plan import make_plan
from tailback.recorded.setup import TRIMMED_REASON
from tailback.scenario import loads

BASE = """
name: trimming
run: {{duration: 1ms}}
topology: {{kind: leaf-spine, leaves: 2, spines: 2, hosts_per_leaf: 4}}
traffic: [{{kind: write, from: h0..h6, to: h7, message: 100KB, messages: 1}}]
switch: {{lossless: [], buffer: 100KB, load_balancing: spray, trimming: {trimming}}}
host: {{congestion: none, transport: {{loss_recovery: {recovery}, reordering: 64}}}}
"""


def scenario(trimming: str = "{}", recovery: str = "selective-repeat") -> Any:
    """Seven senders, one receiver, and switches that hold less than they send."""
    return loads(BASE.format(trimming=trimming, recovery=recovery))


def trimmed(result: Any) -> int:
    """Packets that were trimmed."""
    return sum(drop["packets"] for drop in result.meta["drops"] if drop["reason"] == TRIMMED_REASON)


def test_it_takes_selective_repeat() -> None:
    with pytest.raises(ValueError, match=r"switch\.trimming: found trimming.*go-back-n, expected"):
        scenario(recovery="go-back-n")
    with pytest.raises(ValueError, match=r"switch\.trimming\.size: found \"32B\", expected"):
        scenario("{size: 32B}")


def test_trimmed_packets_have_marks_of_their_own() -> None:
    plan = make_plan(scenario("{priority: 5, queue: 9KB}"))
    [model] = plan["switch_models"]
    assert model["trimming"] == {
        "size": 64,
        "queue": 9000,
        "code_point": plan["code_points"].index({"dscp": 40, "pcp": 5}),
    }
    assert make_plan(scenario("null"))["switch_models"][0]["trimming"] is None


def drops(result: Any) -> str:
    """What the answer says of drops."""
    [words] = [found.words for found in findings(result) if found.what == "Drops"]
    return words


def test_the_answer_says_it() -> None:
    result = tailback.run(scenario())
    assert trimmed(result) == result.meta["conservation"]["data_packets"]["dropped"] > 100
    assert {flow["state"] for flow in result.flows.to_pylist()} == {"done"}
    assert "All of them were trimmed: receivers ask for those at once." in drops(result)
    assert "trimmed" not in drops(tailback.run(scenario("null")))
    assert any(figure.name.endswith("of these trimmed") for figure in page_of(result).evidence)


def test_captures_show_what_is_left_of_them(tmp_path: Path) -> None:
    result = tailback.run(scenario(), out=tmp_path / "run", report=False, capture=Capture(("h7",)))
    found = analyze(tmp_path / "run" / "capture.pcapng")
    carried = [one for one in found.data["interfaces"] if not one["holds_drops"]]
    assert sum(one["trimmed"] for one in carried) == trimmed(result)
    assert sum(one["icrc_bad"] for one in carried) == 0


def test_several_cores_give_the_same_bytes(tmp_path: Path) -> None:
    path = tmp_path / "trimming.yaml"
    path.write_text(BASE.format(trimming="{queue: 9KB}", recovery="selective-repeat"))
    folders = []
    for threads in ("1", "2"):
        out = tmp_path / threads
        done = start("run", path, "--no-report", "--out", out, "--threads", threads)
        _, said = done.communicate(timeout=100)
        assert done.returncode == 0, said
        folders.append({file.name: file.read_bytes() for file in out.iterdir() if file.name != "timing.json"})
    assert folders[0] == folders[1]
    assert any(TRIMMED_REASON.encode() in content for content in folders[0].values())
