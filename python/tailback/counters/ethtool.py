"""`ethtool -S` of a host's mlx5 port, and of a port of a switch with Linux's mlxsw driver.

Names and their order are those of the drivers: mlx5 (en_stats.c), with the meaning that NVIDIA gives them in
"Understanding mlx5 ethtool counters", and mlxsw (spectrum_ethtool.c), which has those of IEEE 802.3, clause
30, first. Counters of parts that are not modelled are left out instead of printed as 0: kernel queues, link
errors, global pauses, frame sizes.
"""

from __future__ import annotations

import re

from tailback.counters.tool import (
    CounterTool,
    counted,
    counted_at,
    counters_of,
    host_path_of,
    hosts,
    pfc_priorities,
    ports_of,
    switches,
)
from tailback.recorded.run import Recorded

PRIORITY_NUMBERS = range(8)
PFC_COUNTERS = (
    "rx_prio{}_pause",
    "rx_prio{}_pause_duration",
    "tx_prio{}_pause",
    "tx_prio{}_pause_duration",
    "rx_prio{}_pause_transition",
)
"""The mlx5 driver has these only for priorities under PFC."""
PORT_TOTALS = {
    "a_frames_transmitted_ok": "tx_prio{}_packets",
    "a_frames_received_ok": "rx_prio{}_packets",
    "a_octets_transmitted_ok": "tx_prio{}_bytes",
    "a_octets_received_ok": "rx_prio{}_bytes",
    "ecn_marked": "ecn_marked_tc_{}",
}
"""mlxsw: sums over all priorities. PFC frames are control frames, and are not included."""
BY_PRIORITY = {
    "rx_octets_prio": "rx_prio{}_bytes",
    "rx_frames_prio": "rx_prio{}_packets",
    "tx_octets_prio": "tx_prio{}_bytes",
    "tx_frames_prio": "tx_prio{}_packets",
    "rx_pause_prio": "rx_prio{}_pause",
    "rx_pause_duration_prio": "rx_prio{}_pause_duration",
    "tx_pause_prio": "tx_prio{}_pause",
    "tx_pause_duration_prio": "tx_prio{}_pause_duration",
}
BY_CLASS = {"tc_no_buffer_discard_uc_tc": "tc_no_buffer_discard_uc_tc_{}"}
_PRIORITY_PATTERN = re.compile(r"prio\d")


def _nodes(result: Recorded) -> list[str]:
    return [*hosts(result), *(port for switch in switches(result) for port in ports_of(result, switch))]


def render(result: Recorded, node: str) -> str:
    lines = _of_switch_port(result, node) if ":" in node else _of_host(result, node)
    return "NIC statistics:\n" + "".join(f"     {name}: {value}\n" for name, value in lines.items())


def _of_host(result: Recorded, host: str) -> dict[str, int]:
    own = counters_of(result, host)
    # A counter has rows for all priorities if it is counted for one of them, else none.
    known = {_PRIORITY_PATTERN.sub("prio{}", name) for name in counted(result)}
    lines = {name: own.get(name, 0) for name in ("rx_out_of_buffer",) if name in known}
    # Totals of the port. PFC frames are control frames, and are not included.
    for way, unit in (("tx", "packets"), ("rx", "packets"), ("tx", "bytes"), ("rx", "bytes")):
        if f"{way}_prio{{}}_{unit}" in known:
            lines[f"{way}_{unit}_phy"] = sum(
                own.get(f"{way}_prio{prio}_{unit}", 0) for prio in PRIORITY_NUMBERS
            )
    of_path = ("outbound_pci_stalled_wr", "outbound_pci_stalled_wr_events")
    has_path = host_path_of(result, host) is not None
    for name in ("rx_discards_phy", *(of_path if has_path else ())):
        if name in known:
            lines[name] = own.get(name, 0)
    traffic = [f"{way}_prio{{}}_{unit}" for way in ("rx", "tx") for unit in ("bytes", "packets")]
    for priorities, names in ((PRIORITY_NUMBERS, traffic), (pfc_priorities(result, host), PFC_COUNTERS)):
        for prio in priorities:
            for name in names:
                if name in known:
                    lines[name.format(prio)] = own.get(name.format(prio), 0)
    return lines


def _of_switch_port(result: Recorded, port: str) -> dict[str, int]:
    lines: dict[str, int] = {}
    for name, counter in PORT_TOTALS.items():
        found = [counted_at(result, port, counter, priority) for priority in PRIORITY_NUMBERS]
        known = [value for value in found if value is not None]
        if known:
            lines[name] = sum(known)
    for names in (BY_PRIORITY, BY_CLASS):
        for priority in PRIORITY_NUMBERS:
            for name, counter in names.items():
                value = counted_at(result, port, counter, priority)
                if value is not None:
                    lines[f"{name}_{priority}"] = value
    return lines


TOOL = CounterTool("ethtool", "ethtool -S eth1", _nodes, render, "a host or a port of a switch")
