"""Named measures on a run: one definition each, used by the summary, the report and the published claims
alike.

A measure is a function of a `Result` and keyword parameters that gives one float; NaN means "cannot be said
of this run" (no sender, never converged, run too short). `since` tells where the measured span begins:
"start" (0 s), "all_started" (the start of the last flow), "settled" (`SETTLING_S` after that), "convergence"
(`convergence_time`) or a number of seconds. The span ends where the first flow ends, or with the run, unless
the measure says otherwise.

A *sender* is a host that posts messages; per-sender figures are the payload delivered in order at the
receivers. `item` (the name of a traffic item, such as tcp1) and `protocol` ("roce" or "tcp") keep that part
of the traffic; with neither, all of it counts. Measures of TCP and of hosts are in `tailback.measures_hosts`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tailback.bins import PS_PER_S, Array
from tailback.parts import goodput, sending, sent
from tailback.remember import remembered
from tailback.setup import ROCE
from tailback.text import natural

if TYPE_CHECKING:
    from tailback.results import Result

Since = str | float
NAN = float("nan")

SETTLING_S = 0.1
"""What is let pass after the last flow's start before a run counts as settled: a tenth of the one-second
samples that published measurements are mostly given in.
"""

STEADY_WINDOW_S = 0.01
"""What a total is averaged over before it is called steady; in less than two of these nothing can be said."""


@dataclass(frozen=True)
class Measure:
    """A named measure: `unit` is 'share', 's', 'bit/s', 'B/s', 'B', 'MiB/s', 'count' or 'index'."""

    name: str
    unit: str
    function: Callable[..., float]

    @property
    def about(self) -> str:
        """The definition in one line."""
        return (self.function.__doc__ or "").strip().splitlines()[0]

    def __call__(self, result: Result, **params: Any) -> float:
        """Measure a result."""
        return float(self.function(result, **params))


MEASURES: dict[str, Measure] = {}


def measure(unit: str) -> Callable[[Callable[..., float]], Callable[..., float]]:
    """Register a function under its own name."""

    def register(function: Callable[..., float]) -> Callable[..., float]:
        MEASURES[function.__name__] = Measure(function.__name__, unit, function)
        return function

    return register


# Spans


def since_s(result: Result, since: Since) -> float:
    """The beginning of a measured span in seconds; NaN when the run never got there."""
    if isinstance(since, (int, float)):
        return float(since)
    if since == "start":
        return 0.0
    if since == "all_started":
        return last_start(result)
    if since == "settled":
        return last_start(result) + SETTLING_S
    if since == "convergence":
        return convergence_time(result)
    raise ValueError(
        f"since is {since!r}; expected a number of seconds, start, all_started, settled or convergence"
    )


@measure("s")
def last_start(result: Result) -> float:
    """When the last flow started."""
    last = pc.max(_lasting(result).column("start_ps")).as_py()
    return NAN if last is None else float(last / PS_PER_S)


def first_end(result: Result) -> float:
    """When the first flow was done, in seconds; the end of the run if none was. A failed flow is not done."""
    flows = _lasting(result).select(["state", "end_ps"])  # texts take long to filter
    first = pc.min(flows.filter(pc.equal(flows.column("state"), "done")).column("end_ps")).as_py()
    return float(result.bins.end_s if first is None else min(first / PS_PER_S, result.bins.end_s))


def _lasting(result: Result) -> Any:
    """The flows that a steady state can be one of: writers', or all flows where there are no writers.

    Connections that come and go are left out where others stay.
    """
    flows = result.flows
    passing = pa.array([name for name, stays in _writers(result).items() if not stays], pa.string())
    if len(passing) and any(_writers(result).values()):
        flows = flows.filter(pc.invert(pc.is_in(flows.column("writer"), passing)))
    if not result.setup.writer_qps or "ideal_fct_ps" not in flows.column_names:
        return flows
    return flows.filter(pc.is_null(flows.column("ideal_fct_ps")))


def _writers(result: Result) -> dict[str, bool]:
    """The traffic items with writers, and whether their connections stay."""
    return {
        str(writer["name"]): not str(writer["name"]).startswith("churn") and not writer.get("partner")
        for writer in result.plan.get("writers", [])
    }


def span(result: Result, since: Since) -> tuple[float, float]:
    """Begin and end of what is measured, in seconds; NaN twice when there is nothing."""
    begin, end = since_s(result, since), first_end(result)
    if since == "start":  # everything that was sent, flows that ended included
        end = result.bins.end_s
    return (begin, end) if begin < end else (NAN, NAN)


# Throughput


def line_rate(result: Result, hosts: list[str]) -> float:
    """The sum of the line rates of some hosts, bit/s."""
    return float(sum(result.meta["line_rate_bps"][host] for host in hosts))


def capacity(result: Result) -> float:
    """What the hosts' links allow, bit/s: all senders' or all receivers' line rates together, the smaller."""
    return min(line_rate(result, result.senders), line_rate(result, result.receivers))


