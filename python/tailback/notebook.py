"""Tables for the terminal as text and as HTML, for `repr` and notebooks."""

from __future__ import annotations

import html
import io
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import RenderableType

TABLE_COLUMNS = 110


def as_text(shown: RenderableType) -> str:
    """The text as in a terminal of `TABLE_COLUMNS` columns, without colours."""
    from rich.console import Console

    file = io.StringIO()
    Console(file=file, width=TABLE_COLUMNS, color_system=None).print(shown)
    return "\n".join(line.rstrip() for line in file.getvalue().splitlines())


def as_html(text: str) -> str:
    return f"<pre>{html.escape(text)}</pre>"
