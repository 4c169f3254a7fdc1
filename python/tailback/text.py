"""Formats numbers for people: SI units, three significant digits.

Bytes are decimal (1 KB = 10^3 B), rates are bit/s, as switches and NICs print them.
"""

from __future__ import annotations

import math
import re

_SI_PREFIXES = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))
MISSING = "n/a"


def significant(value: float, digits: int = 3) -> str:
    """`value` with `digits` significant digits: 0.00213 -> '0.00213', 91.27 -> '91.3', 90.98 -> '91.0'.

    A value that these digits give exactly loses its zeros at the end: 2.0 -> '2', 1.5 -> '1.5'. Settings
    usually do, measured values hardly ever.
    """
    if not math.isfinite(value):
        return MISSING
    if value == 0:
        return "0"
    decimals = digits - 1 - math.floor(math.log10(abs(value)))
    rounded = round(value, decimals)
    words = f"{rounded:.{max(decimals, 0)}f}"
    return (
        words.rstrip("0").rstrip(".")
        if "." in words and math.isclose(rounded, value, rel_tol=1e-12)
        else words
    )


def _scaled(value: float, unit: str, kilo: str = "k") -> str:
    for factor, prefix in _SI_PREFIXES:
        if abs(value) >= factor * 0.9995:
            return f"{significant(value / factor)} {kilo if prefix == 'k' else prefix}{unit}"
    return f"{significant(value)} {unit}"


def rate(bits_per_second: float) -> str:
    """91_270_000_000 -> '91.3 Gbit/s'."""
    return _scaled(bits_per_second, "bit/s") if math.isfinite(bits_per_second) else MISSING


def size(value_bytes: float) -> str:
    """150_000 -> '150 KB' (decimal)."""
    return _scaled(value_bytes, "B", kilo="K") if math.isfinite(value_bytes) else MISSING


def duration(seconds: float) -> str:
    """0.0021 -> '2.10 ms'."""
    if not math.isfinite(seconds):
        return MISSING
    for factor, unit in ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs")):
        if abs(seconds) >= factor * 0.9995:
            return f"{significant(seconds / factor)} {unit}"
    return "0 s" if seconds == 0 else f"{significant(seconds / 1e-9)} ns"


def share(value: float) -> str:
    """0.00213 -> '0.213 %', 0.91234 -> '91.2 %', 1.0 -> '100 %'."""
    if not math.isfinite(value):
        return MISSING
    percent = value * 100
    if abs(percent) < 10:
        return f"{significant(percent)} %"
    return f"{percent:.0f} %" if math.isclose(percent, round(percent), rel_tol=1e-12) else f"{percent:.1f} %"


def count(value: float) -> str:
    """1234567 -> '1,234,567'."""
    return f"{round(value):,}" if math.isfinite(value) else MISSING


def plural(number: int, noun: str) -> str:
    """(1, 'packet') -> '1 packet'; (2000, 'packet') -> '2,000 packets'; (2, 'recovery') -> '2 recoveries'.

    (2, 'switch') -> '2 switches'.
    """
    several = noun[:-1] + "ies" if noun.endswith("ery") else noun + ("es" if noun.endswith("ch") else "s")
    return f"{count(number)} {noun if number == 1 else several}"


def verb(number: int, one: str, several: str) -> str:
    """The form of a verb or pronoun for that many: (1, 'was', 'were') -> 'was'."""
    return one if number == 1 else several


def noun(number: int, one: str) -> str:
    """As `plural`, without the number: (1, 'packet') -> 'packet'; (2, 'packet') -> 'packets'."""
    return plural(number, one).partition(" ")[2]


def natural(name: str) -> tuple[tuple[int, int, str], ...]:
    """Sort key: h2 comes before h10."""
    return tuple(
        (0, int(part), "") if part.isdigit() else (1, 0, part) for part in re.split(r"(\d+)", name) if part
    )


def by_unit(value: float, unit: str) -> str:
    """`value` in the unit of a metric: 'share', 's', 'bit/s', 'B/s', 'B', 'MiB/s', 'count' or 'index'."""
    if not math.isfinite(value):
        return MISSING
    if unit == "share":
        return share(value)
    if unit == "s":
        return duration(value)
    if unit == "bit/s":
        return rate(value)
    if unit == "B/s":
        return _scaled(value, "B/s", kilo="K")
    if unit == "B":
        return size(value)
    if unit == "MiB/s":
        return f"{value:,.2f} MiB/s"
    if unit == "count":
        return count(value)
    return f"{value:.4f}" if abs(value) < 10 else significant(value, 4)
