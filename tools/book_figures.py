"""Makes the tables of figures in the book, each from runs.

A table below a line `<!-- figures: NAME -->` is made by the function NAME here. `make docs` checks those that take
seconds; `make figures` writes them all, which takes some minutes. Runs are deterministic, so a table that differs
says that the program's behaviour has changed.
"""

from __future__ import annotations

import argparse
import re
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import measure_skipping
import numpy as np
import pyarrow.compute as pc
import tailback
from tailback.metrics import METRICS
from tailback.results import Result

DOCS = Path(__file__).resolve().parent.parent / "docs"
MARKED_TABLE = re.compile(r"(?P<mark><!-- figures: (?P<name>[\w-]+) -->\n+)(?P<table>(?:\|.*\n)+)")
Table = list[list[str]]
"""Rows of cells; the first row is the heading."""

FIGURES: dict[str, Callable[[], Table]] = {}
MINUTES: set[str] = set()
"""Names of the tables that take long."""


def figures(name: str, minutes: bool = False) -> Callable[[Callable[[], Table]], Callable[[], Table]]:
    def register(make: Callable[[], Table]) -> Callable[[], Table]:
        FIGURES[name] = make
        if minutes:
            MINUTES.add(name)
        return make

    return register


def main() -> int:
    parser = argparse.ArgumentParser(description="Make or check the tables of figures in the book.")
    parser.add_argument("names", nargs="*", help="tables; all, unless named")
    parser.add_argument("--check", action="store_true", help="write nothing; status 1 where a table differs")
    parser.add_argument("--quick", action="store_true", help="only those that take seconds")
    options = parser.parse_args()
    unknown = set(options.names) - set(FIGURES)
    if unknown:
        parser.error(f"no such table: {', '.join(sorted(unknown))}; there are {', '.join(sorted(FIGURES))}")
    wanted = set(options.names or FIGURES) - (MINUTES if options.quick else set())
    differs = False
    for page in sorted(DOCS.rglob("*.md")):
        text = page.read_text(encoding="utf-8")
        for found in MARKED_TABLE.finditer(text):
            name = found["name"]
            if name not in wanted:
                continue
            began = time.monotonic()
            table = markdown(FIGURES[name]())
            print(f"{page.relative_to(DOCS)}: {name}, {time.monotonic() - began:.1f} s", flush=True)
            if table == found["table"]:
                continue
            differs = True
            print(f"--- in the book\n{found['table']}--- in runs\n{table}", file=sys.stderr)
            if not options.check:
                text = text.replace(found["mark"] + found["table"], found["mark"] + table)
                page.write_text(text, encoding="utf-8")
    return 1 if differs and options.check else 0


def markdown(table: Table) -> str:
    heading, *rows = table
    lines = [heading, ["---", *["---:"] * (len(heading) - 1)], *rows]
    return "".join(f"| {' | '.join(line)} |\n".replace("|  |", "| |") for line in lines)


def percent(share: float, digits: int = 1) -> str:
    return f"{100 * share:.{digits}f} %"


def of_second_half(result: Result, metric: str, entity: str | None = None) -> np.ndarray:
    """Values of a series in the second half of the run, of one entity or of all."""
    series = result.series
    wanted = pc.equal(series["metric"], metric)
    wanted = pc.and_(wanted, pc.greater_equal(series["time_ps"], result.summary["simulated_s"] * 1e12 / 2))
    if entity is not None:
        wanted = pc.and_(wanted, pc.equal(series["entity"], entity))
    return np.asarray(series.filter(wanted)["value"])


# Congestion controllers

PINT_SHARES = {"HPCC": None, "PINT, `probability` 1": 1, "1/16": 1 / 16, "1/256": 1 / 256}


def pint_or_hpcc(scenario: str, share: float | None, *sets: str) -> Result:
    chosen = ["host.congestion=hpcc"]
    if share is not None:
        chosen = ["host.congestion=pint", f"host.pint.probability={share}"]
    return tailback.run(scenario, sets=[*chosen, *sets])


