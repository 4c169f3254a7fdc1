"""`tailback sweep`."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tailback import signals, text
from tailback.cli.command import command_app
from tailback.cli.common import Quiet, Sets, bad_input, result_folder, say
from tailback.cli.status import DONE, FAULT
from tailback.scenario import Problem, ScenarioError
from tailback.sweeps import Design, Progress, SweepResult, read_design, sweep
from tailback.sweeps.points import in_words, vary_of
from tailback.sweeps.results import PAGE
from tailback.sweeps.swept import words_of

if TYPE_CHECKING:
    from rich.console import RenderableType

app = command_app()

_ROWS = 16
"""Of the table that grows; the whole one is printed at the end."""


@app.command(name="sweep")
def sweep_(
    file: Annotated[
        Path | None, typer.Argument(metavar="FILE", help="A sweep; or give --scenario and --vary.")
    ] = None,
    scenario: Annotated[
        str | None, typer.Option("--scenario", metavar="NAME|FILE", help="The scenario to run.")
    ] = None,
    vary: Annotated[
        list[str] | None,
        typer.Option(
            "--vary",
            metavar="PATH=VALUES",
            help="Values of a setting, such as host.mtu=1024B,4096B, or LOW..HIGH:5, LOW..HIGH:5:log. "
            "Again for more: all are combined.",
        ),
    ] = None,
    sets: Sets = None,
    seeds: Annotated[
        str | None, typer.Option("--seeds", metavar="LIST", help="Such as 1..5 (the default) or 1,5,9.")
    ] = None,
    where: Annotated[
        list[str] | None,
        typer.Option(
            "--where", metavar="CONDITION", help="Only points such as 'switch.ecn.k_min < switch.ecn.k_max'."
        ),
    ] = None,
    sample: Annotated[
        int | None,
        typer.Option("--sample", metavar="N", help="A Latin hypercube of N points, not all.", min=1),
    ] = None,
    measures: Annotated[
        list[str] | None,
        typer.Option("--measure", metavar="NAME", help="A measure to show, such as jain_index:since=start."),
    ] = None,
    keep: Annotated[bool, typer.Option("--keep", help="Keep the folder of each run.")] = False,
    out: Annotated[
        Path | None, typer.Option("--out", metavar="DIR", help="Folder for the result, new or empty.")
    ] = None,
    resume: Annotated[
        Path | None,
        typer.Option(
            "--resume", metavar="DIR", help="Go on with the sweep in DIR: what is done is not run again."
        ),
    ] = None,
    jobs: Annotated[
        int | None, typer.Option("--jobs", "-j", help="Runs at a time; default: a core each.", min=1, max=256)
    ] = None,
    on: Annotated[
        str | None,
        typer.Option("--on", metavar="CLUSTER", help="A Ray cluster: ray, or ray://host:10001."),
    ] = None,
    quiet: Quiet = False,
) -> None:
    """Run a scenario at many points and seeds, and say what is noise.

    Without --out the folder is runs/NAME-sweep-TIME. A run that fails is a row with its message, and the
    others go on. Ctrl-C keeps what is complete, and --resume goes on from there.
    """
    with bad_input():
        asked = _asked(file, scenario, vary, sets, seeds, where, sample, measures, keep)
        if resume is not None and out is not None:
            raise typer.BadParameter("--out and --resume exclude each other")
        with _shown(quiet) as progress:
            if resume is not None:
                place = resume
                result = sweep(asked, out=resume, resume=True, jobs=jobs, on=on, progress=progress)
            elif asked is None:
                raise typer.BadParameter("expected FILE, --scenario or --resume")
            else:
                with result_folder(out, asked.name) as folder:
                    place = folder.given
                    result = sweep(asked, out=folder, jobs=jobs, on=on, progress=progress)
    raise typer.Exit(_conclude(result, place, quiet))


def _asked(
    file: Path | None,
    scenario: str | None,
    vary: list[str] | None,
    sets: list[str] | None,
    seeds: str | None,
    where: list[str] | None,
    sample: int | None,
    measures: list[str] | None,
    keep: bool,
) -> Design | None:
    """The sweep of a file, with the options on top of it."""
    fields: dict[str, Any] = {}
    if file is not None:
        fields = read_design(file).model_dump(mode="json", exclude_unset=True)
    if scenario is not None:
        fields["scenario"] = scenario
    for given in vary or ():
        path, separator, values = given.partition("=")
        if not separator:
            problem = Problem("--vary", (), f'found "{given[:60]}", expected PATH=VALUES')
            raise ScenarioError([problem])
        fields.setdefault("vary", {})[path] = vary_of(values)
    for given in sets or ():
        path, _, value = given.partition("=")
        fields.setdefault("set", {})[path] = value
    given_fields = {"seeds": seeds, "where": where, "measures": measures, "keep": keep or None}
    fields |= {name: value for name, value in given_fields.items() if value}
    if sample is not None:
        fields["sample"] = {"points": sample}
    return read_design(fields) if fields else None


def _conclude(result: SweepResult, folder: Path, quiet: bool) -> int:
    """Prints what a sweep came to. Gives the exit status."""
    told: set[str] = set()
    for row in result.failed:
        at = in_words(result.points[row["point"]])
        seed = "" if row["status"] == "impossible" else f", seed {row['seed']}"
        line = f"{row['status']}: {at}{seed}: {row['message']}"
        if line not in told:  # of an impossible point once, and not for each seed
            typer.echo(line, err=True)
        told.add(line)
    for row in result.faulty:
        at = f"{in_words(result.points[row['point']])}, seed {row['seed']}"
        typer.echo(f"fault: {at}: {row['faults'][0]}", err=True)
    if result.interrupted:
        all_runs = len(result.points) * len(result.seeds)
        words = f"tailback: interrupted; {len(result.rows)} of {all_runs} runs have ended"
        typer.echo(f"{words}; tailback sweep --resume {folder} goes on", err=True)
    parts: list[RenderableType] = [] if quiet else [result.table(), "", *_lines(result)]
    say(parts, str(folder) if quiet else f"\n{folder / PAGE}")
    if result.interrupted:
        return signals.status()
    return FAULT if result.failed or result.faulty else DONE


def _lines(result: SweepResult) -> list[RenderableType]:
    from rich.text import Text

    return [Text(line) for line in result.lines()]


@contextmanager
def _shown(quiet: bool) -> Iterator[Progress]:
    """A table of points that grows as runs end, and a bar of all runs; nothing where nobody would see it."""
    if quiet or not sys.stderr.isatty():
        yield Progress()
        return
    from rich.console import Console
    from rich.live import Live

    growing = _Growing()
    with Live(
        get_renderable=growing.render, console=Console(stderr=True), transient=True, refresh_per_second=4
    ):
        yield growing


class _Growing(Progress):
    """What the terminal shows while a sweep runs."""

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
        self._task = self._bar.add_task("sweep", total=None, state="looking at points")
        self._points: list[dict[str, str]] = []
        self._units: dict[str, Any] = {}
        self._values: dict[int, dict[str, list[float]]] = {}
        self._under_way: dict[str, float] = {}
        self._runs = self._over = self._failed = 0

    def begun(self, design: Design, points: list[dict[str, str]], runs: int, done: int) -> None:
        self._points, self._runs = points, runs
        self._units = {one.label: one for one in design.shown()}
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
        for label, value in row.get("measures", {}).items():
            if value is not None:
                of_point.setdefault(label, []).append(value)
        self._move()

    def _move(self) -> None:
        failed = f", {self._failed} failed" if self._failed else ""
        state = f"{self._over} of {text.plural(self._runs, 'run')}{failed}"
        self._bar.update(self._task, completed=self._over + sum(self._under_way.values()), state=state)

    def render(self) -> RenderableType:
        """The newest points, and the bar."""
        from rich.console import Group
        from rich.table import Table

        table = Table(box=None, padding=(0, 2, 0, 0))
        seen = dict(self._values)
        labels = [label for label in self._units if any(label in one for one in seen.values())]
        for head in ("Point", *labels, "Seeds"):
            table.add_column(head, justify="left" if head == "Point" else "right", no_wrap=head == "Seeds")
        for point in sorted(seen)[-_ROWS:]:
            of_point = seen[point]
            means = [
                words_of(self._units[label], sum(values) / len(values))
                if (values := of_point.get(label))
                else ""
                for label in labels
            ]
            most = max(map(len, of_point.values()), default=0)
            table.add_row(in_words(self._points[point]), *means, str(most))
        return Group(table, self._bar)
