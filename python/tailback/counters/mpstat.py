"""`mpstat -P ALL`: what the cores of a Linux bridge did, over the whole run.

As mpstat of sysstat prints its averages (mpstat.c, write_plain_cpu_stats). Leaves out all cores that the
scenario does not list. The columns that the model has nothing of are there all the same, as 0: %usr, %nice,
%sys, %iowait, %steal and %gnice.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tailback.counters.style import Style

if TYPE_CHECKING:
    from tailback.recorded.run import Recorded

_COLUMNS = ("%usr", "%nice", "%sys", "%iowait", "%irq", "%soft", "%steal", "%guest", "%gnice", "%idle")

_WHEN = f"{'Average:':<11}"
"""Where a line of a moment has its time."""


def _cores(result: Recorded, node: str) -> list[dict[str, Any]]:
    found = [core for core in result.meta.get("bridge_cores") or [] if core["bridge"] == node]
    return sorted(found, key=lambda core: int(core["core"]))


def _line(cpu: str, core: dict[str, float]) -> str:
    irq, soft, guest = (100 * core[name] for name in ("irq", "softirq", "guest"))
    idle = max(0.0, 100.0 - irq - soft - guest)
    shares = (0.0, 0.0, 0.0, 0.0, irq, soft, 0.0, guest, 0.0, idle)
    return f"{_WHEN} {cpu:>4}" + "".join(f"{share:8.2f}" for share in shares)


def _render(result: Recorded, node: str) -> str:
    cores = _cores(result, node)
    names = ("irq", "softirq", "guest")
    mean = {name: sum(core[name] for core in cores) / len(cores) for name in names}
    head = f"{_WHEN}  CPU" + "".join(f"{column:>8}" for column in _COLUMNS)
    lines = [head, _line("all", mean), *(_line(str(core["core"]), core) for core in cores)]
    return "\n".join(lines) + "\n"


STYLE = Style(
    name="mpstat",
    command="mpstat -P ALL",
    nodes=lambda result: [name for name in result.setup.network.bridges if _cores(result, name)],
    render=_render,
    needs="a Linux bridge",
)
