"""`tailback fit`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tailback import interrupts
from tailback.cli import completion
from tailback.cli.basics import DONE, FAULT, command_app, echo
from tailback.cli.common import (
    AsJson,
    Force,
    Jobs,
    On,
    Out,
    Quiet,
    Resume,
    Sets,
    bad_input,
    begun_or_new,
    say,
    say_json,
)
from tailback.cli.runs_table import runs_table
from tailback.errors import InputError
from tailback.study.fit_design import read_fit
from tailback.study.fit_result import PAGE, FitResult
from tailback.study.posterior_rounds import FitInterrupted, fit

if TYPE_CHECKING:
    from rich.console import RenderableType

app = command_app()

_MAX_FAILED_LINES = 20


@app.command(name="fit")
def fit_(
    measured: Annotated[
        Path | None,
        typer.Argument(
            metavar="MEASURED", help="Observations as YAML or CSV, or a YAML file with the whole fit."
        ),
    ] = None,
    scenario: Annotated[
        str | None,
        typer.Argument(
            metavar="SCENARIO",
            help="The lab: a built-in scenario, or a file.",
            autocompletion=completion.scenarios,
        ),
    ] = None,
    free: Annotated[
        list[str] | None,
        typer.Option(
            "--free",
            metavar="PATH=LOW..HIGH",
            help="An unknown setting and its range; LOW..HIGH:log for a range of its logarithm; or "
            "its values, as in PATH=true,false. Again for more.",
        ),
    ] = None,
    sets: Sets = None,
    seeds: Annotated[
        str | None, typer.Option("--seeds", metavar="LIST", help="Such as 1..3 (the default) or 1,5,9.")
    ] = None,
    points: Annotated[
        int | None,
        typer.Option(
            "--points", metavar="N", help="Points in the first round; default: ten for each unknown range."
        ),
    ] = None,
    refine: Annotated[
        int | None,
        typer.Option(
            "--refine",
            metavar="N",
            help="Points in the second round, where the first one points to; 0: none.",
        ),
    ] = None,
    out: Out = None,
    force: Force = False,
    resume: Resume = None,
    jobs: Jobs = None,
    on: On = None,
    strict: Annotated[
        bool, typer.Option("--strict", help="End with status 1 if the fit misses an observation.")
    ] = False,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Infer settings from what a lab measured, and predict the rest.

    Figures that the fit has seen are calibrated, the others are predicted. It says which unknowns the
    observations identify, and what to measure next. Without --out the folder is runs/NAME-fit-TIME.
    """
    with bad_input():
        given = {"scenario": scenario, "seeds": seeds, "points": points, "refine": refine}
        fields: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
        if free:
            fields["free"] = _by_path("--free", free, "PATH=LOW..HIGH, or PATH=VALUE,VALUE")
        if sets:
            fields["set"] = _by_path("--set", sets, "PATH=VALUE")
        asked = None if measured is None else read_fit(measured, fields)
        name = None if asked is None else asked.name
        with (
            runs_table(quiet or as_json) as progress,
            begun_or_new(resume, out, name, force, "MEASURED") as (folder, place),
            _says_how_to_resume(place),
        ):
            more = fields if asked is None else {}
            result = fit(
                asked, out=folder, resume=resume is not None, jobs=jobs, on=on, progress=progress, **more
            )
    raise typer.Exit(_conclude(result, place, strict, quiet, as_json))


@contextmanager
def _says_how_to_resume(folder: Path) -> Iterator[None]:
    """On an interrupt, prints the command that continues the fit."""
    try:
        yield
    except FitInterrupted:
        echo(f"tailback: interrupted; tailback fit --resume {folder} continues it", err=True)
        raise typer.Exit(interrupts.status()) from None


def _by_path(option: str, given: list[str], expected: str) -> dict[str, str]:
    found = {}
    for one in given:
        setting, separator, value = one.partition("=")
        if not separator:
            raise InputError.at(option, f'found "{one[:60]}", expected {expected}')
        if setting in found:
            raise InputError.at(option, f"found {setting} twice, expected all of it in one")
        found[setting] = value
    return found


def _conclude(result: FitResult, folder: Path, strict: bool, quiet: bool, as_json: bool) -> int:
    """Prints the outcome of a fit, and returns the exit status."""
    from rich.text import Text

    for line in result.failed[:_MAX_FAILED_LINES]:
        echo(line, err=True)
    if len(result.failed) > _MAX_FAILED_LINES:
        echo(f"and {len(result.failed) - _MAX_FAILED_LINES} more", err=True)
    if as_json:
        say_json({"folder": str(folder), **result.data()})
    else:
        parts: list[RenderableType] = [Text(line) for line in result.lines()]
        for table in result.tables():
            parts += ["", table]
        parts = [] if quiet else [*parts, "", *map(Text, result.set_lines())]
        say(parts, str(folder) if quiet else f"\n{folder / PAGE}")
    return FAULT if result.failed or (strict and result.misses) else DONE
