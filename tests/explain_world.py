"""Runs for the test of `tailback explain`, drawn from the world: hosts, bridges and namespaces as they are
set up, with presets of PCIe, memory that cores load, GPUs, TCP on cores, bridges with the usual rings and
queueing disciplines, veth pairs with firewall rules. Nothing is made slow on purpose; `explain_fabrics` draws
the fabrics, `explain_work` decides what holds traffic.
"""

from __future__ import annotations

import random
from typing import Any

import explain_fabrics
from explain_fabrics import FAST, Drawn

Json = dict[str, Any]

PACKETS = 100_000
"""What all hosts may send in a run, about."""


def host_paths(rng: random.Random) -> tuple[Json, str]:
    """RoCE between servers with PCIe, memory or GPUs behind their NICs."""
    rate = rng.choice((25, 50, 100, 100, 200, 400))
    preset = rng.choice(("pcie3-x8", "pcie3-x16", "pcie3-x16", "pcie4-x16", "pcie5-x16"))
    target = rng.choice(("memory", "memory", "gpu"))
    mtu = rng.choice((1024, 2048, 4096, 4096))
    hosts = rng.choice((2, 3, 5, 8))
    names = [f"h{number}" for number in range(hosts)]
    duration_us = max(200, 3 * PACKETS * (mtu + 82) * 8 // (rate * 1000 * max(1, hosts // 2)))
    path: Json = {"preset": preset, "target": target, "receive_buffer": {"lossless_size": "1MiB"}}
    if target == "memory" and rng.random() < 0.5:
        path["memory"] = {"ddio": rng.choice((None, {"capacity": "1MB"}, {"capacity": "4MB"}))}
    if target == "gpu":
        gpu: Json = {"hops": rng.choice((1, 2, 4))}
        if rng.random() < 0.4:
            gpu["outstanding"] = rng.choice(("16KiB", "32KiB", "64KiB"))
        if rng.random() < 0.3:
            gpu["stalls"] = {"interval": "200us", "duration": f"{rng.randrange(5, 60)}us"}
        path["gpu"] = gpu
    if rng.random() < 0.4:
        outstanding = rng.choice(("8KiB", "16KiB", "32KiB", "64KiB"))
        path["reads"] = {"outstanding": outstanding, "latency": rng.choice(("500ns", "700ns", "1us"))}
    congestion = rng.choice(("dcqcn", "dcqcn", "none", "hpcc", "swift"))
    lossless = rng.random() < 0.7
    host: Json = {"mtu": f"{mtu}B", "congestion": congestion, "path": path}
    host["transport"] = {"adaptive_timeout": "1ms"}
    if congestion == "dcqcn" and rng.random() < 0.5:
        host["dcqcn"] = FAST
    kind = rng.choices(("incast", "pairs", "all-to-all", "poisson"), (40, 30, 15, 15))[0]
    if hosts == 2:
        kind = "incast" if kind == "all-to-all" else kind
    depth = rng.choice((1, 4, 16, 64))
    if kind == "incast":
        traffic: Json = {"kind": "write", "from": names[:-1], "to": names[-1], "depth": depth}
        traffic |= {"qps": rng.choice((1, 1, 4)), "message": "64KiB", "start_interval": "10us"}
    elif kind == "pairs":
        half = hosts // 2
        message = rng.choice((4_096, 65_536, 1_048_576))
        count = min(400, max(1, PACKETS * mtu // message // half // 4))
        gap = duration_us * rng.choice((0.2, 0.6, 1.0)) / count
        rows = [
            f"{names[one]} {names[one + half]} {message}B {round(1000 * gap * at)}ns"
            for one in range(half)
            for at in range(count)
        ]
        traffic = {"kind": "flows", "list": rows}
    elif kind == "all-to-all":
        traffic = {"kind": kind, "message": f"{max(1000, PACKETS * mtu // (hosts * (hosts - 1)))}B"}
    else:
        traffic = {"kind": kind, "load": rng.choice((0.2, 0.5, 0.8)), "sizes": "alistorage"}
    scenario: Json = {
        "run": {"duration": f"{duration_us}us", "seed": rng.randrange(1, 1000)},
        "topology": {"kind": "star", "hosts": hosts, "link": {"rate": f"{rate}Gbps", "delay": "500ns"}},
        "host": host,
        "switch": {"lossless": [3] if lossless else []},
        "traffic": [traffic],
    }
    words = (
        f"{hosts} hosts, {rate}G, {preset}, {target}, MTU {mtu}, {congestion}{'' if lossless else ' lossy'}"
    )
    if target == "memory" and rng.random() < 0.6:
        loaded = [names[-1]] if kind == "incast" else rng.sample(names, rng.randint(1, hosts))
        cores = rng.choice((2, 4, 8, 16))
        scenario["memory_load"] = [{"host": name, "cores": cores} for name in loaded]
        words += f", {cores} cores load {len(loaded)}"
    if rng.random() < 0.1:
        scenario["topology"]["link"]["loss"] = 1e-4
        words += ", loss"
    return scenario, f"{words}, {kind} depth {depth}"


def tcp(rng: random.Random) -> tuple[Json, str]:
    """TCP between servers whose cores do its work."""
    rate = rng.choice((10, 25, 25, 50, 100))
    hosts = rng.choice((2, 3, 5, 9))
    names = [f"h{number}" for number in range(hosts)]
    connections = rng.choice((1, 1, 2, 4, 8))
    control = rng.choice(("cubic", "cubic", "newreno", "dctcp"))
    settings: Json = {
        "control": control,
        "mtu": rng.choice(("1500B", "1500B", "9000B")),
        "min_rto": "5ms",
        "delayed_ack": "1ms",
    }
    if rng.random() < 0.4:
        settings["receive_buffer"] = rng.choice(("64KiB", "128KiB", "256KiB", "1MiB", "4MiB"))
    cpu = {"cores": rng.choice((1, 1, 2, 4)), "clock": rng.choice(("2GHz", "2.5GHz", "3.5GHz"))}
    item: Json = {"kind": "tcp", "from": names[:-1], "to": names[-1], "connections": connections}
    words = f"TCP, {hosts - 1} to one, {rate}G, {cpu['cores']} cores of {cpu['clock']}"
    words += f", {connections} connections, {control}"
    scenario: Json = {
        "run": {"duration": f"{rng.choice((20, 30))}ms", "seed": rng.randrange(1, 1000)},
        "topology": {"kind": "star", "hosts": hosts, "link": {"rate": f"{rate}Gbps", "delay": "1us"}},
        "host": {"cpu": cpu, "tcp": settings},
        "switch": {"lossless": []},
        "traffic": [{**item, "start_spread": "1ms"}],
    }
    return scenario, words


def bridge(rng: random.Random) -> tuple[Json, str]:
    """Hosts joined by a Linux bridge, RoCE through it."""
    rate = rng.choice((10, 25, 25, 40, 100))
    hosts = rng.choice((2, 2, 3, 4))
    mtu = rng.choice((1024, 2048, 4096, 4096))
    cores = rng.choice((1, 2, 2, 4))
    names = [f"h{number}" for number in range(hosts)]
    ring = rng.choice((256, 512, 1024, 1024, 4096, 8192))
    red = {"kind": "red", "limit": "2MB", "min": "100KB", "max": "400KB", "avpkt": "1500B", "ecn": True}
    qdisc: Json = rng.choice(
        (
            {"kind": "pfifo", "limit": 1000},
            {"kind": "pfifo", "limit": 10_000},
            {"kind": "fq_codel"},
            red,
            {"kind": "tbf", "rate": f"{rng.choice((2, 5, 8))}Gbps", "burst": "64KB", "limit": "4MB"},
        )
    )
    depth = rng.choice((2, 8, 32, 128))
    congestion = "dcqcn" if qdisc["kind"] == "red" else rng.choice(("none", "dcqcn"))
    moderation = {"adaptive": rng.random() < 0.5}
    receive = rng.choice((300, 600, 1000, 1800))
    scenario: Json = {
        "run": {"duration": "10ms", "seed": rng.randrange(1, 1000)},
        "topology": {"kind": "bridge", "hosts": hosts, "link": {"rate": f"{rate}Gbps", "delay": "100ns"}},
        "host": {
            "mtu": f"{mtu}B",
            "congestion": congestion,
            "transport": {"adaptive_timeout": "1ms"},
            **({"dcqcn": FAST} if congestion == "dcqcn" else {}),
        },
        "bridge": {
            "cores": [{"cpu": number} for number in range(cores)],
            "ports": [{"to": name, "irqs": [rng.randrange(cores)]} for name in names],
            "rx_ring": ring,
            "rx": moderation,
            "tx": moderation,
            "qdisc": qdisc,
            "costs": {"receive": f"{receive}ns"},
        },
        "traffic": [
            {
                "kind": "write",
                "from": names[1:] if hosts > 2 else names[1],
                "to": "h0",
                "message": rng.choice(("8KiB", "64KiB", "64KiB")),
                "depth": depth,
                "start_interval": "10us",
            }
        ],
    }
    words = f"bridge, {hosts - 1} to one, {rate}G, MTU {mtu}, {cores} cores, {receive} ns"
    return scenario, f"{words}, ring {ring}, {qdisc['kind']}, {congestion}, depth {depth}"


def veth(rng: random.Random) -> tuple[Json, str]:
    """Two namespaces joined by a veth pair: floods, pings, XDP frames."""
    rules = rng.choice((0, 100, 1000, 5000, 13_000))
    ring = rng.choice((30, 256, 256, 256, 1024))
    bql = rng.choice(("none", "packets", "bytes"))
    qdisc = rng.choice(
        ({"kind": "noqueue"}, {"kind": "fq_codel"}, {"kind": "pfifo", "limit": 1000}, {"kind": "sfq"})
    )
    consumer = {"rules": rules, "jitter": rng.choice((0.0, 0.08))}
    kind = rng.choices(("flood", "paced", "ping", "xdp"), (50, 20, 10, 20))[0]
    duration_ms = 1000 if rules >= 5000 else 200
    traffic: list[Json] = []
    if kind in ("flood", "paced"):
        item: Json = {
            "kind": "udp-flood",
            "payload": rng.choice(("24B", "1400B")),
            "blocking": rng.random() < 0.5,
        }
        item["sndbuf"] = rng.choice(("208KiB", "2MiB"))
        if kind == "paced":
            item["interval"] = f"{rng.choice((5, 20, 100))}us"
        traffic.append(item)
    if kind == "xdp":
        traffic.append(
            {
                "kind": "xdp-frames",
                "batch": rng.choice((8, 64)),
                "interval": f"{rng.choice((50, 200, 1000))}us",
            }
        )
    traffic.append({"kind": "ping", "interval": "10ms", "start": "5ms"})
    scenario: Json = {
        "run": {"duration": f"{duration_ms}ms", "seed": rng.randrange(1, 1000)},
        "topology": {"kind": "veth"},
        "veth": {
            "ring": ring,
            "bql": bql if qdisc["kind"] != "noqueue" else "none",
            "qdisc": qdisc,
            "consumer": consumer,
        },
        "traffic": traffic,
    }
    return scenario, f"veth, {rules} rules, ring {ring}, {qdisc['kind']}, bql {bql}, {kind}"


FAMILIES = {"hosts": (host_paths, host_paths, tcp), "bridges": (bridge,), "veth": (veth,)}
"""What each family but the fabrics draws from."""
OF_EIGHT = ("fabrics",) * 4 + ("hosts",) * 2 + ("bridges", "veth")
"""The families of eight runs."""


def draw(seed: int, number: int, family: str | None = None) -> Drawn:
    """The run of this number, of a family in its turn or of the one that is asked for."""
    family = family or OF_EIGHT[number % len(OF_EIGHT)]
    if family == "fabrics":
        return explain_fabrics.draw(seed, number)
    rng = random.Random(f"{family} {seed} {number}")
    scenario, words = rng.choice(FAMILIES[family])(rng)
    return Drawn(family, {"name": f"{family}-{seed}-{number}", **scenario}, words)
