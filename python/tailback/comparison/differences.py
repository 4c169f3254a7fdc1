"""Computes differences between sides: settings, figures, findings, flows and bottlenecks."""

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
from tailback.comparison.sides import Side, for_each_side
from tailback.hpcc.setup import HpccSetup
from tailback.metrics import findings, main_metrics, summarise, value_at
from tailback.recorded.run import Recorded
from tailback.recorded.setup import ScenarioSetup
from tailback.scenario.document import flat
from tailback.simai.inputs import TOPOLOGY_FILE, WORKLOAD_FILE
from tailback.simai.setup import SimaiSetup

NO_VALUE = "(none)"


@dataclass(frozen=True)
class Setting:
    """A setting that differs, and its value on each side."""

    name: str
    values: list[str]


def settings(sides: Sequence[Side]) -> list[Setting]:
    """Settings that differ, without seeds if a side has several."""
    several = any(len(side.runs) > 1 for side in sides)
    every = for_each_side(sides, lambda side: dict(_settings(side.first)))
    rows = []
    names = dict.fromkeys(name for one in every for name in one)
    # A section on one side and a value such as null on another are one row.
    plain = [name for name in names if any(other.startswith(f"{name}.") for other in names)]
    for name in names:
        if any(name.startswith(f"{section}.") for section in plain):
            continue
        values = [one.get(name) or _section(one, name) for one in every]
        if len(set(values)) > 1 and not (several and name == "run.seed") and name != "about":
            rows.append(Setting(name, values))
    return rows


def _section(settings: Mapping[str, str], name: str) -> str:
    """All settings of a section in one text: 'k_min: 150KB, k_max: 1.5MB'."""
    below = {other: value for other, value in settings.items() if other.startswith(f"{name}.")}
    return ", ".join(f"{other[len(name) + 1 :]}: {value}" for other, value in below.items()) or NO_VALUE


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
            yield from ((name, _digest(simai.files[name])) for name in (WORKLOAD_FILE, TOPOLOGY_FILE))
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
    """A main figure on each side, for every seed that has it."""

    name: str
    unit: str
    values: list[dict[int, float]]
    """For each side, by seed."""
    p: list[float]
    """For each side, the p-value of the paired difference from the first side over seeds, adjusted for all
    figures; NaN without two common seeds.
    """

    @property
    def means(self) -> list[float | None]:
        """For each side; None if no run has the figure."""
        return [sum(one.values()) / len(one) if one else None for one in self.values]

    def change(self, side: int) -> float | None:
        """Relative change from the first side; None if that is 0 or has no value."""
        first, mean = self.means[0], self.means[side]
        return None if not first or mean is None else mean / first - 1

    def verdict(self, side: int) -> str:
        """'same', 'differs' or 'noise'; '' if a side lacks the figure, or without two common seeds."""
        first, values = self.values[0], self.values[side]
        if not first or not values:
            return ""
        if first == values:
            return "same"
        return "" if math.isnan(self.p[side]) else "noise" if noise.is_noise(self.p[side]) else "differs"


def figures(sides: Sequence[Side]) -> list[Figure]:
    """The main figures that at least one side has."""
    every = []
    summaries = for_each_side(sides, lambda side: [summarise(result) for result in side.runs.values()])
    metrics = main_metrics([one for of_side in summaries for one in of_side])
    by_side = for_each_side(sides, lambda side: {one.label: _by_seed(side, one.path) for one in metrics})
    for one in metrics:
        values = [of_side[one.label] for of_side in by_side]
        if any(any(by_seed.values()) for by_seed in values):
            every.append((one.label, one.unit, values))
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
class FindingDifference:
    """A finding whose figure differs between sides; None where a side has no such finding."""

    what: str
    figures: list[str | None]
    words: list[str | None]
    tones: list[str]


