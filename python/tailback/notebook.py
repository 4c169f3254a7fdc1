"""Tables for the terminal as text and as HTML, for `repr` and notebooks."""

from __future__ import annotations

import html
import io
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import RenderableType

WIDTH = 110


def as_text(shown: RenderableType) -> str:
    """As in a terminal of `WIDTH` columns, without colours."""
    from rich.console import Console

    file = io.StringIO()
    Console(file=file, width=WIDTH, color_system=None).print(shown)
    return "\n".join(line.rstrip() for line in file.getvalue().splitlines())


def as_html(text: str) -> str:
    """Text as it is."""
    return f"<pre>{html.escape(text)}</pre>"
