"""`tailback point`."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tailback import point as points
from tailback import text
from tailback.cli.command import command_app
from tailback.cli.common import AsJson, Out, Quiet, bad_input, result_folder, say, say_json
from tailback.cli.status import DONE, FAULT
from tailback.point.settings import read
from tailback.units import UnitError, duration

if TYPE_CHECKING:
    from rich.table import Table

app = command_app()

ROWS = {
    "tx_frames": "forwarded",
    "marked": "marked CE",
    "dropped_full": "dropped, buffer full",
    "dropped_loss": "lost at random",
    "dropped_event": "dropped by events",
    "dropped_too_long": "longer than the interface takes",
    "dropped_unread": "came faster than they are read",
    "dropped_send": "not taken by the interface",
    "events": "events",
    "pause_frames_sent": "PFC frames sent",
    "pause_frames_received": "PFC frames received",
}


@app.command()
def point(
    first: Annotated[str, typer.Argument(metavar="A", help="An interface: eth1, or NAMESPACE/veth1.")],
    second: Annotated[str, typer.Argument(metavar="B", help="The other.")],
    file: Annotated[
        Path | None, typer.Argument(metavar="FILE", help="Rate, buffer, marking, events: YAML.")
    ] = None,
    sets: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="PATH=VALUE", help="Set a value, such as rate=500Mbps; repeatable."),
    ] = None,
    lasts: Annotated[
        str | None, typer.Option("--duration", metavar="TIME", help="End by itself after that time.")
    ] = None,
    out: Out = None,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Run a congestion point between two interfaces.

    Frames of A leave by B and the other way round, through a queue and a link that are emulated: rate, delay,
    buffer, ECN marks, pauses, and events that hit single packets. Ctrl-C ends it and keeps what was counted.
    It needs CAP_NET_RAW; the interfaces should belong to no bridge and have no address.
    """
    with bad_input():
        settings = read(file, sets or ())
        try:
            duration_ps = None if lasts is None else duration(lasts)
        except UnitError as error:
            raise typer.BadParameter(f"--duration: {error}") from None
        with result_folder(out, "point") as folder:
            with _display(quiet or as_json) as show:
                told = points.run(first, second, settings, duration_ps, show)
            points.write(folder, settings, told)
    if as_json:
        say_json({"folder": str(folder.given), **{k: v for k, v in told.items() if k != "bins"}})
    else:
        say([] if quiet else [_table(told)], str(folder.given))
    if told["ended_by"]:
        kept = f"what was counted until then is in {folder.given}"
        typer.echo(f"tailback: {told['ended_by']}; {kept}", err=True)
    raise typer.Exit(FAULT if told["ended_by"] else DONE)


@contextmanager
def _display(quiet: bool) -> Iterator[Callable[[points.Told], None] | None]:
    """Counters on stderr, as long as it runs, where somebody sees them."""
    if quiet or not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.live import Live

    with Live(console=Console(stderr=True), transient=True) as live:
        yield lambda told: live.update(_table(told))


def _table(told: dict[str, Any]) -> Table:
    """What was counted, a column a direction."""
    from rich.table import Table

    names, seconds = told["interfaces"], max(told["elapsed_ps"] / 1e12, 1e-9)
    table = Table(box=None, padding=(0, 2, 0, 0))
    table.add_column("")
    for one, other in (names, names[::-1]):
        table.add_column(f"{one} to {other}", justify="right")
    directions = told["directions"]
    table.add_row("rate", *(text.rate(8 * one["tx_bytes"] / seconds) for one in directions))
    table.add_row("waiting", *(text.size(one) for one in told["queued_bytes"]))
    table.add_row("waiting at most", *(text.size(one["most_queued_bytes"]) for one in directions))
    for key, words in ROWS.items():
        if any(one[key] for one in directions) or key == "tx_frames":
            table.add_row(words, *(text.count(one[key]) for one in directions))
    late = [text.duration(ns / 1e9) for ns in told["late_ns"]]
    table.add_row("later than due", f"{late[0]} median, {late[1]} p99, {late[3]} at most")
    if told["unfinished_checksums"]:
        table.add_row("without checksum", text.count(told["unfinished_checksums"]), "ethtool -K IFACE tx off")
    return table
