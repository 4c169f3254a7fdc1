"""Fits with real runs: hidden settings are found again, and a fit goes on where it was interrupted."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
import tailback
from fit_lab import DELAY, LAB, LOSS
from tailback.errors import InputError
from tailback.executors import Threads
from tailback.study.driver import carry_out
from tailback.study.fit_design import Output, read_fit
from tailback.study.fit_result import FitResult
from tailback.study.grid import SweepProgress
from tailback.study.posterior_rounds import FitInterrupted, fit


@pytest.fixture(autouse=True)
def here(monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs in this process, which saves the start of others."""
    monkeypatch.setattr("tailback.executors.calls.Processes", Threads)


def seen(path: str, sets: list[str], seeds: range) -> float:
    """A figure as a lab would see it: the mean over runs that the fit does not make."""
    runs = [tailback.run(LAB, sets=sets, seed=seed).summary for seed in seeds]
    values = []
    for value in runs:
        for part in path.split("."):
            value = value[part]
        values.append(value)
    return sum(values) / len(values)


@pytest.fixture(scope="module")
def truth() -> list[str]:
    return [f"{DELAY}=2us", f"{LOSS}=0.01"]


@pytest.fixture(scope="module")
def lab(truth: list[str]) -> dict[str, Any]:
    seeds = range(100, 112)
    fast = seen("fct.all.fct_s.p50", truth, seeds)
    lost = seen("losses.retransmitted_share", truth, seeds)
    busy = seen("fct.all.fct_s.p50", [*truth, "traffic.0.load=0.8"], seeds)
    return {
        "scenario": LAB,
        "free": {
            DELAY: {"low": "200ns", "high": "20us", "scale": "log", "means": "the cable"},
            LOSS: "0.001..0.05:log",
        },
        "observations": [
            {
                "metric": "fct.all.fct_s.p50",
                "value": fast * 1e6,
                "unit": "us",
                "tolerance": 0.1,
                "runs": 12,
            },
            {"metric": "retransmitted_share", "value": lost * 100, "unit": "%", "tolerance": 5, "runs": 12},
            {
                "metric": "fct.all.fct_s.p50",
                "value": busy * 1e6,
                "unit": "us",
                "tolerance": 0.1,
                "runs": 12,
                "set": {"traffic.0.load": 0.8},
                "held_out": True,
            },
        ],
        "seeds": "1..4",
        "points": 12,
        "refine": 4,
    }


