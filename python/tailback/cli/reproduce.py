"""`tailback reproduce`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from tailback import interrupts
from tailback.cli.basics import command_app
from tailback.cli.common import AsJson, Force, Jobs, On, Out, bad_input, cores, result_folder, say, say_json
from tailback.cli.progress import of_all, progress_bar
from tailback.errors import InputError
from tailback.measured import LABS, lab
from tailback.study.claims import ALL_EXPERIMENTS, names, planned_runs, reproduce_all
from tailback.study.claims import reproduce as repeat

if TYPE_CHECKING:
    from tailback.study.reproduction import AllReproductions, Reproduction

app = command_app()


@app.command()
def reproduce(
    name: Annotated[
        str,
        typer.Argument(
            metavar="NAME|all|LAB",
            help="A published experiment, all of them in one report, or a measured lab: L1, L2, L3.",
        ),
    ],
    out: Out = None,
    force: Force = False,
    strict: Annotated[bool, typer.Option("--strict", help="End with status 1 if a claim is missed.")] = False,
    quick: Annotated[bool, typer.Option("--quick", help="Simulate less: a look, not a verdict.")] = False,
    only: Annotated[
        list[str] | None,
        typer.Option("--only", metavar="IDS", help="Only these claims, such as C9,C10; repeatable."),
    ] = None,
    cells: Annotated[
        Path | None,
        typer.Option(
            "--cells",
            metavar="FILE.csv",
            help="Of a measured lab: the cells to predict, in the columns of its table; default: its table.",
        ),
    ] = None,
    jobs: Jobs = None,
    on: On = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress bar.")] = False,
    as_json: AsJson = False,
) -> None:
    """Repeat published experiments, or predict a measured lab.

    Each claim is compared with the result: met, or missed. --json prints reproduce.json and the folder. Of a
    lab DIR gets predictions.csv, predictions.json, and comparison.csv where the table has measured values.
    """
    if name in LABS or cells is not None:
        with bad_input():
            if on is not None or only:
                option = "--on" if on is not None else "--only"
                raise InputError.at(option, f"found with the cells of a lab, expected no {option}")
            _predict(name, cells, out, force, strict, quick, jobs or cores(), quiet, as_json)
    ids = [one.strip() for entry in only or () for one in entry.split(",")]
    with bad_input():
        if on is not None and jobs is not None:
            raise typer.BadParameter("--on and --jobs exclude each other")
        jobs = jobs or cores()
        if name == ALL_EXPERIMENTS and ids:
            raise InputError.at("--only", "found with all, expected with one experiment")
        runs = sum(planned_runs(one, quick, ids) for one in names(name))
        with result_folder(out, name, force) as folder, progress_bar(quiet) as bar:
            progress = of_all(bar, name, runs) if bar else None
            done: Reproduction | AllReproductions
            if name == ALL_EXPERIMENTS:
                done = reproduce_all(folder, strict, quick, jobs, progress, on=on)
            else:
                done = repeat(name, folder, strict, quick, ids, jobs, progress, on=on)
    if as_json:
        say_json({"folder": str(folder.given), **done.as_json()})
    else:
        where = str(folder.given) if quiet else f"\n{folder.given / 'reproduce.html'}"
        say([] if quiet else done.tables(), where)
    raise typer.Exit(interrupts.status() if done.interrupted else done.exit_status)


def _predict(
    name: str,
    cells: Path | None,
    out: Path | None,
    force: bool,
    strict: bool,
    quick: bool,
    jobs: int,
    quiet: bool,
    as_json: bool,
) -> NoReturn:
    from tailback.measured.predict import MISSED, planned, predict
    from tailback.measured.tables import table_of

    known = lab(name)
    source, read, place = table_of(known, cells, quick)
    with result_folder(out, name, force) as folder, progress_bar(quiet) as bar:
        progress = of_all(bar, name, planned(known, read, quick)) if bar else None
        done = predict(known, read, source, place, folder, quick=quick, jobs=jobs, progress=progress)
    if done.interrupted:
        raise typer.Exit(interrupts.status())
    compared = done.compared()
    if as_json:
        say_json({"folder": str(folder.given), **done.as_json()})
    else:
        where = str(folder.given) if quiet else f"\n{folder.given / 'predictions.csv'}"
        say([done.table()] if compared and not quiet else [], where)
    raise typer.Exit(int(strict and any(one.verdict == MISSED for one in compared)))
