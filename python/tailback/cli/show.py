"""`tailback show`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tailback import drawing
from tailback import scenario as scenarios
from tailback.cli.basics import command_app, echo, echo_document
from tailback.cli.common import ScenarioName, Seed, Sets, bad_input
from tailback.scenario import load

app = command_app()


@app.command()
def show(
    name: ScenarioName,
    sets: Sets = None,
    seed: Seed = None,
    comments: Annotated[
        bool, typer.Option(help="Draw the network, and say beside each value where it comes from.")
    ] = True,
    svg: Annotated[
        Path | None, typer.Option("--svg", metavar="FILE", help="Write a picture of the network to a file.")
    ] = None,
) -> None:
    """Print a scenario in full, and where each value comes from.

    The output is a scenario file again.
    """
    with bad_input():
        scenario = load(name, sets=sets or (), seed=seed)
        text = scenarios.show(scenario, comments=comments)
    title = drawing.title_of(scenario.name, scenario.topology.kind, scenario.network)
    if comments:
        for line in drawing.as_text(scenario.network, title).splitlines():
            echo(f"# {line}".rstrip())
        echo()
    echo_document(text, nl=False)
    if svg is not None:
        svg.write_text(drawing.as_svg(scenario.network, title), encoding="utf-8")
