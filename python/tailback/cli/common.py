"""Code that several commands share: options, handling of bad input, the folder and the outcome of a run."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from tailback import interrupts
from tailback.cli import completion
from tailback.cli.basics import BAD_INPUT, DONE, FAULT, console, echo, in_json, silence_stdout
from tailback.controller import CLASS_IN_FILE_FORM, split
from tailback.errors import InputError
from tailback.files.out_folder import SUMMARY_FILE, Occupied, OutFolder
from tailback.running import Interrupted, claimed, replaced

if TYPE_CHECKING:
    from rich.console import RenderableType

    from tailback.results import Result

ScenarioName = Annotated[
    str,
    typer.Argument(
        metavar="NAME|FILE",
        help="A built-in scenario, a YAML file, or - for standard input.",
        autocompletion=completion.scenarios,
    ),
]
Sets = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="PATH=VALUE",
        help="Set a value, such as traffic.0.qps=512; repeatable.",
        autocompletion=completion.settings,
    ),
]
Seed = Annotated[int | None, typer.Option("--seed", help="Seed of all random numbers; replaces run.seed.")]
Controllers = Annotated[
    list[str] | None,
    typer.Option(
        "--controller",
        metavar=CLASS_IN_FILE_FORM,
        help="A congestion controller in Python. The scenario refers to it by the name of the class; if it "
        "never does, all hosts run it. Repeatable.",
    ),
]
Out = Annotated[
    Path | None, typer.Option("--out", metavar="DIR", help="Folder for the result, new or empty.")
]
Ignore = Annotated[
    list[str] | None,
    typer.Option("--ignore", metavar="KEY", help="Leave out what a key of a fork asks for; repeatable."),
]
Force = Annotated[
    bool, typer.Option("--force", help="Replace the result that is in --out; anything else there is refused.")
]
Jobs = Annotated[
    int | None,
    typer.Option("--jobs", "-j", metavar="N", help="Runs at a time; default: one per core.", min=1, max=256),
]
On = Annotated[
    str | None, typer.Option("--on", metavar="CLUSTER", help="A Ray cluster: ray, or ray://host:10001.")
]
Resume = Annotated[
    Path | None,
    typer.Option(
        "--resume", metavar="DIR", help="Continue the study in DIR: finished runs are not repeated."
    ),
]
Quiet = Annotated[
    bool, typer.Option("--quiet", "-q", help="Print no progress bar and no table, only the folder's name.")
]
NoReport = Annotated[
    bool, typer.Option("--no-report", help="Write no report.html; `tailback report` writes it later.")
]

PIPED_COLUMNS = 10_000
AsJson = Annotated[bool, typer.Option("--json", help="Print the answer as JSON.")]


@contextmanager
def bad_input() -> Iterator[None]:
    """Turns bad input, and an interrupt before there is a result, into lines on stderr and an exit status."""
    try:
        yield
    except KeyboardInterrupt:
        interrupted("nothing was written")
    except InputError as error:
        echo(str(error), err=True)
        raise typer.Exit(BAD_INPUT) from None


def by_class(texts: Sequence[str] | None) -> dict[str, str]:
    """Controllers in Python, by the names of their classes."""
    found: dict[str, str] = {}
    for given in texts or ():
        try:
            name = split(given)[1]
        except ValueError as error:
            raise InputError.at("--controller", str(error)) from None
        if name in found:
            raise InputError.at("--controller", f"found {name} again, expected each class once")
        found[name] = given
    return found


def interrupted(what: str) -> NoReturn:
    """Ends the command at an interrupt before there is a result; `what` says what was written."""
    echo(f"tailback: interrupted before there was a result; {what}", err=True)
    raise typer.Exit(interrupts.status()) from None


@contextmanager
def result_folder(out: Path | None, name: str, force: bool = False) -> Iterator[OutFolder]:
    """Claims the folder for a result: that of --out, or `runs/NAME-TIME`, with a number if that exists. With
    `force`, an older result in --out stays until the new one replaces it.

    On an interrupt, prints what was written.
    """
    with replaced(out) if out is not None and force else nullcontext(), _claimed(out, name) as folder:
        try:
            yield folder
        except KeyboardInterrupt:
            if (folder.given / SUMMARY_FILE).is_file():
                interrupted(f"the result is in {folder.given}")
            runs = [
                file.parent
                for file in folder.given.rglob(SUMMARY_FILE)
                if not file.parent.name.startswith(".")
            ]
            places = ", ".join(sorted({str(run.parent) for run in runs}))
            interrupted(f"complete runs are in {places}" if places else "nothing was written")


@contextmanager
def begun_or_new(
    resume: Path | None, out: Path | None, name: str | None, force: bool, expected: str
) -> Iterator[tuple[Path | OutFolder, Path]]:
    """The folder of a study, and its path as it was given: that of --resume, else a new one, see `result_folder`. Of a
    study that is neither begun nor given there is no `name`, but what was expected.
    """
    if resume is not None and out is not None:
        raise typer.BadParameter("--out and --resume exclude each other")
    if resume is not None:
        yield resume, resume
    elif name is None:
        raise typer.BadParameter(f"expected {expected} or --resume")
    else:
        with result_folder(out, name, force) as folder:
            yield folder, folder.given


def _claimed(out: Path | None, name: str) -> AbstractContextManager[OutFolder]:
    if out is not None:
        return claimed(out)
    first = Path("runs") / f"{name}-{time.strftime('%Y%m%d-%H%M%S')}"
    folder, number = first, 1
    while True:
        # Another run may begin in the same second.
        with suppress(Occupied):
            if not folder.exists():
                return claimed(folder, new=True)
        number += 1
        folder = first.with_name(f"{first.name}-{number}")


def cores() -> int:
    """Number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def say(tables: Sequence[RenderableType], where: str = "") -> None:
    """Prints tables and the place of the result. It is no error if the reader, such as head, stops early."""
    try:
        for text in _as_texts(tables) if tables else ():
            typer.echo(text)  # has colours and escaped control characters
        if where:
            echo(where)
        sys.stdout.flush()
    except (BrokenPipeError, SystemExit):  # typer would exit with status 1
        silence_stdout()


