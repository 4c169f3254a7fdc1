"""The `show` commands of a SONiC switch: counters of interfaces and PFC, and watermarks.

Layout, columns and units are those of SONiC's Command Reference (sonic-utilities, doc/Command-Reference.md):
`show interfaces counters`, `show pfc counters`, `show priority-group watermark shared` and `headroom`, and
`show queue watermark unicast`, one after the other. An interface has the name of the node at its other end.
Values that the run did not count are N/A, as in SONiC.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tailback.counters.tool import CounterTool, counted_at, ports_of, switches
from tailback.recorded.run import Recorded
from tailback.recorded.setup import link_changes

PRIORITY_NUMBERS = range(8)
NOT_AVAILABLE = "N/A"
_GROUP_COUNTER_PREFIX, _QUEUE_COUNTER_PREFIX = "SAI_INGRESS_PRIORITY_GROUP_STAT_", "SAI_QUEUE_STAT_"
_TABLE_TITLES = {
    "shared": "Ingress shared pool occupancy per PG:",
    "headroom": "Ingress headroom per PG:",
    "queue": "Egress shared pool occupancy per unicast queue:",
}


def render(result: Recorded, switch: str) -> str:
    ports = ports_of(result, switch)
    frames = [(way, "rx" if way == "Rx" else "tx") for way in ("Rx", "Tx")]
    pfc = [
        _by_priority(result, ports, f"Port {title}", "PFC", f"{way}_prio{{}}_pause", commas=True)
        for title, way in frames
    ]
    groups = [
        _TABLE_TITLES[title]
        + "\n"
        + _by_priority(result, ports, "Port", "PG", f"{_GROUP_COUNTER_PREFIX}{name}_WATERMARK_BYTES:{{}}")
        for title, name in (("shared", "SHARED"), ("headroom", "XOFF_ROOM"))
    ]
    queues = _TABLE_TITLES["queue"] + "\n" + _queue_watermarks(result, ports)
    return "\n".join([_interfaces(result, switch, ports), *pfc, *groups, queues])


def _interfaces(result: Recorded, switch: str, ports: Mapping[str, str]) -> str:
    """`show interfaces counters`. Rates are means over the run; a real switch shows those of the last seconds."""
    seconds = result.meta["end_ps"] / 1e12
    head = ["IFACE", "STATE"]
    for way in ("RX", "TX"):
        head += [f"{way}_{column}" for column in ("OK", "BPS", "UTIL", "ERR", "DRP", "OVR")]
    rows = []
    for (port, interface), wire in zip(ports.items(), result.setup.network.wires_of[switch], strict=True):
        row = [interface, _state(result, wire.name)]
        for way, dropped in (
            ("rx", f"{_GROUP_COUNTER_PREFIX}DROPPED_PACKETS:{{}}"),
            ("tx", f"{_QUEUE_COUNTER_PREFIX}DROPPED_PACKETS:{{}}"),
        ):
            frames = _total(result, port, f"{way}_prio{{}}_packets")
            taken = _total(result, port, f"{way}_prio{{}}_bytes")
            rate = None if taken is None or seconds <= 0 else taken / seconds
            util = NOT_AVAILABLE if rate is None else f"{800 * rate / wire.rate:.2f}%"
            drops = _number(_total(result, port, dropped))
            row += [_number(frames), _rate(rate), util, NOT_AVAILABLE, drops, NOT_AVAILABLE]
        rows.append(row)
    return _table(head, rows)


def _by_priority(
    result: Recorded, ports: Mapping[str, str], first: str, column: str, counter: str, commas: bool = False
) -> str:
    rows = []
    for port, interface in ports.items():
        found = [counted_at(result, port, counter, priority) for priority in PRIORITY_NUMBERS]
        rows.append([interface, *(_number(value, commas) for value in found)])
    return _table([first, *(f"{column}{priority}" for priority in PRIORITY_NUMBERS)], rows)


def _queue_watermarks(result: Recorded, ports: Mapping[str, str]) -> str:
    """Watermarks from the time series: if all queues were recorded, a queue without a series was empty."""
    rows = []
    for port, interface in ports.items():
        row = [interface]
        for priority in PRIORITY_NUMBERS:
            queue = f"{port}/tc{priority}"
            known = result.records_all or result.bins.has(queue, "queue_max_bytes")
            row.append(
                str(int(result.bins.values(queue, "queue_max_bytes").max())) if known else NOT_AVAILABLE
            )
        rows.append(row)
    return _table(["Port", *(f"UC{priority}" for priority in PRIORITY_NUMBERS)], rows)


def _total(result: Recorded, port: str, counter: str) -> int | None:
    found = [counted_at(result, port, counter, priority) for priority in PRIORITY_NUMBERS]
    known = [value for value in found if value is not None]
    return sum(known) if known else None


def _state(result: Recorded, wire: str) -> str:
    """U or D: state of the link at the end of the run."""
    if not result.setup.link_events:
        return "U"
    if "failures" not in result.plan:
        return NOT_AVAILABLE
    number = result.setup.network.wire_number[wire]
    events = [(at, up) for at, link, up in link_changes(result.plan) if link == number]
    last = max((event for event in events if event[0] <= result.meta["end_ps"]), default=(0, True))
    return "U" if last[1] else "D"


def _number(value: int | None, commas: bool = True) -> str:
    return NOT_AVAILABLE if value is None else f"{value:,}" if commas else str(value)


def _rate(bytes_per_s: float | None) -> str:
    """A rate in B/s, above 10 KB/s in KB/s, above 10 MB/s in MB/s."""
    if bytes_per_s is None:
        return NOT_AVAILABLE
    for unit, size in (("MB/s", 1e6), ("KB/s", 1e3)):
        if bytes_per_s > 10 * size:
            return f"{bytes_per_s / size:.2f} {unit}"
    return f"{bytes_per_s:.2f} B/s"


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Right-aligned columns, each at least two characters wider than its name, with dashes below the names."""
    widths = [
        max(len(name) + 2, *(len(row[place]) for row in rows)) if rows else len(name) + 2
        for place, name in enumerate(head)
    ]
    lines = [head, ["-" * width for width in widths], *rows]
    return "".join(
        "  ".join(cell.rjust(width) for cell, width in zip(line, widths, strict=True)) + "\n"
        for line in lines
    )


TOOL = CounterTool(
    name="sonic",
    command="show interfaces counters, pfc counters, priority-group watermark, queue watermark",
    nodes=switches,
    render=render,
    needs="a switch",
)
