"""`ethtool -S` of an mlx5 port.

Names and their order are those of Linux's mlx5 driver (en_stats.c), their meaning that of NVIDIA,
"Understanding mlx5 ethtool counters". Counters of what is not modelled are left out, rather than printed as
0: those of queues of the kernel, errors of the link, global pauses, discards by priority.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tailback.counters.style import Style, counters_of, hosts, path_of, pfc_priorities

if TYPE_CHECKING:
    from tailback.results import Result

PRIORITIES = range(8)


def render(result: Result, host: str) -> str:
    """Counters of the whole run."""
    own = counters_of(result, host)
    lines: dict[str, int] = {"rx_out_of_buffer": own.get("rx_out_of_buffer", 0)}
    # The port's own totals. PFC frames are control frames and in neither.
    for way, unit in (("tx", "packets"), ("rx", "packets"), ("tx", "bytes"), ("rx", "bytes")):
        lines[f"{way}_{unit}_phy"] = sum(own.get(f"{way}_prio{prio}_{unit}", 0) for prio in PRIORITIES)
    lines["rx_discards_phy"] = own.get("rx_discards_phy", 0)
    if path_of(result, host) is not None:
        for name in ("outbound_pci_stalled_wr", "outbound_pci_stalled_wr_events"):
            lines[name] = own.get(name, 0)
    for prio in PRIORITIES:
        for way in ("rx", "tx"):
            for unit in ("bytes", "packets"):
                name = f"{way}_prio{prio}_{unit}"
                lines[name] = own.get(name, 0)
    for prio in pfc_priorities(result, host):  # the driver has no others
        for what in (
            "rx_prio{}_pause",
            "rx_prio{}_pause_duration",
            "tx_prio{}_pause",
            "tx_prio{}_pause_duration",
            "rx_prio{}_pause_transition",
        ):
            name = what.format(prio)
            lines[name] = own.get(name, 0)
    return "NIC statistics:\n" + "".join(f"     {name}: {value}\n" for name, value in lines.items())


STYLE = Style("ethtool", "ethtool -S eth1", hosts, render, "a host")
