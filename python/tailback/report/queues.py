"""Depths of queues as a page carries them, so that any one can be drawn on demand."""

from __future__ import annotations

import base64
import gzip
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tailback import text
from tailback.recorded.run import Recorded
from tailback.recorded.signals import PFC_PAUSE
from tailback.report.figures import MAX_POINTS, View

DEPTH_LEVELS = 4095
"""Steps of the logarithmic scale that depths are rounded to: 0.3 % each, 1 B to 100 MB."""
MOST_VALUES = 400_000
"""Most values of all queues outside the tailback chart together, so that a page stays below two megabytes."""
LEAST_POINTS = 100


@dataclass
class QueueStore:
    """Depths of queues, each added once; what they are known by on the page is their number."""

    about: list[dict[str, Any]] = field(default_factory=list)
    rows: list[tuple[np.ndarray, np.ndarray, np.ndarray | None]] = field(default_factory=list)

    def add(self, view: View, queue: dict[str, Any], points: int = MAX_POINTS) -> int:
        """Takes a queue of `meta["queues"]`, in at most `points` groups of bins. Gives its number."""
        name, bins = queue["queue"], view.result.bins
        mean = view.reduce(bins.values(name, "queue_mean_bytes"), points)
        peak = view.reduce(bins.values(name, "queue_max_bytes"), points, "max")
        paused = view.result.signal_log.values(name, PFC_PAUSE)
        marks = {key: queue[f"{key}_bytes"] for key in ("k_min", "k_max") if queue.get(f"{key}_bytes")}
        self.about.append(
            {
                "name": name,
                "node": queue["node"],
                "points": len(mean),
                **view.axis(points),
                "step": view.sampling(points),
                "paused": bool(paused.any()),
                **marks,
            }
        )
        self.rows.append((mean, peak, view.reduce(paused, points) if paused.any() else None))
        return len(self.about) - 1

    def add_others(self, result: Recorded) -> str:
        """Takes all queues that anything ever waited in and that are not here. Gives a sentence on what is
        left out; empty if nothing is.
        """
        view, bins = View(result), result.bins
        there = {one["name"] for one in self.about}
        queues = {one["queue"]: one for one in result.meta["queues"]}
        depth = {
            name: bins.mean(bins.values(name, "queue_mean_bytes")) for name in queues if name not in there
        }
        waited = sorted((name for name in depth if depth[name] > 0), key=lambda name: -depth[name])
        kept = waited[: MOST_VALUES // (2 * LEAST_POINTS)]
        points = min(MAX_POINTS, max(LEAST_POINTS, MOST_VALUES // (2 * max(1, len(kept)))))
        for name in sorted(kept, key=text.natural):
            self.add(view, queues[name], points)
        left = len(waited) - len(kept)
        return f"{text.plural(left, 'less full queue')} only in series.parquet." if left else ""

    def for_script(self) -> dict[str, Any]:
        """`about`, and `packed`, the values: unsigned 16-bit numbers, gzipped, as base64."""
        top = max((float(peak.max(initial=0)) for _, peak, _ in self.rows), default=0.0)
        scale = DEPTH_LEVELS / np.log1p(max(top, 1.0))
        parts = []
        for mean, peak, paused in self.rows:
            parts += [np.log1p(np.maximum(depth, 0)) * scale for depth in (mean, peak)]
            parts += [] if paused is None else [np.clip(paused, 0, 1) * DEPTH_LEVELS]
        values = np.concatenate(parts) if parts else np.zeros(0)
        packed = gzip.compress(np.rint(values).astype("<u2").tobytes(), 6, mtime=0)
        about = {"levels": DEPTH_LEVELS, "top": max(top, 1.0), "queues": self.about}
        return {"about": about, "packed": base64.b64encode(packed).decode("ascii")}
