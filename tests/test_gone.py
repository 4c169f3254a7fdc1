"""A name of what is gone is one line: inputs, scenarios, controllers, and the working directory."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
import tailback
from tailback import cli

STAR = "name: t\nrun: {duration: 100us}\ntopology: {kind: star, hosts: 2}\n"
WRITE = f"{STAR}traffic: [{{kind: write, from: h0, to: h1}}]\n"
GRAPH = f"{STAR}traffic: [{{kind: job, ranks: 2, steps: [{{graph: g.csv}}]}}]\n"


@pytest.fixture
def nowhere(tmp_path: Path) -> Iterator[None]:
    """A working directory that is gone."""
    before = Path.cwd()
    (tmp_path / "gone").mkdir()
    os.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    yield
    os.chdir(before)


@pytest.mark.parametrize(
    "words",
    [
        ["run", "first-flow"],
        ["run", "s.yaml"],
        ["run", "first-flow", "--out", "x"],
        ["run", "first-flow", "--seeds", "1..2", "--out", "x"],
        ["sweep", "s.yaml"],
        ["sweep", "--scenario", "first-flow", "--vary", "host.mtu=1024B", "--out", "x"],
        ["sweep", "--resume", "x"],
        ["tune", "--resume", "x"],
        ["fit", "--resume", "x"],
        ["explain", "x"],
        ["report", "."],
        ["signals", "."],
        ["trace", "x"],
        ["compare", "a", "b"],
        ["hpcc", "config.txt"],
        ["reproduce", "all", "--out", "x"],
    ],
    ids=" ".join,
)
def test_a_working_directory_that_is_gone(
    words: list[str], nowhere: None, capfd: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(words) == 2
    out, err = capfd.readouterr()
    assert out == ""
    assert err.count("\n") == 1, err
    assert "Errno" not in err, err


def test_what_needs_no_place_runs_without_one(
    nowhere: None, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    words = ["run", "first-flow", "--set", "run.duration=100us", "-q", "--out", str(tmp_path / "x")]
    assert cli.main(words) == 0
    assert cli.main(["signals", str(tmp_path / "x")]) == 0
    assert capfd.readouterr().err == ""


def test_a_scenario_that_a_sweep_was_begun_with(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    scenario, out = tmp_path / "t.yaml", tmp_path / "x"
    scenario.write_text(WRITE)
    words = ["--scenario", str(scenario), "--vary", "host.mtu=1024B", "--seeds", "1..1", "-q", "-j", "1"]
    assert cli.main(["sweep", *words, "--out", str(out)]) == 0
    scenario.unlink()
    before = {file: file.read_bytes() for file in out.rglob("*") if file.is_file()}
    capsys.readouterr()
    assert cli.main(["sweep", "--resume", str(out), "-q"]) == 2
    assert capsys.readouterr().err == f"{scenario}: found no such file, expected a scenario file\n"
    assert before == {file: file.read_bytes() for file in out.rglob("*") if file.is_file()}


def test_a_controller(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # a long path would be cut in the message
    gone = "gone.py"
    for seeds in ([], ["--seeds", "1..2"]):
        words = ["run", "first-flow", "--controller", f"{gone}:X", *seeds, "--out", str(tmp_path / "x")]
        assert cli.main(words) == 2
        err = capsys.readouterr().err
        assert err.count("\n") == 1
        assert "no such file or directory" in err
    assert not (tmp_path / "x").exists()


def test_inputs_of_a_result(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What a run recorded is read without them; to run it again, they are needed."""
    (tmp_path / "g.csv").write_text("rank,what,time\n0,compute,1us\n1,compute,1us\n")
    (tmp_path / "s.yaml").write_text(GRAPH)
    run = tmp_path / "run"
    tailback.run(str(tmp_path / "s.yaml"), out=run, report=False)
    (run / "inputs" / "g.csv").unlink()
    (run / "inputs").rmdir()
    for words in (["report", str(run)], ["explain", str(run), "--no-try"], ["compare", str(run), str(run)]):
        assert cli.main(words) == 0, words
    capsys.readouterr()
    assert cli.main(["run", str(run / "scenario.yaml"), "--out", str(tmp_path / "x")]) == 2
    err = capsys.readouterr().err
    assert err.count("\n") == 1
    assert 'found "inputs/g.csv", no such file or directory' in err
    assert not (tmp_path / "x").exists()
