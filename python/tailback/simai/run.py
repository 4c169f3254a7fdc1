"""Running SimAI's inputs: from its files through the engine to a `Result`."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from tailback.files.out_folder import OutFolder
from tailback.hpcc.tokens import InputError
from tailback.plan import plan_json
from tailback.running import Took, carry_out
from tailback.simai.inputs import SimaiInputs, SimaiOptions, load_inputs
from tailback.simai.outputs import END_TO_END, Ended, end_to_end
from tailback.simai.setup import SimaiSetup

if TYPE_CHECKING:
    from tailback._engine import Progress, Recording
    from tailback.results import Result


def run_simai(
    options: SimaiOptions | SimaiInputs,
    *,
    out: str | os.PathLike[str] | OutFolder | None = None,
    progress: Callable[[Progress], None] | None = None,
    on_layer: Callable[[Ended], None] | None = None,
    report: bool = True,
) -> Result:
    """Runs SimAI's inputs with its network, and gives the result.

    `result.outputs` has `fct.txt` and `pfc.txt` as that simulator writes them, and its table of layers. Ranks
    that wait for what never comes are faults of the result.

    Args:
        options: What SimAI's command line and environment give, or inputs that were read already.
        out: Folder to write the result to; new or empty.
        progress: Called about a hundred times a second, as in `tailback.run`.
        on_layer: Called when a collective of a layer has ended at the first rank, during the run.
        report: Whether `out` gets a report.html.

    Raises:
        InputError: a file cannot be used, or a message is above 4 GiB; nothing was written.
        ScenarioError, Interrupted, OSError: as `tailback.run`.
    """
    inputs = options if isinstance(options, SimaiInputs) else load_inputs(options)
    setup = SimaiSetup.of(inputs)
    run = _NativeRun(setup, on_layer) if inputs.options.native else _Run(setup, on_layer)

    def result(recorded: _Recorded, took: Took) -> Result:
        from tailback.results import Result

        first = next((ns for rank, ns, _ in recorded.finished if rank == 0), None)
        outputs = {END_TO_END: end_to_end(inputs, run.ended, first), **recorded.outputs}
        return Result.of(setup, recorded.recording, *took, outputs=outputs)

    return carry_out(run, result, out, progress, report)


class _Recorded(NamedTuple):
    recording: Recording
    finished: list[tuple[int, int, int]]
    outputs: dict[str, bytes]


class _Run:
    """A run in that simulator's network."""

    def __init__(self, setup: SimaiSetup, on_layer: Callable[[Ended], None] | None) -> None:
        self._file = os.fspath(setup.simai.options.workload)
        self._on_layer = on_layer
        self.ended: list[Ended] = []
        try:
            self._simulation = self._made(plan_json(setup.plan), json.dumps(setup.simai.plan()))
        except ValueError as error:
            place, _, problem = str(error).partition(": ")
            raise InputError(place, problem) from None

    def _made(self, plan: str, simai: str) -> Any:
        from tailback._engine import HpccSimulation

        return HpccSimulation.of_simai(plan, simai)

    def advance(self, max_events: int) -> Progress:
        try:
            progress: Progress = self._simulation.advance(max_events)
        except ValueError as error:
            raise InputError(self._file, str(error)) from None
        for values in self._simulation.layers(len(self.ended)):
            self.ended.append(Ended(*values))
            if self._on_layer:
                self._on_layer(self.ended[-1])
        return progress

    def finish(self) -> _Recorded:
        from tailback.hpcc.outputs import FCT, PFC, fct_text, pfc_text

        recorded = self._simulation.finish()
        outputs = {FCT: fct_text(recorded.fct), PFC: pfc_text(recorded.pfc)}
        return _Recorded(recorded.recording, recorded.finished, outputs)


class _NativeRun(_Run):
    """A run under Tailback's own models."""

    def _made(self, plan: str, simai: str) -> Any:
        from tailback._engine import Simulation

        return Simulation.of_simai(plan, simai)

    def finish(self) -> _Recorded:
        finished = self._simulation.ranks_finished()
        return _Recorded(self._simulation.finish(), finished, {})
