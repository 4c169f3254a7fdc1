"""A comparison as Python has it."""

from __future__ import annotations

import os
from pathlib import Path

from tailback.comparison import terminal
from tailback.comparison.compared import Compared
from tailback.notebook import as_html, as_text


class Comparison(Compared):
    """What differs between runs, with its page. `repr` and notebooks show it as `tailback compare` does."""

    def page(self) -> str:
        """A page with all of it, and with plots that lie over each other. It opens offline."""
        from tailback.comparison.page import render  # plotly's JavaScript takes a while

        return render(self)

    def write(self, file: str | os.PathLike[str]) -> None:
        """Writes the page.

        Raises:
            OSError: it cannot be written.
        """
        Path(file).write_text(self.page(), encoding="utf-8")

    def __repr__(self) -> str:
        """As in the terminal, without colours."""
        return as_text(terminal.rendered(self))

    def _repr_html_(self) -> str:
        return as_html(repr(self))
