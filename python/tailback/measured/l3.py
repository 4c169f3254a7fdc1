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
PKTGEN_S = "300ns"
"""Assumption: pktgen's cost of a packet is not given; the ring is full without rules, so it is below 0.55 us."""
QDISCS = ("noqueue", "pfifo", "fq_codel", "sfq", "codel")

ECHO = 7.1
"""Carried over, not fitted here: published/veth-bql.yaml fits it to the round trip D3 of another test."""
OTHER_COSTS = {"rule": "9.16ns", "stack": "180ns"}
"""Of the machine that is not the Ryzen 5, fitted to its throughput alone, as the defaults are to the Ryzen's: 20,000 rules
and 5,442 packets per second; no rules, tx-usecs 1000 and 2,086,396 packets per second, of which take has 300 ns."""
MACHINES: Mapping[str, Mapping[str, Any]] = {
    "sweep": {"echo": ECHO},
    "v6_other_machine": {"echo": ECHO, **OTHER_COSTS},
    "main_other_machine": {"echo": ECHO, **OTHER_COSTS},
    # Assumption: as slow as the other machine, which contributed beside it; a wake-up of a virtual machine takes 100 us
    # (published/veth-bql.yaml).
    "v6_interval": {"echo": ECHO, **OTHER_COSTS, "wakeup": "100us"},
    "v6_ping_only": {"echo": ECHO, **OTHER_COSTS, "wakeup": "100us"},
}
"""By how a group begins: settings of its machine's consumer that the documented defaults do not have."""
FITTED = {
    "v6_other_machine, tx-usecs 0, 20000 rules": "veth.consumer.rule of the other machine, 9.16 ns",
    "v6_other_machine, tx-usecs 1000, 0 rules": "veth.consumer.stack of the other machine, 180 ns",
}


def express(cell: Mapping[str, Any]) -> Plan | Blocked:
    if cell["tool"].startswith("bbperf"):
        return Blocked("two veth pairs with a router between them, and its offered rate is not given")
    if cell["qdisc"] not in QDISCS:
        return Blocked(f"found the discipline {cell['qdisc']}, expected one of {', '.join(QDISCS)}")
    flood = "pktgen" in cell["tool"]
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
        flow = {"kind": "udp-flood", "payload": "22B", "send": PKTGEN_S, "sndbuf": "64MiB", "blocking": False}
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
    seeds=(1,),
)
