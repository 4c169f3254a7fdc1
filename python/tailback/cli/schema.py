"""`tailback schema`."""

from __future__ import annotations

import json

from tailback.cli.basics import command_app, echo
from tailback.scenario import json_schema

app = command_app()


@app.command()
def schema() -> None:
    """Print the JSON Schema of scenario files.

    A file whose first line is "# yaml-language-server: $schema=PATH", with this output at PATH, is completed
    and checked in an editor.
    """
    echo(json.dumps(json_schema(), indent=2))
