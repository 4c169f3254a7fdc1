"""Measures of how fairly senders share."""

from __future__ import annotations

import math

from tailback.measures.registry import NAN, measure
from tailback.measures.spans import Since, span
from tailback.measures.throughput import variation
from tailback.recorded.run import Recorded
from tailback.recorded.traffic_items import sending, sent


def sender_goodputs(
    result: Recorded, since: Since = "convergence", item: str | None = None, protocol: str | None = None
) -> dict[str, float]:
    """Goodput of each sender in bit/s over the span, in natural order.

    Empty when the span is, and when a host sends more than is meant and its series does not tell the parts
    apart.
    """
    begin, end = span(result, since)
    if begin != begin:
        return {}
    rows = {host: sent(result, host, item, protocol) for host in sending(result, item, protocol)}
    told = {host: row for host, row in rows.items() if row is not None}
    return result.bins.means(told, begin, end) if len(told) == len(rows) else {}


def jain(values: list[float]) -> float:
    """Jain's fairness index (sum x)^2 / (n sum x^2): 1 when all are equal, 1/n when one has everything.

    Jain, Chiu, Hawe: A Quantitative Measure of Fairness and Discrimination, DEC TR-301, 1984.
    """
    squares = sum(value * value for value in values)
    return sum(values) ** 2 / (len(values) * squares) if squares else NAN


@measure("index")
def jain_index(
    result: Recorded, since: Since = "convergence", item: str | None = None, protocol: str | None = None
) -> float:
    """Jain's fairness index of the senders' goodputs."""
    return jain(list(sender_goodputs(result, since, item, protocol).values()))


@measure("index")
def min_max_ratio(
    result: Recorded, since: Since = "convergence", item: str | None = None, protocol: str | None = None
) -> float:
    """Goodput of the slowest sender divided by that of the fastest."""
    return min_max(list(sender_goodputs(result, since, item, protocol).values()))


def min_max(values: list[float]) -> float:
    """The smallest divided by the largest."""
    return min(values) / max(values) if values and max(values) > 0 else NAN


@measure("index")
def sender_variation(result: Recorded, since: Since = "convergence", window_s: float = 0.1) -> float:
    """Coefficient of variation of one sender's goodput over windows of `window_s`; that of the least stable
    sender.
    """
    begin, end = span(result, since)
    if begin != begin:
        return NAN
    rows = (result.bins.values(host, "goodput_tx_bps") for host in result.senders)
    variations = [variation(result.bins.windows(row, window_s, begin, end)) for row in rows]
    return max(variations) if variations and all(map(math.isfinite, variations)) else NAN
