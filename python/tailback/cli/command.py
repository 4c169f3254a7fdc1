"""What all files of commands begin with."""

from __future__ import annotations

import typer


def command_app() -> typer.Typer:
    """What a file's commands are put into."""
    return typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)