def findings_that_differ(sides: Sequence[Side]) -> list[FindingDifference]:
    """Findings of the first run of each side that differ."""
    every = for_each_side(sides, lambda side: {finding.what: finding for finding in findings(side.first)})
    rows = []
    for what in dict.fromkeys(what for one in every for what in one):
        there = [one.get(what) for one in every]
        shown = [finding.figure if finding else None for finding in there]
        if len(set(shown)) > 1:
            words = [finding.words if finding else None for finding in there]
            rows.append(
                FindingDifference(what, shown, words, [one.tone if one else "plain" for one in there])
            )
    return rows


@dataclass(frozen=True)
class Bottleneck:
    """The bottleneck of a side's first run, and the number of its runs (`same`) with the same bottleneck."""

    kind: str
    where: str
    headline: str
    next: str
    sure: str
    same: int
    runs: int


def bottleneck(side: Side) -> Bottleneck:
    keys = [explain.explain(result).key for result in side.runs.values()]
    page = explain.page_of(side.first)
    return Bottleneck(*keys[0], page.headline, page.next, page.sure, keys.count(keys[0]), len(keys))


_FLOW_COLUMNS = ("state", "start_ps", "fct_ps", "slowdown", "goodput_bps", "packets_retransmitted")
"""Columns of a flow for each side."""


def flows(sides: Sequence[Side]) -> pa.Table:
    """Paired flows: a row for each flow with columns for every side, null where a side does not have the flow.

    Flows of runs with the same seed are paired by item, source, destination and their index among flows with
    the same of these. Sides without a common seed are paired by their first runs.
    """
    common = set.intersection(*(set(side.runs) for side in sides))
    tables = [_paired(seed, [side.runs[seed] for side in sides]) for seed in sorted(common)]
    table = pa.concat_tables(tables or [_paired(None, [side.first for side in sides])])
    names = list(table.column_names)
    for number, side in enumerate(sides):
        names = [name.replace(f"@{number}", f"_{side.label.lower()}") for name in names]
    return table.rename_columns(names)


_FLOW_KEY = ("item", "src", "dst", "index")


def _paired(seed: int | None, runs: Sequence[Recorded]) -> pa.Table:
    joined: pa.Table | None = None
    for number, result in enumerate(runs):
        table = _of_run(result, number)
        joined = table if joined is None else joined.join(table, list(_FLOW_KEY), join_type="full outer")
    assert joined is not None
    ordered = joined.sort_by([(name, "ascending") for name in _FLOW_KEY])
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
    more = {f"{name}@{number}": result.flows.column(name) for name in _FLOW_COLUMNS}
    return pa.table({**columns, **more})


@dataclass(frozen=True)
class FlowChanges:
    """The flows of a side compared with those of A: ratios of completion times, or of goodputs if flows have no
    end.
    """

    side: str
    paired: int
    only_first: int
    only_here: int
    measure: str
    """'completion time', 'goodput', or '' if no pair has either on both sides."""
    compared: int
    higher: int
    lower: int
    median: float | None
    """The median ratio of this side to A."""
    extremes: list[dict[str, Any]]
    """Up to `MAX_EXTREMES` flows whose ratio is farthest from 1."""


MAX_EXTREMES = 5
EQUAL_RATIO_TOLERANCE = 0.001
"""Ratios this near to 1 count as equal."""


def flow_changes(flows: pa.Table, first: Side, side: Side) -> FlowChanges:
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
            **{name: compared[at][name] for name in ("seed", *_FLOW_KEY)},
            "first": compared[at][f"{column}_{a}"],
            "here": compared[at][f"{column}_{b}"],
            "ratio": ratios[at],
        }
        for at in order[:MAX_EXTREMES]
        if abs(ratios[at] - 1) > EQUAL_RATIO_TOLERANCE
    ]
    return FlowChanges(
        side.label,
        len(here),
        sum(row[f"state_{a}"] is not None for row in rows) - len(here),
        sum(row[f"state_{b}"] is not None for row in rows) - len(here),
        measure if compared else "",
        len(compared),
        sum(ratio > 1 + EQUAL_RATIO_TOLERANCE for ratio in ratios),
        sum(ratio < 1 - EQUAL_RATIO_TOLERANCE for ratio in ratios),
        median(ratios) if ratios else None,
        extremes,
    )