def _as_texts(tables: Sequence[RenderableType]) -> Iterator[str]:
    # In a pipe, each row is a line of its own.
    drawn = console() if sys.stdout.isatty() else console(width=PIPED_COLUMNS)
    for table in tables:
        with drawn.capture() as shown:
            drawn.print(table)
        # Rows are padded with blanks to the console's width.
        yield "\n".join(line.rstrip() for line in shown.get().splitlines())


def say_json(data: object) -> None:
    """Prints data for other programs."""
    typer.echo(in_json(json.dumps(data, indent=2, ensure_ascii=False)))


def result_even_if_interrupted(run: Callable[[], Result]) -> Result:
    """The result of a run, of its simulated part if it was interrupted."""
    try:
        return run()
    except Interrupted as interrupted:
        return interrupted.result


def conclude(result: Result, folder: Path, quiet: bool, as_json: bool = False) -> int:
    """Prints the outcome of a run, and returns the exit status."""
    for fault in result.faults:
        echo(f"fault: {fault['kind']} at {fault['where']}: {fault['text']}", err=True)
    # A run that ends in a deadlock is not complete either.
    interrupted = not result.complete and all(fault["kind"] != "deadlock" for fault in result.faults)
    if as_json:
        say_json({"folder": str(folder), **result.summary})
        return interrupts.status() if interrupted else FAULT if result.faults else DONE
    report = folder / "report.html"
    where = str(folder) if quiet else f"\n{report if report.is_file() else folder}"
    say([] if quiet else [result.closing_table()], where)
    return interrupts.status() if interrupted else FAULT if result.faults else DONE
