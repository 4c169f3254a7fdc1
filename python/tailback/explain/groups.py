"""Stages that are one choice: the links of a tier, the same part of all receivers.

Of a fabric whose links are all busy no single one is worth anything: whoever buys faster ones buys a tier.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from functools import cached_property

from tailback.explain.observed import Observed
from tailback.explain.stages import Stage

HOST_TIER = "hosts"
"""The tier of the links that lead to hosts."""
AT_SENDERS = ("window", "reads", "throttle")
KINDS_WITHOUT_PLACE = ("loss", "headroom", "buffer", "failed link")


class Groups:
    """Groups of stages: tiers of links, hosts, kinds."""

    def __init__(self, seen: Observed) -> None:
        self.seen = seen

    def name(self, stage: Stage) -> str:
        """The group of a stage: of a link its tier, of all else the kind."""
        if stage.kind != "link":
            return (
                "all"
                if stage.kind in KINDS_WITHOUT_PLACE
                else "senders"
                if stage.kind in AT_SENDERS
                else "receivers"
            )
        return self.tier[frozenset(stage.ends)]

    @cached_property
    def tier(self) -> dict[frozenset[str], str]:
        """The tier of each link: `hosts`, or what the switches at its ends are called, as `leaf-spine`."""
        level = self.levels
        between: dict[tuple[int, int], list[frozenset[str]]] = {}
        for link in self.seen.rate:
            low, high = sorted(level.get(node, 0) for node in link)
            between.setdefault((low, high), []).append(link)
        found: dict[frozenset[str], str] = {}
        for (low, _), links in between.items():
            name = HOST_TIER if low == 0 else self._called(links)
            if name in found.values():
                name = f"{name} {low}"
            found.update(dict.fromkeys(links, name))
        return found

    def _called(self, links: Iterable[frozenset[str]]) -> str:
        """By the names of the switches without their numbers, those nearer to hosts first."""
        level = self.levels
        ends = Counter(
            "-".join(_stem(node) for node in sorted(link, key=lambda node: (level.get(node, 0), node)))
            for link in links
        )
        return ends.most_common(1)[0][0]

    @cached_property
    def levels(self) -> dict[str, int]:
        """Links from each node to the nearest host."""
        peers = {
            node: [wire.b if wire.a == node else wire.a for wire in wires]
            for node, wires in self.seen.network.wires_of.items()
        }
        found = dict.fromkeys(self.seen.network.host_number, 0)
        frontier = list(found)
        while frontier:
            after = []
            for node in frontier:
                for peer in peers.get(node, ()):
                    if peer not in found:
                        found[peer] = found[node] + 1
                        after.append(peer)
            frontier = after
        return found


def _stem(node: str) -> str:
    return re.sub(r"[\d.]+$", "", node) or "switch"
