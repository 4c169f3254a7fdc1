"""One run of a sweep, as a process carries it out, and the key that it is known by."""

from __future__ import annotations

import hashlib
import math
import time
from collections.abc import Mapping
from typing import Any, NamedTuple

from tailback.executors import tell
from tailback.running import run_checked
from tailback.scenario import Scenario, load
from tailback.sweeps.shown import Shown
from tailback.version import build

_REPORT_S = 0.25
"""Time between two reports of a run's progress."""


class Changed(RuntimeError):  # noqa: N818  it is what was found
    """A scenario is not any more what it was when the sweep began."""


def digest_of(scenario: Scenario) -> str:
    """A hash of all that the plan of a scenario follows from, but for the seed: every setting with its
    defaults, and the files that it names.
    """
    digest = hashlib.sha256(build().encode())
    settings = scenario.model_copy(update={"run": scenario.run.model_copy(update={"seed": 0})})
    digest.update(settings.model_dump_json(by_alias=True).encode())
    for name, data in sorted(scenario.inputs.items()):
        digest.update(f"{name}\0{len(data)}\0".encode())
        digest.update(data)
    return digest.hexdigest()[:24]


class Task(NamedTuple):
    """A run: of a point with a seed. `digest` is what its scenario had when the sweep began."""

    scenario: str | Mapping[str, Any]
    sets: tuple[str, ...]
    seed: int
    digest: str
    measures: tuple[Shown, ...]
    folder: str | None
    """Where its folder is to be, or nowhere."""

    @property
    def key(self) -> str:
        """What the journal knows it by. Other measures of the same run are another line."""
        measured = hashlib.sha256(repr((self.measures, self.folder is not None)).encode()).hexdigest()[:8]
        return f"{self.digest}-{measured}-{self.seed}"


class Done(NamedTuple):
    """What a run gave: its measures by their labels, NaN as None; its faults, a line each; and the CPU time
    that it took, in seconds, and how much of that the engine.
    """

    measures: dict[str, float | None]
    faults: list[str]
    cpu_s: float
    engine_cpu_s: float


def carry_out(task: Task) -> Done:
    """The run.

    Raises:
        Changed: the scenario is not what it was.
        ScenarioError, OSError: as `tailback.run`.
    """
    last, cpu = time.monotonic(), time.thread_time()

    def step(state: Any) -> None:
        nonlocal last
        if time.monotonic() - last > _REPORT_S:
            last = time.monotonic()
            tell((task.key, state.time_ps / duration))

    checked = load(task.scenario, sets=task.sets, seed=task.seed)
    if digest_of(checked) != task.digest:
        raise Changed("the scenario, or tailback itself, has changed since the sweep began")
    duration = checked.run.duration
    result = run_checked(checked, None, step)
    values = {one.label: one.of(result) for one in task.measures}
    if task.folder is not None:
        result.write(task.folder)
    return Done(
        {label: value if math.isfinite(value) else None for label, value in values.items()},
        [f"{fault['kind']} at {fault['where']}: {fault['text']}" for fault in result.faults],
        time.thread_time() - cpu,
        result.cpu_s,
    )
