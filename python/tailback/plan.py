"""The plan: a scenario with nothing left to decide, as the engine takes it. All numbers are in base units."""

from __future__ import annotations

import json
from typing import Any

from tailback.scenario.checks import pairs
from tailback.scenario.dcqcn import resolve
from tailback.scenario.headroom import headroom, shared
from tailback.scenario.hosts import names
from tailback.scenario.model import Host, Scenario, Switch, Write

SWITCH = "sw0"
"""Name of the one switch of a star."""


def make_plan(scenario: Scenario) -> dict[str, Any]:
    """The plan of a scenario: plain data, times in ps, sizes in bytes, rates in bit/s, no defaults.

    Hosts, links and writers are in the order of the hosts and of the traffic list, which is also the order of
    their random streams.
    """
    link = scenario.topology.link
    hosts = [f"h{index}" for index in range(scenario.topology.hosts)]
    reserved = headroom(scenario)
    return {
        "name": scenario.name,
        "seed": scenario.run.seed,
        "duration_ps": scenario.run.duration,
        "hosts": [{"name": name, "nic": 0} for name in hosts],
        "nics": [_nic(scenario.host, link.rate)],
        "switches": [{"name": SWITCH, "model": 0}],
        "switch_models": [_switch(scenario.switch, shared(scenario))],
        "links": [
            {
                "a": name,
                "b": SWITCH,
                "rate_bps": link.rate,
                "delay_ps": link.delay,
                "loss": link.loss,
                "headroom_bytes": reserved,
            }
            for name in hosts
        ],
        "writers": [writer for i, item in enumerate(scenario.traffic) for writer in _writers(item, i)],
        "flows": {"tags": [], "list": []},
        "link_events": [],
        "record": {"max_bins": scenario.record.max_bins, "tracked_qps": scenario.record.qps},
    }


def plan_json(plan: dict[str, Any]) -> str:
    """A plan as the engine reads it."""
    return json.dumps(plan, allow_nan=False)


def _nic(host: Host, rate_bps: int) -> dict[str, Any]:
    dcqcn = {name: parameter.value for name, parameter in resolve(host.dcqcn, rate_bps).items()}
    first, full = host.transport.adaptive_timeout, host.transport.ack_timeout
    return {
        "mtu_bytes": host.mtu,
        "rx_latency_ps": host.rx_latency,
        "cnp_priority": host.cnp_priority,
        "transport": {
            "ack_every_packets": host.transport.ack_every,
            "ack_timeout_ps": full,
            "adaptive_timeout_ps": None if first is None else min(first, full),
            "retry_count": host.transport.retry_count,
        },
        "dcqcn": dcqcn if host.congestion == "dcqcn" else None,
    }


def _switch(switch: Switch, shared_bytes: int) -> dict[str, Any]:
    ecn, pfc = switch.ecn, switch.pfc
    return {
        "buffer_bytes": switch.buffer,
        "shared_bytes": shared_bytes,
        "latency_ps": switch.latency,
        "lossless": list(switch.lossless),
        "strict": list(switch.strict),
        "ecn": ecn and {"k_min_bytes": ecn.k_min, "k_max_bytes": ecn.k_max, "p_max": ecn.p_max},
        "ingress_alpha": switch.ingress_alpha,
        "egress_alpha": switch.egress_alpha,
        "pfc": {
            "xoff_bytes": pfc.xoff,
            "xon_bytes": pfc.xon,
            "xon_offset_bytes": pfc.xon_offset,
            "quanta": pfc.quanta,
            "response_delay_ps": pfc.response_delay,
        },
    }


def _writers(item: Write, index: int) -> list[dict[str, Any]]:
    turns = {host: turn for turn, host in enumerate(names(item.from_))}
    return [
        {
            "name": f"{item.kind}{index}",
            "src": source,
            "dst": to,
            "priority": item.priority,
            "qps": item.qps,
            "message_bytes": item.message,
            "tx_depth": item.depth,
            "messages": item.messages,
            # The opposite direction of a bidirectional pair starts with it.
            "start_ps": item.start + item.start_interval * turns.get(source, turns.get(to, 0)),
            "start_spread_ps": item.start_spread,
            "stop_ps": item.stop,
        }
        for source, to in pairs(item)
    ]
