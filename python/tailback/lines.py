"""JSON for people and for large data: each outer entry has a line of its own."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

_one_line = json.JSONEncoder(sort_keys=True, allow_nan=False).encode


def in_lines(value: Any, levels: int = 3) -> str:
    """`value` as JSON, keys sorted, a line for each entry of the outer `levels`, and a newline at the end.

    The library's own indentation is many times slower, and large fabrics have very many entries.

    Raises:
        ValueError: a number that JSON has no word for.
    """
    return _lines(value, levels, "") + "\n"


def _lines(value: Any, levels: int, indent: str) -> str:
    if not levels or not value or not isinstance(value, (dict, list)):
        return _one_line(value)
    inner = indent + " "
    if isinstance(value, dict):
        entries = [f"{_one_line(key)}: {_lines(value[key], levels - 1, inner)}" for key in sorted(value)]
    else:
        entries = [_lines(entry, levels - 1, inner) for entry in value]
    opening, closing = "{}" if isinstance(value, dict) else "[]"
    return f"{opening}\n{inner}" + f",\n{inner}".join(entries) + f"\n{indent}{closing}"


def read_json(path: Path) -> dict[str, Any]:
    """The mapping in a JSON file.

    Raises:
        ValueError: it is cut short, or holds something else; it names the file.
    """
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(f"{path.name}: {error}") from None
    if not isinstance(value, dict):
        raise ValueError(f"{path.name}: a {type(value).__name__} and no mapping")
    return value
