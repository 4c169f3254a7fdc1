"""A setting that is not known, and what it may be."""

from __future__ import annotations

from functools import cached_property
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Discriminator, Field, Tag

from tailback import text
from tailback.errors import found
from tailback.files import StrictModel
from tailback.sweeps.design import Value
from tailback.sweeps.points import Range, as_text, vary_of
from tailback.units import DURATION

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
        """Of its values, if it is a list."""
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
        """For a person."""
        return f"{self.words(0)} to {self.words(1)}, {self.scale}"

    @property
    def prior_data(self) -> dict[str, Any]:
        """For programs."""
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
        """Of its values."""
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
        """Values that the scenario must take: all."""
        return [as_text(value) for value in self.values]

    @property
    def prior(self) -> str:
        """For a person."""
        return f"one of {', '.join(self.tried)}"

    @property
    def prior_data(self) -> dict[str, Any]:
        """For programs."""
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
