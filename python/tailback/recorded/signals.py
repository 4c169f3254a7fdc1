"""The log of congestion signals of a run: sender, receiver, kind, queue and time of each."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tailback.recorded.bins import PS_PER_S, Array, Bins, changes
from tailback.recorded.distinct_rows import distinct_rows
from tailback.text import natural

CE_MARK = "ce-mark"
DROP = "drop"
PFC_PAUSE = "pfc-pause"
PFC_XOFF = "pfc-xoff"
PCIE_CREDIT_STALL = "pcie-credit-stall"
CNP = "cnp"
NAK = "nak"
DELAY_PROBE = "delay-probe"
BQL_STOP = "bql-stop"
RING_STOP = "ring-stop"

SIGNALS_WITH_DURATION = (PFC_PAUSE, PFC_XOFF, PCIE_CREDIT_STALL)
"""Logged with their duration; all other signals are counted."""

_NAME_TYPE = pa.dictionary(pa.int32(), pa.string())
SIGNALS_SCHEMA = pa.schema(
    [
        *((name, _NAME_TYPE) for name in ("queue", "signal", "from", "to")),
        *((name, pa.int64()) for name in ("start_ps", "end_ps", "count", "duration_ps")),
    ]
)
"""A row for each bin, signal, queue and pair of nodes with at least one signal; a single row for the whole run
where the bins of a signal are not known.

`queue` is the queue that is full or waits; null for end points. `from` and `to` are nodes; null where there are
several or none. Either `count` or `duration_ps` is null.
"""


class SignalLog:
    """The signals of a run, by bin."""

    def __init__(self, table: pa.Table, bins: Bins) -> None:
        """`table` has `SIGNALS_SCHEMA`."""
        self._bins = bins
        self._table = table
        names = {name: table.column(name).combine_chunks() for name in ("queue", "signal")}
        signals, queues = (names[name].dictionary.to_pylist() for name in ("signal", "queue"))
        signal = names["signal"].indices.to_numpy(zero_copy_only=False)
        queue = pc.fill_null(names["queue"].indices, len(queues)).to_numpy(zero_copy_only=False)
        amount = pc.coalesce(table.column("count"), table.column("duration_ps")).to_numpy()
        start_s, end_s = (table.column(name).to_numpy() / PS_PER_S for name in ("start_ps", "end_ps"))
        at = np.rint(start_s / bins.bin_s).astype(np.int64)
        # Rows that are longer than a bin do not say when the signals were sent.
        in_bin = (end_s - start_s <= bins.bin_s * 1.5) & (at < bins.count)
        pairs = signal.astype(np.int64) * (len(queues) + 1) + queue
        keys = changes(np.sort(pairs))
        places = np.searchsorted(keys, pairs)
        rows = np.zeros((len(keys), bins.count))
        np.add.at(rows, (places[in_bin], at[in_bin]), amount[in_bin])
        self._rows: dict[tuple[str, str | None], Array] = {}
        for key, row in zip(keys.tolist(), rows, strict=True):
            name = signals[key // (len(queues) + 1)]
            if name in SIGNALS_WITH_DURATION:
                row /= PS_PER_S * bins.width_s
            row.setflags(write=False)
            self._rows[name, [*queues, None][key % (len(queues) + 1)]] = row
        self._zeros = np.zeros(bins.count)
        self._zeros.setflags(write=False)

    def values(self, queue: str, *signals: str) -> Array:
        """For one queue, one value per bin: the number of these signals or, for signals with a duration, their
        share of the bin.
        """
        return sum((self._rows.get((signal, queue), self._zeros) for signal in signals), start=self._zeros)

    def queues(self, signal: str) -> list[str]:
        """Queues with this signal in at least one bin, in natural order."""
        found = (queue for (name, queue), row in self._rows.items() if name == signal and row.any())
        return sorted((queue for queue in found if queue is not None), key=natural)

    def total(self, signal: str) -> Array:
        """The sum over all queues, one value per bin, without rows whose bin is not known."""
        rows = (row for (name, _), row in self._rows.items() if name == signal)
        return sum(rows, start=self._zeros)

    def greatest_mean(self, signal: str, since_s: float, until_s: float | None = None) -> float:
        """The largest time-weighted mean of all queues; 0 if there are none."""
        rows = (self.values(queue, signal) for queue in self.queues(signal))
        return max((self._bins.mean(row, since_s, until_s) for row in rows), default=0.0)

    def count(self, *signals: str, from_: str | None = None, to: str | None = None) -> int:
        """Number of these signals in the whole run; optionally only from or to one node."""
        found: Iterable[tuple[str, str | None, str | None]] = self._counts
        if from_ is not None and to is not None:
            found = ((signal, from_, to) for signal in signals)
        return sum(
            self._counts.get(one, 0)
            for one in found
            if one[0] in signals and from_ in (None, one[1]) and to in (None, one[2])
        )

    @cached_property
    def _counts(self) -> dict[tuple[str, str | None, str | None], int]:
        """By signal and both nodes: a large fabric asks for each port."""
        keys, index = distinct_rows(self._table, ["signal", "from", "to"])
        counts = np.zeros(len(keys), dtype=np.int64)
        np.add.at(counts, index, pc.fill_null(self._table.column("count"), 0).to_numpy())
        return {
            (key["signal"], key["from"], key["to"]): count
            for key, count in zip(keys, counts.tolist(), strict=True)
        }

    def lasted_s(self, signal: str) -> float:
        """Total duration of a signal over all queues."""
        kept = pc.equal(pc.cast(self._table.column("signal"), pa.string()), signal)
        return float(pc.sum(pc.filter(self._table.column("duration_ps"), kept)).as_py() or 0) / PS_PER_S

    def summed(self) -> list[dict[str, Any]]:
        """Sums over the whole run by signal, queue and nodes, largest first within each signal. `first_ps` and
        `last_ps` are the start of the first and the end of the last bin with such a signal.
        """
        names = ["signal", "queue", "from", "to"]
        grouped = self._table.group_by(names, use_threads=False).aggregate(
            [("count", "sum"), ("duration_ps", "sum"), ("start_ps", "min"), ("end_ps", "max")]
        )
        order = {"count_sum": "count", "duration_ps_sum": "duration_ps"}
        order |= {"start_ps_min": "first_ps", "end_ps_max": "last_ps"}
        rows = grouped.rename_columns([order.get(name, name) for name in grouped.column_names]).to_pylist()

        def sort_key(row: dict[str, Any]) -> tuple[Any, ...]:
            return (
                row["signal"],
                -(row["count"] or row["duration_ps"]),
                *(natural(row[n] or "") for n in names),
            )

        return sorted(rows, key=sort_key)


def as_table(rows: Iterable[dict[str, Any]]) -> pa.Table:
    """A table of `SIGNALS_SCHEMA` from rows."""
    plain = pa.schema(
        [(field.name, pa.string() if field.type == _NAME_TYPE else field.type) for field in SIGNALS_SCHEMA]
    )
    return pa.Table.from_pylist(list(rows), schema=plain).cast(SIGNALS_SCHEMA)
