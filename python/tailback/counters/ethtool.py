"""`ethtool -S` of an mlx5 port.

Names and their order are those of Linux's mlx5 driver (en_stats.c), their meaning that of NVIDIA,
"Understanding mlx5 ethtool counters". Counters of what is not modelled are left out, rather than printed as
0: those of queues of the kernel, errors of the link, global pauses, discards by priority.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from tailback.counters.style import Style, counted, counters_of, hosts, path_of, pfc_priorities

if TYPE_CHECKING:
    from tailback.recorded.run import Recorded

PRIORITIES = range(8)
PAUSES = (
    "rx_prio{}_pause",
    "rx_prio{}_pause_duration",
    "tx_prio{}_pause",
    "tx_prio{}_pause_duration",
    "rx_prio{}_pause_transition",
)
"""The driver has these of the priorities under PFC only."""
_PRIORITY = re.compile(r"prio\d")


def render(result: Recorded, host: str) -> str:
    """Counters of the whole run."""
    own = counters_of(result, host)
    # Of all priorities there is a row where one of them is counted; of what is not counted, none.
    known = {_PRIORITY.sub("prio{}", name) for name in counted(result)}
    lines = {name: own.get(name, 0) for name in ("rx_out_of_buffer",) if name in known}
    # The port's own totals. PFC frames are control frames and in neither.
    for way, unit in (("tx", "packets"), ("rx", "packets"), ("tx", "bytes"), ("rx", "bytes")):
        if f"{way}_prio{{}}_{unit}" in known:
            lines[f"{way}_{unit}_phy"] = sum(own.get(f"{way}_prio{prio}_{unit}", 0) for prio in PRIORITIES)
    of_path = ("outbound_pci_stalled_wr", "outbound_pci_stalled_wr_events")
    has_path = path_of(result, host) is not None
    for name in ("rx_discards_phy", *(of_path if has_path else ())):
        if name in known:
            lines[name] = own.get(name, 0)
    traffic = [f"{way}_prio{{}}_{unit}" for way in ("rx", "tx") for unit in ("bytes", "packets")]
    for priorities, names in ((PRIORITIES, traffic), (pfc_priorities(result, host), PAUSES)):
        for prio in priorities:
            for name in names:
                if name in known:
                    lines[name.format(prio)] = own.get(name.format(prio), 0)
    return "NIC statistics:\n" + "".join(f"     {name}: {value}\n" for name, value in lines.items())


STYLE = Style("ethtool", "ethtool -S eth1", hosts, render, "a host")
