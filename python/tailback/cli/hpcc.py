"""`tailback hpcc`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tailback.cli.basics import command_app, echo
from tailback.cli.common import (
    AsJson,
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
from tailback.hpcc.inputs import load_inputs
from tailback.hpcc.plan import span_ps, warnings
from tailback.hpcc.run import run_hpcc

app = command_app()


@app.command()
def hpcc(
    config: Annotated[Path, typer.Argument(metavar="CONFIG.txt", help="The simulator's config file.")],
    ignore: Ignore = None,
    out: Out = None,
    force: Force = False,
    no_report: NoReport = False,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Run the files of the HPCC ns-3 simulator as they are.

    It reads config, topology and flows as that simulator does. The folder gets fct.txt and pfc.txt in its
    format, beside report, tables and counters. Without --out it is runs/NAME-TIME. Ctrl-C ends the run early
    and keeps what was simulated. --json prints the summary and the folder.
    """
    with bad_input():
        inputs = load_inputs(config, ignore=ignore or ())
        for warning in warnings(inputs):
            echo(warning, err=True)
        with result_folder(out, inputs.name, force) as folder, progress_bar(quiet) as bar:
            steps = of_time(bar, inputs.name, *span_ps(inputs)) if bar else None
            result = result_even_if_interrupted(
                lambda: run_hpcc(inputs, out=folder, progress=steps, report=not no_report)
            )
    raise typer.Exit(conclude(result, folder.given, quiet, as_json))
