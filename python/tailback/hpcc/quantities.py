"""Rates and times as ns-3 parses them (`DataRate` and `Time`), and its conversion to nanoseconds.

Source: ns-3's manual, chapters "Attributes" and "Time"; the rounding as facts from its classes `DataRate`,
`Time` and `int64x64_t`. ns-3 parses a number as a double first.
"""

from __future__ import annotations

import re

from tailback.hpcc.tokens import I64_MAX, U64_MAX

_RATE_PATTERN = re.compile(rb"([0-9]*\.?[0-9]*)([A-Za-z/]*)")
_TIME_PATTERN = re.compile(rb"\+?([0-9]*\.?[0-9]*)([a-z]*)")
_MAX_QUANTITY_CHARS = 40

_RATE_PREFIXES = {"": 1, "k": 10**3, "K": 10**3, "M": 10**6, "G": 10**9}
_BINARY_PREFIXES = {"Ki": 2**10, "Mi": 2**20, "Gi": 2**30}
RATE_UNITS = {
    f"{prefix}{unit}": factor * bits
    for prefix, factor in (_RATE_PREFIXES | _BINARY_PREFIXES).items()
    for unit, bits in (("bps", 1), ("b/s", 1), ("Bps", 8), ("B/s", 8))
}
"""Bit/s of each unit of a rate."""
TIME_UNITS_FS = {"s": 10**15, "ms": 10**12, "us": 10**9, "ns": 10**6, "ps": 10**3, "fs": 1}
"""Femtoseconds of each unit of a time."""

RATE_IN_WORDS = "a rate, such as 100Gbps or 25Gb/s"
TIME_IN_WORDS = "a time, such as 1000ns, 0.001ms or 1us"


def nanoseconds(value: float, unit_ns: int = 10**9, nearest: bool = False) -> int:
    """Converts `value` units of `unit_ns` to whole nanoseconds as ns-3 does: to a fixed-point number with 64
    fractional bits, then rounded down; later versions of ns-3 round to the `nearest`. `value` is not negative.
    """
    numerator, denominator = value.as_integer_ratio()
    fixed = (numerator << 64) // denominator
    return (fixed * unit_ns + (nearest << 63)) >> 64


def rate_bps(text: bytes) -> int | None:
    """A `DataRate` in bit/s, rounded down; without a unit it is in bit/s. None if it is not a rate above 0."""
    match = _RATE_PATTERN.fullmatch(text) if len(text) <= _MAX_QUANTITY_CHARS else None
    if match is None or match[1] in (b"", b"."):
        return None
    factor = RATE_UNITS.get(match[2].decode()) if match[2] else 1
    if factor is None:
        return None
    product = float(match[1]) * factor
    return int(product) if 1 <= product <= U64_MAX else None


def time_ns(text: bytes, nearest: bool = False) -> int | None:
    """A `Time` in whole nanoseconds, rounded as `nanoseconds` does; without a unit it is in seconds.

    None if it is not a time.
    """
    match = _TIME_PATTERN.fullmatch(text) if len(text) <= _MAX_QUANTITY_CHARS else None
    if match is None or match[1] in (b"", b"."):
        return None
    femtoseconds = TIME_UNITS_FS.get(match[2].decode() or "s")
    if femtoseconds is None:
        return None
    value = float(match[1])
    # ns-3 divides units below the nanosecond instead of multiplying them.
    found = (
        nanoseconds(value, femtoseconds // 10**6, nearest)
        if femtoseconds >= 10**6
        else int(value * femtoseconds) // 10**6
    )
    return found if found <= I64_MAX else None
