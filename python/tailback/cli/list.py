"""`tailback list`."""

from __future__ import annotations

from typing import Annotated

import typer

from tailback import library
from tailback.cli.basics import command_app, echo

app = command_app()


@app.command(name="list")
def list_(
    as_json: Annotated[bool, typer.Option("--json", help="Print them as JSON.")] = False,
) -> None:
    """List scenarios, published experiments and measured labs."""
    if as_json:
        from tailback.cli.common import say_json  # loads what reads scenarios

        found = {
            "scenarios": library.scenarios(),
            "experiments": library.published(),
            "measured_labs": library.measured(),
        }
        say_json(found)
        return
    rows = [
        ("Scenarios (tailback run NAME)", library.scenarios()),
        ("Published experiments (tailback reproduce NAME)", library.published()),
        ("Measured labs (tailback reproduce NAME)", library.measured()),
    ]
    width = max(len(name) for _, entries in rows for name in entries)
    for number, (title, entries) in enumerate(rows):
        echo(f"{chr(10) if number else ''}{title}")
        for name, about in entries.items():
            echo(f"  {name:<{width}}  {about}")
