"""The command line: what goes where, and with which status. Nothing here runs the engine."""

from __future__ import annotations

import io
import json
import os
import re
import subprocess
import sys
import time
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
import tailback
import yaml
from jsonschema import Draft202012Validator
from tailback import cli, library
from tailback.cli import common, main, progress
from tailback.errors import InputError
from tailback.scenario import builtin_names, load, loads
from tailback.scenario.controllers import BUILT_IN_CONTROLLERS
from typer.testing import CliRunner


def lines(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> tuple[int, list[str], list[str]]:
    """Status, and the lines of stdout and stderr."""
    status = cli.main(arguments)
    out, err = capsys.readouterr()
    return status, out.splitlines(), err.splitlines()


@pytest.fixture
def nothing_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    class Simulation:
        def advance(self, _: int) -> None:
            raise AssertionError("the engine was started")

    monkeypatch.setattr(import_module("tailback.running"), "begin", lambda _: Simulation())


def test_a_scenario_comes_from_standard_input(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    text = "name: piped\nrun: {duration: 50us}\ntopology: {kind: star, hosts: 2}\n"
    text += "traffic: [{kind: write, from: h0, to: h1}]\n"
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
    assert main(["run", "-", "--out", str(tmp_path / "piped")]) == 0
    assert (tmp_path / "piped" / "scenario.yaml").read_text().count("piped")
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"name: [")))
    assert main(["run", "-", "--out", str(tmp_path / "bad")]) == 2
    assert "<stdin>" in capsys.readouterr().err


def test_no_pfc_is_said_to_be_no_lossless_priority(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["show", "first-flow", "--set", "switch.pfc=null"]) == 2
    assert "without PFC: switch.lossless=[]" in capsys.readouterr().err


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert lines(["--version"], capsys) == (0, [f"tailback {tailback.__version__}"], [])


def test_help_names_all_commands() -> None:
    result = CliRunner().invoke(cli.app, ["--help"])
    assert result.exit_code == 0
    for command in ("run", "show", "list", "schema", "reproduce"):
        assert f"  {command} " in result.stdout


