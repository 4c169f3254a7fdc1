"""Runs the files of the HPCC simulator and makes the `Result`."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING, Any

from tailback.errors import InputError
from tailback.files import Outputs
from tailback.files.out_folder import OutFolder
from tailback.hpcc.inputs import HpccInputs, load_inputs
from tailback.hpcc.plan import make_plan
from tailback.hpcc.setup import HpccSetup
from tailback.hpcc.work import own_files
from tailback.plan import Packed, packed_plan
from tailback.running import RunUsage, carry_out

if TYPE_CHECKING:
    from tailback._engine import HpccRecording, HpccSimulation, Progress
    from tailback.results import Result


def run_hpcc(
    config: str | os.PathLike[str] | HpccInputs,
    *,
    out: str | os.PathLike[str] | OutFolder | None = None,
    progress: Callable[[Progress], None] | None = None,
    departures: Mapping[str, Any] | None = None,
    ignore: Collection[str] = (),
    report: bool = True,
) -> Result:
    """Runs a config.txt of the HPCC ns-3 simulator, with the files that it names, and returns the result.

    After an interrupt, fct.txt has the flows that had completed.

    Args:
        config: A path, or inputs from `load_inputs`.
        out: Folder for the result; new or empty. It also gets fct.txt and pfc.txt, and qlen.txt if
            QLEN_MON_FILE is given.
        progress: Called about a hundred times per second, as in `tailback.run`.
        departures: Deliberate differences from that simulator: `exact_time`, `cnp_interval_ns`,
            `retransmission_timeout_ns`, `wire_overhead_bytes`. The folder of the result does not record them.
        ignore: Keys of forks that are accepted, as --ignore.
        report: True: write report.html to `out`.

    Raises:
        InputError: a file cannot be used; nothing was run and nothing written.
        InputError, Interrupted, OSError: as `tailback.run`.
    """
    inputs = config if isinstance(config, HpccInputs) else load_inputs(config, ignore=ignore)
    setup = HpccSetup(inputs, make_plan(inputs, departures))
    simulation = _simulation(inputs, packed_plan(setup.plan))

    def result(recorded: HpccRecording, usage: RunUsage) -> Result:
        # Arrow takes a tenth of a second to load; reading the files does not need it.
        from tailback.hpcc.outputs import QLEN_FILE
        from tailback.results import Result

        outputs = own_files(recorded)
        if setup.plan["queue_monitor"]:
            outputs[QLEN_FILE] = recorded.qlen.encode()
        return Result.of(setup, recorded.recording, *usage, outputs=Outputs(outputs))

    return carry_out(simulation, result, out, progress, report)


def _simulation(inputs: HpccInputs, packed: Packed) -> HpccSimulation:
    from tailback._engine import HpccSimulation

    try:
        return HpccSimulation(packed.plan, packed.messages)
    except ValueError as error:
        raise InputError.at(inputs.config.file, str(error)) from None
