"""Every reader as a function of bytes: it takes them, or says in clean lines why not; all else is a failure.

`fuzz/readers.py` looks for such bytes with coverage as its guide, `test_fuzz_readers.py` tries its corpus and
changes of it.
"""

from __future__ import annotations

import contextlib
import json
import random
import shutil
import tempfile
from collections.abc import Callable
from functools import cache
from io import BytesIO
from pathlib import Path
from typing import Any

import hpcc_files
import simai_files
import tailback
from tailback import explain
from tailback.counters import TOOLS, as_tool
from tailback.errors import InputError
from tailback.hpcc.keys import CONFIG_KEYS
from tailback.hpcc.quantities import RATE_UNITS, TIME_UNITS_FS
from tailback.plan import make_plan, plan_json
from tailback.run_folder import read_run, reading
from tailback.scenario import json_schema, load, loads, show
from tailback.scenario.document import from_yaml
from tailback.scenario.graph import NetworkError, from_file
from tailback.scenario.topology import Link, Star
from tailback.scenario.traffic import Flows
from tailback.simai.topology import read_servers
from tailback.simai.workload import (
    COLLECTIVE_TYPES,
    GROUP_SUFFIXES,
    LIST_KEYS,
    NUMBER_KEYS,
    Workload,
    read_workload,
)
from tailback.workload.graphs import read_graph
from tailback.workload.lists import ListError, from_item
from tailback.workload.sizes import parse

CORPUS = Path(__file__).resolve().parent.parent / "fuzz" / "corpus"
MOST_WIRES, MOST_ENTRIES = 300, 3000
"""Larger scenarios are read, and no plan is made of them: it would take most of the time."""


def clean(*lines: str) -> bool:
    """Whether these may be shown to a person; gives False, as what they say."""
    assert lines
    for line in lines:
        assert line, "an empty line"
        assert line.isprintable(), line
        assert len(line) < 3000, line
    return False


def _scenario(read: Callable[[], Any]) -> bool:
    try:
        scenario = read()
    except InputError as error:
        return clean(*map(str, error.problems))
    if len(scenario.network.wires) > MOST_WIRES:
        return True
    plan = make_plan(scenario)
    entries = sum(len(plan[name]) for name in ("writers", "tcp_connections")) + len(plan["flows"]["list"])
    if entries <= MOST_ENTRIES:
        json.loads(plan_json(plan))
        assert make_plan(loads(show(scenario))) == plan
    return True


def scenario(data: bytes) -> bool:
    """The text of a scenario."""
    return _scenario(lambda: loads(data))


def settings(data: bytes) -> bool:
    """Lines as after `--set`."""
    return _scenario(
        lambda: load("first-flow", sets=data.decode("utf-8", "surrogateescape").split("\n")[:20])
    )


def network(data: bytes) -> bool:
    """A file with a network: the first byte says of which kind."""
    name = "net.yaml" if data[:1] < b"b" else "topology.txt"
    try:
        found = from_file(name, data[1:], Link())
    except NetworkError as error:
        return clean(str(error))
    assert len(found.hosts) >= 2
    assert found.unreachable() is None
    return True


@cache
def _star() -> Any:
    return Star(kind="star", hosts=4).network(lambda *_: b"")


def flows(data: bytes) -> bool:
    """A file with a list of messages: the first byte says of which kind."""
    name = ("f.csv", "f.parquet", "f.txt")[data[0] % 3 if data else 0]
    item = Flows.model_validate({"kind": "flows", "file": name})
    try:
        found = from_item(item, _star(), lambda *_: data[1:])
    except ListError as error:
        return clean(str(error))
    assert len(found) > 0
    assert (found.src != found.dst).all()
    assert (found.size > 0).all()
    assert (found.start >= 0).all()
    return True


def graph(data: bytes) -> bool:
    """A file with a graph of operations: the first byte says of which kind."""
    name = ("g.csv", "g.goal", "g.cm", "g.parquet")[data[0] % 4 if data else 0]
    try:
        found = read_graph(name, 4, lambda *_: BytesIO(data[1:]))
    except ListError as error:
        return clean(str(error))
    assert found
    assert all(0 <= rank < 4 for rank, _, _ in found)
    assert all(0 <= before < len(found) for _, _, after in found for before in after)
    return True


def sizes(data: bytes) -> bool:
    """A distribution of sizes."""
    try:
        found = parse(data, "sizes.txt")
    except UnicodeError:
        raise
    except ValueError as error:
        return clean(str(error))
    assert found.mean >= 1
    return True


@cache
def runs() -> list[tuple[Path, str]]:
    """The files of two small runs, of a scenario and of the HPCC simulator's files, by folder and name."""
    root = Path(tempfile.mkdtemp(prefix="tailback-fuzz."))
    tailback.run("first-flow", sets=["run.duration=20us", "record.max_bins=16"], out=root / "scenario")
    tailback.run_hpcc(hpcc_files.write(root / "files"), out=root / "hpcc")
    found = [
        (folder, str(file.relative_to(folder)))
        for folder in (root / "scenario", root / "hpcc")
        for file in sorted(folder.rglob("*"))
        if file.is_file() and file.name != "report.html"
    ]
    (root / "broken").mkdir()
    return found


def folder(data: bytes) -> bool:
    """A file of the folder of a run; the first byte says which."""
    files = runs()
    whole, name = files[data[0] % len(files) if data else 0]
    broken = whole.parent / "broken" / whole.name
    if not broken.is_dir():
        shutil.copytree(whole, broken)
    kept = (broken / name).read_bytes()
    try:
        (broken / name).write_bytes(data[1:])
        return _read(broken)
    finally:
        (broken / name).write_bytes(kept)


