"""Published experiments for the test of `tailback explain`: most runs in their quick form, names hidden.

Hosts of a published run are many and alike, so alike stages are doubled together: all receivers' links, all
links between switches, all receivers' CPUs. A verdict is right if its stage is one of the group. Where links
of senders and receivers have one rate and clocks of their own, neither is the bottleneck alone: they are
doubled together, too, and a verdict that names the links of hosts is one of that.
"""

from __future__ import annotations

from typing import Any

from explain_truth import A_FEW_PERCENT, NONE, TIE, Key, Plan, Truth, doublings, record, throughput
from tailback import library
from tailback.explain import trials
from tailback.plan import make_plan
from tailback.results import Result
from tailback.scenario import load, loads
from tailback.study.published import load_published

SETTLED_LATER = {"roce-rocks/fat-tree-all-to-all-lossy", "roce-rocks/tcp-all-to-all"}
"""Runs whose quick form ends while their queues still fill for the first time: the full form is judged, which
takes some ten minutes each."""
HOST_LINKS: Key = ("link", "hosts")
NEAR = 0.8
"""A change of settings is right if it gains this part of what the best stage does."""
LAST = 0.001
"""Traffic that begins in this share of a run, its last, is not what the run is about."""


def names() -> list[str]:
    """Every run of every published experiment, as `experiment/run`."""
    return [f"{name}/{run}" for name in library.published() for run in load_published(name).runs]


def plan_of(name: str, quick: bool) -> tuple[Any, Plan]:
    """The scenario of a run, in its quick form if so, and its plan."""
    experiment, run = name.split("/")
    one = load_published(experiment).runs[run]
    scenario = load(one.scenario, sets=[f"{key}={value}" for key, value in one.overrides(quick).items()])
    plan = make_plan(scenario)
    if plan["veth"] is not None:
        # A run of a ping alone has a flood that begins with its last millisecond: what a ping alone is like
        # is asked without it.
        late = (1 - LAST) * plan["run"]["duration"]
        plan["veth"]["datagrams"] = [one for one in plan["veth"]["datagrams"] if one["start"] < late]
    return scenario, plan


def role(plan: Plan, stage: Key) -> Key:
    """The group that a stage is doubled with."""
    if plan.get("veth") is not None:
        return stage
    kind, where = stage
    entries = [*plan["writers"], *plan["tcp_connections"]]
    receivers = {entry["dst"] for entry in entries}
    if kind == "link":
        hosts = {host["name"] for host in plan["hosts"]} & set(where.replace(":", "-").split("-"))
        return "link", "receivers" if hosts & receivers else "senders" if hosts else "switches"
    if kind in ("cpu", "ring", "reads", "window"):
        return kind, "receivers" if where in receivers else "senders"
    return kind, ""


def truth(plan: Plan) -> Truth:
    """Doubles the stages of each role together. All links of hosts are one more, where they gain more than
    those of senders or those of receivers alone.
    """
    roles: dict[Key, Plan] = {}
    for stage, double in doublings(plan).items():
        group = role(plan, stage)
        groups = [group, HOST_LINKS] if group in (("link", "senders"), ("link", "receivers")) else [group]
        for one in groups:
            roles[one] = double(roles.get(one, plan))
    base = throughput(plan, 1)
    gains = {group: throughput(changed, 1) / base - 1 for group, changed in roles.items()}
    alone = max((gains.get(("link", one), 0.0) for one in ("senders", "receivers")), default=0.0)
    if gains.get(HOST_LINKS, 0.0) <= alone + TIE:
        gains.pop(HOST_LINKS, None)
    best = max(gains, key=lambda one: gains[one])
    return Truth(best if gains[best] >= A_FEW_PERCENT else NONE, gains)


def judge(name: str) -> tuple[Truth, Key]:
    """Truth and verdict of a run, by role."""
    scenario, plan = plan_of(name, quick=name not in SETTLED_LATER)
    result = Result.from_recording(scenario, plan, record(plan), 1.0, 1.0, False)
    result.meta["name"] = "hidden"
    verdict = trials.answer(result)
    if verdict.key == NONE:
        return truth(plan), NONE
    found = truth(plan)
    remedy = verdict.candidates[0].remedy
    if remedy is not None and remedy.sets:
        # A change of settings is as right as the stage if it gains about as much.
        changed = make_plan(loads(result.setup.scenario_yaml, sets=list(remedy.sets)))
        gain = throughput(changed, 1) / throughput(plan, 1) - 1
        best = max(found.gains.values())
        return found, found.stage if gain >= NEAR * best else verdict.key
    if verdict.key == HOST_LINKS and HOST_LINKS in found.gains:
        return found, HOST_LINKS
    # Of a group of stages any says which role they have.
    return found, role(plan, verdict.candidates[0].stage.key)
