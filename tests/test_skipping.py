"""Runs that skip what is steady: what the front says of them."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import tailback
from tailback.capture_option import Capture
from tailback.errors import InputError
from tailback.explain import page_of
from tailback.metrics import findings, summarise
from tailback.recorded.run import Recorded
from tailback.report.plots import throughput
from tailback.run_folder import read_run

PACED: dict[str, Any] = {
    "name": "paced",
    "run": {"duration": "100ms", "skip": "steady"},
    "topology": {"kind": "star", "hosts": 4},
    "host": {"dcqcn": {"rpg_max_rate": 30000, "release_at_max_rate": False}},
    "traffic": [
        {"kind": "write", "from": "h0", "to": "h2", "message": "100KB", "depth": 4},
        {"kind": "write", "from": "h1", "to": "h3", "message": "100KB", "depth": 4},
    ],
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that skipped."""
    out = tmp_path_factory.mktemp("skipped") / "run"
    tailback.run(PACED, out=out)
    return out


@pytest.fixture(scope="module")
def skipped(folder: Path) -> Recorded:
    """The same, read again."""
    return read_run(folder)


def test_the_summary_says_where_and_how_sure_it_is(skipped: Recorded) -> None:
    found = summarise(skipped)["skipped"]
    assert found["share"] > 0.8
    assert found["contradicted"] == 0
    assert 0 <= found["goodput_error"] <= 0.01
    spans = found["spans"]
    assert found["time_s"] == pytest.approx(sum(span["to_s"] - span["from_s"] for span in spans))
    assert all(one["to_s"] < other["from_s"] for one, other in pairwise(spans))
    assert spans[0]["check"] == "confirmed"
    assert spans[0]["goodput_off"] < 0.01
    for span in spans:
        for of in ("goodput", "queue", "signal"):
            assert span[f"{of}_error"] >= max(span[f"{of}_off"] or 0, 0.001)


def test_what_it_measures_is_that_of_a_run_by_packets(skipped: Recorded) -> None:
    whole = tailback.run(PACED, sets=["run.skip=never"])
    assert "skipped" not in summarise(whole)
    assert "Skipped" not in [finding.what for finding in findings(whole)]
    ours, theirs = summarise(skipped)["goodput"], summarise(whole)["goodput"]
    assert ours["total_bps"] == pytest.approx(theirs["total_bps"], rel=1e-3)
    assert skipped.hops_per_cpu_s * skipped.cpu_s < 0.2 * skipped.meta["packet_hops"]


def test_findings_explain_and_report_say_so(skipped: Recorded, folder: Path) -> None:
    (finding,) = [finding for finding in findings(skipped) if finding.what == "Skipped"]
    assert finding.figure.endswith(" %")
    assert "went on as it was measured to" in finding.words
    assert "Marks and CNPs of what was seen differ by" in finding.words
    assert "of the run was skipped" in page_of(skipped).sure
    plot = throughput(skipped).figures[0]
    bands = [shape for shape in plot.layout["shapes"] if shape["type"] == "rect"]
    assert len(bands) == len(skipped.skipped)
    assert "was skipped" in (folder / "report.html").read_text()


def test_another_value_is_refused_in_a_line() -> None:
    with pytest.raises(InputError) as caught:
        tailback.run(PACED, sets=["run.skip=exact"])
    assert str(caught.value) == '--set run.skip: found "exact", expected one of never, steady'


@pytest.mark.parametrize(
    ("change", "what"),
    [
        ({"host": {"congestion": "hpcc"}}, "a controller that reads the counters of switches"),
        ({"host": {"transport": {"loss_recovery": "selective-repeat"}}}, "selective repeat"),
        ({"traffic": [{"kind": "tcp", "from": "h0", "to": "h1"}]}, "TCP connections"),
        ({"switch": {"load_balancing": "spray"}}, "switches that divide packets of a connection"),
    ],
)
def test_what_does_not_go_with_it_is_refused_in_a_line(change: dict[str, Any], what: str) -> None:
    with pytest.raises(InputError) as caught:
        tailback.run(PACED | change)
    assert str(caught.value).endswith(f"run.skip: found steady, expected never: it has {what}")


def test_several_cores_and_captures_are_not_for_it(tmp_path: Path) -> None:
    from tailback._engine import Simulation
    from tailback.plan import make_plan, packed_plan
    from tailback.scenario import load

    packed = packed_plan(make_plan(load(PACED)))
    simulation = Simulation(packed.plan, [], packed.messages)
    assert simulation.use_threads(2) == (1, "it has run.skip")
    with pytest.raises(InputError, match=r"run\.skip"):
        tailback.run(PACED, out=tmp_path / "out", capture=Capture(("h0",)))