@figures("pint-incast")
def pint_incast() -> Table:
    rows = [["", "Link", "Queue, mean", "Goodput"]]
    for name, share in PINT_SHARES.items():
        done = pint_or_hpcc("cc-incast", share, "run.duration=10ms")
        link = of_second_half(done, "wire_tx_bps", "sw0:h16/tc3").mean()
        queue = of_second_half(done, "queue_mean_bytes", "sw0:h16/tc3").mean()
        goodput = of_second_half(done, "goodput_rx_bps", "h16").mean()
        most = done.summary["goodput"]["line_rate_bps"] * done.summary["goodput"]["ideal_payload_share"]
        line = [
            percent(link / done.summary["goodput"]["line_rate_bps"]),
            f"{queue:,.0f} B",
            percent(goodput / most),
        ]
        rows.append([name, *line])
    return rows


@figures("pint-websearch")
def pint_websearch() -> Table:
    rows = [["", "up to 30 KB: median, 95 %", "to 300 KB", "above"]]
    for name, share in PINT_SHARES.items():
        flows = pint_or_hpcc("leaf-spine-websearch", share, "run.duration=6ms", "traffic.0.load=0.5").flows
        done = flows.filter(pc.is_valid(flows["slowdown"]))
        size, slowdown = np.asarray(done["message_bytes"]), np.asarray(done["slowdown"])
        cells = []
        for least, most in ((0, 30_000), (30_000, 300_000), (300_000, np.inf)):
            median, tail = np.percentile(slowdown[(size > least) & (size <= most)], [50, 95])
            cells.append(f"{median:.2f}, {tail:.2f}")
        rows.append([name, *cells])
    return rows


def timely_run(rate_gbps: int, *sets: str) -> Result:
    duration = "400ms" if rate_gbps == 100 else "1s"
    rate = f"topology.link.rate={rate_gbps}Gbps"
    return tailback.run("cc-incast", sets=["host.congestion=timely", rate, f"run.duration={duration}", *sets])


def timely_cells(done: Result, low_us: float = 50) -> tuple[str, list[str], list[str]]:
    """The share of the link, how long round trips take, and how many are below, between and above the thresholds."""
    receiver = done.receivers[0]
    link = of_second_half(done, "wire_rx_bps", receiver).mean() / done.summary["goodput"]["line_rate_bps"]
    rtt_us = of_second_half(done, "rtt_ps") / 1e6
    rtt_us = rtt_us[rtt_us > 0]
    low, high = (rtt_us < low_us).mean(), (rtt_us > 500).mean()
    times = (rtt_us.mean(), np.median(rtt_us), np.percentile(rtt_us, 99))
    return (
        percent(link, 0),
        [f"{value:.0f} us" for value in times],
        [percent(share, 0) for share in (low, 1 - low - high, high)],
    )


@figures("timely")
def timely() -> Table:
    rows = [
        [
            "Link",
            "Segment",
            "alpha",
            "Share of the link",
            "Mean",
            "Median",
            "p99",
            "Below `t_low`",
            "Between",
            "Above `t_high`",
        ]
    ]
    for rate, segment, alpha in (
        (10, "16KB", 0.02),
        (10, "32KB", 0.02),
        (10, "64KB", 0.02),
        (10, "0B", 0.02),
        (10, "16KB", 0.875),
        (25, "16KB", 0.02),
        (25, "64KB", 0.02),
        (100, "16KB", 0.02),
        (100, "64KB", 0.02),
    ):
        done = timely_run(rate, f"host.timely.segment={segment}", f"host.timely.alpha={alpha}")
        link, times, shares = timely_cells(done)
        name = "packets paced" if segment == "0B" else segment.replace("KB", " KB")
        rows.append([f"{rate} Gbit/s", name, f"{alpha}", link, *times, *shares])
    return rows


@figures("timely-variants")
def timely_variants() -> Table:
    rows = [
        ["10 Gbit/s, but for the last row", "Share of the link", "Below `t_low`", "Between", "Above `t_high`"]
    ]
    for name, rate, low_us, sets in (
        ("as above, 16 senders", 10, 50, []),
        ("4 senders", 10, 50, ["traffic.0.from=h0..h3"]),
        ("8 senders", 10, 50, ["traffic.0.from=h0..h7"]),
        ("32 senders", 10, 50, ["topology.hosts=33", "traffic.0.from=h0..h31", "traffic.0.to=h32"]),
        ("`min_rtt: auto`, here 4.5 us", 10, 50, ["host.timely.min_rtt=auto"]),
        ("links of 4.5 us", 10, 50, ["topology.link.delay=4.5us"]),
        (
            "100 Gbit/s, segments of 64 KB, `t_low` 5 us, delta 100 Mbit/s",
            100,
            5,
            ["host.timely.segment=64KB", "host.timely.t_low=5us", "host.timely.additive=100Mbps"],
        ),
    ):
        link, _, shares = timely_cells(timely_run(rate, *sets), low_us)
        rows.append([name, link, *shares])
    return rows


