"""`tailback import`."""

from __future__ import annotations

from enum import Enum
from pathlib import Path
from typing import Annotated

import typer

from tailback.cli.basics import command_app, echo_document
from tailback.cli.common import bad_input
from tailback.imports.sonic import sonic
from tailback.imports.sonic_fabric import LINK_COLUMNS, sonic_fabric

app = command_app()


class ConfigKind(str, Enum):
    """The kinds of configuration."""

    SONIC = "sonic"


@app.command()
def import_(
    form: Annotated[ConfigKind, typer.Argument(help="The kind of file: sonic for a config_db.json.")],
    files: Annotated[
        list[Path],
        typer.Argument(metavar="FILE...", help="The configuration; of several switches: their fabric."),
    ],
    links: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE.csv",
            help=f"The links of a fabric, in place of DEVICE_NEIGHBOR: columns {', '.join(LINK_COLUMNS)}.",
        ),
    ] = None,
) -> None:
    """Print a scenario made from configurations of switches.

    Of one file, the scenario has its switch; of several, their fabric. It runs as it is, but its hosts and traffic are there to be replaced. Comments at its end list
    the parts of the configuration that are not honoured, and what the two ends of a link disagree on.
    """
    assert form is ConfigKind.SONIC
    with bad_input():
        alone = len(files) == 1 and links is None
        echo_document(sonic(files[0]) if alone else sonic_fabric(files, links), nl=False)
