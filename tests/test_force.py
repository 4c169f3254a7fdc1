"""--force: a result is replaced, whatever else is there is not, and nothing is lost on the way."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import tailback.cli as cli

QUICK = ["--set", "run.duration=100us"]
COMMANDS = {
    "run": ["run", "first-flow", *QUICK],
    "capture": ["run", "first-flow", *QUICK, "--capture", "all"],
    "seeds": ["run", "first-flow", *QUICK, "--seeds", "1..2", "-j", "1"],
    "sweep": [
        "sweep",
        "--scenario",
        "first-flow",
        *QUICK,
        "--vary",
        "host.mtu=1024B,4096B",
        "--seeds",
        "1..2",
    ],
    "kept": [
        "sweep",
        "--scenario",
        "first-flow",
        *QUICK,
        "--vary",
        "host.mtu=1024B",
        "--seeds",
        "1",
        "--keep",
    ],
    "hpcc": [
        "hpcc",
        str(Path(__file__).parent.parent / "crates/compat/tests/data/hpcc/single_flow/config.txt"),
    ],
}


def text_of(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name not in ("timing.json", "report.html", "journal.jsonl")
    }


@pytest.mark.parametrize("name", COMMANDS)
def test_a_result_is_replaced_and_nothing_else_is(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = [*COMMANDS[name], "-q", "--out", str(tmp_path / "a")]
    assert cli.main(command) == 0
    first = text_of(tmp_path / "a")
    assert cli.main(command) == 2, "without --force it stays"
    assert cli.main([*command, "--force"]) == 0
    assert text_of(tmp_path / "a").keys() == first.keys()
    assert [path.name for path in tmp_path.iterdir()] == ["a"]
    note = tmp_path / "a" / "notes.md"
    note.write_text("mine")
    capsys.readouterr()
    assert cli.main([*command, "--force"]) == 2
    assert "notes.md" in capsys.readouterr().err
    assert note.read_text() == "mine"


@pytest.mark.parametrize("inside", ["a.txt", "summary", "sub/summary.json", ".hidden"])
def test_a_folder_of_others_is_refused(inside: str, tmp_path: Path) -> None:
    file = tmp_path / "a" / inside
    file.parent.mkdir(parents=True)
    file.write_text("{}")
    assert cli.main(["run", "first-flow", *QUICK, "-q", "--out", str(tmp_path / "a"), "--force"]) == 2
    assert file.read_text() == "{}"
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


def test_a_run_that_fails_leaves_the_older_result(tmp_path: Path) -> None:
    command = ["run", "first-flow", *QUICK, "-q", "--out", str(tmp_path / "a")]
    assert cli.main(command) == 0
    before = text_of(tmp_path / "a")
    assert cli.main([*command, "--force", "--capture", "h0:nowhere"]) == 2
    assert text_of(tmp_path / "a") == before
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


def test_a_killed_run_loses_nothing(tmp_path: Path) -> None:
    command = ["run", "first-flow", "-q", "--no-report", "--out", str(tmp_path / "a")]
    assert cli.main([*command, *QUICK]) == 0
    before = text_of(tmp_path / "a")
    line = [sys.executable, "-m", "tailback.cli", *command, "--set", "run.duration=50s", "--force"]
    killed = subprocess.Popen(line, stdout=subprocess.DEVNULL)
    while not list(tmp_path.glob(".a.*.replaced")):
        assert killed.poll() is None
        time.sleep(0.01)
    killed.send_signal(signal.SIGKILL)
    killed.wait()
    # The folder that the killed run had claimed is empty; --force puts the older result back before all else.
    assert cli.main([*command, "--force", "--capture", "h0:nowhere"]) == 2
    assert text_of(tmp_path / "a") == before
    summary = json.loads((tmp_path / "a" / "summary.json").read_text())
    assert summary["meta"]["name"] == "first-flow"
