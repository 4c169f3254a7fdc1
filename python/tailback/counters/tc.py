"""`tc -s qdisc show`: counters of a Linux host's queueing disciplines.

The format is that of iproute2 6.1 (tc/tc_qdisc.c, tc/tc_util.c and tc/q_*.c). Handles count up from 8001, as the
kernel assigns them to disciplines that were set without one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tailback.counters.tool import CounterTool
from tailback.recorded.run import Recorded

FIRST_HANDLE = 0x8001
"""Linux net/sched/sch_api.c, qdisc_alloc_handle."""
_KIB_BYTES = 1024
_RATE_UNITS = ("bit", "Kbit", "Mbit", "Gbit", "Tbit")

Numbers = Counter[str]
"""Counters of a device; missing ones are 0."""


def size_text(size: int) -> str:
    """A size in the format of tc: in Mb or Kb where it is nearly a whole number of them (tc_util.c, sprint_size)."""
    if size >= _KIB_BYTES**2 and abs(_KIB_BYTES**2 * round(size / _KIB_BYTES**2) - size) < _KIB_BYTES:
        return f"{round(size / _KIB_BYTES**2)}Mb"
    if size >= _KIB_BYTES and abs(_KIB_BYTES * round(size / _KIB_BYTES) - size) < 16:
        return f"{round(size / _KIB_BYTES)}Kb"
    return f"{size}b"


def time_text(us: float) -> str:
    """A time in the format of tc (tc_util.c, sprint_time)."""
    if us >= 1_000_000:
        return f"{us / 1_000_000:.3g}s"
    return f"{us / 1000:.3g}ms" if us >= 1000 else f"{us:.0f}us"


def rate_text(bps: int) -> str:
    """A rate in the format of tc: in the largest unit of which it is a whole number (tc_util.c, tc_print_rate)."""
    rate, unit = bps, 0
    while unit < len(_RATE_UNITS) - 1 and rate >= 1000 and (rate % 1000 == 0 or rate >= 1_000_000):
        rate, unit = rate // 1000, unit + 1
    return f"{rate}{_RATE_UNITS[unit]}"


def _codel(codel: Mapping[str, Any]) -> str:
    """The kernel stores units of 1024 ns: 5 ms become 4999 us, which tc prints as 5ms."""
    target, interval = (
        time_text((codel[name] // 10**6 * 1000 >> 10 << 10) // 1000) for name in ("target", "interval")
    )
    return f"target {target} interval {interval} "


def options(kind: str, plan: Mapping[str, Any]) -> str:
    """The settings of a discipline, in the format of its `print_qopt`."""
    own = plan.get("own", plan)
    match kind:
        case "pfifo":
            return f"limit {plan['limit']}p"
        case "bfifo":
            return f"limit {size_text(plan['limit'])}"
        case "red":
            limit, low, high = (size_text(plan[name]) for name in ("limit", "min", "max"))
            flags = "".join(f"{flag} " for flag in ("ecn", "harddrop") if plan[flag])
            return f"limit {limit} min {low} max {high} {flags}"
        case "tbf":
            waits = 1e6 * 8 * ((own["limit"] or 0) - own["burst"]) / own["rate"]
            latency = f"lat {time_text(waits)} " if waits >= 0 else ""
            return f"rate {rate_text(own['rate'])} burst {size_text(own['burst'])} {latency}"
        case "codel":
            return f"limit {own['limit']}p {_codel(plan['codel'])}" + ("ecn " if own["ecn"] else "")
        case "fq_codel":
            ecn = "ecn " if own["ecn"] else ""
            return (
                f"limit {own['limit']}p flows {own['flows']} quantum {own['quantum']} "
                f"{_codel(plan['codel'])}memory_limit {size_text(own['memory_limit'])} {ecn}"
                f"drop_batch {own['drop_batch']} "
            )
        case "sfq":
            return (
                f"limit {plan['limit']}p quantum {size_text(plan['quantum'])} "
                f"depth {plan['depth']} divisor {plan['divisor']} "
            )
    return ""


def own_counters(kind: str, n: Numbers) -> list[str]:
    """The lines of `print_xstats` of a discipline."""
    match kind:
        case "red":
            # The kernel has not counted anything as other since drop() was removed from disciplines.
            return [f"  marked {n['red_marked']} early {n['red_early']} pdrop {n['red_pdrop']} other 0 "]
        case "codel":
            dropping = " dropping" if n["codel_dropping"] else ""
            last, due = (time_text(n[f"codel_{name}_us"]) for name in ("ldelay", "drop_next"))
            return [
                f"  count {n['codel_count']} lastcount {n['codel_lastcount']} ldelay {last}{dropping}"
                f" drop_next {due}",
                f"  maxpacket {n['codel_maxpacket']} ecn_mark {n['codel_ecn_mark']} "
                f"drop_overlimit {n['codel_drop_overlimit']}",
            ]
        case "fq_codel":
            over_memory = n["fq_codel_drop_overmemory"]
            return [
                f"  maxpacket {n['fq_codel_maxpacket']} drop_overlimit {n['fq_codel_drop_overlimit']} "
                f"new_flow_count {n['fq_codel_new_flow_count']} ecn_mark {n['fq_codel_ecn_mark']}"
                + (f" drop_overmemory {over_memory}" if over_memory else ""),
                f"  new_flows_len {n['fq_codel_new_flows_len']} old_flows_len {n['fq_codel_old_flows_len']}",
            ]
    return []


def discipline(
    plan: Mapping[str, Any], n: Numbers, device: str, queues: int, handle: int, each: bool = False
) -> list[str]:
    """The lines of a device's discipline and its child.

    With a discipline for `each` transmit queue there is an `mq` above them, and one entry stands for all. They
    are the kernel's own, with handle 0 (sch_generic.c, attach_default_qdiscs).
    """
    ((kind, settings),) = plan.items()
    if each:
        root = [f"qdisc mq 0: dev {device} root ", *_common(n, "qdisc")]
        return root + _entry(kind, settings, n, "qdisc", f"0: dev {device} parent :1")
    lines = _entry(kind, settings, n, "qdisc", f"{handle:x}: dev {device} root refcnt {queues + 1}")
    # The child that tbf makes for its limit is not shown (sch_tbf.c: qdisc_hash_add).
    if kind == "tbf" and settings["child"] is not None:
        ((kind, settings),) = settings["child"].items()
        lines += _entry(kind, settings, n, "child", f"{handle + 1:x}: dev {device} parent {handle:x}:1")
    return lines


def _entry(kind: str, settings: Mapping[str, Any], n: Numbers, prefix: str, where: str) -> list[str]:
    head = f"qdisc {kind} {where} {options(kind, settings)}"
    return [head, *_common(n, prefix), *own_counters(kind, n)]


def _common(n: Numbers, prefix: str) -> list[str]:
    """Counters of all disciplines (tc_util.c, print_tcstats2_attr)."""
    size, packets, dropped = (n[f"{prefix}_{name}"] for name in ("sent_bytes", "sent_packets", "dropped"))
    over, requeues = (n[f"{prefix}_{name}"] for name in ("overlimits", "requeues"))
    backlog, waiting = (n[f"{prefix}_backlog_{name}"] for name in ("bytes", "packets"))
    return [
        f" Sent {size} bytes {packets} pkt (dropped {dropped}, overlimits {over} requeues {requeues}) ",
        f" backlog {size_text(backlog)} {waiting}p requeues {requeues}",
    ]


@dataclass(frozen=True)
class _Device:
    node: str
    name: str
    plan: Mapping[str, Any]
    queues: int
    """Transmit queues."""
    each: bool
    """True if each of them has its own discipline; their counters are summed."""


def _devices(result: Recorded) -> list[_Device]:
    return [*_bridge_ports(result.plan), *_veth_ends(result.plan)]


def _bridge_ports(plan: Mapping[str, Any]) -> list[_Device]:
    """Ports of bridges, in the order of their links, which is that of the model's ports."""
    found: list[_Device] = []
    for bridge in plan.get("bridges", []):
        name, model = bridge["name"], plan["bridge_models"][bridge["model"]]
        ends = [(link["a"], link["b"]) for link in plan["links"]]
        peers = [b if a == name else a for a, b in ends if name in (a, b)]
        found += [
            _Device(name, f"{name}:{peer}", model["qdisc"], len(port["irq_cores"]), model["multiqueue"])
            for peer, port in zip(peers, model["ports"], strict=True)
        ]
    return found


