"""Graphs of operations from files."""

from __future__ import annotations

from collections.abc import Callable

from tailback.limits import GRAPH_BYTES
from tailback.workload.connections import from_connections
from tailback.workload.goal import from_goal
from tailback.workload.graph_tables import from_table
from tailback.workload.lists import ListError
from tailback.workload.operations import Operations

_READERS = {".goal": from_goal, ".cm": from_connections}
"""By the end of a file's name; all others are tables."""


def read_graph(name: str, ranks: int, read: Callable[[str, int], bytes]) -> Operations:
    """The operations of a file for `ranks` ranks.

    Raises:
        ListError: not readable, ranks that are not there, or operations that wait for each other; the text
            says where.
        ScenarioError: the file cannot be read.
    """
    content = read(name, GRAPH_BYTES)
    reader = next((reader for end, reader in _READERS.items() if name.endswith(end)), from_table)
    made, called = reader(name, content, ranks)
    if not len(made):
        raise ListError(f"{name}: found no operation, expected one or more")
    from tailback._engine import circle

    operations = made.made()
    if places := circle(operations.columns, ranks):
        shown = ", ".join(called(one) for one in places[:10]) + (", ..." if len(places) > 10 else "")
        raise ListError(f"{name}: operations {shown} wait for each other in a circle")
    return operations
