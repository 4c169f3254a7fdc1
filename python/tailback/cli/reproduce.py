"""`tailback reproduce`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from tailback import interrupts
from tailback.cli.command import command_app
from tailback.cli.common import AsJson, Force, Jobs, On, Out, bad_input, cores, result_folder, say, say_json
from tailback.cli.progress import of_all, progress_bar
from tailback.errors import InputError
from tailback.reproduce import ALL, names, planned_runs, reproduce_all
from tailback.reproduce import reproduce as repeat

if TYPE_CHECKING:
    from tailback.reproduce import AllReproductions, Reproduction

app = command_app()


@app.command()
def reproduce(
    name: Annotated[
        str, typer.Argument(metavar="NAME|all", help="A published experiment, or all of them in one report.")
    ],
    out: Out = None,
    force: Force = False,
    strict: Annotated[bool, typer.Option("--strict", help="End with status 1 if a claim is missed.")] = False,
    quick: Annotated[bool, typer.Option("--quick", help="Simulate less: a look, not a verdict.")] = False,
    only: Annotated[
        list[str] | None,
        typer.Option("--only", metavar="IDS", help="Only these claims, such as C9,C10; repeatable."),
    ] = None,
    jobs: Jobs = None,
    on: On = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress bar.")] = False,
    as_json: AsJson = False,
) -> None:
    """Repeat a published experiment, or all, and check its claims.

    Each claim is compared with the result: met, or missed. --json prints reproduce.json and the folder.
    """
    ids = [one.strip() for entry in only or () for one in entry.split(",")]
    with bad_input():
        if on is not None and jobs is not None:
            raise typer.BadParameter("--on and --jobs exclude each other")
        jobs = jobs or cores()
        if name == ALL and ids:
            raise InputError.at("--only", "found with all, expected with one experiment")
        runs = sum(planned_runs(one, quick, ids) for one in names(name))
        with result_folder(out, name, force) as folder, progress_bar(quiet) as bar:
            progress = of_all(bar, name, runs) if bar else None
            done: Reproduction | AllReproductions
            if name == ALL:
                done = reproduce_all(folder, strict, quick, jobs, progress, on=on)
            else:
                done = repeat(name, folder, strict, quick, ids, jobs, progress, on=on)
    if as_json:
        say_json({"folder": str(folder.given), **done.as_json()})
    else:
        where = str(folder.given) if quiet else f"\n{folder.given / 'reproduce.html'}"
        say([] if quiet else done.tables(), where)
    raise typer.Exit(interrupts.status() if done.interrupted else done.exit_status)
