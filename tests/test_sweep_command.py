"""`tailback sweep` as a person has it: options, status, lines, and what is left of it when it is killed."""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import signal
import time
from pathlib import Path
from typing import Any

import pytest
from commands import start
from tailback import cli
from tailback.executors import Threads
from tailback.study.points import vary_of
from test_sweep import files

FILE = """\
scenario: tiny.yaml
vary:
  traffic.0.load: [0.3, 0.6]
  host.mtu: [1024B, 4096B]
seeds: 1..3
metrics: [goodput.whole_run_bps, dropped_packets]
"""
SCENARIO = """\
name: tiny
run: {duration: 200us}
topology: {kind: star, hosts: 3}
traffic: [{kind: poisson, load: 0.5, sizes: fb_hadoop}]
"""


@pytest.fixture
def asked(tmp_path: Path) -> Path:
    (tmp_path / "tiny.yaml").write_text(SCENARIO)
    (tmp_path / "s.yaml").write_text(FILE)
    return tmp_path / "s.yaml"


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs in this process, which saves the start of others."""
    monkeypatch.setattr("tailback.executors.calls.Processes", Threads)


@pytest.mark.parametrize(
    ("given", "values"),
    [
        ("100KB,200KB", ["100KB", "200KB"]),
        ("[3],[3, 4], null", ["[3]", "[3, 4]", "null"]),
        ("{profile: alibaba, rpg_gd: 10},null", ["{profile: alibaba, rpg_gd: 10}", "null"]),
        ("100KB..1.6MB", {"low": "100KB", "high": "1.6MB", "scale": "linear", "steps": None}),
        ("1..9:3", {"low": 1, "high": 9, "scale": "linear", "steps": 3}),
        ("0.1..0.9:5:log", {"low": 0.1, "high": 0.9, "scale": "log", "steps": 5}),
        ("h0..h3,h1", ["h0..h3", "h1"]),
        ("", []),
    ],
)
def test_values_after_vary(given: str, values: Any) -> None:
    assert vary_of(given) == values


def test_a_file_and_options_give_the_same(
    asked: Path, tmp_path: Path, here: None, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["sweep", str(asked), "--out", str(tmp_path / "a")]) == 0
    told = capsys.readouterr()
    assert told.err == ""
    assert "95 % interval" in " ".join(told.out.split())
    assert told.out.endswith(f"\n{tmp_path / 'a' / 'sweep.html'}\n")
    words = ["--scenario", str(tmp_path / "tiny.yaml"), "--vary", "traffic.0.load=0.3,0.6"]
    words += ["--vary", "host.mtu=1024B,4096B", "--seeds", "1-3"]
    words += ["--metric", "goodput.whole_run_bps", "--metric", "dropped_packets"]
    assert cli.main(["sweep", *words, "--out", str(tmp_path / "b"), "-q"]) == 0
    assert capsys.readouterr().out == f"{tmp_path / 'b'}\n"
    assert files(tmp_path / "a") == files(tmp_path / "b")


def test_a_failure_is_a_line_and_status_1(
    asked: Path, tmp_path: Path, here: None, capsys: pytest.CaptureFixture[str]
) -> None:
    more = ["--vary", "host.mtu=1024B,7B", "--seeds", "1..2"]
    assert cli.main(["sweep", str(asked), *more, "--out", str(tmp_path / "x"), "-q"]) == 1
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 2
    assert lines[0].startswith("impossible: traffic.0.load=0.3, host.mtu=7B: --set host.mtu: found")


@pytest.mark.parametrize(
    ("words", "line"),
    [
        ([], "tailback: "),
        (["nothing.yaml"], "nothing.yaml: found no such file, expected a sweep"),
        (
            ["--scenario", "first-flow", "--vary", "host.mtu"],
            '--vary: found "host.mtu", expected PATH=VALUES',
        ),
        (["--scenario", "first-flow", "--vary", "host.mtu="], "vary.host.mtu: found an empty list"),
        (["--scenario", "first-flow", "--vary", "host.mtuu=1,2"], "--set host.mtuu: found an unknown field"),
        (["--scenario", "first-flow", "--seeds", "x"], '--seeds: found "x", expected seeds'),
        (["--resume", "/nothing"], "/nothing: found no sweep.json, expected the folder of a sweep"),
        (["--scenario", "first-flow", "--out", "/proc/x"], "--out /proc/x: found no such file"),
    ],
)
def test_bad_input_is_a_line(words: list[str], line: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["sweep", *words]) == 2
    err = capsys.readouterr().err
    assert err.startswith(line)
    assert err.count("\n") == 1


def children(parent: int) -> list[int]:
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue  # it has just ended
        if int(fields[1]) == parent:
            found.append(int(stat.parent.name))
    return found


def kill_at_random(out: Path, draw: random.Random, resume: bool, asked: Path) -> bool:
    """Kills the sweep or one of its workers once, at some moment. Whether it has ended by itself."""
    words = ["--resume", out] if resume else [asked, "--out", out]
    with start("sweep", *words, "--jobs", "2", "-q") as process:
        time.sleep(draw.uniform(0.2, 3.0))
        workers = children(process.pid)
        victim = draw.choice([process.pid, *workers])
        if process.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(victim, signal.SIGKILL)
        process.communicate(timeout=120)
    return process.returncode == 0


def kill_and_resume(asked: Path, folder: Path, times: int, seed: int) -> int:
    """Kills and resumes until it was killed so often, or is done; then to the end: the tables are those of a
    sweep that nobody has disturbed. How often it was killed.
    """
    with start("sweep", asked, "--out", folder / "undisturbed", "-q") as process:
        assert process.wait(120) == 0
    draw = random.Random(seed)
    out = folder / "killed"
    kills = 0
    for _ in range(times):
        begun = (out / "sweep.json").is_file()
        if not begun and out.exists():
            shutil.rmtree(out)
        if kill_at_random(out, draw, begun, asked):
            break
        kills += 1
    words = ["--resume", out] if (out / "sweep.json").is_file() else [asked, "--out", out]
    with start("sweep", *words, "-q") as process:
        assert process.wait(120) == 0
    assert files(out) == files(folder / "undisturbed")
    assert not [path for path in out.rglob("*") if path.name.endswith(".writing")]
    return kills


def test_killed_at_random_moments_and_resumed(asked: Path, tmp_path: Path) -> None:
    """By hand with more: `python tests/test_sweep_command.py 50`."""
    asked.write_text(FILE.replace("1..3", "1..12"))
    kill_and_resume(asked, tmp_path, 3, seed=1)


def test_ctrl_c_says_how_to_go_on(asked: Path, tmp_path: Path) -> None:
    (tmp_path / "tiny.yaml").write_text(SCENARIO.replace("200us", "10ms"))
    out = tmp_path / "x"
    with start("sweep", asked, "--seeds", "1..40", "--jobs", "2", "--out", out, "-q") as process:
        deadline = time.monotonic() + 90
        journal = out / "journal.jsonl"
        while not (journal.is_file() and journal.stat().st_size) and time.monotonic() < deadline:
            time.sleep(0.01)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert err.startswith("tailback: interrupted; ")
    assert err.endswith(f" ended; tailback sweep --resume {out} continues it\n")
    assert " of 160 runs ha" in err
    assert (out / "summary.parquet").is_file()


if __name__ == "__main__":
    import sys
    import tempfile

    kills = number = 0
    while kills < int(sys.argv[1]):
        number += 1
        with tempfile.TemporaryDirectory() as name:
            place = Path(name)
            (place / "tiny.yaml").write_text(SCENARIO)
            (place / "s.yaml").write_text(FILE.replace("1..3", "1..12"))
            kills += kill_and_resume(place / "s.yaml", place, 4, seed=number)
        print(f"{number}: identical; {kills} kills", flush=True)


def test_a_figure_that_there_is_not_is_told_of_early(
    asked: Path, tmp_path: Path, here: None, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of a section that no summary has before the first run, of another figure after it, and once."""
    metrics = "goodput.whole_run_bps, dropped_packets"
    asked.write_text(FILE.replace(metrics, "goodputs.whole_run_bps"))
    assert cli.main(["sweep", str(asked), "--out", str(tmp_path / "a")]) == 2
    told = capsys.readouterr().err
    assert (
        "found goodputs.whole_run_bps, expected a figure of summary.json, which begins with goodput" in told
    )
    assert told.startswith(f"{asked}:")
    assert len(told.splitlines()) == 1
    assert not (tmp_path / "a").exists()
    asked.write_text(FILE.replace(metrics, "goodput.hole_run_bps, jain_index"))
    assert cli.main(["sweep", str(asked), "--out", str(tmp_path / "b")]) == 2
    told = capsys.readouterr().err
    assert "found goodput.hole_run_bps, which no run has: goodput has no hole_run_bps" in told
    assert len(told.splitlines()) == 1
    asked.write_text(FILE.replace(metrics, "latency.p99, jain_index"))
    assert cli.main(["sweep", str(asked), "--out", str(tmp_path / "b")]) == 2
    told = capsys.readouterr().err
    assert "found latency.p99, which the first run has not; no other was run" in told
    assert not (tmp_path / "b").exists()


@pytest.mark.parametrize(
    ("metric", "said"),
    [
        ("jain_index:since=banana", 'found "banana" for since of jain_index'),
        ("lowest_goodput:window_s=0", 'found "0" for window_s of lowest_goodput'),
        ("goodput_share:item=tcp9", 'found "tcp9" for item of goodput_share'),
        ("counter:name=np_cnp_sent:host=h99", 'found "h99" for host of counter'),
    ],
)
def test_an_option_of_a_metric_is_refused_once_before_the_first_run(
    metric: str, said: str, asked: Path, tmp_path: Path, here: None, capsys: pytest.CaptureFixture[str]
) -> None:
    asked.write_text(FILE.replace("goodput.whole_run_bps, dropped_packets", f"'{metric}'"))
    assert cli.main(["sweep", str(asked), "--out", str(tmp_path / "a")]) == 2
    (told,) = capsys.readouterr().err.splitlines()
    assert "metrics.0: " in told
    assert said in told
    assert not (tmp_path / "a").exists()
