"""`flow.txt` and `trace.txt`: who sends how much to whom, and which nodes that simulator would trace."""

from __future__ import annotations

from typing import Any

from tailback.hpcc.quantities import nanoseconds
from tailback.hpcc.tokens import I64_MAX, U32_MAX, Tokens
from tailback.hpcc.topology import Topology

PER_FLOW = 6
MANY_BYTES = 300_000
"""From so many on, some ten thousand flows, columns are worth what Arrow takes to load."""
LAST_START_S = I64_MAX / 1e9


Flow = list[int]
"""`[src, dst, pg, dport, bytes, start_ns]`: what the engine's plan has of a flow, too."""


def read_flows(file: str, data: bytes, topology: Topology) -> list[Flow]:
    """Reads `flow.txt`: the number of flows, then `src dst pg dport bytes start` for each, sorted by start.

    A start is in seconds and becomes whole nanoseconds, rounded down from the exact binary number: a flow
    at 2.000000577 may start at ...576 ns.

    Raises:
        InputError: a token is not what belongs there.
    """
    if len(data) >= MANY_BYTES:
        many = _read_columns(data, topology)
        if many is not None:
            return many
    tokens = Tokens(file, data)
    count = tokens.integer("the number of flows", 0, U32_MAX)
    _enough(tokens, count)
    hosts, last = topology.is_host, 0
    most = topology.nodes - 1
    flows: list[Flow] = []
    for _ in range(count):
        first = tokens.at
        src = tokens.integer("the id of the sending host", 0, most)
        dst = tokens.integer("the id of the receiving host", 0, most)
        for index, node in ((first, src), (first + 1, dst)):
            if not hosts[node]:
                raise tokens.refuse(index, f"a host, found switch {node}")
        if src == dst:
            raise tokens.refuse(first + 1, "another host than the sender")
        pg = tokens.integer("a priority", 0, 7)
        dport = tokens.integer("a destination port", 0, 65535)
        size = tokens.integer("bytes to send", 1, U32_MAX)
        start = nanoseconds(tokens.real("the start in seconds", 0.0, LAST_START_S))
        if start < last:
            expected = f"a start not before that of the flow above, {last} ns (flows are sorted by start)"
            raise tokens.refuse(first + 5, expected)
        if not topology.connected(src, dst):
            raise tokens.refuse(first + 1, f"a host that host {src} has a path to")
        last = start
        flows.append([src, dst, pg, dport, size, start])
    return flows


def _read_columns(data: bytes, topology: Topology) -> list[Flow] | None:
    """The same of a long list as generators write it: a flow a line, one space between tokens.

    None: it is not one, or something in it is wrong, which is found token by token.
    """
    import numpy as np
    import pyarrow as pa
    import pyarrow.csv as csv

    head, _, rows = data.partition(b"\n")
    if not head.strip().isdigit() or len(head) > 20 or rows.translate(None, b"0123456789.e- \n"):
        return None
    names = ["src", "dst", "pg", "dport", "bytes", "start"]
    try:
        table = csv.read_csv(
            pa.BufferReader(rows),
            csv.ReadOptions(use_threads=False, column_names=names),
            csv.ParseOptions(delimiter=" ", quote_char=False),
            csv.ConvertOptions(
                column_types=dict.fromkeys(names[:5], pa.int64()) | {"start": pa.float64()}, null_values=[]
            ),
        ).slice(0, int(head))
    except pa.ArrowInvalid:
        return None
    columns: list[Any] = [table.column(name).to_numpy() for name in names]
    src, dst, pg, dport, size, start = columns
    bounds = ((src, 0, topology.nodes - 1), (dst, 0, topology.nodes - 1), (pg, 0, 7), (dport, 0, 65535))
    if len(src) != int(head) or not all(
        ((column >= low) & (column <= high)).all()
        for column, low, high in (*bounds, (size, 1, U32_MAX), (start, 0.0, LAST_START_S))
    ):
        return None
    hosts = np.array(topology.is_host)
    pairs = np.unique(src * topology.nodes + dst)
    ends = zip((pairs // topology.nodes).tolist(), (pairs % topology.nodes).tolist(), strict=True)
    if not (hosts[src] & hosts[dst] & (src != dst)).all() or (np.diff(start) < 0).any():
        return None
    if not all(topology.connected(a, b) for a, b in ends):
        return None
    flows: list[Flow] = np.column_stack([*columns[:5], _all_nanoseconds(start)]).tolist()
    return flows


def _all_nanoseconds(seconds: Any) -> Any:
    """`nanoseconds` of each."""
    import numpy as np

    if (seconds < 1).any():
        return np.array([nanoseconds(value) for value in seconds.tolist()], dtype=np.int64)
    # A number from 1 on has at most 52 bits behind the point: times 10^9 more than 64 bits, so in two halves.
    whole = np.floor(seconds)
    behind = ((seconds - whole) * 2.0**52).astype(np.int64)
    high, low = behind >> 26, behind & (2**26 - 1)
    return whole.astype(np.int64) * 10**9 + ((high * 10**9 + (low * 10**9 >> 26)) >> 26)


def _enough(tokens: Tokens, count: int) -> None:
    """The count is checked against the file before anything is made of it."""
    there = (len(tokens.words) - 1) // PER_FLOW
    if there >= count:
        return
    # traffic_gen.py writes an estimate first and goes back to put the count over it; a shorter count leaves
    # the estimate's last digit behind.
    stray = f" ({there} and a stray digit?)" if str(count)[:-1] == str(there) else ""
    expected = f"the number of flows: {there} of {PER_FLOW} tokens each follow{stray}"
    raise tokens.refuse(0, expected)


def read_trace(file: str, data: bytes) -> list[int]:
    """Reads `trace.txt`: a number, then as many node ids. Those of no node are skipped there, too.

    Raises:
        InputError: a token is not what belongs there.
    """
    tokens = Tokens(file, data)
    count = tokens.integer("the number of traced nodes", 0, U32_MAX)
    if len(tokens.words) - 1 < count:
        raise tokens.refuse(0, f"the number of traced nodes: {len(tokens.words) - 1} tokens follow")
    return [tokens.integer("a node id", 0, U32_MAX) for _ in range(count)]
