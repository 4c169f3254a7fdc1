"""`tailback compare`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tailback.cli.basics import command_app
from tailback.cli.common import AsJson, bad_input, say, say_json
from tailback.comparison import compare as compare_runs
from tailback.comparison.terminal import rendered
from tailback.run_folder import reading

app = command_app()


@app.command()
def compare(
    runs: Annotated[
        list[Path], typer.Argument(metavar="RUN RUN...", help="Folders of runs, or of runs with --seeds.")
    ],
    page: Annotated[
        Path | None,
        typer.Option("--page", metavar="FILE.html", help="Write a page with overlaid plots."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Say what differs between runs.

    The others are compared with the first: settings, where each is stuck, figures, findings, and flows one by
    one. A folder of a run with --seeds counts as one side; the answer then says what is noise.
    """
    with bad_input():
        with reading(", ".join(map(str, runs))):
            comparison = compare_runs(*runs)
            drawn = "" if page is None else comparison.page()
            data = comparison.as_data() if as_json else {}
            tables = [] if as_json else [rendered(comparison)]
        if page is not None:
            page.write_text(drawn, encoding="utf-8")
        if as_json:
            say_json(data)
        else:
            say(tables, "" if page is None else f"\n{page}")
