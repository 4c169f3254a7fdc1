"""What every file of a command begins with."""

from __future__ import annotations

import typer


def command_app() -> typer.Typer:
    """The app that a file adds its commands to."""
    return typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)
