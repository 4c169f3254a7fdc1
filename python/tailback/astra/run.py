"""Running ASTRA-sim's inputs: from its files through the engine to a `Result`."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from tailback.astra.inputs import AstraInputs, AstraOptions, load_inputs
from tailback.astra.setup import AstraSetup
from tailback.files.out_folder import OutFolder
from tailback.hpcc.tokens import InputError
from tailback.plan import plan_json
from tailback.running import Took, carry_out

if TYPE_CHECKING:
    from tailback._engine import Progress, Recording
    from tailback.results import Result

CYCLES = "cycles.txt"
"""A line a rank that has finished, in this order, as that simulator logs it."""


def run_astra(
    options: AstraOptions | AstraInputs,
    *,
    out: str | os.PathLike[str] | OutFolder | None = None,
    progress: Callable[[Progress], None] | None = None,
    report: bool = True,
) -> Result:
    """Runs ASTRA-sim's inputs with the network of its ns-3 backend, and gives the result.

    `result.outputs` has `fct.txt` and `pfc.txt` as that simulator writes them, and `cycles.txt` with the
    lines that it logs when a rank has finished. Ranks that wait for what never comes are faults of the
    result.

    Args:
        options: What ASTRA-sim's command line gives, or inputs that were read already.
        out: Folder to write the result to; new or empty.
        progress: Called about a hundred times a second, as in `tailback.run`.
        report: Whether `out` gets a report.html.

    Raises:
        InputError: a file cannot be used, or a message is above 2 GiB; nothing was written.
        ScenarioError, Interrupted, OSError: as `tailback.run`.
    """
    inputs = options if isinstance(options, AstraInputs) else load_inputs(options)
    setup = AstraSetup.of(inputs)
    run = _NativeRun(setup) if inputs.options.native else _Run(setup)

    def result(recorded: _Recorded, took: Took) -> Result:
        from tailback.results import Result

        lines = (
            f"sys[{rank}] finished, {cycles} cycles, exposed communication {cycles - computed} cycles.\n"
            for rank, cycles, computed in recorded.finished
        )
        outputs = {CYCLES: "".join(lines).encode(), **recorded.outputs}
        return Result.of(setup, recorded.recording, *took, outputs=outputs)

    return carry_out(run, result, out, progress, report)


class _Recorded(NamedTuple):
    recording: Recording
    finished: list[tuple[int, int, int]]
    outputs: dict[str, bytes]


class _Run:
    """A run in the network of that simulator's backend; its work may turn out to be impossible."""

    def __init__(self, setup: AstraSetup) -> None:
        inputs = setup.astra
        self._file = os.fspath(inputs.options.workload)
        try:
            self._simulation = self._made(plan_json(setup.plan), json.dumps(inputs.plan()), inputs.traces)
        except ValueError as error:
            place, _, problem = str(error).partition(": ")
            raise InputError(place, problem) from None

    def _made(self, plan: str, astra: str, traces: list[bytes]) -> Any:
        from tailback._engine import HpccSimulation

        return HpccSimulation.of_astra(plan, astra, traces)

    def advance(self, max_events: int) -> Progress:
        try:
            progress: Progress = self._simulation.advance(max_events)
        except ValueError as error:
            raise InputError(self._file, str(error)) from None
        return progress

    def finish(self) -> _Recorded:
        from tailback.hpcc.outputs import FCT, PFC, fct_text, pfc_text

        recorded = self._simulation.finish()
        outputs = {FCT: fct_text(recorded.fct), PFC: pfc_text(recorded.pfc)}
        return _Recorded(recorded.recording, recorded.finished, outputs)


class _NativeRun(_Run):
    """A run under Tailback's own models."""

    def _made(self, plan: str, astra: str, traces: list[bytes]) -> Any:
        from tailback._engine import Simulation

        return Simulation.of_astra(plan, astra, traces)

    def finish(self) -> _Recorded:
        finished = self._simulation.ranks_finished()
        return _Recorded(self._simulation.finish(), finished, {})
