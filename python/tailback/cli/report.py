"""`tailback report`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tailback.cli.basics import command_app, echo
from tailback.cli.common import bad_input
from tailback.run_folder import write_report

app = command_app()


@app.command()
def report(
    folder: Annotated[Path, typer.Argument(metavar="RUN", help="The folder of a run.")],
) -> None:
    """Write the report of a run.

    Makes report.html in the folder from its other files: after `run --no-report`, or again. It replaces an
    older report.
    """
    with bad_input():
        echo(write_report(folder))
