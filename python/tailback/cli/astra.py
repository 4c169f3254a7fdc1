"""`tailback astra`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tailback.astra.inputs import AstraOptions, load_inputs
from tailback.astra.run import CYCLES_FILE, run_astra
from tailback.cli.basics import command_app, echo
from tailback.cli.common import (
    Force,
    Ignore,
    NoReport,
    Out,
    Quiet,
    bad_input,
    conclude,
    result_even_if_interrupted,
    result_folder,
)
from tailback.cli.progress import of_time, progress_bar
from tailback.hpcc.plan import LATEST_END_NS

app = command_app()


@app.command()
def astra(
    workload: Annotated[
        Path, typer.Option("--workload-configuration", metavar="ET", help="Traces: ET.0.et, ET.1.et, ...")
    ],
    system: Annotated[Path, typer.Option("--system-configuration", metavar="JSON", help="The system layer.")],
    network: Annotated[
        Path,
        typer.Option(
            "--network-configuration", metavar="CONFIG.txt", help="The network of the ns-3 backend."
        ),
    ],
    logical_topology: Annotated[
        Path,
        typer.Option("--logical-topology-configuration", metavar="JSON", help="Ranks in each dimension."),
    ],
    comm_group: Annotated[
        str,
        typer.Option(
            "--comm-group-configuration",
            metavar="JSON",
            help="Communicator groups; none if the name contains 'empty'.",
        ),
    ] = "empty",
    remote_memory: Annotated[
        Path | None,
        typer.Option(
            "--remote-memory-configuration", metavar="JSON", help="Remote memory: only NO_MEMORY_EXPANSION."
        ),
    ] = None,
    num_queues_per_dim: Annotated[
        int, typer.Option("--num-queues-per-dim", help="Queues per dimension.")
    ] = 1,
    injection_scale: Annotated[
        float, typer.Option("--injection-scale", help="Factor for the endpoint delay.")
    ] = 1.0,
    native: Annotated[
        bool, typer.Option("--native", help="Use Tailback's own models of NICs and switches; no fct.txt.")
    ] = False,
    ignore: Ignore = None,
    out: Out = None,
    force: Force = False,
    no_report: NoReport = False,
    quiet: Quiet = False,
) -> None:
    """Run ASTRA-sim's inputs as they are.

    The options are ASTRA-sim's own: they name Chakra traces, system, topologies and groups. The network is
    that of its ns-3 backend. Prints when each rank has finished, as ASTRA-sim does. The folder gets fct.txt
    and pfc.txt in ASTRA-sim's format, besides report, tables and counters. Without --out it is
    runs/NAME-TIME. Ctrl-C ends the run early and keeps what was simulated.
    """
    with bad_input():
        options = AstraOptions(
            workload,
            system,
            network,
            logical_topology,
            comm_group,
            remote_memory,
            num_queues_per_dim,
            injection_scale,
            native,
        )
        inputs = load_inputs(options, ignore=ignore or ())
        for warning in inputs.warnings:
            echo(warning, err=True)
        name = inputs.network.name
        with result_folder(out, name, force) as folder, progress_bar(quiet) as bar:
            steps = of_time(bar, name, 0, LATEST_END_NS * 1000) if bar else None
            result = result_even_if_interrupted(
                lambda: run_astra(inputs, out=folder, progress=steps, report=not no_report)
            )
    echo(result.outputs[CYCLES_FILE].decode(), nl=False)
    raise typer.Exit(conclude(result, folder.given, quiet))
