"""Settings by their dotted paths, as after --set."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any


def flat(value: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    """Every value below, by its dotted path; a list of plain values, and what is empty, is one value."""
    entries: Iterable[tuple[Any, Any]] | None = None
    if isinstance(value, Mapping) and value:
        entries = value.items()
    elif isinstance(value, list) and any(isinstance(one, (Mapping, list)) for one in value):
        entries = enumerate(value)
    if entries is None:
        yield name, value
        return
    for key, one in entries:
        yield from flat(one, f"{name}.{key}" if name else str(key))
