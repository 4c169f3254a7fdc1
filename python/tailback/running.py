"""Runs a checked scenario in the engine and makes its `Result`."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeVar, cast

from tailback import interrupts, start_up
from tailback.capture_option import CAPTURE_FILE, Capture
from tailback.controller import Checked, Factory, failure
from tailback.errors import InputError
from tailback.files.out_folder import Occupied, OutFolder, claim, replacing
from tailback.plan import Packed, make_plan, packed_plan
from tailback.scenario import Scenario, Source, load

if TYPE_CHECKING:
    from tailback._engine import Progress, Simulation
    from tailback.results import Result

Recorded = TypeVar("Recorded", covariant=True)

EVENTS_PER_STEP = 200_000
"""Events per core between two checks for Ctrl-C and updates of the progress bar: about 10 ms."""


class Cores(NamedTuple):
    """Cores for one run."""

    number: int | None = 1
    """None: all, where that makes the run faster."""
    on_single_core: Callable[[str], None] | None = None
    """Called with the reason why the run stays on one core."""


ONE_CORE = Cores()


class Interrupted(KeyboardInterrupt):
    """Ctrl-C during a run. `result` holds the simulated part; it is not `complete`, and is written to `out`."""

    def __init__(self, result: Result) -> None:
        super().__init__("the run was interrupted; `result` has what was simulated")
        self.result = result


class RunFailed(RuntimeError):  # noqa: N818  it is what happened
    """A run ended without a result; the text names the run."""


def run(
    scenario: Source,
    *,
    sets: Sequence[str] = (),
    seed: int | None = None,
    out: str | os.PathLike[str] | None = None,
    progress: Callable[[Progress], None] | None = None,
    controllers: Mapping[str, Factory | str] | None = None,
    report: bool = True,
    capture: Capture | None = None,
    threads: int | None = 1,
) -> Result:
    """Runs a scenario and returns its result.

    Args:
        scenario: A built-in name, a path, plain data, or a `Scenario`.
        sets: Texts `path=value`, as after `--set`.
        seed: Replaces `run.seed`.
        out: Folder for the result; new or empty.
        progress: Called about a hundred times per second with `time_ps`, `packet_hops`, `events` and `done`.
        controllers: Congestion controllers in Python, subclasses of `tailback.Controller`, by their names in
            the scenario. A single one that the scenario does not name becomes host.congestion.
        report: True: write report.html to `out`.
        capture: Links whose frames are written to capture.pcapng in `out`.
        threads: Cores for the run; `None`: all, where that makes the run faster. Results do not depend on it.
            A run that cannot be partitioned stays on one core.

    Raises:
        InputError: the scenario or `out` cannot be used, or a controller in Python failed; nothing was
            written.
        Interrupted: Ctrl-C, or a KeyboardInterrupt that `progress` raised, during the run. It is a
            KeyboardInterrupt; its `result` holds the simulated part, which is also written to `out`.
        OSError: `out` could not be written, for example because the disk is full; no part of the result is
            left.
    """
    checked = load(scenario, sets=sets, seed=seed, controllers=controllers)
    return run_checked(checked, out, progress, report, capture, Cores(threads))


def run_checked(
    checked: Scenario,
    out: str | os.PathLike[str] | OutFolder | None = None,
    progress: Callable[[Progress], None] | None = None,
    report: bool = True,
    capture: Capture | None = None,
    cores: Cores = ONE_CORE,
) -> Result:
    """As `run`, for a scenario that `load` has checked. `out` may be claimed already.

    Raises:
        InputError, Interrupted, OSError: as `run`.
    """
    # Arrow takes a tenth of a second to load, and reading a scenario does not need it.
    from tailback.results import Result

    if capture is not None:
        capture.check_time(checked)
    plan = make_plan(checked)
    with own_controllers(checked):
        return carry_out(
            begin(packed_plan(plan), list(checked.own_controllers.values())),
            lambda recording, usage: Result.from_recording(checked, plan, recording, *usage),
            out,
            progress,
            report,
            capture,
            cores,
        )


@contextmanager
def own_controllers(scenario: Scenario) -> Iterator[None]:
    """Turns an error of a controller in Python into an InputError, around code that runs the engine."""
    from tailback._engine import ControllerError

    try:
        yield
    except ControllerError as error:
        place, text = failure(error, scenario.own_controllers[error.args[0]].kind)
        raise InputError.at(place, text) from error.__cause__


class Engine(Protocol[Recorded]):
    """A run in the engine."""

    def advance(self, max_events: int) -> Progress:
        """Executes up to `max_events` events."""

    def keep_in(self, folder: str) -> None:
        """Writes large tables to files in this folder during the run."""

    def finish(self) -> Recorded:
        """Ends the run at its current time and returns the recording."""


class Capturing(Protocol):
    """An engine that writes captures."""

    def capture(self, path: str, links: Sequence[str], start_ps: int, stop_ps: int, snap_bytes: int) -> None:
        """Starts to write the frames of links to a file."""

    def end_capture(self) -> None:
        """Closes the file."""


class MultiCore(Protocol):
    """An engine that can use several cores."""

    def use_threads(self, wanted: int | None) -> tuple[int, str | None]:
        """Returns the number of cores that it uses, and the reason why not more."""


class RunUsage(NamedTuple):
    """Time that a run took; `interrupted` is true if it did not reach its end."""

    wall_s: float
    cpu_s: float
    interrupted: bool


def carry_out(
    simulation: Engine[Recorded],
    make: Callable[[Recorded, RunUsage], Result],
    out: str | os.PathLike[str] | OutFolder | None,
    progress: Callable[[Progress], None] | None,
    report: bool = True,
    capture: Capture | None = None,
    cores: Cores = ONE_CORE,
) -> Result:
    """Simulates until the end of the run or Ctrl-C, makes the result, and writes it to `out`.

    Raises:
        Interrupted: Ctrl-C; it holds the result of the simulated part.
        InputError: `out` or `capture` cannot be used, or the engine refused an input during the run; nothing
            was written.
        OSError: the result could not be written.
    """
    # From here on a first Ctrl-C ends the simulation, not the process: its result is still written.
    with nullcontext() if out is None else claimed(out) as folder, interrupts.noted() as seen:
        if folder is not None:
            from tailback._engine import remove_when_out_of_memory

            held = folder.growing()
            simulation.keep_in(str(held))
            remove_when_out_of_memory([str(path) for path in (held, *folder.created)])
        if capture is not None:
            _begin_capture(simulation, capture, folder)
        core_count = _use_cores(simulation, cores)
        start_up.loading()
        import tailback.results  # noqa: F401  # NumPy and Arrow load here, so that the run's time does not include it

        start_up.loaded()
        # With one core, other threads of this process may carry out other runs.
        cpu_time = time.thread_time if core_count == 1 else time.process_time
        wall, cpu, interrupted = time.perf_counter(), cpu_time(), False
        try:
            while not (state := simulation.advance(core_count * EVENTS_PER_STEP)).done and not seen:
                if progress is not None:
                    progress(state)
            if progress is not None:
                progress(state)
        except KeyboardInterrupt:
            interrupted = True
        except InputError:
            raise
        except (
            ValueError
        ) as error:  # such as a message of a job with too many packets, found only during the run
            raise InputError.at("", str(error)) from None
        interrupted = interrupted or (bool(seen) and not state.done)
        if capture is not None:
            _capturing(simulation).end_capture()
        # Making the result frees the parts of the recording that it does not keep, before writing needs memory.
        result = make(
            simulation.finish(), RunUsage(time.perf_counter() - wall, cpu_time() - cpu, interrupted)
        )
        if folder is not None:
            result.write(folder, report)
    if interrupted:
        raise Interrupted(result)
    return result


def _begin_capture(simulation: object, capture: Capture, folder: OutFolder | None) -> None:
    if folder is None:
        raise InputError.at("capture", "found no out, expected a folder that gets the file")
    path = folder.growing() / CAPTURE_FILE
    try:
        _capturing(simulation).capture(
            str(path), capture.links, capture.start_ps, capture.stop_ps, capture.snap_bytes
        )
    except ValueError as error:
        raise InputError.at("--capture", str(error)) from None


def _use_cores(simulation: object, cores: Cores) -> int:
    """Gives a run its cores, and returns their number."""
    if cores.number == 1:
        return 1
    count, why = cast(MultiCore, simulation).use_threads(cores.number)
    if why is not None and cores.on_single_core is not None:
        cores.on_single_core(why)
    return count


def _capturing(simulation: object) -> Capturing:
    return cast(Capturing, simulation)


def begin(packed: Packed, controllers: Sequence[Checked] = ()) -> Simulation:
    """Loads a plan into the engine, before the first event.

    Raises:
        InputError: the engine refuses the plan.
    """
    from tailback._engine import Simulation

    try:
        return Simulation(packed.plan, controllers, packed.messages, packed.graphs)
    except ValueError as error:
        raise InputError.at("", str(error)) from None


def claimed(
    out: str | os.PathLike[str] | OutFolder, new: bool = False, resume: bool = False
) -> AbstractContextManager[OutFolder]:
    """Claims a folder for a result before a long run, unless it is claimed already. With `resume` the folder
    may have any files.

    Raises:
        InputError: it is not a folder, not empty, another run writes there, or it cannot be written.
        Occupied: with `new`, the folder exists already.
    """
    if isinstance(out, OutFolder):
        return nullcontext(out)
    if re.match(r"[a-z][a-z0-9+]+:/", os.fspath(out)):  # in a path, the two slashes may have become one
        text = "found a URL, expected a folder; of a sweep, --store takes a URL"
        raise InputError.at(f"--out {os.fspath(out)}", text)
    path = Path(out)
    try:
        return claim(path, "absent" if new else "any" if resume else "empty")
    except (OSError, ValueError) as error:
        if new and isinstance(error, Occupied):
            raise
        raise _unusable_folder(path, error, "a new or empty folder that can be written") from None


@contextmanager
def replaced(out: Path) -> Iterator[None]:
    """Around `claimed`: replaces an older result in `out` by the new one.

    Raises:
        InputError: `out` is not a result of this command, or cannot be moved.
    """
    with ExitStack() as aside:
        try:
            aside.enter_context(replacing(out))
        except (OSError, ValueError) as error:
            raise _unusable_folder(out, error, "a result of this command, or a new or empty folder") from None
        yield


def _unusable_folder(path: Path, error: OSError | ValueError, expected: str) -> InputError:
    if isinstance(error, Occupied):
        found = str(error)
    elif isinstance(error, FileExistsError):
        found = "a file"
    elif isinstance(error, OSError):
        found = (error.strerror or str(error)).lower()
    else:
        found = "a name that no folder can have"
    return InputError.at(f"--out {path}", f"found {found}, expected {expected}")
