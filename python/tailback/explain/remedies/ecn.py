"""ECN marking at switches, with DCQCN at hosts, where either is off; and thresholds that suit the rate of ports."""

from __future__ import annotations

from collections.abc import Iterator

from tailback.explain.remedies import Case, Remedy
from tailback.recorded.setup import ROCE
from tailback.scenario.presets import Fabric

OTHER_RATE_MIN_RATIO = 1.5
"""Thresholds that differ by more than this factor from those of the port's rate are of another rate."""


def remedies(case: Case) -> Iterator[Remedy]:
    """Where switches pause, drop or mark."""
    if (
        not case.plan["switches"]
        or not case.priorities.get(ROCE)
        or not (case.pauses or case.drops or case.marks)
    ):
        return
    rates = sorted({link["rate"] for link in case.plan["links"]})
    low = ", ".join(f"{_words(rate)}: {_thresholds(rate)[0]}B" for rate in rates)
    high = ", ".join(f"{_words(rate)}: {_thresholds(rate)[1]}B" for rate in rates)
    thresholds = (f"switch.ecn={{k_min: {{{low}}}, k_max: {{{high}}}}}",)
    off = case.setting("switch.ecn") is None and not case.setting("switch.ecn_by_priority")
    uncontrolled = case.setting("host.congestion") == "none"
    if off or uncontrolled:
        yield Remedy(
            "ecn",
            "ECN and DCQCN on" if off and uncontrolled else "ECN on" if off else "DCQCN on",
            "Mark at switches before queues fill, and let senders slow down for it: ECN and DCQCN.",
            sets=(*(thresholds if off else ()), *(_dcqcn(rates[0]) if uncontrolled else ())),
            where="all",
            why="No congestion control slows senders down, so PFC stops whole ports instead, with all the "
            "traffic that passes them.",
            headline="senders are stopped by PFC, as ECN or DCQCN is off",
            repairs=True,
        )
    elif any(_far(case, rate) for rate in rates):
        yield Remedy(
            "ecn",
            "ECN thresholds for the rate of each port",
            "Set ECN thresholds in proportion to the rate of the port.",
            sets=thresholds,
            where="all",
            why="The thresholds are those of another rate.",
            headline="ECN thresholds do not suit the rate of the ports",
            repairs=True,
        )


def _thresholds(rate_bps: int) -> tuple[int, int]:
    return Fabric(rate_bps // 10**9, "", "", 0).thresholds


def _words(rate_bps: int) -> str:
    return f"{rate_bps // 10**9}Gbps" if rate_bps % 10**9 == 0 else f"{rate_bps}bps"


def _dcqcn(rate_bps: int) -> tuple[str, ...]:
    gbps = rate_bps // 10**9
    return (
        "host.congestion=dcqcn",
        f"host.dcqcn.rpg_ai_rate={max(1, gbps // 5)}",
        f"host.dcqcn.rpg_hai_rate={max(1, gbps * 2)}",
    )


def _far(case: Case, rate_bps: int) -> bool:
    wanted = _thresholds(rate_bps)[0]
    given = [
        one["k_min"]
        for model in case.plan["switch_models"]
        for one in model["ecn"] or []
        if one["rate_bps"] in (None, rate_bps)
    ]
    return any(
        wanted and not wanted / OTHER_RATE_MIN_RATIO <= one <= wanted * OTHER_RATE_MIN_RATIO for one in given
    )
