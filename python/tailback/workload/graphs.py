"""Graphs of operations from files."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, BinaryIO

from tailback.errors import InputError
from tailback.files import UnchangedFile
from tailback.limits import GRAPH_BYTES
from tailback.workload.connections import from_connections
from tailback.workload.goal import from_goal
from tailback.workload.graph_tables import from_table
from tailback.workload.lists import ListError
from tailback.workload.operations import Operations

_READERS = {".goal": from_goal, ".cm": from_connections}
"""By the end of a file's name; all others are tables."""


def read_graph(name: str, ranks: int, opened: Callable[[str, int], BinaryIO]) -> Operations:
    """The operations of a file for `ranks` ranks. It may be opened more than once.

    Raises:
        ListError: not readable, ranks that are not there, or operations that wait for each other; the text
            says where.
        InputError: the file cannot be read.
    """
    reader = next((reader for end, reader in _READERS.items() if name.endswith(end)), from_table)
    made, called = reader(name, lambda: opened(name, GRAPH_BYTES), ranks)
    if not len(made):
        raise ListError(f"{name}: found no operation, expected one or more")
    from tailback._engine import circle

    operations = made.made(name)
    if places := circle(operations.columns):
        shown = ", ".join(called(one) for one in places[:10]) + (", ..." if len(places) > 10 else "")
        raise ListError(f"{name}: operations {shown} wait for each other in a circle")
    return operations


def with_graphs(plan: dict[str, Any], files: Mapping[str, UnchangedFile]) -> dict[str, Any]:
    """A plan as the folder of a run has it, with the operations of the files that it names.

    Raises:
        ListError: as `read_graph`.
        InputError: a file is not there, or cannot be read.
    """

    def opened(name: str, most: int) -> BinaryIO:
        try:
            return files[name].open()
        except (KeyError, OSError):
            raise InputError.at(name, "found none, expected a graph of the plan") from None

    def step(of: dict[str, Any], ranks: int) -> dict[str, Any]:
        graph = of.get("graph")
        return {"graph": read_graph(graph["file"], ranks, opened)} if isinstance(graph, dict) else of

    jobs = [
        {**job, "steps": [step(one, len(job["ranks"])) for one in job["steps"]]}
        for job in plan.get("jobs", ())
    ]
    return {**plan, "jobs": jobs} if jobs else dict(plan)
