"""`tailback list`."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from tailback import library
from tailback.cli.command import command_app

app = command_app()


@app.command(name="list")
def list_(
    as_json: Annotated[bool, typer.Option("--json", help="Print them as JSON.")] = False,
) -> None:
    """List the built-in scenarios and the published experiments."""
    if as_json:
        found = {"scenarios": library.scenarios(), "experiments": library.published()}
        typer.echo(json.dumps(found, indent=2, ensure_ascii=False))
        return
    rows = [
        ("Scenarios (tailback run NAME)", library.scenarios()),
        ("Published experiments (tailback reproduce NAME)", library.published()),
    ]
    width = max(len(name) for _, entries in rows for name in entries)
    for number, (title, entries) in enumerate(rows):
        typer.echo(f"{chr(10) if number else ''}{title}")
        for name, about in entries.items():
            typer.echo(f"  {name:<{width}}  {about}")
