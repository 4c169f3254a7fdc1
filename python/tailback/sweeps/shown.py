"""What is measured of each run of a sweep."""

from __future__ import annotations

import inspect
import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from tailback.errors import InputError, one_of
from tailback.measures import MEASURES
from tailback.recorded.run import Recorded
from tailback.summary import SECTIONS, section
from tailback.summary.figures import FIGURES, value_at

_UNITS = (("_bps", "bit/s"), ("_bytes", "B"), ("_s", "s"), ("share", "share"), ("packets", "count"))
_WHAT = "a measure, or a figure of summary.json such as fct.all.slowdown.p99"


class Shown(NamedTuple):
    """A measure with its parameters; or, with a dot in its name, a figure of the summary by its path."""

    label: str
    unit: str
    name: str
    params: tuple[tuple[str, Any], ...] = ()

    def of(self, result: Recorded) -> float:
        """Its value; NaN when it cannot be said of the run."""
        if self.name in MEASURES:
            return MEASURES[self.name](result, **dict(self.params))
        path = self.name.split(".")
        value = value_at({path[0]: section(result, path[0])}, path)
        return math.nan if value is None else value

    @property
    def path(self) -> list[str]:
        """Where it is in the summary; empty: it is a measure."""
        return [] if self.name in MEASURES else self.name.split(".")

    @property
    def asked(self) -> str | dict[str, Any]:
        """What `shown_of` gives this one for."""
        return {"measure": self.name, **dict(self.params)} if self.name in MEASURES else self.label


DEFAULT = tuple(Shown(one.name, one.unit, ".".join(one.path)) for one in FIGURES)
"""The main figures of a run."""
CUT_OFF = next(one for one in DEFAULT if one.name == "fct.cut_off")
"""Flows that the end of a run cut off: figures of completion are of the others."""


def shown_of(given: Sequence[str | Mapping[str, Any]]) -> list[Shown]:
    """Measures by their names (`goodput_of_ideal`), with parameters (`goodput_of_ideal:since=start`, or
    `{measure: goodput_of_ideal, since: start}`), or figures of the summary (`fct.all.slowdown.p99`).

    Raises:
        InputError: there is none of a name.
    """
    every = [_one(index, one) for index, one in enumerate(given)] or list(DEFAULT)
    labels = [one.label for one in every]
    for index, label in enumerate(labels):
        if label in labels[:index]:
            raise _refused(index, f"found {label} again, expected each once")
    return every


def _one(index: int, given: str | Mapping[str, Any]) -> Shown:
    if isinstance(given, str):
        name, *rest = given.split(":")
        params: dict[str, Any] = {}
        for part in rest:
            key, _, value = part.partition("=")
            params[key] = _plain(value)
    else:
        params = dict(given)
        name = str(params.pop("measure", ""))
    by_title = {one.label: one for one in DEFAULT}
    if name in by_title and not params:
        return by_title[name]
    if name in MEASURES:
        known = list(inspect.signature(MEASURES[name].function).parameters)[1:]
        for key in params:
            if key not in known:
                raise _refused(
                    index, f"found {key}, expected {one_of(key, known) if known else 'no parameter'}"
                )
        words = "".join(f" {key} {value}" for key, value in params.items())
        label = name.replace("_", " ") + words
        return Shown(label[0].upper() + label[1:], MEASURES[name].unit, name, tuple(params.items()))
    if "." in name and not params and name.partition(".")[0] not in SECTIONS:
        path = one_of(name.partition(".")[0], SECTIONS)
        raise _refused(index, f"found {name}, expected a figure of summary.json, which begins with {path}")
    if "." in name and not params:
        parts = reversed(name.split("."))  # of fct.all.fct_s.p50 the last but one has it
        unit = next((unit for part in parts for ending, unit in _UNITS if part.endswith(ending)), "index")
        return Shown(name, unit, name)
    likely = one_of(name, sorted(MEASURES)) if name else "a name"
    raise _refused(index, f"found {name or 'nothing'}, expected {_WHAT}: {likely}")


def _plain(text: str) -> Any:
    try:
        return float(text)
    except ValueError:
        return text


def _refused(index: int, text: str) -> InputError:
    return InputError.at("", text, ("measures", index))
