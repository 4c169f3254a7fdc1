"""Runs ASTRA-sim's inputs and makes the `Result`."""

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
from tailback.hpcc.work import WorkRecording, WorkRun
from tailback.plan import plan_json
from tailback.running import RunUsage, carry_out

if TYPE_CHECKING:
    from tailback._engine import HpccSimulation, Progress, Simulation
    from tailback.results import Result

CYCLES_FILE = "cycles.txt"
"""A line for each finished rank, in the order of their ends, in the format of ASTRA-sim's log."""


def run_astra(
    options: AstraOptions | AstraInputs,
    *,
    out: str | os.PathLike[str] | OutFolder | None = None,
    progress: Callable[[Progress], None] | None = None,
    ignore: Collection[str] = (),
    report: bool = True,
) -> Result:
    """Runs ASTRA-sim's inputs with the network of its ns-3 backend, and returns the result.

    `result.outputs` has `fct.txt` and `pfc.txt` in the simulator's own format, and `cycles.txt` with the
    lines that it logs when a rank has finished. Ranks that wait for a message that nobody sends are faults of
    the result.

    Args:
        options: Options of ASTRA-sim's command line, or inputs from `load_inputs`.
        out: Folder for the result; new or empty.
        progress: Called about a hundred times per second, as in `tailback.run`.
        ignore: Keys of forks that are accepted, as --ignore.
        report: True: write report.html to `out`.

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

    def result(recorded: WorkRecording, usage: RunUsage) -> Result:
        from tailback.results import Result

        lines = (
            f"sys[{rank}] finished, {cycles} cycles, exposed communication {cycles - computed} cycles.\n"
            for rank, cycles, computed in recorded.finished
        )
        outputs = {CYCLES_FILE: "".join(lines).encode(), **recorded.outputs}
        made = Result.of(setup, recorded.recording, *usage, outputs=Outputs(outputs))
        _check_routes(inputs, made)
        return made

    run = WorkRun(inputs.options.workload, make, native)
    return carry_out(run, result, out, progress, report)


def _check_routes(inputs: AstraInputs, result: Result) -> None:
    """Refuses a run in which ranks without a route to each other send: hosts do not forward, as in ASTRA-sim.

    Only the run shows which ranks send to which: a ring needs routes between neighbours only.

    Raises:
        InputError: the message names the topology and two such nodes.
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
