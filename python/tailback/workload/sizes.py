"""Distributions of message sizes: points of a cumulative distribution, with linear interpolation."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from importlib.resources import files

import numpy as np

from tailback.limits import SIZES_BYTES
from tailback.workload.draws import Floats, Ints

MAX_MESSAGE_BYTES = 2**31
"""Longest message of an RDMA WRITE (InfiniBand specification 9.7.6)."""
_DISTRIBUTIONS_DIR = files("tailback") / "distributions"


def built_in() -> list[str]:
    """Names of the distributions that come with the package."""
    return sorted(
        entry.name.removesuffix(".txt")
        for entry in _DISTRIBUTIONS_DIR.iterdir()
        if entry.name.endswith(".txt")
    )


@dataclass(frozen=True)
class Sizes:
    """`sizes` in bytes and `shares` of all messages up to them, 0 to 1, both rising."""

    name: str
    sizes: Floats
    shares: Floats

    @property
    def mean(self) -> float:
        """Mean size in bytes: between two points sizes are equally likely."""
        middles = (self.sizes[1:] + self.sizes[:-1]) / 2
        return float((middles * np.diff(self.shares)).sum()) + float(self.sizes[0] * self.shares[0])

    def at(self, shares: Floats) -> Ints:
        """The sizes that these shares of all messages do not exceed, whole bytes and at least 1."""
        after = np.clip(np.searchsorted(self.shares, shares, side="right"), 1, len(self.shares) - 1)
        low, high = self.shares[after - 1], self.shares[after]
        width = np.where(high > low, high - low, 1.0)
        step = (shares - low) / width * (self.sizes[after] - self.sizes[after - 1])
        return np.maximum(1, (self.sizes[after - 1] + step).astype(np.int64))


def load_sizes(name: str, read: Callable[[str, int], bytes]) -> Sizes:
    """Loads a distribution of the package, or one from a file.

    Raises:
        ValueError: the file is not valid; the text is one line with the place.
    """
    if name in built_in():
        return parse((_DISTRIBUTIONS_DIR / f"{name}.txt").read_bytes(), name)
    return parse(read(name, SIZES_BYTES), name)


def parse(content: bytes, name: str) -> Sizes:
    """Parses lines with a size in bytes and a share, in % or, if the last is 1, as a fraction; `#` begins a comment."""
    points: list[tuple[float, float]] = []
    last_line = 1
    for number, line in enumerate(content.decode("utf-8", "replace").splitlines(), 1):
        words = line.split("#")[0].split()
        if not words:
            continue
        if len(words) == 3:
            raise ValueError(
                f"{name}:{number}: found three columns, as pFabric's files have, whose sizes are packets; "
                "expected two: a size in bytes and a share"
            )
        try:
            size, share = map(float, words)
        except ValueError:
            raise ValueError(f"{name}:{number}: expected a size in bytes and a share in %") from None
        if not (math.isfinite(size) and 0 <= size <= MAX_MESSAGE_BYTES and 0 <= share <= 100):
            raise ValueError(f"{name}:{number}: expected 0 to 2^31 bytes and a share of 0 to 100 %")
        if points and (size < points[-1][0] or share < points[-1][1]):
            raise ValueError(f"{name}:{number}: expected sizes and shares that rise")
        points.append((size, share))
        last_line = number
    if len(points) >= 2 and points[-1][1] == 1:
        points = [(size, share * 100) for size, share in points]
    if len(points) < 2 or points[-1][1] != 100 or points[-1][0] < 1:
        last = f"{points[-1][1]:g}" if points else "nothing"
        raise ValueError(
            f"{name}:{last_line}: found {last} as the last share of {len(points)}, expected two points or "
            "more, the last at 100 (%) or 1 (a fraction)"
        )
    if points[0][1] > 0:  # the first share of messages has the first size
        points.insert(0, (points[0][0], 0.0))
    sizes, shares = (np.array(column, dtype=np.float64) for column in zip(*points, strict=True))
    found = Sizes(name, sizes, shares / 100.0)
    if found.mean < 1:  # nearly all messages would be empty, and their number unlimited
        raise ValueError(f"{name}: found a mean of {found.mean:g} bytes, expected 1 or more")
    return found
