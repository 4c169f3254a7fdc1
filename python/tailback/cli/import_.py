"""`tailback import`."""

from __future__ import annotations

from enum import Enum
from pathlib import Path
from typing import Annotated

import typer

from tailback.cli.basics import command_app, echo_document
from tailback.cli.common import bad_input
from tailback.imports.sonic import sonic

app = command_app()


class ConfigKind(str, Enum):
    """The kinds of configuration."""

    SONIC = "sonic"


IMPORTERS = {ConfigKind.SONIC: sonic}


@app.command()
def import_(
    form: Annotated[ConfigKind, typer.Argument(help="The kind of file: sonic for a config_db.json.")],
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The configuration.")],
) -> None:
    """Print a scenario with the switch of a configuration.

    The scenario runs as it is, but its hosts and traffic are there to be replaced. Comments at its end list
    the parts of the configuration that are not honoured.
    """
    with bad_input():
        echo_document(IMPORTERS[form](file), nl=False)
