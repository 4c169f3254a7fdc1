"""`tailback explain`."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated

import typer

from tailback import explain as explaining
from tailback.cli.command import command_app
from tailback.cli.common import PIPED_WIDTH, bad_input
from tailback.run_folder import read_run, reading

app = command_app()


@app.command()
def explain(
    folder: Annotated[Path, typer.Argument(metavar="RUN", help="The folder of a run.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print the answer as JSON.")] = False,
) -> None:
    """Say where a run is stuck, and what shows it.

    From its counters and queue series alone: the name and the settings of the scenario are not looked at,
    only what is printed on the hardware, such as the rate of a link.
    """
    with bad_input():
        result = read_run(folder)
        with reading(folder):
            page = explaining.page_of(result)
            if as_json:
                key = explaining.explain(result).key
                words = json.dumps(explaining.as_data(page, key), indent=2, ensure_ascii=False) + "\n"
            else:
                words = explaining.as_text(page, *() if sys.stdout.isatty() else (PIPED_WIDTH,))
    typer.echo(words, nl=False)
