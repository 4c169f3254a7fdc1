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

MIRROR = "capture.pcap"
"""The file of a result that holds what came."""
STEP_MS = 200
"""Time between two looks at Ctrl-C and the display."""

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
    """Forwards between two interfaces until the time is over, or a signal comes, and tells what it did.

    `mirror`: a file for what comes, as Lumina's switch mirrors it. `clock`: a file, and the number of
    programs with end points that find this program's clock by it.

    Raises:
        InputError: an interface cannot be used; it is named in one line.
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
            left = STEP_MS if end is None else min(STEP_MS, 1 + int(1e3 * max(0.0, end - time.monotonic())))
            try:
                point.run(left)
            except OSError as error:
                ended_by = f"{error.filename}: {(error.strerror or str(error)).lower()}"
                break
            if show is not None:
                show(json.loads(point.told()))
    point.end_mirror()
    told: Counters = json.loads(point.told())
    return {**told, "ended_by": ended_by}


def write(folder: OutFolder, settings: PointSettings, told: Counters) -> None:
    """Writes what was done: summary.json, series.parquet, events.json, point.yaml.

    Raises:
        OSError: it cannot be written; nothing of it is there then.
    """

    def fill(inside: Path) -> None:
        write_file(inside / "point.yaml", settings.as_yaml().encode())
        write_file(inside / "series.parquet", as_parquet(_series(told)))
        write_file(inside / "events.json", in_lines({"happened": told["happened"]}).encode())
        rest = {key: value for key, value in told.items() if key not in ("bins", "happened")}
        summary = {"kind": "point", "tailback_version": __version__, **rest}
        write_file(inside / SUMMARY_FILE, in_lines(summary).encode())

    folder.fill(fill)


def _series(told: Counters) -> pa.Table:
    """A row a bin and direction."""
    names = ("tx_bytes", "marked", "dropped", "most_queued_bytes")
    length_ps, (first, second) = told["bin_ps"], told["interfaces"]
    rows = [
        (at * length_ps, way, one)
        for way, bins in zip((f"{first} to {second}", f"{second} to {first}"), told["bins"], strict=True)
        for at, one in enumerate(bins)
    ]
    waits = [one["queued_byte_ps"] / min(length_ps, max(told["elapsed_ps"] - at, 1)) for at, _, one in rows]
    columns: dict[str, Any] = {
        "time_ps": pa.array([row[0] for row in rows], pa.int64()),
        "direction": pa.array([row[1] for row in rows], pa.string()),
        **{name: pa.array([row[2][name] for row in rows], pa.int64()) for name in names},
        "mean_queued_bytes": pa.array(waits, pa.float64()),
    }
    return pa.table(columns)
