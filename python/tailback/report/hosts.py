"""TCP and the hosts' CPUs: plots of goodput by protocol and of busy cores, and their tables."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from tailback import metrics, text
from tailback.metrics import summarise
from tailback.recorded import traffic_items
from tailback.recorded.bins import Array
from tailback.recorded.run import Recorded
from tailback.recorded.setup import ROCE, TCP
from tailback.report.figures import (
    BLUE,
    GREY,
    MAX_POINTS,
    MAX_POINTS_PER_LINE,
    MOST_LINES,
    MUTED,
    ORANGE,
    VERMILLION,
    Labels,
    Plot,
    View,
    figure,
    layout,
    level,
    line,
    rate_unit,
    round_top,
)
from tailback.report.tables import MOST_ROWS, TextTable
from tailback.report.tracked import all_and_most

PROTOCOL_STYLE = {ROCE: ("RoCE", BLUE), TCP: ("TCP", ORANGE)}
MAX_CORES = 64
"""Rows of cores that a table has for a host."""


def by_protocol(result: Recorded) -> list[Plot]:
    """Goodput of RoCE and of TCP, where there were both."""
    spoken = summarise(result)["protocols"]
    rows = {name: traffic_items.goodput(result, protocol=name) for name in PROTOCOL_STYLE if name in spoken}
    unit, factor = rate_unit(metrics.links.capacity(result))
    drawn = {name: row * factor for name, row in rows.items() if row is not None}
    if len(rows) < 2 or len(drawn) < 2:
        return []
    view = View(result)
    reduced = {name: view.reduce(row, MAX_POINTS) for name, row in drawn.items()}
    limit = metrics.links.capacity(result) * factor
    top = max(limit * 1.12, *(float(values.max(initial=0)) * 1.05 for values in reduced.values()))
    labels = Labels(top)
    labels.add(limit, "line rate", MUTED)
    data = []
    for name, values in reduced.items():
        words, color = PROTOCOL_STYLE[name]
        data.append(line(view, values, MAX_POINTS, name=words, unit=unit, color=color))
        labels.add(float(values[-1]), words, color)
    look = layout(
        view,
        f"Goodput ({unit})",
        (0, top),
        shapes=[level(limit, MUTED, layer="above")],
        annotations=labels.annotations(),
    )
    figures = [figure("protocols", view, "Goodput by protocol", data, look)]
    shares = ", ".join(
        f"{PROTOCOL_STYLE[name][0]} {text.share(spoken[name]['share'])}"
        for name in drawn
        if spoken[name]["share"] is not None
    )
    caption = (
        "Payload per second that all receivers took in order, by protocol, as means over "
        f"{view.sampling(MAX_POINTS)}. Dashed: the line rate. Shares: {shares}."
    )
    return [Plot("protocols", "Throughput by protocol", caption, figures)]


def cpu(result: Recorded) -> list[Plot]:
    """How busy each host's CPU was; nothing where none was used."""
    found = summarise(result)["cpu"]
    if found is None:
        return []
    view = View(result)
    busiest = found["busiest"]
    rows = {
        host: view.reduce(result.bins.values(host, "cpu_share") * 100, MAX_POINTS_PER_LINE)
        for host in found["hosts"]
    }
    many = len(rows) > MOST_LINES
    top = min(round_top(max(float(row.max()) for row in rows.values()) * 1.05), 105.0)
    labels = Labels(top)
    data = all_and_most(view, np.stack(list(rows.values())), "%") if many else []
    # The busiest is drawn over the others.
    for host in [*(host for host in rows if host != busiest and not many), busiest]:
        color, width = (VERMILLION, 1.8) if host == busiest else (GREY, 1.1)
        data.append(
            line(view, rows[host], MAX_POINTS_PER_LINE, name=host, unit="%", color=color, width=width)
        )
    labels.add(float(rows[busiest][-1]), busiest, VERMILLION)
    if len(rows) > 1:
        others = [host for host in rows if host != busiest]
        mean = float(np.mean([rows[host][-1] for host in others]))
        labels.add(mean, "other hosts" if len(others) > 1 else others[0], MUTED)
    look = layout(view, "CPU busy (% of all cores)", (0, top), annotations=labels.annotations())
    figures = [figure("cpu", view, "CPU of hosts", data, look)]
    caption = (
        f"Busy share of all {found['cores']} cores of each host, as means over "
        f"{view.sampling(MAX_POINTS_PER_LINE)}: {busiest}, the busiest, in colour"
    )
    if len(rows) > 1:
        others_are = "the others as median, middle 80 % and whole range" if many else "the others grey"
        caption += f", {others_are}"
    caption += ". Interrupts, the network stack and copying count; the applications' own work does not."
    if ROCE in summarise(result)["protocols"]:
        caption += " RDMA WRITEs take no CPU here."
    return [Plot("cpu", "CPU of hosts", caption, figures)]


