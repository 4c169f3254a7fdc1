"""Parts of a run's traffic: one traffic item, or all of a protocol; and what the time series know of each."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow.compute as pc

from tailback.bins import ITEM, Array
from tailback.remember import remembered
from tailback.setup import ROCE, TCP
from tailback.text import natural

if TYPE_CHECKING:
    from tailback.results import Result


@remembered
def items(result: Result) -> dict[str, str]:
    """The traffic items of a run, in natural order, with the protocol of each."""
    flows = result.flows
    if "writer" not in flows.column_names:
        return {}
    if "protocol" not in flows.column_names:
        return dict.fromkeys(sorted(flows.column("writer").unique().to_pylist(), key=natural), ROCE)
    pairs = flows.select(["writer", "protocol"]).group_by(["writer", "protocol"]).aggregate([]).to_pylist()
    return {row["writer"]: row["protocol"] for row in sorted(pairs, key=lambda row: natural(row["writer"]))}


def selected(result: Result, item: str | None, protocol: str | None) -> list[str] | None:
    """The items that are meant; None when that is all of them.

    Raises:
        ValueError: there is no such item in this run, or no such protocol anywhere.
    """
    known = items(result)
    if item is not None and item not in known:
        raise ValueError(f"item is {item!r}; expected one of {', '.join(known)}")
    if protocol not in (None, ROCE, TCP):
        raise ValueError(f"protocol is {protocol!r}; expected {ROCE} or {TCP}")
    kept = [name for name, speaks in known.items() if item in (None, name) and protocol in (None, speaks)]
    return None if len(kept) == len(known) else kept


def goodput(result: Result, item: str | None = None, protocol: str | None = None) -> Array | None:
    """Payload a second that receivers took in order of this part of the traffic, one value a bin.

    None where the time series do not tell the parts apart. All of it is without latency tests, as the senders
    and receivers of a run are, unless there is nothing else.
    """
    names = selected(result, item, protocol)
    told_apart = any(result.bins.has(f"{ITEM}{name}", "goodput_rx_bps") for name in items(result))
    if names is None:
        bulk = set(result.bulk.column("writer").unique().to_pylist()) if told_apart else set()
        names = [name for name in items(result) if name in bulk]
        if len(names) in (0, len(items(result))):
            return result.bins.total("goodput_rx_bps")
    if not names:
        return np.zeros(result.bins.count)
    if not told_apart:
        return None
    rows = [result.bins.values(f"{ITEM}{name}", "goodput_rx_bps") for name in names]
    return np.asarray(np.sum(rows, axis=0))


@remembered
def _items_of(result: Result) -> dict[str, set[str]]:
    """The items that each host has begun to send."""
    begun = result.flows.filter(pc.is_valid(result.flows.column("start_ps")))
    pairs = begun.select(["src", "writer"]).group_by(["src", "writer"]).aggregate([]).to_pylist()
    found: dict[str, set[str]] = {host: set() for host in result.senders}
    for row in pairs:
        found[row["src"]].add(row["writer"])
    return found


def sending(result: Result, item: str | None = None, protocol: str | None = None) -> list[str]:
    """Hosts that have begun to send any of this part of the traffic, in natural order."""
    names = selected(result, item, protocol)
    if names is None:
        return result.senders
    return [host for host, sent in _items_of(result).items() if sent & set(names)]


def sent(result: Result, host: str, item: str | None = None, protocol: str | None = None) -> Array | None:
    """Payload a second of a host's part of it, delivered in order; None where its series does not tell."""
    names = selected(result, item, protocol)
    if names is None or _items_of(result)[host] <= set(names):
        return result.bins.values(host, "goodput_tx_bps")
    kept = [f"{host}/{name}" for name in names if name in _items_of(result)[host]]
    if not all(result.bins.has(entity, "goodput_tx_bps") for entity in kept):
        return None
    return np.asarray(sum(result.bins.values(entity, "goodput_tx_bps") for entity in kept))
