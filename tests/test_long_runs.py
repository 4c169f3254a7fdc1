"""Runs with so many messages that rows leave memory for files meanwhile: what is written is the same."""

from __future__ import annotations

import pickle
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import astra_files as astra
import pytest
import simai_files as simai
import tailback
from tailback.astra.inputs import AstraOptions
from tailback.explain import ways
from tailback.explain.ways import Ways
from tailback.files import Outputs
from tailback.recorded.flows import read_flows

_RANKS = 16
_MANY = 70_000
"""Messages: two blocks of rows, and some more."""


def _ring(folder: Path, messages: int = _MANY, **more: Any) -> AstraOptions:
    """Ranks that reduce again and again, in messages of one packet."""
    size, splits = 500, 4
    collectives = -(-messages // (_RANKS * 2 * (_RANKS - 1) * splits))
    nodes = [
        astra.collective(at, astra.ALL_REDUCE, size * _RANKS * splits, (at - 1,) if at else ())
        for at in range(collectives)
    ]
    return astra.write(folder, [astra.trace(*nodes)] * _RANKS, **more)


def _files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}


def _same(folder: Path, result: tailback.Result, again: Path) -> None:
    """What a run wrote itself is what a result in memory writes. Files hold nothing of their making."""
    result.write(again)
    one, other = _files(folder), _files(again)
    assert set(one) == set(other)
    for name in set(one) - {"timing.json"}:
        assert one[name] == other[name], name


def test_astra_writes_the_same(tmp_path: Path) -> None:
    options = _ring(tmp_path / "in")
    kept = tailback.run_astra(options, out=tmp_path / "run")
    assert kept.flows.num_rows > _MANY
    memory = tailback.run_astra(options)
    _same(tmp_path / "run", memory, tmp_path / "again")
    assert kept.flows.equals(memory.flows)
    assert kept.outputs["fct.txt"] == memory.outputs["fct.txt"]
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []


def test_simai_and_native_messages_write_the_same(tmp_path: Path) -> None:
    layers = [f"layer{at} -1 100 ALLREDUCE 1048576 100 NONE 0 1 NONE 0 1" for at in range(12)]
    options = simai.write(tmp_path / "in", simai.workload(*layers))
    tailback.run_simai(options, out=tmp_path / "run")
    _same(tmp_path / "run", tailback.run_simai(options), tmp_path / "again")
    native = replace(_ring(tmp_path / "native", 40_000), native=True)
    tailback.run_astra(native, out=tmp_path / "run-native")
    _same(tmp_path / "run-native", tailback.run_astra(native), tmp_path / "again-native")


def test_a_list_of_flows_writes_the_same(tmp_path: Path) -> None:
    scenario = {
        "name": "many",
        "run": {"duration": "600us"},
        "preset": "100g",
        "topology": {"kind": "star", "hosts": 4},
        "traffic": [{"kind": "poisson", "load": 0.3, "sizes": str(tmp_path / "sizes.txt")}],
    }
    (tmp_path / "sizes.txt").write_text("100 0\n200 100\n")
    kept = tailback.run(scenario, out=tmp_path / "run")
    assert kept.flows.num_rows > 32_768
    _same(tmp_path / "run", tailback.run(scenario), tmp_path / "again")


def test_what_ran_of_an_interrupted_run_is_there(tmp_path: Path) -> None:
    options = _ring(tmp_path / "in")

    def stop(progress: Any) -> None:
        if list(tmp_path.glob(".run.*.writing/fct.txt")):
            raise KeyboardInterrupt

    with pytest.raises(tailback.Interrupted) as caught:
        tailback.run_astra(options, out=tmp_path / "run", progress=stop)
    lines = (tmp_path / "run" / "fct.txt").read_bytes()
    done = sum(state == "done" for state in caught.value.result.flows.column("state").to_pylist())
    assert lines.count(b"\n") == done > 32_768
    assert not caught.value.result.complete
    assert caught.value.result.outputs["fct.txt"] == lines
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in", "run"]


