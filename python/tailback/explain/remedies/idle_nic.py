"""Traffic moved to a NIC of the same server that idles."""

from __future__ import annotations

import re
from collections.abc import Iterator

from tailback.explain.remedies import Case, Remedy, numbered

IDLE_NIC_MAX_LOAD = 0.1
"""A NIC that receives and sends less than this share of its rate idles."""
_NIC_NAME = re.compile(r"s(\d+)n(\d+)")
"""Names of hosts in a topology of servers with several NICs."""


def remedies(case: Case) -> Iterator[Remedy]:
    """Where the two ends of an item are NICs of different rails, and the one of the same rail idles."""
    sets, moved = [], []
    for number, item in numbered(case, "write"):
        ends = [_NIC_NAME.fullmatch(str(item[end])) for end in ("from", "to")]
        if ends[0] is None or ends[1] is None or ends[0][2] == ends[1][2]:
            continue
        for key, one, other in (("to", ends[1], ends[0]), ("from", ends[0], ends[1])):
            better = f"s{one[1]}n{other[2]}"
            if _idles(case, better):
                sets.append(f"traffic.{number}.{key}={better}")
                moved.append(f"{case.item(number)} from {one[0]} to {better}")
                break
    if sets:
        yield Remedy(
            "nic",
            "traffic moved to NICs that idle",
            f"Move {', '.join(moved)}.",
            sets=tuple(sets),
            where="all",
            why="Two items of traffic share a NIC while another NIC of the same server idles.",
            headline="a NIC carries the traffic of two, and another idles",
            repairs=True,
        )


def _idles(case: Case, host: str) -> bool:
    seen = case.seen
    if host not in seen.network.host_number:
        return False
    ports = [(wire.a, wire.b) for wire in seen.network.wires_of[host]]
    return all(max(seen.wire_share(port), seen.wire_share(port[::-1])) < IDLE_NIC_MAX_LOAD for port in ports)
