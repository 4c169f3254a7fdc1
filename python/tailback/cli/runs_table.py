"""The table that grows on the terminal while a sweep or a fit runs."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from tailback import text
from tailback.cli.basics import console, echo
from tailback.metrics import Metric
from tailback.study.grid import SweepProgress
from tailback.study.points import in_words
from tailback.study.sweep_design import Design

if TYPE_CHECKING:
    from rich.console import RenderableType

_MAX_ROWS = 16
"""The complete table is printed at the end."""


@contextmanager
def runs_table(quiet: bool) -> Iterator[SweepProgress]:
    """On a terminal, shows a table of points that grows as runs end, and a progress bar. Nothing if `quiet`."""
    if quiet or not sys.stderr.isatty():
        yield _Quiet()
        return
    from rich.live import Live

    table = _Growing()
    with Live(
        get_renderable=table.render, console=console(stderr=True), transient=True, refresh_per_second=4
    ):
        yield table


class PrintsDamage:
    """Prints damaged lines of a journal, also with --quiet."""

    def damaged(self, line: str) -> None:
        echo(line, err=True)


class _Quiet(PrintsDamage, SweepProgress):
    pass


class _Growing(PrintsDamage, SweepProgress):
    def __init__(self) -> None:
        from rich.progress import BarColumn, TextColumn, TimeRemainingColumn
        from rich.progress import Progress as Bar

        self._bar = Bar(
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            TextColumn("{task.fields[state]}", markup=False),
            TextColumn("left"),
            TimeRemainingColumn(compact=True),
        )
        self._task = self._bar.add_task("sweep", total=None, state="checking points")
        self._points: list[dict[str, str]] = []
        self._metrics: dict[str, Metric] = {}
        self._values: dict[int, dict[str, list[float]]] = {}
        self._under_way: dict[str, float] = {}
        self._runs = self._over = self._failed = 0

    def begun(self, design: Design, points: list[dict[str, str]], runs: int) -> None:
        self._points, self._runs = points, runs
        self._metrics = {one.label: one for one in design.shown()}
        self._bar.update(self._task, description=design.name, total=runs)
        self._move()

    def share(self, run: str, share: float) -> None:
        self._under_way[run] = share
        self._move()

    def ended(self, row: dict[str, Any]) -> None:
        self._under_way.pop(row.get("key", ""), None)
        self._over += 1
        self._failed += row["status"] != "done"
        of_point = self._values.setdefault(row["point"], {})
        for label, value in row.get("metrics", {}).items():
            if value is not None:
                of_point.setdefault(label, []).append(value)
        self._move()

    def _move(self) -> None:
        failed = f", {self._failed} failed" if self._failed else ""
        state = f"{self._over} of {text.plural(self._runs, 'run')}{failed}"
        self._bar.update(self._task, completed=self._over + sum(self._under_way.values()), state=state)

    def render(self) -> RenderableType:
        from rich.console import Group
        from rich.table import Table

        table = Table(box=None, padding=(0, 2, 0, 0))
        seen = dict(self._values)
        labels = [label for label in self._metrics if any(label in one for one in seen.values())]
        for head in ("Point", *labels, "Seeds"):
            table.add_column(head, justify="left" if head == "Point" else "right", no_wrap=head == "Seeds")
        for point in sorted(seen)[-_MAX_ROWS:]:
            of_point = seen[point]
            means = [
                self._metrics[label].in_words(sum(values) / len(values))
                if (values := of_point.get(label))
                else ""
                for label in labels
            ]
            most = max(map(len, of_point.values()), default=0)
            table.add_row(in_words(self._points[point]), *means, str(most))
        return Group(table, self._bar)
