"""Conflicts of RHCC and hostCC."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from tailback.errors import Path
from tailback.scenario.model import Host
from tailback.units import format_rate


def host_control_conflicts(host: Host, rates: Iterable[int]) -> Iterator[tuple[Path, str]]:
    """Conflicts between RHCC and hostCC, and with links of these rates."""
    line = min(rates)
    if host.rhcc.sender and host.rhcc.floor > line:
        yield (
            ("host", "rhcc", "floor"),
            f"found {format_rate(host.rhcc.floor)}, expected at most the link's rate, {format_rate(line)}",
        )
    for on, path in (
        (host.rhcc.receiver, ("host", "rhcc", "receiver")),
        (host.hostcc.enabled, ("host", "hostcc", "enabled")),
    ):
        if on and host.path is None and not host.path_by_host:
            yield (
                path,
                "found true, expected false without host.path: there is no IIO whose counter it could read",
            )
    if host.rhcc.receiver and host.hostcc.enabled:
        yield (
            ("host", "hostcc", "enabled"),
            "found true, expected false with rhcc.receiver: both set the CPUs' memory bandwidth",
        )
