"""Runs SimAI's inputs and makes the `Result`."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING

from tailback.files import Outputs
from tailback.files.out_folder import OutFolder
from tailback.hpcc.work import WorkRecording, WorkRun
from tailback.plan import plan_json
from tailback.running import RunUsage, carry_out
from tailback.simai.inputs import SimaiInputs, SimaiOptions, load_inputs
from tailback.simai.outputs import END_TO_END_FILE, CollectiveTimes, end_to_end
from tailback.simai.setup import SimaiSetup

if TYPE_CHECKING:
    from tailback._engine import HpccSimulation, Progress, Simulation
    from tailback.results import Result


def run_simai(
    options: SimaiOptions | SimaiInputs,
    *,
    out: str | os.PathLike[str] | OutFolder | None = None,
    progress: Callable[[Progress], None] | None = None,
    on_layer: Callable[[CollectiveTimes], None] | None = None,
    ignore: Collection[str] = (),
    report: bool = True,
) -> Result:
    """Runs SimAI's inputs with its network, and returns the result.

    `result.outputs` has `fct.txt` and `pfc.txt` in the simulator's own format, and its table of layers. Ranks
    that wait for a message that nobody sends are faults of the result.

    Args:
        options: Options of SimAI's command line and environment, or inputs from `load_inputs`.
        out: Folder for the result; new or empty.
        progress: Called about a hundred times per second, as in `tailback.run`.
        on_layer: Called when a collective of a layer has ended at the first rank, during the run.
        ignore: Keys of forks that are accepted, as --ignore.
        report: True: write report.html to `out`.

    Raises:
        InputError: a file cannot be used, or a message is above 4 GiB; nothing was written.
        InputError, Interrupted, OSError: as `tailback.run`.
    """
    inputs = options if isinstance(options, SimaiInputs) else load_inputs(options, ignore=ignore)
    setup = SimaiSetup.of(inputs)
    run = _SimaiRun(setup, on_layer)

    def result(recorded: WorkRecording, usage: RunUsage) -> Result:
        from tailback.results import Result

        first = next((ns for rank, ns, _ in recorded.finished if rank == 0), None)
        outputs = {END_TO_END_FILE: end_to_end(inputs, run.ended, first), **recorded.outputs}
        return Result.of(setup, recorded.recording, *usage, outputs=Outputs(outputs))

    return carry_out(run, result, out, progress, report)


class _SimaiRun(WorkRun):
    """A run that reports collectives of layers as they end."""

    def __init__(self, setup: SimaiSetup, on_layer: Callable[[CollectiveTimes], None] | None) -> None:
        native = setup.simai.options.native

        def make() -> HpccSimulation | Simulation:
            from tailback._engine import HpccSimulation, Simulation, Work

            engine = Simulation if native else HpccSimulation
            return engine.with_work(plan_json(setup.plan), Work.simai(json.dumps(setup.simai.plan())))

        super().__init__(setup.simai.options.workload, make, native)
        self._on_layer = on_layer
        self.ended: list[CollectiveTimes] = []

    def advance(self, max_events: int) -> Progress:
        progress = super().advance(max_events)
        for values in self._simulation.layers(len(self.ended)):
            self.ended.append(CollectiveTimes(*values))
            if self._on_layer:
                self._on_layer(self.ended[-1])
        return progress
