"""The time series of a run as arrays: one value per bin for every (entity, metric)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tailback.limits import RESULT_BINS, RESULT_VALUES
from tailback.text import natural

ITEM, ITEM_AT_SENDER = "item", "item-at-sender"
"""Kinds of entities: a traffic item, and a traffic item at one of its senders."""
_HOST_METRICS = ("goodput_rx_bps", "goodput_tx_bps")

Array = npt.NDArray[np.float64]
PS_PER_S = 1e12
_ROWS_PER_STEP = 1 << 18
_IntColumn = Callable[[slice], npt.NDArray[np.int64]]


def changes(keys: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Each key that differs from the one before it. Rows of a series are usually adjacent, thousands at a time."""
    return keys[np.flatnonzero(np.diff(keys, prepend=-1))]


def _as_one_chunk(column: pa.ChunkedArray) -> pa.Array:
    # combine_chunks would copy a single chunk.
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


class Entity(NamedTuple):
    """A row of the table of entities, which have series."""

    entity: str
    kind: str
    node: str | None
    peer: str | None
    item: str | None


class Bins:
    """All series of one run. Bins have the same length, except that the run may end within the last one.

    `start_s`, `width_s`: start and length of each bin in seconds, shape (n,).
    """

    def __init__(self, series: pa.Table, entities: pa.Table, bin_ps: int, end_ps: int) -> None:
        """`series` has the columns time_ps (bin start), entity, metric, value; `entities` entity, kind, node,
        peer and item; `bin_ps` > 0.
        """
        if bin_ps <= 0:
            raise ValueError(f"bin_ps is {bin_ps}; expected a positive length")
        self.count = max(1, -(-end_ps // bin_ps))
        if self.count > RESULT_BINS:
            raise ValueError(f"found {self.count} bins, expected at most {RESULT_BINS}")
        edges_ps = np.minimum(np.arange(self.count + 1, dtype=np.int64) * bin_ps, max(end_ps, 1))
        self.start_s: Array = edges_ps[:-1] / PS_PER_S
        self.width_s: Array = np.diff(edges_ps) / PS_PER_S
        self.bin_s = bin_ps / PS_PER_S
        self.end_s = end_ps / PS_PER_S
        self._totals: dict[str, Array] = {}
        self._spans: dict[tuple[float, float | None], slice] = {}
        # A node has many entities, and an entity many series: equal names share one string.
        shared: dict[str | None, str | None] = {}
        columns = (
            [shared.setdefault(value, value) for value in entities.column(name).to_pylist()]
            for name in Entity._fields
        )
        rows = map(Entity._make, zip(*columns, strict=True))
        self._entities: dict[str, Entity] = {row.entity: row for row in rows}
        self._items: dict[tuple[str | None, ...], str] = {
            (row.kind, row.node, row.item): row.entity
            for row in self._entities.values()
            if row.kind in (ITEM, ITEM_AT_SENDER)
        }
        self._rows: Array
        self._at: dict[str, dict[str, int]]
        self._rows, self._at = self._index(series, bin_ps)
        # Series without rows may be many: they share one read-only array of zeros.
        self._zeros = np.zeros(self.count)
        self._zeros.setflags(write=False)

    @property
    def middle_s(self) -> Array:
        """Middle of each bin in seconds."""
        return self.start_s + self.width_s / 2

    def _index(self, series: pa.Table, bin_ps: int) -> tuple[Array, dict[str, dict[str, int]]]:
        """One array with a row for each series, and the row numbers by metric and entity. A large fabric has tens
        of thousands of series: an array or a pair of names for each would take more memory than the values.
        """
        if series.num_rows == 0:
            return np.zeros((0, self.count)), {}
        columns = {}
        for name in ("entity", "metric"):
            column = _as_one_chunk(series.column(name))
            encoded = column if pa.types.is_dictionary(column.type) else pc.dictionary_encode(column)
            columns[name] = (encoded.indices.to_numpy(zero_copy_only=False), encoded.dictionary.to_pylist())
        entity_codes, entities = columns["entity"]
        known = {name: name for name in self._entities}
        entities = [known.get(name, name) for name in entities]
        metric_codes, metrics = columns["metric"]
        times, values = (
            _as_one_chunk(series.column(name)).to_numpy(zero_copy_only=False) for name in ("time_ps", "value")
        )

        def keys(part: slice) -> npt.NDArray[np.int64]:
            return np.asarray(entity_codes[part].astype(np.int64) * len(metrics) + metric_codes[part])

        def is_whole(count: int, starts: slice) -> bool:
            """True if each series has all bins in order, and occurs once, as in the engine's tables."""
            return (
                series.num_rows % count == 0
                and bool((times.reshape(-1, count) == np.arange(count, dtype=np.int64) * bin_ps).all())
                and all(
                    bool((codes.reshape(-1, count) == codes[starts, np.newaxis]).all())
                    for codes in (entity_codes, metric_codes)
                )
                and len(changes(np.sort(keys(starts)))) * count == series.num_rows
            )

        starts = slice(0, None, self.count)
        if is_whole(self.count, starts):  # then the table's values need no copy
            found, rows = keys(starts), values.reshape(-1, self.count)
        else:
            found, rows = self._scattered(keys, lambda part: times[part] // bin_ps, values)
        places: dict[str, dict[str, int]] = {metric: {} for metric in metrics}
        for at in np.argsort(found).tolist():
            entity, metric = divmod(int(found[at]), len(metrics))
            places[metrics[metric]][entities[entity]] = at
        return rows, places

    def _scattered(
        self, keys: _IntColumn, bins: _IntColumn, values: Array
    ) -> tuple[npt.NDArray[np.int64], Array]:
        """For rows in any order: the keys of their series, and their values by bin."""
        # Work on some rows at a time: the intermediate arrays take several times the memory of the table.
        parts = [slice(at, at + _ROWS_PER_STEP) for at in range(0, len(values), _ROWS_PER_STEP)]
        found = changes(np.sort(np.concatenate([changes(keys(part)) for part in parts])))
        if len(found) * self.count > RESULT_VALUES:
            text = f"found {len(found)} series of {self.count} bins"
            raise ValueError(f"{text}, expected at most {RESULT_VALUES} values in all")
        # A bin without a row means that nothing happened: zero.
        rows = np.zeros((len(found), self.count))
        for part in parts:
            at = bins(part)
            inside = at < self.count
            rows[np.searchsorted(found, keys(part))[inside], at[inside]] = values[part][inside]
        return found, rows

    def values(self, entity: str, metric: str) -> Array:
        """One value per bin; zeros where nothing was recorded."""
        at = self._at.get(metric, {}).get(entity)
        return self._zeros if at is None else self._rows[at]

    def has(self, entity: str, metric: str) -> bool:
        """True if this series was recorded."""
        return entity in self._at.get(metric, {})

    def has_any(self, metric: str) -> bool:
        """True if this metric was recorded for any entity."""
        return bool(self._at.get(metric))

    def entities(self, metric: str, kind: str | None = None, node: str | None = None) -> list[str]:
        """Names of all entities with this metric, in natural order; optionally of one kind or node."""
        found: Iterable[str] = self._at.get(metric, {})
        if kind is not None or node is not None:
            found = (
                name
                for name in found
                if kind in (None, self.entity(name).kind) and node in (None, self.entity(name).node)
            )
        return sorted(found, key=natural)

    def entity(self, name: str) -> Entity:
        """The row of an entity in the table of entities.

        Raises:
            ValueError: there is no such entity.
        """
        if name not in self._entities:
            raise ValueError(f"{name!r} has series and is not among the entities")
        return self._entities[name]

    def of_item(self, item: str, sender: str | None = None) -> str:
        """The entity of a traffic item, or of the item at one of its senders; "" if there is none."""
        return self._items.get((ITEM, None, item) if sender is None else (ITEM_AT_SENDER, sender, item), "")

    def total(self, metric: str) -> Array:
        """The sum over all entities, one value per bin. Goodput of a host includes that of its traffic items."""
        if metric not in self._totals:
            total = np.zeros(self.count)
            for entity, at in self._at.get(metric, {}).items():
                if not (metric in _HOST_METRICS and self._is_item(entity)):
                    total += self._rows[at]
            total.setflags(write=False)
            self._totals[metric] = total
        return self._totals[metric]

    def _is_item(self, name: str) -> bool:
        """True if an entity is a traffic item, whose goodput is included in that of hosts."""
        return self.entity(name).kind in (ITEM, ITEM_AT_SENDER)

    def windows(
        self, values: Array, window_s: float, since_s: float = 0.0, until_s: float | None = None
    ) -> Array:
        """Time-weighted means of `values` over consecutive windows of `window_s`, the first starting at
        `since_s`.

        A window is at least one bin long; a last window that is not full is left out. A bin belongs to the
        window that contains its start.
        """
        until = self.end_s if until_s is None else min(until_s, self.end_s)
        length = max(window_s, self.bin_s)
        full = int((until - since_s) / length + 1e-9)
        if full < 1:
            return np.zeros(0)
        # 1e-9: rounding must not put a bin that starts on a border into the window before it.
        slot = np.floor((self.start_s - since_s) / length + 1e-9).astype(np.int64)
        kept = (slot >= 0) & (slot < full)
        weights = np.bincount(slot[kept], weights=self.width_s[kept], minlength=full)
        sums = np.bincount(slot[kept], weights=(values * self.width_s)[kept], minlength=full)
        return np.asarray(sums[weights > 0] / weights[weights > 0], dtype=np.float64)

    def mean(self, values: Array, since_s: float = 0.0, until_s: float | None = None) -> float:
        """Time-weighted mean of the bins that start in [since_s, until_s); NaN if there are none."""
        kept = self.inside(since_s, until_s)
        weight = float(self.width_s[kept].sum())
        return float((values[kept] * self.width_s[kept]).sum()) / weight if weight > 0 else float("nan")

    def means(self, rows: Mapping[str, Array], since_s: float, until_s: float) -> dict[str, float]:
        """`mean` of many rows, by name."""
        kept = self.inside(since_s, until_s)
        width_s = self.width_s[kept]
        weight = float(width_s.sum())
        if not weight > 0:
            return dict.fromkeys(rows, float("nan"))
        return {name: float((row[kept] * width_s).sum()) / weight for name, row in rows.items()}

    def inside(self, since_s: float, until_s: float | None) -> slice:
        """The bins of `within` as a slice."""
        if (since_s, until_s) not in self._spans:
            kept = np.flatnonzero(self.within(since_s, until_s))
            self._spans[since_s, until_s] = slice(kept[0], kept[-1] + 1) if len(kept) else slice(0)
        return self._spans[since_s, until_s]

    def within(self, since_s: float = 0.0, until_s: float | None = None) -> npt.NDArray[np.bool_]:
        """Mask of the bins that start in [since_s, until_s)."""
        until = self.end_s if until_s is None else until_s
        allowance = self.bin_s * 1e-9
        return (self.start_s >= since_s - allowance) & (self.start_s < until - allowance)
