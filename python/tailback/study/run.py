"""One run of a sweep, as a process carries it out, and the key that it is known by."""

from __future__ import annotations

import hashlib
import math
import tempfile
import time
from collections.abc import Callable, Mapping
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from tailback import library
from tailback.executors import report_progress
from tailback.files import FileRefusedError, UnchangedFile, read_file
from tailback.files.storage import Storage, is_url
from tailback.limits import SCENARIO_BYTES
from tailback.metrics import Metric
from tailback.running import run_checked
from tailback.scenario import Scenario, load
from tailback.scenario.build import with_seed
from tailback.version import build

if TYPE_CHECKING:
    from tailback.results import Result

_REPORT_S = 0.1
"""Time between two reports of a run's progress."""
_KEPT = 64
"""Scenarios that a worker keeps in mind: a few megabytes in all."""

_read: dict[str, tuple[bytes | None, Scenario]] = {}
"""By their digests, with the content of their file. Another seed of the same is checked only for what a seed
may change.
"""


class Changed(RuntimeError):  # noqa: N818  it is what was found
    """A scenario is not any more what it was when the sweep began."""


def digest_of(scenario: Scenario, by: str | None = None) -> str:
    """A hash of all that the plan of a scenario follows from, except for the seed: every setting with its
    defaults, and the files that it names; and of what runs it, this build by default.
    """
    digest = hashlib.sha256((build() if by is None else by).encode())
    settings = scenario.model_copy(update={"run": scenario.run.model_copy(update={"seed": 0})})
    digest.update(settings.model_dump_json(by_alias=True).encode())
    files: dict[str, bytes | UnchangedFile] = {**scenario.inputs, **scenario.long_inputs}
    for name, held in sorted(files.items(), key=itemgetter(0)):
        digest.update(f"{name}\0{held.size if isinstance(held, UnchangedFile) else len(held)}\0".encode())
        for part in held() if isinstance(held, UnchangedFile) else (held,):
            digest.update(part)
    return digest.hexdigest()[:24]


class Task(NamedTuple):
    """A run: of a point with a seed. `digest` is what its scenario had when the sweep began."""

    scenario: str | Mapping[str, Any]
    sets: tuple[str, ...]
    seed: int
    digest: str
    metrics: tuple[Metric, ...]
    folder: str | None
    """Where its folder is to be, a path or the URL of a storage; or nowhere."""

    @property
    def key(self) -> str:
        """What the journal knows it by. Other metrics of the same run are another line."""
        kept: str | bool = self.folder is not None
        if self.folder is not None and is_url(self.folder):  # those of another storage are not here
            kept = self.folder
        measured = hashlib.sha256(repr((self.metrics, kept)).encode()).hexdigest()[:8]
        return f"{self.digest}-{measured}-{self.seed}"


class Done(NamedTuple):
    """What a run gave: its metrics by their labels, NaN as None; its faults, a line each; and the CPU time
    that it took, in seconds, and how much of that the engine.
    """

    metrics: dict[str, float | None]
    faults: list[str]
    cpu_s: float
    engine_cpu_s: float


def reporting(place: Any, duration_ps: float) -> Callable[[Any], None]:
    """For the progress of a run: reports the share that is done, some times per second. It raises KeyboardInterrupt
    where the run is to end.
    """
    last = time.monotonic()

    def step(state: Any) -> None:
        nonlocal last
        if time.monotonic() - last > _REPORT_S:
            last = time.monotonic()
            report_progress((place, min(1.0, state.time_ps / duration_ps)))

    return step


def carry_out(task: Task) -> Done:
    """The run.

    Raises:
        Changed: the scenario is not what it was.
        InputError, OSError: as `tailback.run`.
    """
    cpu = time.thread_time()
    checked = _checked(task)
    result = run_checked(checked, None, reporting(task.key, checked.run.duration))
    values = {one.label: one(result) for one in task.metrics}
    if task.folder is not None:
        _write(result, task.folder)
    return Done(
        {label: value if math.isfinite(value) else None for label, value in values.items()},
        [f"{fault['kind']} at {fault['where']}: {fault['text']}" for fault in result.faults],
        time.thread_time() - cpu,
        result.cpu_s,
    )


def _write(result: Result, folder: str) -> None:
    if not is_url(folder):
        result.write(folder)
        return
    with tempfile.TemporaryDirectory() as name:
        here = result.write(Path(name) / "run")
        root, _, own = folder.rpartition("/")
        Storage(root).put_folder(own, here)


def _checked(task: Task) -> Scenario:
    """The scenario of a task, read and checked, or as it was for another seed."""
    content = _content(task.scenario)
    before = _read.get(task.digest)
    if before is not None and before[0] == content:
        return with_seed(before[1], task.seed)
    scenario = load(task.scenario, sets=task.sets, seed=task.seed)
    if digest_of(scenario) != task.digest:
        raise Changed("the scenario, or tailback itself, has changed since the sweep began")
    # They may be large, and may keep something.
    if not (scenario.inputs or scenario.long_inputs or scenario.own_controllers):
        if len(_read) >= _KEPT:
            _read.clear()
        _read[task.digest] = (content, scenario)
    return scenario


def _content(scenario: str | Mapping[str, Any]) -> bytes | None:
    """Of a scenario's file; None where it is in none, or in none that can be read."""
    if not isinstance(scenario, str) or scenario in library.names():
        return None
    try:
        return read_file(Path(scenario), SCENARIO_BYTES)
    except (OSError, ValueError, FileRefusedError):
        return None
