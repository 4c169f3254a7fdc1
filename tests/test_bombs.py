"""Small files that stand for much: whichever reader takes them, memory stays within a bound, and so does what
is said of them.
"""

from __future__ import annotations

import io
import json
import shutil
from collections.abc import Callable
from pathlib import Path

import limited
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import tailback

MOST_MIB = 700
"""Libraries take some 150 MiB of it."""
STAR = "name: t\nrun: {duration: 100us}\ntopology: {kind: star, hosts: 2}\n"
GRAPH = STAR + "traffic: [{kind: job, ranks: 2, steps: [{graph: FILE}]}]\n"
FLOWS = STAR + "traffic: [{kind: flows, file: FILE}]\n"
CODE = """
import contextlib, io, sys
from tailback import cli
out, err = io.StringIO(), io.StringIO()
with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
    status = cli.main(sys.argv[1:])
said = [status, out.getvalue()[:500], err.getvalue()[:3000]]
"""


def parquet(columns: dict[str, pa.Array | list[object]]) -> bytes:
    sink = io.BytesIO()
    pq.write_table(pa.table(columns), sink, compression="zstd")
    return sink.getvalue()


def repeated(text: str, rows: int) -> pa.Array:
    return pa.DictionaryArray.from_arrays(pa.array([0] * rows, pa.int32()), [text])


def operations(rows: int, **more: pa.Array | list[object]) -> bytes:
    every: dict[str, pa.Array | list[object]] = {
        "rank": [0] * rows,
        "what": ["compute"] * rows,
        "time": ["1ns"] * rows,
    }
    return parquet({**every, **more})


LONG, WIDE = 160 << 20, 1 << 20
BOMBS: dict[str, tuple[str, str, Callable[[], bytes]]] = {
    "one long name": (GRAPH, "g.parquet", lambda: operations(1, operation=["1" * LONG])),
    "one long time": (GRAPH, "g.parquet", lambda: operations(1, time=["1" * LONG])),
    "one cell of a few MB": (GRAPH, "g.parquet", lambda: operations(1, time=["1" * (3 << 20)])),
    "a time again and again": (
        GRAPH,
        "g.parquet",
        lambda: operations(WIDE, time=repeated("1" * 4000, WIDE)),
    ),
    "waits again and again": (
        GRAPH,
        "g.parquet",
        lambda: operations(WIDE, after=repeated("0 " * 8000, WIDE)),
    ),
    "a host of a list": (
        FLOWS,
        "f.parquet",
        lambda: parquet({"src": ["h" * LONG], "dst": ["h1"], "bytes": [1], "start_ns": [0]}),
    ),
    "a host again and again": (
        FLOWS,
        "f.parquet",
        lambda: parquet(
            {
                "src": repeated("h" * 4000, WIDE),
                "dst": ["h1"] * WIDE,
                "bytes": [1] * WIDE,
                "start_ns": [0] * WIDE,
            }
        ),
    ),
    "bytes as a text": (
        FLOWS,
        "f.parquet",
        lambda: parquet({"src": ["h0"], "dst": ["h1"], "bytes": ["1" * (3 << 20)], "start_ns": [0]}),
    ),
    "a cell of a CSV": (
        FLOWS,
        "f.csv",
        lambda: b"src,dst,bytes,start_ns\nh0,h1," + b"1" * (20 << 20) + b",0\n",
    ),
    "a cell of a graph": (GRAPH, "g.csv", lambda: b"rank,what,time\n0,compute," + b"1" * (20 << 20) + b"\n"),
}


@pytest.mark.parametrize("name", BOMBS)
def test_files_that_scenarios_name(name: str, tmp_path: Path) -> None:
    scenario, file, make = BOMBS[name]
    (tmp_path / file).write_bytes(make())
    (tmp_path / "s.yaml").write_text(scenario.replace("FILE", file))
    took = limited.run(CODE, "run", str(tmp_path / "s.yaml"), "--out", str(tmp_path / "x"))
    status, out, err = took.said
    assert (status, out) == (2, ""), err
    assert len(err) < 1000
    assert err.count("\n") == 1
    assert took.peak_mib < MOST_MIB
    assert not (tmp_path / "x").exists()


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("whole") / "run"
    tailback.run("first-flow", sets=["run.duration=100us"], out=folder, report=False)
    return folder


OF_RESULTS: dict[str, tuple[str, Callable[[], bytes]]] = {
    "one long name": ("flows.parquet", lambda: parquet({"src": ["h" * LONG]})),
    "a name again and again": ("entities.parquet", lambda: parquet({"entity": repeated("h" * 4000, WIDE)})),
    "zeros": ("series.parquet", lambda: parquet({"value": pa.array([bytes(LONG)])})),
    "JSON in JSON": ("counters.json", lambda: b"[" * (20 << 20)),
    "a long key": ("plan.json", lambda: json.dumps({"k" * (20 << 20): 1, "links": []}).encode()),
    "a long number": ("summary.json", lambda: b'{"outputs": 1' + b"0" * (5 << 20) + b"}"),
}


@pytest.mark.parametrize("name", OF_RESULTS)
def test_files_of_a_result(name: str, whole: Path, tmp_path: Path) -> None:
    file, make = OF_RESULTS[name]
    shutil.copytree(whole, tmp_path / "run")
    (tmp_path / "run" / file).write_bytes(make())
    took = limited.run(CODE, "explain", str(tmp_path / "run"), "--no-try")
    status, out, err = took.said
    assert (status, out) == (2, ""), err
    assert len(err) < 1000
    assert err.count("\n") == 1
    assert took.peak_mib < MOST_MIB
