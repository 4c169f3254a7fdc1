"""Congestion control of hosts and traffic items: plans and conflicts.

The engine declares the controllers and their settings, see `tailback.scenario.controllers`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any

from tailback.errors import Path, found
from tailback.scenario.controllers import CONTROLLER_FACTS, Controllers
from tailback.scenario.fields import Section
from tailback.scenario.hosts import names
from tailback.scenario.model import Host, Scenario
from tailback.scenario.profiles import ControllerFacts, profiles_of, resolve


def about(scenario: Scenario, kind: str) -> ControllerFacts:
    """Facts about a controller."""
    if kind in CONTROLLER_FACTS:
        return CONTROLLER_FACTS[kind]
    uses = scenario.own_controllers[kind].uses
    return ControllerFacts(
        "",
        each_ack=uses["each_ack"],
        reads_switches=uses["telemetry"],
        counts_hops=uses["hop_count"],
        marks=uses["cnps"],
    )


def own(item: object) -> str | None:
    """The congestion control of a traffic item itself, if it names one."""
    kind: str | None = getattr(item, "congestion", None)
    return kind


def kinds(scenario: Scenario) -> list[str]:
    """All congestion controls of a scenario: first that of all hosts, then in order of appearance."""
    host = scenario.host
    items = [kind for item in scenario.traffic if (kind := own(item)) is not None]
    return list(
        dict.fromkeys([host.congestion, *(other.congestion for other in host.congestion_by_host), *items])
    )


def kind_of_hosts(scenario: Scenario) -> list[str]:
    """The congestion control of each host of the network."""
    host, every = scenario.host, scenario.network.hosts
    named = {
        name: other.congestion for other in host.congestion_by_host for name in names(other.hosts, every)
    }
    return [named.get(name, host.congestion) for name in every]


def section_of(host: Host, kind: str) -> Section | None:
    """The section of a controller; None if it has no settings."""
    part: Section | None = host.__dict__.get(kind) if kind in Controllers.model_fields else None
    return part


def ack_every(scenario: Scenario) -> tuple[int, str | None]:
    """Packets between two requests for an ACK, and the reason if it is not the default."""
    host = scenario.host
    if about(scenario, host.congestion).each_ack and "ack_every" not in host.transport.model_fields_set:
        return 1, f"{host.congestion} takes an ACK of each packet"
    return host.transport.ack_every, None


def needs_round_trip(scenario: Scenario) -> bool:
    """True if congestion control or the window of selective repeat depends on the network's round trip."""
    if has_window(scenario.host) and scenario.host.transport.window_packets is None:
        return True
    parts = [section_of(scenario.host, kind) for kind in kinds(scenario)]
    return any(value == "auto" for part in parts if part for value in part.__dict__.values())


def has_window(host: Host) -> bool:
    """True if the transport has a window: that of selective repeat."""
    return host.transport.loss_recovery == "selective-repeat"


def external_plan(scenario: Scenario, kind: str, rate_bps: int) -> dict[str, Any]:
    """The plan of a congestion control in Python; receivers send CNPs as for DCQCN."""
    dcqcn = resolve(scenario.host.dcqcn, rate_bps)
    cnps = {name: dcqcn[name].value for name in ("min_time_between_cnps", "cnp_interval_per")}
    return {"external": {"number": list(scenario.own_controllers).index(kind), **cnps}}


def congestion_plan(host: Host, kind: str, rate_bps: int, round_trip: int | None) -> dict[str, Any]:
    """The plan of a built-in congestion control of a NIC on a link of `rate_bps`, with `auto` resolved."""
    part = section_of(host, kind)
    if part is None:
        return {kind: {}}
    if profiles_of(part):
        return {kind: {name: one.value for name, one in resolve(part, rate_bps).items()}}
    values = part.__dict__.items()
    return {kind: {name: round_trip if value == "auto" else value for name, value in values}}


def telemetry_bytes(scenario: Scenario) -> int:
    """Maximum bytes that congestion control adds to a data packet."""
    own_controllers = scenario.own_controllers
    return max(
        own_controllers[kind].telemetry_bytes
        if kind in own_controllers
        else int(getattr(section_of(scenario.host, kind), "telemetry", 0))
        for kind in kinds(scenario)
    )


def congestion_conflicts(scenario: Scenario) -> Iterator[tuple[Path, str]]:
    """Conflicts of congestion control with the transport, the hosts and their links."""
    host, network = scenario.host, scenario.network
    if about(scenario, host.congestion).each_ack and ack_every(scenario)[0] != 1:
        yield (
            ("host", "transport", "ack_every"),
            f"found {host.transport.ack_every}, expected 1 with {host.congestion}, which takes an ACK of each"
            " packet",
        )
    seen: set[str] = set()
    for index, other in enumerate(host.congestion_by_host):
        place: Path = ("host", "congestion_by_host", index, "hosts")
        for name in names(other.hosts, network.hosts):
            if name not in network.host_number:
                yield place, f"found {found(name)}, expected hosts of the network"
                break
            if name in seen:
                yield place, f"found {name} again, expected hosts that no entry before has"
                break
            seen.add(name)
    for kind in kinds(scenario):
        yield from _refused(host, kind, network.host_rates)


def _refused(host: Host, kind: str, rates: Iterable[int]) -> Iterator[tuple[Path, str]]:
    """Parameters that the engine refuses."""
    from tailback._engine import check_controller

    part = section_of(host, kind)
    if part is None:
        return
    shown = part.model_dump()
    for rate in sorted(set(rates)):
        # Any round trip will do here: a resolved `auto` is never refused.
        plan = congestion_plan(host, kind, rate, 1)
        refused = check_controller(json.dumps(plan), rate, host.mtu)
        if refused is not None:
            name, expected = refused
            value = plan[kind][name] if shown[name] is None else shown[name]
            text = value if isinstance(value, str) and value[:1].isdigit() else found(value)
            yield ("host", kind, name), f"found {text}, expected {expected}"
            return
