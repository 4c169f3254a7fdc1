"""How fairly senders share."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pyarrow.compute as pc

from tailback import text
from tailback.files.json import number
from tailback.metrics.finding import Finding, finding
from tailback.metrics.metric import NAN, metric, metric_at, part, summarise
from tailback.metrics.spans import Since, since_s, span
from tailback.metrics.throughput import variation
from tailback.recorded.bins import PS_PER_S, Array
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


@metric("index", "fairness.jain", title="Fairness (Jain)", since="steady")
def jain_index(
    result: Recorded, since: Since = "convergence", item: str | None = None, protocol: str | None = None
) -> float:
    """Jain's fairness index of the senders' goodputs."""
    return jain(list(sender_goodputs(result, since, item, protocol).values()))


@metric("index", "fairness.min_max_ratio", since="steady")
def min_max_ratio(
    result: Recorded, since: Since = "convergence", item: str | None = None, protocol: str | None = None
) -> float:
    """Goodput of the slowest sender divided by that of the fastest."""
    return min_max(list(sender_goodputs(result, since, item, protocol).values()))


def min_max(values: list[float]) -> float:
    """The smallest divided by the largest."""
    return min(values) / max(values) if values and max(values) > 0 else NAN


@metric("index", "fairness.variation_100ms", since="steady")
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


@part("fairness.senders")
def _senders(result: Recorded) -> int:
    return len(result.senders)


@part("fairness.slowest")
def _slowest(result: Recorded) -> dict[str, Any] | None:
    goodputs = sender_goodputs(result, "steady")
    host = min(goodputs, key=lambda host: goodputs[host], default=None)
    return None if host is None else {"host": host, "bps": number(goodputs[host])}


@part("fairness.fastest")
def _fastest(result: Recorded) -> dict[str, Any] | None:
    goodputs = sender_goodputs(result, "steady")
    host = max(goodputs, key=lambda host: goodputs[host], default=None)
    return None if host is None else {"host": host, "bps": number(goodputs[host])}


metric_at("fairness.slowest.bps", "bit/s", about="Goodput of the slowest sender.")
metric_at("fairness.fastest.bps", "bit/s", about="Goodput of the fastest sender.")


def connection_time(result: Recorded, edges_s: Array) -> dict[str, Array]:
    """How long the queue pairs of each sender ran in each window, all together: seconds, by host.

    `edges_s`: borders of the windows, one more than there are windows.
    """
    table = result.flows.select(["src", "start_ps", "end_ps"])
    table = pc.filter(table, pc.is_valid(table.column("start_ps")))
    encoded = pc.dictionary_encode(table.column("src").combine_chunks())
    codes = encoded.indices.to_numpy(zero_copy_only=False)
    start = table.column("start_ps").to_numpy() / PS_PER_S
    end = pc.fill_null(table.column("end_ps"), int(result.meta["end_ps"])).to_numpy() / PS_PER_S
    times = {}
    for code, host in enumerate(encoded.dictionary.to_pylist()):
        mine = codes == code
        # What ran before a border, all together; the difference of two is what ran between them.
        before = [
            np.minimum(np.maximum(edge - start[mine], 0.0), end[mine] - start[mine]).sum() for edge in edges_s
        ]
        times[host] = np.diff(before)
    return times


def goodput_per_connection(result: Recorded, since: Since, window_s: float) -> dict[str, Array]:
    """Goodput of each sender over the queue pairs that it had running, bit/s, a value a window to the end of
    the run; NaN where none ran.
    """
    begin = since_s(result, since)
    if begin != begin:
        return {}
    length = max(window_s, result.bins.bin_s)
    count = int((result.bins.end_s - begin) / length + 1e-9)
    if count < 1:
        return {}
    edges: Array = begin + np.arange(count + 1, dtype=np.float64) * length
    width = np.diff(edges)
    rates = {}
    for host, seconds in connection_time(result, edges).items():
        rate = result.bins.windows(result.bins.values(host, "goodput_tx_bps"), window_s, begin)
        bits = rate[:count] * width
        rates[host] = np.divide(bits, seconds, out=np.full(count, NAN), where=seconds > 0)
    return rates


@metric("index")
def jain_of_connections(result: Recorded, since: Since = "all_started", window_s: float = 1.0) -> float:
    """Jain's index of the senders' goodputs per running queue pair in each window, averaged over the windows.

    Where senders have unequal numbers of queue pairs at work, a fair share is one for each queue pair.
    """
    rates = goodput_per_connection(result, since, window_s)
    if not rates:
        return NAN
    rows = np.stack(list(rates.values()))
    found = [jain(column[np.isfinite(column)].tolist()) for column in rows.T]
    return float(np.mean(found))


@finding(70)
def fairness_finding(result: Recorded) -> list[Finding]:
    summary = summarise(result)
    fairness = summary["fairness"]
    # Senders of single messages send what they drew: that they differ says nothing of the network.
    if fairness["senders"] < 2 or not summary["flows"]["writers"]:
        return []
    if fairness["jain"] is None:
        return [Finding("Fairness", text.MISSING, "No sender delivered anything.", "warning")]
    slowest, fastest = fairness["slowest"], fairness["fastest"]
    since = summary["convergence_s"]
    span = f"since {text.duration(since)}" if since else "over the whole run"
    words = f"Jain's index over {text.plural(fairness['senders'], 'sender')}, {span}. "
    if slowest["bps"] == fastest["bps"]:
        words += f"Each got {text.rate(slowest['bps'])}."
    else:
        words += (
            f"The slowest, {slowest['host']}, got {text.rate(slowest['bps'])}; the fastest, "
            f"{fastest['host']}, {text.rate(fastest['bps'])} (min/max {fairness['min_max_ratio']:.2f})."
        )
    return [Finding("Fairness", f"{fairness['jain']:.3f}", words)]
