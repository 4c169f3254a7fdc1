"""`mlnx_qos -i`, and after it the file `/sys/class/net/eth1/qos/buffer_size`: classes and receive buffers.

The layout is that of MLNX_OFED (community documents DOC-2792 and DOC-2933): buffer 0 is for lossy priorities,
buffer 1 for lossless ones. The model has no negotiation, so DCBX is in OS controlled mode; there are no rate
limits. N/A marks values that the run does not have: receive buffers of a host without `host.path`, and the trust
state of a NIC that trusts only its port.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tailback.counters.tool import CounterTool, host_path_of, hosts, nic_of, pfc_priorities
from tailback.recorded.run import Recorded
from tailback.recorded.setup import ScenarioSetup
from tailback.scenario.classes import Classification
from tailback.scenario.hosts import check_entry, names

BUFFER_COUNT = 8
DSCPS_PER_LINE = 8
NOT_AVAILABLE = "N/A"


def _with_nic(result: Recorded) -> list[str]:
    return hosts(result) if isinstance(result.setup, ScenarioSetup) else []


def render(result: Recorded, host: str) -> str:
    """The settings of the run."""
    host_path = host_path_of(result, host)
    sizes, of_priority, rows = (
        (NOT_AVAILABLE, [NOT_AVAILABLE] * 8, []) if host_path is None else _buffers(host_path)
    )
    metres = _cable_len(result, host)
    under_pfc = pfc_priorities(result, host)
    text = [
        "DCBX mode: OS controlled",
        *_trust(result),
        "default priority:",
        f"Receive buffer size (bytes): {sizes}",
        f"Cable len: {NOT_AVAILABLE if metres is None else metres}",
        "PFC configuration:",
        f"\tpriority    {_row(range(8))}",
        f"\tenabled     {_row(int(priority in under_pfc) for priority in range(8))}",
        f"\tbuffer      {_row(of_priority)}",
    ]
    for priority in range(8):
        text += [f"tc: {priority} ratelimit: unlimited, tsa: {_tsa(nic_of(result, host), priority)}"]
        text += [f"\t priority:  {priority}"]
    return "\n".join([*text, *rows]) + "\n"


def _trust(result: Recorded) -> list[str]:
    """The trust state, and the DSCPs of each priority."""
    assert isinstance(result.setup, ScenarioSetup)
    qos = Classification.model_validate(result.setup.scenario["host"]["qos"])
    if qos.trust != "dscp":
        return [f"Priority trust state: {NOT_AVAILABLE if qos.trust == 'port' else qos.trust}"]
    lines = ["Priority trust state: dscp", "dscp2prio mapping:"]
    for priority in range(8):
        own = [f"{dscp:02}," for dscp in reversed(range(64)) if qos.class_of(dscp, 0) == priority]
        for first in range(0, len(own), DSCPS_PER_LINE):
            lines.append(f"\tprio:{priority} dscp:{''.join(own[first : first + DSCPS_PER_LINE])}")
    return lines


def _buffers(host_path: Mapping[str, Any]) -> tuple[str, list[str], list[str]]:
    """The line of sizes, the buffer of each priority, and the lines of the file buffer_size."""
    parts: list[dict[str, Any]] = [{}] * BUFFER_COUNT
    sizes = [0] * BUFFER_COUNT
    buffer_of = ["0"] * 8
    for part in host_path["receive_buffers"]:
        number, key = (0, "lossy_size") if part["xoff_bytes"] is None else (1, "lossless_size")
        parts[number], sizes[number] = part, host_path["receive_buffer"][key]
        for priority in part["priorities"]:
            buffer_of[priority] = str(number)
    total = sum(sizes)
    rows = [
        "",
        f"Port buffer size = {total}",
        "Spare buffer size = 0",
        "Buffer  Size      xoff_threshold  xon_threshold",
    ]
    for number, (part, size) in enumerate(zip(parts, sizes, strict=True)):
        xoff, xon = part.get("xoff_bytes") or 0, part.get("xon_bytes") or 0
        rows.append(f"{number:<7} {size:<9} {xoff:<15} {xon}")
    return f"{','.join(map(str, sizes))},max_buffer_size={total}", buffer_of, rows


def _cable_len(result: Recorded, host: str) -> int | None:
    """The cable length in the scenario: the plan has only values derived from it."""
    if not isinstance(result.setup, ScenarioSetup):
        return None
    settings = result.setup.scenario["host"]
    host_path = settings["path"] or {}
    for own in settings["path_by_host"]:
        entries = own["hosts"] if isinstance(own["hosts"], list) else [own["hosts"]]
        if any(check_entry(entry) for entry in entries):
            raise ValueError("path_by_host names no hosts")
        if host in names(tuple(entries), hosts(result)):
            host_path = own
    metres: int | None = (host_path.get("receive_buffer") or {}).get("cable_len")
    return metres


def _row(values: Any) -> str:
    return "".join(f"{value:<4}" for value in values).rstrip()


def _tsa(nic: Any, priority: int) -> str:
    """Scheduling of a priority's class: strict, ets with a share, or vendor (round robin)."""
    if priority in nic["strict"]:
        return "strict"
    weights = nic["weights"]
    return "vendor" if weights is None else f"ets, bw: {weights[priority]}%"


TOOL = CounterTool("mlnx_qos", "mlnx_qos -i eth1", _with_nic, render, "a host with a NIC")
