"""Running SimAI's inputs: from its files through the engine to a `Result`."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING

from tailback.files import Outputs
from tailback.files.out_folder import OutFolder
from tailback.hpcc.work import Recorded, WorkRun
from tailback.plan import plan_json
from tailback.running import RunUsage, carry_out
from tailback.simai.inputs import SimaiInputs, SimaiOptions, load_inputs
from tailback.simai.outputs import END_TO_END, Ended, end_to_end
from tailback.simai.setup import SimaiSetup

if TYPE_CHECKING:
    from tailback._engine import HpccSimulation, Progress, Simulation
    from tailback.results import Result


def run_simai(
    options: SimaiOptions | SimaiInputs,
    *,
    out: str | os.PathLike[str] | OutFolder | None = None,
    progress: Callable[[Progress], None] | None = None,
    on_layer: Callable[[Ended], None] | None = None,
    ignore: Collection[str] = (),
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
        ignore: Keys of forks that the run may leave out, as --ignore.
        report: Whether `out` gets a report.html.

    Raises:
        InputError: a file cannot be used, or a message is above 4 GiB; nothing was written.
        InputError, Interrupted, OSError: as `tailback.run`.
    """
    inputs = options if isinstance(options, SimaiInputs) else load_inputs(options, ignore=ignore)
    setup = SimaiSetup.of(inputs)
    run = _Run(setup, on_layer)

    def result(recorded: Recorded, usage: RunUsage) -> Result:
        from tailback.results import Result

        first = next((ns for rank, ns, _ in recorded.finished if rank == 0), None)
        outputs = {END_TO_END: end_to_end(inputs, run.ended, first), **recorded.outputs}
        return Result.of(setup, recorded.recording, *usage, outputs=Outputs(outputs))

    return carry_out(run, result, out, progress, report)


class _Run(WorkRun):
    """A run that tells of layers as they end."""

    def __init__(self, setup: SimaiSetup, on_layer: Callable[[Ended], None] | None) -> None:
        native = setup.simai.options.native

        def make() -> HpccSimulation | Simulation:
            from tailback._engine import HpccSimulation, Simulation, Work

            engine = Simulation if native else HpccSimulation
            return engine.with_work(plan_json(setup.plan), Work.simai(json.dumps(setup.simai.plan())))

        super().__init__(setup.simai.options.workload, make, native)
        self._on_layer = on_layer
        self.ended: list[Ended] = []

    def advance(self, max_events: int) -> Progress:
        progress = super().advance(max_events)
        for values in self._simulation.layers(len(self.ended)):
            self.ended.append(Ended(*values))
            if self._on_layer:
                self._on_layer(self.ended[-1])
        return progress
