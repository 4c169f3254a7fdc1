"""Running a scenario: from its checked form through the engine to a `Result`."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeVar, cast

from tailback import signals, start_up
from tailback.capture import FILE, Capture
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
"""Events of a core between two looks at Ctrl-C and the progress bar: about 10 ms."""


class Threads(NamedTuple):
    """Cores for one run."""

    wanted: int | None = 1
    """How many; none: as many as there are, where that is worth it."""
    one: Callable[[str], None] | None = None
    """Is told why the run stays on one core."""


ONE = Threads()


class Interrupted(KeyboardInterrupt):
    """Ctrl-C during a run. `result` has the part that ran; it is not `complete`, and it is in `out`."""

    def __init__(self, result: Result) -> None:
        """With what there is."""
        super().__init__("the run was interrupted; `result` has what was simulated")
        self.result = result


class RunFailed(RuntimeError):  # noqa: N818  it is what happened
    """A run ended without a result; the text says which."""


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
    """Runs a scenario and gives its result.

    Args:
        scenario: A built-in name, a path, plain data, or a `Scenario`.
        sets: `path=value` each, as after `--set`.
        seed: Replaces `run.seed`.
        out: Folder to write the result to; new or empty.
        progress: Called about a hundred times a second with `time_ps`, `packet_hops`, `events` and `done`.
        controllers: Congestion controllers in Python, by the names that the scenario knows them by:
            subclasses of `tailback.Controller`. One alone that nothing names is host.congestion.
        report: Whether `out` gets a report.html.
        capture: Links whose frames `out` gets as capture.pcapng.
        threads: Cores that the run has; `None`: as many as there are, where that is worth it. Results are the
            same. A run that cannot be cut in parts stays on one.

    Raises:
        InputError: the scenario, or `out`, cannot be used, or a controller in Python failed; nothing was
            written.
        Interrupted: Ctrl-C, or a KeyboardInterrupt that `progress` raised, during the run. It is itself a
            KeyboardInterrupt; its `result` has the part that ran, and is in `out`, too.
        OSError: `out` could not be written, such as when the disk is full; nothing of the result is there.
    """
    checked = load(scenario, sets=sets, seed=seed, controllers=controllers)
    return run_checked(checked, out, progress, report, capture, Threads(threads))


def run_checked(
    checked: Scenario,
    out: str | os.PathLike[str] | OutFolder | None = None,
    progress: Callable[[Progress], None] | None = None,
    report: bool = True,
    capture: Capture | None = None,
    threads: Threads = ONE,
) -> Result:
    """As `run`, of a scenario as `load` gave it: it is not checked again. `out` may be claimed already.

    Raises:
        InputError, Interrupted, OSError: as `run`.
    """
    # Arrow takes a while to load, and reading a scenario does not need it.
    from tailback.results import Result

    plan = make_plan(checked)
    with own_controllers(checked):
        return carry_out(
            begin(packed_plan(plan), list(checked.own_controllers.values())),
            lambda recording, took: Result.from_recording(checked, plan, recording, *took),
            out,
            progress,
            report,
            capture,
            threads,
        )


@contextmanager
def own_controllers(scenario: Scenario) -> Iterator[None]:
    """Where controllers in Python are called: one that fails is a InputError."""
    from tailback._engine import ControllerError

    try:
        yield
    except ControllerError as error:
        place, text = failure(error, scenario.own_controllers[error.args[0]].kind)
        raise InputError.at(place, text) from error.__cause__


class Engine(Protocol[Recorded]):
    """A run under way in the engine."""

    def advance(self, max_events: int) -> Progress:
        """Executes up to `max_events` events."""

    def keep_in(self, folder: str) -> None:
        """What there is very much of goes to files in this folder."""

    def finish(self) -> Recorded:
        """Ends the run where it stands and hands over what was recorded."""


class Capturing(Protocol):
    """An engine that writes captures."""

    def capture(self, path: str, links: Sequence[str], start_ps: int, stop_ps: int, snap_bytes: int) -> None:
        """Writes what links carry from now on."""

    def end_capture(self) -> None:
        """Ends that."""


class Cut(Protocol):
    """An engine that may have several cores."""

    def use_threads(self, wanted: int | None) -> tuple[int, str | None]:
        """How many it takes, and why not more."""


class Took(NamedTuple):
    """What a run took, and whether it was cut short."""

    wall_s: float
    cpu_s: float
    interrupted: bool


def carry_out(
    simulation: Engine[Recorded],
    make: Callable[[Recorded, Took], Result],
    out: str | os.PathLike[str] | OutFolder | None,
    progress: Callable[[Progress], None] | None,
    report: bool = True,
    capture: Capture | None = None,
    threads: Threads = ONE,
) -> Result:
    """Drives a run to its end or to Ctrl-C, makes its result, and writes that to `out`, with or without
    a report.

    Raises:
        Interrupted: Ctrl-C; it has the result of what ran.
        InputError: `out` or `capture` cannot be used, or the run found what it cannot go on with; nothing
            was written.
        OSError: the result could not be written.
    """
    # All others than those who have interrupted the run already would lose it by a Ctrl-C after its end.
    with nullcontext() if out is None else claimed(out) as folder, signals.noted() as seen:
        if folder is not None:
            from tailback._engine import remove_when_out_of_memory

            held = folder.held()
            simulation.keep_in(str(held))
            remove_when_out_of_memory([str(path) for path in (held, *folder.made)])
        if capture is not None:
            _begin_capture(simulation, capture, folder)
        cores = _use(simulation, threads)
        start_up.loading()
        import tailback.results  # noqa: F401  # NumPy and Arrow load here, not in the time of the run

        start_up.loaded()
        # Other runs may have other threads of this process, where each has one.
        cpu_time = time.thread_time if cores == 1 else time.process_time
        wall, cpu, interrupted = time.perf_counter(), cpu_time(), False
        try:
            while not (state := simulation.advance(cores * EVENTS_PER_STEP)).done and not seen:
                if progress is not None:
                    progress(state)
            if progress is not None:
                progress(state)
        except KeyboardInterrupt:
            interrupted = True
        except InputError:
            raise
        except ValueError as error:  # what only a run can find, such as a job's message of too many packets
            raise InputError.at("", str(error)) from None
        interrupted = interrupted or (bool(seen) and not state.done)
        if capture is not None:
            _capturing(simulation).end_capture()
        # What the result does not keep of the recording goes before it is written.
        result = make(simulation.finish(), Took(time.perf_counter() - wall, cpu_time() - cpu, interrupted))
        if folder is not None:
            result.write(folder, report)
    if interrupted:
        raise Interrupted(result)
    return result


def _begin_capture(simulation: object, capture: Capture, folder: OutFolder | None) -> None:
    if folder is None:
        raise InputError.at("capture", "found no out, expected a folder that gets the file")
    path = folder.held() / FILE
    try:
        _capturing(simulation).capture(
            str(path), capture.links, capture.start_ps, capture.stop_ps, capture.snap_bytes
        )
    except ValueError as error:
        raise InputError.at("--capture", str(error)) from None


def _use(simulation: object, threads: Threads) -> int:
    """Gives a run its cores: how many it has."""
    if threads.wanted == 1:
        return 1
    cores, why = cast(Cut, simulation).use_threads(threads.wanted)
    if why is not None and threads.one is not None:
        threads.one(why)
    return cores


def _capturing(simulation: object) -> Capturing:
    return cast(Capturing, simulation)


def begin(packed: Packed, controllers: Sequence[Checked] = ()) -> Simulation:
    """The engine with a plan, before its first event.

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
    """A folder for a result that is claimed already, or is claimed now, before a long run; with `resume`
    one that may have anything in it.

    Raises:
        InputError: it is not a folder, not empty, another run writes there, or it cannot be written.
        Occupied: with `new`, it is there already.
    """
    if isinstance(out, OutFolder):
        return nullcontext(out)
    if re.match(r"[a-z][a-z0-9+]+:/", os.fspath(out)):  # a path has one of two slashes
        text = "found a URL, expected a folder; of a sweep, --store takes a URL"
        raise InputError.at(f"--out {os.fspath(out)}", text)
    path = Path(out)
    try:
        return claim(path, "absent" if new else "any" if resume else "empty")
    except (OSError, ValueError) as error:
        if new and isinstance(error, Occupied):
            raise
        raise _not_to_be_had(path, error, "a new or empty folder that can be written") from None


@contextmanager
def replaced(out: Path) -> Iterator[None]:
    """Around `claimed`: an older result in `out` is replaced by the new one.

    Raises:
        InputError: what is there is no result of a command, or cannot be moved.
    """
    with ExitStack() as aside:
        try:
            aside.enter_context(replacing(out))
        except (OSError, ValueError) as error:
            raise _not_to_be_had(out, error, "a result of this command, or a new or empty folder") from None
        yield


def _not_to_be_had(path: Path, error: OSError | ValueError, expected: str) -> InputError:
    if isinstance(error, Occupied):
        found = str(error)
    elif isinstance(error, FileExistsError):
        found = "a file"
    elif isinstance(error, OSError):
        found = (error.strerror or str(error)).lower()
    else:
        found = "a name that no folder can have"
    return InputError.at(f"--out {path}", f"found {found}, expected {expected}")
