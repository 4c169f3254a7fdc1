"""Points of a study: every combination of values, or a sample of them, as far as conditions allow."""

from __future__ import annotations

import itertools
import json
import math
import operator
import re
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from pydantic import Field
from tailback import text as words
from tailback.errors import InputError
from tailback.files import StrictModel
from tailback.limits import MAX_SEEDS, MAX_SWEEP_RUNS
from tailback.units import DURATION, FREQUENCY, RATE, SIZE, Quantity, UnitError

Scalar = str | int | float | bool | None
Value = Scalar | list[Any] | dict[str, Any]
"""Of a setting, as a file has it."""
Point = dict[str, str]
"""Paths of settings, and their values as after `--set`."""

_KINDS = (SIZE, RATE, DURATION, FREQUENCY)
COMPARED = {
    "<=": operator.le,
    ">=": operator.ge,
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    ">": operator.gt,
}


class Range(StrictModel):
    """Values from `low` to `high`, both included: quantities of one unit's kind, or numbers.

    `steps` of them in a combination; a sample draws between them.
    """

    low: str | int | float
    high: str | int | float
    scale: Literal["linear", "log"] = "linear"
    steps: int | None = Field(default=None, ge=2, le=1000)

    def at(self, share: float) -> str:
        """The value at a share of the way, 0 to 1. ValueError when there is none such."""
        low, high = self.ends()
        if self.scale == "log":
            value = math.exp(math.log(low) + share * (math.log(high) - math.log(low)))
        else:
            value = low + share * (high - low)
        return self.text(value)

    def ends(self) -> tuple[float, float]:
        """`low` and `high` in base units. ValueError when they are no range."""
        return self._ends()[1:]

    @property
    def kind(self) -> Quantity | None:
        """Of what it is a range; None of numbers."""
        return self._ends()[0]

    def share_of(self, text: str) -> float:
        """How far on the way a value is, as after `--set`: what `at` gives that value for."""
        low, high = self.ends()
        value = float(number_of(text))
        if self.scale == "log":
            value, low, high = math.log(value), math.log(low), math.log(high)
        return (value - low) / (high - low)

    def between(self, share: float) -> float:
        """The value at a share of the way, in base units."""
        low, high = self.ends()
        return low * (high / low) ** share if self.scale == "log" else low + share * (high - low)

    def words(self, value: float) -> str:
        """A value in base units for a person."""
        kind, low, high = self._ends()
        if kind is DURATION:
            return words.duration(value * 1e-12)
        if kind is SIZE:
            return words.size(value)
        if kind is RATE:
            return words.rate(value)
        whole = kind is not None or (isinstance(low, int) and isinstance(high, int))
        return self.text(float(f"{value:.4g}")) if whole else words.significant(value)

    def text(self, value: float) -> str:
        """A value in base units as after `--set`; the nearest within the range."""
        kind, low, high = self._ends()
        value = min(max(value, low), high)
        if kind is not None:
            return kind.format(round(value))
        return str(round(value)) if isinstance(low, int) and isinstance(high, int) else f"{value:.6g}"

    def _ends(self) -> tuple[Quantity | None, float, float]:
        ends = (self.low, self.high)
        kind, (low, high) = None, (_number(end) for end in ends)
        if isinstance(low, str) or isinstance(high, str):
            kind = next((kind for kind in _KINDS if all(_parses(kind, end) for end in ends)), None)
            if kind is None:
                raise ValueError(f"found {self.low} and {self.high}, expected two of the same unit")
            low, high = kind.parse(self.low), kind.parse(self.high)
        if not low < high:
            raise ValueError(f"found {self.low} to {self.high}, expected low below high")
        if self.scale == "log" and low <= 0:
            raise ValueError(f"found {self.low}, expected more than 0 for a log scale")
        return kind, low, high


class Sample(StrictModel):
    """Points that are drawn: independently, or as a Latin hypercube, which covers each setting evenly (McKay,
    Beckman, Conover, Technometrics 21, 1979). The same `seed` draws the same points.
    """

    points: int = Field(ge=1, le=100_000)
    method: Literal["latin-hypercube", "random"] = "latin-hypercube"
    seed: int = Field(default=1, ge=0)


def as_text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def sets_of(settings: Mapping[str, Any]) -> list[str]:
    return [f"{setting}={as_text(value)}" for setting, value in settings.items()]


def vary_of(text: str) -> list[str] | dict[str, Any]:
    """The values of `100KB,200KB` or `[3],[3,4]`; or the range of `1KB..1MB`, with steps `:5` or `:5:log`."""
    ends = re.fullmatch(r"([^,\[\]:]+?)\.\.([^,\[\]:]+?)(?::(\d{1,4}))?(?::(log|linear))?", text)
    if ends is not None:
        low, high = (_plain(ends[part]) for part in (1, 2))
        scale, steps = ends[4] or "linear", int(ends[3]) if ends[3] else None
        return {"low": low, "high": high, "scale": scale, "steps": steps}
    # A comma within brackets is of the value.
    return [part.strip() for part in re.split(r",(?![^\[{]*[\]}])", text)] if text.strip() else []


def _plain(text: str) -> str | int | float:
    number = _number(text)
    return int(number) if not isinstance(number, str) and re.fullmatch(r"-?\d+", text.strip()) else number


def in_words(point: Mapping[str, str]) -> str:
    """'switch.ecn.k_max=100KB, traffic.0.qps=4'."""
    return ", ".join(sets_of(point)) or "as it is"


