"""The journal of a sweep: a line of JSON for each run that has ended, which is on the disk before anything is
said of it.

Lines are only ever added. A process that is killed while it writes leaves a last line without its end, which
does not count: that run is done again.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType
from typing import Any

NAME = "journal.jsonl"

Row = dict[str, Any]


class Journal:
    """That of a folder, open for more lines."""

    def __init__(self, folder: Path) -> None:
        """Reads what there is.

        Raises:
            OSError: it cannot be read or written.
        """
        self._path = folder / NAME
        self.done: dict[str, Row] = {}
        """The last line of each run by its key."""
        self._file = self._path.open("ab+")
        try:
            self._file.seek(0)
            data = self._file.read()
            whole = data.rfind(b"\n") + 1
            self._file.truncate(whole)
        except BaseException:
            self._file.close()
            raise
        for line in data[:whole].splitlines():
            try:
                row = json.loads(line)
                self.done[row["key"]] = row
            except (ValueError, LookupError, TypeError):
                continue  # damaged: that run is done again

    def add(self, rows: Iterable[Row]) -> None:
        """Rows of runs that have ended; they are on the disk when this returns.

        Raises:
            OSError: it names the journal.
        """
        lines = [json.dumps(row, sort_keys=True, allow_nan=False) + "\n" for row in rows]
        try:
            self._file.write("".join(lines).encode())
            self._file.flush()
            os.fsync(self._file.fileno())
        except OSError as error:
            raise OSError(error.errno, error.strerror or str(error), str(self._path)) from None

    def __enter__(self) -> Journal:
        """Nothing else."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Closes it."""
        self._file.close()
