"""Running a scenario: from its checked form through the engine to a `Result`."""

from __future__ import annotations

import contextlib
import os
import signal
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeVar

from tailback.plan import make_plan, plan_json
from tailback.scenario import Problem, Scenario, ScenarioError, Source, load

if TYPE_CHECKING:
    from tailback._engine import Progress, Simulation
    from tailback.results import Result

Recorded = TypeVar("Recorded", covariant=True)

EVENTS_PER_STEP = 200_000
"""Events between two looks at Ctrl-C and the progress bar: about 10 ms."""


def run(
    scenario: Source,
    *,
    sets: Sequence[str] = (),
    seed: int | None = None,
    out: str | os.PathLike[str] | None = None,
    progress: Callable[[Progress], None] | None = None,
) -> Result:
    """Runs a scenario and gives its result. Ctrl-C ends the run early; `result.complete` is then False.

    Args:
        scenario: A built-in name, a path, plain data, or a `Scenario`.
        sets: `path=value` each, as after `--set`.
        seed: Replaces `run.seed`.
        out: Folder to write the result to; new or empty.
        progress: Called about a hundred times a second with `time_ps`, `packet_hops`, `events` and `done`.

    Raises:
        ScenarioError: the scenario, or `out`, cannot be used; nothing was run and nothing written.
    """
    return run_checked(load(scenario, sets=sets, seed=seed), out, progress)


def run_checked(
    checked: Scenario,
    out: str | os.PathLike[str] | None = None,
    progress: Callable[[Progress], None] | None = None,
) -> Result:
    """As `run`, of a scenario as `load` gave it: it is not checked again.

    Raises:
        ScenarioError: `out` cannot be used; nothing was run and nothing written.
    """
    # Arrow takes a while to load, and reading a scenario does not need it.
    from tailback.results import Result

    plan = make_plan(checked)
    return carry_out(
        _simulation(plan_json(plan)),
        lambda recording, took: Result.from_recording(checked, plan, recording, *took),
        out,
        progress,
    )


class Engine(Protocol[Recorded]):
    """A run under way in the engine."""

    def advance(self, max_events: int) -> Progress:
        """Executes up to `max_events` events."""

    def finish(self) -> Recorded:
        """Ends the run where it stands and hands over what was recorded."""


class Took(NamedTuple):
    """What a run took, and whether it was cut short."""

    wall_s: float
    cpu_s: float
    interrupted: bool


def carry_out(
    simulation: Engine[Recorded],
    make: Callable[[Recorded, Took], Result],
    out: str | os.PathLike[str] | None,
    progress: Callable[[Progress], None] | None,
) -> Result:
    """Drives a run to its end or to Ctrl-C, makes its result, and writes that to `out`.

    Raises:
        ScenarioError: `out` cannot be used; nothing was run and nothing written.
    """
    folder = None if out is None else claim(Path(out))
    written = False
    try:
        wall, cpu, interrupted = time.perf_counter(), time.thread_time(), False
        try:
            while not (state := simulation.advance(EVENTS_PER_STEP)).done:
                if progress is not None:
                    progress(state)
            if progress is not None:
                progress(state)
        except KeyboardInterrupt:
            interrupted = True
        recording = simulation.finish()
        took = Took(time.perf_counter() - wall, time.thread_time() - cpu, interrupted)
        # Whoever has interrupted the run already wants to get out. All others would lose a whole run.
        with contextlib.nullcontext() if interrupted or folder is None else _first_interrupt_ignored():
            result = make(recording, took)
            if folder is not None:
                result.write(folder)
                written = True
        return result
    finally:
        if folder is not None and not written:
            _give_up(folder)


@contextlib.contextmanager
def _first_interrupt_ignored() -> Iterator[None]:
    """Lets a Ctrl-C pass; a second one interrupts. Where another handler is in place, that one stays."""
    ours = threading.current_thread() is threading.main_thread()
    if not ours or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield
        return

    def ignore(_number: int, _frame: object) -> None:
        signal.signal(signal.SIGINT, signal.default_int_handler)

    signal.signal(signal.SIGINT, ignore)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _simulation(plan: str) -> Simulation:
    from tailback._engine import Simulation

    try:
        return Simulation(plan)
    except ValueError as error:
        raise ScenarioError([Problem("", (), str(error))]) from None


def claim(out: Path) -> Path:
    """Makes sure, before a long run, that a result can be written to `out`; makes the folder.

    Raises:
        ScenarioError: it is not a folder, not empty, or cannot be written.
    """
    try:
        out.mkdir(parents=True, exist_ok=True)
        if any(out.iterdir()):
            raise ScenarioError([_out_problem(out, "a folder that is not empty")])
        for folder in (out, out.parent):
            with tempfile.TemporaryFile(dir=folder):
                pass
    except ScenarioError:
        raise
    except FileExistsError:
        raise ScenarioError([_out_problem(out, "a file")]) from None
    except OSError as error:
        raise ScenarioError([_out_problem(out, (error.strerror or str(error)).lower())]) from None
    except ValueError:
        raise ScenarioError([_out_problem(out, "a name that no folder can have")]) from None
    return out


def _out_problem(out: Path, found: str) -> Problem:
    return Problem(f"--out {out}", (), f"found {found}, expected a new or empty folder that can be written")


def _give_up(folder: Path) -> None:
    """Takes an empty folder away again."""
    with contextlib.suppress(OSError):  # something else put a file there: not ours to remove
        folder.rmdir()
