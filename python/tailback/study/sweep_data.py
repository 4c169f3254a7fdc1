"""What a sweep gives: tables of its runs, its points and its differences, its page and its folder."""

from __future__ import annotations

import io
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
from tailback import noise, text
from tailback.metrics import Metric
from tailback.metrics.slowdown import FLOWS_CUT_OFF
from tailback.study.effects import Effect, effects
from tailback.study.points import Point, in_words

if TYPE_CHECKING:
    from rich.table import Table
    from tailback.study.sweep_design import Design


@dataclass(frozen=True)
class SweepData:
    """A sweep. `points` are the settings of each, by number; `rows` has a mapping a run, with its point,
    seed, status (done, failed, impossible), message, faults and metrics.
    """

    design: Design
    points: list[Point]
    seeds: list[int]
    rows: list[dict[str, Any]]
    interrupted: bool

    @property
    def complete(self) -> bool:
        """Whether every run has ended, well or not."""
        return not self.interrupted and len(self.rows) == len(self.points) * len(self.seeds)

    @property
    def failed(self) -> list[dict[str, Any]]:
        return [row for row in self.rows if row["status"] != "done"]

    @property
    def faulty(self) -> list[dict[str, Any]]:
        """The rows of runs in which something happened that must not."""
        return [row for row in self.rows if row["faults"]]

    @cached_property
    def shown(self) -> list[Metric]:
        """The metrics that any run has a value of."""
        return [
            one
            for one in self.design.shown()
            if self.design.metrics or any(row["metrics"].get(one.label) is not None for row in self.rows)
        ]

    @cached_property
    def settings(self) -> list[str]:
        """The settings that points differ in."""
        settings = dict.fromkeys(setting for point in self.points for setting in point)
        return [
            setting for setting in settings if len({point.get(setting) for point in self.points}) > 1
        ] or list(settings)

    @cached_property
    def _by_place(self) -> dict[tuple[int, int], Mapping[str, float | None]]:
        return {(row["point"], row["seed"]): row["metrics"] for row in self.rows if row["status"] == "done"}

    @cached_property
    def _by_point(self) -> dict[tuple[int, str], dict[int, float]]:
        found: dict[tuple[int, str], dict[int, float]] = {}
        for (number, seed), metrics in self._by_place.items():
            for label, value in metrics.items():
                if value is not None:
                    found.setdefault((number, label), {})[seed] = value
        return found

    def by_seed(self, point: int, shown: Metric) -> dict[int, float]:
        """A metric of a point by seed, where there is one."""
        return self._by_point.get((point, shown.label), {})

    def interval(self, point: int, shown: Metric) -> noise.Interval:
        return noise.interval(list(self.by_seed(point, shown).values()))

    @cached_property
    def effects(self) -> list[Effect]:
        """What each setting does to each metric, see `tailback.study.effects`."""
        return effects(self.points, self.settings, self.shown, self.by_seed, self.design.sample is not None)

    @cached_property
    def runs(self) -> pa.Table:
        """A row a run: point, its settings, seed, status, message, faults and metrics. Fields of metrics
        have their `unit` as metadata.
        """
        columns: dict[str, tuple[pa.DataType, list[Any], str]] = {
            "point": (pa.int32(), [row["point"] for row in self.rows], "")
        }
        for setting in dict.fromkeys(setting for point in self.points for setting in point):
            columns[setting] = (
                pa.string(),
                [self.points[row["point"]].get(setting) for row in self.rows],
                "",
            )
        for name in ("seed", "status", "message"):
            kind = pa.int64() if name == "seed" else pa.string()
            columns[name] = (kind, [row[name] for row in self.rows], "")
        columns["faults"] = (pa.list_(pa.string()), [row["faults"] for row in self.rows], "")
        for one in self.shown:
            values = [row["metrics"].get(one.label) for row in self.rows]
            columns[one.label] = (pa.float64(), values, one.unit)
        return _table(columns)

    @cached_property
    def means(self) -> pa.Table:
        """A row a (point, metric): settings, mean over seeds, the ends of its 95 % interval, and seeds."""
        cells = [
            (number, point, one, self.interval(number, one))
            for number, point in enumerate(self.points)
            for one in self.shown
        ]
        columns: dict[str, tuple[pa.DataType, list[Any], str]] = {
            "point": (pa.int32(), [number for number, *_ in cells], "")
        }
        for setting in dict.fromkeys(setting for point in self.points for setting in point):
            columns[setting] = (pa.string(), [point.get(setting) for _, point, *_ in cells], "")
        columns["measure"] = (pa.string(), [one.label for *_, one, _ in cells], "")
        columns["unit"] = (pa.string(), [one.unit for *_, one, _ in cells], "")
        for name in ("mean", "low", "high"):
            found = [getattr(interval, name) for *_, interval in cells]
            columns[name] = (pa.float64(), [value if math.isfinite(value) else None for value in found], "")
        columns["seeds"] = (pa.int32(), [interval.seeds for *_, interval in cells], "")
        return _table(columns)

    @cached_property
    def front(self) -> list[int]:
        """The points that no other beats in both metrics of `pareto`, by their means; none without it."""
        by_label = {one.label: one for one in self.design.shown()}
        values: dict[int, list[float]] = {}
        for number in range(len(self.points)):
            both = [
                self.interval(number, by_label[name]).mean * (1 if way == "more" else -1)
                for name, way in self.design.front.items()
            ]
            if both and all(map(math.isfinite, both)):
                values[number] = both
        return [
            number
            for number, own in values.items()
            if not any(
                other != own and all(a >= b for a, b in zip(other, own, strict=True))
                for other in values.values()
            )
        ]

    def lines(self) -> list[str]:
        """What each setting does to each metric, and which differences are noise: a line each; last, what
        a setting makes no difference to, with any seed.
        """
        said, none = [], dict[str, list[str]]()
        for effect in self.effects:
            if effect.verdict == "no difference":
                none.setdefault(effect.setting, []).append(effect.shown.label)
            else:
                said.append(effect.in_words)
        said += [f"No difference, {setting}: {', '.join(labels)}." for setting, labels in none.items()]
        return self._cut_off() + said

    def _cut_off(self) -> list[str]:
        """A line where the end of the run cut flows off: completion figures leave these out."""
        if FLOWS_CUT_OFF not in self.design.shown():
            return []
        means = {number: self.interval(number, FLOWS_CUT_OFF).mean for number in range(len(self.points))}
        cut = {number: mean for number, mean in means.items() if mean > 0}
        if not cut:
            return []
        worst = max(cut, key=lambda number: cut[number])
        where = in_words(self.points[worst]) or "the only one"
        return [
            f"The end of the run cut off flows at {len(cut)} of {text.plural(len(self.points), 'point')}, "
            f"most, {text.significant(cut[worst])} per run, at {where}: "
            "figures of completion are of finished flows only, so they may be too low, and compare badly. "
            "run: {until: done} lets all flows finish."
        ]

    def table(self, most: int = 40) -> Table:
        """The points for the terminal, the first `most` of them: mean and half the width of its interval."""
        from rich.table import Table

        table = Table(box=None, padding=(0, 2, 0, 0))
        for setting in self.settings:
            table.add_column(setting, no_wrap=True)
        for one in self.shown:
            table.add_column(one.label, justify="right", overflow="fold")
        table.add_column("Seeds", justify="right")
        for number, point in list(enumerate(self.points))[:most]:
            count = len(self._seeds_of(number))
            words = [cell(one, self.interval(number, one)) for one in self.shown]
            table.add_row(*(point.get(setting, "") for setting in self.settings), *words, str(count))
        return table

    def _seeds_of(self, point: int) -> list[int]:
        return [seed for number, seed in self._by_place if number == point]

    def __repr__(self) -> str:
        state = "" if self.complete else ", not complete"
        runs = f"{text.plural(len(self.points), 'point')}, {text.plural(len(self.seeds), 'seed')}"
        failed = f", {text.plural(len(self.failed), 'run')} failed" if self.failed else ""
        return f"<Sweep of {self.design.name.removesuffix('-sweep')}: {runs}{failed}{state}>"


def cell(shown: Metric, interval: noise.Interval) -> str:
    """'92.4 ± 3.1 Gbit/s': the mean, and half the width of the interval where there is one."""
    if not interval.seeds:
        return text.MISSING
    mean = shown.in_words(interval.mean)
    reach = interval.high - interval.mean
    return mean if not math.isfinite(reach) or reach == 0 else f"{mean} ± {shown.in_words(reach)}"


def _table(columns: Mapping[str, tuple[pa.DataType, Sequence[Any], str]]) -> pa.Table:
    fields = [
        pa.field(name, kind, metadata={"unit": unit} if unit else None)
        for name, (kind, _, unit) in columns.items()
    ]
    arrays = [pa.array(values, kind) for kind, values, _ in columns.values()]
    return pa.table(arrays, schema=pa.schema(fields))


def parquet(table: pa.Table) -> bytes:
    """A table as a Parquet file; equal tables give equal bytes."""
    buffer = io.BytesIO()
    pq.write_table(table.combine_chunks(), buffer, compression="zstd", version="2.6")
    return buffer.getvalue()