def _veth_ends(plan: Mapping[str, Any]) -> list[_Device]:
    """Ends of veth pairs, each with one transmit queue. noqueue has no counters, and is left out."""
    veths = [pair for pair in (plan.get("veth") or {"veths": []})["veths"] if pair["qdisc"] != "noqueue"]
    ends = [(pair[own], pair[peer], pair["qdisc"]) for pair in veths for own, peer in ("ab", "ba")]
    return [_Device(own, f"{own}-{peer}", qdisc, 1, False) for own, peer, qdisc in ends]


def _nodes(result: Recorded) -> list[str]:
    return list(dict.fromkeys(device.node for device in _devices(result)))


def render(result: Recorded, node: str) -> str:
    """The output for all devices of a node."""
    numbers: dict[str, Numbers] = {}
    rows = (result.counters.column(name).to_pylist() for name in ("node", "port", "counter", "value"))
    for owner, port, name, value in zip(*rows, strict=True):
        if owner == node:
            numbers.setdefault(port, Counter())[name] = value
    lines: list[str] = []
    handle = FIRST_HANDLE
    for device in (device for device in _devices(result) if device.node == node):
        counted = numbers.get(device.name, Counter())
        own = discipline(device.plan, counted, device.name, device.queues, handle, device.each)
        if not device.each:
            handle += sum(line.startswith("qdisc ") for line in own)
        lines += own
    return "\n".join(lines) + "\n"


TOOL = CounterTool("tc", "tc -s qdisc show", _nodes, render, "a Linux bridge, or a veth pair with a qdisc")