def combine(
    vary: Mapping[str, Sequence[Any] | Range], points: Sequence[Mapping[str, Any]], sample: Sample | None
) -> list[Point]:
    """What `points` and `vary` stand for together, before any condition.

    Raises:
        InputError: an empty list, a range that is none, or too many.
    """
    for setting, values in vary.items():
        try:
            if isinstance(values, Range):
                values.at(0.5)
                if sample is None and values.steps is None:
                    raise ValueError("found a range without steps, expected steps, or sample")
            elif not values:
                raise ValueError("found an empty list, expected at least one value")
        except ValueError as error:
            raise InputError.at("", str(error), ("vary", setting)) from None
    if sample is not None and not vary:
        raise InputError.at("", "found nothing to sample, expected vary", ("sample",))
    given = [{setting: as_text(value) for setting, value in point.items()} for point in points] or [{}]
    varied = _grid(vary, len(given)) if sample is None else _sampled(vary, sample)
    return list(
        {tuple(point.items()): point for point in ({**a, **b} for a in given for b in varied)}.values()
    )


def _grid(vary: Mapping[str, Sequence[Any] | Range], times: int) -> list[Point]:
    lists = []
    for values in vary.values():
        if isinstance(values, Range):
            steps = values.steps or 2
            lists.append([values.at(step / (steps - 1)) for step in range(steps)])
        else:
            lists.append([as_text(value) for value in values])
    count = times * math.prod(map(len, lists))
    if count > MAX_SWEEP_RUNS:
        text = f"found {count:,} points, expected at most {MAX_SWEEP_RUNS:,} runs"
        raise InputError.at("", text, ("vary",))
    return [dict(zip(vary, values, strict=True)) for values in itertools.product(*lists)]


def _sampled(vary: Mapping[str, Sequence[Any] | Range], sample: Sample) -> list[Point]:
    import numpy as np
    from scipy.stats import qmc  # takes half a second to load

    if sample.method == "random":
        shares = np.random.default_rng(sample.seed).random((sample.points, len(vary)))
    else:
        shares = qmc.LatinHypercube(len(vary), rng=np.random.default_rng(sample.seed)).random(sample.points)
    drawn = []
    for row in shares.tolist():
        values = [
            one.at(share) if isinstance(one, Range) else as_text(one[int(share * len(one))])
            for one, share in zip(vary.values(), row, strict=True)
        ]
        drawn.append(dict(zip(vary, values, strict=True)))
    return drawn


def kept(points: Sequence[Point], where: Sequence[str], others: Mapping[str, Any]) -> list[Point]:
    """The points that meet all conditions, such as `switch.ecn.k_min <= switch.ecn.k_max`.

    Raises:
        InputError: a condition that is none, or names what is not set.
    """
    base = {setting: as_text(value) for setting, value in others.items()}
    return [
        point
        for point in points
        if all(_holds(text, number, {**base, **point}) for number, text in enumerate(where))
    ]


def _holds(text: str, number: int, settings: Point) -> bool:
    match = re.fullmatch(r"\s*(\S+)\s*(<=|>=|==|!=|<|>)\s*(\S.*?)\s*", text)
    if match is None:
        expected = "two settings or values with <, <=, >, >=, == or != between them"
        raise InputError.at("", f'found "{text[:60]}", expected {expected}', ("where", number))
    left, right = (_side(match[side], number, settings) for side in (1, 3))
    if isinstance(left, str) != isinstance(right, str) or (
        isinstance(left, str) and match[2] not in ("==", "!=")
    ):
        expected = "two numbers or quantities to compare"
        raise InputError.at("", f'found "{text[:60]}", expected {expected}', ("where", number))
    return bool(COMPARED[match[2]](left, right))


def _side(word: str, number: int, settings: Point) -> float | str:
    if word in settings:
        return number_of(settings[word])
    if "." in word and not isinstance(number_of(word), str):
        return number_of(word)
    if re.fullmatch(r"[a-z_]+(\.\w+)+", word):
        expected = f"a setting that is varied or set: {', '.join(settings) or 'there is none'}"
        raise InputError.at("", f"found {word}, expected {expected}", ("where", number))
    return number_of(word)


def number_of(text: str) -> float | str:
    """A value in base units, so that values can be compared; the text itself where it is neither number nor
    quantity.
    """
    number = _number(text)
    if not isinstance(number, str):
        return number
    return next((kind.parse(text) for kind in _KINDS if _parses(kind, text)), text)


def _number(value: str | int | float) -> float | str:
    if not isinstance(value, str):
        return value
    try:
        number = float(value)
    except ValueError:
        return value
    return number if math.isfinite(number) else value


def _parses(kind: Quantity, text: object) -> bool:
    try:
        kind.parse(text)
    except UnitError:
        return False
    return True


def parse_seeds(given: str) -> list[int]:
    """Parses seeds: `1..4` (or `1-4`), `1,5,9`, or a mixture.

    Raises:
        InputError: these are no seeds, one stands twice, or there are too many.
    """
    seeds: list[int] = []
    for part in given.split(","):
        match = re.fullmatch(r"([0-9]{1,18})(?:(?:\.\.|-)([0-9]{1,18}))?", part.strip())
        first, last = (int(match[1]), int(match[2] or match[1])) if match else (1, 0)
        if last < first:
            raise _refused(given, "seeds such as 1..4 or 1,5,9")
        if last - first + len(seeds) >= MAX_SEEDS:
            raise _refused(given, f"at most {MAX_SEEDS} seeds")
        seeds += range(first, last + 1)
    if len(set(seeds)) < len(seeds):
        raise _refused(given, f"every seed once, and at most {MAX_SEEDS}")
    return seeds


def _refused(given: str, expected: str) -> InputError:
    return InputError.at("--seeds", f'found "{given[:60]}", expected {expected}')
