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

_READER_BY_SUFFIX = {".goal": from_goal, ".cm": from_connections}
"""All other suffixes are tables."""


def read_graph(name: str, ranks: int, opened: Callable[[str, int], BinaryIO]) -> Operations:
    """Reads the operations of a file for `ranks` ranks. The file may be opened more than once.

    Raises:
        ListError: the file is not readable, has unknown ranks, or operations that wait for each other; the text
            has the place.
        InputError: the file cannot be read.
    """
    reader = next((reader for end, reader in _READER_BY_SUFFIX.items() if name.endswith(end)), from_table)
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
    """The plan of a run's folder with the operations of the files that it names.

    Raises:
        ListError: as `read_graph`.
        InputError: a file is missing or cannot be read.
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
