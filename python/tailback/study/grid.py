"""Sweeps: a scenario at every point of a grid, or at a sample of points, with several seeds each."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from concurrent.futures import Executor
from contextlib import suppress
from pathlib import Path
from typing import Any

from tailback import interrupts
from tailback.errors import InputError, Problem, plain
from tailback.files.out_folder import OutFolder
from tailback.files.storage import Storage
from tailback.metrics import Metric, main_metrics
from tailback.metrics.metric import never
from tailback.running import run_checked
from tailback.scenario import Scenario, load
from tailback.study.driver import Progress, executor_on, journalled, study_folder
from tailback.study.journal import NAME as JOURNAL
from tailback.study.journal import Row
from tailback.study.points import Point, in_words, sets_of
from tailback.study.run import Task, digest_of
from tailback.study.study_file import (
    Source,
    asked_for,
    may_change_parts,
)
from tailback.study.sweep_design import Design, read_design
from tailback.study.sweep_result import SweepResult

_MOMENT = "1us"
"""Length of the run that shows which figures there are."""
_MOST_TOLD = 10
"""Points of which it is said why they are impossible, when all are."""
_OWNER = "design.json"
"""The file of a storage that says which sweep it belongs to."""
_OWNER_BYTES = 1 << 16
_OTHERS = ("sweep.json", "folders", "runs", "summary.parquet")
"""What a sweep leaves in a storage; one of an older version left no `_OWNER`."""


class SweepProgress(Progress):
    def begun(self, design: Design, points: list[Point], runs: int) -> None:
        """There are `runs` runs, some of which may have been done before."""

    def ended(self, row: Row) -> None:
        """A run has ended, well or not; or it had before, or is impossible."""


class _Plan:
    """The points of a sweep, each looked at when it is first asked for: with a hundred thousand of them the
    first runs do not wait for the last points.
    """

    def __init__(self, design: Design) -> None:
        """Looks until one is found that is possible.

        Raises:
            InputError: no point can be run.
        """
        self._design = design
        self.points, self.seeds = design.all_points(), design.seeds_in_order()
        self._digests: dict[int, str] = {}
        self._problems: dict[int, InputError] = {}
        self.base = load(design.scenario, sets=design.sets, seed=self.seeds[0])
        """The scenario without the settings of a point."""
        if all(self.digest(number) is None for number in range(len(self.points))):
            raise self._none_possible()

    def _none_possible(self) -> InputError:
        """With each point, but where all say the same."""
        every = {str(error): number for number, error in reversed(self._problems.items())}
        if len(every) == 1:
            return self._problems[0]
        told = sorted(every.values())[:_MOST_TOLD]
        return InputError(
            Problem("impossible", (), f"{in_words(self.points[one])}: {self.problem(one)}") for one in told
        )

    def digest(self, number: int) -> str | None:
        """Of a point; None where it is impossible."""
        if number not in self._digests and number not in self._problems:
            sets = _sets(self._design, self.points[number])
            try:
                self._digests[number] = digest_of(load(self._design.scenario, sets=sets, seed=self.seeds[0]))
            except InputError as error:
                self._problems[number] = error
        return self._digests.get(number)

    def problem(self, number: int) -> str:
        return str(self._problems[number].problems[0])


def sweep(
    source: Source | Design | None = None,
    /,
    *,
    out: str | os.PathLike[str] | OutFolder | None = None,
    resume: bool = False,
    jobs: int | None = None,
    executor: Executor | None = None,
    on: str | None = None,
    progress: SweepProgress | None = None,
    **design: Any,
) -> SweepResult:
    """Runs a scenario at many points with several seeds each, and says which differences are noise.

    A run that fails is a row with its message, and the others go on. Ctrl-C keeps what is complete; the
    result then is not `complete`, and in Python the interrupt goes no further.

    Args:
        source: The file of a sweep, or plain data in the same form; without it, `design` has its fields:
            `sweep(scenario="first-flow", vary={"traffic.0.qps": [1, 2]}, seeds="1..5")`.
        out: A folder, new or empty, for the journal, tables and page; None keeps all in memory.
        resume: `out` is that of a sweep that was ended early: what is done there is not run again. Without
            `source` and fields it is the sweep that was begun there.
        jobs: Runs at a time; default: as many as there are cores.
        executor: Where the runs are carried out; default: in processes of this machine. Any
            `concurrent.futures.Executor` will do that can import tailback where it works; it is shut down.
        on: `ray`, the Ray cluster of this machine, or `ray://host:10001`, in place of an executor.
        progress: Told what happens.
        design: See `source`.

    Raises:
        InputError: the sweep, or `out`, cannot be used, or no point is possible; nothing was run then.
        OSError: `out`, or the storage of `store`, could not be written; the journal has what was complete.
    """
    asked = asked_for(Design, read_design, source, design, out, resume)
    planned = _Plan(asked)
    with executor_on(on, executor) as executor:
        _refuse_what_no_run_has(asked, planned)
        storage = None if asked.store is None else Storage(asked.store)
        if storage is not None:
            storage.check_writable()
            _claim_storage(storage, asked, planned.base)
        with study_folder(out, resume, asked, gone_if_refused=(Design.FILE, JOURNAL, "folders")) as folder:
            try:
                told = progress or SweepProgress()
                rows, interrupted = _run_all(asked, planned, folder, jobs, executor, told)
            finally:
                if folder is not None:
                    _sweep_up(folder)
            result = SweepResult(asked, planned.points, planned.seeds, rows, interrupted)
            if folder is not None:
                with interrupts.noted():
                    result.write(folder)
            if storage is not None:
                with tempfile.TemporaryDirectory() as name, interrupts.noted():
                    result.write(Path(name))
                    storage.put(Design.FILE, (asked.canonical() + "\n").encode())
                    storage.put_folder("", Path(name))
    return result


def _paths(design: Design) -> list[tuple[int, Metric]]:
    """The figures of summary.json that are asked for by their paths, and their places in `metrics`."""
    return [
        (index, one) for index, one in enumerate(design.shown()) if one.path and one not in main_metrics()
    ]


def _refuse_what_no_run_has(design: Design, planned: _Plan) -> None:
    """Before the first run: figures of summary.json that are asked for and that no run can have.

    A run of a moment shows what there is.

    Raises:
        InputError: names them.
    """
    _refuse_unknown_parts(design, planned)
    paths = [(index, one.path) for index, one in _paths(design)]
    if not paths:
        return
    first = next(number for number in range(len(planned.points)) if planned.digest(number) is not None)
    sets = [*_sets(design, planned.points[first]), f"run.duration={_MOMENT}"]
    try:
        summary = run_checked(load(design.scenario, sets=sets, seed=planned.seeds[0])).summary
    except InputError:
        return  # something needs more time than that; the first run shows what there is
    problems = [
        Problem("", ("metrics", index), f"found {'.'.join(path)}, which no run has: {why}")
        for index, path in paths
        if (why := never(summary, path)) is not None
    ]
    if problems:
        raise InputError(problems)


def _refuse_unknown_parts(design: Design, planned: _Plan) -> None:
    """Before the first run: metrics of a traffic item or a host that the scenario has not.

    Raises:
        InputError: names them.
    """
    if may_change_parts({setting for point in planned.points for setting in point}):
        return  # other points may have what the first has not
    problems = [
        Problem("", ("metrics", index), why)
        for index, one in enumerate(design.shown())
        if (why := one.unknown_in(planned.base.items, planned.base.network.hosts)) is not None
    ]
    if problems:
        raise InputError(problems)


def _refuse_what_the_first_has_not(design: Design, row: Row) -> None:
    """After the first run that is done: figures of summary.json that are asked for and that it has not.

    Raises:
        InputError: names them.
    """
    missing = [
        Problem("", ("metrics", index), f"found {one.name}, which the first run has not; no other was run")
        for index, one in _paths(design)
        if row["metrics"].get(one.label) is None
    ]
    if missing:
        raise InputError(missing)


def _sets(design: Design, point: Point) -> list[str]:
    return [*design.sets, *sets_of(point)]


def _run_all(
    design: Design,
    planned: _Plan,
    folder: Path | None,
    jobs: int | None,
    executor: Executor | None,
    progress: SweepProgress,
) -> tuple[list[Row], bool]:
    """A row for each run that has ended, or cannot begin, and whether there was an interrupt."""
    rows: dict[tuple[int, int], Row] = {}
    interrupted = False

    def ended(place: tuple[int, int], row: Row) -> None:
        rows[place] = row
        progress.ended({**row, "point": place[0], "seed": place[1]})

    with journalled(folder, jobs, executor, progress) as driver:

        def waiting() -> Iterator[tuple[tuple[int, int], Task]]:
            for place, task in _tasks(design, planned, folder):
                before = None if task is None else driver.done_before(task)
                if task is None:
                    ended(place, {"status": "impossible", "message": planned.problem(place[0])})
                elif before is not None:
                    ended(place, before)
                else:
                    yield place, task

        progress.begun(design, planned.points, len(planned.points) * len(planned.seeds))
        try:
            first = True
            for place, row in driver.rows(waiting()):
                ended(place, row)
                if first and design.metrics and row["status"] == "done":
                    first = False
                    _refuse_what_the_first_has_not(design, row)
        except KeyboardInterrupt:
            interrupted = True
    return _in_order(rows), interrupted


def _in_order(rows: Mapping[tuple[int, int], Row]) -> list[Row]:
    """With the place of each, and nothing of when it ran or what it took: equal sweeps have equal rows."""
    return [
        {
            "point": point,
            "seed": seed,
            "status": row["status"],
            "message": row.get("message", ""),
            "faults": row.get("faults", []),
            "metrics": row.get("metrics", {}),
        }
        for (point, seed), row in sorted(rows.items())
    ]


def _tasks(
    design: Design, planned: _Plan, folder: Path | None
) -> Iterator[tuple[tuple[int, int], Task | None]]:
    """In the order in which they are run: a seed of all points, and then the next."""
    shown = tuple(design.shown())
    for seed in planned.seeds:
        for number, point in enumerate(planned.points):
            digest = planned.digest(number)
            root = design.store or folder
            place = f"{root}/folders/point-{number}/seed-{seed}" if design.keep and root else None
            sets = tuple(_sets(design, point))
            yield (
                (number, seed),
                None if digest is None else Task(design.scenario, sets, seed, digest, shown, place),
            )


def _sweep_up(folder: Path) -> None:
    """What runs that were ended had begun to write."""
    for rest in folder.glob("folders/point-*/.seed-*.writing"):
        shutil.rmtree(rest, ignore_errors=True)
    for empty in (*folder.glob("folders/point-*"), folder / "folders"):
        with suppress(OSError):
            empty.rmdir()


def _claim_storage(storage: Storage, design: Design, base: Scenario) -> None:
    """Marks a storage as that of a design, if it is nobody's.

    `base` is the scenario without the settings of a point: a file that was edited makes another design.

    Raises:
        InputError: it belongs to another design.
        OSError: it cannot be written.
    """
    own = _design_hash(design, base)
    kept = storage.get(_OWNER, _OWNER_BYTES)
    if kept is None:
        if there := [name for name in _OTHERS if storage.holds(name)]:
            raise _taken(storage, f"{there[0]} of a sweep that left no {_OWNER}", own)
        about = {"design": own, "sweep": design.name}
        storage.put(_OWNER, (json.dumps(about, sort_keys=True) + "\n").encode())
        return
    try:
        about = json.loads(kept)
        found, name = str(about["design"]), str(about["sweep"])
    except (ValueError, LookupError, TypeError, RecursionError):
        raise _taken(storage, f"a {_OWNER} that cannot be read", own) from None
    if found != own:
        raise _taken(storage, f"the results of another sweep, {plain(name)} (design {plain(found)})", own)


def _design_hash(design: Design, base: Scenario) -> str:
    """A hash of what a sweep runs, whichever build of Tailback runs it, and wherever its results go."""
    asked = design.model_copy(update={"store": None, "about": "", "scenario": design.name}).canonical()
    return hashlib.sha256(f"{asked}\0{digest_of(base, '')}".encode()).hexdigest()[:16]


def _taken(storage: Storage, found: str, own: str) -> Exception:
    return storage.refused(f"found {found}, expected an empty storage or one of this design ({own})")
