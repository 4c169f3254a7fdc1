"""Nothing in the folder of a result is trusted: each value may be another, and each file a link elsewhere."""

from __future__ import annotations

import json
import math
import random
import re
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import tailback
from tailback import cli

JSON_FILES = ("summary.json", "plan.json", "counters.json", "timing.json")
TABLES = ("flows.parquet", "series.parquet", "entities.parquet", "signals.parquet")
LARGE = "found"
"""Stands for 1e400, which JSON may have and no number of a computer is."""
WRONG: list[Any] = [
    None,
    [],
    {},
    -1,
    1.5,
    True,
    10**30,
    -(2**63),
    "",
    "x" * 100_000,
    [[[7]]],
    {"a": {"b": None}},
    LARGE,
]
SAMPLED = 12
"""Damages that a test tries of all that there are."""


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a run with jobs, hosts' memory and CPUs."""
    folder = tmp_path_factory.mktemp("whole") / "run"
    sets = ["run.duration=500us", "memory_load=[{host: h1, cores: 8}]"]
    tailback.run("memory-contention", sets=sets, out=folder, report=False)
    return folder


@pytest.fixture(scope="module")
def whole_tcp(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("whole") / "run"
    tailback.run("tcp-incast", sets=["run.duration=1ms"], out=folder, report=False)
    return folder


def commands(folder: Path, other: Path, page: Path) -> list[list[str]]:
    return [
        ["report", str(folder)],
        ["explain", str(folder), "--no-try"],
        ["compare", str(folder), str(other)],
        ["compare", str(other), str(folder), "--page", str(page)],
        ["compare", str(other), str(folder), "--json"],
        ["signals", str(folder)],
        ["counters", str(folder), "--as", "ethtool"],
        ["counters", str(folder), "--json"],
        ["trace", str(folder)],
    ]


Path_ = tuple[str | int, ...]


def leaves(value: Any, path: Path_ = ()) -> Iterator[Path_]:
    """Where there is a value, lists and mappings included."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for name, one in inner:
        yield from leaves(one, (*path, name))
    yield path


def replaced(value: Any, path: Path_, by: Any) -> Any:
    if not path:
        return by
    copy = dict(value) if isinstance(value, dict) else list(value)
    copy[path[0]] = replaced(copy[path[0]], path[1:], by)
    return copy


def damages_of_json(file: Path) -> list[tuple[Path_, Any]]:
    """Each kind of place once (all entries of a list are of one kind) with each wrong value."""
    places: dict[Path_, Path_] = {}
    for path in leaves(json.loads(file.read_text())):
        places.setdefault(tuple("*" if isinstance(name, int) else name for name in path), path)
    return [(path, wrong) for path in places.values() for wrong in WRONG]


def damage_json(file: Path, path: Path_, wrong: Any) -> None:
    text = json.dumps(replaced(json.loads(file.read_text()), path, wrong))
    file.write_text(text.replace(json.dumps(LARGE), "1e400") if wrong == LARGE else text)


def tables_like(table: pa.Table) -> Iterator[tuple[str, pa.Table]]:
    rows = table.num_rows
    yield "no rows", table.slice(0, 0)
    yield "twice", pa.concat_tables([table, table])
    for at, field in enumerate(table.schema):
        yield f"{field.name} dropped", table.drop_columns([field.name])
        others = {
            "null": pa.nulls(rows, field.type),
            "without type": pa.nulls(rows),
            "NaN": pa.array([math.nan] * rows),
            "infinite": pa.array([math.inf] * rows),
            "negative": pa.array([-(2**60)] * rows),
            "texts": pa.array(["q"] * rows),
            "no UTF-8": pa.array([b"\xff"] * rows),
            "times": pa.array([0] * rows, pa.timestamp("us")),
            "large": pa.array([2**64 - 1] * rows, pa.uint64()),
        }
        for what, column in others.items():
            yield f"{field.name} {what}", table.set_column(at, field.name, column)


def check(
    folder: Path, other: Path, what: object, chosen: Sequence[int], capsys: pytest.CaptureFixture[str]
) -> None:
    """Runs some of the commands: each does what it does, or says in a line what is wrong."""
    page = folder.parent / "page.html"
    every = commands(folder, other, page)
    for command in (every[at] for at in chosen):
        status = cli.main(command)
        out, err = capsys.readouterr()
        assert status in (0, 2), (command, what, err)
        if status == 2:
            assert err.count("\n") == 1, (command, what, err[:2000])
            assert str(folder) in err or "found no job" in err, (command, what, err[:2000])
        assert len(err) < 2000, (command, what)
        assert not re.search(r"\b(nan|inf)\b", out), (command, what, out)
        for made in (folder / "report.html", folder / "trace.json", page):
            made.unlink(missing_ok=True)


@pytest.mark.parametrize("fixture", ["whole", "whole_tcp"])
@pytest.mark.parametrize("name", JSON_FILES)
def test_each_value_of_a_json_file_may_be_another(
    name: str,
    fixture: str,
    request: pytest.FixtureRequest,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    source: Path = request.getfixturevalue(fixture)
    folder, draw = tmp_path / "run", random.Random(name)
    shutil.copytree(source, folder)
    every = damages_of_json(source / name)
    for path, wrong in draw.sample(every, min(SAMPLED, len(every))):
        damage_json(folder / name, path, wrong)
        check(folder, source, (name, path, str(wrong)[:60]), draw.sample(range(9), 2), capsys)
        shutil.copy(source / name, folder / name)


@pytest.mark.parametrize("name", TABLES)
def test_each_column_of_a_table_may_be_another(
    name: str, whole_tcp: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder, draw = tmp_path / "run", random.Random(name)
    shutil.copytree(whole_tcp, folder)
    every = list(tables_like(pq.read_table(whole_tcp / name)))
    for what, table in draw.sample(every, min(SAMPLED, len(every))):
        pq.write_table(table, folder / name)
        check(folder, whole_tcp, (name, what), draw.sample(range(9), 2), capsys)


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_a_single_nan_is_named(
    value: float, whole: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "run"
    shutil.copytree(whole, folder)
    table = pq.read_table(folder / "series.parquet")
    values = table.column("value").to_pylist()
    values[7] = value
    at = table.column_names.index("value")
    pq.write_table(table.set_column(at, "value", pa.array(values)), folder / "series.parquet")
    for command in commands(folder, whole, tmp_path / "page.html"):
        assert cli.main(command) == 2
        err = capsys.readouterr().err
        assert f"series.parquet: row 7, value: found {value}, expected a finite number" in err


def test_the_side_that_is_damaged_is_named(
    whole_tcp: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "run"
    shutil.copytree(whole_tcp, folder)
    damage_json(folder / "summary.json", ("meta", "cpu", 0, "cores"), [7])
    for sides in ([folder, whole_tcp], [whole_tcp, folder]):
        assert cli.main(["compare", *map(str, sides)]) == 2
        assert capsys.readouterr().err.startswith(f"{folder}: found ")


def names_in(folder: Path) -> list[str]:
    return sorted(file.relative_to(folder).as_posix() for file in folder.rglob("*") if file.is_file())


def test_no_file_elsewhere_is_read(whole: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Each file of a result is a link to one that would do, outside; and again as a link of a folder."""
    for number, name in enumerate(names_in(whole)):
        folder = tmp_path / str(number)
        shutil.copytree(whole, folder)
        (folder / name).unlink()
        (folder / name).symlink_to(whole / name)
        for command in (
            ["report", str(folder)],
            ["signals", str(folder)],
            ["compare", str(folder), str(whole)],
        ):
            assert cli.main(command) == 2, (name, command)
            err = capsys.readouterr().err
            assert "a link to another place" in err, (name, err)
            assert Path(name).name in err, (name, err)
        assert not (folder / "report.html").exists()


def test_links_within_a_folder_and_to_it_are_followed(
    whole: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(whole, tmp_path / "run")
    (tmp_path / "run" / "plan.json").rename(tmp_path / "run" / "kept.json")
    (tmp_path / "run" / "plan.json").symlink_to("kept.json")
    (tmp_path / "link").symlink_to("run")
    assert cli.main(["signals", str(tmp_path / "link")]) == 0
    assert capsys.readouterr().err == ""


def test_inputs_and_outputs_elsewhere_are_not_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of files that a scenario names, and of a folder that is a link."""
    (tmp_path / "g.csv").write_text("rank,what,time\n0,compute,1us\n1,compute,1us\n")
    (tmp_path / "s.yaml").write_text(
        "name: g\nrun: {duration: 1ms}\ntopology: {kind: star, hosts: 2}\n"
        "traffic: [{kind: job, ranks: 2, steps: [{graph: g.csv}]}]\n"
    )
    tailback.run(str(tmp_path / "s.yaml"), out=tmp_path / "run", report=False)
    (tmp_path / "run" / "inputs").rename(tmp_path / "elsewhere")
    (tmp_path / "run" / "inputs").symlink_to(tmp_path / "elsewhere")
    assert cli.main(["report", str(tmp_path / "run")]) == 2
    assert "a link to another place" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("command", "name"), [("sweep", "sweep.json"), ("tune", "tune.json"), ("fit", "asked.json")]
)
def test_what_was_begun_and_is_damaged_is_one_line(
    command: str, name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "x").mkdir()
    file = tmp_path / "x" / name
    for content in (
        b"",
        b"{",
        b"[]",
        b"[" * 100_000,
        b"\xff",
        b"null",
        b"{}",
        b'{"seeds": NaN}',
        b'{"a": 1e400}',
    ):
        file.write_bytes(content)
        assert cli.main([command, "--resume", str(tmp_path / "x")]) == 2, content[:20]
        err = capsys.readouterr().err
        assert err, content[:20]
        assert len(err) < 1000, content[:20]
        assert "Traceback" not in err
    file.unlink()
    (tmp_path / "other.json").write_text('{"scenario": "first-flow"}')
    file.symlink_to(tmp_path / "other.json")
    assert cli.main([command, "--resume", str(tmp_path / "x")]) == 2
    assert "a link to another place" in capsys.readouterr().err
