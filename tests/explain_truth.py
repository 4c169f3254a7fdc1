"""The truth that `tailback explain` is held to: the stage whose doubled capacity raises throughput most.

A stage is a kind and where it is: `("link", "h0-sw0")`, `("memory", "h1")`. Each is doubled in the plan, one
at a time, and the run repeated. Nothing here looks at what explain says, nor explain at anything here.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import explain_veth
import pyarrow as pa
from tailback._engine import Simulation
from tailback.explain import explain
from tailback.plan import plan_json
from tailback.recorded.bins import Bins
from tailback.results import Result

Plan = dict[str, Any]
Stage = tuple[str, str]
Doubling = Callable[[Plan], Plan]
NONE: Stage = ("none", "")

A_FEW_PERCENT = 0.05
"""No doubling that raises throughput by less makes its stage the bottleneck."""
TIE = 0.03
"""Two stages whose doublings gain as much to within this, as a share of the throughput, are a tie."""
WARM_UP = 0.25
"""Share of a run that no throughput is measured in."""


@dataclass(frozen=True)
class Truth:
    """The stage, and what each doubling gained as a share of the throughput."""

    stage: Stage
    gains: dict[Stage, float]

    @property
    def tied(self) -> list[Stage]:
        """All stages that gain as much as the first, to within `TIE`; `NONE` where it hardly gains."""
        best = max(self.gains.values(), default=0.0)
        near = [stage for stage, gain in self.gains.items() if gain >= max(best - TIE, A_FEW_PERCENT)]
        return [*near, NONE] if best < A_FEW_PERCENT + TIE else near


def record(plan: Plan) -> Any:
    """Runs a plan to its end."""
    simulation = Simulation(plan_json(plan))
    while not simulation.advance(1_000_000).done:
        pass
    return simulation.finish()


def throughput(plan: Plan, seeds: int) -> float:
    """Payload a second that all receivers took in order after the warm-up, bit/s, over some seeds; of
    namespaces, packets.
    """
    found = []
    for more in range(seeds):
        recording = record({**plan, "seed": plan["seed"] + more})
        meta = json.loads(recording.meta_json)
        if plan.get("veth") is not None:
            found.append(explain_veth.delivered(meta))
            continue
        end_ps = int(meta["end_ps"])
        bins = Bins(
            pa.table(recording.series), pa.table(recording.entities), max(1, int(meta["bin_ps"])), end_ps
        )
        found.append(bins.mean(bins.total("goodput_rx_bps"), WARM_UP * end_ps / 1e12))
    return sum(found) / seeds


def find(plan: Plan, seeds: int = 2) -> Truth:
    """Doubles every stage of a run in turn. Each figure is a mean over some seeds: one is one draw."""
    base = throughput(plan, seeds)
    gains = {
        stage: throughput(double(plan), seeds) / base - 1 if base else 0.0
        for stage, double in doublings(plan).items()
    }
    best = max(gains, key=lambda stage: gains[stage], default=NONE)
    return Truth(best if gains.get(best, 0.0) >= A_FEW_PERCENT else NONE, gains)


def doublings(plan: Plan) -> dict[Stage, Doubling]:
    """Each stage of this run that can be doubled, with what doubles it in a plan."""
    if plan.get("veth") is not None:
        return explain_veth.doublings(plan, wider)
    senders, receivers = _ends(plan)
    used = senders | receivers
    hosts = {host["name"] for host in plan["hosts"]}
    found: dict[Stage, Doubling] = {}
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
        credits = {"path.iio_lines": 2, "path.header_credits": 2}
        found["pcie", host] = partial(_path, host=host, factors={"path.rate": 2})
        found["credits", host] = partial(_path, host=host, factors=credits)
        if "memory" in path["target"]:
            found["memory", host] = partial(_path, host=host, factors={"target.memory.own.bandwidth": 2})
        else:
            faster = {"own.bandwidth": 2, "own.outstanding": 2, "own.hop_latency": 0.5}
            if path["target"]["gpu"]["stalls"] is not None:
                faster["stalls.duration"] = 0.5
            factors = {f"target.gpu.{key}": by for key, by in faster.items()}
            found["gpu", host] = partial(_path, host=host, factors=factors)
    for host in sorted(senders):
        path = _nic(plan, host)["host_path"]
        if path is not None and path["reads"] is not None:
            factors = {"reads.outstanding": 2, "path.rate": 2}
            found["reads", host] = partial(_path, host=host, factors=factors)
    for host in sorted({one[end] for one in plan["tcp_connections"] for end in ("src", "dst")}):
        found["cpu", host] = partial(_edit, host=host, part="cpu", factors={"clock": 2})
    for host in sorted({one["dst"] for one in plan["tcp_connections"]}):
        buffer = {"receive_buffer": 2}
        found["window", host] = partial(_edit, host=host, part="tcp", factors=buffer)
    for host in sorted({writer["src"] for writer in plan["writers"]}):
        found["window", host] = partial(_deeper, host=host)
    roce = plan["writers"] or plan["flows"]["list"]
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


def _edit(plan: Plan, host: str, part: str, factors: dict[str, float]) -> Plan:
    edited = copy.deepcopy(plan)
    base = own_nic(edited, host)[part]
    for key, factor in factors.items():
        *where, last = key.split(".")
        place = base
        for name in where:
            place = place[name]
        place[last] = type(place[last])(place[last] * factor)
    return edited


def _path(plan: Plan, host: str, factors: dict[str, float]) -> Plan:
    return _edit(plan, host, "host_path", factors)


def doubled_link(plan: Plan, number: int) -> Plan:
    """Twice the rate, with the headroom that this takes."""
    edited = copy.deepcopy(plan)
    wire = edited["links"][number]
    wire["rate"] *= 2
    wire["headroom_bytes"] *= 2
    for model in edited["switch_models"]:
        # The pool stays as it is: the buffer grows by the headroom.
        model["buffer"] += 8 * wire["headroom_bytes"]
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


def named(stage: Stage) -> Stage:
    """A stage by a name that truth and verdict share: a link by its ends in alphabetical order."""
    kind, where = stage
    if kind == "link":
        where = "-".join(sorted(where.replace(":", "-").split("-")))
    return kind, where


def answer(scenario: Any, plan: Plan) -> Stage:
    """What explain says of a plan's run, with its name hidden."""
    result = Result.from_recording(scenario, {**plan, "name": "hidden"}, record(plan), 1.0, 1.0, False)
    result.meta["name"] = "hidden"
    verdict = explain(result)
    if verdict.key != NONE and verdict.candidates and verdict.candidates[0].group:
        # Stages are doubled one by one here: of a group the strongest counts.
        return named(verdict.candidates[0].stage.key)
    return named(verdict.key)