def test_a_killed_run_leaves_no_half_result(tmp_path: Path) -> None:
    options = _ring(tmp_path / "in")
    code = (
        "import os, sys, tailback\n"
        "from pathlib import Path\n"
        "from tailback.astra.inputs import AstraOptions\n"
        "base = Path(sys.argv[1])\n"
        "def stop(progress):\n"
        "    if list(base.glob('**/*.writing/fct.txt')): os.kill(os.getpid(), int(sys.argv[2]))\n"
        "names = ('et/w', 'system.json', 'config.txt', 'logical.json')\n"
        "files = [base / 'in' / name for name in names]\n"
        "tailback.run_astra(AstraOptions(*files), out=base / 'run', progress=stop)\n"
    )
    for how in (signal.SIGTERM, signal.SIGKILL):
        ran = subprocess.run([sys.executable, "-c", code, str(tmp_path), str(int(how))], capture_output=True)
        assert ran.returncode == -how
        assert not (tmp_path / "run" / "summary.json").exists()
        assert len(list(tmp_path.glob("**/*.writing/fct.txt"))) == 1
    # The next run takes away what was left.
    tailback.run_astra(options, out=tmp_path / "run")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in", "run"]


def test_a_file_that_cannot_be_written_ends_the_run(tmp_path: Path) -> None:
    options = _ring(tmp_path / "in")

    def spoil(progress: Any) -> None:
        for folder in tmp_path.glob(".run.*.writing"):
            if folder.is_dir() and not (folder / "fct.txt").exists():
                (folder / "fct.txt").mkdir()

    with pytest.raises(FileExistsError):
        tailback.run_astra(options, out=tmp_path / "run", progress=spoil)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in"]


def test_outputs_are_read_when_they_are_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "long"
    path.write_bytes(b"text")
    with path.open("rb") as file:
        outputs = Outputs({"long": file, "short": b"s"})
        path.rename(tmp_path / "moved")
        outputs["more"] = b"m"
        assert dict(outputs) == {"long": b"text", "short": b"s", "more": b"m"}
        assert dict(pickle.loads(pickle.dumps(outputs))) == dict(outputs)
        del outputs["more"]
        assert len(outputs) == 2


def test_explain_looks_at_some_flows_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    result = tailback.run_astra(_ring(tmp_path / "in", 2_000))
    pairs, number = Ways(result).ends
    monkeypatch.setattr(ways, "_AT_ONCE", 7)
    again, numbers = Ways(result).ends
    assert again == pairs
    assert numbers.tolist() == number.tolist()
    rows = result.flows.select(["src", "dst"]).to_pylist()
    assert [pairs[at] for at in number.tolist()] == [(row["src"], row["dst"]) for row in rows]
    assert pairs == list(dict.fromkeys((row["src"], row["dst"]) for row in rows))


def test_a_folder_of_very_many_flows_is_read_in_parts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The table is the same, and what is made of it; and no file stays."""
    options = _ring(tmp_path / "in", 3_000)
    monkeypatch.setattr("tailback.files.parquet._GROUP_ROWS", 1000)
    result = tailback.run_astra(options, out=tmp_path / "run")
    monkeypatch.setattr("tailback.run_folder.MAX_FLOWS_IN_MEMORY", 100)
    before = set((tmp_path / "run").iterdir())
    read = tailback.Result.load(tmp_path / "run")
    assert set((tmp_path / "run").iterdir()) == before
    assert read.flows.num_rows == result.flows.num_rows > 3_000
    assert read.flows.equals(result.flows)
    assert read.summary == result.summary
    assert read.outputs["fct.txt"] == result.outputs["fct.txt"]
    read.write(tmp_path / "again")
    one, other = _files(tmp_path / "run"), _files(tmp_path / "again")
    assert {name for name in one if one[name] != other.get(name)} <= {"timing.json", "report.html"}
    monkeypatch.setattr("tailback.run_folder.RESULT_FLOWS", 1000)
    with pytest.raises(ValueError, match=r"flows\.parquet: found [0-9]+ rows, expected at most 1000"):
        tailback.Result.load(tmp_path / "run")


def test_a_flow_table_that_is_not_as_long_as_its_end_says(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="found no rows"):
        read_flows(tmp_path / "flows.parquet", iter(()))
