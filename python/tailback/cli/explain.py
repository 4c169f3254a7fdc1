"""`tailback explain`."""

from __future__ import annotations

import json
import sys
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tailback import explain as explaining
from tailback.cli.basics import command_app, echo, in_json
from tailback.cli.common import PIPED_COLUMNS, bad_input
from tailback.cli.progress import of_runs, progress_bar
from tailback.errors import InputError
from tailback.explain import trials
from tailback.explain.remedies.own import read
from tailback.explain.triable import why_not
from tailback.run_folder import read_run, reading

if TYPE_CHECKING:
    from tailback.recorded.run import Recorded

app = command_app()


class Goal(str, Enum):
    """Goals that changes are compared by."""

    throughput = "throughput"
    completion = "completion"
    latency = "latency"
    fairness = "fairness"


@app.command()
def explain(
    folder: Annotated[Path, typer.Argument(metavar="RUN", help="The folder of a run.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print the answer as JSON.")] = False,
    tries: Annotated[
        bool | None,
        typer.Option(
            "--try/--no-try",
            help="Run the scenario again with each change that may help; default: if that takes less than a "
            "minute.",
            show_default=False,
        ),
    ] = None,
    goal: Annotated[
        Goal | None,
        typer.Option("--for", help="Ask for one thing: which change helps it most.", show_default=False),
    ] = None,
    about: Annotated[
        str | None,
        typer.Option(
            metavar="NODE|ITEM", help="Ask for the flows of one node or item of traffic.", show_default=False
        ),
    ] = None,
    sets: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="PATH=VALUE",
            help="Ask what if a setting were another; repeatable.",
            show_default=False,
        ),
    ] = None,
    remedy: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="FILE.py",
            help="Try remedies of your own, see docs/explain.md; repeatable.",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Say where a run is stuck, and which change helps.

    Counters and queue series say what is worth trying. For a simulated run each change is then tried in a run
    of its own, and the gain is measured. Without trials the full stages are named, and no gain.
    """
    with bad_input():
        result = read_run(folder)
        with reading(folder):
            verdict = _verdict(result, tries, goal, about, sets or [], remedy or [])
            page = explaining.page_of(result, verdict)
            if as_json:
                words = in_json(
                    json.dumps(explaining.as_data(page, verdict), indent=2, ensure_ascii=False) + "\n"
                )
            else:
                words = explaining.as_text(page, *() if sys.stdout.isatty() else (PIPED_COLUMNS,))
    echo(words, nl=False)


def _verdict(
    result: Recorded,
    tries: bool | None,
    goal: Goal | None,
    about: str | None,
    sets: list[str],
    remedies: list[Path],
) -> explaining.Verdict:
    """The verdict. Where trials would take long, prints their cost instead of running them."""
    asks = [
        name
        for name, given in (("--for", goal), ("--about", about), ("--set", sets), ("--remedy", remedies))
        if given
    ]
    if asks and tries is False:
        raise typer.BadParameter(
            f"found {asks[0]}, which takes trials, expected no --no-try", param_hint="--no-try"
        )
    if about is not None:
        _known(result, about)
    question = trials.Question(
        goal.value if goal is not None else None, about, tuple(sets), tuple(read(file) for file in remedies)
    )
    if asks:
        tries = True
    elif tries is None and why_not(result) is None and not trials.is_short(result):
        seconds = trials.TYPICAL_TRIALS * result.cpu_s
        echo(
            f"tailback: from counters alone; --try runs it about {trials.TYPICAL_TRIALS} times more, "
            f"{seconds:.0f} CPU-seconds, and measures which change helps",
            err=True,
        )
    try:
        with progress_bar(quiet=False) as bar:
            share = of_runs(bar) if bar else None
            return trials.answer(
                result,
                tries,
                (lambda done, of: share("trials", done / of)) if share else None,
                question,
            )
    except trials.CannotTry as error:
        raise typer.BadParameter(str(error), param_hint=asks[0] if asks else "--try") from None


def _known(result: Recorded, about: str) -> None:
    """Refuses what is neither a node with traffic nor an item.

    Raises:
        InputError: it is neither.
    """
    columns = [result.flows.column(name) for name in ("item", "src", "dst")]
    known = sorted({name for column in columns for name in column.unique().to_pylist()})
    if about not in known:
        few = ", ".join(known[:8]) + (f" and {len(known) - 8} more" if len(known) > 8 else "")
        raise InputError.at(
            "--about", f"found {about}, expected an item of traffic or a host with flows: {few}"
        )
