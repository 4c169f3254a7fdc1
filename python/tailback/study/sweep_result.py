"""`SweepResult`: a sweep with its page and its folder."""

from __future__ import annotations

import secrets
import shutil
from html import escape
from pathlib import Path

import pyarrow.compute as pc
from tailback.files.out_folder import replace_file, write_file
from tailback.report.sweep import render_sweep
from tailback.study.sweep_data import SweepData, cell, parquet

SUMMARY = "summary.parquet"
DATASET = "runs"
PAGE = "sweep.html"


class SweepResult(SweepData):
    def page(self) -> str:
        return render_sweep(self)

    def write(self, folder: Path) -> None:
        """Writes the tables and the page. Whatever is there of an older writing is replaced.

        Raises:
            OSError: it cannot be written.
        """
        work = folder / f".{DATASET}.{secrets.token_hex(4)}.writing"
        for rest in folder.glob(f".{DATASET}.*.writing"):
            shutil.rmtree(rest, ignore_errors=True)
        try:
            work.mkdir()
            for number in range(len(self.points)):
                rows = self.runs.filter(pc.equal(self.runs.column("point"), number))
                if rows.num_rows:
                    (work / f"point={number}").mkdir()
                    write_file(
                        work / f"point={number}" / "runs.parquet", parquet(rows.drop_columns(["point"]))
                    )
            shutil.rmtree(folder / DATASET, ignore_errors=True)
            work.rename(folder / DATASET)
        except BaseException:
            shutil.rmtree(work, ignore_errors=True)
            raise
        replace_file(folder / "means.parquet", parquet(self.means))
        replace_file(folder / PAGE, self.page().encode())
        replace_file(folder / SUMMARY, parquet(self.runs))

    def _repr_html_(self) -> str:
        head = "".join(
            f"<th>{escape(name)}</th>" for name in (*self.settings, *(s.label for s in self.shown))
        )
        body = ""
        for number, point in list(enumerate(self.points))[:40]:
            cells = [point.get(setting, "") for setting in self.settings]
            cells += [cell(one, self.interval(number, one)) for one in self.shown]
            body += f"<tr>{''.join(f'<td>{escape(one)}</td>' for one in cells)}</tr>"
        lines = "".join(f"<li>{escape(line)}</li>" for line in self.lines())
        title = escape(repr(self).strip("<>"))
        table = f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
        return f"<p>{title}</p>{table}<ul>{lines}</ul>"
