"""Tiers of links: too little capacity, flows that collide, a link that is down."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tailback import text
from tailback.explain import faults
from tailback.explain.groups import HOST_TIER
from tailback.explain.stages import FULL_BUSY_SHARE, IDLE_BUSY_SHARE, Figure

if TYPE_CHECKING:
    from tailback.explain.groups import Groups
    from tailback.explain.verdict import Candidate
    from tailback.explain.ways import Port

COLLISION_MAX_MEAN_SHARE = 0.75
"""If links are full while the mean of their tier is below this, flows collide: the tier's capacity is not the
cause."""
MAX_BUSY_BEHIND_HOST_LINKS = 0.5
"""Links between switches that are busier than this would be full if host links were twice as fast."""


@dataclass(frozen=True)
class Tier:
    """Busy share of each port of a tier that traffic can use, idle ports included."""

    name: str
    uses: dict[Port, float]

    @property
    def mean(self) -> float:
        """Of all its ports."""
        return sum(self.uses.values()) / len(self.uses)

    @property
    def fullest(self) -> Port:
        """The busiest port."""
        return max(self.uses, key=lambda port: self.uses[port])

    @property
    def full(self) -> int:
        """Ports that are busy all the time."""
        return sum(use >= FULL_BUSY_SHARE for use in self.uses.values())


def of(groups: Groups, name: str) -> Tier | None:
    """The tier of this name, by the direction that carries more; None where nothing was counted."""
    seen = groups.seen
    level = groups.levels
    up: dict[Port, float] = {}
    down: dict[Port, float] = {}
    for port in seen.through:
        if groups.tier[frozenset(port)] == name:
            side = up if level.get(port[0], 0) <= level.get(port[1], 0) else down
            side[port] = min(1.0, seen.wire_share(port))
    sides = [Tier(name, side) for side in (up, down) if side]
    return max(sides, key=lambda side: side.mean, default=None)


def oversubscription(groups: Groups) -> float:
    """Oversubscription: rate of a switch's hosts over the rate of its uplinks; of the worst switch."""
    seen, level = groups.seen, groups.levels
    worst = 0.0
    for switch in seen.network.switches:
        below = above = 0.0
        for wire in seen.network.wires_of[switch]:
            peer = wire.b if wire.a == switch else wire.a
            if level.get(peer, 0) == 0:
                below += wire.rate
            elif level[peer] > level[switch]:
                above += wire.rate
        if level.get(switch) == 1 and above:
            worst = max(worst, below / above)
    return worst


def why(groups: Groups, one: Candidate) -> list[str]:
    """Sentences on why a tier, or a link of it, is full."""
    if one.stage.kind != "link":
        return []
    name = groups.name(one.stage)
    said = []
    out = [link for link in faults.down(groups.seen) if groups.tier.get(link) == name]
    if out:
        said.append("The others carried its traffic, too.")
    if name == HOST_TIER:
        return said
    tier = of(groups, name)
    if tier is not None and tier.full and tier.mean < COLLISION_MAX_MEAN_SHARE and groups.seen.by_flow:
        said.append(
            f"Flows collide: ECMP has put more of them on some of these links than on others, which are "
            f"{text.share(tier.mean)} busy on average."
        )
    over = oversubscription(groups)
    if over > 1.01 and not out:
        said.append(f"The fabric is oversubscribed {over:.3g}:1: hosts can send more than switches pass on.")
    return said


def figures(groups: Groups, one: Candidate) -> list[Figure]:
    """Busy shares of a tier."""
    if one.stage.kind != "link" or not one.group:
        return []
    tier = of(groups, one.group)
    if tier is None:
        return []
    called = "links of hosts" if one.group == HOST_TIER else f"{one.group} links"
    return [
        Figure(f"{called}, mean", text.share(tier.mean), "below 75 %, as flows are never spread evenly"),
        Figure(f"{called}, full", f"{tier.full} of {len(tier.uses)}", "none"),
    ]


def doubts(groups: Groups, one: Candidate) -> list[str]:
    """Reasons why a verdict is less sure in a fabric."""
    seen = groups.seen
    names = {groups.tier[frozenset(port)] for port in seen.through}
    tiers = (of(groups, name) for name in sorted(names - {HOST_TIER}))
    between = [tier for tier in tiers if tier is not None]
    if one.stage.kind != "link":
        return []
    if groups.name(one.stage) == HOST_TIER:
        if any(tier.mean > MAX_BUSY_BEHIND_HOST_LINKS for tier in between) and one.group:
            return ["the links between switches are more than half full, too"]
        return []
    if any(groups.tier.get(link) == groups.name(one.stage) for link in faults.down(seen)):
        return ["a link of that tier was down"]
    if len([tier for tier in between if tier.mean > IDLE_BUSY_SHARE]) > 1:
        return ["several tiers of switches are busy"]
    return []
