"""Sweeps whose tables and run folders go to storage by URL."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tailback import cli
from tailback.errors import InputError
from tailback.executors import Threads
from tailback.study.grid import sweep
from test_sweep import ASKED, TABLES

pytest.importorskip("fsspec", reason="fsspec is not installed: pip install 'tailback[storage]'")

KEPT = {"scenario": ASKED["scenario"], "seeds": "1..2", "keep": True}


def test_tables_and_run_folders_are_there(tmp_path: Path) -> None:
    store = tmp_path / "store"
    sweep({**KEPT, "store": store.as_uri()}, out=tmp_path / "x", jobs=1)  # by a worker that is a process
    for name in (*TABLES, "sweep.json", "runs/point=0/runs.parquet"):  # and design.json, which only it has
        assert (store / name).read_bytes() == (tmp_path / "x" / name).read_bytes()
    sweep(KEPT, out=tmp_path / "here", executor=Threads(1))
    for file in (tmp_path / "here" / "folders").rglob("*"):
        if file.is_file() and file.name != "timing.json":
            there = store / file.relative_to(tmp_path / "here")
            assert there.read_bytes() == file.read_bytes()
    assert not (tmp_path / "x" / "folders").exists()


def test_storage_of_objects_does_without_a_folder_here() -> None:
    import fsspec

    sweep({**KEPT, "store": "memory://a/b"}, executor=Threads(1))
    memory = fsspec.filesystem("memory")
    assert memory.exists("/a/b/summary.parquet")
    assert memory.exists("/a/b/folders/point-0/seed-2/summary.json")
    assert not [name for name in memory.find("/a") if ".tailback-" in name]


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("file:///proc/x", r"found a storage that cannot be written \(.*\), expected one that can"),
        ("nowhere://x", r"found no storage \(.*nowhere.*\), expected one such as s3:// or gs://"),
        ("runs/x", "found no URL, expected one such as "),
    ],
)
def test_storage_that_cannot_be_used_is_a_line_and_nothing_runs(url: str, words: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=f"^--store {url}: {words}") as refused:
        sweep({**KEPT, "store": url}, out=tmp_path / "x", executor=Threads(1))
    assert "\n" not in str(refused.value)
    assert not (tmp_path / "x").exists()


def test_storage_that_fails_later_loses_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from fsspec.implementations.memory import MemoryFileSystem

    design = {**KEPT, "seeds": "1..4", "store": "memory://later"}
    put, count = MemoryFileSystem.put_file, 0

    def failing(self: Any, here: str, there: str, **more: Any) -> Any:
        nonlocal count
        count += 1
        if count > 20:
            raise ValueError("the quota\nis used up")
        return put(self, here, there, **more)

    monkeypatch.setattr(MemoryFileSystem, "put_file", failing)
    with pytest.raises(OSError, match="the quota is used up") as failed:
        sweep(design, out=tmp_path / "x", executor=Threads(1))
    assert failed.value.filename == "memory://later/folders/point-0/seed-3"
    before = (tmp_path / "x" / "journal.jsonl").read_text().splitlines()
    assert [json.loads(line)["status"] for line in before] == ["done", "done"]
    monkeypatch.setattr(MemoryFileSystem, "put_file", put)
    again = sweep(out=tmp_path / "x", resume=True, executor=Threads(1))
    assert len(again.rows) == 4
    assert (tmp_path / "x" / "journal.jsonl").read_text().splitlines()[:2] == before


def _everything(folder: Path) -> dict[str, bytes]:
    return {str(file): file.read_bytes() for file in folder.rglob("*") if file.is_file()}


def test_a_store_belongs_to_one_design(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    scenario = tmp_path / "tiny.yaml"
    scenario.write_text(json.dumps(ASKED["scenario"]))
    store = tmp_path / "store"
    design = {**KEPT, "scenario": str(scenario), "store": store.as_uri()}
    sweep(design, out=tmp_path / "x", executor=Threads(1))
    before = _everything(store)
    others: list[dict[str, Any]] = [
        {"vary": {"host.mtu": ["1024B"]}},
        {"set": {"host.mtu": "1024B"}},
        {"seeds": "1..3"},
        {"keep": False},
        {"metrics": ["dropped_packets"]},
    ]
    for other in others:
        with pytest.raises(InputError) as refused:
            sweep({**design, **other}, out=tmp_path / "y", executor=Threads(1))
        own = json.loads((store / "design.json").read_bytes())["design"]
        assert f"found the results of another sweep, tiny-sweep (design {own})" in str(refused.value)
        assert "\n" not in str(refused.value)
        assert not (tmp_path / "y").exists()
    # The same name of a file, but another content.
    scenario.write_text(json.dumps({**ASKED["scenario"], "run": {"duration": "30us"}}))
    with pytest.raises(InputError, match="another sweep"):
        sweep(design, out=tmp_path / "y", executor=Threads(1))
    assert _everything(store) == before
    scenario.write_text(json.dumps(ASKED["scenario"]))
    again = sweep(out=tmp_path / "x", resume=True, executor=Threads(1))
    assert again.complete
    sweep(design, out=tmp_path / "y", executor=Threads(1))
    timed = [name for name in before if name.endswith("timing.json")]
    assert {name: data for name, data in _everything(store).items() if name not in timed} == {
        name: data for name, data in before.items() if name not in timed
    }


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("summary.parquet", "x", "found summary.parquet of a sweep that left no design.json"),
        ("folders/point-0/x", "x", "found folders of a sweep that left no design.json"),
        ("design.json", "[" * 100_000, "found a design.json that cannot be read"),
        ("design.json", '{"design": []}', "found a design.json that cannot be read"),
        ("design.json", json.dumps({"design": "x" * 9000, "sweep": "y\n" * 900}), "found the results of"),
    ],
)
def test_a_store_of_nobody_known_is_refused(name: str, text: str, words: str, tmp_path: Path) -> None:
    file = tmp_path / "store" / name
    file.parent.mkdir(parents=True)
    file.write_text(text)
    with pytest.raises(InputError) as refused:
        sweep({**KEPT, "store": (tmp_path / "store").as_uri()}, out=tmp_path / "x", executor=Threads(1))
    assert words in str(refused.value)
    assert "\n" not in str(refused.value)
    assert len(str(refused.value)) < 500
    assert not (tmp_path / "x").exists()


def test_a_url_is_no_folder(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["sweep", "--scenario", "first-flow", "--out", "s3://bucket/x"]) == 2
    assert "found a URL, expected a folder; of a sweep, --store takes a URL" in capsys.readouterr().err
