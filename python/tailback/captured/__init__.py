"""Analyses captures of RoCEv2 traffic, simulated or real.

`analyze` returns a `CaptureAnalysis`: the engine's data (`data`, see docs/captures.md), findings, and a page.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from tailback.captured.words import findings
from tailback.errors import InputError
from tailback.metrics import Finding

FRAMES_PER_STEP = 50_000
"""Frames between two checks for Ctrl-C and updates of the progress bar: about 30 ms."""


@dataclass(frozen=True)
class CaptureAnalysis:
    """The analysis of a capture."""

    name: str
    data: dict[str, Any]

    @cached_property
    def findings(self) -> list[Finding]:
        """Findings, the most important first."""
        return findings(self.data)

    def page(self) -> str:
        """An HTML page; it opens offline."""
        from tailback.captured.page import render  # templates take a tenth of a second to load

        return render(self.name, self.data, self.findings)


_MAGIC = {
    b"BZh": "a file packed by bzip2",
    b"\xfd7zXZ\0": "a file packed by xz",
    b"\x28\xb5\x2f\xfd": "a file packed by zstd",
    b"\x04\x22\x4d\x18": "a file packed by lz4",
    b"PK\x03\x04": "a ZIP file",
    b"snoop\0": "a capture of snoop",
}


def _packed(path: Path) -> str | None:
    """Description of a file that is not a capture, if its first bytes identify it."""
    with path.open("rb") as file:
        begin = file.read(8)
    if not begin:
        return "an empty file"
    return next((words for magic, words in _MAGIC.items() if begin.startswith(magic)), None)


def analyze(path: str | os.PathLike[str], progress: Callable[[float], None] | None = None) -> CaptureAnalysis:
    """Reads a capture in bounded memory: pcap or pcapng, also with gzip; `-` is standard input.

    `progress` is called with the share that was read, if the size is known.

    Raises:
        InputError: this is not a capture, or it is damaged; the message has the place.
        OSError: the file cannot be read.
    """
    from tailback._engine import Analysis

    given = Path(path)
    standard_input = str(path) == "-"
    # The size of a pipe is not known; stat says 0.
    size = 0 if standard_input else given.stat().st_size
    if not standard_input and given.is_dir():
        raise InputError.at(str(path), "found a folder, expected a capture (pcap, pcapng)")
    read = 0
    try:
        analysis = Analysis(str(given))
        done = False
        while not done:
            read, done = analysis.advance(FRAMES_PER_STEP)
            if progress is not None and size:
                progress(min(read / size, 1.0))
    except ValueError as error:
        if packed := None if standard_input else _packed(given):
            raise InputError.at(
                str(path), f"found {packed}, expected pcap or pcapng, as it is or with gzip"
            ) from None
        if "another capture" in str(error):
            raise InputError.at(
                str(path), f"{error}, expected one capture (mergecap joins several)"
            ) from None
        at = f" at byte {read:,} or after" if read else ""
        raise InputError.at(str(path), f"{error}{at}, expected pcap or pcapng") from None
    return CaptureAnalysis("standard input" if standard_input else given.name, json.loads(analysis.finish()))
