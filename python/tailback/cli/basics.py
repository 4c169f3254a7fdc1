"""Code that every command needs: its typer app, exit statuses, and output to the terminal.

File names, names of scenarios and hosts, and the output of tools may hold control characters that steer a
terminal or reverse text. All output of the command line goes through this module, which escapes them.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable
from functools import cache
from typing import TYPE_CHECKING, Any

import typer

if TYPE_CHECKING:
    from rich.console import Console

DONE, FAULT, BAD_INPUT, NOT_WRITTEN, TIME_LIMIT = 0, 1, 2, 3, 124
"""Exit statuses; 124 is that of timeout(1)."""
MAX_LINE_CHARS = 2000
"""Longer lines of a message are cut."""
_CHARS_AFTER_CUT = 1900
_CONTROL_CHARACTERS = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069]"
)
"""C0 except tab and newline, DEL, C1, line separators, and characters that change the direction of text."""


def command_app() -> typer.Typer:
    """The typer app of a command's module."""
    return typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)


def given_as(context: typer.Context) -> dict[str, str]:
    """Where each option's value came from: `--option`, or a variable of the environment."""
    return {
        str(one.name): _variable(one)
        if str(context.get_parameter_source(str(one.name))).endswith("ENVIRONMENT")
        else one.opts[0]
        for one in context.command.params
        if getattr(one, "envvar", None)
        and not str(context.get_parameter_source(str(one.name))).endswith("DEFAULT")
    }


def _variable(option: Any) -> str:
    return str(option.envvar if isinstance(option.envvar, str) else option.envvar[0])


def told(error: typer.TyperException) -> str:
    """The line for a wrong option or argument. It names the option or the variable, whichever was given."""
    line = " ".join(error.format_message().split())
    option, context = getattr(error, "param", None), getattr(error, "ctx", None)
    if option is not None and context is not None and getattr(option, "envvar", None):
        variable = _variable(option)
        is_variable = str(context.get_parameter_source(option.name)).endswith("ENVIRONMENT")
        given = f"'{variable}'" if is_variable else f"'{option.opts[0]}'"
        line = re.sub(rf"'[^']*' \(env var: '{re.escape(variable)}'\)", given, line)
    return line


def silence_stdout() -> None:
    """Discards all further output."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def visible(text: str) -> str:
    r"""The text with control characters escaped, such as \x1b and \u202e."""
    return _CONTROL_CHARACTERS.sub(lambda one: one[0].encode("unicode_escape").decode("ascii"), text)


def echo(text: object = "", err: bool = False, nl: bool = True) -> None:
    """Prints a message, with control characters escaped. Long lines on stderr are cut."""
    shown = visible(str(text))
    if err and len(shown) > MAX_LINE_CHARS:
        shown = "\n".join(map(_shortened, shown.split("\n")))
    typer.echo(shown, err=err, nl=nl)


def echo_whole(text: str) -> None:
    """Prints a text without cuts: a long line continues in the next, after a backslash."""
    lines = []
    for line in visible(text).split("\n"):
        parts = [line[at : at + _CHARS_AFTER_CUT] for at in range(0, len(line), _CHARS_AFTER_CUT)] or [""]
        lines.append("\\\n        ".join(parts))
    typer.echo("\n".join(lines))


def echo_document(text: str, nl: bool = True) -> None:
    """Prints a document such as YAML for other programs; escapes control characters only on a terminal."""
    typer.echo(visible(text) if sys.stdout.isatty() else text, nl=nl)


def in_json(text: str) -> str:
    """The JSON text with control characters as JSON escapes."""
    return _CONTROL_CHARACTERS.sub(lambda one: f"\\u{ord(one[0]):04x}", text)


def _shortened(line: str) -> str:
    return line if len(line) <= MAX_LINE_CHARS else f"{line[:_CHARS_AFTER_CUT]}... ({len(line):,} characters)"


def console(**given: Any) -> Console:
    """A rich console that escapes control characters, for tables and progress bars."""
    return _console_class()(**{"markup": False, "emoji": False, **given})


@cache
def _console_class() -> type[Console]:  # rich takes a tenth of a second to load
    from rich.console import Console
    from rich.segment import Segment

    class Visible(Console):
        def _render_buffer(self, buffer: Iterable[Segment]) -> str:
            shown = [
                one if one.control else Segment(visible(one.text), one.style, one.control) for one in buffer
            ]
            return super()._render_buffer(shown)

    return Visible
