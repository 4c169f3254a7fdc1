"""Truth for whole fabrics: how much sooner the same work is done with what a verdict names doubled, beside
what doubling anything else gives.

Links are doubled by tier as well as alone: of a fabric whose links are all busy no single one is worth
anything. What has no capacity to double is taken away instead: a failure, losses.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import explain_truth
import numpy as np
import pyarrow as pa
from explain_truth import TIE, doublings, record
from tailback.explain import Verdict, words
from tailback.explain.groups import Groups
from tailback.explain.remedies.patches import Doubling, Key, Plan, links, lossless, together
from tailback.plan import make_plan
from tailback.recorded.bins import Bins
from tailback.scenario import loads

WORK = 0.95
"""Of what the run delivered, the part whose time is compared: its last part may be one message."""
A_FEW_PERCENT = 0.05
NEAR = 0.8
"""What a verdict names is right if doubling it gives this part of what the best doubling gives."""
TWICE = 1.0
"""Twice the capacity carries twice as much at most. A doubling that gives more ended timeouts or moved
interrupts, and another may have done the same: what gives twice is as right."""
BROKEN = ("failed link", "loss")
"""An end to what is broken may give any gain."""

Group = tuple[str, str]
"""A kind of stage, and which of them."""


@dataclass
class Work:
    """Payload delivered over time, all receivers together."""

    edges_s: Any
    bytes: Any

    @classmethod
    def of(cls, plan: Plan) -> Work:
        recording = record(plan)
        meta = json.loads(recording.meta_json)
        end_ps = int(meta["end_ps"])
        bins = Bins(
            pa.table(recording.series), pa.table(recording.entities), max(1, int(meta["bin_ps"])), end_ps
        )
        rates = bins.total("goodput_rx_bps")
        edges = np.minimum(np.arange(len(rates) + 1) * bins.bin_s, end_ps / 1e12)
        return cls(edges, np.concatenate([[0.0], np.cumsum(rates * np.diff(edges) / 8)]))

    @property
    def total(self) -> float:
        return float(self.bytes[-1])

    def time(self, size: float) -> float:
        """Until so much was delivered, in seconds; as long again as it takes where it was not."""
        if size > self.total:
            return float(self.edges_s[-1] * size / self.total) if self.total else float("inf")
        return float(np.interp(size, self.bytes, self.edges_s))


@dataclass
class Truth:
    """What doubling each group gives: how much sooner the work is done, as a share."""

    plan: Plan
    base: Work
    gains: dict[Group, float] = field(default_factory=dict)

    def gain(self, changed: Plan) -> float:
        size = WORK * self.base.total
        if not size:
            return 1.0 if Work.of(changed).total else 0.0
        first = self.base.time(0.02 * size)
        begin = 0.0 if first < 0.5 * self.base.time(size) else first
        return (self.base.time(size) - begin) / max(1e-12, Work.of(changed).time(size) - begin) - 1

    @property
    def best(self) -> Group:
        found = max(self.gains, key=lambda one: self.gains[one], default=("none", ""))
        return found if self.gains.get(found, 0.0) >= A_FEW_PERCENT else ("none", "")


def tier(plan: Plan, link: Plan) -> str:
    """Which links a link is doubled with: hosts', or those between the same levels of switches."""
    level = levels(plan)
    low, high = sorted((level[link["a"]], level[link["b"]]))
    return f"{low}-{high}"


def levels(plan: Plan) -> dict[str, int]:
    """Links from each node to the nearest host."""
    peers: dict[str, list[str]] = {}
    for link in plan["links"]:
        peers.setdefault(link["a"], []).append(link["b"])
        peers.setdefault(link["b"], []).append(link["a"])
    found = {host["name"]: 0 for host in plan["hosts"]}
    frontier = list(found)
    while frontier:
        after = [peer for node in frontier for peer in peers.get(node, ()) if peer not in found]
        for peer in after:
            found[peer] = found[min(peers[peer], key=lambda one: found.get(one, 10**6))] + 1
        frontier = after
    return found


