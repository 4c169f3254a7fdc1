"""Linux bridges in the plan."""

from __future__ import annotations

from typing import Any

from tailback.scenario.bridge import Bridge
from tailback.scenario.model import Scenario
from tailback.scenario.qdisc import FqCodel, qdisc_plan
from tailback.wire import ETHERNET_HEADER_BYTES, RETH_BYTES, ROCE_HEADER_BYTES


def bridge_plans(scenario: Scenario) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Bridges and their kinds, as the engine takes them."""
    bridge, names = scenario.bridge, scenario.network.bridges
    if bridge is None:
        return [], []
    return (
        [{"name": name, "model": number} for number, name in enumerate(names)],
        [_model(scenario, bridge, name) for name in names],
    )


def _model(scenario: Scenario, bridge: Bridge, name: str) -> dict[str, Any]:
    place = {core.cpu: number for number, core in enumerate(bridge.cores)}
    ports = [bridge.port(wire.a) for wire in scenario.network.wires_of[name]]
    # A device's discipline counts the Ethernet header, too: Linux net/sched, `psched_mtu`.
    frame = scenario.host.mtu + ROCE_HEADER_BYTES + RETH_BYTES + ETHERNET_HEADER_BYTES
    qdisc = FqCodel(kind="fq_codel") if bridge.qdisc is None else bridge.qdisc
    return {
        "cores": [core.plan() for core in bridge.cores],
        "host": bridge.plan(),
        "costs": bridge.costs.plan(),
        "ports": [
            port.plan(
                irq_cores=[place[cpu] for cpu in bridge.irqs_of(port)],
                rss=port.rss or list(range(len(bridge.irqs_of(port)))),
            )
            for port in ports
        ],
        "rx": bridge.rx.plan(),
        "tx": bridge.tx.plan(),
        "bql": None if bridge.bql is None else bridge.bql.plan(),
        "frame_bytes": frame,
        "qdisc": qdisc_plan(qdisc, frame),
        "multiqueue": bridge.qdisc is None,
    }
