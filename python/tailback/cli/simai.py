"""`tailback simai`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tailback.cli.basics import command_app, echo, given_as
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
from tailback.simai.inputs import DEFAULT_SEND_LAT_US, SimaiOptions, load_inputs
from tailback.simai.outputs import END_TO_END_FILE, CollectiveTimes, closing_lines, line
from tailback.simai.run import run_simai

app = command_app()


@app.command()
def simai(
    context: typer.Context,
    workload: Annotated[Path, typer.Option("-w", metavar="WORKLOAD.txt", help="The workload, by AICB.")],
    topology: Annotated[Path, typer.Option("-n", metavar="TOPOLOGY", help="The network topology.")],
    config: Annotated[Path, typer.Option("-c", metavar="SimAI.conf", help="The network configuration.")],
    threads: Annotated[int, typer.Option("-t", help="Threads; there is one.")] = 1,
    send_lat: Annotated[
        int,
        typer.Option("--send-lat", envvar="AS_SEND_LAT", help="Microseconds before a message begins."),
    ] = DEFAULT_SEND_LAT_US,
    pxn: Annotated[
        bool, typer.Option("--pxn", envvar="AS_PXN_ENABLE", help="Leave a server from the receiver's rail.")
    ] = False,
    nvls: Annotated[
        bool, typer.Option("--nvls", envvar="AS_NVLS_ENABLE", help="NVLS, which is not honoured.")
    ] = False,
    native: Annotated[
        bool, typer.Option("--native", help="Use Tailback's own models of NICs and switches; no fct.txt.")
    ] = False,
    ignore: Ignore = None,
    out: Out = None,
    force: Force = False,
    no_report: NoReport = False,
    quiet: Quiet = False,
) -> None:
    """Run SimAI's inputs as they are.

    The options are SimAI's own: they name workload, topology and SimAI.conf. The network is that of its ns-3.
    Prints the time of each collective of a layer as soon as it has ended. The folder gets
    ncclFlowModel_EndToEnd.csv, fct.txt and pfc.txt in SimAI's format, besides report, tables and counters.
    Without --out it is runs/NAME-TIME. Ctrl-C ends the run early and keeps what was simulated.
    """
    with bad_input():
        options = SimaiOptions(
            workload, topology, config, threads, send_lat, pxn, nvls, native, given_as(context)
        )
        inputs = load_inputs(options, ignore=ignore or ())
        for warning in inputs.warnings:
            echo(warning, err=True)
        name = inputs.network.name

        def print_layer(ended: CollectiveTimes) -> None:
            if not quiet:
                echo(line(inputs, ended))

        with result_folder(out, name, force) as folder, progress_bar(quiet) as bar:
            steps = of_time(bar, name, 0, LATEST_END_NS * 1000) if bar else None
            result = result_even_if_interrupted(
                lambda: run_simai(
                    inputs, out=folder, progress=steps, on_layer=print_layer, report=not no_report
                )
            )
        if not (quiet or native):
            for words in closing_lines(inputs, result.outputs[END_TO_END_FILE], result.flows):
                echo(words)
    raise typer.Exit(conclude(result, folder.given, quiet))
