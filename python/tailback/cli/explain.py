"""`tailback explain`."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tailback import explain as explaining
from tailback.cli.command import command_app
from tailback.cli.common import PIPED_WIDTH, bad_input
from tailback.cli.progress import of_runs, progress_bar
from tailback.cli.terminal import echo, in_json
from tailback.explain.triable import why_not
from tailback.run_folder import read_run, reading

if TYPE_CHECKING:
    from tailback.recorded.run import Recorded

app = command_app()


@app.command()
def explain(
    folder: Annotated[Path, typer.Argument(metavar="RUN", help="The folder of a run.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print the answer as JSON.")] = False,
    tries: Annotated[
        bool | None,
        typer.Option(
            "--try/--no-try",
            help="Repeat the run with each possible bottleneck twice as fast; default: if it takes seconds.",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Say where a run is stuck, and what shows it.

    It reads counters and queue series, and nominal rates such as a link's, but neither the name nor the
    settings of the scenario. For a simulated run, the answer is then tried: the run is repeated with one
    stage at a time twice as fast.
    """
    with bad_input():
        result = read_run(folder)
        with reading(folder):
            verdict = _verdict(result, tries)
            page = explaining.page_of(result, verdict)
            if as_json:
                words = in_json(
                    json.dumps(explaining.as_data(page, verdict), indent=2, ensure_ascii=False) + "\n"
                )
            else:
                words = explaining.as_text(page, *() if sys.stdout.isatty() else (PIPED_WIDTH,))
    echo(words, nl=False)


def _verdict(result: Recorded, tries: bool | None) -> explaining.Verdict:
    """The answer. Where trials would take long, says what they would cost."""
    from tailback.explain import trials  # the engine takes a while to load

    if tries is None and why_not(result) is None and not trials.is_short(result):
        seconds = trials.TRIALS * result.cpu_s
        echo(
            f"tailback: estimated from counters; --try runs it about {trials.TRIALS} times more, "
            f"{seconds:.0f} CPU-seconds, and measures",
            err=True,
        )
    try:
        with progress_bar(quiet=False) as bar:
            share = of_runs(bar) if bar else None
            return trials.answer(
                result, tries, (lambda done, of: share("trials", done / of)) if share else None
            )
    except trials.CannotTry as error:
        raise typer.BadParameter(str(error), param_hint="--try") from None
