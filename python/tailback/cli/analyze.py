"""`tailback analyze`."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from tailback.captured import analyze as analyze_capture
from tailback.cli.basics import command_app
from tailback.cli.common import AsJson, bad_input, say, say_json
from tailback.cli.progress import of_runs, progress_bar
from tailback.closing_table import rows_of
from tailback.files.out_folder import replace_file

app = command_app()


@app.command()
def analyze(
    file: Annotated[
        Path,
        typer.Argument(
            metavar="FILE", help="A capture: pcap or pcapng, also with gzip; - is standard input."
        ),
    ],
    page: Annotated[
        Path | None,
        typer.Option("--page", metavar="FILE.html", help="Write a page with rates over time and tables."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Say what a capture of RoCEv2 traffic shows.

    It shows queue pairs and rates, marks and CNPs, gaps, NAKs and retransmissions, pauses, and round trips.
    Files of any size are read in bounded memory; each capture point is analysed by itself.
    """
    with bad_input(), progress_bar(as_json) as bar:
        share = of_runs(bar) if bar else None
        captured = analyze_capture(file, (lambda done: share(file.name, done)) if share else None)
    if page is not None:
        replace_file(page, captured.page().encode())
    if as_json:
        say_json({**captured.data, "findings": [asdict(finding) for finding in captured.findings]})
    else:
        say([rows_of(captured.findings)], "" if page is None else f"\n{page}")
