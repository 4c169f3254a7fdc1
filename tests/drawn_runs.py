"""A drawn scenario through everything: run twice, checked, shown in every way, repeated from its folder."""

from __future__ import annotations

import contextlib
import io
import tempfile
import traceback
import warnings
from pathlib import Path

from drawn import Drawn
from drawn_checks import problems
from tailback import explain
from tailback.cli import main
from tailback.counters import TOOLS, as_tool
from tailback.errors import InputError
from tailback.plan import make_plan
from tailback.results import Result
from tailback.running import run_checked
from tailback.scenario import Scenario, load, loads, show

MOST_EVENTS = 20_000_000
"""A run of more is not what was drawn: something goes round and round."""


class TooLongError(Exception):
    """A run that does not end."""


def failures(drawn: Drawn, rendered: bool) -> list[str]:
    """What is wrong with a run: a name, `: ` and the figures each. `rendered`: its folder, too."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            return _failures(drawn, rendered)
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # a panic of the engine is no Exception
            place = traceback.extract_tb(error.__traceback__)[-1]
            where = f"{Path(place.filename).name}:{place.name}"
            return [f"{type(error).__name__} at {where}: {' '.join(str(error).split())[:300]}"]


def _failures(drawn: Drawn, rendered: bool) -> list[str]:
    scenario = drawn.load()
    result = _run(scenario)
    found = problems(scenario, result)
    if _parts(_run(scenario)) != _parts(result):
        found.append("not the same twice: flows, series, counters or meta")
    if not drawn.files and make_plan(loads(show(scenario))) != make_plan(scenario):
        found.append("not the same plan: of what show prints")
    found += _shown(result)
    return found + (_in_a_folder(drawn, result) if rendered else [])


def _run(scenario: Scenario) -> Result:
    def progress(state: object) -> None:
        if state.events > MOST_EVENTS:  # type: ignore[attr-defined]
            raise TooLongError(f"more than {MOST_EVENTS} events")

    return run_checked(scenario, progress=progress)


def _parts(result: Result) -> tuple[object, ...]:
    tables = (result.flows, result.series, result.counters)
    return (*(table.to_pydict() for table in tables), result.meta, result.summary)


def _shown(result: Result) -> list[str]:
    """Everything that prints a run, but for its report."""
    found = []
    for tool in TOOLS:
        try:
            text = as_tool(result, tool)
        except InputError as error:  # a run that has nothing of a tool says so
            text = str(error)
            if "found nothing of" not in text:
                found.append(f"counters --as {tool}: {text}")
        if not text.strip() or "nan" in text.lower().split():
            found.append(f"counters --as {tool}: {text[:200]!r}")
    text = explain.as_text(explain.page_of(result))
    if not text.strip() or "nan" in text.lower().split():
        found.append(f"explain: {text[:200]!r}")
    return found


def _in_a_folder(drawn: Drawn, result: Result) -> list[str]:
    """By the command line: the status, the folder, and the folder again from its own scenario."""
    found = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        path = drawn.save(folder)
        expected = 1 if result.faults else 0
        for source, out in ((path, folder / "a"), (folder / "a" / "scenario.yaml", folder / "b")):
            printed, said = io.StringIO(), io.StringIO()
            with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(said):
                status = main(["run", str(source), "--out", str(out), "--quiet"])
            if status != expected:
                found.append(f"status: {status} with {len(result.faults)} faults: {said.getvalue()[:300]}")
                return found
            lines = said.getvalue().splitlines()
            if len(lines) != len(result.faults):
                found.append(f"stderr: {lines[:3]} with {len(result.faults)} faults")
        first, second = (_files(folder / one) for one in "ab")
        differ = sorted(name for name in {*first, *second} if first.get(name) != second.get(name))
        # What the scenario of the folder gives is given, and no assumption any more.
        of_defaults = {"report.html", "summary.json"}
        if set(differ) - of_defaults:
            found.append(f"not the same again: {differ}")
        kept = Result.load(folder / "a")
        if _parts(kept)[:4] != _parts(result)[:4]:
            found.append("not the same read back: flows, series, counters or meta")
        explain.as_text(explain.page_of(kept))
        again = load(str(folder / "a" / "scenario.yaml"))
        if make_plan(again) != kept.plan:
            found.append("not the same plan: of the folder's scenario")
    return found


def _files(folder: Path) -> dict[str, bytes]:
    """All files but the one of wall-clock times."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name != "timing.json"
    }
