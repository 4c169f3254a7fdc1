"""`mpstat -P ALL`: utilisation of a Linux bridge's cores, over the whole run.

The format is that of the averages of sysstat's mpstat (mpstat.c, write_plain_cpu_stats). Only cores that the
scenario lists are shown. Columns that the model does not have are 0: %usr, %nice, %sys, %iowait, %steal and
%gnice.
"""

from __future__ import annotations

from typing import Any

from tailback.counters.tool import CounterTool
from tailback.recorded.run import Recorded

_MPSTAT_COLUMNS = ("%usr", "%nice", "%sys", "%iowait", "%irq", "%soft", "%steal", "%guest", "%gnice", "%idle")

_AVERAGE_LABEL = f"{'Average:':<11}"
"""In the place of a time."""


def _cores(result: Recorded, node: str) -> list[dict[str, Any]]:
    found = [core for core in result.meta.get("bridge_cores") or [] if core["bridge"] == node]
    return sorted(found, key=lambda core: int(core["core"]))


def _line(cpu: str, core: dict[str, float]) -> str:
    irq, soft, guest = (100 * core[name] for name in ("irq", "softirq", "guest"))
    idle = max(0.0, 100.0 - irq - soft - guest)
    shares = (0.0, 0.0, 0.0, 0.0, irq, soft, 0.0, guest, 0.0, idle)
    return f"{_AVERAGE_LABEL} {cpu:>4}" + "".join(f"{share:8.2f}" for share in shares)


def _render(result: Recorded, node: str) -> str:
    cores = _cores(result, node)
    names = ("irq", "softirq", "guest")
    mean = {name: sum(core[name] for core in cores) / len(cores) for name in names}
    head = f"{_AVERAGE_LABEL}  CPU" + "".join(f"{column:>8}" for column in _MPSTAT_COLUMNS)
    lines = [head, _line("all", mean), *(_line(str(core["core"]), core) for core in cores)]
    return "\n".join(lines) + "\n"


TOOL = CounterTool(
    name="mpstat",
    command="mpstat -P ALL",
    nodes=lambda result: [name for name in result.setup.network.bridges if _cores(result, name)],
    render=_render,
    needs="a Linux bridge",
)
