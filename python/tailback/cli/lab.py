"""`tailback lab`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tailback.cli.basics import DONE, FAULT, command_app, echo, echo_whole
from tailback.cli.common import Force, NoReport, Out, Quiet, bad_input, conclude, result_folder, say
from tailback.errors import InputError
from tailback.lab import apply as applying
from tailback.lab import drive, recorded
from tailback.lab.checks import CheckResult, checks
from tailback.lab.checks import verify as verified
from tailback.lab.model import Lab, LabTest, read
from tailback.lab.steps import plan as planned

if TYPE_CHECKING:
    from rich.table import Table

app = command_app()
LabFile = Annotated[str, typer.Argument(metavar="FILE", help="A lab as YAML, or the name of an example.")]
Tests = Annotated[
    list[str] | None,
    typer.Option("--test", metavar="NAME", help="A test in the file; repeatable; default: all."),
]


@app.callback()
def lab() -> None:
    """Set up, verify, drive and read a real lab.

    plan prints every command; apply runs exactly these, with an undo file; verify checks what must hold; run
    drives perftest and records counters; collect makes the folder of a run from the records.
    """


@app.command()
def plan(file: LabFile) -> None:
    """Print every command, and how to undo it."""
    with bad_input():
        given, _ = read(file)
    for number, step in enumerate(planned(given), 1):
        echo_whole(f"{number:3} {step.host}: {step.do}\n      # {step.about}")
        undo = step.back
        source = f", according to: {undo.read}" if undo and undo.read else ""
        echo_whole(f"      # undo: {undo.about if undo else 'none'}{source}")
    echo_whole("\n# verify")
    for check in checks(given):
        echo_whole(f"    {check.host}: {check.line}\n      # {check.what}: {check.expected}")
    for test in given.tests:
        echo_whole(f"\n# run --test {test.name}")
        for role in ("server", "client"):
            echo_whole(f"    {getattr(test, role)}: {drive.perftest_line(given, test, role)}")
        for bridge in given.bridges:
            echo_whole(f"    {bridge.host}: {drive.cores_line(test)}")
    echo_whole("\n# run: before, while and after")
    for host, name, line in drive.counter_lines(given):
        echo_whole(f"    {host}: {line}\n      # {name}")


@app.command()
def apply(
    file: LabFile,
    out: Annotated[
        Path, typer.Option("--out", metavar="FOLDER", help="Folder for the playbook and the undo file.")
    ],
    only_write: Annotated[
        bool, typer.Option("--only-write", help="Write the playbook to review it, and run nothing.")
    ] = False,
    quiet: Quiet = False,
) -> None:
    """Run the commands that plan prints, and keep an undo file."""
    with bad_input():
        given, _ = read(file)
        playbook = applying.prepare(given, out)
        if only_write:
            echo(str(playbook) if playbook else "all hosts are local: no playbook is needed")
            return
        try:
            applying.apply(given, out, _printer(quiet))
        except applying.StepFailed as error:
            done = (out / applying.UNDO_FILE).exists()
            after = (
                f"tailback lab undo {file} {out} undoes the steps so far" if done else "nothing was changed"
            )
            echo(f"tailback: {error}; {after}", err=True)
            raise typer.Exit(FAULT) from None
    echo(str(out))


@app.command()
def undo(
    file: LabFile,
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="The folder of apply.")],
    quiet: Quiet = False,
) -> None:
    """Undo what apply did, in reverse order."""
    with bad_input():
        given, _ = read(file)
        undone = applying.undo(given, folder, _printer(quiet))
    for line in [*undone.failed, *undone.differences]:
        echo(f"tailback: {line}", err=True)
    raise typer.Exit(FAULT if undone.failed or undone.differences else DONE)


@app.command()
def verify(file: LabFile) -> None:
    """Check the conditions of a test, and print the findings."""
    with bad_input():
        given, _ = read(file)
    found = verified(given)
    say([_table(found)])
    raise typer.Exit(DONE if all(one.ok for one in found) else FAULT)


@app.command()
def run(
    file: LabFile,
    out: Annotated[
        Path, typer.Option("--out", metavar="FOLDER", help="Folder for what the tools print; new tests only.")
    ],
    tests: Tests = None,
    quiet: Quiet = False,
) -> None:
    """Drive perftest, and record counters before, during and after."""
    with bad_input():
        given, _ = read(file)
        for test in _chosen(given, tests):
            if (out / test.name).exists():
                raise InputError.at(str(out / test.name), "found a test, expected none of its name")
            try:
                drive.run(given, test, out, _printer(quiet))
            except drive.TestFailed as error:
                echo(f"tailback: {error}", err=True)
                raise typer.Exit(FAULT) from None
    echo(str(out))


@app.command()
def collect(
    file: LabFile,
    folder: Annotated[
        Path, typer.Argument(metavar="FOLDER", help="The records of run, or records that somebody typed in.")
    ],
    test: Annotated[
        str | None, typer.Option("--test", metavar="NAME", help="The bandwidth test; default: the first.")
    ] = None,
    out: Out = None,
    force: Force = False,
    no_report: NoReport = False,
    quiet: Quiet = False,
) -> None:
    """Make the folder of a run from the records: measured, not simulated.

    Recorded latency tests are included. measured.csv in the folder is for `tailback fit`.
    """
    from tailback.lab.measured import result_of

    with bad_input():
        given, scenario = read(file)
        able = [one for one in given.tests if one.tool == "ib_write_bw"]
        chosen = able[:1] if test is None else [one for one in able if one.name == test]
        if not chosen:
            names = ", ".join(one.name for one in able) or "there is none"
            raise InputError.at("--test", f"found {test or 'none'}, expected a bandwidth test: {names}")
        one = recorded.read(given, folder, chosen[0])
        others = [one for one in given.tests if one.tool == "ib_write_lat" and (folder / one.name).is_dir()]
        latencies = [recorded.read(given, folder, other) for other in others]
        with result_folder(out, f"{given.name}-{chosen[0].name}", force) as made:
            result = result_of(given, scenario, one, latencies)
            result.write(made, not no_report)
    raise typer.Exit(conclude(result, made.given, quiet))


def _chosen(given: Lab, names: list[str] | None) -> list[LabTest]:
    known = {test.name: test for test in given.tests}
    for name in names or ():
        if name not in known:
            text = f"found {name}, expected one of {', '.join(known) or 'none: the file has no tests'}"
            raise InputError.at("--test", text)
    return [known[name] for name in names] if names else list(known.values())


def _printer(quiet: bool) -> Callable[[str], None]:
    """Prints each step on stderr."""
    return lambda line: None if quiet else echo(line, err=True)


def _table(found: list[CheckResult]) -> Table:
    from rich.table import Table

    table = Table(box=None, padding=(0, 2, 0, 0))
    for name in ("", "Host", "What", "Found", "Expected"):
        table.add_column(name)
    for one in found:
        style = "" if one.ok else "bold red"
        table.add_row(
            "ok" if one.ok else "NOT",
            one.check.host,
            one.check.what,
            one.found,
            one.check.expected,
            style=style,
        )
    return table
