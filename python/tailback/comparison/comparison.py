"""`Comparison`: the tables of a comparison, with its text and its page."""

from __future__ import annotations

import os
from pathlib import Path

from tailback.comparison import terminal
from tailback.comparison.tables import ComparisonTables
from tailback.notebook import as_html, as_text


class Comparison(ComparisonTables):
    """Differences between runs. `repr` and notebooks show the text of `tailback compare`."""

    def page(self) -> str:
        """An HTML page with tables and plots; it opens offline."""
        from tailback.comparison.page import render  # plotly's JavaScript takes a while to load

        return render(self)

    def write(self, file: str | os.PathLike[str]) -> None:
        """Writes the page.

        Raises:
            OSError: the file cannot be written.
        """
        Path(file).write_text(self.page(), encoding="utf-8")

    def __repr__(self) -> str:
        return as_text(terminal.rendered(self))

    def _repr_html_(self) -> str:
        return as_html(repr(self))
