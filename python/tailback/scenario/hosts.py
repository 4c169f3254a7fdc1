"""Sets of hosts as they are written in `from` and `to`: a name, a range `h0..h15`, or a list of these."""

from __future__ import annotations

import re
from typing import Annotated, Any

from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic_core import PydanticCustomError, core_schema

MAX_HOSTS = 1024
"""Most hosts of a star; a switch with more ports does not exist."""

_ENTRY = re.compile(r"h(0|[1-9][0-9]{0,5})(?:\.\.h(0|[1-9][0-9]{0,5}))?")
_EXPECTED = "a host such as h0, a range such as h0..h15, or a list of these"


def indices(entry: str) -> range:
    """The host numbers that an entry stands for; the entry must be one that `HostSet` accepts."""
    match = _ENTRY.fullmatch(entry)
    if match is None:
        raise ValueError(entry)
    first = int(match[1])
    return range(first, int(match[2] or first) + 1)


def names(hosts: tuple[str, ...]) -> list[str]:
    """All hosts of a set, in the order in which they are written."""
    return [f"h{index}" for entry in hosts for index in indices(entry)]


class _Rule:
    """The rules of a `HostSet` field, for pydantic."""

    @staticmethod
    def _validate(value: Any) -> tuple[str, ...]:
        entries = value if isinstance(value, list) else [value]
        seen: set[int] = set()
        for entry in entries:
            if not isinstance(entry, str) or not _ENTRY.fullmatch(entry):
                raise PydanticCustomError(
                    "found_expected", "{expected}", {"expected": _EXPECTED, "found": entry}
                )
            numbers = indices(entry)
            expected = None
            if not numbers:
                expected = "a range from the lower number to the higher"
            elif numbers[-1] >= MAX_HOSTS:
                expected = f"hosts up to h{MAX_HOSTS - 1}"
            elif not seen.isdisjoint(numbers):
                expected = "every host once"
            if expected:
                raise PydanticCustomError(
                    "found_expected", "{expected}", {"expected": expected, "found": entry}
                )
            seen.update(numbers)
        if not entries:
            raise PydanticCustomError("found_expected", "{expected}", {"expected": "at least one host"})
        return tuple(entries)

    @staticmethod
    def _serialize(value: tuple[str, ...]) -> str | list[str]:
        return value[0] if len(value) == 1 else list(value)

    def __get_pydantic_core_schema__(
        self, _source: Any, _handler: GetCoreSchemaHandler
    ) -> core_schema.CoreSchema:
        return core_schema.no_info_plain_validator_function(
            self._validate, serialization=core_schema.plain_serializer_function_ser_schema(self._serialize)
        )

    def __get_pydantic_json_schema__(
        self, _schema: core_schema.CoreSchema, _handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        entry = {"type": "string", "pattern": f"^{_ENTRY.pattern}$".replace("(?:", "(")}
        return {
            "anyOf": [entry, {"type": "array", "items": entry, "minItems": 1}],
            "examples": ["h16", "h0..h15", ["h0", "h4..h7"]],
        }


HostSet = Annotated[tuple[str, ...], _Rule()]
"""A field that holds hosts as written; `names` expands it."""
