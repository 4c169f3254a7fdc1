"""The journal of a sweep: a line of JSON for each run that has ended, which is on the disk before anything is
said of it.

Lines are only ever added. A process that is killed while it writes leaves a last line without its end, which
does not count: that run is done again. A line that does not match its checksum, or does not have the values
of a run, does not count either, and is named.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from tailback import text

NAME = "journal.jsonl"

Row = dict[str, Any]

_CHECK = "check"
"""The key of a line's checksum."""
_MOST_TOLD = 5
"""Damaged lines that are named."""


class Journal:
    """That of a folder, open for more lines."""

    def __init__(self, folder: Path) -> None:
        """Reads what there is.

        Raises:
            OSError: it cannot be read or written, or is a link to another file.
        """
        self._path = folder / NAME
        self.done: dict[str, Row] = {}
        """The last line of each run by its key."""
        self.damaged: list[str] = []
        """Of lines that do not count: where they are and what was found, the first few of them."""
        self._file = open(self._path, "ab+", opener=_not_a_link)  # noqa: SIM115
        try:
            self._file.seek(0)
            data = self._file.read()
            whole = data.rfind(b"\n") + 1
            self._file.truncate(whole)
        except BaseException:
            self._file.close()
            raise
        damaged = older = 0
        for number, line in enumerate(data[:whole].splitlines(), 1):
            try:
                row = _read(line)
                if "measures" in row and _is_of_a_run({**row, "metrics": row["measures"]}):
                    older += 1
                elif not _is_of_a_run(row):
                    raise ValueError(
                        "found a line without the values of a run, expected its key, status and metrics"
                    )
                else:
                    self.done[row["key"]] = row
            except ValueError as error:
                damaged += 1
                if damaged <= _MOST_TOLD:
                    self.damaged.append(f"{self._path}:{number}: {error}; the run is repeated")
        if older:
            lines = text.plural(older, "line")
            form = "an older form, with measures in place of metrics"
            self.damaged.append(f"{self._path}: found {lines} of {form}; their runs are repeated")
        if damaged > _MOST_TOLD:
            more = damaged - _MOST_TOLD
            self.damaged.append(f"{self._path}: found {more} more damaged lines; their runs are repeated")

    def add(self, rows: Iterable[Row]) -> None:
        """Rows of runs that have ended; they are on the disk when this returns.

        Raises:
            OSError: it names the journal.
        """
        lines = [_text({**row, _CHECK: _checksum(row)}) + "\n" for row in rows]
        try:
            self._file.write("".join(lines).encode())
            self._file.flush()
            os.fsync(self._file.fileno())
        except OSError as error:
            raise OSError(error.errno, error.strerror or str(error), str(self._path)) from None

    def __enter__(self) -> Journal:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()


def _not_a_link(name: str, flags: int) -> int:
    return os.open(name, flags | os.O_NOFOLLOW, 0o666)


def _text(row: Row) -> str:
    return json.dumps(row, sort_keys=True, allow_nan=False)


def _checksum(row: Row) -> str:
    return hashlib.sha256(_text(row).encode()).hexdigest()[:16]


def _read(line: bytes) -> Row:
    """What a line has, whose checksum fits.

    Raises:
        ValueError: it is damaged; what was found and what was expected.
    """
    try:
        row = json.loads(line)
    except (ValueError, RecursionError):
        raise ValueError("found no JSON, expected the line of a run") from None
    if not isinstance(row, dict):
        raise ValueError("found no mapping, expected the line of a run")
    check = row.pop(_CHECK, None)
    try:
        fits = check == _checksum(row)
    except (ValueError, RecursionError):  # such as NaN
        fits = False
    if not fits:
        raise ValueError("found a line that does not match its checksum, expected it as it was written")
    return row


def _is_of_a_run(row: Row) -> bool:
    if not isinstance(row.get("key"), str):
        return False
    if row.get("status") == "failed":
        return isinstance(row.get("message"), str)
    metrics, faults = row.get("metrics"), row.get("faults")
    return (
        row.get("status") == "done"
        and isinstance(metrics, dict)
        and all(value is None or _is_number(value) for value in metrics.values())
        and isinstance(faults, list)
        and all(isinstance(fault, str) for fault in faults)
        and all(_is_number(row.get(name)) for name in ("cpu_s", "engine_cpu_s"))
    )


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)
