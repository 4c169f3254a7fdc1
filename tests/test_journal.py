"""Journals of sweeps and what resumes from them: a damaged line never counts, and it is said where it is."""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tailback import cli
from tailback.executors import Threads
from tailback.study.grid import sweep
from tailback.study.journal import NAME, Journal
from test_sweep import TABLES, TINY

DESIGN: dict[str, Any] = {"scenario": TINY, "vary": {"host.mtu": ["1024B", "4096B"]}, "seeds": "1..2"}
WRONG: list[Any] = [None, {}, [], 7, -1, True, "", "x", 1e308, {"a": {"b": [None]}}, ["x", 3]]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("journal") / "x"
    assert sweep(DESIGN, out=out, executor=Threads(1)).complete
    return out


def damaged_lines(line: bytes) -> Iterator[bytes]:
    """Each value of a line replaced by others, left out and added; bytes changed; and what is no line."""
    row = json.loads(line)
    for key, before in row.items():
        yield json.dumps({name: value for name, value in row.items() if name != key}).encode()
        yield from (json.dumps({**row, key: value}).encode() for value in WRONG if value != before)
        yield json.dumps({**row, key: float("nan")}).encode()
    for label in row["metrics"]:
        yield json.dumps({**row, "metrics": {**row["metrics"], label: 12345.5}}).encode()
    yield json.dumps({**row, "more": 1}).encode()
    draw = random.Random(1)
    for _ in range(40):
        at = draw.randrange(len(line))
        yield (
            line[:at]
            + bytes([(line[at] + draw.randrange(1, 128)) % 256]).replace(b"\n", b"x")
            + line[at + 1 :]
        )
    yield from (b"[" * 100_000, b"", b"null", b"[]", b'"x"', b"\xff\xfe", b"\0" * 50, line[: len(line) // 2])


def test_no_damaged_line_counts(whole: Path, tmp_path: Path) -> None:
    first, *others = (whole / NAME).read_bytes().splitlines()
    key = json.loads(first)["key"]
    for number, bad in enumerate(damaged_lines(first)):
        if len(bad.splitlines()) > 1:  # such as a carriage return
            continue
        (tmp_path / NAME).write_bytes(b"\n".join([bad, *others]) + b"\n")
        with Journal(tmp_path) as journal:
            if key in journal.done:  # blanks of JSON, or a letter of an escape, may be another
                assert json.loads(bad) == json.loads(first), (number, bad[:300])
                continue
            assert len(journal.done) == 3
            (said,) = journal.damaged
            assert said.startswith(f"{tmp_path / NAME}:1: found "), said
            assert "\n" not in said
            assert len(said) < 300


def test_a_line_whose_values_are_not_those_of_a_run_does_not_count(whole: Path, tmp_path: Path) -> None:
    """As another program might write it: the checksum fits."""
    row = json.loads((whole / NAME).read_bytes().splitlines()[0])
    del row["check"]
    for name in row:
        for value in ({}, None, True, "x", [3], {"a": "b"}):
            if (name, value) in (("key", "x"), ("metrics", {})):
                continue
            (tmp_path / NAME).unlink(missing_ok=True)
            with Journal(tmp_path) as journal:
                journal.add([{**row, name: value}])
            with Journal(tmp_path) as journal:
                assert (journal.done, len(journal.damaged)) == ({}, 1), (name, value)


@pytest.mark.parametrize("value", [{}, None, 7])
def test_resumed_from_a_damaged_journal_the_tables_are_the_same(
    value: Any, whole: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "x"
    shutil.copytree(whole, out)
    lines = (out / NAME).read_text().splitlines()
    lines[1] = json.dumps({**json.loads(lines[1]), "metrics": value})
    (out / NAME).write_text("\n".join(lines) + "\n")
    assert cli.main(["sweep", "--resume", str(out), "-q", "-j", "1"]) == 0
    said = capsys.readouterr().err
    assert said == (
        f"{out / NAME}:2: found a line that does not match its checksum, expected it as it was written; "
        "the run is repeated\n"
    )
    for name in TABLES:
        assert (out / name).read_bytes() == (whole / name).read_bytes()


def test_measures_of_other_names_do_not_count(whole: Path, tmp_path: Path) -> None:
    out = tmp_path / "x"
    shutil.copytree(whole, out)
    rows = [json.loads(line) for line in (out / NAME).read_text().splitlines()]
    (out / NAME).unlink()
    with Journal(out) as journal:
        journal.add({**{key: row[key] for key in row if key != "check"}, "metrics": {}} for row in rows)
    sweep(out=out, resume=True, executor=Threads(1))
    for name in TABLES:
        assert (out / name).read_bytes() == (whole / name).read_bytes()


def test_a_thousand_damaged_lines_are_a_few_lines(tmp_path: Path) -> None:
    (tmp_path / NAME).write_bytes(b"x\n" * 1000)
    with Journal(tmp_path) as journal:
        assert len(journal.damaged) == 6
        assert "995 more damaged lines" in journal.damaged[-1]


def test_no_line_is_added_to_a_file_elsewhere(
    whole: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "x"
    shutil.copytree(whole, out)
    other = tmp_path / "other"
    other.write_text("mine\n")
    (out / NAME).unlink()
    (out / NAME).symlink_to(other)
    assert cli.main(["sweep", "--resume", str(out), "-q", "-j", "1"]) == 3
    assert other.read_text() == "mine\n"
    assert str(out / NAME) in capsys.readouterr().err
