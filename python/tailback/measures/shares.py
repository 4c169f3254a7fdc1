"""Named measures of who gets how much when, of queues and of the control loop; see `tailback.measures`."""

from __future__ import annotations

import numpy as np
import pyarrow.compute as pc

from tailback.measures.fairness import jain
from tailback.measures.registry import NAN, measure
from tailback.measures.spans import Since, since_s, span
from tailback.recorded.bins import PS_PER_S, Array
from tailback.recorded.run import Recorded
from tailback.recorded.signals import PFC_PAUSE
from tailback.recorded.traffic_items import goodput


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


@measure("index")
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


@measure("share")
def lowest_goodput(
    result: Recorded,
    since: Since = "convergence",
    window_s: float = 0.1,
    item: str | None = None,
    protocol: str | None = None,
) -> float:
    """Goodput in the worst window of `window_s` as a share of the mean; of an item, a protocol, or all."""
    begin, end = span(result, since)
    values = goodput(result, item, protocol)
    if begin != begin or values is None:
        return NAN
    windows = result.bins.windows(values, window_s, begin, end)
    return float(windows.min() / windows.mean()) if len(windows) > 1 and windows.mean() > 0 else NAN


@measure("B")
def deepest_queue_bytes(result: Recorded) -> float:
    """The most that any egress queue of the network ever held."""
    bins = result.bins
    names = [queue["queue"] for queue in result.meta["queues"] if queue["kind"] == "egress"]
    return max((float(bins.values(name, "queue_max_bytes").max(initial=0.0)) for name in names), default=0.0)


@measure("s")
def cnp_delay(result: Recorded, since: Since = "start") -> float:
    """Mean time that a CNP took from the notification point to the reaction point."""
    begin = since_s(result, since)
    if begin != begin:
        return NAN
    inside = result.bins.within(begin)
    count = float(result.bins.total("rp_cnp_handled")[inside].sum())
    return float(result.bins.total("cnp_delay_ns")[inside].sum()) / count * 1e-9 if count else NAN


@measure("s")
def paused_time(result: Recorded) -> float:
    """How long queues were paused, all added up."""
    return result.signal_log.lasted_s(PFC_PAUSE)
