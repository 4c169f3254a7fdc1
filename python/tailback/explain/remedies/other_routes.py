"""Traffic spread over all routes: adaptive routing, or more queue pairs, where flows collide on one link while
another idles.
"""

from __future__ import annotations

from collections.abc import Iterator

from tailback.explain import tiers
from tailback.explain.groups import HOST_TIER
from tailback.explain.remedies import Case, Remedy, numbered
from tailback.explain.stages import Figure
from tailback.text import share

BUSY_LINK_MIN_LOAD = 0.6
"""A link that is busier than this may slow down what passes it."""
UNEVEN_MAX_MEAN_SHARE = 0.75
"""Where the mean of a tier is below this part of its fullest link, traffic is spread unevenly."""
MORE_QPS = 8
"""Factor for the number of queue pairs: enough to spread traffic evenly over a few routes."""


def remedies(case: Case) -> Iterator[Remedy]:
    """Where a link between switches is busy, and its tier is not."""
    tier = uneven(case)
    if tier is not None:
        yield from _remedies(case, tier)


def uneven(case: Case) -> tiers.Tier | None:
    """A tier of links between switches of which one is busy and others have room."""
    if not case.seen.by_flow:
        return None
    for name in sorted({*case.verdict.groups.tier.values()} - {HOST_TIER}):
        tier = tiers.of(case.verdict.groups, name)
        if tier is None:
            continue
        most = tier.uses[tier.fullest]
        if most >= BUSY_LINK_MIN_LOAD and tier.mean < UNEVEN_MAX_MEAN_SHARE * most:
            return tier
    return None


def why(tier: tiers.Tier) -> str:
    """Why it is uneven, in a sentence."""
    least = min(tier.uses, key=lambda port: tier.uses[port])
    return (
        f"Flows collide: {':'.join(tier.fullest)} is busy {share(tier.uses[tier.fullest])} of the time and "
        f"{':'.join(least)} {share(tier.uses[least])}, as ECMP gives each connection one route."
    )


def _remedies(case: Case, tier: tiers.Tier) -> Iterator[Remedy]:
    least = min(tier.uses, key=lambda port: tier.uses[port])
    figures = tuple(
        Figure(f"{':'.join(port)} wire", share(tier.uses[port]), "like the others of its tier")
        for port in (tier.fullest, least)
    )
    headline = "flows collide on one link while another has room"
    adaptive = "switch.load_balancing=adaptive"
    for name, says, sets in (
        (
            "adaptive routing",
            "Let switches choose the port with the shortest queue: adaptive routing.",
            (adaptive,),
        ),
        (
            "adaptive routing and selective repeat",
            "Let switches choose the port with the shortest queue, with a transport that takes reordered packets.",
            (
                adaptive,
                "host.transport.loss_recovery=selective-repeat",
                "host.transport.window_packets=1024",
                "host.transport.reordering=64",
            ),
        ),
        (
            f"{MORE_QPS} times as many queue pairs",
            "Use more queue pairs, which ECMP spreads over the links.",
            tuple(
                f"traffic.{number}.qps={MORE_QPS * item['qps']}" for number, item in numbered(case, "write")
            ),
        ),
    ):
        if sets:
            yield Remedy(
                "routing",
                name,
                says,
                sets=sets,
                where="all",
                why=why(tier),
                headline=headline,
                figures=figures,
                repairs=True,
            )