def _read(broken: Path) -> bool:
    try:
        result = read_run(broken)
        with reading(broken):
            explain.as_text(explain.page_of(result))
    except InputError as error:
        return clean(*map(str, error.problems))
    for style in TOOLS:
        try:
            with reading(broken):
                as_tool(result, style, None)
        except InputError as error:  # it may also have nothing of what this tool shows
            clean(*map(str, error.problems))
    return True


def simai(data: bytes) -> bool:
    """A file of SimAI's: the first byte says whether it is a workload or a topology."""
    reader = read_workload if data[:1] < b"b" else read_servers
    try:
        found = reader("simai.txt", data[1:])
    except InputError as error:
        return clean(*map(str, error.problems))
    tokens = len(data.split())
    if isinstance(found, Workload):
        assert len(found.layers) * 12 + 2 <= tokens
    else:
        assert 1 <= found.gpus_per_server <= found.gpus
        assert len(found.topology.links) * 5 <= tokens
    return True


def _hpcc(reader: str) -> Callable[[bytes], bool]:
    return lambda data: hpcc_files.answer(reader, data)


TARGETS: dict[str, Callable[[bytes], bool]] = {
    **{reader: _hpcc(reader) for reader in hpcc_files.READERS},
    "scenario": scenario,
    "settings": settings,
    "network": network,
    "flows": flows,
    "graph": graph,
    "sizes": sizes,
    "simai": simai,
    "folder": folder,
}


def seeds(target: str) -> dict[str, bytes]:
    """Inputs to begin with, by name: those of the corpus, and what the reader takes as it is."""
    found = {file.name: file.read_bytes() for file in sorted((CORPUS / target).glob("*"))}
    if target in hpcc_files.READERS:
        found["whole"] = hpcc_files.TEXTS[f"{target}.txt"].encode()
    if target == "simai":
        found["workload"] = b"a" + simai_files.workload(*simai_files.LAYERS).encode()
        found["topology"] = b"b" + simai_files.topology(2, 2).encode()
    if target == "scenario":
        from tailback import library

        found |= {name: library.text(name) for name in library.names()}
    if target == "folder":
        found |= {
            f"whole{number}": bytes([number]) + (whole / name).read_bytes()
            for number, (whole, name) in enumerate(runs())
        }
    return found


def words(target: str) -> list[str]:
    """The words of a reader, which chance would hardly find."""
    numbers = ["4294967295", "4294967296", "1000000000000", "1e999", "nan", "-1", "0", "1e-320", "65536"]
    if target in hpcc_files.READERS:
        return [*CONFIG_KEYS, *RATE_UNITS, *TIME_UNITS_FS, *numbers]
    if target == "simai":
        return [
            *NUMBER_KEYS,
            *LIST_KEYS,
            *(f"{kind}{suffix}" for kind in COLLECTIVE_TYPES for suffix in GROUP_SUFFIXES),
            *numbers,
        ]
    if target == "graph":
        keys = (
            "num_ranks rank { } calc send recv requires tag Nodes -> trigger oneshot barrier count start size"
        )
        return [*keys.split(), "operation,rank,what,time,bytes,to,channel,after", *numbers]
    if target in ("scenario", "settings", "network", "flows"):
        schema = json_schema()
        names = {name for model in [schema, *schema["$defs"].values()] for name in model["properties"]}
        values = (
            "all auto null true .inf .nan h0 h0..h3 h0..h65534 1ms 1KB 100Gbps star graph fat-tree tcp write"
        )
        return [*sorted(names), *values.split(), "src,dst,bytes,start_ns", *numbers, "&a ", "*a", "!!str "]
    return ["null", "true", "NaN", "Infinity", "[]", "{}", '""', *numbers]


ODD: list[Any] = [
    *(None, True, False, 0, 1, -1, 2, 0.5, -0.5, 1e300, 1e-320, 2**31, 2**63, -(2**63), 10**18, 10**40),
    *("", "x", "\0", "h0", "h1", "é\n", "h0..h3", "auto", "all", "1ms", "0", "1KB", "100Gbps"),
    *([], {}, [[]], [0], {"x": 0}),
]


def with_another_value(data: Any, dice: random.Random) -> Any:
    """Plain data with something in it replaced, taken out, doubled, or put elsewhere."""
    places = list(_places(data))
    if not places:
        return dice.choice(ODD)
    holder, key = dice.choice(places)
    what = dice.random()
    if what < 0.5:
        holder[key] = dice.choice(ODD)
    elif what < 0.7:
        other, name = dice.choice(places)
        holder[key] = json.loads(json.dumps(other[name]))
    elif what < 0.85:
        del holder[key]
    elif isinstance(holder, list):
        holder[key:key] = [holder[key]] * dice.choice([1, 2, 20])
    else:
        holder[dice.choice(["x", *holder])] = holder[key]
    return data


def _places(data: Any) -> Any:
    keys = data if isinstance(data, dict) else range(len(data)) if isinstance(data, list) else ()
    for key in keys:
        yield data, key
        yield from _places(data[key])


def mutated(target: str, data: bytes, dice: random.Random) -> bytes | None:
    """An input with one of its values changed; None where it is no text with values."""
    with contextlib.suppress(ValueError, RecursionError):
        if target == "folder" and data[1:2] == b"{":
            return data[:1] + json.dumps(with_another_value(json.loads(data[1:]), dice)).encode()
        if target == "scenario":
            return json.dumps(with_another_value(from_yaml(data, "").data, dice), default=str).encode()
        if target == "network":
            return data[:1] + json.dumps(with_another_value(from_yaml(data[1:], "").data, dice)).encode()
    return None
