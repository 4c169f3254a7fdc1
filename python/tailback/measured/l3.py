"""L3: the kernel's veth with byte queue limits, a flood of small packets and a ping."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tailback import metrics
from tailback.measured import LABS
from tailback.measured.cells import NUMBER, TEXT, WHOLE, Blocked, Column, Lab, Plan, Quantity
from tailback.results import Result

PACKET_S, RULE_S = 0.6e-6, 8e-9
"""About what a packet and a rule cost: how long a run is simulated follows from it, and nothing else."""
PACKETS = 200_000
SHORTEST_S, LONGEST_S = 0.25, 4.0
PINGS = 100
QDISCS = ("noqueue", "pfifo", "fq_codel", "sfq", "codel")

PKTGEN = "400ns"
"""Assumption: pktgen's cost of a packet is not given. The ring is full without rules, so it is below the 0.48 us that the
faster consumer takes."""
OTHER_COSTS = {"rule": "9.8ns", "stack": "180ns", "wakeup": "20us", "echo": 2.5}
"""Of the machine that is not the Ryzen 5, fitted to one cell each: 1000 rules, tx-usecs 1000 and 97,096 packets per second; no
rules, tx-usecs 1000 and 2,086,396, of which take has 300 ns; no rules, tx-usecs 0 and a round trip of 47 us; 20,000 rules,
tx-usecs 0 and a round trip of 3.02 ms."""
TRACED_COSTS = {"rule": "9.8ns", "wakeup": "20us", "echo": 2.5}
"""The same machine with bpftrace at each completion: as without, but for the stack, which has its default again."""
TRACED_PKTGEN = "789ns"
"""Fitted to one cell: without rules 1,266,902 packets per second, and the ring is empty."""
IDLE_COSTS = {"rule": "9.8ns", "wakeup": "100us", "echo": 5.7}
"""Carried over from published/veth-bql.yaml: a ping every 200 ms and nothing else meets cores that sleep deeply and cold
caches. 0.3 ms without rules, and 55 ns a rule."""
MACHINES: Mapping[str, Mapping[str, Any]] = {
    "v6_other_machine": OTHER_COSTS,
    "main_other_machine": OTHER_COSTS,
    # Assumption: the other machine, whose owner contributed it, too; with 1000 rules and more it is as fast.
    "v6_interval": TRACED_COSTS,
    "v6_ping_only": IDLE_COSTS,
}
"""By how a group begins: settings of its machine's consumer that the documented defaults do not have. The Ryzen 5 has none."""
FITTED = {
    "v6_other_machine, tx-usecs 1000, 1000 rules": "veth.consumer.rule of the other machine, 9.8 ns",
    "v6_other_machine, tx-usecs 1000, 0 rules": "veth.consumer.stack of the other machine, 180 ns",
    "v6_other_machine, tx-usecs 0, 0 rules": "veth.consumer.wakeup of the other machine under load, 20 us",
    "v6_other_machine, tx-usecs 0, 20000 rules": "veth.consumer.echo of the other machine under load, 2.5",
    "v6_interval_gro8, tx-usecs 1000, 0 rules": "pktgen's cost of a packet under bpftrace, 789 ns",
    "v6_ping_only, tx-usecs 0, 0 rules": "veth.consumer.wakeup of an idle machine, 100 us",
    "v6_ping_only, tx-usecs 0, 10000 rules": "veth.consumer.echo of an idle machine, 5.7",
}


def express(cell: Mapping[str, Any]) -> Plan | Blocked:
    if cell["tool"].startswith("bbperf"):
        return Blocked("two veth pairs with a router between them, and its offered rate is not given")
    if cell["qdisc"] not in QDISCS:
        return Blocked(f"found the discipline {cell['qdisc']}, expected one of {', '.join(QDISCS)}")
    flood = "pktgen" in cell["tool"]
    traced = cell["group"].startswith("v6_interval")
    rules = cell["nrules"]
    duration = min(LONGEST_S, max(SHORTEST_S, PACKETS * (PACKET_S + RULE_S * rules)))
    interval_us = round(duration * 1e6 / PINGS)
    consumer: dict[str, Any] = {"rules": rules, "gro_batch": cell["gro_normal_batch"] or 8}
    for group, settings in MACHINES.items():
        if cell["group"].startswith(group):
            consumer |= settings
    # Pings are not in step with polls: each has a delay of its own of up to half an interval.
    ping = {
        "kind": "ping",
        "interval": f"{interval_us}us",
        "spread": f"{interval_us // 2}us",
        "start": "50ms",
    }
    traffic: list[dict[str, Any]] = [ping]
    if flood:
        # pktgen has no socket: a buffer that never fills stands for none.
        flow = {
            "kind": "udp-flood",
            "payload": "22B",
            "send": TRACED_PKTGEN if traced else PKTGEN,
            "sndbuf": "64MiB",
            "blocking": False,
        }
        traffic.insert(0, flow)
    scenario = {
        "name": "L3",
        "topology": {"kind": "veth"},
        "veth": {
            "kernel": "6.18",
            "qdisc": {"kind": cell["qdisc"]},
            "bql": cell["bql"],
            "tx_usecs": f"{cell['tx_usecs'] if cell['tx_usecs'] is not None else 100:g}us",
            "consumer": consumer,
        },
        "traffic": traffic,
    }
    blocked = {"completion_interval_p50_us": "completions of byte queue limits are not recorded by time"}
    return Plan(scenario, duration, _figures if flood else _pings, blocked)


def _pings(result: Result, cell: Mapping[str, Any]) -> dict[str, float]:
    return {
        "rtt_mean_ms": metrics.veth.ping_rtt(result) * 1e3,
        "rtt_p99_ms": metrics.veth.ping_rtt(result, 99) * 1e3,
    }


def _figures(result: Result, cell: Mapping[str, Any]) -> dict[str, float]:
    found = {"pps": metrics.veth.delivered_per_second(result), **_pings(result, cell)}
    if cell["bql"] != "none":
        found["dql_limit_p50"] = metrics.veth.bql_limit(result)
    return found


L3 = Lab(
    "L3",
    LABS["L3"],
    [
        Column("group", TEXT, required=True),
        Column("machine", TEXT),
        Column("bql", TEXT, required=True),
        Column("tx_usecs", NUMBER),
        Column("nrules", WHOLE, required=True),
        Column("qdisc", TEXT, required=True),
        Column("tool", TEXT, required=True),
        Column("gro_normal_batch", WHOLE),
        Column("duration_s", NUMBER),
    ],
    [
        Quantity("pps", within=0.15),
        Quantity("rtt_mean_ms", within=0.15),
        Quantity("rtt_p99_ms", within=0.15),
        Quantity("dql_limit_p50", factor=2),
        Quantity("completion_interval_p50_us", factor=2),
        Quantity("qdisc_sent_pkts", factor=2),
        Quantity("qdisc_dropped_pkts", factor=2),
        Quantity("qdisc_requeues", factor=2),
    ],
    ["repeats", "known_to_tailback", "note"],
    express,
    fitted_to=FITTED,
    quick=["sweep_stock, 0 rules", "sweep_v7, tx-usecs 0, 1000 rules", "v6_ping_only, tx-usecs 0, 100 rules"],
)
