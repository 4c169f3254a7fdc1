"""`tailback run`."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from tailback import interrupts, text
from tailback.capture_option import CAPTURE_FILE, Capture
from tailback.cli import completion
from tailback.cli.basics import DONE, FAULT, TIME_LIMIT, command_app, echo
from tailback.cli.common import (
    AsJson,
    Controllers,
    Force,
    NoReport,
    Out,
    Quiet,
    ScenarioName,
    Seed,
    Sets,
    bad_input,
    by_class,
    conclude,
    cores,
    result_even_if_interrupted,
    result_folder,
    say,
    say_json,
)
from tailback.cli.progress import of_runs, of_time, progress_bar
from tailback.errors import InputError
from tailback.running import Cores, run_checked
from tailback.scenario import Scenario, load
from tailback.scenario.warnings import warnings
from tailback.text import plural, verb
from tailback.units import UnitError, duration

if TYPE_CHECKING:
    from collections.abc import Callable

    from tailback._engine import Progress

app = command_app()

MAX_THREADS = 255
LARGE_CAPTURE_BYTES = 100_000_000
"""A warning is printed if a capture may get larger."""


@app.command()
def run(
    name: ScenarioName,
    sets: Sets = None,
    out: Out = None,
    force: Force = False,
    seed: Seed = None,
    seeds: Annotated[
        str | None, typer.Option("--seeds", metavar="LIST", help="Several seeds, such as 1..4 or 1,5,9.")
    ] = None,
    jobs: Annotated[
        int | None, typer.Option("--jobs", "-j", help="Runs at a time, with --seeds.", min=1, max=256)
    ] = None,
    controllers: Controllers = None,
    capture: Annotated[
        list[str] | None,
        typer.Option(
            "--capture",
            metavar="LINKS",
            help="Write the frames of links to capture.pcapng: sw0:h4 (both ways), h0 (all its links), "
            "all; several with commas.",
            autocompletion=completion.links,
        ),
    ] = None,
    capture_time: Annotated[
        str | None,
        typer.Option(
            "--capture-time", metavar="FROM..TO", help="Capture only during this time, such as 1ms..2ms."
        ),
    ] = None,
    capture_bytes: Annotated[
        str | None,
        typer.Option(
            "--capture-bytes", metavar="SIZE", help="Capture only this much of each frame, such as 128B."
        ),
    ] = None,
    threads: Annotated[
        str,
        typer.Option(
            "--threads",
            metavar="N",
            help="Cores for one run of a large RoCE fabric; auto: as many as there are, where that is worth "
            "it. Results are the same. Not with --seeds.",
        ),
    ] = "1",
    time_limit: Annotated[
        str | None,
        typer.Option(
            "--time-limit",
            metavar="TIME",
            help="Stop the run after so much time on the clock, such as 60s, and keep what was simulated.",
        ),
    ] = None,
    no_report: NoReport = False,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Run a scenario and write its result: report, tables, counters.

    Without --out the folder is runs/NAME-TIME. Ctrl-C ends the run early and keeps what was simulated. With
    --seeds it has a folder seed-N for each run; as many run at a time as there are CPUs, and Ctrl-C
    keeps the runs that are complete. --json prints the summary, or those of all seeds, and the folder.
    """
    with bad_input():
        own = by_class(controllers)
        captured = Capture.parse(capture, capture_time, capture_bytes) if capture else None
    limit = None if time_limit is None else TimeLimit(time_limit)
    if limit is not None and seeds is not None:
        raise typer.BadParameter("--time-limit and --seeds exclude each other")
    if captured is None and (capture_time or capture_bytes):
        raise typer.BadParameter("--capture-time and --capture-bytes need --capture")
    if captured and seeds is not None:
        raise typer.BadParameter("--capture and --seeds exclude each other")
    if seeds is not None:
        if threads != "1":
            raise typer.BadParameter("--threads and --seeds exclude each other; see --jobs")
        _run_seeds(name, sets or [], out, seed, seeds, jobs, quiet, as_json, own, not no_report, force)
    if jobs is not None:
        raise typer.BadParameter("--jobs needs --seeds")
    with bad_input():
        cores = _threads(threads)
        scenario = load(name, sets=sets or (), seed=seed, controllers=own)
        _warn(scenario, quiet)
        if captured is not None and (most := captured.max_bytes(scenario)) > LARGE_CAPTURE_BYTES:
            expected = f"up to {text.size(most)} of frames"
            echo(f"warning: --capture: {expected}; --capture-time and --capture-bytes limit it", err=True)
        with result_folder(out, scenario.name, force) as folder, progress_bar(quiet) as bar:
            steps = of_time(bar, scenario.name, 0, scenario.run.duration) if bar else None
            steps = steps if limit is None else limit.around(steps)
            result = result_even_if_interrupted(
                lambda: run_checked(scenario, folder, steps, not no_report, captured, cores)
            )
    if captured and not quiet:
        written = (folder.given / CAPTURE_FILE).stat().st_size
        echo(f"{CAPTURE_FILE}: {text.size(written)}", err=True)
    status = conclude(result, folder.given, quiet, as_json)
    if limit is not None and limit.reached:
        echo(
            f"tailback: stopped by --time-limit {time_limit}; the simulated part is in {folder.given}",
            err=True,
        )
        status = TIME_LIMIT
    raise typer.Exit(status)


