"""What tools of the trade do: JSON, completion, output that is piped, results that show themselves."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest
import tailback
from commands import COMMAND
from hpcc_files import write
from tailback import cli


def out(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    assert cli.main(arguments) == 0
    return capsys.readouterr().out


def test_json_is_what_a_program_needs_and_nothing_else(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = str(tmp_path / "run")
    run = json.loads(out(["run", "first-flow", "--out", folder, "--json"], capsys))
    assert (run["folder"], run["name"], run["complete"]) == (folder, "first-flow", True)
    summary = json.loads((tmp_path / "run" / "summary.json").read_text(encoding="utf-8"))
    assert run["goodput"] == summary["goodput"]
    nodes = json.loads(out(["counters", folder, "--json", "--host", "h0"], capsys))
    written = json.loads((tmp_path / "run" / "counters.json").read_text(encoding="utf-8"))
    assert nodes == {"h0": written["nodes"]["h0"]}
    several = tmp_path / "several"
    seeds = json.loads(out(["run", "first-flow", "--seeds", "1-2", "--json", "--out", str(several)], capsys))
    assert {seed: one["seed"] for seed, one in seeds["seeds"].items()} == {"1": 1, "2": 2}
    listed = json.loads(out(["list", "--json"], capsys))
    assert "first-flow" in listed["scenarios"]
    assert listed["experiments"]["roce-rocks"] == "RoCE Rocks without PFC"


@pytest.mark.parametrize("more", [[], ["--as", "rdma", "--json"]])
def test_counters_are_a_tools_or_json(more: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["counters", "first-flow", *more]) == 2
    assert "expected one of --as TOOL and --json" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        ("tailback compa", "compare"),
        ("tailback run first-f", "first-flow"),
        ("tailback run mine", "mine.yaml"),
        ("tailback run first-flow --set host.mt", "host.mtu="),
        ("tailback run link-failure --set traffic.0.qp", "traffic.0.qps="),
        ("tailback run first-flow --set host.congestion=t", "host.congestion=timely"),
    ],
)
def test_tab_offers_commands_scenarios_settings_and_controllers(
    words: str, offered: str, tmp_path: Path
) -> None:
    (tmp_path / "mine.yaml").touch()
    asked = {"_TAILBACK_COMPLETE": "complete_zsh", "_TYPER_COMPLETE_ARGS": words}
    done = subprocess.run(
        COMMAND, env={**os.environ, **asked}, cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.stderr == ""
    assert f'"{offered}"' in done.stdout


def test_what_is_piped_is_not_wrapped(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines = out(["run", "first-flow", "--out", str(tmp_path / "run")], capsys).splitlines()
    throughput = next(line for line in lines if line.startswith("Throughput"))
    assert throughput.endswith(".")
    assert len(throughput) > 100
    # What is said is one line, however long.
    answer = out(["explain", str(tmp_path / "run")], capsys)
    assert sum(line.startswith("Try ") and line.endswith(".") for line in answer.splitlines()) == 1


def test_results_and_answers_show_themselves() -> None:
    result = tailback.run("first-flow")
    assert isinstance(result, tailback.Result)
    assert repr(result).startswith("<Result first-flow, seed 1, 2 ms: Throughput ")
    assert "ECN marks" in result._repr_html_()
    answer = result.explain()
    assert repr(answer).startswith(answer.headline)
    assert answer._repr_html_().startswith("<pre>")


def test_the_page_of_the_interface_has_every_name() -> None:
    page = (Path(__file__).parents[1] / "docs" / "api.md").read_text(encoding="utf-8")
    for name in tailback.__all__:
        assert f"`tailback.{name}" in page, name
        assert getattr(tailback, name) is not None


def test_json_of_files_of_another_simulator_and_of_what_is_repeated(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config, folder = str(write(tmp_path / "in")), str(tmp_path / "run")
    run = json.loads(out(["hpcc", config, "--out", folder, "--quiet", "--json"], capsys))
    summary = json.loads((tmp_path / "run" / "summary.json").read_text(encoding="utf-8"))
    assert (run["folder"], run["goodput"]) == (folder, summary["goodput"])
    folder = str(tmp_path / "again")
    only = ["--quick", "--only", "D8", "--jobs", "1", "--quiet", "--json"]
    again = json.loads(out(["reproduce", "veth-bql", "--out", folder, *only], capsys))
    written = json.loads((tmp_path / "again" / "reproduce.json").read_text(encoding="utf-8"))
    assert again == {"folder": folder, **written}
