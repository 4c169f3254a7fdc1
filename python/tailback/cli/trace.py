"""`tailback trace`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tailback.cli.basics import command_app, echo
from tailback.cli.common import bad_input
from tailback.run_folder import write_trace

app = command_app()


@app.command()
def trace(
    folder: Annotated[Path, typer.Argument(metavar="RUN", help="The folder of a run with jobs.")],
) -> None:
    """Write what the ranks of a run did, for Perfetto.

    It writes trace.json into the folder, for ui.perfetto.dev or chrome://tracing: a row for each rank with
    its steps, the messages that the last rank waited for, and the fullest queues. An older file is replaced.
    """
    with bad_input():
        echo(write_trace(folder))
