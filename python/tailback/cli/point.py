"""`tailback point`."""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tailback import point as points
from tailback import text
from tailback.cli.basics import DONE, FAULT, command_app, console, echo
from tailback.cli.common import AsJson, Force, Out, Quiet, bad_input, result_folder, say, say_json
from tailback.point import kernel
from tailback.point.settings import read
from tailback.units import UnitError, duration

if TYPE_CHECKING:
    from rich.table import Table

app = command_app()

RATE_SAMPLES = 6
"""The display shows the rate over this many updates."""
MAX_FOLLOWERS = 1000
COUNTER_LABELS = {
    "tx_frames": "forwarded",
    "marked": "marked CE",
    "dropped_full": "dropped, buffer full",
    "dropped_early": "dropped by RED, not ECN-capable",
    "dropped_pdrop": "dropped, RED's limit",
    "dropped_other": "dropped otherwise",
    "dropped_loss": "lost at random",
    "dropped_event": "dropped by events",
    "dropped_too_long": "longer than the interface takes",
    "dropped_unread": "arrived faster than they are read",
    "dropped_send": "not taken by the interface",
    "events": "events",
    "pause_frames_sent": "PFC frames sent",
    "pause_frames_received": "PFC frames received",
}


def _clean(wanted: bool) -> None:
    if wanted:
        echo("\n".join(kernel.clean() or ["Nothing to remove."]))
        raise typer.Exit()


@app.command()
def point(
    first: Annotated[str, typer.Argument(metavar="A", help="An interface: eth1, or NAMESPACE/veth1.")],
    second: Annotated[str, typer.Argument(metavar="B", help="The other interface.")],
    file: Annotated[
        Path | None, typer.Argument(metavar="FILE", help="Rate, buffer, marking, events: YAML.")
    ] = None,
    sets: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="PATH=VALUE", help="Set a value, such as rate=500Mbps; repeatable."),
    ] = None,
    lasts: Annotated[
        str | None, typer.Option("--duration", metavar="TIME", help="End after this time.")
    ] = None,
    capture: Annotated[
        bool,
        typer.Option(
            "--capture", help="Write incoming frames to capture.pcap, as Lumina's switch mirrors them."
        ),
    ] = False,
    in_kernel: Annotated[
        bool,
        typer.Option(
            "--kernel", help="Use the kernel's bridge instead, with tc's RED; it is removed at the end."
        ),
    ] = False,
    clock: Annotated[
        str | None,
        typer.Option(
            "--clock",
            metavar="FILE[:N]",
            help="Share the clock with N (default: 1) `tailback endpoint --clock FILE` on this machine.",
        ),
    ] = None,
    _: Annotated[
        bool,
        typer.Option(
            "--clean",
            callback=_clean,
            is_eager=True,
            help="Remove what a killed --kernel left behind, and end.",
        ),
    ] = False,
    out: Out = None,
    force: Force = False,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Run a congestion point between two interfaces.

    Frames that arrive at A leave by B and the other way round, through an emulated queue and link: rate,
    delay, buffer, ECN marks, pauses, and events that hit single packets. Ctrl-C ends it and keeps what was
    counted. It needs CAP_NET_RAW; the interfaces should belong to no bridge and have no address.
    """
    with bad_input():
        settings = read(file, sets or ())
        try:
            duration_ps = None if lasts is None else duration(lasts)
        except UnitError as error:
            raise typer.BadParameter(f"--duration: {error}") from None
        if in_kernel and (capture or clock):
            what = "--capture" if capture else "--clock"
            raise typer.BadParameter(f"{what}: found --kernel, expected the program's own point")
        with result_folder(out, "point", force) as folder:
            mirror = folder.growing() / points.MIRROR_FILE if capture else None
            with _display(quiet or as_json) as show:
                counters = (
                    kernel.run(first, second, settings, duration_ps, show)
                    if in_kernel
                    else points.run(first, second, settings, duration_ps, show, mirror, _clock(clock))
                )
            points.write(folder, settings, counters)
    if as_json:
        say_json({"folder": str(folder.given), **{k: v for k, v in counters.items() if k != "bins"}})
    else:
        say([] if quiet else [_table(counters)], str(folder.given))
    if counters["ended_by"]:
        kept = f"the counters until then are in {folder.given}"
        echo(f"tailback: {counters['ended_by']}; {kept}", err=True)
    raise typer.Exit(FAULT if counters["ended_by"] else DONE)


def _clock(given: str | None) -> tuple[str, int] | None:
    """The file and the number of followers."""
    if given is None:
        return None
    file, colon, followers = given.rpartition(":")
    if not colon:
        return given, 1
    if (
        not file
        or not followers.isascii()
        or not followers.isdigit()
        or not 1 <= int(followers) <= MAX_FOLLOWERS
    ):
        found = f"found {given!r}, expected FILE or FILE:N, N from 1 to {MAX_FOLLOWERS}"
        raise typer.BadParameter(f"--clock: {found}")
    return file, int(followers)


@contextmanager
def _display(quiet: bool) -> Iterator[Callable[[points.Counters], None] | None]:
    """Shows counters on stderr while the point runs, if there is a terminal."""
    if quiet or not sys.stderr.isatty():
        yield None
        return
    from rich.live import Live

    seen: deque[points.Counters] = deque(maxlen=RATE_SAMPLES)

    def show(counters: points.Counters) -> None:
        seen.append(counters)
        live.update(_table(counters, seen[0] if len(seen) > 1 else None))

    with Live(console=console(stderr=True), transient=True) as live:
        yield show


def _table(counters: points.Counters, since: points.Counters | None = None) -> Table:
    """The counters, a column for each direction. The rate is that of the whole time, or `since` earlier counters."""
    from rich.table import Table

    names, took_ps = counters["interfaces"], counters["elapsed_ps"]
    table = Table(box=None, padding=(0, 2, 0, 0))
    table.add_column(text.duration(took_ps / 1e12))
    for one, other in (names, names[::-1]):
        table.add_column(f"{one} to {other}", justify="right")
    directions, sent = counters["directions"], [one["tx_bytes"] for one in counters["directions"]]
    if since is not None:
        took_ps -= since["elapsed_ps"]
        sent = [now - one["tx_bytes"] for now, one in zip(sent, since["directions"], strict=True)]
    table.add_row("rate", *(text.rate(8e12 * one / max(took_ps, 1000)) for one in sent))
    table.add_row("waiting", *(text.size(one) for one in counters["queued_bytes"]))
    table.add_row("waiting at most", *(text.size(one["most_queued_bytes"]) for one in directions))
    for key, words in COUNTER_LABELS.items():
        counts = [one.get(key, 0) for one in directions]
        if any(counts) or key == "tx_frames":
            table.add_row(words, *map(text.count, counts))
    if "late_ns" in counters:  # --kernel does not measure it
        late = [text.duration(ns / 1e9) for ns in counters["late_ns"]]
        table.add_row("sent later than due", f"{late[0]} median, {late[1]} p99, {late[3]} at most")
    if counters.get("unfinished_checksums"):
        table.add_row(
            "without checksum", text.count(counters["unfinished_checksums"]), "ethtool -K IFACE tx off"
        )
    return table
