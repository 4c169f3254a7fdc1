"""Settings that are not known: what each may be, and all of them as numbers."""

from __future__ import annotations

import math
from functools import cached_property
from typing import Annotated, Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt
from pydantic import BeforeValidator, Discriminator, Field, Tag
from tailback import text
from tailback.errors import found
from tailback.files import StrictModel
from tailback.recorded.bins import Array
from tailback.study.points import Range, Value, as_text, vary_of
from tailback.units import DURATION

Whole = npt.NDArray[np.int64]

_MOST_VALUES = 20
"""Of a list: each value takes runs of its own, and more have hardly anything to do with each other."""


class Free(StrictModel):
    """A setting that is not known, and its prior: evenly from `low` to `high`, or so in its logarithm."""

    low: str | int | float
    high: str | int | float
    scale: Literal["linear", "log"] = "linear"
    means: str = ""
    """What it is in the lab."""

    @cached_property
    def varied(self) -> Range:
        """Its values, as a sweep has them."""
        return Range(low=self.low, high=self.high, scale=self.scale)

    @property
    def count(self) -> int:
        return 0

    def check(self) -> None:
        """ValueError when it is none."""
        self.varied.ends()

    @property
    def tried(self) -> list[str]:
        """Values that the scenario must take: both ends."""
        return [self.varied.at(0.0), self.varied.at(1.0)]

    @property
    def prior(self) -> str:
        return f"{self.words(0)} to {self.words(1)}, {self.scale}"

    @property
    def prior_data(self) -> dict[str, Any]:
        return {"low": as_text(self.low), "high": as_text(self.high), "scale": self.scale}

    def share_of(self, setting: str) -> float:
        """How far on the way a value is, as after `--set`."""
        return self.varied.share_of(setting)

    def value(self, share: float) -> float:
        """The value at a share of the way, in seconds, bytes, bit/s, Hz or as a number."""
        return self.varied.between(share) * (1e-12 if self.varied.kind is DURATION else 1.0)

    def words(self, share: float) -> str:
        """The same for a person."""
        return self.varied.words(self.varied.between(share))

    def setting(self, share: float) -> str:
        """The same as after --set, to four digits: what differs by less is the same run."""
        return self.varied.text(float(f"{self.varied.between(share):.4g}"))


class Listed(StrictModel):
    """A setting that is not known, and is one of a list, each as likely as any other before the fit."""

    values: list[Value] = Field(max_length=_MOST_VALUES)
    means: str = ""
    """What it is in the lab."""

    @property
    def varied(self) -> list[Value]:
        """Its values, as a sweep has them."""
        return self.values

    @property
    def count(self) -> int:
        return len(self.values)

    def check(self) -> None:
        """ValueError when it is none."""
        if self.count < 2:
            raise ValueError(f"found {text.plural(self.count, 'value')}, expected two or more, or a range")
        every = self.tried
        again = next((one for index, one in enumerate(every) if one in every[:index]), None)
        if again is not None:
            raise ValueError(f"found {again} again, expected each value once")

    @property
    def tried(self) -> list[str]:
        return [as_text(value) for value in self.values]

    @property
    def prior(self) -> str:
        return f"one of {', '.join(self.tried)}"

    @property
    def prior_data(self) -> dict[str, Any]:
        return {"values": self.tried}

    def share_of(self, setting: str) -> float:
        """The middle of its part of the way."""
        return (self.tried.index(setting) + 0.5) / self.count

    def setting(self, share: float) -> str:
        """The value at a share of the way, as after --set."""
        return self.tried[min(int(share * self.count), self.count - 1)]

    value = words = setting


def _of_words(given: Any) -> Any:
    """`1us..20us:log` or `true,false`, as after --free; or the values alone."""
    if isinstance(given, str):
        read = vary_of(given)
        if isinstance(read, dict) and read.pop("steps") is None:
            return read
        if isinstance(read, list) and len(read) > 1:
            return {"values": read}
    elif isinstance(given, list):
        return {"values": given}
    elif isinstance(given, dict):
        if "values" in given and not given.keys().isdisjoint({"low", "high", "scale"}):
            raise ValueError("found both values and a range, expected one of them")
        return given
    raise ValueError(f"found {found(given)}, expected LOW..HIGH, LOW..HIGH:log, or values such as true,false")


def _kind(given: Any) -> str:
    return "list" if isinstance(given, Listed) or (isinstance(given, dict) and "values" in given) else "range"


Prior = Annotated[
    Annotated[Free, Tag("range")] | Annotated[Listed, Tag("list")],
    Discriminator(_kind),
    BeforeValidator(_of_words),
]


class Axes(NamedTuple):
    """The free settings as numbers: each a share of the way from 0 to 1, of which every value of a list has an equal
    part. `counts`: how many values each may have; 0 for a range, where it may have any.
    """

    counts: tuple[int, ...]

    @property
    def listed(self) -> list[int]:
        """The settings that are one of a list."""
        return [index for index, count in enumerate(self.counts) if count]

    @property
    def combinations(self) -> int:
        """Of the values of all lists."""
        return math.prod(self.counts[index] for index in self.listed)

    @property
    def only_lists(self) -> bool:
        """Whether there are no other points than these combinations."""
        return len(self.listed) == len(self.counts)

    def values(self, unknown: int) -> Array:
        """The middle of the part of each value of a list."""
        count = self.counts[unknown]
        return (np.arange(count) + 0.5) / count

    def chosen(self, points: Array, unknown: int) -> Whole:
        """The number of the value that each point has."""
        count = self.counts[unknown]
        return np.minimum((points[:, unknown] * count).astype(np.int64), count - 1)

    def columns(self, points: Array) -> Array:
        """Points such that no value of a list is nearer to one than to another: a range stays what it is, a
        list becomes a column of 0 and 1 for each value, or one for two.
        """
        made = []
        for unknown, count in enumerate(self.counts):
            if not count:
                made.append(points[:, unknown])
                continue
            chosen = self.chosen(points, unknown)
            made += [(chosen == value).astype(float) for value in range(1 if count == 2 else 0, count)]
        return np.stack(made, axis=1)

    def alike(self, one: Array, other: Array) -> Array:
        """1 where the columns of two points have the same values of all lists, a row each of the one."""
        listed = [column for column, owner in enumerate(self.owners()) if self.counts[owner]]
        return np.asarray((one[:, None, listed] == other[None, :, listed]).all(axis=2), dtype=np.float64)

    def owners(self) -> list[int]:
        """Whose each of these columns is."""
        each = [1 if count in (0, 2) else count for count in self.counts]
        return [unknown for unknown, columns in enumerate(each) for _ in range(columns)]

    def degrees(self) -> int:
        """How many ways there are to go: a list of values has as many as it has values, less one."""
        return sum(max(1, count - 1) for count in self.counts)
