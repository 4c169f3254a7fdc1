"""A host taken out that no longer receives: its NIC pauses its port, and what is behind waits with it."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from tailback.explain.remedies import Case, Plan, Remedy
from tailback.recorded import standstill


def remedies(case: Case) -> Iterator[Remedy]:
    """Where a run stood still behind a port to a host that was paused all the time."""
    for fault in case.faults:
        host = fault.get("peer", "")
        if fault["kind"] == standstill.STANDING_STILL and host in case.seen.network.host_number:
            yield Remedy(
                "host",
                f"no traffic to {host}",
                f"Take {host} out of service, or repair what keeps its NIC from receiving: its GPU or memory, its "
                "driver, its PCIe.",
                edit=partial(without, host=host),
                where=host,
                why=f"The NIC of {host} takes no packets and pauses its port, so all that waits for {host} in the "
                "same class also blocks traffic to others.",
                headline=f"{host} no longer receives",
                repairs=True,
            )


def without(plan: Plan, host: str) -> Plan:
    """Without traffic to a host."""
    number = next(at for at, one in enumerate(plan["hosts"]) if one["name"] == host)
    flows = plan["flows"]
    return {
        **plan,
        "writers": [one for one in plan["writers"] if one["dst"] != host],
        "tcp_connections": [one for one in plan["tcp_connections"] if one["dst"] != host],
        "flows": {**flows, "list": [row for row in flows["list"] if row[1] != number]},
    }
