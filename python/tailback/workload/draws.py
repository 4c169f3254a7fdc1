"""Random numbers for workloads: the same on every machine and with every version of the libraries.

The bits are those of PCG64 (O'Neill 2014), seeded through `SeedSequence`. NumPy guarantees both streams (NEP 19),
but not the distributions of `Generator`. Everything else uses only + - * /, which give the same result on every
machine; `numpy.log` does not.

Every traffic item and every host in it has its own stream, identified by the numbers of both: an item that is
added at the end, or a host, changes no other draw.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Bits = npt.NDArray[np.uint64]

_LN2 = 0.6931471805599453
_SQRT_HALF = 0.7071067811865476


def raw(seed: int, item: int, stream: int, count: int) -> Bits:
    """The first `count` numbers of 64 bits of a stream."""
    return np.random.PCG64(np.random.SeedSequence([seed, item, stream])).random_raw(count)


def unit(bits: Bits) -> Floats:
    """Numbers in [0, 1), from the upper 53 bits."""
    return np.asarray((bits >> np.uint64(11)).astype(np.float64) * 2.0**-53)


def below(bits: Bits, limit: int | Ints) -> Ints:
    """Integers in [0, limit), from the upper 32 bits; `limit` up to 2^31.

    The bias is less than limit / 2^32: below one in a million for 4000 hosts.
    """
    upper = bits >> np.uint64(32)
    return ((upper * np.asarray(limit, dtype=np.uint64)) >> np.uint64(32)).astype(np.int64)


def natural_log(values: Floats) -> Floats:
    """ln of positive numbers, within 2 units in the last place: 2 atanh((m - 1) / (m + 1)) + e ln 2."""
    mantissa, exponent = np.frexp(values)
    low = mantissa < _SQRT_HALF
    mantissa = np.where(low, mantissa * 2.0, mantissa)
    exponent = np.where(low, exponent - 1, exponent)
    z = (mantissa - 1.0) / (mantissa + 1.0)
    square = z * z
    total = np.zeros_like(z)
    for term in range(23, 0, -2):  # |z| is at most 0.172: the next term is below 1e-19
        total = total * square
        total = total + 1.0 / term
    return np.asarray(total * z * 2.0 + exponent * _LN2)


def exponential(bits: Bits) -> Floats:
    """Exponentially distributed numbers of mean 1."""
    return -natural_log(1.0 - unit(bits))


def derangement(seed: int, item: int, round_: int, count: int) -> Ints:
    """A random permutation of 0 to count - 1 without a fixed point, uniformly distributed; count above 1.

    Draws permutations until one has no fixed point: one in e.
    """
    drawn, attempts = 0, 16
    while True:
        keys = raw(seed, item, round_, attempts * count).reshape(attempts, count)
        for row in keys[drawn:]:
            order = np.argsort(row, kind="stable").astype(np.int64)
            if (order != np.arange(count)).all():
                return order
        drawn, attempts = attempts, attempts * 2


def sample(bits: Bits, count: int, wanted: int) -> Ints:
    """`wanted` different numbers below `count` in random order, from `wanted` draws (Fisher and Yates)."""
    places = np.arange(wanted, dtype=np.int64)
    others = (places + below(bits[:wanted], count - places)).tolist()
    moved: dict[int, int] = {}
    chosen = []
    for place, other in enumerate(others):
        chosen.append(moved.get(other, other))
        moved[other] = moved.get(place, place)
    return np.array(chosen, dtype=np.int64)