EACH_TO_EACH_400G = {
    "name": "each-to-each",
    "run": {"duration": "200ms"},
    "topology": {
        "kind": "leaf-spine",
        "leaves": 4,
        "hosts_per_leaf": 8,
        "spines": 4,
        "link": {"rate": "400Gbps"},
        "fabric": {"rate": "400Gbps"},
    },
    "traffic": [{"kind": "all-to-all", "hosts": "all", "message": "8MiB"}],
    "host": {"mtu": "4096B"},
}


@figures("dcqcn-wait")
def dcqcn_wait() -> Table:
    columns = []
    for follows in ("false", "true"):
        done = tailback.run(EACH_TO_EACH_400G, sets=[f"host.dcqcn.wait_follows_rate={follows}"])
        fct = np.asarray(done.flows["fct_ps"]) / 1e9
        throughput = pc.sum(done.flows["bytes_delivered"]).as_py() * 8 / fct.max() / 1e9
        waits = done.summary["at_min_rate"]
        columns.append(
            [
                f"{fct.max():.1f} ms",
                f"{throughput:.2f} Tbit/s",
                f"{(fct >= 30).sum()}",
                f"{np.median(fct):.1f} ms",
                f"{waits['queue_pairs']} queue pairs, {waits['waited_s'] * 1e3:.1f} ms in all",
            ]
        )
    names = [
        "last message",
        "throughput until then",
        "messages of 30 ms or more",
        "median message",
        "waiting at 1 Mbit/s",
    ]
    return [["", "`wait_follows_rate: false`", "`true`"], *map(list, zip(names, *columns, strict=True))]


@figures("presets-all-to-all")
def presets_all_to_all() -> Table:
    rows = [["", "Last message after"]]
    for name, sets in (("defaults", []), ("`preset: 400g`", ["preset=400g"])):
        done = tailback.run(EACH_TO_EACH_400G, sets=sets)
        rows.append([name, f"{pc.max(done.flows['fct_ps']).as_py() / 1e9:.1f} ms"])
    return rows


@figures("swift")
def swift() -> Table:
    rows = [["Queue pairs", "Link", "Round trip", "Target", "Window", "Jain's index"]]
    for senders, queue_pairs, duration in (
        (2, 1, "40ms"),
        (10, 1, "40ms"),
        (16, 1, "20ms"),
        (10, 10, "40ms"),
        (20, 50, "30ms"),
    ):
        receiver = f"h{senders}"
        write = {
            "kind": "write",
            "from": f"h0..h{senders - 1}",
            "to": receiver,
            "message": "1MiB",
            "depth": 4,
        }
        done = tailback.run(
            {
                "name": "swift",
                "run": {"duration": duration, "clock_ppm": 0},
                "topology": {"kind": "star", "hosts": senders + 1},
                "host": {"congestion": "swift"},
                "traffic": [{**write, "qps": queue_pairs, "start_interval": "10us"}],
            }
        )
        means = [of_second_half(done, name).mean() for name in ("rtt_ps", "target_delay_ps", "cwnd_packets")]
        rows.append(
            [
                f"{senders * queue_pairs:,}",
                percent(of_second_half(done, "wire_rx_bps", receiver).mean() / 100e9, 0),
                *(f"{value / 1e6:.1f} us" for value in means[:2]),
                f"{means[2]:.3g} packets",
                f"{done.summary['fairness']['jain']:.3f}",
            ]
        )
    return rows


# Spraying and losses


def means_of(design: str, names: Sequence[str], forms: Sequence[Callable[[float], str]]) -> Table:
    """A row for each point of a sweep: means of its metrics over seeds, with half of their 95 % interval."""
    done = tailback.sweep(DOCS / design)
    rows = []
    for point, name in enumerate(names):
        cells = []
        for metric, form in zip(done.shown, forms, strict=False):
            mean = done.interval(point, metric)
            half = None if mean.high is None or mean.low is None else (mean.high - mean.low) / 2
            cells.append(
                form(mean.mean) if form is share_cell or not half else f"{form(mean.mean)} ± {form(half, 2)}"
            )
        rows.append([name, *cells])
    return rows


