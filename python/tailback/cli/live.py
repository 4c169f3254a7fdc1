"""`tailback live`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tailback import live as lives
from tailback.cli.basics import FAULT, command_app, echo
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
    result_folder,
)
from tailback.cli.progress import of_clock, progress_bar
from tailback.scenario import Scenario, load
from tailback.units import RATE, UnitError

if TYPE_CHECKING:
    from tailback.results import Result

app = command_app()
CaptureHost = Annotated[
    str | None,
    typer.Option("--capture", metavar="HOST", help="Write the frames of a host to capture.pcap."),
]


NOTHING_TO_REMOVE = (
    "Nothing to remove: the kernel removes namespaces and veth pairs when the process that made them ends."
)


def _clean(wanted: bool) -> None:
    if wanted:
        echo(NOTHING_TO_REMOVE)
        raise typer.Exit()


@app.command()
def live(
    name: ScenarioName,
    sets: Sets = None,
    rate: Annotated[
        str,
        typer.Option(
            "--rate", metavar="RATE", help="What the fastest link carries; the clock is slowed down to match."
        ),
    ] = "500Mbps",
    controllers: Controllers = None,
    capture: CaptureHost = None,
    _: Annotated[
        bool,
        typer.Option("--clean", callback=_clean, is_eager=True, help="Remove what earlier runs left behind."),
    ] = False,
    out: Out = None,
    force: Force = False,
    seed: Seed = None,
    no_report: NoReport = False,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Run a scenario with real packets, on veth pairs that it makes.

    Hosts and switches are namespaces of this machine. The result is a folder like any run's, in scenario
    time: `tailback compare` puts a simulated run beside it. A scenario of a veth pair runs on a pair of the
    kernel's own, in real time, with the model beside it. The command needs CAP_SYS_ADMIN (`unshare -rn` is
    enough). Its namespaces disappear when it ends, even if it is killed.
    """
    with bad_input():
        scenario = load(name, sets=sets or (), seed=seed, controllers=by_class(controllers))
        try:
            slowdown = lives.slowdown_for(scenario, RATE.parse(rate))
        except UnitError as error:
            raise typer.BadParameter(f"--rate: {error}") from None
        result, folder = carried_out(
            scenario, "live", out, force, quiet, slowdown=slowdown, capture=capture, report=not no_report
        )
    raise typer.Exit(conclude(result, folder, quiet, as_json))


def carried_out(
    scenario: Scenario, command: str, out: Path | None, force: bool, quiet: bool, **how: Any
) -> tuple[Result, Path]:
    """Runs with real packets and a progress bar; returns the result and its folder. `how`: see `tailback.live.run`."""
    with result_folder(out, f"{scenario.name}-{command}", force) as folder, progress_bar(quiet) as bar:
        steps = of_clock(bar, scenario.name, scenario.run.duration) if bar else None
        try:
            return lives.run(scenario, folder, progress=steps, **how), folder.given
        except lives.InterfaceGone as gone:
            echo(f"tailback: {gone}; the part measured until then is in {folder.given}", err=True)
            raise typer.Exit(FAULT) from None