@pytest.fixture(scope="module")
def done(lab: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> tuple[FitResult, Path]:
    out = tmp_path_factory.mktemp("fit") / "x"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tailback.executors.calls.Processes", Threads)
        return fit(lab, out=out), out


def test_hidden_settings_are_found_again(done: tuple[FitResult, Path]) -> None:
    result, _ = done
    delay, loss = result.found.unknowns
    free = result.asked.free
    assert free[DELAY].value(delay.low) < 2e-6 < free[DELAY].value(delay.high)
    assert free[LOSS].value(loss.low) < 0.01 < free[LOSS].value(loss.high)
    assert delay.verdict == "identified"
    assert delay.high - delay.low < 0.3
    roles = [(one.role, one.missed) for one in result.found.answers]
    assert roles == [("calibrated", False), ("calibrated", False), ("predicted", False)]


def test_the_folder_says_it_in_words_tables_and_a_page(done: tuple[FitResult, Path]) -> None:
    result, out = done
    data = json.loads((out / "fit.json").read_text())
    assert data["unknowns"][0]["setting"] == DELAY
    assert data["unknowns"][0]["means"] == "the cable"
    assert {one["role"] for one in data["unknowns"]} == {"calibrated"}
    assert [one["role"] for one in data["observations"]] == ["calibrated", "calibrated", "predicted"]
    assert data["lines"] == result.lines()
    assert data["runs"] == 2 * 4 * (12 + 4 + 1)
    draws = pq.read_table(out / "posterior.parquet")
    assert np.median(draws.column(DELAY).to_numpy()) == pytest.approx(2e-6, rel=0.4)
    rows = pq.read_table(out / "observations.parquet").to_pylist()
    assert rows[2]["low"] < rows[2]["mean"] < rows[2]["high"]
    assert max(pq.read_table(out / "profiles.parquet").column("log_likelihood").to_pylist()) == 0
    page = (out / "fit.html").read_text()
    assert "the cable" in page.lower()
    assert "predicted" in page
    words = " ".join(result.lines())
    assert "(calibrated)" in words
    assert "Predicted: fct.all.fct_s.p50, with traffic.0.load=0.8" in words
    assert f"--set {DELAY}=" in result.set_lines()[0]
    assert "2 unknowns identified" in repr(result)
    assert "<table>" in result._repr_html_()


def test_it_goes_on_where_it_was_interrupted(
    done: tuple[FitResult, Path], lab: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out, real, count = tmp_path / "x", carry_out, 0

    def counting(task: Any) -> Any:
        nonlocal count
        count += 1
        return real(task)

    class Interrupted(SweepProgress):
        def ended(self, row: Any) -> None:
            if count > 100:
                raise KeyboardInterrupt

    monkeypatch.setattr("tailback.study.driver.carry_out", counting)
    with pytest.raises(FitInterrupted):
        fit(lab, out=out, jobs=1, progress=Interrupted())
    before, count = count, 0
    assert before > 100
    fit(out=out, resume=True, jobs=1)
    assert before + count <= 136 + 4  # those that were handed over
    for name in ("fit.json", "fit.html", "posterior.parquet", "profiles.parquet", "observations.parquet"):
        assert (out / name).read_bytes() == (done[1] / name).read_bytes()


def test_too_few_runs_with_a_value_are_said() -> None:
    seen = [{"metric": "ping_rtt", "value": 3, "unit": "us", "tolerance": 1}]
    with pytest.raises(InputError, match="Ping rtt: found 0 points of 4 with a value, expected at least 3"):
        fit(seen, LAB, free={DELAY: "1us..2us"}, seeds="1..2", points=4, refine=0)


def test_labels_tell_conditions_apart() -> None:
    observed = [
        {"metric": "jain_index", "value": 1, "tolerance": 0.1},
        {"metric": "jain_index", "value": 1, "tolerance": 0.1, "set": {"traffic.0.load": 0.2}},
    ]
    asked = read_fit({"scenario": LAB, "free": {DELAY: "1us..2us"}, "observations": observed}, {})
    outputs: list[Output] = [one.output for one in asked.observed]
    assert [asked.labelled(one) for one in outputs] == ["Jain index", "Jain index, with traffic.0.load=0.2"]


def test_where_no_value_of_a_list_fits_it_is_said() -> None:
    incast = {
        "name": "incast",
        "run": {"duration": "1ms"},
        "topology": {"kind": "star", "hosts": 3},
        "traffic": [{"kind": "write", "from": "h0..h1", "to": "h2", "qps": 2}],
    }
    told = {}
    for value, tolerance in ((20, 0.2), (50, 50)):
        asked = {
            "scenario": incast,
            "free": {"host.mtu": ["1KiB", "4KiB"]},
            "observations": [
                {
                    "metric": "goodput.whole_run_bps",
                    "value": value,
                    "unit": "Gbit/s",
                    "tolerance": tolerance,
                },
                {"metric": "jain_index:since=start", "at_least": 0.5, "tolerance": 0.05, "held_out": True},
            ],
            "seeds": "1..2",
        }
        done = fit(asked, executor=Threads(1))
        told[done.fits] = " ".join(done.lines())
    assert (
        "Nothing fits: of the values that the unknowns may have none gives what was observed." in told[False]
    )
    assert "observed is at least 0.5: met, where nothing fits." in told[False]
    assert "observed is at least 0.5: met." in told[True]
    assert "Nothing fits" not in told[True]


def test_a_hidden_switch_is_found_by_runs(tmp_path: Path) -> None:
    """And a list alone takes no other runs than its values."""
    incast = {
        "name": "incast",
        "run": {"duration": "3ms"},
        "topology": {"kind": "star", "hosts": 3},
        "traffic": [{"kind": "write", "from": "h0..h1", "to": "h2", "qps": 2}],
    }
    path = "host.dcqcn.clamp_tgt_rate"
    runs = [tailback.run(incast, sets=[f"{path}=true"], seed=seed).summary for seed in range(50, 53)]
    value = sum(run["goodput"]["whole_run_bps"] for run in runs) / len(runs)
    asked = {
        "scenario": incast,
        "free": {path: {"values": [True, False], "means": "the law of the cut"}},
        "observations": [
            {
                "name": "figure 1",
                "metric": "goodput.whole_run_bps",
                "value": value / 1e9,
                "unit": "Gbit/s",
                "tolerance": 0.2,
                "runs": 3,
            },
            {"metric": "jain_index:since=start", "at_least": 0.5, "tolerance": 0.05, "held_out": True},
        ],
        "seeds": "1..3",
    }
    done = fit(asked, out=tmp_path / "x")
    assert list(done.rounds) == ["round-1"]
    assert len(done.rounds["round-1"].rows) == 2 * 3
    (unknown,) = done.found.unknowns
    assert unknown.verdict == "identified"
    assert done.set_lines() == [f"--set {path}=true"]
    lines = done.lines()
    assert lines[1].startswith(f"{path} (the law of the cut): true. Probability: true ")
    assert "; observed is at least 0.5: met." in " ".join(lines)
    data = json.loads((tmp_path / "x" / "fit.json").read_text())
    assert data["unknowns"][0]["probabilities"]["true"] > 0.9
    assert data["observations"][1]["bound"] == "at_least"
    assert set(done.draws.column(path).to_pylist()) <= {"true", "false"}
    assert done.profiles.column("set").to_pylist() == ["true", "false"]
    page = done.page()
    assert "figure 1, goodput" in page
    assert "The best fit with each" in page
