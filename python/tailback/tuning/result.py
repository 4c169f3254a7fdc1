"""What `tailback.tune` gives, and the folder that keeps it."""

from __future__ import annotations

import io
import json
from html import escape
from pathlib import Path

import pyarrow.parquet as pq

from tailback import text
from tailback.files.out_folder import replace_file
from tailback.report.tuned import render_tuned
from tailback.tuning.tuned import Tuning

PAGE = "tune.html"
SUMMARY = "tuned.json"


class TuneResult(Tuning):
    """A tuning that can be written and shown; what it found is in `Tuning`."""

    def page(self) -> str:
        """tune.html: one page, offline."""
        return render_tuned(self)

    def write(self, folder: Path) -> None:
        """Writes tables and page. Whatever is there of an older writing is replaced.

        Raises:
            OSError: it cannot be written.
        """
        buffer = io.BytesIO()
        pq.write_table(self.table, buffer, compression="zstd", version="2.6")
        replace_file(folder / "trials.parquet", buffer.getvalue())
        replace_file(folder / PAGE, self.page().encode())
        replace_file(folder / SUMMARY, (json.dumps(self.summary(), indent=2) + "\n").encode())

    def __repr__(self) -> str:
        """In a line."""
        state = "" if self.complete else ", not complete"
        trials = text.plural(len(self.trials), "trial")
        return f"<Tuning of {self.design.name.removesuffix('-tune')}: {trials}{state}>"

    def _repr_html_(self) -> str:
        """The lines, for a notebook."""
        title, lines = escape(repr(self).strip("<>")), "\n".join(self.lines())
        return f"<p>{title}</p><pre>{escape(lines)}</pre>"