def tcp_table(result: Recorded) -> TextTable:
    """A row a sender of TCP: what its connections got and what became of their segments."""
    rows = metrics.tcp.connections(result)
    since = "start" if summarise(result)["convergence_s"] is None else "convergence"
    goodputs = metrics.fairness.sender_goodputs(result, since, protocol=TCP) if rows.num_rows else {}
    hosts = np.array(rows.column("src").to_pylist() if rows.num_rows else [], dtype=object)
    names = ("packets_sent", "retransmitted_segments", "fast_recoveries", "timeouts", "ece_received")
    figures = {
        name: _numbers(rows, name)
        for name in (*names, "goodput_bps", "cwnd_bytes", "srtt_ps")
        if rows.num_rows
    }
    made = []
    every = sorted(set(hosts), key=text.natural)
    for host in every[:MOST_ROWS]:
        mine = hosts == host
        made.append(
            [
                host,
                text.rate(goodputs.get(host, float("nan"))),
                text.count(int(mine.sum())),
                *(text.rate(float(np.quantile(figures["goodput_bps"][mine], q))) for q in (0, 0.5, 1)),
                *(text.count(int(np.nansum(figures[name][mine]))) for name in names),
                text.size(_median(figures["cwnd_bytes"][mine])),
                text.duration(_median(figures["srtt_ps"][mine]) / 1e12),
            ]
        )
    left = len(every) - len(made)
    return TextTable(
        "tcp",
        "TCP, by sender",
        "Goodput of the sender's TCP as in the findings; of its connections, least, median and most, each "
        "over its own time. Window and round trip (smoothed) are medians at the end. flows.parquet has a row "
        "a connection." + (f" {text.plural(left, 'further sender')} left out." if left else ""),
        [
            "Sender",
            "Goodput",
            "Connections",
            "Least",
            "Median",
            "Most",
            "Segments",
            "Sent again",
            "Fast recoveries",
            "Timeouts",
            "ECE",
            "Window",
            "Round trip",
        ],
        made,
        [False] + [True] * 12,
    )


def _numbers(rows: pa.Table, name: str) -> Array:
    """A column as floats; NaN where it has no value."""
    return np.asarray(rows.column(name).to_numpy(), dtype=np.float64)


def _median(values: Array) -> float:
    there = values[np.isfinite(values)]
    return float(np.median(there)) if len(there) else float("nan")


def cpu_table(result: Recorded) -> TextTable:
    """All cores of each host together, and those of the busiest one by one, as mpstat -P ALL does."""
    cores = metrics.cpu.cores(result)
    found = summarise(result)["cpu"]
    first = [found["busiest"]] if found is not None and found["busiest"] in cores else []
    hosts = first + [host for host in sorted(cores, key=text.natural) if host not in first]
    rows = []
    for host in hosts[:MOST_ROWS]:
        mean = {name: float(np.mean([core.get(name, 0.0) for core in cores[host]])) for name in _CPU_SHARES}
        rows.append([host, "all", *_shares(mean)])
        if host in first:
            rows += [[host, str(i), *_shares(core)] for i, core in enumerate(cores[host][:MAX_CORES])]
    left = len(hosts) - len(hosts[:MOST_ROWS])
    return TextTable(
        "cpu-table",
        "CPU, by core",
        "Shares of the whole run, as mpstat names them: %irq interrupts, %soft the receive path (NAPI, GRO, "
        "IP and TCP), %sys the applications' system calls with their copying. The cores of the busiest host, "
        "and all cores of every other one together."
        + (f" {text.plural(left, 'host')} left out." if left else ""),
        ["Host", "Core", "%irq", "%soft", "%sys", "%idle"],
        rows,
        [False, True, True, True, True, True],
        folded=len(rows) > 2 * MOST_ROWS,
    )


_CPU_SHARES = ("irq", "softirq", "system")


def _shares(core: dict[str, float]) -> list[str]:
    busy = [core.get(name, 0.0) for name in _CPU_SHARES]
    return [text.share(share) for share in (*busy, max(0.0, 1 - sum(busy)))]
