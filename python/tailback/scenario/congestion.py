"""Which congestion control a host has: its plan, and what does not go together.

What there is and what it can be set to is declared in the engine, see `tailback.scenario.controllers`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any

from tailback.scenario.controllers import ABOUT
from tailback.scenario.errors import Path, found
from tailback.scenario.fields import Part
from tailback.scenario.model import Host
from tailback.scenario.profiles import profiles_of, resolve


def section_of(host: Host, kind: str) -> Part | None:
    """The section of a controller; None for one that has nothing to set."""
    part: Part | None = getattr(host, kind, None)
    return part


def ack_every(host: Host) -> tuple[int, str | None]:
    """Packets between two requests for an ACK, and the reason where that is not the setting's own default."""
    if ABOUT[host.congestion].each_ack and "ack_every" not in host.transport.model_fields_set:
        return 1, f"{host.congestion} takes an ACK of each packet"
    return host.transport.ack_every, None


def needs_round_trip(host: Host) -> bool:
    """Whether the host's congestion control is set to the round trip of the network."""
    part = section_of(host, host.congestion)
    return part is not None and any(value == "auto" for value in part.__dict__.values())


def congestion_plan(host: Host, rate_bps: int, round_trip: int | None) -> dict[str, Any]:
    """The plan of the congestion control of a NIC on a link of `rate_bps`, with `auto` worked out."""
    part = section_of(host, host.congestion)
    if part is None:
        return {host.congestion: {}}
    if profiles_of(part):
        return {host.congestion: {name: one.value for name, one in resolve(part, rate_bps).items()}}
    values = part.__dict__.items()
    return {host.congestion: {name: round_trip if value == "auto" else value for name, value in values}}


def telemetry_bytes(host: Host) -> int:
    """What congestion control adds to each data packet, in bytes."""
    return int(getattr(section_of(host, host.congestion), "telemetry", 0))


def congestion_conflicts(host: Host, rates: Iterable[int]) -> Iterator[tuple[Path, str]]:
    """What of the congestion control does not go with the transport, or with links of these rates."""
    from tailback._engine import check_controller

    kind = host.congestion
    if ABOUT[kind].each_ack and ack_every(host)[0] != 1:
        yield (
            ("host", "transport", "ack_every"),
            f"found {host.transport.ack_every}, expected 1 with {kind}, which takes an ACK of each packet",
        )
    part = section_of(host, kind)
    if part is None:
        return
    shown = part.model_dump()
    for rate in sorted(set(rates)):
        # Any round trip will do: where it is worked out it is no mistake of anyone's.
        plan = congestion_plan(host, rate, 1)
        refused = check_controller(json.dumps(plan), rate, host.mtu)
        if refused is not None:
            name, expected = refused
            value = plan[kind][name] if shown[name] is None else shown[name]
            text = value if isinstance(value, str) and value[:1].isdigit() else found(value)
            yield ("host", kind, name), f"found {text}, expected {expected}"
            return
