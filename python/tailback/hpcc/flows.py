"""`flow.txt`: the list of flows; and `trace.txt`: the nodes that the HPCC simulator would trace."""

from __future__ import annotations

from tailback.hpcc.tokens import U32_MAX, Tokens, refusal
from tailback.hpcc.topology import Topology
from tailback.rows import Rows

SRC, DST, PRIORITY, PORT, BYTES, START_NS = range(6)
"""Columns of a list of flows, also in the engine's plan."""


def read_flows(file: str, data: bytes, topology: Topology) -> Rows:
    """Reads `flow.txt`: the number of flows, then `src dst pg dport bytes start` for each, sorted by start.

    A start is in seconds and becomes whole nanoseconds, rounded down from the exact binary number: a flow
    at 2.000000577 may start at ...576 ns. The engine parses the file: there may be millions of flows.

    Raises:
        InputError: a token is not valid.
    """
    from tailback._engine import read_flow_list

    try:
        return Rows(read_flow_list(data, topology.is_host, topology.zones))
    except ValueError as error:
        line, word, expected = error.args
        raise refusal(f"{file}:{line}", word, expected) from None


def read_trace(file: str, data: bytes) -> list[int]:
    """Reads `trace.txt`: a number, then as many node ids. Unknown ids are skipped, as in the HPCC simulator.

    Raises:
        InputError: a token is not valid.
    """
    tokens = Tokens(file, data)
    count = tokens.integer("the number of traced nodes", 0, U32_MAX)
    if len(tokens.words) - 1 < count:
        raise tokens.refuse(0, f"the number of traced nodes: {len(tokens.words) - 1} tokens follow")
    return [tokens.integer("a node id", 0, U32_MAX) for _ in range(count)]
