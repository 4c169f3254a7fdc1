"""Metrics and the table of all: each is declared once, beside the code that computes it.

`@metric` declares a number: its unit, where it stands in summary.json, and, for a main metric, its title. What is
no number, and sections whose values belong together, are declared with `@part`. From these declarations come
summary.json (`summarise`), the main metrics of tables of several runs, and the names that `--metric`, tuning,
fitting and claims of experiments take (`named`).
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, TypeVar

from tailback import text
from tailback.errors import InputError, found, one_of
from tailback.files.json import number
from tailback.recorded.run import Recorded, cached_by_result

NAN = float("nan")


@dataclass(frozen=True)
class Metric:
    """A figure of a run: a function with parameters, or a place in summary.json."""

    name: str
    """Of its function, such as `total_goodput`, or its place in summary.json, such as `goodput.total_bps`."""
    unit: str
    """share, s, bit/s, B/s, B, MiB/s, count or index."""
    label: str
    """Its name in tables."""
    params: tuple[tuple[str, Any], ...] = ()
    path: tuple[str, ...] = ()
    """Its place in summary.json; empty for a function."""
    about: str = field(default="", compare=False, repr=False)
    """The definition in one line."""
    main: bool = field(default=False, compare=False, repr=False)
    """True if tables of several runs show it without being asked."""
    says: str = field(default="", compare=False, repr=False)
    """Text of its finding, after the value. Other findings are made by `tailback.metrics.finding`."""
    function: Callable[..., float] | None = field(default=None, compare=False, repr=False)

    @property
    def parameters(self) -> list[str]:
        """The names of the parameters that may be given; none of a place in summary.json."""
        return (
            []
            if self.path or self.function is None
            else list(inspect.signature(self.function).parameters)[1:]
        )

    @property
    def required(self) -> list[str]:
        """The names of the parameters that must be given."""
        if self.path or self.function is None:
            return []
        every = list(inspect.signature(self.function).parameters.values())[1:]
        return [one.name for one in every if one.default is inspect.Parameter.empty]

    def unknown_in(self, items: Collection[str], hosts: Collection[str]) -> str | None:
        """The parameter that names no traffic item or host of the run, as a message; None if all exist."""
        for key, known in (("item", items), ("host", hosts)):
            value = dict(self.params).get(key)
            if value is not None and value not in known:
                return f"found {found(value)} for {key} of {self.name}, expected {one_of(value, known)}"
        return None

    @property
    def asked(self) -> str | dict[str, Any]:
        """The argument of `named` that gives this metric."""
        return self.label if self.path else {"metric": self.name, **dict(self.params)}

    def __call__(self, result: Recorded, **params: Any) -> float:
        """Its value; NaN when it cannot be said of the run."""
        if self.path and params:
            raise TypeError(f"{self.name} takes no parameters, and was given {', '.join(params)}")
        if self.path or self.function is None:
            value = value_at({self.path[0]: section(result, self.path[0])}, self.path)
            return NAN if value is None else value
        return float(self.function(result, **{**dict(self.params), **params}))

    def in_words(self, value: float) -> str:
        return in_words(value, self.unit)

    def __reduce__(self) -> tuple[Any, ...]:
        """Other processes find the function by its name."""
        return _again, (self.name, self.unit, self.label, self.params, self.path)


def _again(
    name: str, unit: str, label: str, params: tuple[tuple[str, Any], ...], path: tuple[str, ...]
) -> Metric:
    known = METRICS.get(name, Metric(name, unit, label))
    return replace(known, unit=unit, label=label, params=params, path=path)


METRICS: dict[str, Metric] = {}
"""All metrics by name."""
SECTIONS: dict[str, Section] = {}
"""The keys of summary.json that come from metrics."""

Function = TypeVar("Function", bound=Callable[..., Any])
Applies = Callable[[Recorded], bool]


@dataclass
class Section:
    """A key of summary.json, and what it is made of."""

    applies: Applies | None = None
    """True if a run has it."""
    left_out: bool = False
    """True if it is left out of other runs, rather than null."""
    parts: dict[tuple[str, ...], Callable[[Recorded], Any]] = field(default_factory=dict)

    def of(self, result: Recorded) -> Any:
        if self.applies is not None and not self.applies(result):
            return None
        whole = self.parts.get(())
        made = {} if whole is None else whole(result)
        if made is None:
            return None
        for path, part in self.parts.items():
            if path:
                inside = made
                for key in path[:-1]:
                    inside = inside.setdefault(key, {})
                inside[path[-1]] = part(result)
        return made


def in_section(name: str, *, applies: Applies, left_out: bool = False) -> None:
    """Declares which runs have a section; in others it is null, or left out."""
    found = SECTIONS.setdefault(name, Section())
    found.applies, found.left_out = applies, left_out


def part(path: str) -> Callable[[Function], Function]:
    """Declares what stands at a place of summary.json and is no number: a text, a list, a whole section."""

    def register(function: Function) -> Function:
        _add(path, function)
        return function

    return register


def metric(
    unit: str, at: str = "", *, title: str = "", says: str = "", whole: bool = False, **params: Any
) -> Callable[[Function], Function]:
    """Declares a metric: a function of a run and keyword parameters that gives a number; NaN when it cannot be
    said of this run.

    Args:
        unit: share, s, bit/s, B/s, B, MiB/s, count or index.
        at: Its place in summary.json.
        title: Of a main metric: what tables of several runs call it.
        says: Its finding: what stands behind its value in a sentence, such as "of all packets were late."
        whole: Whether it stands in summary.json as a whole number.
        params: With which parameters it is computed for summary.json.
    """

    def register(function: Function) -> Function:
        name = getattr(function, "__name__", "")
        words = name.replace("_", " ")
        METRICS[name] = Metric(
            name, unit, words[:1].upper() + words[1:], about=_first_line(function), function=function
        )
        if at:
            metric_at(at, unit, function, title=title, says=says, whole=whole, **params)
        return function

    return register


def metric_at(
    path: str,
    unit: str,
    function: Callable[..., float] | None = None,
    *,
    about: str = "",
    title: str = "",
    says: str = "",
    whole: bool = False,
    **params: Any,
) -> Metric:
    """Declares a number at a place of summary.json: of a function with parameters, or, without one, of a `part`."""

    def value(result: Recorded) -> float | None:
        found = number(float(function(result, **params))) if function is not None else None
        return int(found) if whole and found is not None else found

    if function is not None:
        _add(path, value)
    METRICS[path] = declared = Metric(
        path,
        unit,
        title or path,
        path=tuple(path.split(".")),
        about=about or _first_line(function),
        main=bool(title),
        says=says,
        function=function,
    )
    return declared


def _first_line(function: Callable[..., float] | None) -> str:
    return (inspect.getdoc(function) or "").partition("\n")[0]


def _add(path: str, function: Callable[[Recorded], Any]) -> None:
    name, _, rest = path.partition(".")
    SECTIONS.setdefault(name, Section()).parts[tuple(rest.split(".")) if rest else ()] = function


# summary.json


@cached_by_result
def summarise(result: Recorded) -> dict[str, Any]:
    """All metrics of a run that have a place in summary.json; rates in bit/s, sizes in bytes, times in seconds."""
    every = {name: section(result, name) for name in SECTIONS}
    return {name: value for name, value in every.items() if value is not None or not SECTIONS[name].left_out}


@cached_by_result
def section(result: Recorded, name: str) -> Any:
    """A section of the summary alone, without working out the others; None where there is none such."""
    return SECTIONS[name].of(result) if name in SECTIONS else None


def value_at(summary: Mapping[str, Any], path: Sequence[str]) -> float | None:
    """A figure of a summary; None when that has none there. A number in the path is a place in a list."""
    value: Any = summary
    for key in path:
        if isinstance(value, Mapping):
            value = value.get(key)
        elif isinstance(value, list) and key.isdecimal():
            value = value[int(key)] if int(key) < len(value) else None
        else:
            value = None
    return float(value) if isinstance(value, (int, float)) else None


def never(summary: Mapping[str, Any], path: Sequence[str]) -> str | None:
    """Why no run with a summary of this form can have a figure at `path`; None if one can.

    What is null or an empty list may still become something in another run.
    """
    value: Any = summary
    for depth, key in enumerate(path):
        where = ".".join(path[:depth]) or "summary.json"
        if isinstance(value, Mapping):
            if key not in value:
                names = f"one of {', '.join(value)}" if value else "nothing"
                return f"{where} has no {key}: it has {names}"
            value = value[key]
        elif isinstance(value, list):
            if not key.isdecimal():
                return f"{where} is a list, which has places such as {where}.0 and no {key}"
            if not value:
                return None
            value = value[min(int(key), len(value) - 1)]
        elif value is None:
            return None
        else:
            return f"{where} is a figure, which has no {key}"
    if isinstance(value, (Mapping, list)):
        names = ", ".join(value) if isinstance(value, Mapping) else "0, 1 and so on"
        return f"{'.'.join(path)} is no figure; it has {names}"
    return f"{'.'.join(path)} is a text" if isinstance(value, str) else None


# Names


MAX_COLLECTIVES = 8
"""Collectives with a row of their own in a table of several runs; of more, only the slowest."""
_EXPECTED_METRIC = "a metric, or a figure of summary.json such as fct.all.slowdown.p99"
_UNIT_BY_SUFFIX = (("_bps", "bit/s"), ("_bytes", "B"), ("_s", "s"), ("share", "share"), ("packets", "count"))
"""The names of keys in summary.json carry their units; of what a `part` gives nothing else declares them."""


def main_metrics(summaries: Iterable[Mapping[str, Any]] = ()) -> list[Metric]:
    """Metrics of tables of several runs, with a row for each of a few collectives of these runs."""
    every = (one.get("collective_times") or {} for one in summaries)
    names = list(dict.fromkeys(name for times in every for name in times.get("mean_s", {})))
    if not 1 < len(names) <= MAX_COLLECTIVES:
        names = []
    paths = [("collective_times", "mean_s", name) for name in names]
    own = [
        Metric(".".join(path), "s", f"Collective {name}", path=path)
        for path, name in zip(paths, names, strict=True)
    ]
    return [*own, *(one for one in METRICS.values() if one.main)]


def named(given: Sequence[str | Mapping[str, Any]]) -> list[Metric]:
    """Metrics by their names (`goodput_of_ideal`), with parameters (`goodput_of_ideal:since=start`, or
    `{metric: goodput_of_ideal, since: start}`), by their titles (`Throughput`), or by their places in
    summary.json (`fct.all.slowdown.p99`); the main ones where none are given.

    Raises:
        InputError: there is none of a name.
    """
    every = [_one(index, one) for index, one in enumerate(given)] or main_metrics()
    labels = [one.label for one in every]
    for index, label in enumerate(labels):
        if label in labels[:index]:
            raise _refused(index, f"found {label} again, expected each once")
    return every


def _one(index: int, given: str | Mapping[str, Any]) -> Metric:
    if isinstance(given, str):
        name, *rest = given.split(":")
        params: dict[str, Any] = {}
        for one in rest:
            key, is_given, value = one.partition("=")
            if params and not is_given:  # of a value with a colon, such as the port br0:h0
                params[list(params)[-1]] += f":{one}"
            else:
                params[key] = value
    else:
        params = dict(given)
        name = str(params.pop("metric", ""))
    by_title = {one.label: one for one in main_metrics()}
    if name in by_title and not params:
        return by_title[name]
    if "." in name and not params:
        if name.partition(".")[0] not in SECTIONS:
            path = one_of(name.partition(".")[0], list(SECTIONS))
            raise _refused(
                index, f"found {name}, expected a figure of summary.json, which begins with {path}"
            )
        if name in METRICS:
            return replace(METRICS[name], label=name)
        parts = reversed(name.split("."))  # of fct.all.fct_s.p50 the last but one has it
        unit = next(
            (unit for part in parts for ending, unit in _UNIT_BY_SUFFIX if part.endswith(ending)), "index"
        )
        return Metric(name, unit, name, path=tuple(name.split(".")))
    functions = {name: one for name, one in METRICS.items() if not one.path}
    if name in functions:
        known = functions[name].parameters
        for key in params:
            if key not in known:
                raise _refused(
                    index, f"found {key}, expected {one_of(key, known) if known else 'no parameter'}"
                )
        params = {
            key: _option(index, functions[name], key, value)
            for key, value in params.items()
            if value is not None
        }
        if missing := [key for key in functions[name].required if key not in params]:
            raise _refused(index, f"found {name} without {missing[0]}, expected {name}:{missing[0]}=...")
        words = "".join(f" {key} {value}" for key, value in params.items())
        return replace(functions[name], label=functions[name].label + words, params=tuple(params.items()))
    if not name and "measure" in params:
        raise _refused(index, "found measure, expected metric")
    likely = one_of(name, sorted(functions)) if name else "a name"
    raise _refused(index, f"found {name or 'nothing'}, expected {_EXPECTED_METRIC}: {likely}")


class _Option(NamedTuple):
    """Values that a parameter takes: words, numbers within bounds, or any text."""

    expected: str
    words: tuple[str, ...] = ()
    takes: Callable[[float], bool] | None = None
    any_text: bool = False


def _text(of: str) -> _Option:
    return _Option(f"the name of {of}", any_text=True)


_POSITIVE_SECONDS = _Option("a number of seconds above 0", takes=lambda value: value > 0)
_SECONDS = _Option("a number of seconds, 0 or more", takes=lambda value: value >= 0)
_WHOLE_NUMBER = _Option("a whole number, 0 or more", takes=lambda value: value >= 0 and value == int(value))
OPTIONS = {
    "since": _Option(
        "start, all_started, settled, convergence, steady or a number of seconds",
        ("start", "all_started", "settled", "convergence", "steady"),
        lambda value: value >= 0,
    ),
    "until_s": _SECONDS,
    "window_s": _POSITIVE_SECONDS,
    "scaled_to_s": _POSITIVE_SECONDS,
    "scaled_to_packets": _Option("a number above 0", takes=lambda value: value > 0),
    "tolerance": _Option("a number above 0", takes=lambda value: value > 0),
    "percentile": _Option("a number from 0 to 100", takes=lambda value: 0 <= value <= 100),
    "priority": _Option("a whole number from 0 to 7", takes=lambda value: value in range(8)),
    "core": _WHOLE_NUMBER,
    "least": _WHOLE_NUMBER,
    "us": _WHOLE_NUMBER,
    "protocol": _Option("roce or tcp", ("roce", "tcp")),
    "purpose": _Option("irq, softirq or guest", ("irq", "softirq", "guest")),
    "item": _text("a traffic item, such as write0"),
    "host": _text("a host, such as h0"),
    "port": _text("a port, such as br0:h0"),
    "name": _text("a counter"),
    "of": _text("a counter"),
    "to": _text("a counter"),
}
"""Values that the parameters of metrics take, by their names."""


def _option(index: int, asked: Metric, key: str, value: Any) -> Any:
    """The value of a parameter, in the type that its metric takes.

    Raises:
        InputError: the parameter does not take it.
    """
    option = OPTIONS[key]
    if isinstance(value, str) and (value in option.words or (option.any_text and value)):
        return value
    taken = math.nan
    if option.takes is not None and isinstance(value, (str, int, float)) and not isinstance(value, bool):
        with suppress(ValueError, OverflowError):
            taken = float(value)
    if option.takes is None or not math.isfinite(taken) or not option.takes(taken):
        raise _refused(index, f"found {found(value)} for {key} of {asked.name}, expected {option.expected}")
    return int(taken) if option in (_WHOLE_NUMBER, OPTIONS["priority"]) else taken


def _refused(index: int, words: str) -> InputError:
    return InputError.at("", words, ("metrics", index))


def in_words(value: float, unit: str) -> str:
    """A value in its unit; means of counts need not be whole."""
    if unit == "count" and abs(value) < 100 and not float(value).is_integer():
        return text.significant(value)
    return text.significant(value) if unit == "index" else text.by_unit(value, unit)
