"""Cuts through a network: its parts without all above a tier, and what the links out of each carry."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from tailback import text
from tailback.recorded.run import Recorded


def cuts(result: Recorded) -> Iterator[tuple[int, npt.NDArray[Any], npt.NDArray[Any], list[str]]]:
    """For each tier: the part that each host is in when all above is cut off, what the links out of each part
    carry one way, and the first of its highest nodes. Links that were never up carry nothing.
    """
    network = result.setup.network
    down = _never_up(result)
    tier_of = network.tier_of
    for tier in range(max(tier_of.values(), default=0)):
        part: dict[str, int] = {}
        heads: list[str] = []
        for node in tier_of:
            if tier_of[node] > tier or node in part:
                continue
            part[node] = len(heads)
            together = [node]
            for one in together:
                for wire in network.wires_of[one]:
                    peer = wire.b if wire.a == one else wire.a
                    if tier_of[peer] <= tier and tier > 0 and peer not in part:
                        part[peer] = len(heads)
                        together.append(peer)
            heads.append(max(sorted(together, key=text.natural), key=lambda name: tier_of[name]))
        rates = np.zeros(len(heads))
        for wire in (wire for at, wire in enumerate(network.wires) if at not in down):
            ends = (part.get(wire.a), part.get(wire.b))
            for number in ends if ends[0] != ends[1] else ():
                if number is not None:
                    rates[number] += wire.rate
        yield tier, np.array([part[host] for host in network.hosts]), rates, heads


def _never_up(result: Recorded) -> set[int]:
    """Numbers of links that were down from the start of the run to its end."""
    end = result.meta["end_ps"]
    return {
        one["link"]
        for one in result.plan.get("failures", [])
        if not one["at"] and (one["repair"] is None or one["repair"] >= end)
    }


def place(tier: int, heads: list[str]) -> str:
    """The links out of parts of a tier, in words."""
    if tier == 0:
        return f"the link of {heads[0]}" if len(heads) == 1 else "the links of hosts"
    if len(heads) == 1:
        return f"the links above {heads[0]}"
    return f"the links above {heads[0]} and {text.plural(len(heads) - 1, 'other')} like it"
