"""Changes of a plan that no single setting makes: twice the capacity of a stage, nothing lost, longer timers.

Rates, clocks, credits, depths and sizes are doubled, costs and latencies halved. Failures and losses have no
capacity to double: they are taken away.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any

Plan = dict[str, Any]
Key = tuple[str, str]
"""Kind and place: `("link", "h0-sw0")`, `("memory", "h1")`."""
Doubling = Callable[[Plan], Plan]
PRIORITY_COUNT = 8
"""IEEE 802.1Q: what a port may have headroom for."""
LONGER_TIMER_FACTOR = 16
"""Factor of timers that fire too early: beyond any queue."""
WINDOW_PACKETS, REORDERING_PACKETS = 1024, 64
"""Window and reordering of a selective repeat in place of go-back-N, in packets."""
LOSSLESS_BUFFER_FACTOR = 64
"""How much larger buffers, and headroom, of a fabric are that loses nothing."""


def doublings(plan: Plan) -> dict[Key, Doubling]:
    """Each stage of this run that can be doubled, with what doubles it in a plan."""
    senders, receivers = _ends(plan)
    used = senders | receivers
    hosts = {host["name"] for host in plan["hosts"]}
    found: dict[Key, Doubling] = {}
    for number, link in enumerate(plan["links"]):
        names = {link["a"], link["b"]}
        if names & used or not names & hosts:
            found["link", f"{link['a']}-{link['b']}"] = partial(doubled_link, number=number)
    for one in plan.get("bridges", []):
        for kind, double in (("softirq", _faster_cores), ("ring", _longer_rings), ("qdisc", _wider_qdisc)):
            found[kind, one["name"]] = partial(_of_bridge, name=one["name"], edit=double)
    for host in sorted(receivers):
        path = _nic(plan, host)["host_path"]
        if path is None:
            continue
        credits = {"pcie.iio_lines": 2, "pcie.header_credits": 2}
        found["pcie", host] = partial(_host_path, host=host, factors={"pcie.rate": 2})
        found["credits", host] = partial(_host_path, host=host, factors=credits)
        if "memory" in path["target"]:
            found["memory", host] = partial(_host_path, host=host, factors={"target.memory.own.bandwidth": 2})
        else:
            faster = {"own.bandwidth": 2, "own.outstanding": 2, "own.hop_latency": 0.5}
            if path["target"]["gpu"]["stalls"] is not None:
                faster["stalls.duration"] = 0.5
            factors = {f"target.gpu.{key}": by for key, by in faster.items()}
            found["gpu", host] = partial(_host_path, host=host, factors=factors)
    for host in sorted(senders):
        path = _nic(plan, host)["host_path"]
        if path is not None and path["reads"] is not None:
            factors = {"reads.outstanding": 2, "pcie.rate": 2}
            found["reads", host] = partial(_host_path, host=host, factors=factors)
    for host in sorted({one[end] for one in plan["tcp_connections"] for end in ("src", "dst")}):
        found["cpu", host] = partial(_edit, host=host, part="cpu", factors={"clock": 2})
    for host in sorted({one["dst"] for one in plan["tcp_connections"]}):
        buffer = {"receive_buffer": 2}
        found["window", host] = partial(_edit, host=host, part="tcp", factors=buffer)
    for host in sorted({writer["src"] for writer in plan["writers"]}):
        found["window", host] = partial(_deeper, host=host)
    roce = plan["writers"] or plan["flows"]["list"] or plan.get("jobs")
    if roce and any("dcqcn" in nic["congestion"][0] for nic in plan["nics"]):
        found["throttle", ""] = _recovery
    return found


def _of_bridge(plan: Plan, name: str, edit: Callable[[Plan], None]) -> Plan:
    edited = copy.deepcopy(plan)
    number = next(one["model"] for one in plan["bridges"] if one["name"] == name)
    edit(edited["bridge_models"][number])
    return edited


def _faster_cores(model: Plan) -> None:
    """All that costs time on a core costs half of it."""
    for key in ("interrupt", "poll"):
        model["host"][key] //= 2
    for key, cost in model["costs"].items():
        model["costs"][key] = cost if key == "remote_factor" else type(cost)(cost / 2)


def _longer_rings(model: Plan) -> None:
    model["host"]["rx_ring"] *= 2


def _wider_qdisc(model: Plan) -> None:
    """Twice the rate of a shaper, twice the room and the thresholds of all others."""
    model["qdisc"] = wider(model["qdisc"])


def wider(qdisc: Any) -> Any:
    """A queueing discipline with twice its rate, or twice its room and thresholds."""
    if not isinstance(qdisc, dict):
        return qdisc
    edited = copy.deepcopy(qdisc)
    for settings in edited.values():
        own = settings.get("own", settings)
        # A shaper's burst is no room.
        for key in ("rate", "limit", "min", "max", *(["burst"] if "min" in own else [])):
            if own.get(key):
                own[key] *= 2
        settings.update({"child": wider(settings["child"])} if settings.get("child") else {})
    return edited


def _deeper(plan: Plan, host: str) -> Plan:
    writers = [{**one, "depth": one["depth"] * 2} if one["src"] == host else one for one in plan["writers"]]
    return {**plan, "writers": writers}


def _ends(plan: Plan) -> tuple[set[str], set[str]]:
    hosts = [host["name"] for host in plan["hosts"]]
    entries = [*plan["writers"], *plan["tcp_connections"]]
    pairs = [(entry["src"], entry["dst"]) for entry in entries]
    pairs += [(hosts[row[0]], hosts[row[1]]) for row in plan["flows"]["list"]]
    pairs += [(hosts[number], hosts[number]) for job in plan.get("jobs", ()) for number in job["ranks"]]
    return {src for src, _ in pairs}, {dst for _, dst in pairs}


def _nic(plan: Plan, host: str) -> Plan:
    number = next(one["nic"] for one in plan["hosts"] if one["name"] == host)
    nic: Plan = plan["nics"][number]
    return nic


def own_nic(plan: Plan, host: str) -> Plan:
    """Gives a host a kind of NIC of its own, to be edited."""
    nic = copy.deepcopy(_nic(plan, host))
    next(one for one in plan["hosts"] if one["name"] == host)["nic"] = len(plan["nics"])
    plan["nics"].append(nic)
    return nic


def _edit(plan: Plan, host: str, part: str, factors: Mapping[str, float]) -> Plan:
    edited = copy.deepcopy(plan)
    base = own_nic(edited, host)[part]
    for key, factor in factors.items():
        *where, last = key.split(".")
        place = base
        for name in where:
            place = place[name]
        place[last] = type(place[last])(place[last] * factor)
    return edited


def _host_path(plan: Plan, host: str, factors: Mapping[str, float]) -> Plan:
    return _edit(plan, host, "host_path", factors)


def doubled_link(plan: Plan, number: int) -> Plan:
    """Twice the rate, with the headroom that this takes."""
    edited = copy.deepcopy(plan)
    wire = edited["links"][number]
    wire["rate"] *= 2
    wire["headroom_bytes"] *= 2
    for model in edited["switch_models"]:
        # The pool stays as it is: the buffer grows by the headroom.
        model["buffer"] += PRIORITY_COUNT * wire["headroom_bytes"]
    for end in (wire["a"], wire["b"]):
        if end not in {host["name"] for host in edited["hosts"]}:
            continue
        path = own_nic(edited, end)["host_path"]
        for part in path["receive_buffers"] if path else []:
            if part["xoff_bytes"] is not None:
                sizes = path["receive_buffer"]
                sizes["lossless_size"] += sizes["lossless_size"] - part["xoff_bytes"]
    return edited


def _recovery(plan: Plan) -> Plan:
    """DCQCN that recovers twice as fast."""
    edited = copy.deepcopy(plan)
    for nic in edited["nics"]:
        if "dcqcn" in nic["congestion"][0]:
            reaction = nic["congestion"][0]["dcqcn"]
            for key, factor in (("rpg_ai_rate", 2), ("rpg_hai_rate", 2)):
                reaction[key] = reaction[key] * factor
            for key in ("rpg_time_reset", "rpg_byte_reset"):
                reaction[key] = max(reaction[key] // 2, 1 if reaction[key] else 0)
    return edited


def together(plan: Plan, doubles: Iterable[Doubling]) -> Plan:
    """A plan with all of them."""
    for double in doubles:
        plan = double(plan)
    return plan


def links(plan: Plan, numbers: Iterable[int]) -> Plan:
    """Twice the rate of these links."""
    for number in numbers:
        plan = doubled_link(plan, number)
    return plan


def longer_timers(plan: Plan) -> Plan:
    """Retransmission timers that wait longer."""
    edited = copy.deepcopy(plan)
    for nic in edited["nics"]:
        transport = nic["transport"]
        for key in ("rto_low", "rto_high", "adaptive_timeout"):
            if transport[key] is not None:
                transport[key] = min(transport["ack_timeout"], LONGER_TIMER_FACTOR * transport[key])
    return edited


def bears_reordering(plan: Plan) -> Plan:
    """Receivers place what comes out of order, and senders take little of it for lost."""
    edited = copy.deepcopy(plan)
    for nic in edited["nics"]:
        transport = nic["transport"]
        if transport["loss_recovery"] == "selective-repeat":
            transport["reordering"] = transport["window_packets"]
        else:
            transport |= {
                "loss_recovery": "selective-repeat",
                "window_packets": WINDOW_PACKETS,
                "reordering": REORDERING_PACKETS,
            }
    return edited


def lossless(plan: Plan) -> Plan:
    """Nothing is lost on the way, and buffers have room."""
    edited = copy.deepcopy(plan)
    for one in edited["links"]:
        one["loss"] = 0.0
        one["headroom_bytes"] *= LOSSLESS_BUFFER_FACTOR
    for model in edited["switch_models"]:
        model["buffer"] *= LOSSLESS_BUFFER_FACTOR
        model["shared_bytes"] = (
            model["shared_bytes"] * LOSSLESS_BUFFER_FACTOR if model["shared_bytes"] else model["shared_bytes"]
        )
    return edited
