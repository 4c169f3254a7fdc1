"""Fabrics for the test of `tailback explain`, drawn from a seed: any topology, load and fault, nothing made
slow on purpose. What then holds traffic is decided by `explain_work`, not here.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any

from explain_truth import Plan
from tailback.plan import make_plan
from tailback.scenario import load

Json = dict[str, Any]

RATES_GBPS = (25, 40, 50, 100, 100, 200, 400, 400, 800)
FAST = {"rpg_time_reset": 30, "rpg_ai_rate": 100, "rpg_hai_rate": 500, "rpg_min_rate": 100}
"""DCQCN that recovers within a short run."""
PACKETS = 150_000
"""What all hosts may send in a run, about: it takes the engine a fraction of a second."""


COLLECTIVE_ITEMS = 0.1
"""The part of the fabrics with a collective in place of other traffic."""


@dataclass(frozen=True)
class Drawn:
    """A drawn run: which family it is of, its scenario, and what was drawn, in words."""

    family: str
    scenario: Json
    words: str

    def plan(self) -> tuple[Any, Plan]:
        """The scenario as loaded, and its plan."""
        loaded = load(self.scenario)
        return loaded, make_plan(loaded)


def draw(seed: int, number: int) -> Drawn:
    """The fabric of this number."""
    rng = random.Random(f"fabric {seed} {number}")
    name = f"fabric-{seed}-{number}"
    rate = rng.choice(RATES_GBPS)
    mtu = rng.choice((1024, 1024, 2048, 4096, 4096))
    topology, hosts, words = _topology(rng, rate)
    packets = PACKETS * (1 if hosts <= 32 else 2)
    share_ps = packets * (mtu + 82) * 8 * 1000 // (hosts * rate)
    # How long the hosts together take for all packets at full rate: runs last a few times as long.
    duration_us = max(100, 3 * share_ps // 1_000_000)
    traffic, busy = _traffic(rng, hosts, packets * mtu, duration_us, topology)
    own = random.Random(f"collective {seed} {number}")
    if own.random() < COLLECTIVE_ITEMS:
        traffic, busy = _collective(own, packets * mtu // hosts)
    congestion = rng.choice(("dcqcn",) * 6 + ("none", "none", "hpcc", "swift", "dctcp", "timely"))
    lossless = rng.random() < 0.75
    host: Json = {"mtu": f"{mtu}B", "congestion": congestion, "transport": {"adaptive_timeout": "1ms"}}
    if congestion == "dcqcn" and rng.random() < 0.5:
        host["dcqcn"] = FAST
    switch: Json = {"lossless": [3] if lossless else []}
    words += f", {rate}G, MTU {mtu}, {congestion}{'' if lossless else ' lossy'}, {busy}"
    scenario: Json = {
        "name": name,
        "run": {"duration": f"{duration_us}us", "seed": rng.randrange(1, 1000)},
        "topology": topology,
        "host": host,
        "switch": switch,
        "traffic": traffic,
    }
    words += _faults(rng, scenario, duration_us, lossless)
    return Drawn("fabrics", scenario, words)


def _topology(rng: random.Random, rate: int) -> tuple[Json, int, str]:
    """A network, its number of hosts, and both in words."""
    link = {"rate": f"{rate}Gbps", "delay": f"{rng.choice((100, 500, 500, 1000))}ns"}
    form = rng.choices(("leaf-spine", "rail-optimised", "fat-tree", "star", "dumbbell"), (55, 12, 8, 15, 10))[
        0
    ]
    if form == "star":
        hosts = rng.choice((3, 5, 9, 17))
        return {"kind": form, "hosts": hosts, "link": link}, hosts, f"star of {hosts}"
    if form == "dumbbell":
        side = rng.choice((2, 4, 8))
        faster = rng.choice((1, 2, 4))
        bottleneck = {**link, "rate": f"{rate * faster}Gbps"}
        topology: Json = {"kind": form, "left": side, "right": side, "link": link, "bottleneck": bottleneck}
        return topology, 2 * side, f"dumbbell of {side}, trunk x{faster}"
    if form == "fat-tree":
        slower = rng.choice((1, 1, 0.5))
        core = {**link, "rate": f"{rate * slower:g}Gbps"}
        return {"kind": form, "k": 4, "link": link, "core": core}, 16, f"fat tree, core x{slower}"
    spines = rng.choice((1, 2, 2, 4, 4))
    # The uplinks of a leaf together, as a part of what its hosts can send: the oversubscription.
    over = rng.choice((1.0, 1.0, 1.5, 2.0, 2.0, 3.0, 4.0))
    if form == "rail-optimised":
        servers, nics = rng.choice((2, 4, 8)), rng.choice((4, 8))
        up = servers * rate / over / spines
        fabric = {"rate": f"{up:.3f}Gbps", "delay": "500ns"}
        topology = {"kind": form, "servers": servers, "nics": nics, "spines": spines, "link": link}
        return (
            {**topology, "fabric": fabric},
            servers * nics,
            f"rails {servers}x{nics}, {over}:1, {spines} spines",
        )
    leaves, each = rng.choice((2, 3, 4, 4, 8)), rng.choice((4, 4, 8, 8, 16))
    if leaves * each > 32 and rng.random() < 0.8:
        each = max(1, 32 // leaves)
    up = each * rate / over / spines
    fabric = {"rate": f"{up:.3f}Gbps", "delay": rng.choice(("500ns", "1us"))}
    topology = {"kind": form, "leaves": leaves, "spines": spines, "hosts_per_leaf": each, "link": link}
    return {**topology, "fabric": fabric}, leaves * each, f"{leaves}x{each}, {over}:1, {spines} spines"


def _traffic(
    rng: random.Random, hosts: int, total: int, duration_us: int, topology: Json
) -> tuple[list[Json], str]:
    """Traffic that is about `total` bytes, and what it is in words."""
    names = [f"h{number}" for number in range(hosts)]
    if topology["kind"] == "rail-optimised":
        names = [
            f"s{server}n{nic}" for server in range(topology["servers"]) for nic in range(topology["nics"])
        ]
    if topology["kind"] == "dumbbell":
        half = range(hosts // 2)
        names = [*(f"left{number}" for number in half), *(f"right{number}" for number in half)]
    kind = rng.choices(
        ("all-to-all", "permutation", "write", "poisson", "incast", "storage", "half"),
        (22, 18, 20, 12, 8, 8, 12),
    )[0]
    if kind == "all-to-all":
        message = max(1000, total // (hosts * (hosts - 1)))
        item = {"kind": kind, "message": f"{message}B"}
        stagger = rng.choice((0, 0, 2, 5))
        return [{**item, **({"stagger": f"{stagger}us"} if stagger else {})}], f"all-to-all of {message} B"
    if kind == "permutation":
        return [{"kind": kind, "message": f"{total // hosts}B"}], "permutation"
    if kind == "write":
        to = rng.sample(names, rng.choice((1, 1, 2, min(4, hosts - 1))))
        senders = [name for name in names if name not in to]
        senders = rng.sample(senders, rng.randint(1, min(len(senders), 16)))
        item = {
            "kind": "write",
            "from": senders,
            "to": to,
            "qps": rng.choice((1, 1, 2, 4)),
            "message": "64KiB",
        }
        item["depth"] = rng.choice((1, 4, 16, 64))
        return [item], f"write {len(senders)} to {len(to)}, depth {item['depth']}"
    if kind == "poisson":
        load_share = rng.choice((0.2, 0.4, 0.6, 0.8, 0.95))
        sizes = rng.choice(("websearch", "alistorage"))
        return [{"kind": kind, "load": load_share, "sizes": sizes}], f"{sizes} at {load_share}"
    if kind in ("incast", "storage"):
        fan_in = min(hosts - 1, rng.choice((4, 8, 16)))
        message = rng.choice((32_000, 100_000, 300_000))
        burst = {
            "kind": "incast",
            "fan_in": fan_in,
            "message": f"{message}B",
            "interval": f"{duration_us // 4}us",
        }
        if kind == "incast":
            return [burst], f"bursts of {fan_in} x {message} B"
        return [
            {"kind": "poisson", "load": 0.3, "sizes": "alistorage"},
            burst,
        ], f"storage and bursts of {fan_in}"
    # One half writes to the other: all that crosses the fabric does so one way.
    half = hosts // 2
    message = total // half
    rows = [f"{names[one]} {names[one + half]} {message}B 0us" for one in range(half)]
    return [{"kind": "flows", "list": rows}], f"{half} long messages from half to half"


def _collective(rng: random.Random, each: int) -> tuple[list[Json], str]:
    """A collective of all hosts in which each sends about so many bytes."""
    kind = rng.choice(("all-reduce", "all-reduce", "all-gather", "reduce-scatter"))
    algorithm = rng.choice(("ring", "ring", "direct"))
    repeat = rng.choice((1, 2, 4))
    size = each // repeat // (2 if kind == "all-reduce" else 1)
    item = {
        "kind": kind,
        "algorithm": algorithm,
        "size": f"{size}B",
        "channels": rng.choice((1, 1, 2)),
        "placement": rng.choice(("packed", "random")),
        "repeat": repeat,
    }
    return [item], f"{algorithm} {kind} of {size} B, {item['placement']}, {item['channels']} channels"


def _faults(rng: random.Random, scenario: Json, duration_us: int, lossless: bool) -> str:
    """Adds a fault to some runs; says which."""
    kind, draw_ = scenario["topology"]["kind"], rng.random()
    if kind in ("leaf-spine", "rail-optimised") and scenario["topology"]["spines"] > 1 and draw_ < 0.2:
        leaf = "leaf0" if kind == "leaf-spine" else "rail0"
        at = rng.choice((0, duration_us // 10))
        failure: Json = {"link": f"{leaf}-spine0", "at": f"{at}us"}
        if rng.random() < 0.3:
            failure["repair"] = f"{duration_us // 2}us"
        scenario["failures"] = [failure]
        return ", failed link"
    if draw_ < 0.28:
        loss = rng.choice((1e-4, 1e-3))
        scenario["topology"]["link"] = {**scenario["topology"]["link"], "loss": loss}
        return f", loss {loss:g}"
    if draw_ < 0.34 and lossless:
        scenario["switch"]["pfc"] = {"headroom": "2KB"}
        if rng.random() < 0.5:
            scenario["switch"]["ecn"] = None
        return ", headroom 2KB"
    return ""
