"""What skipping gives and costs: runs with `run.skip: steady` beside the same by packets, as a table.

    python tools/measure_skipping.py [NAME ...]

CPU-seconds are those of the engine and its recording, without imports and without a report.
"""

from __future__ import annotations

import statistics
import sys
from typing import Any

import tailback
from tailback.results import Result

LEAVES: dict[str, Any] = {
    "kind": "leaf-spine",
    "leaves": 4,
    "hosts_per_leaf": 8,
    "spines": 4,
    "link": {"rate": "100Gbps", "delay": "500ns"},
    "fabric": {"rate": "400Gbps", "delay": "1us"},
}
SMALL_QUEUE = 16384.0
"""Bytes: errors of shorter queues are relative to this, as they are stated."""
PACED = {"dcqcn": {"profile": "sigcomm15", "rpg_max_rate": 30000}}


def pairs(message: str, depth: int) -> list[dict[str, Any]]:
    """A writer from each of 32 hosts to one under another leaf."""
    to = [(host + 8 + host * 5 % 16) % 32 for host in range(32)]
    to = [(host + 8) % 32 if other // 8 == host // 8 else other for host, other in enumerate(to)]
    return [
        {"kind": "write", "from": f"h{host}", "to": f"h{other}", "message": message, "depth": depth}
        for host, other in enumerate(to)
    ]


def scenario(duration: str, topology: dict[str, Any], traffic: Any, host: Any = None) -> dict[str, Any]:
    """A scenario of its own."""
    return {
        "name": "skipping",
        "run": {"duration": duration},
        "topology": topology,
        "traffic": traffic,
        **({"host": host} if host else {}),
    }


def star(hosts: int) -> dict[str, Any]:
    """Hosts on one switch."""
    return {"kind": "star", "hosts": hosts, "link": {"rate": "100Gbps", "delay": "500ns"}}


AT_ONCE = "traffic.0.start_interval=0ms"
INCAST = "roce-incast-lossy"
ONE = {"kind": "write", "from": "h0", "to": "h1", "message": "1GB", "depth": 2, "messages": 100}
FOUR = {"kind": "write", "from": "h0..h3", "to": "h4", "message": "2GB", "depth": 1, "messages": 1}
CASES: dict[str, tuple[str, Any, list[str], int]] = {
    "incast": ("published incast (lossy, 64 queue pairs a sender), 10 s", INCAST, ["run.duration=10s"], 2),
    "later": (
        "the same, from 4 s to 14 s (goodput, CNPs and queue pairs off: of all 14 s)",
        INCAST,
        ["run.duration=14s"],
        10,
    ),
    "at once": (
        "16 senders, 16 queue pairs each, at once, 2 s",
        INCAST,
        ["run.duration=2s", AT_ONCE, "traffic.0.qps=16"],
        4,
    ),
    "few": (
        "16 senders, 4 queue pairs each, at once, 1 s",
        INCAST,
        ["run.duration=1s", AT_ONCE, "traffic.0.qps=4"],
        4,
    ),
    "paced": (
        "storage: 32 writers paced to 30 Gbit/s of 100, 1 s",
        scenario("1s", LEAVES, pairs("1MB", 4), PACED),
        [],
        3,
    ),
    "one": ("100 messages of 1 GB, one after another, 8.6 s", scenario("10s", star(2), [ONE]), [], 3),
    "four": (
        "4 messages of 2 GB, one receiver, which DCQCN slows down",
        scenario("10s", star(5), [FOUR]),
        [],
        3,
    ),
    "collide": (
        "the 32 writers, links between switches of 100 Gbit/s: DCQCN oscillates, 0.3 s",
        scenario("300ms", LEAVES | {"fabric": {"rate": "100Gbps", "delay": "1us"}}, pairs("1MB", 4), PACED),
        [],
        2,
    ),
    "closed": (
        "the same with one message of 32 KiB outstanding and no rate, 0.3 s",
        scenario("300ms", LEAVES | {"fabric": {"rate": "100Gbps", "delay": "1us"}}, pairs("32KiB", 1)),
        [],
        2,
    ),
    "paused": (
        "published incast under PFC, 64 queue pairs, at once, 1 s",
        "roce-incast-lossless",
        ["run.duration=1s", AT_ONCE],
        3,
    ),
    "storm": (
        "the same without congestion control, 50 ms",
        "roce-incast-lossless",
        ["run.duration=50ms", AT_ONCE, "host.congestion=none"],
        1,
    ),
    "poisson": (
        "storage: Poisson arrivals at 30 % load, 50 ms",
        scenario("50ms", LEAVES, [{"kind": "poisson", "load": 0.3, "sizes": "alistorage"}]),
        [],
        1,
    ),
}


LATER = 4
"""Seconds before what "later" looks at."""


def queue(result: Result, since: float) -> float:
    """The mean length of the egress queue that is longest on average, from a time in seconds on."""
    before = round(since / result.bins.bin_s)
    lengths = [
        result.bins.values(name, "queue_mean_bytes")
        for name, kind in zip(
            *(result.entities.column(of).to_pylist() for of in ("entity", "kind")), strict=True
        )
        if kind == "egress"
    ]
    return max(float(statistics.fmean(length[before:])) for length in lengths)


def off(found: float, expected: float, least: float = 0.0) -> float:
    """How far a figure is off, as a share of what it should be, or of `least`."""
    return abs(found - expected) / max(expected, least) if expected else 0.0


def measure(case: str, speed: bool = True) -> list[str]:
    """A row of the table; the speed depends on the machine."""
    words, source, sets, seeds = CASES[case]
    since = LATER if case == "later" else 0
    rows = []
    for seed in range(101, 101 + seeds):
        whole, fast = (
            tailback.run(source, sets=[*sets, f"run.skip={skip}"], seed=seed) for skip in ("never", "steady")
        )
        cpu = [whole.cpu_s, fast.cpu_s]
        if case == "later":
            early = [
                tailback.run(source, sets=[f"run.duration={LATER}s", f"run.skip={skip}"], seed=seed)
                for skip in ("never", "steady")
            ]
            cpu = [at_end - begun.cpu_s for at_end, begun in zip(cpu, early, strict=True)]
        columns = [result.flows.to_pydict() for result in (fast, whole)]
        goodputs = [
            sum(one["bytes_delivered"]) / (result.meta["end_ps"] or 1)
            for one, result in zip(columns, (fast, whole), strict=True)
        ]
        qps = [off(a, b) for a, b in zip(*(one["goodput_bps"] for one in columns), strict=True) if b]
        done = [off(a, b) for a, b in zip(*(one["end_ps"] for one in columns), strict=True) if a and b]
        cnps = [sum(one["np_cnp_sent"]) for one in columns]
        spans = fast.summary.get("skipped", {}).get("spans", [])
        spans = [span for span in spans if span["from_s"] >= since]
        stated = {
            of: max((span[f"{of}_error"] for span in spans), default=0.0)
            for of in ("goodput", "queue", "signal")
        }
        rows.append(
            {
                "skipped": sum(span["to_s"] - span["from_s"] for span in spans) / (fast.bins.end_s - since),
                "contradicted": sum(span["check"] == "contradicted" for span in spans),
                "times": cpu[0] / cpu[1],
                "goodput": off(*goodputs),
                "queue": off(queue(fast, since), queue(whole, since), SMALL_QUEUE),
                "cnps": off(*cnps),
                "qp": statistics.fmean(one * one for one in qps) ** 0.5,
                "end": max(done, default=0.0),
                "stated": stated["goodput"],
                "stated queue": stated["queue"],
                "stated cnps": stated["signal"],
            }
        )
    worst = {name: max(row[name] for row in rows) for name in rows[0]}

    def percent(value: float) -> str:
        return "0" if value == 0 else f"{100 * value:.2g} %"

    least, most = (pick(row["times"] for row in rows) for pick in (min, max))
    times = f"{least:.2g}" if f"{least:.2g}" == f"{most:.2g}" else f"{least:.2g} to {most:.2g}"
    names = ("goodput", "stated", "queue", "stated queue", "cnps", "stated cnps", "qp", "end")
    cells = [
        f"{100 * statistics.fmean(row['skipped'] for row in rows):.0f} %",
        *([times] if speed else []),
        *(percent(worst[name]) for name in names),
        f"{worst['contradicted']:.0f}",
    ]
    return [words, str(seeds), *cells]


HEADING = [
    "Run",
    "Seeds",
    "Skipped",
    "Times as fast",
    "Goodput off",
    "stated",
    "Mean queue off",
    "stated",
    "CNPs off",
    "stated",
    "Queue pairs off (rms)",
    "Latest end off",
    "Contradicted",
]
if __name__ == "__main__":
    for row in (HEADING, ["---"] * len(HEADING), *map(measure, sys.argv[1:] or CASES)):
        print(f"| {' | '.join(row)} |", flush=True)
