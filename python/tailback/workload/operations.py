"""An operation of a graph, and how a line of a file is refused."""

from __future__ import annotations

from typing import Any, NamedTuple, NoReturn

from tailback.workload.lists import ListError


class Operation(NamedTuple):
    """An operation as the plan has it: its rank, what it is, and the places of those that it waits for."""

    rank: int
    what: Any
    after: list[int]


def send(to: int, size: int, channel: int = 0) -> dict[str, Any]:
    """What a message is."""
    return {"send": {"to": to, "bytes": size, "channel": channel}}


def refuse(name: str, line: int, text: str) -> NoReturn:
    """Raises ListError for a line of a file."""
    raise ListError(f"{name}:{line}: {text}")
