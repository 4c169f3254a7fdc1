"""`tailback sweep`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tailback import interrupts
from tailback.cli.basics import DONE, FAULT, command_app, echo
from tailback.cli.common import Force, Jobs, On, Out, Quiet, Resume, Sets, bad_input, begun_or_new, say
from tailback.cli.runs_table import runs_table
from tailback.errors import InputError, Problem
from tailback.scenario import load
from tailback.scenario.warnings import warnings
from tailback.study.grid import sweep
from tailback.study.points import in_words, vary_of
from tailback.study.sweep_design import Design, read_design
from tailback.study.sweep_result import PAGE, SweepResult
from tailback.text import plural, verb

if TYPE_CHECKING:
    from rich.console import RenderableType

app = command_app()

MAX_CHECKED_POINTS = 64
"""Points that are checked for warnings; each check takes some milliseconds."""


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
            "Repeatable: all are combined.",
        ),
    ] = None,
    sets: Sets = None,
    seeds: Annotated[
        str | None, typer.Option("--seeds", metavar="LIST", help="Such as 1..5 (the default) or 1,5,9.")
    ] = None,
    where: Annotated[
        list[str] | None,
        typer.Option(
            "--where",
            metavar="CONDITION",
            help="Keep only such points: 'switch.ecn.k_min < switch.ecn.k_max'.",
        ),
    ] = None,
    sample: Annotated[
        int | None,
        typer.Option(
            "--sample", metavar="N", help="Run a Latin hypercube of N points instead of all.", min=1
        ),
    ] = None,
    metrics: Annotated[
        list[str] | None,
        typer.Option("--metric", metavar="NAME", help="A metric to show, such as jain_index:since=start."),
    ] = None,
    measures: Annotated[list[str] | None, typer.Option("--measure", hidden=True)] = None,
    keep: Annotated[bool, typer.Option("--keep", help="Keep the folder of each run.")] = False,
    store: Annotated[
        str | None,
        typer.Option(
            "--store",
            metavar="URL",
            help="Storage for tables and, with --keep, run folders: s3://, gs://, file://.",
        ),
    ] = None,
    out: Out = None,
    force: Force = False,
    resume: Resume = None,
    jobs: Jobs = None,
    on: On = None,
    quiet: Quiet = False,
) -> None:
    """Run a scenario at many points and seeds, and say what is noise.

    Without --out the folder is runs/NAME-sweep-TIME. A run that fails gets a row with its message, and the
    others go on. Ctrl-C keeps complete runs, and --resume continues from there.
    """
    with bad_input():
        if measures:
            raise InputError.at("--measure", "found an option of older versions, expected --metric")
        asked = _asked(file, scenario, vary, sets, seeds, where, sample, metrics, keep, store)
        if asked is not None and resume is None and not quiet:
            _warn(asked)
        name = None if asked is None else asked.name
        with (
            runs_table(quiet) as progress,
            begun_or_new(resume, out, name, force, "FILE, --scenario") as (folder, place),
        ):
            result = sweep(asked, out=folder, resume=resume is not None, jobs=jobs, on=on, progress=progress)
    raise typer.Exit(_conclude(result, place, quiet))


def _warn(asked: Design) -> None:
    """Prints each warning of the first points once, with the first point that it applies to."""
    point_of_warning: dict[str, str] = {}
    for point in asked.all_points()[:MAX_CHECKED_POINTS]:
        try:
            scenario = load(
                asked.scenario, sets=[*asked.sets, *(f"{setting}={to}" for setting, to in point.items())]
            )
        except InputError:  # the table has a row with the message
            continue
        for warning in warnings(scenario):
            point_of_warning.setdefault(warning, in_words(point))
    for warning, where in point_of_warning.items():
        echo(f"warning: {where}: {warning}", err=True)


def _asked(
    file: Path | None,
    scenario: str | None,
    vary: list[str] | None,
    sets: list[str] | None,
    seeds: str | None,
    where: list[str] | None,
    sample: int | None,
    metrics: list[str] | None,
    keep: bool,
    store: str | None,
) -> Design | None:
    """The sweep of a file, with fields replaced by options."""
    fields: dict[str, Any] = {}
    if file is not None:
        fields = read_design(file).model_dump(mode="json", exclude_unset=True)
    if scenario is not None:
        fields["scenario"] = scenario
    once: set[str] = set()
    for given in vary or ():
        setting, separator, values = given.partition("=")
        if not separator:
            problem = Problem("--vary", (), f'found "{given[:60]}", expected PATH=VALUES')
            raise InputError([problem])
        if setting in once:
            raise InputError.at("--vary", f"found {setting} twice, expected all values in one")
        once.add(setting)
        fields.setdefault("vary", {})[setting] = vary_of(values)
    for given in sets or ():
        setting, _, value = given.partition("=")
        fields.setdefault("set", {})[setting] = value
    given_fields = {"seeds": seeds, "where": where, "metrics": metrics, "keep": keep, "store": store}
    fields |= {name: value for name, value in given_fields.items() if value}
    if sample is not None:
        fields["sample"] = {"points": sample}
    return read_design(fields) if fields else None


def _conclude(result: SweepResult, folder: Path, quiet: bool) -> int:
    """Prints the outcome of a sweep, and returns the exit status."""
    printed: set[str] = set()
    for row in result.failed:
        at = in_words(result.points[row["point"]])
        seed = "" if row["status"] == "impossible" else f", seed {row['seed']}"
        line = f"{row['status']}: {at}{seed}: {row['message']}"
        if line not in printed:  # an impossible point has the same line for each seed
            echo(line, err=True)
        printed.add(line)
    for row in result.faulty:
        at = f"{in_words(result.points[row['point']])}, seed {row['seed']}"
        echo(f"fault: {at}: {row['faults'][0]}", err=True)
    if result.interrupted:
        all_runs = len(result.points) * len(result.seeds)
        words = f"tailback: interrupted; {len(result.rows)} of {plural(all_runs, 'run')} {verb(len(result.rows), 'has', 'have')} ended"
        echo(f"{words}; tailback sweep --resume {folder} continues it", err=True)
    parts: list[RenderableType] = [] if quiet else [result.table(), "", *_lines(result)]
    say(parts, str(folder) if quiet else f"\n{folder / PAGE}")
    if result.interrupted:
        return interrupts.status()
    return FAULT if result.failed or result.faulty else DONE


def _lines(result: SweepResult) -> list[RenderableType]:
    from rich.text import Text

    return [Text(line) for line in result.lines()]
