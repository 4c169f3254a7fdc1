"""Jobs in the plan: ranks on hosts, and what they have to do."""

from __future__ import annotations

from typing import Any

from tailback.scenario.checks.jobs import chunks, groups_of, in_server
from tailback.scenario.collectives import USUAL, Step, is_job, steps_of
from tailback.scenario.model import Scenario
from tailback.scenario.qos import CodePoint, code_point


def job_plans(scenario: Scenario, points: list[CodePoint], number_of: dict[int, int]) -> list[dict[str, Any]]:
    """A job for each group of each traffic item; `number_of`: of items among those of single messages."""
    plans = []
    for index, item in enumerate(scenario.traffic):
        if not is_job(item):
            continue
        groups = groups_of(scenario, index)
        gpus = 1 if item.servers is None else item.servers.gpus
        for number, hosts in enumerate(groups):
            of_server = in_server(hosts, item)
            domain = None
            if item.servers is not None and item.servers.rate is not None:
                domain = {"rate": item.servers.rate, "latency": item.servers.latency}
            plans.append(
                {
                    "name": f"{item.kind}{index}" + (f"/{number}" if len(groups) > 1 else ""),
                    "item": number_of[index],
                    "code_point": points.index(code_point(item.priority, item.dscp)),
                    "ranks": hosts,
                    "servers": [host // gpus for host in hosts],
                    "domain": domain,
                    "reduce_rate": item.reduce_rate,
                    "queue_pairs": item.queue_pairs,
                    "start_ps": item.start,
                    "repeat": item.repeat,
                    "steps": [_step(scenario, step, len(hosts), of_server) for step in steps_of(item)],
                }
            )
    return plans


def _step(scenario: Scenario, step: Step, ranks: int, gpus: int) -> dict[str, Any]:
    if step.compute is not None:
        return {"compute": step.compute}
    if step.graph is not None:
        from tailback.workload import graph_of  # NumPy takes a while to load, and others do not need it

        return {"graph": graph_of(scenario, step.graph, ranks)}
    assert step.collective is not None
    assert step.size is not None
    return {
        "collective": {
            "kind": step.collective,
            "algorithm": step.algorithm or USUAL[step.collective],
            "bytes": step.size,
            "channels": step.channels,
            "chunks": chunks(step, ranks, gpus),
            "overlapped": step.overlap,
        }
    }
