"""The one place where text of others reaches a terminal: signs that steer it, or turn text round, are shown.

File names, names of scenarios and hosts, and what tools say may hold such signs. All that the command line
prints goes through here.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable
from functools import cache
from typing import TYPE_CHECKING, Any

import typer

if TYPE_CHECKING:
    from rich.console import Console

MAX_LINE = 2000
"""Characters of a line of a message."""
_AFTER_CUT = 1900
_STEERING = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069]"
)
"""C0 but tab and newline, DEL, C1, line separators, and signs that change the direction of text."""


def visible(text: str) -> str:
    r"""A text whose signs that a terminal obeys are written out, such as \x1b and \u202e."""
    return _STEERING.sub(lambda one: one[0].encode("unicode_escape").decode("ascii"), text)


def echo(text: object = "", err: bool = False, nl: bool = True) -> None:
    """Prints text of ours with parts from others. A line of a message on stderr has an end."""
    shown = visible(str(text))
    if err and len(shown) > MAX_LINE:
        shown = "\n".join(map(_cut, shown.split("\n")))
    typer.echo(shown, err=err, nl=nl)


def echo_whole(text: str) -> None:
    """Prints a text of which nothing may be missing: a long line goes on in the next, after a backslash."""
    lines = []
    for line in visible(text).split("\n"):
        parts = [line[at : at + _AFTER_CUT] for at in range(0, len(line), _AFTER_CUT)] or [""]
        lines.append("\\\n        ".join(parts))
    typer.echo("\n".join(lines))


def echo_document(text: str, nl: bool = True) -> None:
    """Prints a document, such as YAML, for other programs: as it is, unless a terminal is to show it."""
    typer.echo(visible(text) if sys.stdout.isatty() else text, nl=nl)


def in_json(text: str) -> str:
    """A JSON text with such signs as JSON writes them: it means the same."""
    return _STEERING.sub(lambda one: f"\\u{ord(one[0]):04x}", text)


def _cut(line: str) -> str:
    return line if len(line) <= MAX_LINE else f"{line[:_AFTER_CUT]}... ({len(line):,} characters)"


def console(**given: Any) -> Console:
    """A console whose texts are visible, for tables and progress bars."""
    return _class()(**{"markup": False, "emoji": False, **given})


@cache
def _class() -> type[Console]:  # rich is imported where there is something to draw
    from rich.console import Console
    from rich.segment import Segment

    class Visible(Console):
        def _render_buffer(self, buffer: Iterable[Segment]) -> str:
            shown = [
                one if one.control else Segment(visible(one.text), one.style, one.control) for one in buffer
            ]
            return super()._render_buffer(shown)

    return Visible
