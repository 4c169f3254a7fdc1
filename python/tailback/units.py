"""Quantities with units: durations in picoseconds, sizes in bytes, rates in bit/s, frequencies in Hz, all as
exact integers.

`2s`, `67.108864ms`, `150KB`, `4MiB`, `100Gbps`, `2.4GHz`. The prefixes are those of the SI and of IEC
80000-13: KB is 10^3 B and KiB is 2^10 B; rates and frequencies have only powers of ten. There is no floating
point: a value that is not a whole number of the base unit, or does not fit the engine's 64-bit integers, is
refused.

`Duration`, `DataSize`, `DataRate` and `Frequency` are the types of model fields; `duration`, `size`, `rate`
and `frequency` turn text into integers and `format_duration`, `format_size` and `format_rate` turn them back.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from typing import Annotated, Any

from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic_core import PydanticCustomError, core_schema

I64_MAX = 2**63 - 1
"""Largest value of a quantity: the engine has signed 64-bit integers."""

_NUMBER_AND_UNIT = re.compile(r"([0-9]+)(?:\.([0-9]+))?[ ]?([A-Za-z\u00b5\u03bc]+(?:/s)?)")
_MAX_TEXT_CHARS = 64
_MAX_SHOWN_INTEGER = 10**30


def _shortened(value: object) -> str:
    """A value for a message: a column of a file may have values of any kind and length."""
    if isinstance(value, str) and len(value) > _MAX_TEXT_CHARS:
        return repr(f"{value[: _MAX_TEXT_CHARS - 3]}...")
    if isinstance(value, int) and abs(value) > _MAX_SHOWN_INTEGER:
        return "a number of more than 30 digits"
    words = repr(value)
    return words if len(words) <= 2 * _MAX_TEXT_CHARS else f"{words[:_MAX_TEXT_CHARS]}..."


class UnitError(ValueError):
    """A text is not the quantity that was expected; `expected` describes that."""

    def __init__(self, text: object, expected: str) -> None:
        super().__init__(f"found {_shortened(text)}, expected {expected}")
        self.expected = expected


@dataclass(frozen=True, eq=False)
class Quantity:
    """A kind of quantity: its units by name, in multiples of the base unit, smallest first.

    pydantic also uses it to validate a field (`Annotated[int, QUANTITY]`). `minimum` and `maximum` are in the base
    unit, inclusive. With `choices`, only these values are accepted; `words` are accepted in place of a quantity
    and kept as they are.
    """

    noun: str
    base: str
    units: dict[str, int]
    aliases: dict[str, str]
    examples: tuple[str, ...]
    minimum: int = 0
    maximum: int = I64_MAX
    words: tuple[str, ...] = ()
    choices: tuple[int, ...] = ()

    # Cached, so that pydantic makes one type for each range.
    @cache  # noqa: B019  quantities last as long as the process
    def between(self, minimum: str | None = None, maximum: str | None = None) -> Quantity:
        """The same quantity in a narrower range."""
        return replace(
            self,
            minimum=self.minimum if minimum is None else self.parse(minimum),
            maximum=self.maximum if maximum is None else self.parse(maximum),
        )

    def one_of(self, *choices: str) -> Quantity:
        """The same quantity, limited to these values."""
        return replace(self, choices=tuple(map(self.parse, choices)))

    def choices_in_words(self) -> list[str]:
        """The choices in the base unit, such as 1024B."""
        return [f"{choice}{next(iter(self.units))}" for choice in self.choices]

    def or_word(self, *words: str) -> Quantity:
        """The same quantity, or one of these words."""
        return replace(self, words=words)

    def parse(self, text: object) -> int:
        """Parses text to an integer in the base unit. Only 0 may come without a unit.

        Raises:
            UnitError: the text is not this quantity, a fraction of the base unit, or out of range.
        """
        value = self._exact(text)
        if not self.minimum <= value <= self.maximum:
            raise UnitError(text, self._range_in_words())
        if self.choices and value not in self.choices:
            raise UnitError(text, f"one of {', '.join(self.choices_in_words())}")
        return value

    def _exact(self, text: object) -> int:
        if type(text) is int and text == 0:
            return 0
        wanted = self._in_words()
        if not isinstance(text, str) or len(text) > _MAX_TEXT_CHARS:
            raise UnitError(text, wanted)
        if text == "0":
            return 0
        match = _NUMBER_AND_UNIT.fullmatch(text)
        if match is None and _NUMBER_AND_UNIT.fullmatch(text.removeprefix("-")):
            raise UnitError(text, self._range_in_words())
        if match is None:
            raise UnitError(text, wanted)
        whole, fraction, unit = match[1], match[2] or "", match[3]
        factor = self.units.get(self.aliases.get(unit, unit))
        if factor is None:
            raise UnitError(text, f"{wanted} (units: {', '.join(self.units)})")
        parts: int = 10 ** len(fraction)
        value, rest = divmod(int(whole + fraction) * factor, parts)
        if rest:
            raise UnitError(text, f"a whole number of {self.base}")
        if value > I64_MAX:
            raise UnitError(text, f"at most {self.format(I64_MAX)}")
        return value

    def format(self, value: int) -> str:
        """The text with the fewest digits that `parse` turns into exactly `value`, in the largest such unit of
        which it is at least 1: 67.108864ms, 1.5MB, 100ms.
        """
        candidates = [
            (sum(map(str.isdigit, text)), -factor if value else len(text), text)
            for name, factor in self.units.items()
            if (text := _decimal(value, factor, name)) is not None
        ]
        return min(candidates)[2]

    def _in_words(self) -> str:
        text = f"a {self.noun} with a unit, such as {self.examples[0]}"
        return f"{text}, or {' or '.join(self.words)}" if self.words else text

    def _range_in_words(self) -> str:
        low, high = self.format(self.minimum), self.format(self.maximum)
        if self.maximum == I64_MAX:
            return "more than 0" if self.minimum == 1 else f"at least {low}"
        return f"more than 0 and at most {high}" if self.minimum <= 1 else f"{low} to {high}"

    def _validate(self, value: Any) -> int | str:
        if isinstance(value, str) and value in self.words:
            return value
        try:
            return self.parse(value)
        except UnitError as error:
            raise PydanticCustomError("found_expected", "{expected}", {"expected": error.expected}) from None

    def _serialize(self, value: int | str) -> str:
        return value if isinstance(value, str) else self.format(value)

    def __get_pydantic_core_schema__(
        self, _source: Any, _handler: GetCoreSchemaHandler
    ) -> core_schema.CoreSchema:
        return core_schema.no_info_plain_validator_function(
            self._validate, serialization=core_schema.plain_serializer_function_ser_schema(self._serialize)
        )

    def __get_pydantic_json_schema__(
        self, _schema: core_schema.CoreSchema, _handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        names = "|".join([*reversed(self.units), *self.aliases])
        number = rf"[0-9]+(\.[0-9]+)? ?({names})|0"
        return {
            "type": "string" if self.minimum > 0 else ["string", "integer"],
            "pattern": "^(" + "|".join([number, *self.words]) + ")$",
            # Numbers without a unit: only 0. Both keywords do not apply to strings.
            **({} if self.minimum > 0 else {"minimum": 0, "maximum": 0}),
            "examples": [*self.examples, *self.words],
        }


def _decimal(value: int, factor: int, unit: str) -> str | None:
    """`value` / `factor` as an exact decimal number with the unit; None below 1."""
    whole, rest = divmod(value, factor)
    if whole == 0 and rest:
        return None
    # A factor of 10^n or 2^n ends after at most n digits; both are below 2^63.
    digits = ""
    while rest:
        digit, rest = divmod(rest * 10, factor)
        digits += str(digit)
    return f"{whole}.{digits}{unit}" if digits else f"{whole}{unit}"


DURATION = Quantity(
    noun="duration",
    base="picoseconds",
    units={"ps": 1, "ns": 10**3, "us": 10**6, "ms": 10**9, "s": 10**12},
    aliases={"\u00b5s": "us", "\u03bcs": "us"},
    examples=("500ns", "2s", "67.108864ms"),
)
SIZE = Quantity(
    noun="size",
    base="bytes",
    units={
        "B": 1,
        "KB": 10**3,
        "KiB": 2**10,
        "MB": 10**6,
        "MiB": 2**20,
        "GB": 10**9,
        "GiB": 2**30,
        "TB": 10**12,
        "TiB": 2**40,
    },
    aliases={"kB": "KB"},
    examples=("150KB", "4MiB", "1024B"),
)
RATE = Quantity(
    noun="rate",
    base="bit/s",
    units={"bps": 1, "Kbps": 10**3, "Mbps": 10**6, "Gbps": 10**9, "Tbps": 10**12},
    # Spellings of ethtool, switches and papers: 400G, 400gbps, 400 Gbit/s, 400Gbit (tc), 400Gb/s.
    aliases={
        f"{written}{ending}": f"{prefix}bps"
        for prefix in "KMGT"
        for written in (prefix, prefix.lower())
        for ending in ("bps", "bit/s", "b/s", "bit", *([""] if written.isupper() else []))
        if (written, ending) != (prefix, "bps")
    },
    examples=("100Gbps", "400Gbps"),
)
FREQUENCY = Quantity(
    noun="frequency",
    base="Hz",
    units={"Hz": 1, "kHz": 10**3, "MHz": 10**6, "GHz": 10**9},
    aliases={},
    examples=("2.4GHz", "3GHz"),
)

Duration = Annotated[int, DURATION]
"""A field that holds picoseconds."""
DataSize = Annotated[int, SIZE]
"""A field that holds bytes."""
DataRate = Annotated[int, RATE]
"""A field that holds bit/s."""
Frequency = Annotated[int, FREQUENCY]
"""A field that holds Hz."""

duration: Callable[[object], int] = DURATION.parse
"""Text such as `500ns` to picoseconds. Raises `UnitError`."""
size: Callable[[object], int] = SIZE.parse
"""Text such as `150KB` to bytes. Raises `UnitError`."""
rate: Callable[[object], int] = RATE.parse
"""Text such as `100Gbps` to bit/s. Raises `UnitError`."""
frequency: Callable[[object], int] = FREQUENCY.parse
"""Text such as `2.4GHz` to Hz. Raises `UnitError`."""
format_duration: Callable[[int], str] = DURATION.format
"""Picoseconds to exact text, such as 67.108864ms."""
format_size: Callable[[int], str] = SIZE.format
"""Bytes to exact text, such as 1.5MB."""
format_rate: Callable[[int], str] = RATE.format
"""Bit/s to exact text, such as 100Gbps."""
