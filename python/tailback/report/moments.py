"""Close-ups: the parts of a run in which something happens."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tailback import text
from tailback.explain.observed import Observed
from tailback.recorded.bins import Array
from tailback.recorded.run import Recorded
from tailback.recorded.signals import CE_MARK, DROP, NAK, PFC_PAUSE

LEAST_BINS = 40
"""A close-up of fewer bins would show nothing new."""
CLOSE_UP_MIN_SHARE = 0.02
"""Of the run that a close-up shows, at least."""
CLOSE_UP_LEAD_SHARE = 0.2
"""Part of a close-up before what it is about begins."""
CLOSE_UP_MAX_BUSY_SHARE = 0.8
"""Of the run: traffic that takes longer needs no close-up."""


@dataclass(frozen=True)
class Moment:
    """A part of a run, in seconds, and what it is about."""

    name: str
    begin_s: float
    end_s: float

    @property
    def words(self) -> str:
        """When it is."""
        return f"{text.duration(self.begin_s)} to {text.duration(self.end_s)}"


def moments(result: Recorded) -> list[Moment]:
    """The close-ups of a run in the order of time; none where its bins are too few to be looked at closer.

    One for when most of the traffic was delivered, if that is a part of the run only, and one around each
    of: the first mark, pause or loss, the most bytes in queues, the most pauses, the most losses, a link
    that fails. What lies close together is one.
    """
    bins = result.bins
    if bins.count < 4 * LEAST_BINS:
        return []
    signals = {
        "ECN marks": result.signal_log.total(CE_MARK),
        "pauses": result.signal_log.total(PFC_PAUSE),
        "drops": result.signal_log.total(DROP),
        "NAKs": result.signal_log.total(NAK),
    }
    found: list[tuple[int, str]] = []
    for name, row in signals.items():
        if row.any():
            found.append((int(np.flatnonzero(row)[0]), f"first {name}"))
    for name in ("pauses", "drops"):
        if signals[name].any():
            found.append((int(np.argmax(signals[name])), f"most {name}"))
    depth = _waiting(result)
    if depth.any():
        found.append((int(np.argmax(depth)), "fullest queues"))
    seen = Observed(result)
    for at, link, up in seen.link_changes:
        if not up and at < bins.end_s:
            found.append((int(at / bins.bin_s), f"{' to '.join(sorted(link, key=text.natural))} fails"))
    length = max(LEAST_BINS, int(CLOSE_UP_MIN_SHARE * bins.count))
    kept = [_around(result, names, at, length) for names, at in _together(sorted(found), length)]
    if bins.total("goodput_rx_bps").any():
        begin, end = seen.span
        if end - begin < CLOSE_UP_MAX_BUSY_SHARE * bins.end_s:
            kept.append(Moment("most of the traffic", begin, end))
    return sorted(kept, key=lambda moment: moment.begin_s)


def _waiting(result: Recorded) -> Array:
    """Bytes in all queues of the network; what senders have not sent yet does not count."""
    total = np.zeros(result.bins.count)
    for name in {queue["queue"] for queue in result.meta["queues"] if queue["kind"] in ("egress", "qdisc")}:
        total += result.bins.values(name, "queue_mean_bytes")
    return total


def _together(found: list[tuple[int, str]], length: int) -> list[tuple[list[str], int]]:
    """One close-up for all that begins within half of its length."""
    groups: list[tuple[list[str], int]] = []
    for at, name in found:
        if groups and at - groups[-1][1] < length // 2:
            groups[-1][0].append(name)
        else:
            groups.append(([name], at))
    return groups


def _around(result: Recorded, names: list[str], at: int, length: int) -> Moment:
    bins = result.bins
    first = max(0, min(at - int(CLOSE_UP_LEAD_SHARE * length), bins.count - length))
    last = min(first + length, bins.count) - 1
    return Moment(
        ", ".join(names), float(bins.start_s[first]), float(bins.start_s[last] + bins.width_s[last])
    )
