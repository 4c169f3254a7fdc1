"""Several seeds at once: as single runs, one table, and an end by Ctrl-C."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tailback import cli
from tailback.errors import InputError
from tailback.study.points import parse_seeds
from tailback.study.seeds import run_seeds

TEXT = """\
name: small
run: {duration: 200us}
topology: {kind: leaf-spine, leaves: 2, spines: 2, hosts_per_leaf: 2}
traffic:
  - {kind: poisson, load: 0.5, sizes: fb_hadoop}
"""
SAME = (
    "summary.json",
    "flows.parquet",
    "series.parquet",
    "entities.parquet",
    "signals.parquet",
    "counters.json",
    "plan.json",
    "scenario.yaml",
)


@pytest.mark.parametrize(
    ("given", "seeds"),
    [("1..4", [1, 2, 3, 4]), ("1-3", [1, 2, 3]), ("1,5,9", [1, 5, 9]), ("7", [7]), ("2..3, 9", [2, 3, 9])],
)
def test_lists_of_seeds(given: str, seeds: list[int]) -> None:
    assert parse_seeds(given) == seeds


@pytest.mark.parametrize("given", ["", "4..1", "1..x", "-1", "1,1", "1..3,2", "1..5000", "1.5"])
def test_what_is_no_list_of_seeds(given: str) -> None:
    with pytest.raises(InputError, match=r"^--seeds: found .*, expected (seeds|every seed|at most)"):
        parse_seeds(given)


def test_each_run_is_that_of_its_seed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "small.yaml"
    file.write_text(TEXT)
    shares: list[tuple[int, float]] = []
    done = run_seeds(str(file), [3, 4, 8], tmp_path / "all", jobs=2, progress=lambda *one: shares.append(one))
    assert sorted(done.summaries) == [3, 4, 8]
    assert {seed for seed, share in shares if share == 1.0} == {3, 4, 8}
    assert cli.main(["run", str(file), "--seed", "4", "--out", str(tmp_path / "one"), "-q"]) == 0
    for name in (*SAME, "report.html"):
        assert (tmp_path / "all/seed-4" / name).read_bytes() == (tmp_path / "one" / name).read_bytes(), name
    table = json.loads((tmp_path / "all" / "seeds.json").read_text())
    assert table["seeds"] == [3, 4, 8]
    marks = [done.summaries[seed]["goodput"]["total_bps"] for seed in (3, 4, 8)]
    (row,) = [row for row in table["figures"] if row["figure"] == "Throughput"]
    assert (row["min"], row["max"]) == (min(marks), max(marks))
    assert row["mean"] == pytest.approx(sum(marks) / 3)
    capsys.readouterr()


def test_command(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file = tmp_path / "small.yaml"
    file.write_text(TEXT)
    assert cli.main(["run", str(file), "--seeds", "1..2", "--jobs", "1", "--out", str(tmp_path / "x")]) == 0
    out = capsys.readouterr().out
    assert "Over 2 seeds" in out
    assert "Median slowdown" in out
    assert cli.main(["run", str(file), "--seeds", "1..2", "--seed", "1"]) == 2
    assert cli.main(["run", str(file), "--jobs", "2"]) == 2
    assert cli.main(["run", str(file), "--seeds", "1..2", "--set", "run.duration=1"]) == 2
    assert cli.main(["run", str(file), "--seeds", "1..2", "--out", str(tmp_path / "x")]) == 2
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 4
    assert lines[2].startswith("--set run.duration: found 1, expected a duration")


def test_ctrl_c_keeps_what_is_complete(tmp_path: Path) -> None:
    file = tmp_path / "small.yaml"
    file.write_text(TEXT.replace("duration: 200us", "duration: 10ms"))
    command = [
        sys.executable,
        "-m",
        "tailback.cli",
        "run",
        str(file),
        "--seeds",
        "1..40",
        "--jobs",
        "2",
        "-q",
    ]
    out = tmp_path / "x"
    with subprocess.Popen(
        [*command, "--out", str(out)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=os.environ,
        start_new_session=True,
    ) as process:
        deadline = time.monotonic() + 90
        while not list(out.glob("seed-*/summary.json")) and time.monotonic() < deadline:
            time.sleep(0.02)
        time.sleep(2)
        os.killpg(process.pid, signal.SIGINT)  # as a terminal does
        _, stderr = process.communicate(timeout=60)
    assert process.returncode == 130
    assert stderr.startswith(b"tailback: interrupted; ")
    assert stderr.endswith(b" of 40 runs are complete\n")
    table = json.loads((out / "seeds.json").read_text())
    kept = {path.name for path in out.iterdir()} - {"seeds.json"}
    assert kept == {f"seed-{seed}" for seed in table["seeds"]}
    assert 1 <= len(kept) < 40
    for name in kept:
        assert json.loads((out / name / "summary.json").read_text())["complete"] is True


def test_the_work_is_done_by_the_children(tmp_path: Path) -> None:
    """So that two jobs take half the time of one: what the parent does, it does alone."""
    file = tmp_path / "small.yaml"
    file.write_text(TEXT)
    before = os.times()
    run_seeds(str(file), [1, 2, 3, 4], tmp_path / "all", jobs=2)
    after = os.times()
    own = after.user + after.system - before.user - before.system
    children = after.children_user + after.children_system - before.children_user - before.children_system
    print(f"parent {own:.2f} s, children {children:.2f} s")
    assert own < 0.1 * children


def test_too_many_seeds_are_called_too_many() -> None:
    with pytest.raises(InputError, match=r"expected at most \d+ seeds$"):
        parse_seeds("1..1000000")