class TimeLimit:
    """Ends a run like Ctrl-C when the time since its first event reaches the limit."""

    def __init__(self, text: str) -> None:
        try:
            self._seconds = duration(text) / 1e12
        except UnitError as error:
            raise typer.BadParameter(f"--time-limit: {error}") from None
        self._begun: float | None = None
        self.reached = False

    def around(self, step: Callable[[Progress], None] | None) -> Callable[[Progress], None]:
        """Wraps a progress callback with the check of the limit."""

        def limited(state: Progress) -> None:
            if step is not None:
                step(state)
            now = time.monotonic()
            self._begun = now if self._begun is None else self._begun
            if not state.done and now - self._begun >= self._seconds:
                self.reached = True
                raise KeyboardInterrupt

        return limited


def _warn(scenario: Scenario, quiet: bool) -> None:
    """Prints warnings about settings that are probably mistakes."""
    for warning in [] if quiet else warnings(scenario):
        echo(f"warning: {warning}", err=True)


def _threads(text: str) -> Cores:
    """Reads the value of --threads."""
    if text != "auto" and not (text.isdecimal() and 1 <= int(text) <= MAX_THREADS):
        raise InputError.at("--threads", f"found {text!r}, expected auto or a number from 1 to {MAX_THREADS}")
    wanted = None if text == "auto" else int(text)
    return Cores(wanted, lambda why: echo(f"The run stays on one core: {why}.", err=True))


def _run_seeds(
    name: str,
    sets: list[str],
    out: Path | None,
    seed: int | None,
    given: str,
    jobs: int | None,
    quiet: bool,
    as_json: bool,
    controllers: dict[str, str],
    report: bool,
    force: bool,
) -> NoReturn:
    """Carries out `run --seeds`."""
    # These load executors, which one run does not need.
    from tailback.study.points import parse_seeds
    from tailback.study.seeds import run_seeds

    if seed is not None:
        raise typer.BadParameter("--seed and --seeds exclude each other")
    with bad_input():
        seeds = parse_seeds(given)
        scenario = load(name, sets=sets, controllers=controllers)
        title = scenario.name
        _warn(scenario, quiet)
        with result_folder(out, title, force) as folder, progress_bar(quiet) as bar:
            shares = of_runs(bar) if bar else None
            report_share = (lambda one, share: shares(f"seed {one}", share)) if shares else None
            done = run_seeds(
                name,
                seeds,
                folder,
                sets=sets,
                jobs=jobs or cores(),
                progress=report_share,
                controllers=controllers,
                report=report,
            )
    for one, fault in done.faults:
        echo(f"fault: seed {one}: {fault['kind']} at {fault['where']}: {fault['text']}", err=True)
    if done.interrupted:
        echo(
            f"tailback: interrupted; {len(done.summaries)} of {plural(len(seeds), 'run')} {verb(len(done.summaries), 'is', 'are')} complete",
            err=True,
        )
    if as_json:
        say_json({"folder": str(folder.given), "seeds": done.summaries})
    elif done.summaries:
        first = folder.given / f"seed-{min(done.summaries)}"
        where = str(folder.given) if quiet else f"\n{first / 'report.html' if report else first} and others"
        say([] if quiet else [done.table()], where)
    raise typer.Exit(interrupts.status() if done.interrupted else FAULT if done.faults else DONE)
