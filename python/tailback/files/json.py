"""JSON for people and for large data: each outer entry has a line of its own."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

from tailback.files import read_file
from tailback.limits import RESULT_BYTES
from tailback.rows import Rows


def _one_line(value: Any) -> str:
    return json.JSONEncoder(sort_keys=True, allow_nan=False, default=list).encode(value)


def in_lines(value: Any, levels: int = 3) -> str:
    """`value` as JSON, keys sorted, a line for each entry of the outer `levels`, and a newline at the end.

    The library's own indentation is many times slower, and large fabrics have very many entries.

    Raises:
        ValueError: a number that JSON has no word for.
    """
    return _lines(value, levels, "") + "\n"


def _lines(value: Any, levels: int, indent: str) -> str:
    if not levels or not value or not isinstance(value, (dict, list, Rows)):
        return _one_line(value)
    inner = indent + " "
    if isinstance(value, Rows):
        if levels == 1:
            rows = value.as_json(f",\n{inner}")
            return f"[\n{inner}{rows}\n{indent}]"
        value = list(value)
    if levels == 1 and (text := _at_once(value, indent, inner)):
        return text
    if isinstance(value, dict):
        entries = [f"{_one_line(key)}: {_lines(value[key], levels - 1, inner)}" for key in sorted(value)]
    else:
        entries = [_lines(entry, levels - 1, inner) for entry in value]
    opening, closing = "{}" if isinstance(value, dict) else "[]"
    return f"{opening}\n{inner}" + f",\n{inner}".join(entries) + f"\n{indent}{closing}"


def _at_once(value: Any, indent: str, inner: str) -> str:
    """The same of entries that are all mappings, all lists, or all plain; empty: they are not.

    Large fabrics have very many entries, and each call of the encoder takes as long as several values. What
    stands between two entries is there once less than there are entries: if it is found no more often, no
    entry has it inside.
    """
    kinds = {type(entry) for entry in (value.values() if isinstance(value, dict) else value)}
    between = "}, " if kinds == {dict} else "], " if kinds == {list} else ", "
    text = _one_line(value)
    if text.count(between) != len(value) - 1:
        return ""
    opening, closing = text[0], text[-1]
    # Such a text may be most of a large file: never are more than two there.
    text = text[1:-1]
    text = text.replace(between, f"{between[:-1]}\n{inner}")
    return f"{opening}\n{inner}{text}\n{indent}{closing}"


def number(value: float) -> float | None:
    """JSON has no NaN: a figure that cannot be given is null."""
    return value if math.isfinite(value) else None


def read_json(path: Path) -> dict[str, Any]:
    """The mapping in a JSON file.

    Raises:
        ValueError: it is cut short, nested too deep, or holds something else; it names the file.
    """
    try:
        text = read_file(path, RESULT_BYTES).decode("utf-8")
        value = json.loads(
            text, object_pairs_hook=_without_twins, parse_constant=_no_number, parse_float=_finite
        )
    except ValueError as error:
        raise ValueError(f"{path.name}: {error}") from None
    except RecursionError:  # there is no telling how deep it would have gone
        raise ValueError(f"{path.name}: nested too deep") from None
    if not isinstance(value, dict):
        raise ValueError(f"{path.name}: a {type(value).__name__} and no mapping")
    return value


def _without_twins(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    mapping = dict(pairs)
    if len(mapping) < len(pairs):
        names = [name for name, _ in pairs]
        twin = next(name for name in mapping if names.count(name) > 1)
        raise ValueError(f"{twin[:60]!a} twice in one mapping")
    return mapping


def _no_number(word: str) -> None:
    raise ValueError(f"{word}, which is no number")


def _finite(word: str) -> float:
    if math.isfinite(value := float(word)):
        return value
    raise ValueError(f"{word[:60]}, which is too large a number")
