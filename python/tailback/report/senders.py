"""The table of senders: those that are alike are one row, with what they share."""

from __future__ import annotations

import re
from itertools import pairwise

import numpy as np
import pyarrow.compute as pc

from tailback import metrics, text
from tailback.metrics import summarise
from tailback.recorded import traffic_items
from tailback.recorded.run import Recorded
from tailback.recorded.setup import ROCE
from tailback.report.tables import MOST_ROWS, TextTable
from tailback.scenario.network import Network

_Shared = tuple[str, int]
"""Destinations in words, and queue pairs."""
ROW_MAX_GOODPUT_RATIO = 1.05
"""Goodputs of senders in one row are at most this far apart."""
_SUMMED_COLUMNS = (
    "packets_sent",
    "packets_retransmitted",
    "packet_seq_err",
    "rp_cnp_handled",
    "local_ack_timeout_err",
)
_COUNTED_COLUMNS = ("messages_completed", *_SUMMED_COLUMNS)


def senders(result: Recorded) -> TextTable:
    """A row for senders of RoCE that are alike: what their queue pairs got, over the whole of their time."""
    # There may be ten million rows, so nothing is done with columns that are not needed.
    names = ("src", "dst", "item", "goodput_bps", *_COUNTED_COLUMNS)
    flows = result.flows.select([name for name in names if name in result.flows.column_names])
    protocols = summarise(result)["protocols"]
    both = len(protocols) > 1
    if "protocol" in result.flows.column_names and set(protocols) != {ROCE}:
        flows = pc.filter(flows, pc.equal(result.flows.column("protocol"), ROCE))
    since: metrics.Since = "start" if summarise(result)["convergence_s"] is None else "convergence"
    goodputs = metrics.fairness.sender_goodputs(result, since, protocol=ROCE if both else None)
    begun = traffic_items.sending(result, protocol=ROCE) if flows.num_rows else []
    source = pc.dictionary_encode(flows.column("src").combine_chunks())
    codes = source.indices.to_numpy(zero_copy_only=False)
    code_of = {name: code for code, name in enumerate(source.dictionary.to_pylist())}
    order = np.argsort(codes, kind="stable")
    edges = np.searchsorted(codes[order], np.arange(len(code_of) + 1))
    rates = flows.column("goodput_bps").to_numpy()[order]
    # Whole numbers below 2^53: sums of them are exact.
    counts = {
        name: np.bincount(codes, flows.column(name).to_numpy(), len(code_of)).astype(np.int64)
        for name in _COUNTED_COLUMNS
    }
    ends = {}
    for name in ("dst", "item"):
        encoded = pc.dictionary_encode(flows.column(name).combine_chunks())
        ends[name] = (encoded.indices.to_numpy(zero_copy_only=False)[order], encoded.dictionary.to_pylist())
    mine = {host: slice(int(edges[code_of[host]]), int(edges[code_of[host] + 1])) for host in begun}
    shared: dict[str, _Shared] = {}
    items_of: dict[str, tuple[str, ...]] = {}
    for host, part in mine.items():
        to, items = (tuple(names[one] for one in np.unique(found[part])) for found, names in ends.values())
        # Senders to all others have the same receivers, except for themselves.
        towards = to[0] if len(to) == 1 else text.plural(len(to), "host")
        shared[host] = (towards, part.stop - part.start)
        items_of[host] = items
    groups, network = _alike(begun, shared, goodputs), result.setup.network
    rows = []
    for hosts in groups[:MOST_ROWS]:
        every = np.concatenate([np.arange(mine[host].start, mine[host].stop) for host in hosts])
        numbers = [code_of[host] for host in hosts]
        got = [goodputs.get(host, float("nan")) for host in hosts]
        low, high = text.rate(min(got)), text.rate(max(got))
        rows.append(
            [
                in_ranges(hosts),
                text.count(len(hosts)),
                _words(network, hosts, {items_of[host] for host in hosts}, shared[hosts[0]][0]),
                low if low == high else f"{low} to {high}",
                text.count(shared[hosts[0]][1]),
                *(text.rate(float(np.quantile(rates[every], q))) for q in (0, 0.5, 1)),
                *(text.count(int(counts[name][numbers].sum())) for name in _COUNTED_COLUMNS),
            ]
        )
    left = len(groups) - len(rows)
    return TextTable(
        "flows",
        "Flows, by sender",
        "Senders to the same hosts whose goodput differs by 5 % at most are one row; what they share is "
        "beside them. Goodput of each as in the findings; of queue pairs (QPs), least, median and most, each "
        "over its own time. Counts are of all in the row. flows.parquet has a row a queue pair."
        + (f" {text.plural(left, 'further group')} left out." if left else ""),
        [
            "Senders",
            "Hosts",
            "What they share",
            "Goodput of each",
            "QPs of each",
            "Least QP",
            "Median QP",
            "Most QP",
            "Messages",
            "Packets sent",
            "Retransmitted",
            "NAKs",
            "CNPs",
            "ACK timeouts",
        ],
        rows,
        [False, True, False] + [True] * 11,
    )


def _alike(
    hosts: list[str],
    shared: dict[str, _Shared],
    goodputs: dict[str, float],
) -> list[list[str]]:
    """Hosts in groups, slowest first: to the same hosts, and of nearly the same goodput."""
    order = sorted(hosts, key=lambda host: (shared[host], goodputs.get(host, 0.0), text.natural(host)))
    groups: list[list[str]] = []
    for host in order:
        first = groups[-1][0] if groups else host
        same = groups and shared[host] == shared[first]
        if same and goodputs.get(host, 0.0) <= ROW_MAX_GOODPUT_RATIO * goodputs.get(first, 0.0):
            groups[-1].append(host)
        else:
            groups.append([host])
    groups.sort(key=lambda group: goodputs.get(group[0], 0.0))
    return [sorted(group, key=text.natural) for group in groups]


def _words(network: Network, hosts: list[str], items: set[tuple[str, ...]], towards: str) -> str:
    """Traffic, destination and switch, as far as they are the same."""
    at = {wire.b if wire.a == host else wire.a for host in hosts for wire in network.wires_of[host]}
    parts_ = [", ".join(*items)] if len(items) == 1 else []
    parts_.append(f"to {towards}")
    if len(at) == 1:
        parts_.append(f"at {at.pop()}")
    return " · ".join(parts_)


def in_ranges(names: list[str]) -> str:
    """`h0..h7, h12` of names in natural order."""
    found: list[list[str]] = []
    for before, name in pairwise(["", *names]):
        if found and _follows(before, name):
            found[-1].append(name)
        else:
            found.append([name])
    return ", ".join(run[0] if len(run) == 1 else f"{run[0]}..{run[-1]}" for run in found)


def _follows(before: str, name: str) -> bool:
    one, other = (re.fullmatch(r"(.*?)(\d+)", text_) for text_ in (before, name))
    return bool(one and other and one[1] == other[1] and int(one[2]) + 1 == int(other[2]))
