"""Digests of runs, a line each: what two engines, two environments or two machines must agree on.

    python tests/digests.py --compare target/checked/lib_engine.so drawn:1:0:300 first-flow
    python tests/digests.py --folders drawn:1:0:4

A scenario is a built-in name, `built-in` for all of them, or drawn ones by seed, first and the one after the
last. With `--folders` each file of a result has its digest, but for the one of wall-clock times.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import importlib.machinery
import importlib.util
import io
import itertools
import locale
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

MOST_EVENTS = 400_000
"""Of a built-in scenario, which would take minutes."""


def use_engine(path: str) -> None:
    """Has another build of the engine in place of the installed one."""
    loader = importlib.machinery.ExtensionFileLoader("tailback._engine", path)
    spec = importlib.util.spec_from_file_location("tailback._engine", path, loader=loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    sys.modules["tailback._engine"] = module


def scenarios(names: list[str]) -> Iterator[tuple[str, Any]]:
    """The scenarios by their names."""
    from drawn import draw
    from tailback.scenario import load

    for name in names:
        if name.startswith("drawn:"):
            seed, first, end = map(int, name.split(":")[1:])
            for number in range(first, end):
                yield f"drawn:{seed}:{number}", draw(seed, number).load()
        else:
            yield name, load(name)


def of_recording(recording: Any) -> str:
    """Of everything that the engine recorded."""
    import pyarrow as pa

    found = hashlib.sha256(recording.meta_json.encode())
    for table in (recording.flows, recording.series, recording.counters):
        sink = io.BytesIO()
        table = pa.table(table)
        with pa.ipc.new_stream(sink, table.schema) as stream:
            stream.write_table(table)
        found.update(sink.getvalue())
    return found.hexdigest()


def recordings(names: list[str]) -> Iterator[str]:
    """A line for each run."""
    from tailback._engine import Simulation
    from tailback.plan import make_plan, plan_json

    for name, scenario in scenarios(names):
        simulation = Simulation(plan_json(make_plan(scenario)))
        progress = simulation.advance(MOST_EVENTS)
        try:
            yield f"{name} {progress.events} {of_recording(simulation.finish())}"
        except Exception as error:
            yield f"{name} {type(error).__name__} {error}"


def folders(names: list[str]) -> Iterator[str]:
    """A line for each file of each result."""
    from tailback.running import run_checked

    for name, scenario in scenarios(names):
        with tempfile.TemporaryDirectory() as folder:
            out = run_checked(scenario).write(Path(folder) / "out")
            yield from of_files(name, out)


def of_files(name: str, folder: Path) -> Iterator[str]:
    """A line for each file under a folder."""
    for path in sorted(folder.rglob("*")):
        if path.is_file() and path.name != "timing.json":
            yield f"{name}/{path.relative_to(folder)} {hashlib.sha256(path.read_bytes()).hexdigest()}"


def compare(engines: list[str], names: list[str]) -> int:
    """Runs of several builds of the engine against those of the installed one, all at the same time."""
    command = [sys.executable, __file__, *names]
    others = [[*command, "--engine", engine] for engine in engines]
    runs = [subprocess.Popen(one, stdout=subprocess.PIPE, text=True) for one in (command, *others)]
    usual, *found = [run.communicate()[0].splitlines() for run in runs]
    differ = sum(run.returncode != 0 for run in runs)
    for engine, lines in zip(engines, found, strict=True):
        pairs = list(itertools.zip_longest(usual, lines))
        unlike = [pair for pair in pairs if pair[0] != pair[1]]
        print(f"{engine}: {len(pairs)} runs, {len(unlike)} not as of the installed engine")
        for ours, theirs in unlike:
            print(f"  installed: {ours}\n  this one:  {theirs}")
        differ += len(unlike)
    return 1 if differ or not usual else 0


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="+")
    parser.add_argument("--engine", help="a build of crates/py in place of the installed one")
    parser.add_argument("--compare", nargs="*", default=[], metavar="ENGINE", help="with the installed one")
    parser.add_argument("--folders", action="store_true")
    given = parser.parse_args()
    if given.compare:
        sys.exit(compare(given.compare, given.names))
    with contextlib.suppress(locale.Error):
        locale.setlocale(locale.LC_ALL, "")
    if given.engine:
        use_engine(given.engine)
    names = []
    for name in given.names:
        if name == "built-in":
            from tailback.scenario import builtin_names

            names += builtin_names()
        else:
            names.append(name)
    for line in (folders if given.folders else recordings)(names):
        print(line, flush=True)


if __name__ == "__main__":
    main()
