"""Warnings about settings that are possible but probably mistakes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pydantic import BaseModel

from tailback.scenario.checks import host_sets
from tailback.scenario.congestion import has_window
from tailback.scenario.hosts import ALL_HOSTS, names
from tailback.scenario.model import Scenario
from tailback.scenario.veth import BETWEEN_NAMESPACES
from tailback.text import verb


def warnings(scenario: Scenario) -> list[str]:
    """A line each."""
    return [
        *_without_effect(scenario),
        *_overtaken(scenario),
        *_left_out(scenario),
        *_unlike_ends(scenario),
    ]


def _without_effect(scenario: Scenario) -> Iterator[str]:
    """Settings that are not their defaults, and that nothing looks at."""
    transport, switch = scenario.host.transport, scenario.switch
    selective = ("window_packets", "reordering", "rto_low", "rto_high")
    goes_back = ("slow_restart", "adaptive_timeout", "nak_delay", "nak_reaction")
    ignored = goes_back if has_window(scenario.host) else selective
    given = [name for name in ignored if getattr(transport, name) != _default(transport, name)]
    if given:
        are = verb(len(given), "is", "are")
        under = f"under loss_recovery: {transport.loss_recovery}"
        yield f"host.transport.{', '.join(given)} {are} without effect {under}"
    if switch.load_balancing != "flowlet" and switch.flowlet_gap != _default(switch, "flowlet_gap"):
        yield f"switch.flowlet_gap is without effect under load_balancing: {switch.load_balancing}"


def _left_out(scenario: Scenario) -> Iterator[str]:
    """Hosts that are named in `from` or `to`, and could only send to themselves: no host does."""
    every = scenario.network.hosts
    for index, item in enumerate(scenario.traffic):
        if isinstance(item, BETWEEN_NAMESPACES) or not {"from", "to"} <= set(host_sets(item)):
            continue
        sets = host_sets(item)
        for field, other in (("from", "to"), ("to", "from")):
            named = names(tuple(entry for entry in sets[field] if entry != ALL_HOSTS), every)
            partners = names(sets[other], every)
            if len(partners) == 1 and len(named) > 1 and partners[0] in named:
                yield (
                    f"traffic.{index}.{field} names {partners[0]}, the only host in {other}: no host sends to itself, "
                    "so this is as if it were not named there"
                )


def _default(section: BaseModel, name: str) -> Any:
    return type(section).model_fields[name].default


def _overtaken(scenario: Scenario) -> list[str]:
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


def _unlike_ends(scenario: Scenario) -> Iterator[str]:
    """Links whose two switches treat the same packets differently."""
    found: dict[str, list[str]] = {}
    for wire in scenario.network.wires:
        ends = [scenario.switch_of[end] for end in (wire.a, wire.b) if end in scenario.switch_of]
        if len(ends) < 2 or ends[0] is ends[1]:
            continue
        one, other = ends
        if one.lossless != other.lossless:
            found.setdefault("have PFC for other priorities (lossless)", []).append(wire.name)
        if one.qos != other.qos:
            found.setdefault("put packets into other classes (qos)", []).append(wire.name)
    for what, links in found.items():
        more = f" and {len(links) - 1} more" if len(links) > 1 else ""
        yield f"the two ends of {links[0]}{more} {what}: packets run as each end treats them"
