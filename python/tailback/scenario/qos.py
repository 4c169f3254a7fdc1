"""What packets carry for their priority, and the classes that nodes put them in."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from tailback.scenario.model import Scenario


class CodePoint(NamedTuple):
    """DSCP of the IP header and priority (PCP) of the VLAN tag."""

    dscp: int
    pcp: int


def of_priority(priority: int) -> CodePoint:
    """The marks of a priority: its class selector (RFC 2474, section 4.2.2) and itself."""
    return CodePoint(8 * priority, priority)


def cnp_code_point(scenario: Scenario) -> CodePoint:
    """The marks of CNPs."""
    return of_priority(scenario.host.cnp_priority)


def code_points(scenario: Scenario) -> list[CodePoint]:
    """All marks that packets of a run carry, each once, lowest first."""
    from tailback.workload import messages_of

    found = {cnp_code_point(scenario)}
    for index, item in enumerate(scenario.traffic):
        table = messages_of(scenario, index)
        priorities: Iterable[int] = [item.priority] if table is None else set(table.priority.tolist())
        found.update(of_priority(priority) for priority in priorities)
    return sorted(found)


def classes(points: list[CodePoint]) -> list[int]:
    """The class of each."""
    return [point.dscp >> 3 for point in points]
