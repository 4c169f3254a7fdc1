"""Reads and writes JSON with a line for each outer entry: readable, and fast for large data."""

from __future__ import annotations

import json
import math
from collections import Counter
from pathlib import Path
from typing import Any

from tailback.files import read_file
from tailback.limits import RESULT_BYTES
from tailback.rows import Rows


def _one_line(value: Any) -> str:
    return json.JSONEncoder(sort_keys=True, allow_nan=False, default=list).encode(value)


def in_lines(value: Any, levels: int = 3) -> str:
    """`value` as JSON with sorted keys, a line for each entry of the outer `levels`, and a final newline.

    The indentation of the standard library is many times slower, and large fabrics have many entries.

    Raises:
        ValueError: a number is infinite or NaN.
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
    if levels == 1 and (text := _encoded_at_once(value, indent, inner)):
        return text
    if isinstance(value, dict):
        entries = [f"{_one_line(key)}: {_lines(value[key], levels - 1, inner)}" for key in sorted(value)]
    else:
        entries = [_lines(entry, levels - 1, inner) for entry in value]
    opening, closing = "{}" if isinstance(value, dict) else "[]"
    return f"{opening}\n{inner}" + f",\n{inner}".join(entries) + f"\n{indent}{closing}"


def _encoded_at_once(value: Any, indent: str, inner: str) -> str:
    """Encodes all entries with one call, if they are all mappings, all lists or all scalars; else returns "".

    Each call of the encoder takes as long as several values. The text is split into lines at the separator of
    entries; if it occurs more often than there are gaps between entries, some entry contains it, and the text
    cannot be split.
    """
    kinds = {type(entry) for entry in (value.values() if isinstance(value, dict) else value)}
    between = "}, " if kinds == {dict} else "], " if kinds == {list} else ", "
    text = _one_line(value)
    if text.count(between) != len(value) - 1:
        return ""
    opening, closing = text[0], text[-1]
    # The text may be most of a large file: at most two copies are in memory.
    text = text[1:-1]
    text = text.replace(between, f"{between[:-1]}\n{inner}")
    return f"{opening}\n{inner}{text}\n{indent}{closing}"


def number(value: float) -> float | None:
    """`value`, or None if it is infinite or NaN, which JSON cannot express."""
    return value if math.isfinite(value) else None


class Repeating(dict[str, Any]):
    """A mapping of a file that has some keys more than once; the last value of each counts."""

    def __init__(self, pairs: list[tuple[str, Any]]) -> None:
        super().__init__(pairs)
        count = Counter(name for name, _ in pairs)
        self.repeated = [name for name, times in count.items() if times > 1]


def _maybe_repeating(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    mapping = dict(pairs)
    return mapping if len(mapping) == len(pairs) else Repeating(pairs)


def read_json(path: Path, *, repeating: bool = False) -> dict[str, Any]:
    """Reads a mapping from a JSON file. With `repeating`, a mapping with a key twice is a `Repeating`.

    Raises:
        ValueError: the file is truncated, nested too deep, has a key twice in a mapping, or is not a mapping; the
            message names it.
    """
    try:
        text = read_file(path, RESULT_BYTES).decode("utf-8-sig")
        hook = _maybe_repeating if repeating else _without_duplicates
        value = json.loads(text, object_pairs_hook=hook, parse_constant=_refuse_constant, parse_float=_finite)
    except ValueError as error:
        raise ValueError(f"{path.name}: {error}") from None
    except RecursionError:
        raise ValueError(f"{path.name}: nested too deep") from None
    if not isinstance(value, dict):
        raise ValueError(f"{path.name}: a {type(value).__name__} and no mapping")
    return value


def _without_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    mapping = dict(pairs)
    if len(mapping) < len(pairs):
        names = [name for name, _ in pairs]
        duplicate = next(name for name in mapping if names.count(name) > 1)
        raise ValueError(f"{duplicate[:60]!a} twice in one mapping")
    return mapping


def _refuse_constant(word: str) -> None:
    raise ValueError(f"{word}, which is no number")


def _finite(word: str) -> float:
    if math.isfinite(value := float(word)):
        return value
    raise ValueError(f"{word[:60]}, which is too large a number")