def share_cell(share: float, _digits: int = 2) -> str:
    return "0" if share == 0 else f"{100 * share:.2g} %"


def milliseconds(seconds: float, digits: int = 3) -> str:
    return number(seconds * 1e3, digits)


def number(value: float, digits: int = 3) -> str:
    return f"{value:#.{digits}g}".rstrip(".")


@figures("spraying-moe")
def spraying_moe() -> Table:
    names = [
        "DCQCN with PFC",
        "DCQCN, lossy, go-back-N",
        "DCQCN, lossy, selective repeat",
        "the same, sprayed",
        "the same, adaptive routing",
        "PFC alone, no congestion control",
        "sprayed, selective repeat, no congestion control",
        "the same, trimmed",
        "sprayed, trimmed, under DCQCN",
    ]
    forms = [milliseconds, milliseconds, share_cell, share_cell]
    heading = ["", "All-to-all, ms", "All-reduce, ms", "Retransmitted", "Longest pause, share of the run"]
    return [heading, *means_of("spraying/moe.yaml", names, forms)]


PERMUTATION = {
    "name": "permutation",
    "run": {"duration": "5ms"},
    "topology": {"kind": "fat-tree", "k": 4, "link": {"rate": "100Gbps", "delay": "1us"}},
    "traffic": [{"kind": "permutation", "message": "2MB"}],
    "qos": "lossy-default",
    "host": {
        "mtu": "4096B",
        "congestion": "none",
        "transport": {"loss_recovery": "selective-repeat", "reordering": 64},
    },
}


@figures("spraying-permutation")
def spraying_permutation() -> Table:
    rows = [["", "Packets in flight", "Last message done after, us"]]
    trimmed = "switch.trimming.queue=33552B"
    for name, in_flight, routes, more in (
        ("one route (ECMP)", 43, "ecmp", []),
        ("sprayed", 43, "spray", []),
        ("sprayed", 64, "spray", []),
        ("sprayed", 100, "spray", []),
        ("adaptive", 64, "adaptive", []),
        ("sprayed, trimmed at 8 packets", 64, "spray", [trimmed]),
        ("sprayed, trimmed at 8 packets", 100, "spray", [trimmed]),
        ("one route, trimmed at 8 packets", 43, "ecmp", [trimmed]),
    ):
        sets = [f"host.transport.window_packets={in_flight}", f"switch.load_balancing={routes}", *more]
        last = [
            pc.max(tailback.run(PERMUTATION, sets=sets, seed=seed).flows["end_ps"]).as_py() / 1e6
            for seed in (1, 2, 3)
        ]
        rows.append([name, str(in_flight), f"{min(last):.0f} to {max(last):.0f}"])
    return rows


@figures("spraying-irn")
def spraying_irn() -> Table:
    names = [
        "go-back-N with PFC",
        "go-back-N without",
        "selective repeat with PFC",
        "selective repeat without",
    ]
    forms = [number, milliseconds, milliseconds, share_cell, share_cell]
    heading = ["", "Mean slowdown", "Mean time, ms", "Time, p99, ms", "Retransmitted", "Longest pause"]
    return [heading, *means_of("spraying/irn.yaml", names, forms)]


def senders_to_one(
    nic: str, senders: int, queue_pairs: int, sets: Sequence[str] = (), **more: object
) -> Result:
    write = {"kind": "write", "to": f"h{senders}", "qps": queue_pairs, "message": "1MiB", "depth": 16}
    return tailback.run(
        {
            "name": "to-one",
            "preset": nic,
            "qos": "lossy-default",
            "run": {"duration": "250ms"},
            "topology": {"kind": "star", "hosts": senders + 1},
            "host": {"mtu": "4096B"},
            "switch": {"ecn": None},
            "traffic": [{**write, "from": f"h{sender}"} for sender in range(senders)],
            **more,
        },
        sets=sets,
    )


