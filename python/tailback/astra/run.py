"""Running ASTRA-sim's inputs: from its files through the engine to a `Result`."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING

import pyarrow.compute as pc

from tailback.astra.inputs import AstraInputs, AstraOptions, load_inputs
from tailback.astra.setup import AstraSetup
from tailback.errors import InputError
from tailback.files import Outputs
from tailback.files.out_folder import OutFolder
from tailback.hpcc.work import Recorded, WorkRun
from tailback.plan import plan_json
from tailback.running import RunUsage, carry_out

if TYPE_CHECKING:
    from tailback._engine import HpccSimulation, Progress, Simulation
    from tailback.results import Result

CYCLES = "cycles.txt"
"""A line a rank that has finished, in this order, as that simulator logs it."""


def run_astra(
    options: AstraOptions | AstraInputs,
    *,
    out: str | os.PathLike[str] | OutFolder | None = None,
    progress: Callable[[Progress], None] | None = None,
    ignore: Collection[str] = (),
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
        ignore: Keys of forks that the run may leave out, as --ignore.
        report: Whether `out` gets a report.html.

    Raises:
        InputError: a file cannot be used, or a message is above 2 GiB; nothing was written.
        InputError, Interrupted, OSError: as `tailback.run`.
    """
    inputs = options if isinstance(options, AstraInputs) else load_inputs(options, ignore=ignore)
    setup = AstraSetup.of(inputs)
    native = inputs.options.native

    def make() -> HpccSimulation | Simulation:
        from tailback._engine import HpccSimulation, Simulation, Work

        engine = Simulation if native else HpccSimulation
        paths = [str(trace.path) for trace in inputs.traces]
        return engine.with_work(plan_json(setup.plan), Work.astra(json.dumps(inputs.plan()), paths))

    def result(recorded: Recorded, usage: RunUsage) -> Result:
        from tailback.results import Result

        lines = (
            f"sys[{rank}] finished, {cycles} cycles, exposed communication {cycles - computed} cycles.\n"
            for rank, cycles, computed in recorded.finished
        )
        outputs = {CYCLES: "".join(lines).encode(), **recorded.outputs}
        made = Result.of(setup, recorded.recording, *usage, outputs=Outputs(outputs))
        _check_routes(inputs, made)
        return made

    run = WorkRun(inputs.options.workload, make, native)
    return carry_out(run, result, out, progress, report)


def _check_routes(inputs: AstraInputs, result: Result) -> None:
    """Refuses a run whose ranks send where no route is: hosts do not forward, in that simulator either.

    Which ranks send to which is known only after the run: a ring needs its neighbours and no other.

    Raises:
        InputError: names the topology and two such nodes.
    """
    topology = inputs.network.topology
    if all(topology.connected(0, rank) for rank in range(1, len(inputs.traces))):
        return
    unfinished = pc.filter(result.flows, pc.is_null(result.flows.column("end_ps"))).select(["src", "dst"])
    for row in unfinished.to_pylist():
        source, target = (int(row[end].removeprefix("h")) for end in ("src", "dst"))
        if not topology.connected(source, target):
            raise InputError.at(
                topology.file,
                f"found no route from node {source} to node {target}, between which ranks send; hosts do not "
                "forward, so expected a direct link or switches between them",
            )
