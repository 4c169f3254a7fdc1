"""`tailback counters`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from tailback.cli.basics import command_app, echo_document
from tailback.cli.common import Seed, Sets, bad_input
from tailback.cli.progress import of_time, progress_bar
from tailback.counters import TOOLS, as_data, as_tool
from tailback.recorded.run import Recorded
from tailback.run_folder import read_run, reading
from tailback.running import run_checked
from tailback.scenario import load

app = command_app()


@app.command()
def counters(
    run: Annotated[
        str,
        typer.Argument(metavar="RUN|NAME|FILE", help="The folder of a run, or a scenario to run."),
    ],
    tool: Annotated[
        str | None, typer.Option("--as", metavar="TOOL", help=f"One of {', '.join(TOOLS)}.")
    ] = None,
    host: Annotated[
        str | None,
        typer.Option("--host", metavar="HOST", help="Only this host, switch, or port of a switch (sw0:h3)."),
    ] = None,
    sets: Sets = None,
    seed: Seed = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress bar.")] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the counters as JSON, under the engine's own names.")
    ] = False,
) -> None:
    """Print the counters of hosts and switches as their tools do.

    Without --host, each host and switch gets a part with a heading. A scenario is run, and nothing is
    written.
    """
    if (tool is None) is not as_json:
        raise typer.BadParameter("expected one of --as TOOL and --json")
    folder = Path(run)
    if folder.is_dir() and (sets or seed is not None):
        raise typer.BadParameter("--set and --seed are for a scenario; this is the folder of a run")
    with bad_input():
        if folder.is_dir():
            with reading(folder):
                words = _words(read_run(folder), tool, host)
        else:
            scenario = load(run, sets=sets or (), seed=seed)
            with progress_bar(quiet) as bar:
                steps = of_time(bar, scenario.name, 0, scenario.run.duration) if bar else None
                result = run_checked(scenario, None, steps)
            words = _words(result, tool, host)
        echo_document(words, nl=False)


def _words(result: Recorded, tool: str | None, host: str | None) -> str:
    if tool is not None:
        return as_tool(result, tool, host)
    return json.dumps(as_data(result, host), indent=2) + "\n"
