"""Of a Linux bridge: interrupts on more cores, byte queue limits, fq_codel."""

from __future__ import annotations

from collections.abc import Iterator

from tailback.explain.bridge import core_shares
from tailback.explain.remedies import Case, Remedy
from tailback.explain.stages import FULL_BUSY_SHARE

BRIDGE_CORES_TRIED = 4


def remedies(case: Case) -> Iterator[Remedy]:
    """Where a core is full, the rings have no limit, or the queueing discipline is a plain queue."""
    for bridge in sorted(case.seen.bridges):
        shares = core_shares(case.seen, bridge)
        if shares and max(shares.values()) >= FULL_BUSY_SHARE:
            cores = case.setting("bridge.cores") or []
            more = f"bridge.cores=[{', '.join(f'{{cpu: {number}}}' for number in range(BRIDGE_CORES_TRIED))}]"
            yield Remedy(
                "irqs",
                "interrupts on more cores",
                "Spread the interrupts of its ports over more cores (smp_affinity, RSS).",
                sets=("bridge.ports=[]", *((more,) if len(cores) < BRIDGE_CORES_TRIED else ())),
                where=bridge,
                why="One core takes most interrupts and has no time left, while others could take them.",
                headline=f"one core of {bridge} takes most interrupts",
            )
        if case.scenario.get("bridge") and case.setting("bridge.bql") is None:
            yield Remedy(
                "bql",
                "byte queue limits",
                "Turn on byte queue limits, so that packets wait in the queueing discipline and not in the ring.",
                sets=("bridge.bql={}",),
                where=bridge,
                why="Packets wait in transmit rings, where no discipline orders or drops them.",
                headline=f"transmit rings of {bridge} have no limit",
            )
        if case.setting("bridge.qdisc.kind") in ("pfifo", "bfifo") and case.drops:
            yield Remedy(
                "fq_codel",
                "fq_codel",
                "Use fq_codel, which gives each flow a queue and keeps them short.",
                sets=("bridge.qdisc={kind: fq_codel}",),
                where=bridge,
                why="All flows share one queue, which drops when it is full.",
                headline=f"all flows share one queue at {bridge}",
            )
