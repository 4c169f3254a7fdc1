"""`FitResult`: a fit with its page and its folder."""

from __future__ import annotations

import json
from html import escape
from pathlib import Path

from tailback.files.out_folder import replace_file
from tailback.report.fitted import render_fit
from tailback.study.fit_data import ANSWER_HEAD, UNKNOWN_HEAD, FitData
from tailback.study.sweep_data import parquet

PAGE = "fit.html"
DATA = "fit.json"


class FitResult(FitData):
    def page(self) -> str:
        return render_fit(self)

    def write(self, folder: Path) -> None:
        """Writes the tables, the page and fit.json, which is last. What is there is replaced.

        Raises:
            OSError: it cannot be written.
        """
        for name, table in (
            ("posterior", self.draws),
            ("profiles", self.profiles),
            ("observations", self.observations),
        ):
            replace_file(folder / f"{name}.parquet", parquet(table))
        replace_file(folder / PAGE, self.page().encode())
        words = json.dumps(self.data(), indent=2, ensure_ascii=False, allow_nan=False)
        replace_file(folder / DATA, f"{words}\n".encode())

    def _repr_html_(self) -> str:
        tables = "".join(
            _html_table(head, rows)
            for head, rows in ((UNKNOWN_HEAD, self.unknown_rows()), (ANSWER_HEAD, self.answer_rows()))
        )
        lines = "".join(f"<li>{escape(line)}</li>" for line in self.lines())
        return f"<p>{escape(repr(self).strip('<>'))}</p><ul>{lines}</ul>{tables}"


def _html_table(head: tuple[str, ...], rows: list[list[str]]) -> str:
    first = "".join(f"<th>{escape(name)}</th>" for name in head)
    body = "".join(f"<tr>{''.join(f'<td>{escape(one)}</td>' for one in row)}</tr>" for row in rows)
    return f"<table><thead><tr>{first}</tr></thead><tbody>{body}</tbody></table>"
