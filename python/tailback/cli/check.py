"""`tailback check`."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from tailback import text
from tailback.cli.basics import command_app, echo
from tailback.cli.common import AsJson, Controllers, ScenarioName, Seed, Sets, bad_input, by_class, say_json
from tailback.cost import estimate
from tailback.scenario import load
from tailback.scenario.warnings import warnings

app = command_app()


@app.command()
def check(
    name: ScenarioName,
    sets: Sets = None,
    seed: Seed = None,
    controllers: Controllers = None,
    cost: Annotated[
        bool, typer.Option(help="Carry out a second of the run to estimate what the whole takes.")
    ] = True,
    as_json: AsJson = False,
) -> None:
    """Say whether a scenario is good, and what its run will cost.

    A scenario with a mistake gets a line for each, and status 2. The cost is that of one core without the
    report; it is estimated from the first second of the run, of which nothing is kept.
    """
    with bad_input():
        scenario = load(name, sets=sets or (), seed=seed, controllers=by_class(controllers))
        found = estimate(scenario) if cost else None
    warned = warnings(scenario)
    network = scenario.network
    if as_json:
        data: dict[str, Any] = {
            "name": scenario.name,
            "hosts": len(network.hosts),
            "switches": len(network.switches),
            "traffic": len(scenario.traffic),
            "warnings": warned,
        }
        say_json({**data, "cost": found._asdict() if found else None})
        return
    for warning in warned:
        echo(f"warning: {warning}", err=True)
    echo(
        f"{scenario.name}: good. {text.plural(len(network.hosts), 'host')}, "
        f"{text.plural(len(network.switches), 'switch')}, "
        f"{text.plural(len(scenario.traffic), 'traffic item')}."
    )
    if found is None:
        return
    hops = float(f"{found.packet_hops:.3g}")
    takes = (
        f"{_seconds(found.cpu_s)} of CPU time, {hops:,.0f} packet-hops, "
        f"at least {found.memory_bytes / 1e6:.0f} MB of memory"
    )
    if found.done:
        echo(f"The run takes {takes}. It was carried out to its end, and nothing of it was kept.")
    else:
        echo(
            f"The run takes about {takes}, if it goes on as in the first "
            f"{text.duration(found.simulated_ps / 1e12)} of {text.duration(found.duration_ps / 1e12)}, "
            f"which were carried out. A report takes some seconds more."
        )


def _seconds(seconds: float) -> str:
    if seconds < 100:
        return f"{seconds:.2g} s"
    return f"{seconds / 60:.0f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"
