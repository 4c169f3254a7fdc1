"""Runs for the test of `tailback explain`, drawn from a seed: one stage or two are made slow, or none is.

A run is drawn as capacities of its stages, in payload a second, and these are turned into settings by the
simplest sum. What then is the bottleneck is decided by `explain_truth`, not here: the sums need not be right.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Any

from tailback.explain.remedies.patches import Plan, own_nic
from tailback.plan import make_plan
from tailback.scenario import load

Json = dict[str, Any]

ROCE_STAGES = ("receiver link", "trunk", "sender link", "pcie", "memory", "gpu", "credits", "reads", "window")
TCP_STAGES = ("receiver link", "sender link", "receiver cpu", "sender cpu", "socket")
BRIDGE_STAGES = ("receiver link", "sender link", "core", "core", "ring", "qdisc", "window")
TIMEOUT, IN_FLIGHT_BYTES = "1ms", 1_000_000
"""Runs are short: a sender must not spend them waiting for a timeout. Nor may what it has under way take
longer to drain than that, or it sends again what was not lost."""
IIO_LATENCY_S = 326e-9
"""Of a write and its credits, with nothing in its way: the defaults of host.path."""
ROUND_TRIP_S = 6e-6
BRIDGE_ROUND_TRIP_S = 40e-6
FAST = {"rpg_time_reset": 30, "rpg_ai_rate": 100, "rpg_hai_rate": 500, "rpg_min_rate": 100}
"""DCQCN that recovers within a millisecond from the start of a run, which is what is not to be explained."""
SLOW: Json = {"profile": "sigcomm15"}
CYCLES_PER_BYTE = {"receiver cpu": 0.9, "sender cpu": 0.9}
"""What TCP costs at an MTU of 1500 B, roughly."""


@dataclass(frozen=True)
class Drawn:
    """A run: its scenario, clocks and links of single hosts, and what was drawn, in words."""

    name: str
    scenario: Json
    clocks: dict[str, float]
    words: str
    rates: dict[str, float] = field(default_factory=dict)
    """Rates of single hosts' links."""

    def plan(self) -> tuple[Any, Plan]:
        """The scenario as loaded, and its plan."""
        loaded = load(self.scenario)
        plan = make_plan(loaded)
        for host, clock in self.clocks.items():
            own_nic(plan, host)["cpu"]["clock"] = round(clock)
        for link in plan["links"]:
            link["rate"] = round(self.rates.get(link["a"], link["rate"]))
        return loaded, plan


def draw(seed: int, number: int) -> Drawn:
    """The run of this number."""
    rng = random.Random(f"explain {seed} {number}")
    kind = rng.choices(("roce", "offered", "tcp", "bridge"), (52, 10, 18, 20))[0]
    name = f"run-{seed}-{number}"
    if kind == "tcp":
        return _tcp(rng, name)
    if kind == "bridge":
        return _bridge(rng, name)
    return _roce(rng, name, offered=kind == "offered")


def _capacities(rng: random.Random, stages: list[str], base: float) -> tuple[dict[str, float], str]:
    """What each stage carries, bit/s of payload: one stage the base, maybe another hardly more."""
    slow = rng.sample(stages, 2)
    found = {stage: base * rng.uniform(1.25, 4.0) for stage in stages}
    if slow[0] == slow[1]:
        slow[1] = next(stage for stage in stages if stage != slow[0])
    found[slow[0]] = base
    words = slow[0]
    if rng.random() < 0.4:
        factor = rng.uniform(1.0, 1.4)
        found[slow[1]] = base * factor
        words += f", {slow[1]} {factor:.2f} times as fast"
    return found, words


def _rate(bits: float) -> str:
    return f"{round(bits / 1e6)}Mbps"