@measure("bit/s")
def total_goodput(
    result: Result, since: Since = "convergence", item: str | None = None, protocol: str | None = None
) -> float:
    """Payload a second that all receivers took together, in order."""
    begin, end = span(result, since)
    values = goodput(result, item, protocol)
    return result.bins.mean(values, begin, end) if begin == begin and values is not None else NAN


@measure("share")
def goodput_of_line_rate(result: Result, since: Since = "convergence") -> float:
    """Total goodput as a share of the line rate (senders' or receivers' links, whichever is less)."""
    limit = capacity(result)
    return total_goodput(result, since) / limit if limit else NAN


@measure("share")
def link_utilisation(result: Result, since: Since = "all_started") -> float:
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
@remembered
def ideal_payload_share(result: Result) -> float:
    """Payload as a share of what the wire carries when every packet arrives once.

    Of a message of m bytes in n = ceil(m/MTU) packets: m / (m + 82 n + 16), see `tailback.setup`; of TCP with
    an MTU of 1500 B 1448 / 1538. Flows of different sizes are weighted by the bytes that they delivered.
    """
    # Flows of the same message size from hosts of the same MTU are alike: there may be very many.
    keys = [name for name in ("src", "message_bytes", "protocol") if name in result.flows.column_names]
    groups = result.flows.group_by(keys).aggregate([("bytes_delivered", "sum")]).to_pylist()
    payload = wire = 0.0
    for row in sorted(groups, key=lambda row: [str(row[key]) for key in keys]):
        each, on_wire = result.setup.on_wire(row["src"], row["message_bytes"], row.get("protocol", ROCE))
        messages = max(row["bytes_delivered_sum"], 1) / each
        payload += each * messages
        wire += on_wire * messages
    return payload / wire if wire else NAN


@measure("share")
def goodput_of_ideal(result: Result, since: Since = "convergence") -> float:
    """Total goodput as a share of the most that the line rate leaves for payload after headers."""
    return goodput_of_line_rate(result, since) / ideal_payload_share(result)


@measure("index")
def goodput_variation(result: Result, since: Since = "convergence", window_s: float = 0.1) -> float:
    """Standard deviation divided by mean of the total goodput over windows of `window_s`."""
    begin, end = span(result, since)
    if begin != begin:
        return NAN
    return _variation(result.bins.windows(result.bins.total("goodput_rx_bps"), window_s, begin, end))


def _variation(values: Array) -> float:
    # Population standard deviation: these windows are all there are, not a sample. One window says nothing.
    if len(values) < 2 or values.mean() == 0:
        return NAN
    return float(values.std() / values.mean())


