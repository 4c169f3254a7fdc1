"""Intel PCM's view of a host path: `pcm-pcie` (DDIO), `pcm-memory`, and the occupancy of the IIO.

Names of events are those of `pcm-pcie -e`: ItoM are full lines that a device writes, PCIRdCur lines that it
reads. PCM separates memory reads from writes, but not cores from devices; the lines by owner exist only here. The
IIO occupancy is that of hostCC (Agarwal et al., SIGCOMM 2023), in cache lines. Reads of a NIC that does not fetch
its data (`host.path.reads: null`) are left out.
"""

from __future__ import annotations

from tailback.counters.tool import CounterTool, counters_of, host_path_of, hosts
from tailback.recorded.bins import PS_PER_S
from tailback.recorded.run import Recorded

CACHE_LINE_BYTES = 64
_MEMORY_OWNERS = (("cores", "cpu"), ("NIC", "nic"))
_ACCESS_KINDS = ("read", "write")


def _with_path(result: Recorded) -> list[str]:
    return [host for host in hosts(result) if host_path_of(result, host) is not None]


def render(result: Recorded, host: str) -> str:
    """Events and means over the whole run."""
    own, host_path = counters_of(result, host), host_path_of(result, host)
    assert host_path is not None
    seconds = int(result.meta["end_ps"]) / PS_PER_S
    lines: list[tuple[str, str]] = []
    reads = host_path["reads"] is not None
    if "memory" in host_path["target"]:
        for name in (*(["PCIRdCur_total"] if reads else []), "ItoM_total", "ItoM_miss", "ItoM_hit"):
            event, kind = name.split("_")
            lines.append((f"{event} ({kind})", str(own.get(name, 0))))
        written = own.get("ItoM_total", 0)
        if written:
            lines.append(("DDIO hit rate (%)", f"{100 * own.get('ItoM_hit', 0) / written:.1f}"))
    if result.records_all:
        bins = result.bins
        lines += [
            (f"IIO occupancy, {what} (cache lines)", f"{value / CACHE_LINE_BYTES:.1f}")
            for what, value in (
                ("mean", bins.mean(bins.values(f"{host}/iio", "queue_mean_bytes"), 0.0)),
                ("max", float(bins.values(f"{host}/iio", "queue_max_bytes").max(initial=0.0))),
            )
        ]
    names = {
        f"{what} by the {owner}": f"memory_{what}_bytes_{key}"
        for owner, key in _MEMORY_OWNERS
        for what in _ACCESS_KINDS
    }
    if "gpu" in host_path["target"]:
        names = {f"BAR1 {what} by the NIC": f"bar1_{what}_bytes" for what in _ACCESS_KINDS}
    if not reads:
        names = {what: name for what, name in names.items() if not what.endswith("read by the NIC")}
    rates = {what: own.get(name, 0) / seconds / 1e6 if seconds else 0.0 for what, name in names.items()}
    lines += [(f"{what} (MB/s)", f"{rate:.2f}") for what, rate in rates.items()]
    if "memory" in host_path["target"]:
        lines.append(("Memory Throughput (MB/s)", f"{sum(rates.values()):.2f}"))
    else:
        lines.append(("BAR1 stalled (us)", str(own.get("bar1_stalled_us", 0))))
    width = max(len(what) for what, _ in lines)
    return "".join(f"{what:<{width}}  {value}\n" for what, value in lines)


TOOL = CounterTool("pcm", "pcm-pcie -e, pcm-memory", _with_path, render, "a host with host.path")
