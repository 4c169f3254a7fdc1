"""Measures the kernel's own veth pair under a flood and pings, and compares the model with it.

Each case has its own pair in two namespaces of this machine: costs are fitted while it is idle, then it is
flooded. The folder has all data of the scenario's own case, and the figures in the first lines of the report for
the others.
"""

from __future__ import annotations

import platform
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from tailback import running
from tailback.errors import InputError, Problem
from tailback.files.out_folder import OutFolder
from tailback.live.veth.cases import PFIFO_YAML, Case, figures, measured, parts
from tailback.live.veth.namespaces import COMMAND_NAME, CallFailed, Namespaces
from tailback.live.veth.recording import RING_ENTITY, recording
from tailback.metrics.veth import delivered_per_second, ping_loss, ping_rtt
from tailback.plan import make_plan
from tailback.scenario import Scenario, load
from tailback.scenario.qdisc import Noqueue
from tailback.scenario.veth import CONSUMER, UdpFlood

if TYPE_CHECKING:
    from tailback.results import Result

NOQUEUE_YAML = "{kind: noqueue}"
MAX_RULES = 100_000
_KERNEL_QDISCS = ("noqueue", "pfifo", "bfifo", "fq_codel", "sfq", "codel")


def run(
    scenario: Scenario,
    folder: OutFolder | None,
    *,
    report: bool = True,
    progress: Callable[[int], None] | None = None,
) -> Result:
    """Runs a scenario of a veth pair on the kernel's own, and the model with the fitted costs.

    Four cases, each as long as the run: the scenario's queueing discipline and none, without and with XDP at
    the consumer. Where the kernel lacks the discipline, pfifo is used. `progress` is called with the time of the
    run.

    Raises:
        InputError: the scenario has settings that no kernel has, or namespaces are not permitted.
    """
    _check(scenario)
    wall, cpu = time.perf_counter(), time.thread_time()
    kernel_veth: dict[str, Any] = {"kernel": platform.release(), "instead_of": None, "cases": []}
    with Namespaces() as there:
        try:
            own = measured(there, scenario, xdp=False)
            if isinstance(own, str):
                kernel_veth["instead_of"] = _kind(scenario)
                scenario = load(scenario, sets=[f"veth.qdisc={PFIFO_YAML}"])
                own = measured(there, scenario, xdp=False)
            if isinstance(own, str):
                raise InputError.at(COMMAND_NAME, own)
            kernel_veth["cases"].append(_compared(own))
            others = [(scenario, True)]
            if _kind(scenario) != "noqueue":
                bare = load(scenario, sets=[f"veth.qdisc={NOQUEUE_YAML}"])
                others = [(bare, False), (scenario, True), (bare, True)]
            for number, (one, xdp) in enumerate(others):
                if progress is not None:
                    progress((number + 1) * scenario.run.duration // (1 + len(others)))
                case = measured(there, one, xdp)
                kernel_veth["cases"].append(
                    _refused(one, xdp, case) if isinstance(case, str) else _compared(case)
                )
        except CallFailed as error:
            raise InputError.at(COMMAND_NAME, str(error)) from None
    from tailback.results import Result

    took = time.perf_counter() - wall, time.thread_time() - cpu
    made = recording(own, kernel_veth)
    result = Result.from_recording(own.scenario, make_plan(own.scenario), made, *took, False)
    if folder is not None:
        result.write(folder, report)
    return result


def _check(scenario: Scenario) -> None:
    veth, traffic = scenario.veth, scenario.traffic
    assert veth is not None
    found = [
        ("veth.ring", f"{veth.ring} entries", "256: a kernel's ring has no setting", veth.ring != 256),
        ("veth.bql", veth.bql, "none: no kernel's veth has byte queue limits", veth.bql != "none"),
        (
            "veth.qdisc",
            _kind(scenario),
            f"one of {', '.join(_KERNEL_QDISCS)}",
            _kind(scenario) not in _KERNEL_QDISCS,
        ),
        (
            "veth.consumer.rules",
            f"{veth.consumer.rules}",
            f"at most {MAX_RULES}: each is an instruction of a filter",
            veth.consumer.rules > MAX_RULES,
        ),
        (
            "traffic",
            ", ".join(item.kind for item in traffic),
            "a udp-flood and a ping, both to the consumer",
            sorted(item.kind for item in traffic) != ["ping", "udp-flood"]
            or any(getattr(item, "to", "") != CONSUMER for item in traffic),
        ),
    ]
    problems = [
        Problem(what, (), f"found {seen}, expected {wanted}") for what, seen, wanted, wrong in found if wrong
    ]
    if not problems:
        flood = scenario.traffic[parts(scenario)[0]]
        assert isinstance(flood, UdpFlood)
        if flood.interval or flood.start or flood.stop is not None:
            text = "found a flood with interval, start or stop, expected one as fast and long as it can"
            problems = [Problem("traffic", (), text)]
    if problems:
        raise InputError(problems)


def _kind(scenario: Scenario) -> str:
    assert scenario.veth is not None
    return "noqueue" if isinstance(scenario.veth.qdisc, Noqueue) else scenario.veth.qdisc.kind


def _refused(scenario: Scenario, xdp: bool, why: str) -> dict[str, Any]:
    return {"qdisc": _kind(scenario), "xdp": xdp, "refused": why}


def _compared(case: Case) -> dict[str, Any]:
    """The figures of a case: measured, and from the model."""
    model = running.run(case.scenario, report=False)
    ring = model.bins.values(RING_ENTITY, "queue_max_packets")
    return {
        "qdisc": _kind(case.scenario),
        "xdp": case.xdp,
        "refused": None,
        "fitted_packet_s": case.fitted.packet_ns / 1e9,
        "fitted_send_s": case.fitted.send_ns / 1e9,
        "idle_ping_s": case.fitted.ping_ns / 1e9,
        "kernel": figures(case),
        "model": {
            "ping_s": _or_none(ping_rtt(model)),
            "ping_median_s": _or_none(ping_rtt(model, 50)),
            "ping_loss": _or_none(ping_loss(model)),
            "delivered_per_s": delivered_per_second(model),
            "ring_packets": float(np.median(ring)),
        },
    }


def _or_none(value: float) -> float | None:
    return None if np.isnan(value) else value