@measure("s")
def convergence_time(result: Result, window_s: float = STEADY_WINDOW_S, tolerance: float = 0.05) -> float:
    """When the total goodput became steady: from here on every `window_s` mean is within `tolerance` of the
    median.

    The median is that of the windows in the second half of the span between the start of the last flow and
    the end of the first; the time is never before the start of the last flow. NaN when the last window is
    outside, or when there are fewer than two windows.
    """
    begin, end = span(result, "all_started")
    if begin != begin:
        return NAN
    means = result.bins.windows(result.bins.total("goodput_rx_bps"), window_s, begin, end)
    if len(means) < 2:
        return NAN
    level = float(np.median(means[len(means) // 2 :]))
    outside = np.flatnonzero(np.abs(means - level) > tolerance * level)
    first_inside = int(outside[-1]) + 1 if len(outside) else 0
    if first_inside >= len(means):
        return NAN
    return begin + first_inside * max(window_s, result.bins.bin_s)


# Fairness


def sender_goodputs(
    result: Result, since: Since = "convergence", item: str | None = None, protocol: str | None = None
) -> dict[str, float]:
    """Goodput of each sender in bit/s over the span, in natural order.

    Empty when the span is, and when a host sends more than is meant and its series does not tell the parts
    apart.
    """
    begin, end = span(result, since)
    if begin != begin:
        return {}
    rows = {host: sent(result, host, item, protocol) for host in sending(result, item, protocol)}
    found = {host: result.bins.mean(row, begin, end) for host, row in rows.items() if row is not None}
    return found if len(found) == len(rows) else {}


def jain(values: list[float]) -> float:
    """Jain's fairness index (sum x)^2 / (n sum x^2): 1 when all are equal, 1/n when one has everything.

    Jain, Chiu, Hawe: A Quantitative Measure of Fairness and Discrimination, DEC TR-301, 1984.
    """
    squares = sum(value * value for value in values)
    return sum(values) ** 2 / (len(values) * squares) if squares else NAN


@measure("index")
def jain_index(
    result: Result, since: Since = "convergence", item: str | None = None, protocol: str | None = None
) -> float:
    """Jain's fairness index of the senders' goodputs."""
    return jain(list(sender_goodputs(result, since, item, protocol).values()))


@measure("index")
def min_max_ratio(
    result: Result, since: Since = "convergence", item: str | None = None, protocol: str | None = None
) -> float:
    """Goodput of the slowest sender divided by that of the fastest."""
    goodputs = sender_goodputs(result, since, item, protocol).values()
    return min(goodputs) / max(goodputs) if goodputs and max(goodputs) > 0 else NAN


@measure("index")
def sender_variation(result: Result, since: Since = "convergence", window_s: float = 0.1) -> float:
    """Coefficient of variation of one sender's goodput over windows of `window_s`; that of the least stable
    sender.
    """
    begin, end = span(result, since)
    if begin != begin:
        return NAN
    rows = (result.bins.values(host, "goodput_tx_bps") for host in result.senders)
    variations = [_variation(result.bins.windows(row, window_s, begin, end)) for row in rows]
    return max(variations) if variations and all(map(math.isfinite, variations)) else NAN


# Losses and signals: counted to the end of the run, whether flows have ended or not


def _counted(result: Result, metric: str, since: Since, until_s: float | None = None) -> float:
    begin = since_s(result, since)
    if begin != begin:
        return NAN
    return float(result.bins.total(metric)[result.bins.within(begin, until_s)].sum())


def _windows_with(result: Result, metric: str, since: Since, window_s: float) -> float:
    begin = since_s(result, since)
    if begin != begin:
        return NAN
    windows = result.bins.windows(result.bins.total(metric), window_s, begin)
    return float((windows > 0).mean()) if len(windows) else NAN


def _last(result: Result, metric: str) -> float:
    """End of the last bin in which a count was not zero."""
    found = np.flatnonzero(result.bins.total(metric))
    return float(result.bins.start_s[found[-1]] + result.bins.width_s[found[-1]]) if len(found) else 0.0


@measure("count")
def dropped_packets(result: Result, since: Since = "start") -> float:
    """Packets dropped, at any queue and for any reason."""
    if since == "start":
        return float(sum(drop["packets"] for drop in result.meta["drops"]))
    return _counted(result, "dropped", since)


@measure("share")
def windows_with_drops(result: Result, since: Since = "all_started", window_s: float = 0.1) -> float:
    """Share of the windows of `window_s`, to the end of the run, in which at least one packet was dropped."""
    return _windows_with(result, "dropped", since, window_s)


@measure("count")
def naks(result: Result, since: Since = "start", until_s: float | None = None) -> float:
    """NAKs for a packet out of sequence, counted at the senders (mlx5: packet_seq_err)."""
    return _counted(result, "packet_seq_err", since, until_s)


@measure("share")
def windows_with_naks(result: Result, since: Since = "all_started", window_s: float = 0.1) -> float:
    """Share of the windows of `window_s`, to the end of the run, in which a sender got a NAK."""
    return _windows_with(result, "packet_seq_err", since, window_s)


@measure("s")
def last_nak(result: Result) -> float:
    """When the last NAK came (end of its bin); 0 when none did."""
    return _last(result, "packet_seq_err")


@measure("s")
def naks_after_last_start(result: Result) -> float:
    """For how long after the last flow had started NAKs still came; 0 when none came after that."""
    return max(0.0, last_nak(result) - last_start(result))


@measure("count")
def marked_packets(result: Result, since: Since = "start") -> float:
    """Packets that a queue marked CE."""
    if since == "start" and not result.records_all:
        counters = result.counters
        names = pc.starts_with(counters.column("counter"), "ecn_marked_tc_")
        return float(pc.sum(counters.filter(names).column("value")).as_py() or 0)
    return _counted(result, "ecn_marked", since)


@measure("count")
def cnps(result: Result, since: Since = "start") -> float:
    """CNPs that receivers sent."""
    return _counted(result, "np_cnp_sent", since)


@measure("share")
def retransmitted_share(result: Result) -> float:
    """Data packets sent again as a share of all data packets sent, over the whole run."""
    sent = pc.sum(result.flows.column("packets_sent")).as_py()
    return float(pc.sum(result.flows.column("packets_retransmitted")).as_py() / sent) if sent else NAN


@measure("count")
def failed_flows(result: Result) -> float:
    """Queue pairs that ended in error."""
    return float(pc.sum(pc.equal(result.flows.column("state"), "error")).as_py() or 0)


# Pauses


@measure("share")
def largest_pause_share(result: Result) -> float:
    """Largest share of a second of the run (0 to 1 s, 1 to 2 s, ...) that a port's priority was paused."""
    return max((pause["max_share_of_a_second"] for pause in result.meta["pauses"]), default=0.0)


@measure("s")
def last_pause(result: Result) -> float:
    """When the last pause ended; 0 when there was none."""
    return max((pause["last_pause_ps"] or 0 for pause in result.meta["pauses"]), default=0) / PS_PER_S


@measure("s")
def pauses_after_last_start(result: Result) -> float:
    """For how long after the last flow had started pauses still came; 0 when none came after that."""
    return max(0.0, last_pause(result) - last_start(result))


@measure("share")
def pause_share(result: Result, since: Since = "start") -> float:
    """Share of the time since `since`, to the end of the run, that the most paused queue was paused."""
    begin = since_s(result, since)
    if begin != begin:
        return NAN
    bins = result.bins
    return max(
        (bins.mean(bins.values(queue, "paused_share"), begin) for queue in bins.entities("paused_share")),
        default=0.0,
    )


@measure("count")
def pause_frames(result: Result) -> float:
    """PFC frames received by all ports, resumes and refreshes included."""
    return float(sum(pause["rx_frames"] for pause in result.meta["pauses"]))


# Queues


@dataclass(frozen=True)
class Standing:
    """The queue of the network that held most: `mean_bytes` is time-weighted, `share` of all such queues
    together.

    `max_bytes` is the deepest that this queue ever was, in the whole run.
    """

    queue: str
    mean_bytes: float
    max_bytes: float
    share: float


_STANDING = ("egress", "tx-ring", "qdisc", "rx-ring")
"""Queues of the network: of switches and of bridges."""


def standing_queue(result: Result, since: Since = "start") -> Standing | None:
    """Which egress queue held the most bytes, time-weighted, relative to all egress queues; None when all
    were empty.

    Ingress groups are left out, being a second account of the same bytes in the same buffer, and so are send
    queues, which the application fills as deep as it likes.
    """
    begin = since_s(result, since)
    if begin != begin:
        return None
    bins = result.bins
    names = sorted(
        (queue["queue"] for queue in result.meta["queues"] if queue["kind"] in _STANDING), key=natural
    )
    means = {name: bins.mean(bins.values(name, "queue_mean_bytes"), begin) for name in names}
    total = sum(means.values())
    if not means or not total > 0:
        return None
    fullest = max(names, key=lambda name: means[name])
    peak = float(bins.values(fullest, "queue_max_bytes").max(initial=0.0))
    return Standing(fullest, means[fullest], peak, means[fullest] / total)


@measure("B")
def standing_queue_bytes(result: Result, since: Since = "convergence") -> float:
    """Time-weighted mean of the fullest egress queue."""
    found = standing_queue(result, since)
    return found.mean_bytes if found else 0.0


# The other measures register themselves, too.
from tailback import measures_bridge as _measures_bridge  # noqa: E402, F401
from tailback import measures_counters as _measures_counters  # noqa: E402, F401
from tailback import measures_hosts as _measures_hosts  # noqa: E402, F401
from tailback import measures_path as _measures_path  # noqa: E402, F401
from tailback import measures_shares as _measures_shares  # noqa: E402, F401
from tailback import measures_veth as _measures_veth  # noqa: E402, F401