def test_list(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, err = lines(["list"], capsys)
    assert (status, err) == (0, [])
    names = [line.split()[0] for line in out if line.startswith("  ")]
    assert names[: len(builtin_names())] == builtin_names()
    assert "roce-rocks" in names


def test_schema_is_a_schema(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, err = lines(["schema"], capsys)
    schema = json.loads("\n".join(out))
    assert (status, err) == (0, [])
    assert schema["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    Draft202012Validator.check_schema(schema)


@pytest.mark.parametrize("name", builtin_names())
def test_show_is_a_scenario_that_the_schema_accepts(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    cli.main(["schema"])
    schema = json.loads(capsys.readouterr().out)
    # Traffic between namespaces has no priority.
    setting = "traffic.0.priority=4" if load(name).network.hosts else "traffic.0.start=4us"
    status, out, err = lines(["show", name, "--set", setting, "--seed", "5"], capsys)
    assert (status, err) == (0, [])
    text = "\n".join(out)
    assert loads(text).traffic[0] == load(name, sets=[setting]).traffic[0]
    assert loads(text).run.seed == 5
    # A schema sees keys as texts, as JSON and editors have them.
    Draft202012Validator(schema).validate(json.loads(json.dumps(yaml.safe_load(text))))
    assert any(line.endswith("# --set") for line in out)
    assert any(line.endswith("# --seed") for line in out)


def test_show_without_comments(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, _ = lines(["show", "first-flow", "--no-comments"], capsys)
    assert status == 0
    assert not any("#" in line for line in out)


@pytest.mark.usefixtures("nothing_runs")
@pytest.mark.parametrize(
    ("arguments", "problems"),
    [
        (["run", "x.yaml"], ["x.yaml: found no such file, expected a scenario file"]),
        (
            ["show", "first-flo"],
            ["first-flo: found no such file, expected a file or a built-in scenario; perhaps first-flow"],
        ),
        (
            ["run", "first-flow", "--set", "traffic.0.qps=0", "--set", "host.mtu=[b]9KB[/b]", "--seed", "-1"],
            [
                "--seed run.seed: found -1, expected at least 0",
                "--set host.mtu: not readable as YAML: expected '<document start>', but found '<scalar>'",
                "--set traffic.0.qps: found 0, expected at least 1",
            ],
        ),
        (
            ["run", "first-flow", "--set", "host.congestion='[red]x[/red]'"],
            [f'--set host.congestion: found "[red]x[/red]", expected one of {", ".join(BUILT_IN_CONTROLLERS)}'],
        ),
        (["run"], ["tailback: Missing argument 'NAME|FILE'."]),
        (["run", "first-flow", "--seed", "x"], ["tailback: Invalid value for '--seed'"]),
        (["run", "first-flow", "--sed", "1"], ["tailback: No such option: --sed"]),
        (["fly"], ["tailback: No such command 'fly'."]),
        (["run", "roce-rocks"], ["roce-rocks: found a published experiment, expected a scenario; tailback"]),
        (["reproduce", "nothing"], ["nothing: found no such experiment, expected"]),
        (["reproduce", "roce-rocks", "--only", "C1,x"], ["--only: found x, expected claims out of C1, "]),
    ],
)  # fmt: skip
def test_bad_input_is_a_line_a_problem(
    arguments: list[str],
    problems: list[str],
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    status, out, err = lines(arguments, capsys)
    assert status == 2
    assert out == []
    assert len(err) == len(problems)
    for line, problem in zip(sorted(err), problems, strict=True):
        assert line.startswith(problem)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.usefixtures("nothing_runs")
@pytest.mark.parametrize("kind", ["full folder", "file", "below a file"])
def test_a_folder_that_cannot_be_used_is_refused_before_the_run(
    kind: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    full = tmp_path / "full"
    full.mkdir()
    (full / "mine.txt").write_text("precious")
    out = {
        "full folder": full,
        "file": full / "mine.txt",
        "below a file": full / "mine.txt" / "x",
    }[kind]
    found = {
        "full folder": "a folder that is not empty, with mine.txt in it",
        "file": "a file",
        "below a file": "not a directory",
    }[kind]
    status, _, err = lines(["run", "first-flow", "--out", str(out)], capsys)
    assert status == 2
    assert err == [f"--out {out}: found {found}, expected a new or empty folder that can be written"]
    assert [path.name for path in full.iterdir()] == ["mine.txt"]
    assert (full / "mine.txt").read_text() == "precious"


@pytest.mark.usefixtures("nothing_runs")
def test_a_folder_without_permission(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:  # the permission itself would not stop root
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("pathlib.Path.mkdir", refuse)
    status, _, err = lines(["run", "first-flow", "--out", str(tmp_path)], capsys)
    assert status == 2
    expected = "found permission denied, expected a new or empty folder that can be written"
    assert err == [f"--out {tmp_path}: {expected}"]


@pytest.mark.parametrize("below", ["", "a/b"])
def test_an_impossible_plan_leaves_no_folder(
    below: str, capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise InputError.at("", "sw0: the engine says no")

    monkeypatch.setattr(import_module("tailback.running"), "begin", refuse)
    folder = tmp_path / "runs" / below / "x"
    assert lines(["run", "first-flow", "--out", str(folder)], capsys) == (2, [], ["sw0: the engine says no"])
    assert list(tmp_path.iterdir()) == []


def test_a_name_that_is_taken_gets_a_number(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("time.strftime", lambda _: "20300102-030405")
    with common._claimed(None, "x") as first, common._claimed(None, "x") as second:
        assert first.given == Path("runs/x-20300102-030405")
        assert second.given == Path("runs/x-20300102-030405-2")
    assert list(tmp_path.iterdir()) == []


def test_a_closed_pipe_is_no_error() -> None:
    command = f"{sys.executable} -m tailback.cli show roce-incast-lossless | true; echo ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False)
    assert done.stdout == "0\n"
    assert done.stderr == ""


def test_any_terminal_can_print_a_scenario(tmp_path: Path) -> None:
    file = tmp_path / "x.yaml"
    text = library.text("first-flow").decode()
    file.write_text(text.replace("about: ", "about: caf\u00e9 "), encoding="utf-8")
    command = [sys.executable, "-m", "tailback.cli", "show", str(file)]
    environment = {**os.environ, "PYTHONIOENCODING": "ascii"}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 0
    assert "about: caf" in done.stdout


def test_the_list_of_commands_has_whole_sentences(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["--help"]) == 0
    commands = capsys.readouterr().out.partition("Commands:")[2].splitlines()
    assert len([line for line in commands if line.endswith(".")]) == len([line for line in commands if line])
    assert not [line for line in commands if line.endswith("...")]


@pytest.mark.parametrize("name", cli.COMMANDS)
def test_the_list_of_commands_says_what_their_own_help_says(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main([name, "--help"]) == 0
    help_ = capsys.readouterr().out.split("\n\n")
    assert help_[0].startswith(f"Usage: tailback {name} ")
    assert " ".join(help_[1].split()) == cli.COMMANDS[name]


def test_the_bar_shows_short_times_counts_no_setup_and_ends_full() -> None:
    class Bar:
        def add_task(self, name: str, **fields: Any) -> int:
            self.fields = fields
            return 1

        def update(self, _task: int, **fields: Any) -> None:
            self.fields |= fields

    bar = Bar()
    step = progress.of_time(cast(Any, bar), "x", 5_000_000, 205_000_000)
    assert bar.fields["state"] == "setting up"
    step(cast(Any, SimpleNamespace(time_ps=12_000_000, packet_hops=1_000_000, done=False)))
    assert bar.fields["state"] == "7 µs  1.0 M packet-hops"
    time.sleep(0.01)
    step(cast(Any, SimpleNamespace(time_ps=55_000_000, packet_hops=1_001_000, done=False)))
    assert re.fullmatch(r"50 µs  1\.0 M packet-hops  0\.[01] M/s", bar.fields["state"])
    assert bar.fields["completed"] == 50_000_000
    # Everything was sent early: the bar is full all the same, while the report is made.
    step(cast(Any, SimpleNamespace(time_ps=60_000_000, packet_hops=1_001_000, done=True)))
    assert (bar.fields["completed"], bar.fields["state"]) == (200_000_000, "writing results")


def test_ctrl_c_before_there_is_a_result_says_so(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(import_module("tailback.running"), "packed_plan", interrupt)
    assert cli.main(["run", "first-flow", "--out", str(tmp_path / "x"), "-q"]) == 130
    assert "nothing was written" in capsys.readouterr().err
    assert not (tmp_path / "x").exists()
