"""`TuneResult`: a tuning with its page and its folder."""

from __future__ import annotations

import json
from html import escape
from pathlib import Path

from tailback.files.out_folder import replace_file
from tailback.report.tuned import render_tuned
from tailback.study.sweep_data import parquet
from tailback.study.tune_data import TuneData

PAGE = "tune.html"
SUMMARY = "tuned.json"


class TuneResult(TuneData):
    def page(self) -> str:
        return render_tuned(self)

    def write(self, folder: Path) -> None:
        """Writes tables and page. Whatever is there of an older writing is replaced.

        Raises:
            OSError: it cannot be written.
        """
        replace_file(folder / "trials.parquet", parquet(self.table))
        replace_file(folder / PAGE, self.page().encode())
        replace_file(folder / SUMMARY, (json.dumps(self.summary(), indent=2) + "\n").encode())

    def _repr_html_(self) -> str:
        title, lines = escape(repr(self).strip("<>")), "\n".join(self.lines())
        return f"<p>{title}</p><pre>{escape(lines)}</pre>"