def _roce(rng: random.Random, name: str, *, offered: bool) -> Drawn:
    target = rng.choice(("none", "memory", "memory", "gpu"))
    absent = {
        "none": {"pcie", "memory", "gpu", "credits"},
        "memory": {"gpu"},
        "gpu": {"memory"},
    }[target]
    if rng.random() < 0.5:
        absent |= {"reads"}
    stages = [stage for stage in ROCE_STAGES if stage not in absent]
    base = rng.uniform(8e9, 40e9)
    capacity, words = _capacities(rng, stages, base)
    many = min(capacity, key=lambda stage: capacity[stage]) not in ("sender link", "reads", "window")
    senders = rng.choice((1, 1, 2, 3, 4)) if many else 1
    trunk = senders > 1 or rng.random() < 0.5
    mtu = rng.choice((1024, 2048, 4096))
    payload = mtu / (mtu + 82)
    names = [f"h{number}" for number in range(senders)]
    receiver = f"h{senders}"
    up = capacity["sender link"] / payload
    links = [f"{host} sw0 {_rate(up)} 500ns" for host in names]
    if trunk:
        links.append(f"sw0 sw1 {_rate(capacity['trunk'] / payload)} 500ns")
    links.append(f"{receiver} {'sw1' if trunk else 'sw0'} {_rate(capacity['receiver link'] / payload)} 500ns")
    # A bystander, so that a network is more than one path.
    bystander = rng.random() < 0.3
    if bystander:
        links += [f"h{senders + 1} sw0 50Gbps 500ns", f"h{senders + 2} sw0 50Gbps 500ns"]
    lossless = rng.random() < 0.7
    message = rng.choice((16384, 65536, 131072))
    window = capacity["window"] * ROUND_TRIP_S / 8
    qps = rng.choice((1, 1, 2, 4)) if "window" not in words else 1
    depth = max(2, IN_FLIGHT_BYTES // message // qps)
    if "window" in words:
        message = mtu * max(1, round(window / 8 / mtu))
        depth = max(1, round(window / message))
    host: Json = {
        "mtu": f"{mtu}B",
        "transport": {"adaptive_timeout": TIMEOUT},
        "congestion": rng.choice(("none", "dcqcn", "dcqcn", "dcqcn", "hpcc")),
        "path_by_host": _paths(rng, target, capacity, names, receiver, "reads" in stages),
    }
    if host["congestion"] == "dcqcn":
        host["dcqcn"] = SLOW if rng.random() < 0.1 else FAST
    duration = {id(SLOW): 6, id(FAST): 3}.get(id(host.get("dcqcn")), 2)
    traffic: list[Json] = []
    if offered:
        load_share = rng.uniform(0.2, 0.8)
        bits = base * load_share / senders
        size = rng.choice((4096, 16384, 65536))
        count = max(1, int(bits * duration / 1e3 / 8 / size))
        gap = duration * 1e6 / count
        rows = [
            f"{host_name} {receiver} {size}B {round(gap * (at + rng.uniform(0, 0.9)))}ns"
            for host_name in names
            for at in range(count)
        ]
        traffic.append({"kind": "flows", "list": rows})
        words = f"{load_share:.2f} of the base offered; {words}"
    else:
        traffic.append(
            {
                "kind": "write",
                "from": names if senders > 1 else names[0],
                "to": receiver,
                "qps": qps,
                "message": f"{message}B",
                "depth": depth,
                # Not in lockstep, as no real senders are.
                "start_interval": "10us",
            }
        )
    if bystander:
        far = f"h{senders + 2}"
        rows = [f"h{senders + 1} {far} 64KiB {at * 100}us" for at in range(duration * 10)]
        traffic.append({"kind": "flows", "list": rows})
    scenario: Json = {
        "name": name,
        "run": {"duration": f"{duration}ms", "seed": rng.randrange(1, 1000)},
        "topology": {"kind": "graph", "switches": ["sw0", "sw1"] if trunk else ["sw0"], "links": links},
        "host": host,
        "switch": {"lossless": [3] if lossless else [], **_ecn(rng, host["congestion"])},
        "traffic": traffic,
    }
    if target == "memory":
        scenario["memory_load"] = _loads(rng, receiver, words)
    return Drawn(name, scenario, {}, f"{words}; {senders} to one, {host['congestion']}")


def _ecn(rng: random.Random, congestion: str) -> Json:
    if congestion == "hpcc":
        return {"ecn": None}
    return {"ecn": rng.choice(({"k_min": "150KB", "k_max": "1500KB"}, {"k_min": "50KB", "k_max": "200KB"}))}


def _paths(
    rng: random.Random,
    target: str,
    capacity: dict[str, float],
    senders: list[str],
    receiver: str,
    reads: bool,
) -> list[Json]:
    found: list[Json] = []
    if target != "none":
        path: Json = {
            "hosts": receiver,
            "preset": "pcie3-x16",
            "target": target,
            "rate": _rate(capacity["pcie"] * 280 / 256),
            "iio_lines": max(8, round(capacity["credits"] * IIO_LATENCY_S / 8 / 64)),
            "receive_buffer": {"lossless_size": "1MiB"},
        }
        if target == "memory":
            path["memory"] = {
                "bandwidth": _rate(max(1e9, capacity["memory"] * rng.uniform(2.5, 4.5))),
                "ddio": rng.choice((None, {"capacity": "1MB"}, {"capacity": "4MB"})),
            }
        else:
            gpu: Json = {"bandwidth": _rate(capacity["gpu"])}
            if rng.random() < 0.5:
                gpu["outstanding"] = f"{max(4096, round(capacity['gpu'] * IIO_LATENCY_S / 8))}B"
                gpu["bandwidth"] = _rate(capacity["gpu"] * rng.uniform(1.2, 3))
            if rng.random() < 0.3:
                gpu["stalls"] = {"interval": "200us", "duration": f"{rng.randrange(5, 60)}us"}
            path["gpu"] = gpu
        found.append(path)
    if reads:
        for host in senders:
            outstanding = max(1024, round(capacity["reads"] * 700e-9 / 8))
            found.append(
                {
                    "hosts": host,
                    "preset": "pcie4-x16",
                    "reads": {"outstanding": f"{outstanding}B", "latency": "700ns"},
                }
            )
    return found


def _loads(rng: random.Random, receiver: str, words: str) -> list[Json]:
    if "memory" in words:
        return [{"host": receiver, "cores": rng.randrange(2, 12)}]
    return [{"host": receiver, "cores": rng.randrange(1, 3)}] if rng.random() < 0.4 else []


def _bridge(rng: random.Random, name: str) -> Drawn:
    base = rng.uniform(4e9, 16e9)
    capacity, words = _capacities(rng, list(BRIDGE_STAGES), base)
    mtu = rng.choice((1024, 2048, 4096))
    payload = mtu / (mtu + 82)
    senders = rng.choice((1, 1, 2)) if not words.startswith(("sender link", "window", "ring")) else 1
    names = [f"h{number + 1}" for number in range(senders)]
    packet_ns = mtu * 8e9 / capacity["core"]
    # 550 ns of a packet's cost are transmission and its completion; interrupts and polls come on top.
    receive = max(50, round(packet_ns - 550))
    # Without ECN a queue must hold the window: go-back-N makes of drops a collapse, and of its cause a guess.
    marks = rng.random() < 0.25
    red = {"kind": "red", "limit": "2MB", "min": "100KB", "max": "400KB", "avpkt": "1500B", "ecn": True}
    qdisc: Json = red if marks else {"kind": "pfifo", "limit": 16384}
    if "qdisc" in words:
        shaper = {
            "kind": "tbf",
            "rate": _rate(capacity["qdisc"] / payload),
            "burst": "64KB",
            "limit": "20MB",
        }
        narrow = {
            "kind": "red",
            "limit": "500KB",
            "min": "30KB",
            "max": "90KB",
            "avpkt": f"{mtu}B",
            "ecn": True,
            "probability": 0.5,
        }
        marks = rng.random() < 0.3
        qdisc = narrow if marks else shaper
    message, depth, ring = 65536, IN_FLIGHT_BYTES // 65536, 8192
    if "window" in words:
        window = capacity["window"] * BRIDGE_ROUND_TRIP_S / 8
        message = mtu * max(1, round(window / 8 / mtu))
        depth = max(1, round(window / message))
    if "ring" in words:
        ring = rng.choice((64, 128, 256))
        depth = max(1, round(ring * mtu * rng.uniform(0.8, 2.5) / message))
    congestion = "dcqcn" if marks else "none"
    # Moderation that adapts would answer a doubling by itself.
    usecs = 1 if "window" in words else rng.choice((4, 8, 16))
    moderation = {"adaptive": False, "usecs": usecs, "frames": 32}
    scenario: Json = {
        "name": name,
        "run": {"duration": "6ms", "seed": rng.randrange(1, 1000)},
        "topology": {"kind": "bridge", "hosts": senders + 1, "link": {"rate": "25Gbps", "delay": "100ns"}},
        "host": {
            "mtu": f"{mtu}B",
            "transport": {"adaptive_timeout": TIMEOUT},
            "congestion": congestion,
            **({"dcqcn": FAST} if congestion == "dcqcn" else {}),
        },
        "bridge": {
            "cores": [{"cpu": 0}, {"cpu": 1}],
            "ports": [
                {"to": "h0", "irqs": [1]},
                *({"to": host, "irqs": [rng.choice((0, 0, 1))]} for host in names),
            ],
            "rx_ring": ring,
            "rx": moderation,
            "tx": moderation,
            "qdisc": qdisc,
            "costs": {"receive": f"{receive}ns"},
        },
        "traffic": [
            {
                "kind": "write",
                "from": names if senders > 1 else names[0],
                "to": "h0",
                "message": f"{message}B",
                "depth": depth,
                "start_interval": "10us",
            }
        ],
    }
    rates = dict.fromkeys(names, capacity["sender link"] / payload)
    rates["h0"] = capacity["receiver link"] / payload
    return Drawn(name, scenario, {}, f"{words}; bridge, {senders} to one, {congestion}", rates)


def _tcp(rng: random.Random, name: str) -> Drawn:
    base = rng.uniform(4e9, 16e9)
    capacity, words = _capacities(rng, list(TCP_STAGES), base)
    many = min(capacity, key=lambda stage: capacity[stage]) in ("receiver link", "receiver cpu")
    senders = rng.choice((1, 2, 3)) if many else 1
    names, receiver = [f"h{number}" for number in range(senders)], f"h{senders}"
    payload = 1448 / 1538
    connections = rng.choice((1, 1, 2))
    links = [f"{host} sw0 {_rate(capacity['sender link'] / payload)} 1us" for host in names]
    links.append(f"{receiver} sw0 {_rate(capacity['receiver link'] / payload)} 1us")
    # What is under way of all connections: interrupts and delayed work make round trips of some 30 us.
    window = capacity["socket"] * 30e-6 / 8 / senders / connections
    buffer = max(6000, round(window)) if "socket" in words else rng.choice((262_144, 524_288))
    clocks = {receiver: capacity["receiver cpu"] / 8 * CYCLES_PER_BYTE["receiver cpu"]}
    clocks.update(dict.fromkeys(names, capacity["sender cpu"] / 8 * CYCLES_PER_BYTE["sender cpu"]))
    scenario: Json = {
        "name": name,
        "run": {"duration": f"{rng.choice((20, 30))}ms", "seed": rng.randrange(1, 1000)},
        "topology": {"kind": "graph", "switches": ["sw0"], "links": links},
        "host": {
            "cpu": {"cores": rng.choice((1, 1, 2))},
            "tcp": {
                "control": rng.choice(("cubic", "cubic", "newreno", "dctcp")),
                "receive_buffer": f"{buffer}B",
                "min_rto": "5ms",
                "delayed_ack": "1ms",
            },
        },
        "switch": {"lossless": [], "ecn": {"k_min": "100KB", "k_max": "100KB"}},
        "traffic": [
            {
                "kind": "tcp",
                "from": names if senders > 1 else names[0],
                "to": receiver,
                "connections": connections,
                "start_spread": "1ms",
            }
        ],
    }
    return Drawn(name, scenario, clocks, f"{words}; TCP, {senders} to one")
