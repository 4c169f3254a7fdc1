"""What differs between sides: settings, figures, findings, flows, and where each is stuck."""

from __future__ import annotations

import math
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

import pyarrow as pa

from tailback import explain, noise
from tailback.astra.setup import AstraSetup
from tailback.comparison.sides import Side, of_each
from tailback.findings import findings
from tailback.hpcc.setup import HpccSetup
from tailback.recorded.run import Recorded
from tailback.recorded.setup import ScenarioSetup
from tailback.scenario.flat import flat
from tailback.simai.inputs import TOPOLOGY, WORKLOAD
from tailback.simai.setup import SimaiSetup
from tailback.summary import summarise
from tailback.summary.figures import main_figures, value_at

NOT_THERE = "(none)"


@dataclass(frozen=True)
class Setting:
    """A setting that is not the same on all sides, and its value on each."""

    name: str
    values: list[str]


def settings(sides: Sequence[Side]) -> list[Setting]:
    """The settings that differ. Seeds do not count where a side has several."""
    several = any(len(side.runs) > 1 for side in sides)
    every = of_each(sides, lambda side: dict(_settings(side.first)))
    rows = []
    names = dict.fromkeys(name for one in every for name in one)
    # What is a section on one side and a value, such as null, on another is one row.
    plain = [name for name in names if any(other.startswith(f"{name}.") for other in names)]
    for name in names:
        if any(name.startswith(f"{section}.") for section in plain):
            continue
        values = [one.get(name) or _section(one, name) for one in every]
        if len(set(values)) > 1 and not (several and name == "run.seed") and name != "about":
            rows.append(Setting(name, values))
    return rows


def _section(settings: Mapping[str, str], name: str) -> str:
    """'k_min: 150KB, k_max: 1.5MB' of all that is below a name."""
    below = {other: value for other, value in settings.items() if other.startswith(f"{name}.")}
    return ", ".join(f"{other[len(name) + 1 :]}: {value}" for other, value in below.items()) or NOT_THERE


def _settings(result: Recorded) -> Iterator[tuple[str, str]]:
    if isinstance(result.setup, ScenarioSetup):
        yield from ((name, _plain(value)) for name, value in flat(result.setup.scenario))
    elif isinstance(result.setup, HpccSetup):
        if isinstance(result.setup, AstraSetup):
            own = result.setup.astra.plan() | {"files": len(result.setup.astra.traces)}
            yield from ((name, _plain(value)) for name, value in flat(own))
        if isinstance(result.setup, SimaiSetup):
            simai = result.setup.simai
            yield from ((key, _plain(value)) for key, value in simai.settings.items())
            yield from ((name, _digest(simai.files[name])) for name in (WORKLOAD, TOPOLOGY))
        yield from ((key, str(value)) for key, value in result.setup.inputs.config.values.items())
        for name in ("topology.txt", "flow.txt"):
            if name in result.setup.files:
                yield name, f"{len(result.setup.files[name])} B"


def _digest(file: bytes) -> str:
    return f"{len(file)} B, CRC {zlib.crc32(file):08x}"


def _plain(value: Any) -> str:
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, list):
        return f"[{', '.join(map(_plain, value))}]"
    return "{}" if value == {} else str(value)


@dataclass(frozen=True)
class Figure:
    """A main figure on each side: of every seed that has it."""

    name: str
    unit: str
    values: list[dict[int, float]]
    """Of each side by seed."""
    p: list[float]
    """Of each side, the chance of a mean difference from the first as large as this, seed by seed, if there
    were none, adjusted for all figures together; NaN without two seeds in common.
    """

    @property
    def means(self) -> list[float | None]:
        """Of each side; None where no run has the figure."""
        return [sum(one.values()) / len(one) if one else None for one in self.values]

    def change(self, side: int) -> float | None:
        """How much more it is than on the first side, as a share of that; None where that is no number."""
        first, mean = self.means[0], self.means[side]
        return None if not first or mean is None else mean / first - 1

    def verdict(self, side: int) -> str:
        """'same', 'differs' or 'noise'; nothing where one of the sides has not the figure, or they have not
        two seeds in common.
        """
        first, values = self.values[0], self.values[side]
        if not first or not values:
            return ""
        if first == values:
            return "same"
        return "" if math.isnan(self.p[side]) else "noise" if noise.is_noise(self.p[side]) else "differs"


def figures(sides: Sequence[Side]) -> list[Figure]:
    """The main figures that any side has."""
    every = []
    summaries = of_each(sides, lambda side: [summarise(result) for result in side.runs.values()])
    shown = main_figures([one for of_side in summaries for one in of_side])
    by_side = of_each(sides, lambda side: {name: _by_seed(side, path) for name, path, _ in shown})
    for name, _, unit in shown:
        values = [of_side[name] for of_side in by_side]
        if any(any(one.values()) for one in values):
            every.append((name, unit, values))
    p = [
        noise.holm([noise.paired(values[0], values[side]).p for *_, values in every])
        for side in range(len(sides))
    ]
    return [Figure(*one, [of_side[at] for of_side in p]) for at, one in enumerate(every)]


def _by_seed(side: Side, path: tuple[str, ...]) -> dict[int, float]:
    return {
        seed: value
        for seed, result in side.runs.items()
        if (value := value_at(summarise(result), path)) is not None
    }


@dataclass(frozen=True)
class Difference:
    """A finding whose figure is not the same on all sides; None where a side has no such finding."""

    what: str
    figures: list[str | None]
    words: list[str | None]
    tones: list[str]


