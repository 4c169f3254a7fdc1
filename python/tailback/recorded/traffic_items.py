"""Time series of parts of a run's traffic: one traffic item, or all items of a protocol."""

from __future__ import annotations

import numpy as np
import pyarrow.compute as pc

from tailback.recorded.bins import Array
from tailback.recorded.distinct_rows import distinct_rows
from tailback.recorded.run import Recorded, cached_by_result
from tailback.recorded.setup import ROCE, TCP
from tailback.text import natural


@cached_by_result
def items(result: Recorded) -> dict[str, str]:
    """The traffic items of a run in natural order, and the protocol of each."""
    flows = result.flows
    if "item" not in flows.column_names:
        return {}
    if "protocol" not in flows.column_names:
        return dict.fromkeys(sorted(pc.unique(flows.column("item")).to_pylist(), key=natural), ROCE)
    pairs, _ = distinct_rows(flows, ["item", "protocol"])
    return {row["item"]: row["protocol"] for row in sorted(pairs, key=lambda row: natural(row["item"]))}


def selected(result: Recorded, item: str | None, protocol: str | None) -> list[str] | None:
    """The items with this name and protocol; None if that is all items.

    Raises:
        ValueError: the run has no such item, or there is no such protocol.
    """
    known = items(result)
    if item is not None and item not in known:
        raise ValueError(f"item is {item!r}; expected one of {', '.join(known)}")
    if protocol not in (None, ROCE, TCP):
        raise ValueError(f"protocol is {protocol!r}; expected {ROCE} or {TCP}")
    kept = [name for name, used in known.items() if item in (None, name) and protocol in (None, used)]
    return None if len(kept) == len(known) else kept


def goodput(result: Recorded, item: str | None = None, protocol: str | None = None) -> Array | None:
    """Payload in bit/s of this part of the traffic that receivers took in order, one value per bin.

    None if there are no time series for each item.
    """
    return _of_items(result, selected(result, item, protocol))


def bulk_goodput(result: Recorded) -> Array:
    """Goodput without latency tests, unless there is no other traffic.

    All goodput if there are no time series for each item.
    """
    has_items = "item" in result.bulk.column_names
    bulk = pc.unique(result.bulk.column("item")).to_pylist() if has_items else []
    found = None if len(bulk) == len(items(result)) else _of_items(result, bulk)
    return result.bins.total("goodput_rx_bps") if found is None else found


def _of_items(result: Recorded, names: list[str] | None) -> Array | None:
    if names is None:
        return result.bins.total("goodput_rx_bps")
    if not names:
        return np.zeros(result.bins.count)
    bins = result.bins
    if not any(bins.has(bins.of_item(name), "goodput_rx_bps") for name in items(result)):
        return None
    rows = [bins.values(bins.of_item(name), "goodput_rx_bps") for name in names]
    return np.asarray(np.sum(rows, axis=0))


@cached_by_result
def _items_of(result: Recorded) -> dict[str, set[str]]:
    """The items that each host has begun to send."""
    begun = pc.filter(result.flows.select(["src", "item"]), pc.is_valid(result.flows.column("start_ps")))
    pairs, _ = distinct_rows(begun, ["src", "item"])
    found: dict[str, set[str]] = {}
    for row in sorted(pairs, key=lambda row: natural(row["src"])):
        found.setdefault(row["src"], set()).add(row["item"])
    return found


def sending(result: Recorded, item: str | None = None, protocol: str | None = None) -> list[str]:
    """Hosts that have begun to send this part of the traffic, in natural order. Latency tests count only if the
    part is nothing else.
    """
    names = selected(result, item, protocol)
    if names is None:
        return result.senders
    bulk = set(names) - result.latency_tests or set(names)
    return [host for host, sent in _items_of(result).items() if sent & bulk]


def sent(result: Recorded, host: str, item: str | None = None, protocol: str | None = None) -> Array | None:
    """Payload in bit/s that a host sent of this part and that was delivered in order; None if there are no time
    series for each item.
    """
    names = selected(result, item, protocol)
    if names is None or _items_of(result)[host] <= set(names):
        return result.bins.values(host, "goodput_tx_bps")
    kept = [result.bins.of_item(name, host) for name in names if name in _items_of(result)[host]]
    if not all(result.bins.has(entity, "goodput_tx_bps") for entity in kept):
        return None
    return np.asarray(sum(result.bins.values(entity, "goodput_tx_bps") for entity in kept))
