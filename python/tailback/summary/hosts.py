"""The figures of TCP and of the hosts' CPUs for the summary; sections without a subject are None."""

from __future__ import annotations

from typing import Any

import pyarrow.compute as pc

from tailback import measures
from tailback.files.json import number
from tailback.measures import Since, total_goodput
from tailback.recorded.run import Recorded
from tailback.recorded.setup import TCP
from tailback.recorded.traffic_items import items


def by_protocol(result: Recorded, since: Since) -> dict[str, Any]:
    """Flows, goodput and share of the total of each protocol that the traffic has."""
    spoken = sorted(set(items(result).values()))  # RoCE first
    rows = measures.hosts.connections(result).num_rows
    return {
        protocol: {
            "flows": rows if protocol == TCP else result.flows.num_rows - rows,
            "goodput_bps": number(total_goodput(result, since, protocol=protocol)),
            "share": number(measures.hosts.goodput_share(result, since, protocol=protocol)),
        }
        for protocol in spoken
    }


def tcp(result: Recorded) -> dict[str, Any] | None:
    """What became of TCP's segments."""
    rows = measures.hosts.connections(result)
    if not rows.num_rows:
        return None
    nics = [nic["tcp"] for nic in result.plan.get("nics", []) if nic.get("tcp")]
    counted = {
        name: measures.hosts.counted(result, column)
        for name, column in (
            ("segments", "packets_sent"),
            ("retransmitted_segments", "retransmitted_segments"),
            ("fast_recoveries", "fast_recoveries"),
            ("timeouts", "timeouts"),
            ("ece_received", "ece_received"),
        )
    }
    return {
        "control": nics[0]["control"] if nics else None,
        "ecn": nics[0]["ecn"] if nics else None,
        "min_rto_s": nics[0]["min_rto"] / 1e12 if nics else None,
        "connections": rows.num_rows,
        "connections_with_timeouts": int(pc.sum(pc.greater(rows.column("timeouts"), 0)).as_py() or 0),
        **counted,
        "retransmitted_share": number(measures.hosts.tcp_retransmitted_share(result)),
    }


def cpu(result: Recorded, since: Since) -> dict[str, Any] | None:
    """How busy the hosts' CPUs were: the busiest host and its busiest core, and every host."""
    shares = measures.hosts.cpu_shares(result, since)
    if not shares:
        return None
    busiest = max(shares, key=lambda host: shares[host])
    cores = measures.hosts.cores(result)
    of_busiest = [measures.hosts.core_share(core) for core in cores.get(busiest, [])]
    return {
        "busiest": busiest,
        "share": number(shares[busiest]),
        "cores": len(of_busiest),
        "busiest_core": max(of_busiest, default=None),
        "receivers": number(measures.hosts.receiver_cpu(result, since)),
        "rx_out_of_buffer": _ring_drops(result),
        "hosts": {host: number(share) for host, share in shares.items()},
    }


def _ring_drops(result: Recorded) -> int:
    counters = result.counters
    kept = pc.filter(counters, pc.equal(counters.column("counter"), "rx_out_of_buffer"))
    return int(pc.sum(kept.column("value")).as_py() or 0)
