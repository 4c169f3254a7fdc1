"""When messages were posted, when they were done, and when they would have been if queues drained faster."""

from __future__ import annotations

from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tailback.recorded.bins import PS_PER_S, Array, Bins


class Work:
    """What a run delivered, over time: its work is done when `part` of that is."""

    def __init__(self, bins: Bins, flows: pa.Table, part: float) -> None:
        """Of these flows."""
        self._bins, self._flows = bins, flows
        self._ends = bins.start_s + bins.width_s
        self._delivered = np.cumsum(bins.total("goodput_rx_bps") * bins.width_s) / 8
        """Payload that all receivers had by the end of each bin, bytes."""
        self._size = part * float(self._delivered[-1])

    @cached_property
    def done_s(self) -> float:
        """When it was done, in seconds."""
        return float(np.interp(self._size, self._delivered, self._ends))

    @cached_property
    def endless(self) -> bool:
        """Whether there are queue pairs that never run out of work, so that throughput is what counts; of
        messages it is when the last of them are done.
        """
        flows = self._flows
        return "ideal_fct_ps" not in flows.column_names or flows.column("ideal_fct_ps").null_count > 0

    def sooner(self, gain: float) -> float:
        """How much sooner it is done, as a share, if queues drain faster by `gain`: nothing is done before it
        was posted and went its way.
        """
        if self.endless or not gain:
            return gain
        # A fluid queue: what it has served is what came, less what has come together since it was last empty.
        could = (1 + gain) * self._capacity
        done = could + np.minimum.accumulate(np.minimum(0.0, self._offered - could))
        after = float(np.interp(self._size, done, self._ends))
        return min(gain, max(0.0, self.done_s / after - 1))

    @cached_property
    def _offered(self) -> Array:
        """By the end of each bin, what an empty network of twice the rates would have delivered, in bytes."""
        names = ["start_ps", "ideal_fct_ps", "message_bytes"]
        flows = pc.filter(self._flows.select(names), pc.is_valid(self._flows.column("start_ps")))
        start, took, size = (flows.column(name).to_numpy() for name in names)
        if not len(start):
            return np.zeros(self._bins.count)
        took = np.maximum(1, took / 2)
        at = np.concatenate([start, start + took])
        order = np.argsort(at, kind="stable")
        at, rate = at[order], np.cumsum(np.concatenate([size / took, -size / took])[order])
        passed = np.concatenate([[0.0], np.cumsum(rate[:-1] * np.diff(at))])
        offered: Array = np.interp(self._ends, at / PS_PER_S, passed)
        return offered

    @cached_property
    def _capacity(self) -> Array:
        """By the end of each bin, what a network could have delivered that had work all the time, in bytes:
        what it did where more waits than a bin can take, and without a bound where not.
        """
        delivered = np.diff(self._delivered, prepend=0.0)
        waits = self._offered - self._delivered
        return np.cumsum(np.where(waits > delivered.max(), delivered, self._offered[-1]))
