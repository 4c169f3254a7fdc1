"""`tailback endpoint`."""

from __future__ import annotations

from enum import Enum
from typing import Annotated

import typer

from tailback.cli.basics import command_app
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
)
from tailback.cli.live import CaptureHost, carried_out
from tailback.errors import InputError
from tailback.scenario import Scenario, load

app = command_app()


class Verb(Enum):
    """Operations of queue pairs."""

    WRITE = "write"
    SEND = "send"
    READ = "read"


@app.command()
def endpoint(
    name: ScenarioName,
    interfaces: Annotated[
        list[str],
        typer.Argument(metavar="HOST=IFACE...", help="Where each host is: h0=eth1, or h0=NAMESPACE/veth1."),
    ],
    sets: Sets = None,
    controllers: Controllers = None,
    capture: CaptureHost = None,
    perftest: Annotated[
        str | None,
        typer.Option(
            "--perftest",
            metavar="ADDRESS[:PORT]",
            help="The other end is ib_write_bw: the address where it listens, or where to wait for it.",
        ),
    ] = None,
    verb: Annotated[
        Verb,
        typer.Option(
            "--verb", help="The operation that carries messages. With read, `from` reads from `to`."
        ),
    ] = Verb.WRITE,
    clock: Annotated[
        str | None,
        typer.Option("--clock", metavar="FILE", help="Use the clock of `tailback point --clock FILE`."),
    ] = None,
    out: Out = None,
    force: Force = False,
    seed: Seed = None,
    no_report: NoReport = False,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Run hosts of a scenario on interfaces, with real packets.

    Each host is a NIC in software: queue pairs, congestion control, pacing and pauses as the scenario says,
    at the rate of its link. The network between the interfaces is real. Hosts without an interface here run
    elsewhere, by the same command with the same scenario, or are perftest's ib_write_bw. It needs
    CAP_NET_RAW.
    """
    with bad_input():
        scenario = load(name, sets=sets or (), seed=seed, controllers=by_class(controllers))
        placed = _placed(scenario, interfaces)
        result, folder = carried_out(
            scenario,
            "endpoint",
            out,
            force,
            quiet,
            interfaces=placed,
            capture=capture,
            report=not no_report,
            perftest=perftest,
            verb=verb.value,
            clock=clock,
        )
    raise typer.Exit(conclude(result, folder, quiet, as_json))


def _placed(scenario: Scenario, given: list[str]) -> dict[str, str]:
    """The interface of each host that is here."""
    placed: dict[str, str] = {}
    for one in given:
        host, equals, interface = one.partition("=")
        if not equals or not interface:
            raise InputError.at("endpoint", f"found {one!r}, expected HOST=IFACE")
        if host not in scenario.network.hosts or host in placed:
            hosts = f"{scenario.network.hosts[0]} to {scenario.network.hosts[-1]}, each once"
            raise InputError.at("endpoint", f"found {host}, expected a host of {hosts}")
        placed[host] = interface
    return placed