def groups(plan: Plan) -> dict[Group, Doubling]:
    """All that is doubled, or taken away, in turn."""
    found: dict[Group, Doubling] = {}
    tiers: dict[str, list[int]] = {}
    ends = {row[at] for row in plan["flows"]["list"] for at in (0, 1)}
    names = [host["name"] for host in plan["hosts"]]
    used = {names[at] for at in ends} | {one[end] for one in plan["writers"] for end in ("src", "dst")}
    used |= {one[end] for one in plan["tcp_connections"] for end in ("src", "dst")}
    used |= {names[number] for job in plan.get("jobs", ()) for number in job["ranks"]}
    hosts = set(names)
    for number, link in enumerate(plan["links"]):
        end = {link["a"], link["b"]} & hosts
        if not end or end & used:
            tiers.setdefault(tier(plan, link), []).append(number)
    for name, numbers in tiers.items():
        found["tier", name] = partial(links, numbers=numbers)
    everywhere: dict[str, list[Doubling]] = {}
    for (kind, _), double in doublings(plan).items():
        if kind != "link":
            everywhere.setdefault(kind, []).append(double)
    for kind, doubles in everywhere.items():
        found[kind, ""] = partial(together, doubles=doubles)
    if plan["failures"]:
        found["failed link", ""] = lambda one: {**one, "failures": []}
    if any(link["loss"] for link in plan["links"]) or loses(plan):
        found["loss", ""] = lossless
    return found


def loses(plan: Plan) -> bool:
    """Whether anything may be dropped for want of room."""
    return bool(plan["switches"])


def find(plan: Plan) -> Truth:
    """Doubles every group in turn."""
    if plan.get("veth") is not None:
        # Namespaces deliver packets, and have one of each stage.
        return Truth(plan, Work(np.zeros(1), np.zeros(1)), dict(explain_truth.find(plan, seeds=1).gains))
    truth = Truth(plan, Work.of(plan))
    for group, double in groups(plan).items():
        try:
            truth.gains[group] = truth.gain(double(plan))
        except ValueError:
            continue
    return truth


def said(plan: Plan, verdict: Verdict) -> Doubling | None:
    """What doubles all that a verdict names; nothing where it names nothing."""
    kind, where = verdict.key
    if kind == "none":
        return None
    first = verdict.candidates[0]
    if first.remedy is not None and first.remedy.sets:
        changed = make_plan(loads(verdict.seen.result.setup.scenario_yaml, sets=list(first.remedy.sets)))
        return lambda _: changed
    if kind == "link":
        seen = verdict.seen
        if first.group:
            ends = {link for link, name in Groups(seen).tier.items() if name == first.group}
        else:
            ends = {frozenset(where.split(":"))}
        numbers = [number for number, one in enumerate(plan["links"]) if {one["a"], one["b"]} in ends]
        return partial(links, numbers=numbers)
    kind = "loss" if kind == "headroom" else kind
    alone = None if verdict.candidates[0].group else doublings(plan).get((kind, where))
    return alone or groups(plan).get((kind, ""))


def said_gain(truth: Truth, verdict: Verdict, known: dict[Group, float | None]) -> float | None:
    """What doubling all that a verdict names gives; None where it names nothing."""
    if truth.plan.get("veth") is not None:
        return truth.gains.get(verdict.key)
    if verdict.key not in known:
        double = said(truth.plan, verdict)
        known[verdict.key] = None if double is None else truth.gain(double(truth.plan))
    return known[verdict.key]


def judge(truth: Truth, key: Key, gain: float | None) -> bool:
    """Whether a verdict is right: what it names is worth about as much as anything is."""
    best = max(
        (min(gain, TWICE) if group[0] not in BROKEN else gain for group, gain in truth.gains.items()),
        default=0.0,
    )
    if key == ("none", "") or gain is None:
        return best < A_FEW_PERCENT + TIE
    if key[0] == "headroom":
        # What is broken comes before what is slow.
        return gain >= A_FEW_PERCENT
    return gain >= A_FEW_PERCENT - TIE and gain >= min(NEAR * best, best - TIE)


def sure(verdict: Verdict) -> str:
    """The word for how sure a verdict is."""
    return words.page(verdict).sure.split(":")[0]
