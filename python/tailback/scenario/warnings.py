"""What a scenario may well not mean, though it is possible."""

from __future__ import annotations

from tailback.scenario.congestion import has_window
from tailback.scenario.model import Scenario


def warnings(scenario: Scenario) -> list[str]:
    """A line each."""
    how = scenario.switch.load_balancing
    if how not in ("spray", "adaptive") or len(scenario.network.switches) < 2:
        return []
    if not has_window(scenario.host):
        return [
            f"switch.load_balancing: {how} lets packets overtake each other, and each gap makes a NIC that "
            "goes back send again what was not lost: host.transport.loss_recovery: selective-repeat does not"
        ]
    if scenario.host.transport.reordering == 1:
        return [
            f"switch.load_balancing: {how} lets packets overtake each other, and with "
            "host.transport.reordering: 1 each of them counts as lost: allow for as many packets as one way "
            "may be longer than another"
        ]
    return []
