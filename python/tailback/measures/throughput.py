"""Measures of throughput."""

from __future__ import annotations

import numpy as np

from tailback.measures.registry import NAN, measure
from tailback.measures.spans import Since, span
from tailback.recorded.bins import Array
from tailback.recorded.distinct_rows import distinct_rows
from tailback.recorded.run import Recorded, cached_by_result
from tailback.recorded.setup import ROCE
from tailback.recorded.traffic_items import bulk_goodput, goodput


def line_rate(result: Recorded, hosts: list[str]) -> float:
    """The sum of the line rates of some hosts, bit/s."""
    return float(sum(result.meta["line_rate_bps"][host] for host in hosts))


def capacity(result: Recorded) -> float:
    """What the hosts' links allow, bit/s: all senders' or all receivers' line rates together, the smaller."""
    return min(line_rate(result, result.senders), line_rate(result, result.receivers))


@measure("bit/s")
def total_goodput(
    result: Recorded, since: Since = "convergence", item: str | None = None, protocol: str | None = None
) -> float:
    """Payload per second that all receivers took together, in order."""
    begin, end = span(result, since)
    values = goodput(result, item, protocol)
    return result.bins.mean(values, begin, end) if begin == begin and values is not None else NAN


@measure("share")
def goodput_of_line_rate(result: Recorded, since: Since = "convergence") -> float:
    """Goodput, without latency tests, as a share of the line rate (senders' or receivers', the lower)."""
    limit, (begin, end) = capacity(result), span(result, since)
    return result.bins.mean(bulk_goodput(result), begin, end) / limit if limit and begin == begin else NAN


@measure("share")
def link_utilisation(result: Recorded, since: Since = "all_started") -> float:
    """Bytes that reached the receivers, whatever became of them, as a share of their line rate.

    Headers, preamble and gap count, and so do packets that were discarded as out of sequence.
    """
    begin, end = span(result, since)
    if begin != begin:
        return NAN
    rates = (
        result.bins.mean(result.bins.values(host, "wire_rx_bps"), begin, end) for host in result.receivers
    )
    return float(sum(rates)) / line_rate(result, result.receivers)


@measure("share")
@cached_by_result
def ideal_payload_share(result: Recorded) -> float:
    """Payload as a share of what the wire carries when every packet arrives once.

    Of a message of m bytes in n = ceil(m/MTU) packets: m / (m + 82 n + 16), see `tailback.recorded.setup`; of
    TCP with an MTU of 1500 B 1448 / 1538. Flows of different sizes are weighted by the bytes that they
    delivered.
    """
    # Flows of the same message size from hosts of the same MTU are alike: there may be very many.
    keys = [name for name in ("src", "message_bytes", "protocol") if name in result.flows.column_names]
    groups, number = distinct_rows(result.flows, keys)
    delivered = np.zeros(len(groups), dtype=np.int64)
    np.add.at(delivered, number, result.flows.column("bytes_delivered").to_numpy())
    for row, total in zip(groups, delivered.tolist(), strict=True):
        row["bytes_delivered"] = total
    payload = wire = 0.0
    for row in sorted(groups, key=lambda row: [str(row[key]) for key in keys]):
        each, on_wire = result.setup.on_wire(row["src"], row["message_bytes"], row.get("protocol", ROCE))
        messages = max(row["bytes_delivered"], 1) / each
        payload += each * messages
        wire += on_wire * messages
    return payload / wire if wire else NAN


@measure("share")
def goodput_of_ideal(result: Recorded, since: Since = "convergence") -> float:
    """Total goodput as a share of the most that the line rate leaves for payload after headers."""
    return goodput_of_line_rate(result, since) / ideal_payload_share(result)


@measure("index")
def goodput_variation(result: Recorded, since: Since = "convergence", window_s: float = 0.1) -> float:
    """Standard deviation divided by mean of the total goodput over windows of `window_s`."""
    begin, end = span(result, since)
    if begin != begin:
        return NAN
    return variation(result.bins.windows(result.bins.total("goodput_rx_bps"), window_s, begin, end))


def variation(values: Array) -> float:
    """Standard deviation divided by mean."""
    # Population standard deviation: these windows are all there are, not a sample. One window says nothing.
    if len(values) < 2 or values.mean() == 0:
        return NAN
    return float(values.std() / values.mean())