def recovery_ms(nic: str, *sets: str) -> float:
    """Time from the end of a two to one until the other sender has 95 % of what the link can carry."""
    write = {"kind": "write", "to": "h2", "qps": 4, "message": "1MiB", "depth": 16}
    traffic = [{**write, "from": "h0"}, {**write, "from": "h1", "depth": 1, "stop": "50ms"}]
    done = senders_to_one(nic, 2, 4, sets, switch={}, traffic=traffic)
    series = done.series
    received = series.filter(
        pc.and_(pc.equal(series["metric"], "goodput_rx_bps"), pc.equal(series["entity"], "h2"))
    )
    end_ms, bps = np.asarray(received["time_ps"]) / 1e9, np.asarray(received["value"])
    goodput = done.summary["goodput"]
    below = bps < 0.95 * goodput["line_rate_bps"] * goodput["ideal_payload_share"]
    other = done.flows.filter(pc.equal(done.flows["src"], "h1"))
    return float(end_ms[below][-1]) - pc.max(other["end_ps"]).as_py() / 1e9


@figures("dcqcn-recovery")
def dcqcn_recovery() -> Table:
    rows = [["`rpg_byte_reset` counts", "From the end of a 2:1 incast to 95 % of the line rate"]]
    rows.append(["measured (ConnectX-5, openfabric-systems/simllm)", "447 ms"])
    for name, sets in (
        ("bytes", ["host.dcqcn.byte_reset_unit_bytes=1"]),
        ("units of 64 B", []),
        ("nothing (`rpg_byte_reset: 0`)", ["host.dcqcn.rpg_byte_reset=0", "run.duration=3s"]),
    ):
        rows.append([name, f"{recovery_ms('connectx-5', *sets):,.0f} ms"])
    return rows


@figures("nics-after-a-loss")
def nics_after_a_loss() -> Table:
    rows = [
        [
            "",
            "Two to one, four queue pairs a sender",
            "dropped",
            "Three to one, one queue pair a sender",
            "Recovery after two to one, with marks",
        ],
        [
            "measured",
            "73.9 Gbit/s (ConnectX-5, simllm)",
            "1.65 %",
            "13.9 Gbit/s (ETH Zurich)",
            "447 ms (ConnectX-5, simllm)",
        ],
    ]
    for nic in ("connectx-4-lx", "connectx-5", "connectx-6-dx", "bluefield", "ideal"):
        two, three = (senders_to_one(nic, senders, qps) for senders, qps in ((2, 4), (3, 1)))
        dropped = two.summary["losses"]["dropped_packets"] / pc.sum(two.flows["packets_sent"]).as_py()
        rows.append(
            [
                f"`{nic}`",
                f"{METRICS['total_goodput'](two, since=0.02) / 1e9:.1f}",
                percent(dropped, 0),
                f"{METRICS['total_goodput'](three, since=0.02) / 1e9:.1f}",
                f"{recovery_ms(nic):.0f} ms",
            ]
        )
    return rows


# Skipping and tuning


@figures("skipping", minutes=True)
def skipping() -> Table:
    heading = [name for name in measure_skipping.HEADING if name != "Times as fast"]
    return [heading, *(measure_skipping.measure(case, speed=False) for case in measure_skipping.CASES)]


def gains(tuning: str, form: Callable[[float], str]) -> Table:
    """What the best settings of a tuning gain on seeds that no trial saw."""
    done = tailback.tune(DOCS / "tunings" / tuning)
    rows = [["", "Preset", "Tuned", "Change"]]
    for gain in done.gains:
        if gain.trial != done.best.trial.number:
            continue
        mean, low, high = (f"{100 * share:+.1f}" for share in gain.share)
        change = f"{mean} % ({low} to {high})"
        rows.append(
            [
                f"{gain.workload}{'' if gain.tuned_on else ', held out'}, {gain.shown.label}",
                form(gain.before.mean),
                form(gain.after.mean),
                f"noise ({low} to {high} %)" if gain.verdict == "noise" else change,
            ]
        )
    return rows


@figures("tuned-all-to-all", minutes=True)
def tuned_all_to_all() -> Table:
    return gains("all-to-all.yaml", lambda seconds: f"{milliseconds(seconds)} ms")


@figures("tuned-leaf-spine", minutes=True)
def tuned_leaf_spine() -> Table:
    return gains("leaf-spine.yaml", number)


if __name__ == "__main__":
    sys.exit(main())
