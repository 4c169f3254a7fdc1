"""Throughput: payload that receivers took, in order."""

from __future__ import annotations

import math

from tailback import text
from tailback.metrics.finding import Finding, finding, since_in_words
from tailback.metrics.links import capacity, ideal_payload_share, line_rate
from tailback.metrics.metric import NAN, metric, metric_at, summarise
from tailback.metrics.spans import Since, span
from tailback.recorded.bins import PS_PER_S, Array
from tailback.recorded.run import Recorded
from tailback.recorded.traffic_items import bulk_goodput, goodput


@metric("bit/s", "goodput.total_bps", title="Throughput", since="steady")
def total_goodput(
    result: Recorded, since: Since = "convergence", item: str | None = None, protocol: str | None = None
) -> float:
    """Payload per second that all receivers took together, in order."""
    begin, end = span(result, since)
    values = goodput(result, item, protocol)
    return result.bins.mean(values, begin, end) if begin == begin and values is not None else NAN


metric_at("goodput.whole_run_bps", "bit/s", total_goodput, since="start")


@metric("share", "goodput.of_line_rate", since="steady")
def goodput_of_line_rate(result: Recorded, since: Since = "convergence") -> float:
    """Goodput, without latency tests, as a share of the line rate (senders' or receivers', the lower)."""
    limit, (begin, end) = capacity(result), span(result, since)
    return result.bins.mean(bulk_goodput(result), begin, end) / limit if limit and begin == begin else NAN


@metric("share")
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


@metric("share", "goodput.of_ideal", since="steady")
def goodput_of_ideal(result: Recorded, since: Since = "convergence") -> float:
    """Total goodput as a share of the most that the line rate leaves for payload after headers."""
    return goodput_of_line_rate(result, since) / ideal_payload_share(result)


@metric("index", "goodput.variation_100ms", since="steady")
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


@metric("share")
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


BITS_OF_MIB = 8 * 2**20


@metric("MiB/s")
def perftest_bandwidth(result: Recorded) -> float:
    """Payload per second of all queue pairs together, as `ib_write_bw -D` reports it.

    Without a margin at each end of the run, a quarter of its whole seconds: N - 2 * floor(N / 4) s are left.
    """
    end = result.bins.end_s
    margin = math.floor(end / 4)
    values = result.bins.total("goodput_rx_bps")
    return float(result.bins.mean(values, float(margin), end - margin)) / BITS_OF_MIB


def _nothing_sent(result: Recorded) -> Finding:
    """Why no host sent anything: of jobs, what ran instead."""
    jobs = result.meta.get("jobs", [])
    if not jobs:
        words = (
            "No flow started before the end of the run." if result.flows.num_rows else "There was no flow."
        )
        return Finding("Throughput", text.MISSING, words, "warning")
    chains = [job["inputs"]["chain"] for job in jobs if "inputs" in job]
    chains += [part["chain"] for job in jobs for part in job["parts"]]
    inside = any(chain["domain_ps"] for chain in chains)
    unfinished = sum(ps is None for job in jobs for ps in job["finished_ps"])
    end = text.duration(max((ps for job in jobs for ps in job["finished_ps"] if ps), default=0) / PS_PER_S)
    words = "No message went over the network: " + (
        "all that ranks sent stayed inside servers (NVLink)" if inside else "ranks sent none"
    )
    if unfinished:
        words += f". {text.plural(unfinished, 'rank')} {text.verb(unfinished, 'was', 'were')} not done at the end of the run."
        return Finding("Throughput", "none", words, "warning")
    return Finding("Throughput", "none", f"{words}. All ranks were done after {end}.")


@finding(60)
def throughput_finding(result: Recorded) -> Finding:
    summary = summarise(result)
    goodput = summary["goodput"]
    # Without a sender there is no line rate to be a share of.
    if goodput["total_bps"] is None or goodput["of_line_rate"] is None:
        return _nothing_sent(result)
    words = (
        f"of payload in total: {text.share(goodput['of_line_rate'])} of the line rate, "
        f"{text.share(goodput['of_ideal'])} of the maximum after headers "
        f"({text.share(goodput['ideal_payload_share'])})"
    )
    if summary["convergence_s"]:
        words += f"; steady from {text.duration(summary['convergence_s'])}."
    else:
        words += f", {since_in_words(summary)}."
    return Finding("Throughput", text.rate(goodput["total_bps"]), words)
