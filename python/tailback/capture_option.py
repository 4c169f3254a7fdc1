"""The option `--capture`: which links of a run to capture as pcapng, when, and how much of each frame."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from tailback.errors import InputError
from tailback.scenario import Scenario
from tailback.scenario.headroom import largest_packet
from tailback.units import I64_MAX, UnitError, duration, format_duration, size

CAPTURE_FILE = "capture.pcapng"
"""In the folder of a run."""
DEFAULT_SNAP_BYTES = 262_144
"""The default of tcpdump; no frame is longer."""
_MIN_SNAP_BYTES = 14
"""An Ethernet header."""


class Capture(NamedTuple):
    """Links by their ends (`sw0:h4`, both ways), nodes (all their links) or `all`; picoseconds; bytes."""

    links: tuple[str, ...]
    start_ps: int = 0
    stop_ps: int = I64_MAX
    snap_bytes: int = DEFAULT_SNAP_BYTES

    @staticmethod
    def parse(links: Sequence[str], time: str | None = None, keep: str | None = None) -> Capture:
        """Reads texts such as `sw0:h4,h0`, `1ms..2ms` and `128B`.

        Raises:
            InputError: one of them cannot be read; the message names the option.
        """
        names = tuple(name for text in links for name in text.split(","))
        if not all(names):
            raise InputError.at(
                "--capture", f"found {','.join(links)!r}, expected links with commas between them"
            )
        start, stop = 0, I64_MAX
        if time is not None:
            expected = "two times such as 1ms..2ms, the first before the second"
            try:
                first, dots, last = time.partition("..")
                start, stop = duration(first), duration(last)
            except UnitError:
                raise InputError.at("--capture-time", f"found {time!r}, expected {expected}") from None
            if not dots or start >= stop:
                raise InputError.at("--capture-time", f"found {time!r}, expected {expected}")
        kept = DEFAULT_SNAP_BYTES
        if keep is not None:
            try:
                kept = size(keep)
            except UnitError as error:
                raise InputError.at("--capture-bytes", str(error)) from None
            if not _MIN_SNAP_BYTES <= kept <= DEFAULT_SNAP_BYTES:
                raise InputError.at(
                    "--capture-bytes", f"found {keep!r}, expected {_MIN_SNAP_BYTES}B to 256KiB"
                )
        return Capture(names, start, stop, kept)

    def check_time(self, scenario: Scenario) -> None:
        """Refuses a time in which the run has no frame."""
        if self.start_ps >= (end_ps := scenario.run.duration):
            raise InputError.at(
                "--capture-time",
                f"found a time that begins at {format_duration(self.start_ps)}, expected one that begins before "
                f"the run ends, at {format_duration(end_ps)}",
            )

    def max_bytes(self, scenario: Scenario) -> int:
        """Largest size of the capture: all its links full in both directions for its whole time."""
        span_ps = max(min(self.stop_ps, scenario.run.duration) - self.start_ps, 0)
        rate = sum(
            wire.rate
            for wire in scenario.network.wires
            for link in self.links
            if link == "all" or link in (wire.a, wire.b) or set(link.split(":")) == {wire.a, wire.b}
        )
        kept = min(1.0, self.snap_bytes / largest_packet(scenario))
        return round(2 * rate / 8 * span_ps / 1e12 * kept)
