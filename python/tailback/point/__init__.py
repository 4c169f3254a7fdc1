"""A congestion point for real packets, between two Linux interfaces."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa

from tailback import interrupts
from tailback.errors import InputError
from tailback.files.json import in_lines
from tailback.files.out_folder import SUMMARY_FILE, OutFolder, write_file
from tailback.files.parquet import as_parquet
from tailback.point.settings import PointSettings
from tailback.version import __version__

MIRROR_FILE = "capture.pcap"
"""Incoming frames, in the folder of the result."""
POLL_INTERVAL_MS = 200
"""Time between two checks for Ctrl-C and updates of the display."""

Counters = dict[str, Any]


def run(
    first: str,
    second: str,
    settings: PointSettings,
    duration_ps: int | None = None,
    show: Callable[[Counters], None] | None = None,
    mirror: Path | None = None,
    clock: tuple[str, int] | None = None,
) -> Counters:
    """Forwards between two interfaces until `duration_ps` is over or a signal arrives, and returns the counters.

    `mirror`: a file for incoming frames, as Lumina's switch mirrors them. `clock`: a file that shares this
    program's clock, and the number of end points that use it.

    Raises:
        InputError: an interface cannot be used; the message names it.
        OSError: the file cannot be written.
    """
    try:
        from tailback._engine import Point
    except ImportError:
        text = "found another system, expected Linux: packet sockets are its own"
        raise InputError.at("tailback point", text) from None
    try:
        point = Point(first, second, settings.for_engine())
    except OSError as error:
        found = (error.strerror or str(error)).lower()
        text = f"found {found}, expected an interface that may be read (CAP_NET_RAW)"
        raise InputError.at(str(error.filename), text) from None
    if mirror is not None:
        point.mirror(str(mirror))
    if clock is not None:
        try:
            point.lead(*clock)
        except OSError as error:
            found = (error.strerror or str(error)).lower()
            text = f"found {found}, expected a file that can be made"
            raise InputError.at(clock[0], text) from None
    end = None if duration_ps is None else time.monotonic() + duration_ps / 1e12
    ended_by = None
    with interrupts.noted() as seen:
        while not seen and (end is None or time.monotonic() < end):
            left = (
                POLL_INTERVAL_MS
                if end is None
                else min(POLL_INTERVAL_MS, 1 + int(1e3 * max(0.0, end - time.monotonic())))
            )
            try:
                point.run(left)
            except OSError as error:
                ended_by = f"{error.filename}: {(error.strerror or str(error)).lower()}"
                break
            if show is not None:
                show(json.loads(point.told()))
    point.end_mirror()
    counters: Counters = json.loads(point.told())
    return {**counters, "ended_by": ended_by}


def write(folder: OutFolder, settings: PointSettings, counters: Counters) -> None:
    """Writes summary.json, series.parquet, events.json and point.yaml.

    Raises:
        OSError: a file cannot be written; then none is left.
    """

    def fill(inside: Path) -> None:
        write_file(inside / "point.yaml", settings.as_yaml().encode())
        write_file(inside / "series.parquet", as_parquet(_series(counters)))
        write_file(inside / "events.json", in_lines({"happened": counters["happened"]}).encode())
        rest = {key: value for key, value in counters.items() if key not in ("bins", "happened")}
        summary = {"kind": "point", "tailback_version": __version__, **rest}
        write_file(inside / SUMMARY_FILE, in_lines(summary).encode())

    folder.fill(fill)


def _series(counters: Counters) -> pa.Table:
    """A row for each bin and direction."""
    names = ("tx_bytes", "marked", "dropped", "most_queued_bytes")
    length_ps, (first, second) = counters["bin_ps"], counters["interfaces"]
    rows = [
        (at * length_ps, way, one)
        for way, bins in zip((f"{first} to {second}", f"{second} to {first}"), counters["bins"], strict=True)
        for at, one in enumerate(bins)
    ]
    waits = [
        one["queued_byte_ps"] / min(length_ps, max(counters["elapsed_ps"] - at, 1)) for at, _, one in rows
    ]
    columns: dict[str, Any] = {
        "time_ps": pa.array([row[0] for row in rows], pa.int64()),
        "direction": pa.array([row[1] for row in rows], pa.string()),
        **{name: pa.array([row[2][name] for row in rows], pa.int64()) for name in names},
        "mean_queued_bytes": pa.array(waits, pa.float64()),
    }
    return pa.table(columns)