def found(sides: Sequence[Side]) -> list[Difference]:
    """The findings that differ, of the first run of each side."""
    every = of_each(sides, lambda side: {finding.what: finding for finding in findings(side.first)})
    rows = []
    for what in dict.fromkeys(what for one in every for what in one):
        there = [one.get(what) for one in every]
        shown = [finding.figure if finding else None for finding in there]
        if len(set(shown)) > 1:
            words = [finding.words if finding else None for finding in there]
            rows.append(Difference(what, shown, words, [one.tone if one else "plain" for one in there]))
    return rows


@dataclass(frozen=True)
class Stuck:
    """Where a side is stuck: the answer for its first run, and in how many of its runs the place is the
    same.
    """

    kind: str
    where: str
    headline: str
    next: str
    sure: str
    same: int
    runs: int


def stuck(side: Side) -> Stuck:
    """Where a side is stuck."""
    keys = [explain.explain(result).key for result in side.runs.values()]
    page = explain.page_of(side.first)
    return Stuck(*keys[0], page.headline, page.next, page.sure, keys.count(keys[0]), len(keys))


_OF_EACH = ("state", "start_ps", "fct_ps", "slowdown", "goodput_bps", "packets_retransmitted")
"""What the table has of a flow on each side."""


def flows(sides: Sequence[Side]) -> pa.Table:
    """Flows in pairs: a row each, with what it did on every side, null where a side does not have it.

    Flows are the same by item, source, destination and their index among those, of runs with the same seed;
    of sides without a seed in common, their first runs.
    """
    common = set.intersection(*(set(side.runs) for side in sides))
    tables = [_paired(seed, [side.runs[seed] for side in sides]) for seed in sorted(common)]
    table = pa.concat_tables(tables or [_paired(None, [side.first for side in sides])])
    names = list(table.column_names)
    for number, side in enumerate(sides):
        names = [name.replace(f"@{number}", f"_{side.label.lower()}") for name in names]
    return table.rename_columns(names)


_KEY = ("item", "src", "dst", "index")


def _paired(seed: int | None, runs: Sequence[Recorded]) -> pa.Table:
    joined: pa.Table | None = None
    for number, result in enumerate(runs):
        table = _of_run(result, number)
        joined = table if joined is None else joined.join(table, list(_KEY), join_type="full outer")
    assert joined is not None
    ordered = joined.sort_by([(name, "ascending") for name in _KEY])
    return ordered.add_column(0, "seed", pa.array([seed] * ordered.num_rows, pa.int64()))


def _of_run(result: Recorded, number: int) -> pa.Table:
    seen: dict[tuple[str, str, str], int] = {}
    index = []
    ends = (result.flows.column(name).to_pylist() for name in ("item", "src", "dst"))
    for ends_of_one in zip(*ends, strict=True):
        seen[ends_of_one] = seen.get(ends_of_one, -1) + 1
        index.append(seen[ends_of_one])
    columns = {
        "item": result.flows.column("item"),
        "src": result.flows.column("src"),
        "dst": result.flows.column("dst"),
        "index": pa.array(index, pa.int64()),
    }
    more = {f"{name}@{number}": result.flows.column(name) for name in _OF_EACH}
    return pa.table({**columns, **more})


@dataclass(frozen=True)
class FlowChanges:
    """How the flows of a side stand to those of A. `ratios` are of completion times, or of goodputs where
    flows have no end: `measure` says which.
    """

    side: str
    paired: int
    only_first: int
    only_here: int
    measure: str
    """'completion time', 'goodput', or nothing where no pair has either on both sides."""
    compared: int
    higher: int
    lower: int
    median: float | None
    """The median of all ratios, this side over A."""
    extremes: list[dict[str, Any]]
    """The flows whose ratio is farthest from 1, up to `MOST_FLOWS`."""


MOST_FLOWS = 5
EQUAL = 0.001
"""A ratio this near to 1 is neither higher nor lower."""


def flow_changes(flows: pa.Table, first: Side, side: Side) -> FlowChanges:
    """How the flows of a side stand to those of the first."""
    a, b = first.label.lower(), side.label.lower()
    rows = flows.to_pylist()
    here = [row for row in rows if row[f"state_{a}"] is not None and row[f"state_{b}"] is not None]
    measure, column = "completion time", "fct_ps"
    compared = [row for row in here if row[f"fct_ps_{a}"] and row[f"fct_ps_{b}"]]
    if not compared:
        measure, column = "goodput", "goodput_bps"
        compared = [row for row in here if row[f"goodput_bps_{a}"] and row[f"goodput_bps_{b}"]]
    ratios = [row[f"{column}_{b}"] / row[f"{column}_{a}"] for row in compared]
    order = sorted(range(len(ratios)), key=lambda at: -max(ratios[at], 1 / ratios[at]))
    extremes = [
        {
            **{name: compared[at][name] for name in ("seed", *_KEY)},
            "first": compared[at][f"{column}_{a}"],
            "here": compared[at][f"{column}_{b}"],
            "ratio": ratios[at],
        }
        for at in order[:MOST_FLOWS]
        if abs(ratios[at] - 1) > EQUAL
    ]
    return FlowChanges(
        side.label,
        len(here),
        sum(row[f"state_{a}"] is not None for row in rows) - len(here),
        sum(row[f"state_{b}"] is not None for row in rows) - len(here),
        measure if compared else "",
        len(compared),
        sum(ratio > 1 + EQUAL for ratio in ratios),
        sum(ratio < 1 - EQUAL for ratio in ratios),
        median(ratios) if ratios else None,
        extremes,
    )
