"""The free settings as numbers: each a share of the way from 0 to 1, of which every value of a list has an
equal part.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from tailback.recorded.bins import Array

Whole = npt.NDArray[np.int64]


class Axes(NamedTuple):
    """How many values each free setting may have; 0 for a range, where it may have any."""

    counts: tuple[int, ...]

    @property
    def listed(self) -> list[int]:
        """The settings that are one of a list."""
        return [index for index, count in enumerate(self.counts) if count]

    @property
    def combinations(self) -> int:
        """Of the values of all lists."""
        return math.prod(self.counts[index] for index in self.listed)

    @property
    def only_lists(self) -> bool:
        """Whether there are no other points than these combinations."""
        return len(self.listed) == len(self.counts)

    def values(self, unknown: int) -> Array:
        """The middle of the part of each value of a list."""
        count = self.counts[unknown]
        return (np.arange(count) + 0.5) / count

    def chosen(self, points: Array, unknown: int) -> Whole:
        """The number of the value that each point has."""
        count = self.counts[unknown]
        return np.minimum((points[:, unknown] * count).astype(np.int64), count - 1)

    def columns(self, points: Array) -> Array:
        """Points such that no value of a list is nearer to one than to another: a range stays what it is, a
        list becomes a column of 0 and 1 for each value, or one for two.
        """
        made = []
        for unknown, count in enumerate(self.counts):
            if not count:
                made.append(points[:, unknown])
                continue
            chosen = self.chosen(points, unknown)
            made += [(chosen == value).astype(float) for value in range(1 if count == 2 else 0, count)]
        return np.stack(made, axis=1)

    def alike(self, one: Array, other: Array) -> Array:
        """1 where the columns of two points have the same values of all lists, a row each of the one."""
        listed = [column for column, owner in enumerate(self.owners()) if self.counts[owner]]
        return np.asarray((one[:, None, listed] == other[None, :, listed]).all(axis=2), dtype=np.float64)

    def owners(self) -> list[int]:
        """Whose each of these columns is."""
        each = [1 if count in (0, 2) else count for count in self.counts]
        return [unknown for unknown, columns in enumerate(each) for _ in range(columns)]

    def degrees(self) -> int:
        """How many ways there are to go: a list of values has as many as it has values, less one."""
        return sum(max(1, count - 1) for count in self.counts)
