"""`mlnx_qos -i`, and after it the file `/sys/class/net/eth1/qos/buffer_size`: classes and receive buffers.

The layout is that of MLNX_OFED (community documents DOC-2792 and DOC-2933): buffer 0 is that of the lossy
priorities, buffer 1 that of the lossless ones. What is not modelled is left out: DCBX and rate limits.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tailback.counters.style import Style, hosts, nic_of, path_of
from tailback.recorded.setup import ScenarioSetup
from tailback.scenario.hosts import check_entry, names

if TYPE_CHECKING:
    from tailback.recorded.run import Recorded

BUFFERS = 8


def _with_buffers(result: Recorded) -> list[str]:
    return [host for host in hosts(result) if path_of(result, host) is not None]


def render(result: Recorded, host: str) -> str:
    """Settings, as the run had them."""
    nic, path = nic_of(result, host), path_of(result, host)
    assert path is not None
    parts: list[dict[str, Any]] = [{}] * BUFFERS
    sizes = [0] * BUFFERS
    buffer_of = [0] * 8
    for part in path["receive_buffers"]:
        number, key = (0, "lossy_size") if part["xoff_bytes"] is None else (1, "lossless_size")
        parts[number], sizes[number] = part, path["receive_buffer"][key]
        for priority in part["priorities"]:
            buffer_of[priority] = number
    metres = _cable_len(result, host)
    lossless = [int(parts[number].get("xoff_bytes") is not None) for number in buffer_of]
    total = sum(sizes)
    text = [
        f"Receive buffer size (bytes): {','.join(map(str, sizes))},max_buffer_size={total}",
        *([] if metres is None else [f"Cable len: {metres}"]),
        "PFC configuration:",
        f"\tpriority    {_row(range(8))}",
        f"\tenabled     {_row(lossless)}",
        f"\tbuffer      {_row(buffer_of)}",
    ]
    for priority in range(8):
        text += [f"tc: {priority} ratelimit: unlimited, tsa: {_tsa(nic, priority)}"]
        text += [f"\t priority:  {priority}"]
    text += [
        "",
        f"Port buffer size = {total}",
        "Spare buffer size = 0",
        "Buffer  Size      xoff_threshold  xon_threshold",
    ]
    for number, (part, size) in enumerate(zip(parts, sizes, strict=True)):
        xoff, xon = part.get("xoff_bytes") or 0, part.get("xon_bytes") or 0
        text.append(f"{number:<7} {size:<9} {xoff:<15} {xon}")
    return "\n".join(text) + "\n"


def _cable_len(result: Recorded, host: str) -> int | None:
    """What the scenario says of the cable; the plan has only what follows from it."""
    if not isinstance(result.setup, ScenarioSetup):
        return None
    settings = result.setup.scenario["host"]
    path = settings["path"]
    for own in settings["path_by_host"]:
        entries = own["hosts"] if isinstance(own["hosts"], list) else [own["hosts"]]
        if any(check_entry(entry) for entry in entries):
            raise ValueError("path_by_host names no hosts")
        if host in names(tuple(entries), hosts(result)):
            path = own
    metres: int | None = path["receive_buffer"]["cable_len"]
    return metres


def _row(values: Any) -> str:
    return "".join(f"{value:<4}" for value in values).rstrip()


def _tsa(nic: Any, priority: int) -> str:
    """How the class of a priority is served: strict, a share (ets), or in turns (vendor)."""
    if priority in nic["strict"]:
        return "strict"
    weights = nic["weights"]
    return "vendor" if weights is None else f"ets, bw: {weights[priority]}%"


STYLE = Style("mlnx_qos", "mlnx_qos -i eth1", _with_buffers, render, "a host with host.path")
