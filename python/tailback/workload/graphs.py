"""Graphs of operations from files."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence

from tailback.limits import FLOWS_BYTES
from tailback.workload.connections import from_connections
from tailback.workload.goal import from_goal
from tailback.workload.graph_tables import from_table
from tailback.workload.lists import ListError
from tailback.workload.operations import Operation

_READERS = {".goal": from_goal, ".cm": from_connections}
"""By the end of a file's name; all others are tables."""


def read_graph(name: str, ranks: int, read: Callable[[str, int], bytes]) -> list[Operation]:
    """The operations of a file, for so many ranks.

    Raises:
        ListError: not readable, ranks that are not there, or operations that wait for each other; the text
            says where.
        ScenarioError: the file cannot be read.
    """
    content = read(name, FLOWS_BYTES)
    reader = next((reader for end, reader in _READERS.items() if name.endswith(end)), from_table)
    made, names = reader(name, content, ranks)
    if not made:
        raise ListError(f"{name}: found no operation, expected one or more")
    _refuse_circle(name, made, names)
    return made


def _refuse_circle(name: str, made: Sequence[Operation], names: Sequence[str]) -> None:
    """Names operations that wait for each other."""
    waits = [len(one.after) for one in made]
    then: list[list[int]] = [[] for _ in made]
    for place, one in enumerate(made):
        for before in one.after:
            then[before].append(place)
    ready = deque(place for place, count in enumerate(waits) if not count)
    left = len(made)
    while ready:
        left -= 1
        for place in then[ready.popleft()]:
            waits[place] -= 1
            if not waits[place]:
                ready.append(place)
    if not left:
        return
    # Whoever is left waits for one that is left: going back comes round to a circle.
    place, seen = next(place for place, count in enumerate(waits) if count), dict[int, int]()
    while place not in seen:
        seen[place] = len(seen)
        place = next(before for before in made[place].after if waits[before])
    circle = list(seen)[seen[place] :]
    shown = ", ".join(names[one] for one in circle[:10]) + (", ..." if len(circle) > 10 else "")
    raise ListError(f"{name}: operations {shown} wait for each other in a circle")
