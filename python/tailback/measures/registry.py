"""What a measure is, and the table of all of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from tailback.recorded.run import Recorded

NAN = float("nan")


class Measure(NamedTuple):
    """A named measure: `unit` is 'share', 's', 'bit/s', 'B/s', 'B', 'MiB/s', 'count' or 'index'."""

    name: str
    unit: str
    function: Callable[..., float]

    @property
    def about(self) -> str:
        """The definition in one line."""
        return (self.function.__doc__ or "").strip().splitlines()[0]

    def __call__(self, result: Recorded, **params: Any) -> float:
        """Measure a result."""
        return float(self.function(result, **params))


MEASURES: dict[str, Measure] = {}


def measure(unit: str) -> Callable[[Callable[..., float]], Callable[..., float]]:
    """Register a function under its own name."""

    def register(function: Callable[..., float]) -> Callable[..., float]:
        MEASURES[function.__name__] = Measure(function.__name__, unit, function)
        return function

    return register
