"""Truth for two namespaces joined by a veth pair: what can be doubled there, and what throughput is."""

from __future__ import annotations

import copy
from collections.abc import Callable
from functools import partial
from typing import Any

from tailback.explain.remedies.patches import Plan, wider

COSTS = ("take", "stack", "rule", "wakeup")
"""All that takes a namespace's core time for a packet."""


def delivered(meta: dict[str, Any]) -> float:
    """Packets that came to the stacks of both namespaces, a second."""
    ends = meta["veth"]["ends"]
    return float(sum(end["counters"]["delivered_packets"] for end in ends) / (meta["end_ps"] / 1e12))


def doublings(plan: Plan) -> dict[tuple[str, str], Callable[[Plan], Plan]]:
    """Each stage with what doubles it: a namespace's core, the ring, the queueing discipline, the rate of
    completions, the thread of a flood, its socket's memory. How often something is sent is no capacity.
    """
    found: dict[tuple[str, str], Callable[[Plan], Plan]] = {}
    for number, one in enumerate(plan["veth"]["namespaces"]):
        core = partial(
            _scaled, part="namespaces", number=number, factors=dict.fromkeys(COSTS, 0.5), of="costs"
        )
        found["softirq", one["name"]] = core
    for number, one in enumerate(plan["veth"]["veths"]):
        where = f"{one['a']}-{one['b']}"
        found["ring", where] = partial(_scaled, part="veths", number=number, factors={"ring": 2}, of="veth")
        found["qdisc", where] = partial(_wider_qdisc, number=number)
        if one["veth"]["bql"] != "none":
            sooner = {"tx_usecs": 0.5}
            found["completions", where] = partial(
                _scaled, part="veths", number=number, factors=sooner, of="veth"
            )
    for number, one in enumerate(plan["veth"]["datagrams"]):
        for kind, factors in (("flood", {"send": 0.5}), ("window", {"sndbuf": 2.0})):
            found[kind, one["item"]] = partial(_scaled, part="datagrams", number=number, factors=factors)
    return found


def _scaled(plan: Plan, part: str, number: int, factors: dict[str, float], of: str | None = None) -> Plan:
    edited = copy.deepcopy(plan)
    settings = edited["veth"][part][number]
    settings = settings if of is None else settings[of]
    for key, factor in factors.items():
        settings[key] = int(settings[key] * factor)
    return edited


def _wider_qdisc(plan: Plan, number: int) -> Plan:
    edited = copy.deepcopy(plan)
    settings = edited["veth"]["veths"][number]
    settings["qdisc"] = wider(settings["qdisc"])
    return edited
