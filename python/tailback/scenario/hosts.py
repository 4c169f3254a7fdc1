"""Sets of hosts: a name, a range `h0..h15`, `all`, or a list of these."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler, ValidationInfo
from pydantic_core import PydanticCustomError, core_schema

from tailback.limits import MAX_HOSTS, MAX_NAMED_HOSTS

ALL_HOSTS = "all"
"""The word for every host of the network."""

NODE_NAME_PATTERN = r"[A-Za-z][A-Za-z0-9_-]{0,40}"
"""Name of a host or a switch."""
_ENTRY_PATTERN = re.compile(rf"({NODE_NAME_PATTERN})(?:\.\.({NODE_NAME_PATTERN}))?")
_EXPECTED_HOSTS = "a host such as h0, a range such as h0..h15, all, or a list of these"
_MAX_ENTRY_CHARS = 120
TOO_MANY_NAMED = f"at most {MAX_NAMED_HOSTS} hosts named in all"
"""Expected text of a problem where the sets of a scenario have more names."""


@dataclass
class Budget:
    """Context of a scenario's validation: how many more hosts its sets may name, and its own controllers."""

    left: int = MAX_NAMED_HOSTS
    controllers: tuple[str, ...] = ()


def _parts(name: str) -> tuple[list[str], list[str]]:
    """The words and the numbers of a name: `s0n3` has the words s and n and the numbers 0 and 3."""
    pieces = re.split(r"([0-9]+)", name)
    return pieces[::2], pieces[1::2]


def _spans(first: str, last: str) -> list[range] | None:
    """The values of each number in a range; None if the names differ in more than numbers."""
    (words, low), (others, high) = _parts(first), _parts(last)
    if words != others or any(len(a) > 6 or len(b) > 6 for a, b in zip(low, high, strict=True)):
        return None
    padded = [a[0] == "0" and len(a) > 1 for a in low]
    if any(wide and len(a) != len(b) for wide, a, b in zip(padded, low, high, strict=True)):
        return None
    return [range(int(a), int(b) + 1) for a, b in zip(low, high, strict=True)]


def split_entry(entry: str) -> tuple[str, str] | None:
    """First and last name of an entry (equal for a single name); None if it is not valid."""
    match = _ENTRY_PATTERN.fullmatch(entry) if len(entry) <= _MAX_ENTRY_CHARS else None
    return (match[1], match[2] or match[1]) if match else None


def expand(entry: str) -> Iterator[str]:
    """The names that an entry stands for, in order; the entry must be one that `HostSet` accepts.

    In a range every number goes from that of the first name to that of the last: `s0n0..s1n3` are the NICs 0
    to 3 of the servers 0 and 1, server by server.
    """
    ends = split_entry(entry)
    spans = _spans(*ends) if ends else None
    if ends is None or spans is None:
        raise ValueError(entry)
    words, digits = _parts(ends[0])
    widths = [len(a) if a[0] == "0" and len(a) > 1 else 1 for a in digits]
    for numbers in itertools.product(*spans):
        middle = [f"{number:0{width}d}" for number, width in zip(numbers, widths, strict=True)]
        yield "".join(piece for pair in itertools.zip_longest(words, middle, fillvalue="") for piece in pair)


def count_of(entry: str) -> int:
    """Number of names of an entry, without making them; it must be one that `HostSet` accepts."""
    ends = split_entry(entry)
    return math.prod(map(len, (ends and _spans(*ends)) or []))


def names(hosts: tuple[str, ...], every: list[str]) -> list[str]:
    """All hosts of a set, in the order of its entries; `every` are the hosts of the network."""
    return [name for entry in hosts for name in (every if entry == ALL_HOSTS else expand(entry))]


def check_entry(entry: object) -> str | None:
    """Expected text of a problem with an entry; None if the entry is valid."""
    ends = split_entry(entry) if isinstance(entry, str) else None
    if ends is None:
        return _EXPECTED_HOSTS
    spans = _spans(*ends)
    if spans is None:
        return "a range of two names that differ in their numbers only"
    if not all(spans):
        return "a range from the lower number to the higher"
    if math.prod(map(len, spans)) > MAX_HOSTS:
        return f"a range of at most {MAX_HOSTS} hosts"
    return None


class _Rule:
    """Validation of a `HostSet` field, for pydantic."""

    @staticmethod
    def _validate(value: Any, info: ValidationInfo) -> tuple[str, ...]:
        entries = value if isinstance(value, list) else [value]
        budget = info.context if isinstance(info.context, Budget) else Budget()
        seen: set[str] = set()
        total = 0
        for entry in entries:
            expected = check_entry(entry)
            if expected is None:
                count = count_of(entry)
                total += count
                budget.left -= count
                if total > MAX_HOSTS:
                    expected = f"at most {MAX_HOSTS} hosts"
                elif budget.left < 0:
                    expected = TOO_MANY_NAMED
            # A single range names no host twice.
            if expected is None and len(entries) > 1:
                found = set(expand(entry))
                if not seen.isdisjoint(found) or ALL_HOSTS in seen | found:
                    expected = "every host once"
                seen |= found
            if expected:
                raise PydanticCustomError(
                    "found_expected", "{expected}", {"expected": expected, "found": entry}
                )
        if not entries:
            raise PydanticCustomError("found_expected", "{expected}", {"expected": "at least one host"})
        return tuple(entries)

    @staticmethod
    def _serialize(value: tuple[str, ...]) -> str | list[str]:
        return value[0] if len(value) == 1 else list(value)

    def __get_pydantic_core_schema__(
        self, _source: Any, _handler: GetCoreSchemaHandler
    ) -> core_schema.CoreSchema:
        return core_schema.with_info_plain_validator_function(
            self._validate, serialization=core_schema.plain_serializer_function_ser_schema(self._serialize)
        )

    def __get_pydantic_json_schema__(
        self, _schema: core_schema.CoreSchema, _handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        entry = {"type": "string", "pattern": f"^{_ENTRY_PATTERN.pattern}$".replace("(?:", "(")}
        return {
            "anyOf": [entry, {"type": "array", "items": entry, "minItems": 1}],
            "examples": ["h16", "h0..h15", ["h0", "h4..h7"], ALL_HOSTS],
        }


HostSet = Annotated[tuple[str, ...], _Rule()]
"""A field that holds hosts as written; `names` expands it."""
