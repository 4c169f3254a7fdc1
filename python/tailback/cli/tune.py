"""`tailback tune`."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from tailback import interrupts
from tailback.cli.basics import DONE, FAULT, command_app, console, echo
from tailback.cli.common import (
    AsJson,
    Force,
    Jobs,
    On,
    Out,
    Quiet,
    Resume,
    bad_input,
    begun_or_new,
    say,
    say_json,
)
from tailback.cli.runs_table import PrintsDamage
from tailback.errors import InputError
from tailback.study.tpe import TuneProgress, tune
from tailback.study.tune_data import Trial, cost
from tailback.study.tune_design import TuneDesign, read_tune
from tailback.study.tune_result import PAGE, TuneResult
from tailback.text import plural, verb

app = command_app()


@app.command(name="tune")
def tune_(
    file: Annotated[Path | None, typer.Argument(metavar="FILE", help="A tuning, as YAML.")] = None,
    trials: Annotated[
        int | None,
        typer.Option("--trials", metavar="N", help="Number of trials, instead of the file's.", min=1),
    ] = None,
    out: Out = None,
    force: Force = False,
    resume: Resume = None,
    jobs: Jobs = None,
    on: On = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Look for the settings that serve several workloads best.

    The best are judged on seeds and workloads that no trial saw. Without --out the folder is
    runs/NAME-tune-TIME. Ctrl-C keeps complete runs, and --resume continues from there.
    """
    with bad_input():
        _require_optuna()
        asked = None if file is None else read_tune(file)
        if asked is not None and trials is not None:
            asked = asked.model_copy(update={"trials": trials})
        name = None if asked is None else asked.name
        with (
            _progress(quiet or as_json) as progress,
            begun_or_new(resume, out, name, force, "FILE") as (folder, place),
        ):
            result = tune(asked, out=folder, resume=resume is not None, jobs=jobs, on=on, progress=progress)
    raise typer.Exit(_conclude(result, place, quiet, as_json))


def _require_optuna() -> None:
    try:
        import optuna  # noqa: F401
    except ImportError:
        text = "found no Optuna, expected it: pip install 'tailback[tune]'"
        raise InputError.at("tailback tune", text) from None


def _conclude(result: TuneResult, folder: Path, quiet: bool, as_json: bool) -> int:
    """Prints the outcome of a tuning, and returns the exit status."""
    from rich.text import Text

    for trial in result.trials:
        if trial.state == "failed":
            echo(f"failed: trial {trial.number}: {trial.message}", err=True)
    if result.interrupted:
        ended = f"tailback: interrupted; {len(result.trials)} of {plural(result.design.trials, 'trial')} {verb(len(result.trials), 'has', 'have')} ended"
        echo(f"{ended}; tailback tune --resume {folder} continues it", err=True)
    if as_json:
        say_json({"folder": str(folder), **result.summary()})
    else:
        lines = [] if quiet else [Text(line) for line in result.lines()]
        if not quiet and result.best and not result.design.pareto:
            lines += [Text(""), *(Text(line) for line in result.best.set_lines)]
        say(lines, str(folder) if quiet else f"\n{folder / PAGE}")
    if result.interrupted:
        return interrupts.status()
    return DONE if result.best is not None else FAULT


@contextmanager
def _progress(quiet: bool) -> Iterator[TuneProgress]:
    """On a terminal, a progress bar of all trials with the best cost so far."""
    if quiet or not sys.stderr.isatty():
        yield _Quiet()
        return
    from rich.progress import BarColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Bar

    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        TextColumn("{task.fields[state]}", markup=False),
        TextColumn("left"),
        TimeRemainingColumn(compact=True),
    )
    with Bar(*columns, console=console(stderr=True), transient=True) as bar:
        yield _Bar(bar)


class _Quiet(PrintsDamage, TuneProgress):
    pass


class _Bar(PrintsDamage, TuneProgress):
    def __init__(self, bar: object) -> None:
        from rich.progress import Progress as RichBar

        assert isinstance(bar, RichBar)
        self._bar = bar
        self._task = bar.add_task("tune", total=None, state="scenarios with their own settings")
        self._best: float | None = None
        self._design: TuneDesign | None = None

    def begun(self, design: TuneDesign) -> None:
        self._design = design
        self._bar.update(self._task, description=design.name, total=design.trials)

    def tried(self, trial: Trial) -> None:
        if trial.feasible and self._design is not None:
            value = cost(self._design, trial.costs)
            self._best = value if self._best is None else min(self._best, value)
        best = "" if self._best is None else f", best {100 * self._best:+.3g} %"
        step = 0 if trial.state == "impossible" else 1
        self._bar.update(self._task, advance=step, state=f"trial {trial.number}{best}")

    def judging(self, trials: int) -> None:
        self._bar.update(self._task, state="judging on seeds and workloads that no trial saw")
