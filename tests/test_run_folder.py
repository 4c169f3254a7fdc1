"""Commands that read the folder of a run: whatever became of its files, they say so in one line."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import tailback
from tailback import cli
from tailback.counters import TOOLS

COMMANDS = [["explain"], *(["counters", "--as", tool] for tool in TOOLS)]
FILES = (
    "summary.json",
    "timing.json",
    "counters.json",
    "plan.json",
    "flows.parquet",
    "series.parquet",
    "entities.parquet",
    "signals.parquet",
)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a run that every tool has something of but tc and mpstat, which need a bridge."""
    folder = tmp_path_factory.mktemp("whole") / "run"
    tailback.run(
        "memory-contention", sets=["run.duration=1ms", "memory_load=[{host: h1, cores: 8}]"], out=folder
    )
    return folder


def _cut(file: Path) -> None:
    data = file.read_bytes()
    file.write_bytes(data[: len(data) // 2])


def _other_table(file: Path) -> None:
    pq.write_table(pa.table({"a": [1, 2], "b": ["x", "y"]}), file)


def _other_types(file: Path) -> None:
    names = pq.read_table(file).column_names
    pq.write_table(pa.table({name: [[name]] for name in names}), file)


DAMAGE: list[tuple[str, Callable[[Path], object]]] = [
    *((name, _cut) for name in FILES),
    *((name, lambda file: file.write_bytes(b"")) for name in FILES),
    *((name, lambda file: file.write_text("{}")) for name in FILES[:4]),
    *((name, lambda file: file.write_text("[]")) for name in FILES[:4]),
    ("counters.json", lambda file: file.write_text('{"names": [], "nodes": []}')),
    ("counters.json", lambda file: file.write_text('{"names": 7, "nodes": {}}')),
    ("summary.json", lambda file: file.write_text('{"meta": {}, "assumptions": [], "outputs": []}')),
    *((name, change) for name in FILES[4:] for change in (_other_table, _other_types)),
]


@pytest.mark.parametrize("command", COMMANDS, ids=lambda words: words[-1])
def test_a_damaged_folder_is_one_line(
    command: list[str], whole: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for number, (name, change) in enumerate(DAMAGE):
        folder = tmp_path / str(number)
        shutil.copytree(whole, folder)
        change(folder / name)
        assert cli.main([*command, str(folder)]) == 2, (name, number)
        out, err = capsys.readouterr()
        assert out == "", (name, number)
        assert err.startswith(f"{folder}: found "), err
        assert err.endswith("expected the folder of a run\n"), err
        assert err.count("\n") == 1, err
    # None of that is because of the folder itself.
    needs_a_bridge = command[-1] in ("tc", "mpstat")
    assert cli.main([*command, str(whole)]) == (2 if needs_a_bridge else 0)


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("summary.json", '{"meta"', "found files that cannot be read (summary.json: Expecting ':'"),
        ("counters.json", "[]", "found files that cannot be read (counters.json: a list and no mapping)"),
        (
            "plan.json",
            "{}",
            "found a network that cannot be read (no 'links'; another version may have written it)",
        ),
        ("series.parquet", "PAR1", "found files that cannot be read (series.parquet: "),
    ],
)
def test_the_line_says_what_is_wrong(
    name: str, text: str, words: str, whole: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "run"
    shutil.copytree(whole, folder)
    (folder / name).write_text(text)
    assert cli.main(["explain", str(folder)]) == 2
    assert words in capsys.readouterr().err


def test_a_part_of_the_plan_that_only_figures_need(
    whole: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "run"
    shutil.copytree(whole, folder)
    plan = json.loads((folder / "plan.json").read_text())
    del plan["run"]
    (folder / "plan.json").write_text(json.dumps(plan))
    assert cli.main(["counters", str(folder), "--as", "rdma"]) == 2
    assert (
        "found figures that cannot be read (no 'run'; another version may have written it)"
        in capsys.readouterr().err
    )
