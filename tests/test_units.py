"""Quantities: exact both ways, and clear about what they refuse."""

from __future__ import annotations

import contextlib
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tailback.units import (
    DURATION,
    FREQUENCY,
    I64_MAX,
    RATE,
    SIZE,
    Quantity,
    UnitError,
    duration,
    format_duration,
    format_rate,
    format_size,
    frequency,
    rate,
    size,
)


@pytest.mark.parametrize(
    ("text", "ps"),
    [
        ("2s", 2 * 10**12),
        ("500ns", 500_000),
        ("67.108864ms", 67_108_864_000),  # 4.096 us * 2^14, perftest's timeout code 14
        ("4.096us", 4_096_000),
        ("1ps", 1),
        ("0.5ns", 500),
        ("2 s", 2 * 10**12),
        ("3\u00b5s", 3_000_000),
        ("0", 0),
        (0, 0),
        ("0s", 0),
    ],
)
def test_durations(text: object, ps: int) -> None:
    assert duration(text) == ps


@pytest.mark.parametrize(
    ("text", "hertz"), [("2.4GHz", 24 * 10**8), ("3 GHz", 3 * 10**9), ("1.5kHz", 1500), ("1Hz", 1)]
)
def test_frequencies(text: str, hertz: int) -> None:
    assert frequency(text) == hertz
    assert frequency(FREQUENCY.format(hertz)) == hertz


@pytest.mark.parametrize("text", ["2.4Ghz", "2.4", 2.4, "0.5Hz", "100Gbps", "2GiHz"])
def test_no_frequencies(text: object) -> None:
    with pytest.raises(UnitError):
        frequency(text)


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("1024B", 1024),
        ("150KB", 150_000),
        ("4MiB", 4 * 2**20),
        ("1.5KiB", 1536),
        ("16MB", 16_000_000),
        ("1kB", 1000),
    ],
)
def test_sizes(text: str, count: int) -> None:
    assert size(text) == count


@pytest.mark.parametrize(
    ("text", "bps"),
    [
        ("100Gbps", 10**11),
        ("2.5Gbps", 25 * 10**8),
        ("1bps", 1),
        ("400G", 4 * 10**11),
        ("400gbps", 4 * 10**11),
        ("400 Gbit/s", 4 * 10**11),
        ("25Gbit", 25 * 10**9),
        ("10Mb/s", 10**7),
    ],
)
def test_rates(text: str, bps: int) -> None:
    assert rate(text) == bps


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0.5ps", "a whole number of picoseconds"),
        ("1.0001ns", "a whole number of picoseconds"),
        ("5", "a duration with a unit, such as 500ns"),
        (5, "a duration with a unit, such as 500ns"),
        (0.0, "a duration with a unit, such as 500ns"),
        (False, "a duration with a unit, such as 500ns"),
        (None, "a duration with a unit, such as 500ns"),
        ("-1s", "at least 0s"),
        ("1e3s", "a duration with a unit, such as 500ns"),
        ("1s ", "a duration with a unit, such as 500ns"),
        ("1s\n", "a duration with a unit, such as 500ns"),
        ("\u0661s", "a duration with a unit, such as 500ns"),  # a digit, but not one of ours
        ("1h", "a duration with a unit, such as 500ns (units: ps, ns, us, ms, s)"),
        ("1S", "a duration with a unit, such as 500ns (units: ps, ns, us, ms, s)"),
        ("9223372.036854775808s", "at most 9223372.036854775807s"),
        ("1" * 63 + "s", "at most 9223372.036854775807s"),
        ("1" * 10_000 + "s", "a duration with a unit, such as 500ns"),
    ],
)
def test_refused(text: object, expected: str) -> None:
    with pytest.raises(UnitError) as error:
        duration(text)
    assert error.value.expected == expected


def test_a_byte_is_not_cut() -> None:
    with pytest.raises(UnitError, match="a whole number of bytes"):
        size("0.3KiB")
    assert size("0.5KiB") == 512


def test_no_float_comes_near() -> None:
    # 9007199.254740993 s is 2^53 + 1 us: a float would round it.
    assert duration("9007199.254740993s") == 9_007_199_254_740_993_000
    assert duration("9223372.036854775807s") == I64_MAX


@pytest.mark.parametrize(
    ("low", "high", "text", "expected"),
    [
        ("1ps", None, "0", "more than 0"),
        ("1Mbps", "100Tbps", "1Kbps", "1Mbps to 100Tbps"),
        (None, "1s", "2s", "more than 0 and at most 1s"),
    ],
)
def test_ranges(low: str | None, high: str | None, text: str, expected: str) -> None:
    quantity = RATE if "bps" in text else DURATION
    with pytest.raises(UnitError) as error:
        quantity.between(low, high).parse(text)
    assert error.value.expected == expected


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0s"),
        (67_108_864_000, "67.108864ms"),
        (500_000, "500ns"),
        (10**11, "100ms"),
        (2_017_280, "2.01728us"),
    ],
)
def test_format_durations(value: int, text: str) -> None:
    assert format_duration(value) == text


def test_format_sizes_and_rates() -> None:
    assert [format_size(n) for n in (0, 1024, 150_000, 1_500_000, 1536, 16_000_000, 4 << 20)] == [
        *("0B", "1KiB", "150KB", "1.5MB", "1.5KiB", "16MB", "4MiB")
    ]
    assert [format_rate(n) for n in (0, 10**11, 25 * 10**8, 1)] == ["0bps", "100Gbps", "2.5Gbps", "1bps"]


@given(st.sampled_from([DURATION, SIZE, RATE]), st.integers(0, I64_MAX))
def test_format_is_exact(quantity: Quantity, value: int) -> None:
    text = quantity.format(value)
    assert quantity.parse(text) == value
    assert not text.startswith("0.")


@given(
    st.sampled_from([DURATION, SIZE, RATE]),
    st.data(),
    st.integers(0, 10**9),
    st.text("0123456789", max_size=9),
)
def test_parse_is_arithmetic(quantity: Quantity, data: st.DataObject, whole: int, fraction: str) -> None:
    unit = data.draw(st.sampled_from(sorted(quantity.units)))
    text = f"{whole}.{fraction}{unit}" if fraction else f"{whole}{unit}"
    exact = Fraction(f"{whole}.{fraction or 0}") * quantity.units[unit]
    if exact.denominator == 1 and exact <= I64_MAX:
        assert quantity.parse(text) == exact
    else:
        with pytest.raises(UnitError):
            quantity.parse(text)


@given(st.text())
def test_any_text_parses_or_is_refused(text: str) -> None:
    for quantity in (DURATION, SIZE, RATE):
        with contextlib.suppress(UnitError):
            assert quantity.parse(text) >= 0


def test_a_number_below_zero_has_its_own_words() -> None:
    with pytest.raises(UnitError) as error:
        DURATION.between("1ps", "10s").parse("-1ms")
    assert error.value.expected == "more than 0 and at most 10s"
