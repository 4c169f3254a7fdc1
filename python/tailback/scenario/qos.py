"""Code points of packets, and the plans of traffic classes at NICs and switches."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from tailback.scenario.classes import Classification
from tailback.scenario.model import Host, Scenario
from tailback.scenario.switch import Switch, Thresholds
from tailback.scenario.traffic import CONNECTION_ITEMS
from tailback.scenario.veth import BETWEEN_NAMESPACES


class CodePoint(NamedTuple):
    """DSCP of the IP header and priority (PCP) of the VLAN tag."""

    dscp: int
    pcp: int


def code_point(priority: int, dscp: int | None = None) -> CodePoint:
    """The code point of a priority; without a DSCP its class selector (RFC 2474, section 4.2.2)."""
    return CodePoint(8 * priority if dscp is None else dscp, priority)


def cnp_code_point(host: Host) -> CodePoint | None:
    """The code point of CNPs; None: that of the data packets that they answer."""
    return None if isinstance(host.cnp_priority, str) else code_point(host.cnp_priority)


def trim_code_point(switch: Switch) -> CodePoint | None:
    """The code point of trimmed packets; None: nothing is trimmed."""
    return None if switch.trimming is None else code_point(switch.trimming.priority)


def code_points(scenario: Scenario) -> list[CodePoint]:
    """All code points that packets of a run carry, each once, lowest first."""
    single = cnp_code_point(scenario.host), *map(trim_code_point, scenario.switch_of.values())
    found = {one for one in single if one is not None}
    for index, item in enumerate(scenario.traffic):
        if isinstance(item, BETWEEN_NAMESPACES):
            continue
        priorities = (
            {item.priority}
            if isinstance(item, CONNECTION_ITEMS)
            else _priorities(scenario, index, item.priority)
        )
        found.update(code_point(priority, item.dscp) for priority in priorities)
    return sorted(found)


def _priorities(scenario: Scenario, index: int, usual: int) -> set[int]:
    """Priorities of a traffic item whose messages may have different ones."""
    from tailback.workload import messages_of  # loads NumPy, which writers do not need

    table = messages_of(scenario, index)
    return {usual} if table is None else set(table.priority.tolist())


def classes(points: list[CodePoint], classification: Classification) -> list[int]:
    """The class of each code point."""
    return [classification.class_of(*point) for point in points]


def strict_of(host: Host) -> list[int]:
    """Classes of the NIC with strict priority."""
    if host.strict is not None:
        return list(host.strict)
    point = cnp_code_point(host)
    return [] if point is None else [host.qos.class_of(*point)]


def weights_plan(weights: dict[int, int] | None) -> list[int] | None:
    """Weights by class, for the plan."""
    return None if weights is None else [weights.get(priority, 0) for priority in range(8)]


def trimming_plan(switch: Switch, points: list[CodePoint]) -> dict[str, Any] | None:
    """Trimming, for the plan."""
    point = trim_code_point(switch)
    if switch.trimming is None or point is None:
        return None
    return switch.trimming.plan(code_point=points.index(point))


def pools_plan(switch: Switch, shared_bytes: int) -> dict[str, int] | None:
    """The two buffer pools, for the plan."""
    if switch.pools is None:
        return None
    lossless, lossy = switch.pools.split(shared_bytes)
    return {"lossless_bytes": lossless, "lossy_bytes": lossy}


def ecn_plan(switch: Switch, rates: Iterable[int]) -> list[dict[str, Any]]:
    """ECN thresholds of each marked priority: one entry for all rates, or one for each rate."""
    own = [priority for ecn in switch.ecn_by_priority for priority in ecn.priorities]
    entries: list[tuple[Thresholds, list[int]]] = [
        (ecn, list(ecn.priorities)) for ecn in switch.ecn_by_priority
    ]
    if switch.ecn is not None:
        every = [priority for priority in range(8) if priority not in switch.strict]
        marked = every if switch.ecn.priorities is None else switch.ecn.priorities
        entries.insert(0, (switch.ecn, [priority for priority in marked if priority not in own]))
    return [
        {"rate_bps": rate, "priorities": priorities, "k_min": low, "k_max": high, "p_max": most}
        for ecn, priorities in entries
        if priorities
        for rate in (sorted(set(rates)) if ecn.by_rate else [None])
        for low, high, most in [ecn.at(rate or 0)]
    ]
